"""The entries of one queue as a table."""

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.sim.machine import QueueEntry

Index = QModelIndex | QPersistentModelIndex


class EntryTable(QAbstractTableModel):
    """Entries of one queue, head first."""

    TITLES = ("#", "Entry", "Instruction", "Operator")

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[QueueEntry, ...] = ()
        self._node_names: Sequence[str] = ()

    @property
    def entries(self) -> tuple[QueueEntry, ...]:
        """Rows."""
        return self._entries

    def set_entries(self, entries: Sequence[QueueEntry], node_names: Sequence[str]) -> None:
        """Show these entries; rows are inserted or removed at the tail, changed ones announced."""
        fresh = tuple(entries)
        old = self._entries
        self._node_names = node_names
        if len(fresh) > len(old):
            self.beginInsertRows(QModelIndex(), len(old), len(fresh) - 1)
            self._entries = old + fresh[len(old) :]
            self.endInsertRows()
        elif len(fresh) < len(old):
            self.beginRemoveRows(QModelIndex(), len(fresh), len(old) - 1)
            self._entries = old[: len(fresh)]
            self.endRemoveRows()
        common = min(len(old), len(fresh))
        self._entries = fresh
        for row in range(common):
            if old[row] != fresh[row]:
                self.dataChanged.emit(self.index(row, 0), self.index(row, len(self.TITLES) - 1))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._entries)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.TITLES)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.TITLES[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self._entries[index.row()]
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            known = 0 <= entry.node < len(self._node_names)
            node = self._node_names[entry.node] if known else ""
            instruction = format_count(entry.instruction) if entry.instruction >= 0 else ""
            return (str(index.row()), entry.text, instruction, node)[column]
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (0, 2):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None
