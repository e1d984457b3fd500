"""Table models: parts of the critical path, and cycles of units by cause."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.base.units import format_count, format_share
from npuviz.trace.causes.waits import CAUSES
from npuviz.ui.kit.row_model import RowModel
from npuviz.workbench.causes.overview import ShownCost

UNITS, WHAT, CAUSE, SHARE, CYCLES, TIMES, OPERATORS, LINES, FREE, HELPS = range(10)


class CausesTable(RowModel[ShownCost]):
    """Parts of the critical path, the costliest first."""

    titles = ("Units", "Work or wait", "Cause", "Share", "Cycles", "Times", "Operators", "Lines",
              "If it took no time", "What would help")  # fmt: skip
    numbers = (SHARE, CYCLES, TIMES, FREE)
    total = 1

    def text(self, row: ShownCost, column: int) -> str:
        cost = row.cost
        if column == FREE:
            return self._gain(row.free_gain)
        if column == HELPS:
            gain = f"{self._gain(row.remedy_gain)}: " if row.remedy_gain is not None else ""
            return f"{gain}{row.remedy}" if row.remedy else ""
        return (
            cost.name,
            cost.kind_name,
            cost.cause,
            format_share(cost.cycles / self.total),
            format_count(cost.cycles),
            format_count(cost.count),
            self._names(cost.operators, cost.cycles),
            self._names(cost.lines, cost.cycles),
        )[column]

    def tooltip(self, row: ShownCost, column: int) -> str:
        tip = f"{row.cost.text(self.total)}\n{row.cost.doc}".strip()
        if column == FREE:
            return f"{tip}\nPredicted by timing the trace again, with the same order of work"
        if column == HELPS and row.remedy:
            return f"{row.remedy}\n`npuviz explain` runs it again with these settings"
        return f"{tip}\nClick selects its longest piece"

    def _gain(self, gain: int | None) -> str:
        if gain is None:
            return ""
        share = format_share(abs(gain) / self.total)
        sign = "\u2212" if gain > 0 else "+"
        return share if share == format_share(0) else f"{sign}{share}"

    @staticmethod
    def _names(found: tuple[tuple[str, int], ...], cycles: int) -> str:
        return ", ".join(f"{name} {format_share(count / max(cycles, 1), 0)}" for name, count in found)


@dataclass(frozen=True, slots=True)
class UnitRow:
    """Cycles of a unit by cause."""

    name: str
    cycles: Mapping[str, int]


class UnitsTable(RowModel[UnitRow]):
    """One row for each unit: shares of the run by cause, which sum to 100 %."""

    titles = ("Unit", *(name.capitalize() for name in CAUSES))
    numbers = tuple(range(1, len(CAUSES) + 1))
    total = 1

    def text(self, row: UnitRow, column: int) -> str:
        if column == 0:
            return row.name
        cycles = row.cycles.get(CAUSES[column - 1], 0)
        return format_share(cycles / self.total) if cycles else ""

    def tooltip(self, row: UnitRow, column: int) -> str:
        if column == 0:
            return row.name
        name = CAUSES[column - 1]
        return f"{row.name}: {format_count(row.cycles.get(name, 0))} cycles {name}"
