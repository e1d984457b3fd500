"""Breakpoints as rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal

from npuviz.base.units import format_count
from npuviz.debug.breakpoint import BreakpointList
from npuviz.ui.kit.row_model import NOWHERE, Index, RowModel

CONDITION, HITS, LAST_HIT = range(3)


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
    """Return the rows of a session's breakpoints."""
    return [
        BreakpointRow(b.id, b.text, b.enabled, b.hits, last_hits.get(b.id, -1), bool(b.condition.probes))
        for b in (breakpoints.all if breakpoints else ())
    ]


class BreakpointTable(RowModel[BreakpointRow]):
    """The table model of breakpoints, which announces only rows that changed.

    toggled  (breakpoint id, enabled) when the user clicks a check box
    """

    toggled = Signal(int, bool)
    titles = ("Condition", "Hits", "Last hit")
    numbers = (HITS, LAST_HIT)
    is_locked = False

    def update_rows(self, rows: list[BreakpointRow]) -> None:
        """Show these rows; remove only those that are gone."""
        kept = {row.id for row in rows}
        for place in range(len(self.rows) - 1, -1, -1):
            if self.rows[place].id not in kept:
                self.beginRemoveRows(NOWHERE, place, place)
                self.rows = [*self.rows[:place], *self.rows[place + 1 :]]
                self.endRemoveRows()
        self.show_rows(rows, lambda row: row.id)

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        if index.column() == CONDITION and not self.is_locked:
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        return flags

    def text(self, row: BreakpointRow, column: int) -> str:
        if column == CONDITION:
            return f"{row.text}   (slow)" if row.is_slow else row.text
        if column == HITS:
            return format_count(row.hits)
        return format_count(row.last_hit) if row.last_hit >= 0 else "\u2013"

    def tooltip(self, row: BreakpointRow, column: int) -> str:
        lines = [row.text]
        if row.is_slow:
            lines.append("slow: tested between cycles, because no kernel can test a probe")
        if row.last_hit >= 0:
            lines.append(f"last hit at cycle {format_count(row.last_hit)}; double-click goes there")
        return "\n".join(lines)

    def other(self, row: BreakpointRow, column: int, role: int) -> Any:
        if role == Qt.ItemDataRole.CheckStateRole and column == CONDITION:
            return Qt.CheckState.Checked if row.is_enabled else Qt.CheckState.Unchecked
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole or index.column() != CONDITION or self.is_locked:
            return False
        self.toggled.emit(self.rows[index.row()].id, Qt.CheckState(value) == Qt.CheckState.Checked)
        return True
