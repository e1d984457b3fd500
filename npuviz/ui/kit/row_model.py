"""Base of table models with one kind of row: gives each cell a text, announces only rows that changed."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from npuviz.ui.kit.plain_text import plain_tip

Row = TypeVar("Row")
Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class RowModel(QAbstractTableModel, Generic[Row]):
    """Base of table models; a subclass overrides `text`, and `tooltip` and `other` where it needs them.

    Not an abc: Qt's models have another metaclass.

    titles   of the columns
    numbers  columns that are aligned right, their titles too if `aligns_titles`
    rows     what is shown
    """

    titles: Sequence[str] = ()
    numbers: Sequence[int] = ()
    aligns_titles = True
    rows: Sequence[Row] = ()

    def text(self, row: Row, column: int) -> str:
        """Return the text of a cell."""
        raise NotImplementedError

    def tooltip(self, row: Row, column: int) -> str | None:
        """Return the tooltip of a cell, None for none."""
        return None

    def other(self, row: Row, column: int, role: int) -> Any:
        """Return the data of a cell for other Qt roles (colours, fonts), None for the default."""
        return None

    def reset(self, rows: Sequence[Row]) -> None:
        """Replace all rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def show_rows(self, rows: Sequence[Row], key: Callable[[Row], Hashable] | None = None) -> None:
        """Show these rows, and announce only rows added or removed at the end and rows that differ.

        key  identifies the thing a row is about; if a place now holds another thing, the whole table is reset
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
        """Announce that all cells of a row may have changed."""
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
