"""Shows a page of the inspector: text that can be selected, links, tables that can be copied."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape

from PySide6.QtCore import QMimeData, QPoint, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QResizeEvent,
    QTextCursor,
    QTextOption,
    QTextTable,
)
from PySide6.QtWidgets import QMenu, QTextBrowser, QWidget

from npuviz.base.units import NARROW_NO_BREAK, THIN_SPACE
from npuviz.ui.inspector.fitting import GAP, Measure, column_widths, fit_page, fold_name
from npuviz.ui.inspector.page import (
    Cell,
    Page,
    Section,
    Table,
    changed_cells,
    is_heading,
    page_as_text,
    plain,
    table_as_csv,
)
from npuviz.ui.inspector.patch import (
    Place,
    column_is_number,
    differing,
    document_tables,
    has_same_frame,
    reaches_into,
    replace_value,
    rows_of_tables,
    values,
)
from npuviz.ui.theme.theme import SIZE_NOTE, Theme
from npuviz.workbench.selection import Selection

BAR_LENGTH = 3
BLOCK = "\u2588"
MAX_TEXTS = 4096
"""Texts whose widths are kept: a step writes few that were not there before."""
MAX_LINKS = 20_000
"""Every value written anew brings its link; from this number on the page is made again."""
NO_BREAK = "\u00a0"
MARGIN = 8
NO_WIDTH = "\u200d"
"""Takes no room, and no line is broken behind it."""
LABEL, LABEL_GAP = Cell(""), 17
"""Font of the names of fields, and pixels between the longest and its value."""
ROUNDING = 8
"""Pixels that a table may be wider than its texts are measured."""
REFIT_MS = 30
REST_MS = 200
"""So long after the last step what cannot be seen is written too."""
FOLD = "fold"
"""Scheme of the links that fold and unfold a section by its number."""
OPEN, FOLDED = "\u25be", "\u25b8"
TEXT_ROLES = ("text", "text-muted", "warning", "error", "ok", "accent")


class InspectorView(QTextBrowser):
    """One page as rich text.

    followed  the Selection of a link that was clicked
    folded_changed  a section was folded or unfolded by its title
    page    what is shown, with all of its texts; `folded` holds the titles of folded sections
    """

    followed = Signal(object)
    folded_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.page = Page("", "")
        self.folded: frozenset[str] = frozenset()
        self._fitted = self.page
        self._last_fit: tuple[object, Page, Page] = None, self.page, self.page
        self._room = 0
        self._fonts: tuple[QFont, ...] = ()
        self._measure = Measure(lambda _cell: 0, lambda _cell, _text: 0, len)
        self._columns: dict[int, list[int]] = {}
        self._refit = QTimer(self, singleShot=True, interval=REFIT_MS)
        self._refit.timeout.connect(self._fit_again)
        self._links: list[Selection] = []
        self._changed: set[int] = set()
        self._marked: set[Place] = set()
        self._late: set[Place] = set()
        self._colors: dict[str, str] = {}
        self._struts = self._group_space = ""
        self._rest = QTimer(self, singleShot=True, interval=REST_MS)
        self._rest.timeout.connect(self._write_late)
        self.verticalScrollBar().valueChanged.connect(lambda _value: self._write_late())
        self.setOpenLinks(False)
        self.setFrameShape(QTextBrowser.Shape.NoFrame)
        self.setStyleSheet("QTextBrowser, QTextBrowser:focus { border: none; border-radius: 0; padding: 0; }")
        self.setWordWrapMode(QTextOption.WrapMode.WordWrap)
        self.setAccessibleName("Details of the selection")
        self.setAccessibleDescription("Left and Right walk through the links, Enter follows one")
        self.document().setDocumentMargin(MARGIN)
        self.anchorClicked.connect(self._follow)

    def show_page(self, page: Page, marks_changes: bool = True) -> None:
        """Show a page; for the same thing in a new state the place stays and changes may be marked."""
        is_same = (page.kind, page.title, page.subtitle) == (
            self.page.kind,
            self.page.title,
            self.page.subtitle,
        )
        if page == self.page and self._links:
            return
        place = self.verticalScrollBar().value() if is_same else 0
        self.page = page
        if not is_same:
            self._columns = {}
        old, self._fitted = self._fitted, self._fit(page)
        self._changed = changed_cells(old, self._fitted) if marks_changes else set()
        if is_same and self._links and self._patch(old):
            return
        self.refresh()
        self.verticalScrollBar().setValue(place)

    def focusNextPrevChild(self, next: bool) -> bool:
        """Tab leaves the page; Left and Right walk through its links."""
        return QWidget.focusNextPrevChild(self, next)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not event.modifiers():
            QTextBrowser.focusNextPrevChild(self, event.key() == Qt.Key.Key_Right)
        else:
            super().keyPressEvent(event)

    def set_folded(self, titles: Iterable[str]) -> None:
        """Fold the sections of these titles, on every page; all others are open."""
        self.folded = frozenset(titles)
        self._fit_again()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._room_now() != self._room:
            self._refit.start()

    def _room_now(self) -> int:
        # Always beside the scroll bar: it comes and goes while a text is laid out.
        bar = self.verticalScrollBar().sizeHint().width()
        return self.width() - bar - 2 * MARGIN - ROUNDING

    def _fit(self, page: Page) -> Page:
        """The page as it fits the width of now."""
        self._room = self._room_now()
        fonts = self.font(), self._theme.font_mono(), self._theme.font_ui()
        if fonts != self._fonts:
            self._fonts = fonts
            self._measure = _measure_of(*(_remembering(QFontMetrics(font)) for font in fonts))
        same = self._room, self.folded, tuple(font.key() for font in fonts)
        before = self._last_fit[1:] if self._last_fit[0] == same else None
        found = fit_page(page, self._room, self.folded, self._measure, before)
        self._last_fit = same, page, found
        return found

    def _fit_again(self) -> None:
        """Lay the page out for the width of now and for what is folded."""
        place = self.verticalScrollBar().value()
        self._columns = {}
        self._fitted, self._changed = self._fit(self.page), set()
        self.refresh()
        self.verticalScrollBar().setValue(place)

    def refresh(self) -> None:
        """Make the text again, in the colours of now."""
        self._links, self._late = [], set()
        self._colors, fonts = {}, (self._theme.font_ui(), self._theme.font_mono())
        # In a font of equal widths it would be as wide as two digits.
        ui_family = self._theme.font_ui().family()
        self._group_space = f'<span style="font-family:{ui_family}">{NARROW_NO_BREAK}</span>'
        self._struts = "".join(f'<span style="font-family:{f.family()}">{NO_WIDTH}</span>' for f in fonts)
        self.setHtml(self._html())
        self._marked = self._marked_places()

    def _marked_places(self) -> set[Place]:
        """Values that are marked as changed."""
        if not self._changed:
            return set()
        changed = self._changed
        return {
            place for place, cells in values(self._fitted) if not changed.isdisjoint([id(c) for c in cells])
        }

    def _patch(self, old: Page) -> bool:
        """Write only the values that differ from the page shown; False if that is not possible.

        What cannot be seen now is written when it comes into sight, or when one rests.
        """
        page = self._fitted
        if len(self._links) > MAX_LINKS or not has_same_frame(old, page):
            return False
        marked = self._marked_places()
        changes = list(differing(old, page, (marked ^ self._marked) | self._late))
        tables = document_tables(self.document())
        rows = rows_of_tables(page)
        if any(place.table >= len(tables) for place, _ in changes):
            return False
        if any(place.table in rows and self._is_too_wide(rows, place, cells[0]) for place, cells in changes):
            return False
        top = self.verticalScrollBar().value()
        bottom = top + self.viewport().height()
        numbers = {place.table for place, _ in changes}
        in_sight = {number for number in numbers if reaches_into(tables[number], top, bottom)}
        seen = [(place, cells) for place, cells in changes if place.table in in_sight]
        self._marked = marked
        self._late = {place for place, _ in changes} - {place for place, _ in seen}
        self._write(tables, seen)
        if self._late:
            self._rest.start()
        return True

    def _write_late(self) -> None:
        """Write what differs but could not be seen when it changed."""
        late, self._late = self._late, set()
        if late:
            changes = [(place, cells) for place, cells in values(self._fitted) if place in late]
            self._write(document_tables(self.document()), changes)

    def _write(self, tables: Sequence[QTextTable], changes: Iterable[tuple[Place, tuple[Cell, ...]]]) -> None:
        """Write values into tables of the document."""
        rows = rows_of_tables(self._fitted)
        edit = QTextCursor(self.document())
        edit.beginEditBlock()
        for place, cells in changes:
            shown = self._in_row(cells[0]) if place.table in rows else self._cells(cells)
            text = f'<span style="color:{self._color("text")}">{shown}</span>'
            replace_value(tables[place.table], place, text)
        edit.endEditBlock()

    def _is_too_wide(self, rows: Mapping[int, int], place: Place, cell: Cell) -> bool:
        """Whether a column must become wider for a value."""
        return self._measure.cell(cell) + GAP > self._columns[rows[place.table]][place.column]

    def _widths_of(self, number: int, table: Table) -> list[int]:
        """Pixels of the columns of a section's table; while its page is shown they do not shrink."""
        now = [width + GAP + 1 for width in column_widths(table, self._measure)]
        before = self._columns.get(number, now)
        widest = list(map(max, now, before)) if len(before) == len(now) else now
        self._columns[number] = widest if sum(widest) <= self._room + ROUNDING else now
        return self._columns[number]

    # -- copying --------------------------------------------------------------------------------------

    def createMimeDataFromSelection(self) -> QMimeData:
        """Numbers are copied without the thin spaces that group their digits."""
        self._write_late()
        data = QMimeData()
        data.setText(
            plain(
                self.textCursor()
                .selection()
                .toPlainText()
                .replace(NARROW_NO_BREAK, THIN_SPACE)
                .replace(NO_BREAK, " ")
            )
        )
        return data

    def copy_page(self) -> None:
        """Put the whole page on the clipboard as text."""
        QGuiApplication.clipboard().setText(page_as_text(self.page))

    def copy_table(self, section: Section) -> None:
        """Put the table of a section on the clipboard as CSV."""
        if section.table is not None:
            QGuiApplication.clipboard().setText(table_as_csv(section.table))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self._make_menu(event.pos()).popup(event.globalPos())

    def _make_menu(self, position: QPoint) -> QMenu:
        menu = QMenu(self)
        word = self.textCursor().hasSelection()
        menu.addAction("Copy selection", self.copy).setEnabled(word)
        menu.addAction("Copy page", self.copy_page)
        for section in self.page.sections:
            if section.table is not None and section.table.rows:
                action = menu.addAction(f"Copy table \u201c{section.title}\u201d as CSV")
                action.triggered.connect(lambda _checked=False, chosen=section: self.copy_table(chosen))
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    # -- text -----------------------------------------------------------------------------------------

    def _follow(self, url: QUrl) -> None:
        if url.scheme() == FOLD:
            title = fold_name(self.page.sections[int(url.path())].title)
            self.set_folded(self.folded ^ {title})
            self.folded_changed.emit()
            return
        index = int(url.fragment() or -1)
        if 0 <= index < len(self._links):
            self.followed.emit(self._links[index])

    def _color(self, role: str) -> str:
        found = self._colors.get(role)
        if found is None:
            found = self._colors[role] = self._theme.color(role).name()
        return found

    def _html(self) -> str:
        page = self._fitted
        mark = self._theme.operator_color(page.op_type).name() if page.op_type else self._color("accent")
        parts = [
            f'<table cellspacing="0" cellpadding="0" width="100%"><tr><td width="4" bgcolor="{mark}"></td>'
            f'<td style="padding-left:8px"><span style="color:{self._color("text-muted")};'
            f'font-size:{SIZE_NOTE}px">{escape(page.kind)}</span><br>'
            f'<span style="font-size:15px;font-weight:600">{_breakable(page.title)}</span>'
        ]
        if page.subtitle:
            parts.append(
                f'<br><span style="color:{self._color("text-muted")}">{_breakable(page.subtitle)}</span>'
            )
        parts.append("</td></tr></table>")
        parts += [self._section(number, section) for number, section in enumerate(page.sections)]
        return f'<body style="color:{self._color("text")}">{"".join(parts)}</body>'

    def _section(self, number: int, section: Section) -> str:
        parts: list[str] = []
        if section.title:
            parts.append(
                f'<p style="margin-top:12px;margin-bottom:4px;font-weight:600;font-size:{SIZE_NOTE}px">'
                f'<a href="{FOLD}:{number}" style="color:{self._color("text-muted")};text-decoration:none">'
                f"{FOLDED if fold_name(section.title) in self.folded else OPEN}&nbsp;"
                f"{escape(section.title.upper())}</a></p>"
            )
        else:
            parts.append('<p style="margin-top:4px;margin-bottom:2px;font-size:4px">&nbsp;</p>')
        for sentence in section.sentences:
            parts.append(f'<p style="margin-top:1px;margin-bottom:3px">{self._cell(sentence)}</p>')
        label = max((self._measure.text(LABEL, item.label) for item in section.fields), default=0) + LABEL_GAP
        parts += [
            f'<table cellspacing="0" cellpadding="2"><tr><td width="{label}" style="color:'
            f'{self._color("text-muted")};padding-right:12px;white-space:nowrap">'
            f"{self._struts}{escape(item.label)}</td><td>{self._cells(item.cells)}</td></tr></table>"
            for item in section.fields
        ]
        if section.table is not None:
            parts.append(self._table(number, section.table))
        return "".join(parts)

    def _table(self, number: int, table: Table) -> str:
        if not table.rows:
            return f'<p style="color:{self._color("text-muted")};margin:0">none</p>'
        align = ["right" if is_number else "left" for is_number in column_is_number(table)]
        width = self._widths_of(number, table)
        head = "".join(
            f'<td width="{width[i]}" align="{align[i]}" style="color:{self._color("text-muted")};'
            f"font-size:{SIZE_NOTE}px;border-bottom:1px solid {self._color('border')};"
            f'padding:1px 8px 1px 0">{escape(title)}</td>'
            for i, title in enumerate(table.headers)
        )
        rows = [head]
        for row in table.rows:
            # A heading reaches over all columns.
            widths, cells = ([sum(width)], row[:1]) if is_heading(row) else (width, row)
            rows.append(
                "".join(
                    f'<td width="{widths[i]}" align="{align[i]}" '
                    f'style="padding:2px 8px 2px 0;white-space:nowrap">{self._in_row(cell)}</td>'
                    for i, cell in enumerate(cells)
                )
            )
        body = "".join(f'<table cellspacing="0" cellpadding="0"><tr>{row}</tr></table>' for row in rows)
        more = f'<p style="color:{self._color("text-muted")}">and {table.left_out} more</p>'
        return f"{body}{more if table.left_out else ''}"

    def _cells(self, cells: tuple[Cell, ...]) -> str:
        return self._struts + "&nbsp;&nbsp; ".join(self._cell(cell) for cell in cells)

    def _in_row(self, cell: Cell) -> str:
        """A value of a table, in one line."""
        return self._struts + self._cell(cell, is_whole=True)

    def _bar(self, fraction: float) -> str:
        full, eighths = divmod(round(fraction * BAR_LENGTH * 8), 8)
        # A block of some eighths is as wide as a full one; its background shows beside it.
        part = chr(ord(BLOCK) + 8 - eighths) if eighths else ""
        empty = BLOCK * (BAR_LENGTH - full - len(part))
        color, ground = self._color("compute"), self._color("border")
        return (
            f'<span style="color:{color};background-color:{ground}">{BLOCK * full}{part}</span>'
            f'<span style="color:{ground};background-color:{ground}">{empty}</span>'
        )

    def _cell(self, cell: Cell, *, is_whole: bool = False) -> str:
        """A value as rich text; `is_whole` keeps it in one line, as numbers always are."""
        text = escape(cell.text).replace(" ", NO_BREAK) if is_whole else _breakable(cell.text)
        if cell.is_number:
            text = escape(cell.text).replace(THIN_SPACE, self._group_space).replace(" ", NO_BREAK)
            # Rich text would turn the thin spaces between digits into breaking blanks.
            family = self._theme.font_mono().family()
            text = f'<span style="font-family:{family};white-space:pre-wrap">{text}</span>'
        if cell.fraction >= 0:
            text = f"{self._bar(cell.fraction)}&nbsp;{text}"
        if cell.role in TEXT_ROLES:
            text = f'<span style="color:{self._color(cell.role)}">{text}</span>'
        elif cell.role:
            # Data colours are made for areas, not for letters: a swatch carries them.
            text = f'<span style="color:{self._color(cell.role)}">\u25a0</span>&nbsp;{text}'
        if id(cell) in self._changed:
            text = f'<span style="color:{self._color("changed")}">{text}</span>'
        if cell.is_estimated:
            mark = f'<span style="color:{self._color("estimated")}">\u2248&nbsp;</span>'
            # No underline: it would look like a link.
            text = f"{mark}{text}"
        if cell.link is not None:
            self._links.append(cell.link)
            style = f"color:{self._color('accent')};text-decoration:none"
            text = f'<a href="#{len(self._links) - 1}" style="{style}">{text}</a>'
        return text


