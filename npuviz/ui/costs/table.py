"""The table model of costs, sortable by each column."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt

from npuviz.base.units import format_count, format_share
from npuviz.ui.kit.row_model import RowModel
from npuviz.ui.kit.trace_facts import BUSY_MEANS, WAITING_MEANS
from npuviz.workbench.costs import Costs

NAME, SHARE, CYCLES, BUSIEST, BUSY, WORK, WAITING = range(7)


@dataclass(frozen=True, slots=True)
class CostRow:
    """The costs of one operator, instruction, kind or unit; key -1 is the time in which no unit worked.

    parts  how many things of the same name are added up in the row
    share  0..1 of the run
    busy   0..1 of the cycles in which the thing was worked on, for which its busiest unit was busy
    """

    key: int
    name: str
    share: float
    cycles: float
    busiest: str
    busy: float
    work: int
    waiting: int
    span: tuple[int, int]
    parts: int = 1


class CostTable(RowModel[CostRow]):
    """The costs, the costliest first, until the user sorts by another column."""

    titles = ("", "Share", "Cycles", "Busiest unit", "Busy", "Unit cycles", "Waits")
    numbers = (SHARE, CYCLES, BUSY, WORK, WAITING)

    def text(self, row: CostRow, column: int) -> str:
        if row.key < 0 and column > CYCLES:
            return ""
        return (
            row.name if row.parts == 1 else f"{row.name} \u00d7 {row.parts}",
            format_share(row.share),
            format_count(round(row.cycles)),
            row.busiest,
            format_share(row.busy, 0),
            format_count(row.work),
            format_count(row.waiting),
        )[column]

    def tooltip(self, row: CostRow, column: int) -> str:
        if row.key < 0:
            return "Cycles in which no unit worked"
        together = f"\n{row.parts} programs have a function of this name" if row.parts > 1 else ""
        return {
            SHARE: "Part of the run. A cycle goes in equal parts to all that is under way in it: "
            "the column sums to 100 %",
            CYCLES: "Its part of the run, in cycles",
            BUSIEST: f"{row.busiest} worked longest on it: when it works all the time, it bounds the rest",
            BUSY: f"Part of the cycles with work on it in which {row.busiest} worked",
            WORK: f"Busy cycles of units on it, summed over units. {BUSY_MEANS}",
            WAITING: f"Cycles that units waited for its sake, summed over units. {WAITING_MEANS}",
        }.get(
            column,
            f"{row.name}{together}\nclick: select, double click: go to cycle {format_count(row.span[0])}",
        )

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; time without work stays last."""
        fields = ("name", "share", "cycles", "busiest", "busy", "work", "waiting")
        key: Callable[[CostRow], Any] = lambda row: getattr(row, fields[column])  # noqa: E731
        known = [row for row in self.rows if row.key >= 0]
        known.sort(key=key, reverse=order == Qt.SortOrder.DescendingOrder)
        self.reset([*known, *(row for row in self.rows if row.key < 0)])


def rows_of(
    found: Costs, name: Callable[[int], str], unit_name: Callable[[int], str], limit: int
) -> list[CostRow]:
    """Return the `limit` costliest rows, and one for the time in which no unit worked."""
    end = max(found.end, 1)
    rows = [
        CostRow(
            int(found.key[i]),
            name(int(found.key[i])),
            float(found.share[i]) / end,
            float(found.share[i]),
            unit_name(int(found.unit[i])),
            float(found.unit_work[i]) / max(int(found.active[i]), 1),
            int(found.work[i]),
            int(found.waiting[i]),
            (int(found.first[i]), int(found.last[i])),
            int(found.parts[i]),
        )
        for i in range(min(len(found.key), limit))
    ]
    nothing = CostRow(-1, "nothing under way", found.idle / end, found.idle, "", 0.0, 0, 0, (0, found.end))
    return [*rows, nothing]
