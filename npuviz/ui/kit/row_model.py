"""Rows of one kind as a table: a column is a title and a text, only what changed is announced."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from npuviz.ui.kit.plain_text import plain_tip

Row = TypeVar("Row")
Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class RowModel(QAbstractTableModel, Generic[Row]):
    """Base of tables: says what is in a row with `text` and, where there is more, with `other`.

    Each table has its own `text`; no abc, because the metaclass of Qt's models is another one.

    titles   of the columns
    numbers  columns that are aligned right, with their titles if `aligns_titles`
    rows     what is shown
    """

    titles: Sequence[str] = ()
    numbers: Sequence[int] = ()
    aligns_titles = True
    rows: Sequence[Row] = ()

    def text(self, row: Row, column: int) -> str:
        """What a cell shows."""
        raise NotImplementedError

    def tooltip(self, row: Row, column: int) -> str | None:
        """What a cell says under the pointer."""
        return None

    def other(self, row: Row, column: int, role: int) -> Any:
        """Colours, fonts and the like, None where there is nothing special."""
        return None

    def reset(self, rows: Sequence[Row]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def show_rows(self, rows: Sequence[Row], key: Callable[[Row], Hashable] | None = None) -> None:
        """Show these rows: what comes or goes at the end and what is different now is announced.

        key  tells whether two rows are about the same thing; other things at a place reset the table
        """
        old, shared = self.rows, min(len(self.rows), len(rows))
        if key is not None and any(key(old[place]) != key(rows[place]) for place in range(shared)):
            self.reset(rows)
            return
        if len(rows) > len(old):
            self.beginInsertRows(NOWHERE, len(old), len(rows) - 1)
            self.rows = rows
            self.endInsertRows()
        elif len(rows) < len(old):
            self.beginRemoveRows(NOWHERE, len(rows), len(old) - 1)
            self.rows = rows
            self.endRemoveRows()
        self.rows = rows
        for place in range(shared):
            if old[place] != rows[place]:
                self.row_changed(place)

    def row_changed(self, place: int) -> None:
        """Announce that all of a row is different."""
        self.dataChanged.emit(self.index(place, 0), self.index(place, len(self.titles) - 1))

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.titles[section]
        is_right = self.aligns_titles and section in self.numbers
        return RIGHT if role == Qt.ItemDataRole.TextAlignmentRole and is_right else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self.text(row, column)
        if role == Qt.ItemDataRole.TextAlignmentRole and column in self.numbers:
            return RIGHT
        if role == Qt.ItemDataRole.ToolTipRole:
            tip = self.tooltip(row, column)
            return plain_tip(tip) if tip else tip
        return self.other(row, column, role)
