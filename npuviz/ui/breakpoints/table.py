"""Breakpoints as rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from npuviz.base.units import format_count
from npuviz.debug.breakpoint import BreakpointList

Index = QModelIndex | QPersistentModelIndex
HEADERS = ("Condition", "Hits", "Last hit")
CONDITION, HITS, LAST_HIT = range(3)
NOWHERE = QModelIndex()


@dataclass(frozen=True, slots=True)
class BreakpointRow:
    """One breakpoint as it is shown; last_hit is -1 before the first."""

    id: int
    text: str
    is_enabled: bool
    hits: int
    last_hit: int
    is_slow: bool


def rows_of(breakpoints: BreakpointList | None, last_hits: Mapping[int, int]) -> list[BreakpointRow]:
    """The rows of a session's breakpoints."""
    return [
        BreakpointRow(b.id, b.text, b.enabled, b.hits, last_hits.get(b.id, -1), bool(b.condition.probes))
        for b in (breakpoints.all if breakpoints else ())
    ]


class BreakpointTable(QAbstractTableModel):
    """Rows that announce exactly what changed.

    toggled  (breakpoint id, enabled) when the user ticks a box
    """

    toggled = Signal(int, bool)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[BreakpointRow] = []
        self.is_locked = False

    @property
    def rows(self) -> list[BreakpointRow]:
        """What is shown."""
        return self._rows

    def update_rows(self, rows: list[BreakpointRow]) -> None:
        """Show other rows."""
        kept = {row.id for row in rows}
        for place in range(len(self._rows) - 1, -1, -1):
            if self._rows[place].id not in kept:
                self.beginRemoveRows(NOWHERE, place, place)
                del self._rows[place]
                self.endRemoveRows()
        if [row.id for row in self._rows] != [row.id for row in rows[: len(self._rows)]]:
            self.beginResetModel()
            self._rows = list(rows)
            self.endResetModel()
            return
        for place, row in enumerate(rows[: len(self._rows)]):
            if row != self._rows[place]:
                self._rows[place] = row
                self.dataChanged.emit(self.index(place, 0), self.index(place, len(HEADERS) - 1))
        if len(rows) > len(self._rows):
            self.beginInsertRows(NOWHERE, len(self._rows), len(rows) - 1)
            self._rows = list(rows)
            self.endInsertRows()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(HEADERS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return HEADERS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        if index.column() == CONDITION and not self.is_locked:
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row, column = self._rows[index.row()], index.column()
        if role == Qt.ItemDataRole.CheckStateRole and column == CONDITION:
            return Qt.CheckState.Checked if row.is_enabled else Qt.CheckState.Unchecked
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tooltip(row)
        if role == Qt.ItemDataRole.DisplayRole:
            if column == CONDITION:
                return f"{row.text}   (slow)" if row.is_slow else row.text
            if column == HITS:
                return format_count(row.hits)
            return format_count(row.last_hit) if row.last_hit >= 0 else "\u2013"
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole or index.column() != CONDITION or self.is_locked:
            return False
        self.toggled.emit(self._rows[index.row()].id, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if column == CONDITION else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


def _tooltip(row: BreakpointRow) -> str:
    lines = [row.text]
    if row.is_slow:
        lines.append("slow: tested between cycles, because no kernel can test a probe")
    if row.last_hit >= 0:
        lines.append(f"last hit at cycle {format_count(row.last_hit)}; double-click goes there")
    return "\n".join(lines)
