"""The table model of a machine's queues: one row for each queue, in groups if there are many."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PySide6.QtCore import Qt

from npuviz.base.units import format_count
from npuviz.sim.machine import QueueEntry
from npuviz.ui.kit.row_model import RowModel

NAME, OCCUPANCY, PEAK, HISTORY, HEAD = range(5)

STATE_ROLE = Qt.ItemDataRole.UserRole + 1
HISTORY_ROLE = Qt.ItemDataRole.UserRole + 2


UNKNOWN = -1
OTHERS = "Others"
"""Name of the group of queues of units without group."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue now.

    capacity    0: unlimited
    peak        the most entries so far, UNKNOWN if the machine does not count them
    is_changed  the last step changed its entries
    """

    id: int
    name: str
    occupancy: int
    capacity: int
    peak: int
    entries: tuple[QueueEntry, ...]
    is_changed: bool = False
    doc: str = ""
    is_estimated: bool = False

    @property
    def fraction(self) -> float:
        """Used share of the capacity, or of the peak if the capacity is unlimited; 0..1."""
        limit = self.capacity or max(self.peak, self.occupancy)
        return min(self.occupancy / limit, 1.0) if limit else 0.0

    @property
    def peak_text(self) -> str:
        """Text of the most entries so far, a dash if unknown."""
        return format_count(self.peak) if self.peak != UNKNOWN else "\u2013"

    @property
    def text(self) -> str:
        """Text of entries and capacity."""
        limit = format_count(self.capacity) if self.capacity else "\u221e"
        return f"{format_count(self.occupancy)} / {limit}"


@dataclass(frozen=True, slots=True)
class History:
    """A counter around the cursor: smallest and largest value of each point; `cursor` is its position,
    0..1.
    """

    low: np.ndarray
    high: np.ndarray
    limit: int
    cursor: float

    @property
    def text(self) -> str:
        """Text of the curve's range."""
        low, high = int(self.low.min(initial=0)), int(self.high.max(initial=0))
        return f"{format_count(low)} to {format_count(high)} entries around the cursor"


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """The head of a group of queues: their entries together, and the fill level of each, 0..1."""

    name: str
    fractions: tuple[float, ...]
    occupancy: int
    num_busy: int
    is_folded: bool
    is_changed: bool = False

    @property
    def text(self) -> str:
        """Text of the entries of all its queues, and of how many of these are not empty."""
        return f"{format_count(self.occupancy)} in {self.num_busy} of {len(self.fractions)}"


def group_of(states: Sequence[QueueState], name: str, is_folded: bool) -> QueueGroup:
    """Make the head of a group."""
    return QueueGroup(
        name,
        tuple(state.fraction for state in states),
        sum(state.occupancy for state in states),
        sum(state.occupancy > 0 for state in states),
        is_folded,
        any(state.is_changed for state in states),
    )