def _breakable(text: str) -> str:
    """Escaped text that may be broken inside names, by characters of no width, and not before units."""
    whole = re.sub(r"(?<=\d) (?=[A-Za-z]+\b)", NO_BREAK, escape(text))
    return re.sub(r"([/._])(?=\w)", "\\1\u200b", whole).replace("\n", "<br>")


def _measure_of(
    advance: Callable[[str], int], advance_number: Callable[[str], int], advance_head: Callable[[str], int]
) -> Measure:
    """Widths of cells as they are written, in the fonts of the page, of numbers and of titles of columns."""

    def text(cell: Cell, text: str) -> int:
        return (advance_number if cell.is_number else advance)(text)

    def whole(cell: Cell) -> int:
        before = BLOCK * BAR_LENGTH + "\u00a0" if cell.fraction >= 0 else ""
        before += "\u25a0\u00a0" if cell.role and cell.role not in TEXT_ROLES else ""
        before += "\u2248\u00a0" if cell.is_estimated else ""
        return (advance(before) if before else 0) + text(cell, cell.text)

    return Measure(whole, text, advance_head)


def _remembering(metrics: QFontMetrics) -> Callable[[str], int]:
    """Widths of texts in pixels, kept for the texts asked for last."""

    # A function of its own: wrapping Qt's makes PySide read all of its signatures, 0.2 s.
    @lru_cache(MAX_TEXTS)
    def advance(text: str) -> int:
        return metrics.horizontalAdvance(text)

    return advance
