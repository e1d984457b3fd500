"""Write a page of the inspector into a text document: a paragraph for each row, its columns at tab stops.

Tables of the document are not used, because Qt lays out the whole table at every edit inside it: 14 values
took 3.4 ms to write and 2.2 ms to paint in tables, and take 0.8 and 1.1 ms in paragraphs.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextLength,
    QTextOption,
)

from npuviz.base.units import NARROW_NO_BREAK, THIN_SPACE
from npuviz.ui.inspector.fitting import GAP, Measure, fold_name
from npuviz.ui.inspector.page import Cell, Page, Section, Table, is_heading
from npuviz.ui.inspector.patch import Place, column_is_number
from npuviz.ui.theme.theme import SIZE_NOTE, Theme
from npuviz.workbench.selection import Selection

BAR_LENGTH = 3
BLOCK = "\u2588"
NO_BREAK = "\u00a0"
NEW_LINE = "\u2028"
"""Begins a line inside a paragraph."""
SWATCH, ESTIMATED = f"\u25a0{NO_BREAK}", f"\u2248{NO_BREAK}"
LABEL, LABEL_GAP = Cell(""), 15
"""Font of the names of fields, and pixels between the longest and its value."""
ROW_GAP, FIRST_GAP = 5, 12
"""Pixels between two rows, and between two sections."""
HEAD_GAP = 3
"""Pixels between the head of the page and the gap of its first row."""
LEADING = 2
"""Pixels between two lines of a row."""
FOLD = "fold"
"""Scheme of the links that fold and unfold a section by its number."""
OPEN, FOLDED = "\u25be", "\u25b8"
TEXT_ROLES = ("text", "text-muted", "warning", "error", "ok", "accent")

Fragment = tuple[str, QTextCharFormat]
"""A text and how it looks."""
Tab = tuple[int, bool]
"""A tab stop: pixels from the left, and whether the text ends there (right-aligned) or begins there."""
Font = Literal["ui", "mono"]


class Row(NamedTuple):
    """Place of a row in the document.

    block    number of its paragraph
    lead     tabs before its first column
    section  number of the section whose table it belongs to, -1 for a field
    """

    block: int
    lead: int
    section: int = -1


class PageWriter:
    """Writes one page with the present colours and fonts.

    links  selections that the links of the document lead to, by the number in their reference
    rows   every row of the document in the order of `patch.values`
    """

    def __init__(self, theme: Theme, document: QTextDocument, measure: Measure) -> None:
        self._theme = theme
        self._document = document
        self._measure = measure
        self._formats: dict[tuple[str, ...], QTextCharFormat] = {}
        fonts = {"ui": theme.font_ui(), "mono": theme.font_mono()}
        self._families: dict[str, list[str]] = {name: [font.family()] for name, font in fonts.items()}
        # The same line height for texts and numbers, so that rows are evenly spaced.
        self._height = LEADING + max(
            QFontMetrics(font).height() for font in (*fonts.values(), document.defaultFont())
        )
        self._changed: Collection[int] = ()
        self.links: list[Selection] = []
        self.rows: list[Row] = []

    def write(
        self,
        page: Page,
        folded: Collection[str],
        changed: Collection[int],
        widths_of: Callable[[int, Table], list[int]],
    ) -> None:
        """Write all of a page.

        folded     names of the sections whose contents are left out
        changed    ids of the cells that are marked as changed
        widths_of  pixels of the columns of the table of a section, by the section's number
        """
        self._changed = changed
        self._document.setHtml(self._head(page))
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        # Qt puts an empty paragraph behind a table.
        gap = QTextBlockFormat()
        gap.setLineHeight(HEAD_GAP, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor.setBlockFormat(gap)
        for number, section in enumerate(page.sections):
            self._section(cursor, number, section, folded)
            if section.table is not None:
                is_first = not (section.title or section.sentences or section.fields)
                above = FIRST_GAP if is_first and number else HEAD_GAP
                self._table(cursor, number, section.table, widths_of, above)
        cursor.endEditBlock()

    def write_values(
        self, changes: Iterable[tuple[Place, tuple[Cell, ...]]], changed: Collection[int]
    ) -> None:
        """Replace values of rows; cells whose id is in `changed` are marked."""
        self._changed = changed
        edit = QTextCursor(self._document)
        edit.beginEditBlock()
        for place, cells in changes:
            row = self.rows[place.row]
            fragments = self._cells(cells) if row.section < 0 else self._cell(cells[0], is_whole=True)
            self._replace(row, place.column, fragments)
        edit.endEditBlock()

    def is_between(self, row: Row, top: float, bottom: float) -> bool:
        """Return whether a row lies, at least in part, between two heights of the document."""
        block = self._document.findBlockByNumber(row.block)
        box = self._document.documentLayout().blockBoundingRect(block)
        return box.bottom() >= top and box.top() <= bottom

    # -- rows -----------------------------------------------------------------------------------------

    def _head(self, page: Page) -> str:
        """Return the head of the page (kind, title, subtitle) as HTML."""
        theme, muted = self._theme, self._theme.color("text-muted").name()
        mark = (theme.operator_color(page.op_type) if page.op_type else theme.color("accent")).name()
        subtitle = f'<br><span style="color:{muted}">{escape(breakable(page.subtitle))}</span>'
        return (
            f'<body style="color:{theme.color("text").name()}">'
            f'<table cellspacing="0" cellpadding="0" width="100%"><tr><td width="4" bgcolor="{mark}"></td>'
            f'<td style="padding-left:8px"><span style="color:{muted};font-size:{SIZE_NOTE}px">'
            f"{escape(page.kind)}</span><br>"
            f'<span style="font-size:15px;font-weight:600">{escape(breakable(page.title))}</span>'
            f"{subtitle if page.subtitle else ''}</td></tr></table></body>"
        )

    def _section(self, cursor: QTextCursor, number: int, section: Section, folded: Collection[str]) -> None:
        if section.title:
            mark = FOLDED if fold_name(section.title) in folded else OPEN
            look = self._note(f"{FOLD}:{number}", is_bold=True)
            self._paragraph(cursor, [(f"{mark}{NO_BREAK}{section.title.upper()}", look)], above=FIRST_GAP)
        for place, sentence in enumerate(section.sentences):
            gap = ROW_GAP if place or section.title or not number else FIRST_GAP
            self._paragraph(cursor, self._cell(sentence), above=gap, below=2)
        names = [self._measure.text(LABEL, item.label) for item in section.fields]
        room = max(names, default=0) + LABEL_GAP
        for place, item in enumerate(section.fields):
            is_first = not (place or section.title or section.sentences)
            above = FIRST_GAP if is_first and number else ROW_GAP
            text = [(f"{item.label}\t", self._look("text-muted")), *self._cells(item.cells)]
            # Lines after the first stand under the value.
            self._paragraph(cursor, text, [(room, False)], above=above, hang=room)
            self.rows.append(Row(cursor.blockNumber(), 0))

    def _table(
        self,
        cursor: QTextCursor,
        number: int,
        table: Table,
        widths_of: Callable[[int, Table], list[int]],
        above: int,
    ) -> None:
        muted = self._look("text-muted")
        if not table.rows:
            self._paragraph(cursor, [("none", muted)], above=above)
            return
        widths, is_number = widths_of(number, table), column_is_number(table)
        starts = [sum(widths[:column]) for column in range(len(widths))]
        tabs = [
            (start + width - GAP, True) if ends else (start, False)
            for start, width, ends in zip(starts, widths, is_number, strict=True)
        ]
        lead = int(is_number[0])
        stops = tabs[1 - lead :]
        head = [("\t" * lead + "\t".join(table.headers), self._note())]
        self._paragraph(cursor, head, stops, above=above, is_head=True)
        for row in table.rows:
            text: list[Fragment] = []
            for column, cell in enumerate(row[:1] if is_heading(row) else row):
                text += [("\t", muted)] if column or (lead and not is_heading(row)) else []
                text += self._cell(cell, is_whole=True)
            hang = starts[-1] if any(NEW_LINE in part for part, _ in text) else 0
            self._paragraph(cursor, text, stops, hang=hang, is_whole=True)
            self.rows.append(Row(cursor.blockNumber(), 0 if is_heading(row) else lead, number))
        if table.left_out:
            self._paragraph(cursor, [(f"and {table.left_out} more", muted)], above=2 * ROW_GAP)

    def _paragraph(
        self,
        cursor: QTextCursor,
        text: Sequence[Fragment],
        tabs: Sequence[Tab] = (),
        *,
        above: int = ROW_GAP,
        below: int = 0,
        hang: int = 0,
        is_head: bool = False,
        is_whole: bool = False,
    ) -> None:
        """Write one paragraph at the end.

        above, below  pixels between the paragraph and its neighbours
        hang      pixels from the left at which lines after the first begin
        is_head   draw a line under it
        is_whole  never break its lines
        """
        form = QTextBlockFormat()
        form.setTopMargin(above)
        form.setBottomMargin(below)
        form.setLineHeight(self._height, QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
        if hang:
            form.setLeftMargin(hang)
            form.setTextIndent(-hang)
        right, left = QTextOption.TabType.RightTab, QTextOption.TabType.LeftTab
        form.setTabPositions([QTextOption.Tab(at, right if ends else left) for at, ends in tabs])
        form.setNonBreakableLines(is_whole)
        if is_head:
            length = QTextLength(QTextLength.Type.PercentageLength, 100)
            form.setProperty(QTextFormat.Property.BlockTrailingHorizontalRulerWidth, length)
            form.setBackground(self._theme.color("border"))
        cursor.insertBlock(form)
        for part, look in text:
            cursor.insertText(part, look)

    def _replace(self, row: Row, column: int, fragments: Iterable[Fragment]) -> None:
        """Replace the text of a column between the tabs of a row."""
        block = self._document.findBlockByNumber(row.block)
        parts = block.text().split("\t")
        number = row.lead + column
        start = block.position() + sum(_units(part) + 1 for part in parts[:number])
        cursor = QTextCursor(block)
        cursor.setPosition(start)
        cursor.setPosition(start + _units(parts[number]), QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        for part, look in fragments:
            cursor.insertText(part, look)

    # -- values ---------------------------------------------------------------------------------------

    def _cells(self, cells: Sequence[Cell]) -> list[Fragment]:
        """Return the fragments of several cells in a row."""
        found = self._cell(cells[0]) if cells else []
        for cell in cells[1:]:
            found += [(f"{NO_BREAK}{NO_BREAK} ", self._look("text")), *self._cell(cell)]
        return found

    def _cell(self, cell: Cell, *, is_whole: bool = False) -> list[Fragment]:
        """Return the fragments of a cell; `is_whole` keeps it in one line, as numbers always are."""
        link = ""
        if cell.link is not None:
            link = f"#{len(self.links)}"
            self.links.append(cell.link)
        usual = "accent" if link else "text"
        if id(cell) in self._changed:
            usual = "changed"
        found: list[Fragment] = []
        if cell.is_estimated:
            # No underline: it would look like a link.
            found.append((ESTIMATED, self._look("estimated", link)))
        if cell.role in TEXT_ROLES:
            usual = cell.role
        elif cell.role:
            # Data colours are chosen for areas, not for text, so a swatch before the text shows them.
            found.append((SWATCH, self._look(cell.role, link)))
        if cell.fraction >= 0:
            found += self._bar(cell.fraction)
        return found + self._text(cell, self._look(usual, link), is_whole)

    def _text(self, cell: Cell, look: QTextCharFormat, is_whole: bool) -> list[Fragment]:
        if not cell.is_number:
            text = cell.text.replace(" ", NO_BREAK) if is_whole else breakable(cell.text)
            return [(_lines(text), look)]
        digits = QTextCharFormat(look)
        digits.setFontFamilies(self._families["mono"])
        # In a font of equal widths the space between groups of digits would be as wide as two digits.
        space = QTextCharFormat(look)
        space.setFontFamilies(self._families["ui"])
        found: list[Fragment] = []
        for place, part in enumerate(_lines(cell.text).replace(" ", NO_BREAK).split(THIN_SPACE)):
            found += [(NARROW_NO_BREAK, space)] if place else []
            found += [(part, digits)] if part else []
        return found

    def _bar(self, fraction: float) -> list[Fragment]:
        full, eighths = divmod(round(fraction * BAR_LENGTH * 8), 8)
        # A block of some eighths is as wide as a full one; its background shows beside it.
        part = chr(ord(BLOCK) + 8 - eighths) if eighths else ""
        done = f"{BLOCK * full}{part}"
        empty = BLOCK * (BAR_LENGTH - len(done))
        ground = self._theme.color("border")
        found: list[Fragment] = []
        for text, role in ((done, "compute"), (empty, "border")):
            look = QTextCharFormat(self._look(role))
            look.setBackground(ground)
            found += [(text, look)] if text else []
        return [*found, (NO_BREAK, self._look("text"))]

    def _look(self, role: str, link: str = "") -> QTextCharFormat:
        """Return the format of text in the colour of a role, with a link if given."""
        found = self._formats.get((role,))
        if found is None:
            found = self._formats[role,] = QTextCharFormat()
            found.setForeground(QColor(self._theme.color(role)))
        if not link:
            return found
        found = QTextCharFormat(found)
        found.setAnchor(True)
        found.setAnchorHref(link)
        return found

    def _note(self, link: str = "", *, is_bold: bool = False) -> QTextCharFormat:
        """Return the format of small text in the muted colour, with a link if given."""
        found = QTextCharFormat(self._look("text-muted", link))
        found.setProperty(QTextFormat.Property.FontPixelSize, SIZE_NOTE)
        if is_bold:
            found.setFontWeight(600)
        return found


def breakable(text: str) -> str:
    """Return a text that may be wrapped inside names (zero-width spaces), but not before units of measure."""
    whole = re.sub(r"(?<=\d) (?=[A-Za-z]+\b)", NO_BREAK, text)
    return re.sub(r"([/._])(?=\w)", "\\1\u200b", whole)


def _lines(text: str) -> str:
    """Return a text without tabs and paragraph ends, which separate columns and rows of the document."""
    return text.replace("\t", " ").replace("\n", NEW_LINE)


def _units(text: str) -> int:
    """Count the characters of a text as Qt does, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
