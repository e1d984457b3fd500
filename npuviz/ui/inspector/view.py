"""The widget that shows a page of the inspector: selectable text, links, tables that can be copied."""

from collections.abc import Callable, Iterable
from functools import lru_cache

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
)
from PySide6.QtWidgets import QMenu, QTextBrowser, QWidget

from npuviz.base.units import NARROW_NO_BREAK, THIN_SPACE
from npuviz.ui.inspector.fitting import GAP, Fitted, Measure, column_widths, fit_page, fold_name
from npuviz.ui.inspector.page import (
    Cell,
    Page,
    Section,
    Table,
    changed_cells,
    page_as_text,
    plain,
    table_as_csv,
)
from npuviz.ui.inspector.patch import Place, differing, has_same_frame, values
from npuviz.ui.inspector.writing import (
    BAR_LENGTH,
    BLOCK,
    ESTIMATED,
    FOLD,
    NO_BREAK,
    SWATCH,
    TEXT_ROLES,
    PageWriter,
)
from npuviz.ui.theme.theme import Theme

MAX_TEXTS = 4096
"""Most texts whose widths are cached; a step writes few new ones."""
MAX_LINKS = 20_000
"""Each rewritten value adds a link; beyond this number the whole page is written again."""
MARGIN = 8
ROUNDING = 8
"""Pixels by which a table may be wider than the sum of its measured texts."""
REFIT_MS = 30
REST_MS = 200
"""Milliseconds after the last step at which values outside the visible part are written too."""


