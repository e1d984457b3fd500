"""The table model of a sweep's runs, sortable by each column."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import QObject, Qt

from npuviz.ui.kit.row_model import Index, RowModel
from npuviz.workbench.sweep.figures import number_text
from npuviz.workbench.sweep.results import DONE, SweepResults


class SweepTable(RowModel[int]):
    """One row for each run: whether it is best, its levels, its columns, and its result or error."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._results: SweepResults | None = None
        self._best: frozenset[int] = frozenset()
        self._sorted: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    def set_results(self, results: SweepResults | None, rows: Sequence[int], best: Collection[int]) -> None:
        """Show these runs of a sweep; `best` are marked."""
        self.beginResetModel()
        self._results = results
        self.rows, self._best = list(rows), frozenset(best)
        axes = () if results is None else results.axes
        self.titles = [] if results is None else ["Best", *axes, *results.columns, "Result"]
        named = {
            n for n in range(len(axes)) if results and any(isinstance(p[n], str) for p in results.points)
        }
        self.numbers = [column for column in range(1, len(self.titles) - 1) if column - 1 not in named]
        self._order()
        self.endResetModel()

    def run_of(self, index: Index) -> int:
        """Return the number of the run of a row, -1 for none."""
        return self.rows[index.row()] if index.isValid() and index.row() < len(self.rows) else -1

    def row_of(self, run: int) -> int:
        """Return the row of a run, -1 for none."""
        return self.rows.index(run) if run in self.rows else -1

    def tooltip(self, row: int, column: int) -> str | None:
        results = self._results
        tip = "A double click opens this run"
        return None if results is None else results.errors[row] or f"{results.label(row)}\n{tip}"

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
        self.rows = sorted(self.rows)
        if results is None or not 0 <= column < len(self.titles):
            return
        is_down = order == Qt.SortOrder.DescendingOrder
        self.rows = sorted(self.rows, key=lambda run: self._key(results, run, column), reverse=is_down)

    def _key(self, results: SweepResults, run: int, column: int) -> tuple[int, float, str]:
        if column == 0:
            return (0, -float(run in self._best), "")
        name = self.titles[column]
        if column <= len(results.axes):
            value = results.points[run][column - 1]
            return (1, 0.0, str(value)) if isinstance(value, str) else (0, float(value), "")
        if name in results.columns and column in self.numbers:
            number = float(results.columns[name][run])
            return (0, number, "") if np.isfinite(number) else (1, 0.0, "")
        return (0, 0.0, results.errors[run])

    def text(self, row: int, column: int) -> str:
        results = self._results
        if results is None:
            return ""
        if column == 0:
            return "\u2605" if row in self._best else ""
        if column <= len(results.axes):
            value = str(results.points[row][column - 1])
            return Path(value).name if results.axes[column - 1] in ("model", "config") else value
        if column < len(self.titles) - 1:
            return number_text(float(results.columns[self.titles[column]][row]))
        return results.errors[row] if results.statuses[row] != DONE else "done"
