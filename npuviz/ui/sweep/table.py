"""Runs of a sweep as rows of a table that can be sorted by any column."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from npuviz.workbench.sweep.figures import number_text
from npuviz.workbench.sweep.results import DONE, SweepResults

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class SweepTable(QAbstractTableModel):
    """Best, axes, columns, and what went wrong."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._results: SweepResults | None = None
        self._rows: list[int] = []
        self._best: frozenset[int] = frozenset()
        self._titles: list[str] = []
        self._sorted: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    def set_results(self, results: SweepResults | None, rows: Sequence[int], best: Collection[int]) -> None:
        """Show these runs of a sweep; `best` are marked."""
        self.beginResetModel()
        self._results = results
        self._rows, self._best = list(rows), frozenset(best)
        self._titles = [] if results is None else ["Best", *results.axes, *results.columns, "Result"]
        self._order()
        self.endResetModel()

    def run_of(self, index: Index) -> int:
        """Number of the run of a row, -1 for none."""
        return self._rows[index.row()] if index.isValid() and index.row() < len(self._rows) else -1

    def row_of(self, run: int) -> int:
        """Row that shows a run, -1 for none."""
        return self._rows.index(run) if run in self._rows else -1

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._titles[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and self._is_number(section):
            return RIGHT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        results = self._results
        if not index.isValid() or results is None:
            return None
        run, column = self._rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(results, run, column)
        if role == Qt.ItemDataRole.TextAlignmentRole and self._is_number(column):
            return RIGHT
        if role == Qt.ItemDataRole.ToolTipRole:
            return results.errors[run] or f"{results.label(run)}\nA double click opens this run"
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.layoutAboutToBeChanged.emit()
        before = [(index, self.run_of(index)) for index in self.persistentIndexList()]
        self._sorted = (column, order)
        self._order()
        for index, run in before:
            self.changePersistentIndex(index, self.index(self.row_of(run), index.column()))
        self.layoutChanged.emit()

    def _order(self) -> None:
        results, (column, order) = self._results, self._sorted
        self._rows.sort()
        if results is None or not 0 <= column < len(self._titles):
            return
        is_down = order == Qt.SortOrder.DescendingOrder
        self._rows.sort(key=lambda run: self._key(results, run, column), reverse=is_down)

    def _key(self, results: SweepResults, run: int, column: int) -> tuple[int, float, str]:
        if column == 0:
            return (0, -float(run in self._best), "")
        name = self._titles[column]
        if column <= len(results.axes):
            value = results.points[run][column - 1]
            return (1, 0.0, str(value)) if isinstance(value, str) else (0, float(value), "")
        if name in results.columns and self._is_number(column):
            number = float(results.columns[name][run])
            return (0, number, "") if np.isfinite(number) else (1, 0.0, "")
        return (0, 0.0, results.errors[run])

    def _is_number(self, column: int) -> bool:
        results = self._results
        if results is None or not 0 < column < len(self._titles) - 1:
            return False
        if column <= len(results.axes):
            return not any(isinstance(point[column - 1], str) for point in results.points)
        return True

    def _text(self, results: SweepResults, run: int, column: int) -> str:
        if column == 0:
            return "\u2605" if run in self._best else ""
        if column <= len(results.axes):
            value = str(results.points[run][column - 1])
            return Path(value).name if results.axes[column - 1] in ("model", "config") else value
        if column < len(self._titles) - 1:
            return number_text(float(results.columns[self._titles[column]][run]))
        return results.errors[run] if results.statuses[run] != DONE else "done"
