"""The list of a run's bookmarks: cycles, slice, and the user's note."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QModelIndex, QPoint, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QWidget

from npuviz.base.units import format_count
from npuviz.ui.kit.parts import fill, muted_label, pop_up
from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.ui.kit.table_view import add_copy_actions, make_table, on_key
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.sessions.bookmarks import Bookmark, BookmarkList

KEY, CYCLES, NOTE, WHAT = range(4)
NO_BOOKMARKS = (
    "Nothing is marked yet. Ctrl+M marks the selection or this cycle and asks for a note; in the timeline "
    "Shift+M marks a slice or a range, and Ctrl+1 to Ctrl+9 a cycle that 1 to 9 lead back to."
)


class BookmarkTable(RowModel[Bookmark]):
    """One row for each bookmark; its note can be edited in place.

    written  (bookmark, note) after the user edited a note
    """

    written = Signal(object, str)
    titles = ("Key", "Cycles", "Note", "What")
    numbers = (CYCLES,)

    def text(self, row: Bookmark, column: int) -> str:
        until = f" \u2013 {format_count(row.last)}" if row.is_range else ""
        key = str(row.digit) if row.digit >= 0 else ""
        what = "  ".join(part for part in (row.track, row.label) if part)
        return (key, f"{format_count(row.first)}{until}", row.note, what)[column]

    def tooltip(self, row: Bookmark, column: int) -> str:
        shown = self.text(row, WHAT if column == WHAT else NOTE)
        return shown or "F2 writes a note; Return goes there"

    def other(self, row: Bookmark, column: int, role: int) -> Any:
        return row.note if role == Qt.ItemDataRole.EditRole and column == NOTE else None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.column() == NOTE else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or index.column() != NOTE:
            return False
        self.written.emit(self.rows[index.row()], str(value))
        return True


class BookmarkPage(QWidget):
    """Shows a list of bookmarks and edits it.

    go_to  called with a bookmark that the user chose
    """

    def __init__(
        self, theme: Theme, bookmarks: BookmarkList, go_to: Callable[[Bookmark], object], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._bookmarks, self._go_to = bookmarks, go_to
        self.table = BookmarkTable(self)
        self.table.written.connect(bookmarks.write)
        self.view = make_table(
            self.table, theme, "Bookmarks", self, object_name="bookmarks.table", show_menu=self._show_menu
        )
        header = self.view.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(False)
        header.setSectionResizeMode(NOTE, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(WHAT, QHeaderView.ResizeMode.Interactive)
        self.view.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.view.doubleClicked.connect(self._double_click)
        on_key(self.view, Qt.Key.Key_Delete, self.delete_selected)
        on_key(self.view, Qt.Key.Key_Return, lambda: self._go(self.view.currentIndex()))
        self._hint = muted_label(self, "bookmarks.hint", NO_BOOKMARKS)
        self._hint.setWordWrap(True)
        self._hint.setContentsMargins(12, 8, 12, 8)
        self._hint.setAlignment(Qt.AlignmentFlag.AlignTop)
        fill(self, (self.view, 1), (self._hint, 1))
        self.forget = bookmarks.changed.subscribe(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the present bookmarks."""
        self.table.show_rows(self._bookmarks.all, lambda row: row.place)
        self.view.setVisible(bool(self.table.rows))
        self._hint.setVisible(not self.table.rows)

    def edit(self, bookmark: Bookmark) -> None:
        """Let the user edit the note of a bookmark."""
        place = next((n for n, row in enumerate(self.table.rows) if row.place == bookmark.place), -1)
        if place >= 0:
            index = self.table.index(place, NOTE)
            self.view.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.view.setCurrentIndex(index)
            self.view.edit(index)

    def delete_selected(self) -> None:
        """Delete the selected bookmarks."""
        chosen = [self.table.rows[index.row()] for index in self.view.selectionModel().selectedRows()]
        self._bookmarks.replace_all(each for each in self._bookmarks.all if each not in chosen)

    def _double_click(self, index: QModelIndex) -> None:
        if index.column() == NOTE:
            self.view.edit(index)
        else:
            self._go(index)

    def _go(self, index: QModelIndex) -> None:
        if index.isValid():
            self._go_to(self.table.rows[index.row()])

    def _show_menu(self, point: QPoint) -> None:
        index = self.view.indexAt(point)
        menu = QMenu(self)
        if index.isValid():
            menu.addAction("Go there", lambda: self._go(index))
            menu.addAction("Write a note", lambda: self.view.edit(self.table.index(index.row(), NOTE)))
            menu.addAction("Delete", self.delete_selected)
            menu.addSeparator()
        add_copy_actions(menu, self.view)
        pop_up(menu, point, self.view.viewport())
