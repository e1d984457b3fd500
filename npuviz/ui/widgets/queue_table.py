"""The queues of a machine as tables: one row a queue, and the entries of one of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.sim.machine import QueueEntry

Index = QModelIndex | QPersistentModelIndex

NAME, OCCUPANCY, PEAK, HISTORY, HEAD = range(5)
TITLES = ("Queue", "Entries / capacity", "Peak", "Around the cursor", "Head")

STATE_ROLE = Qt.ItemDataRole.UserRole + 1
HISTORY_ROLE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue now. `is_changed`: its entries became others with the last step. capacity 0 = unlimited."""

    id: int
    name: str
    occupancy: int
    capacity: int
    peak: int
    entries: tuple[QueueEntry, ...]
    is_changed: bool = False
    doc: str = ""

    @property
    def fraction(self) -> float:
        """Part of the capacity in use, of the peak where the capacity is unlimited; 0..1."""
        limit = self.capacity or self.peak
        return min(self.occupancy / limit, 1.0) if limit else 0.0

    @property
    def text(self) -> str:
        """Entries of capacity."""
        limit = format_count(self.capacity) if self.capacity else "\u221e"
        return f"{format_count(self.occupancy)} / {limit}"


@dataclass(frozen=True, slots=True)
class History:
    """A counter around the cursor: smallest and largest value of each point; `cursor` is its place, 0..1."""

    low: np.ndarray
    high: np.ndarray
    limit: int
    cursor: float


class QueueTable(QAbstractTableModel):
    """One row a queue. Only what changed is announced.

    history_of  gives the history of a queue by its row, None where nothing is recorded
    """

    def __init__(self, history_of: Callable[[int], History | None]) -> None:
        super().__init__()
        self._states: tuple[QueueState, ...] = ()
        self._history_of = history_of

    @property
    def states(self) -> tuple[QueueState, ...]:
        """Rows."""
        return self._states

    def set_states(self, states: Sequence[QueueState]) -> None:
        """Show these queues; other queues than before reset the table."""
        fresh = tuple(states)
        if [s.id for s in fresh] != [s.id for s in self._states]:
            self.beginResetModel()
            self._states = fresh
            self.endResetModel()
            return
        before, self._states = self._states, fresh
        for row, (old, new) in enumerate(zip(before, fresh, strict=True)):
            if old != new:
                self.dataChanged.emit(self.index(row, NAME), self.index(row, PEAK))
                self.dataChanged.emit(self.index(row, HEAD), self.index(row, HEAD))

    def refresh_history(self) -> None:
        """The cursor moved: only the history column is another."""
        if self._states:
            self.dataChanged.emit(self.index(0, HISTORY), self.index(len(self._states) - 1, HISTORY))

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._states)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(TITLES)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section == PEAK:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        state = self._states[index.row()]
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            head = state.entries[0].text if state.entries else ""
            return (state.name, state.text, format_count(state.peak), "", head)[column]
        if role == STATE_ROLE:
            return state
        if role == HISTORY_ROLE:
            return self._history_of(index.row())
        if role == Qt.ItemDataRole.TextAlignmentRole and column == PEAK:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ToolTipRole:
            lines = [state.name, state.text, f"peak {format_count(state.peak)}", state.doc]
            return "\n".join(line for line in lines if line)
        return None


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
