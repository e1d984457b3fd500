"""The table model of hazards."""

from collections.abc import Callable

from PySide6.QtCore import QObject

from npuviz.base.units import format_count
from npuviz.sim.machine import Hazard
from npuviz.ui.kit.row_model import RowModel

CYCLE, UNIT, INSTRUCTION, KIND, TEXT, MEND = range(6)


class HazardTable(RowModel[Hazard]):
    """One row for each hazard, by cycle; later ones are appended."""

    titles = ("Cycle", "Unit", "Instruction", "Kind", "What is wrong", "How to mend it")
    numbers = (CYCLE,)

    def __init__(self, instruction_text: Callable[[int], str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._instruction_text = instruction_text

    def text(self, row: Hazard, column: int) -> str:
        if column == INSTRUCTION:
            return self._instruction_text(row.instruction)
        return (format_count(row.cycle), row.unit, "", row.kind, row.text, row.mend)[column]

    def tooltip(self, row: Hazard, column: int) -> str:
        mend = f"\nTo mend it: {row.mend}" if row.mend else ""
        other = self._instruction_text(row.other) if row.other >= 0 else ""
        with_ = f"\nThe other one: {other}" if other else ""
        return f"{row.text}{with_}{mend}\nClick selects the instruction, a double click goes to its cycle"