class InspectorView(QTextBrowser):
    """One page as rich text.

    followed  the Selection of a link that was clicked
    folded_changed  a section was folded or unfolded by its title
    page    the page that is shown, with unshortened texts
    folded  names of the folded sections
    writer  the writer of the document, None before the first page
    """

    followed = Signal(object)
    folded_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.page = Page("", "")
        self.folded: frozenset[str] = frozenset()
        self._fitted = self.page
        self._last_fit: tuple[object, Fitted] = None, Fitted(self.page, ())
        self._room = 0
        self._fonts: tuple[QFont, ...] = ()
        self._measure = Measure(lambda _cell: 0, lambda _cell, _text: 0, len)
        self._columns: dict[int, list[int]] = {}
        self._refit = QTimer(self, singleShot=True, interval=REFIT_MS)
        self._refit.timeout.connect(self._fit_again)
        self.writer: PageWriter | None = None
        self._changed: set[int] = set()
        self._marked: set[Place] = set()
        self._late: set[Place] = set()
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
        """Show a page; if it is about the same thing, keep the scroll position and, if wanted, mark
        changes.
        """
        is_same = (page.kind, page.title, page.subtitle) == (
            self.page.kind,
            self.page.title,
            self.page.subtitle,
        )
        if page == self.page and self.writer is not None:
            return
        place = self.verticalScrollBar().value() if is_same else 0
        self.page = page
        if not is_same:
            self._columns = {}
        old, self._fitted = self._fitted, self._fit(page)
        self._changed = changed_cells(old, self._fitted) if marks_changes else set()
        if is_same and self._patch(old):
            return
        self.refresh()
        self.verticalScrollBar().setValue(place)

    def focusNextPrevChild(self, next: bool) -> bool:
        """Move the focus out of the page on Tab; links are reached by Left and Right."""
        return QWidget.focusNextPrevChild(self, next)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and not event.modifiers():
            QTextBrowser.focusNextPrevChild(self, event.key() == Qt.Key.Key_Right)
        else:
            super().keyPressEvent(event)

    def set_folded(self, titles: Iterable[str]) -> None:
        """Fold the sections of these names on every page, and open all others."""
        self.folded = frozenset(titles)
        self._fit_again()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._room_now() != self._room:
            self._refit.start()

    def _room_now(self) -> int:
        # Always without the scroll bar's width, because it comes and goes while a text is laid out.
        bar = self.verticalScrollBar().sizeHint().width()
        return self.width() - bar - 2 * MARGIN - ROUNDING

    def _fit(self, page: Page) -> Page:
        """Return the page fitted to the present width."""
        self._room = self._room_now()
        fonts = self.font(), self._theme.font_mono(), self._theme.font_ui()
        if fonts != self._fonts:
            self._fonts = fonts
            self._measure = _measure_of(*(_remembering(QFontMetrics(font)) for font in fonts))
        same = self._room, self.folded, tuple(font.key() for font in fonts)
        before = self._last_fit[1] if self._last_fit[0] == same else None
        found = fit_page(page, self._room, self.folded, self._measure, before)
        self._last_fit = same, found
        return found.page

    def _fit_again(self) -> None:
        """Fit the page to the present width and folded sections, and write it again."""
        place = self.verticalScrollBar().value()
        self._columns = {}
        self._fitted, self._changed = self._fit(self.page), set()
        self.refresh()
        self.verticalScrollBar().setValue(place)

    def refresh(self) -> None:
        """Write the document again, in the present colours."""
        self._late = set()
        writer = self.writer = PageWriter(self._theme, self.document(), self._measure)
        writer.write(self._fitted, self.folded, self._changed, self._widths_of)
        # Writing has moved the cursor, and the view would scroll to it when it gets the focus.
        self.setTextCursor(QTextCursor(self.document()))
        self._marked = self._marked_places()

    def _marked_places(self) -> set[Place]:
        """Return the places of values that are marked as changed."""
        if not self._changed:
            return set()
        changed = self._changed
        return {
            place for place, cells in values(self._fitted) if not changed.isdisjoint([id(c) for c in cells])
        }

    def _patch(self, old: Page) -> bool:
        """Write only the values that differ from the page shown; return False if that is not possible.

        Values outside the visible part are written when the user scrolls, or REST_MS after the last step.
        """
        page, writer = self._fitted, self.writer
        if writer is None or len(writer.links) > MAX_LINKS or not has_same_frame(old, page):
            return False
        marked = self._marked_places()
        changes = list(differing(old, page, (marked ^ self._marked) | self._late))
        rows = writer.rows
        if any(self._is_too_wide(rows[place.row].section, place, cells[0]) for place, cells in changes):
            return False
        top = self.verticalScrollBar().value()
        bottom = top + self.viewport().height()
        numbers = {place.row for place, _ in changes}
        in_sight = {number for number in numbers if writer.is_between(rows[number], top, bottom)}
        seen = [(place, cells) for place, cells in changes if place.row in in_sight]
        self._marked = marked
        self._late = {place for place, _ in changes} - {place for place, _ in seen}
        writer.write_values(seen, self._changed)
        if self._late:
            self._rest.start()
        return True

    def _write_late(self) -> None:
        """Write the changed values that were outside the visible part."""
        late, self._late = self._late, set()
        if late and self.writer is not None:
            changes = ((place, cells) for place, cells in values(self._fitted) if place in late)
            self.writer.write_values(changes, self._changed)

    def _is_too_wide(self, section: int, place: Place, cell: Cell) -> bool:
        """Return whether a column of a section's table must become wider for a value."""
        if section < 0:
            return False
        return self._measure.cell(cell) + GAP > self._columns[section][place.column]

    def _widths_of(self, number: int, table: Table) -> list[int]:
        """Return the widths of a section's table columns, which do not shrink while its page is shown."""
        now = [width + GAP + 1 for width in column_widths(table, self._measure)]
        before = self._columns.get(number, now)
        widest = list(map(max, now, before)) if len(before) == len(now) else now
        self._columns[number] = widest if sum(widest) <= self._room + ROUNDING else now
        return self._columns[number]

    # -- copying --------------------------------------------------------------------------------------

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy the selection as plain text, without the thin spaces that group digits."""
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
            title = fold_name(self._fitted.sections[int(url.path())].title)
            self.set_folded(self.folded ^ {title})
            self.folded_changed.emit()
            return
        index = int(url.fragment() or -1)
        links = self.writer.links if self.writer is not None else ()
        if 0 <= index < len(links):
            self.followed.emit(links[index])


def _measure_of(
    advance: Callable[[str], int], advance_number: Callable[[str], int], advance_head: Callable[[str], int]
) -> Measure:
    """Make a Measure from functions that measure text, in the fonts of texts, numbers and column titles."""

    def text(cell: Cell, text: str) -> int:
        return (advance_number if cell.is_number else advance)(text)

    def whole(cell: Cell) -> int:
        before = BLOCK * BAR_LENGTH + NO_BREAK if cell.fraction >= 0 else ""
        before += SWATCH if cell.role and cell.role not in TEXT_ROLES else ""
        before += ESTIMATED if cell.is_estimated else ""
        return (advance(before) if before else 0) + text(cell, cell.text)

    return Measure(whole, text, advance_head)


def _remembering(metrics: QFontMetrics) -> Callable[[str], int]:
    """Return a function that measures texts in pixels and caches the last MAX_TEXTS of them."""

    # A Python function, because wrapping Qt's directly makes PySide load all its signatures, 0.2 s.
    @lru_cache(MAX_TEXTS)
    def advance(text: str) -> int:
        return metrics.horizontalAdvance(text)

    return advance
