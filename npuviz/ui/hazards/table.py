"""Hazards as rows of a table."""

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from npuviz.base.units import format_count
from npuviz.sim.machine import Hazard

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
CYCLE, UNIT, INSTRUCTION, KIND, TEXT = range(5)
TITLES = ("Cycle", "Unit", "Instruction", "Kind", "What is wrong")


class HazardTable(QAbstractTableModel):
    """Hazards by cycle; what comes later is appended."""

    def __init__(self, instruction_text: Callable[[int], str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._instruction_text = instruction_text
        self._hazards: tuple[Hazard, ...] = ()

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What is shown."""
        return self._hazards

    def set_hazards(self, hazards: Sequence[Hazard]) -> None:
        """Show these."""
        fresh, old = tuple(hazards), self._hazards
        if fresh[: len(old)] == old:
            if len(fresh) > len(old):
                self.beginInsertRows(NOWHERE, len(old), len(fresh) - 1)
                self._hazards = fresh
                self.endInsertRows()
        elif old[: len(fresh)] == fresh:
            self.beginRemoveRows(NOWHERE, len(fresh), len(old) - 1)
            self._hazards = fresh
            self.endRemoveRows()
        else:
            self.beginResetModel()
            self._hazards = fresh
            self.endResetModel()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._hazards)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(TITLES)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section == CYCLE:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        hazard, column = self._hazards[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            if column == INSTRUCTION:
                return self._instruction_text(hazard.instruction)
            return (format_count(hazard.cycle), hazard.unit, "", hazard.kind, hazard.text)[column]
        if role == Qt.ItemDataRole.TextAlignmentRole and column == CYCLE:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{hazard.text}\nClick selects the instruction, a double click goes to its cycle"
        return None