class QueueTable(RowModel[int | QueueGroup]):
    """One row for each queue, under a head for each group if there are several; announces only changes.

    states      all queues, also in folded groups; rows are indices of it
    history_of  returns the history of a queue by its index, None if nothing is recorded
    """

    titles = ("Queue", "Entries / capacity", "Peak", "History", "Head")
    numbers = (PEAK,)

    def __init__(self, history_of: Callable[[int], History | None]) -> None:
        super().__init__()
        self.states: tuple[QueueState, ...] = ()
        self._groups: tuple[str, ...] = ()
        self._folded: set[str] = set()
        self._history_of = history_of

    def set_groups(self, groups: Sequence[str], folded: Iterable[str] = ()) -> None:
        """Set the group of each queue before other queues are shown; empty: no groups."""
        self.beginResetModel()
        self._groups, self._folded = tuple(groups), set(folded)
        self.states, self.rows = (), []
        self.endResetModel()

    def set_states(self, states: Sequence[QueueState]) -> None:
        """Show the states of queues; if these are other queues than before, reset the table."""
        fresh = tuple(states)
        if [s.id for s in fresh] != [s.id for s in self.states]:
            self.beginResetModel()
            self.states = fresh
            self.rows = self._arranged()
            self.endResetModel()
            return
        before, self.states = self.states, fresh
        old_rows, self.rows = self.rows, self._arranged()
        for row, (old, new) in enumerate(zip(old_rows, self.rows, strict=True)):
            is_other = before[old] != fresh[old] if isinstance(old, int) else old != new
            if is_other:
                self.dataChanged.emit(self.index(row, NAME), self.index(row, PEAK))
                self.dataChanged.emit(self.index(row, HEAD), self.index(row, HEAD))

    def _arranged(self) -> list[int | QueueGroup]:
        if len(self._groups) != len(self.states):
            return list(range(len(self.states)))
        rows: list[int | QueueGroup] = []
        for name in dict.fromkeys(self._groups):
            places = [place for place, group in enumerate(self._groups) if group == name]
            folded = name in self._folded
            rows.append(group_of([self.states[place] for place in places], name, folded))
            if not folded:
                rows += places
        return rows

    def toggle(self, row: int) -> None:
        """Fold or unfold the group whose head is in a row."""
        head = self.rows[row]
        if isinstance(head, QueueGroup):
            self.beginResetModel()
            self._folded ^= {head.name}
            self.rows = self._arranged()
            self.endResetModel()

    def place_at(self, row: int) -> int | None:
        """Return the index in `states` of a row, None for the head of a group."""
        found = self.rows[row] if 0 <= row < len(self.rows) else None
        return found if isinstance(found, int) else None

    def row_of(self, place: int) -> int:
        """Return the row of a queue, or of the head of its folded group; -1 if there is none."""
        if place in self.rows:
            return self.rows.index(place)
        name = self._groups[place] if place < len(self._groups) else None
        heads = (
            row for row, head in enumerate(self.rows) if isinstance(head, QueueGroup) and head.name == name
        )
        return next(heads, -1)

    def refresh_history(self) -> None:
        """Announce the history column as changed, because the cursor moved."""
        if self.rows:
            self.dataChanged.emit(self.index(0, HISTORY), self.index(len(self.rows) - 1, HISTORY))

    def text(self, row: int | QueueGroup, column: int) -> str:
        if isinstance(row, QueueGroup):
            sign = "\u25b8" if row.is_folded else "\u25be"
            return (f"{sign} {row.name or OTHERS}", row.text, "", "", "")[column]
        state = self.states[row]
        head = state.entries[0].text if state.entries else ""
        return (self._label(row), state.text, state.peak_text, "", head)[column]

    def tooltip(self, row: int | QueueGroup, column: int) -> str:
        if isinstance(row, QueueGroup):
            verb = "unfold" if row.is_folded else "fold"
            return f"{row.name}\n{row.text} queues\nclick to {verb}"
        state = self.states[row]
        lines = [state.name, state.text, f"peak {state.peak_text}", state.doc]
        if state.is_estimated:
            lines.append("\u2248 estimated: what serves it is an assumption")
        return "\n".join(line for line in lines if line)

    def other(self, row: int | QueueGroup, column: int, role: int) -> Any:
        if role == STATE_ROLE:
            return row if isinstance(row, QueueGroup) else self.states[row]
        if role == Qt.ItemDataRole.AccessibleTextRole and column == HISTORY and isinstance(row, int):
            history = self._history_of(row)
            return history.text if history is not None else "not recorded"
        return self._history_of(row) if role == HISTORY_ROLE and isinstance(row, int) else None

    def _label(self, place: int) -> str:
        """Return the name of a queue, without that of its group if it has a head."""
        state = self.states[place]
        label, indent = state.name, ""
        if len(self._groups) == len(self.states):
            label, indent = label.removeprefix(f"{self._groups[place]}."), "    "
        return f"{indent}\u2248 {label}" if state.is_estimated else f"{indent}{label}"
