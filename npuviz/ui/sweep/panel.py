"""The sweep panel: runs of a design space, their Pareto front, and the effect of every axis."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QComboBox, QLabel, QMenu, QWidget

from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import choice, column, line, splitter
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.sweep.effects import SweepEffects
from npuviz.ui.sweep.scatter import SweepScatter
from npuviz.ui.sweep.table import SweepTable
from npuviz.workbench.sweep.analysis import comparable, effects, pareto_front
from npuviz.workbench.sweep.figures import number_text
from npuviz.workbench.sweep.results import SweepResults
from npuviz.workbench.sweep.run import opening_of

EMPTY_TEXT = "The results of a sweep show here: `npuviz sweep PLAN.toml`, then open its folder."
NO_AXIS = "one colour"
MAX_LEGEND = 8


class SweepPanel(Panel):
    """Shows the open results in a scatter plot, a chart of effects and a table."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._results: SweepResults | None = None
        self.scatter = SweepScatter(context.theme, self._text_of)
        self.effects = SweepEffects(context.theme)
        self.table = SweepTable(self)
        self.view = make_table(
            self.table, context.theme, "Runs of the sweep", self, object_name="sweep.table",
            is_single=True,
        )  # fmt: skip
        self.view.setSortingEnabled(True)
        self.view.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        add_copying(self.view, (self, "sweep"), self._add_actions)
        self.model_box = self._box("Model")
        self.x_box = self._box("Across")
        self.y_box = self._box("Upwards")
        self.color_box = self._box("Colour")
        self.summary = QLabel(self, textFormat=Qt.TextFormat.PlainText)
        self.summary.setObjectName("sweep.summary")
        self.set_pages(EMPTY_TEXT, self._page())
        self.setFocusProxy(self.scatter)
        self.scatter.run_chosen.connect(self._mark)
        self.scatter.run_opened.connect(self.open_run)
        self.effects.axis_chosen.connect(self.color_box.setCurrentText)
        self.view.clicked.connect(self._row_chosen)
        self.view.activated.connect(self._row_opened)
        for box in (self.model_box, self.x_box, self.y_box, self.color_box):
            box.currentIndexChanged.connect(self._show)

    def _box(self, name: str) -> QComboBox:
        box = choice(self, name, f"sweep.{name.lower()}")
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        return box

    def _page(self) -> QWidget:
        boxes = (self.model_box, self.y_box, self.x_box, self.color_box)
        self._labels = [QLabel(box.accessibleName(), self) for box in boxes]
        for label, box in zip(self._labels, boxes, strict=True):
            label.setBuddy(box)
        named = [part for pair in zip(self._labels, boxes, strict=True) for part in pair]
        bar = line(*named, 1, self.summary, margins=(8, 6, 8, 6))
        upper = splitter(Qt.Orientation.Horizontal, (self.scatter, 62), (self.effects, 38))
        both = splitter(Qt.Orientation.Vertical, (upper, 60), (self.view, 40))
        return column(bar, (both, 1), parent=self)

    # -- hooks --------------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        opened = self.model.opened
        results = opened.sweep if opened is not None else None
        if results is self._results and results is not None:
            return
        self._results = results
        self.show_page(results is not None)
        boxes = (self.model_box, self.x_box, self.y_box, self.color_box)
        for box in boxes:
            box.blockSignals(True)
            box.clear()
        if results is not None:
            self._fill(results)
        for box in boxes:
            box.blockSignals(False)
        self._show()

    def on_theme_changed(self) -> None:
        self._show()

    def save_state(self) -> dict[str, Any]:
        return {"x": self.x_box.currentText(), "y": self.y_box.currentText()}

    def restore_state(self, state: dict[str, Any]) -> None:
        for box, key in ((self.x_box, "x"), (self.y_box, "y")):
            index = box.findText(str(state.get(key, "")))
            if index >= 0:
                box.setCurrentIndex(index)

    def open_run(self, run: int) -> None:
        """Open a run's model with its settings instead of the results."""
        if self._results is None or not 0 <= run < len(self._results):
            return
        chosen = self._results.runs[run]
        self.model.open(Path(chosen.model), opening_of(chosen))

    # -- inside ---------------------------------------------------------------------------------------------

    def _fill(self, results: SweepResults) -> None:
        groups = comparable(results)
        for model, _rows in groups:
            self.model_box.addItem(Path(model).name if model else "all runs")
        self.model_box.setVisible(len(groups) > 1)
        self._labels[0].setVisible(len(groups) > 1)
        names = [*results.objectives, *(name for name in results.columns if name not in results.objectives)]
        self.x_box.addItems(names)
        self.y_box.addItems(names)
        self.x_box.setCurrentIndex(min(1, len(names) - 1))
        self.color_box.addItem(NO_AXIS)
        varied = [name for index, name in enumerate(results.axes) if len(results.levels(index)) > 1]
        self.color_box.addItems([name for name in varied if name != "model"])
        if self.color_box.count() > 1:
            self.color_box.setCurrentIndex(1)

    def _rows(self, results: SweepResults) -> list[int]:
        groups = comparable(results)
        return groups[max(0, self.model_box.currentIndex())][1]

    def _show(self) -> None:
        results = self._results
        if results is None:
            self.table.set_results(None, (), ())
            return
        rows = self._rows(results)
        x_name, y_name = self.x_box.currentText(), self.y_box.currentText()
        front = pareto_front(results, (x_name, y_name) if x_name != y_name else (x_name,), rows)
        best = pareto_front(results, list(results.objectives), rows)
        self.scatter.set_runs(
            (x_name, y_name), rows, results.columns[x_name], results.columns[y_name], front,
            *self._colors(results, rows),
        )  # fmt: skip
        self.effects.set_effects(y_name, effects(results, y_name, rows))
        chosen = self.scatter.chosen
        self.table.set_results(results, rows, best)
        self.view.resizeColumnsToContents()
        failed = sum(results.statuses[row] != "done" for row in rows)
        aims = ", ".join(f"{way} {name}" for name, way in results.objectives.items())
        text = f"{len(rows)} runs, {len(best)} best ({aims})"
        self.summary.setText(f"{text}, {failed} failed" if failed else text)
        self._mark(chosen)

    def _colors(
        self, results: SweepResults, rows: list[int]
    ) -> tuple[dict[int, QColor], list[tuple[str, QColor]]]:
        """Return {run: colour} by level of the chosen axis, and a legend: shades for numbers, else
        categories.
        """
        name = self.color_box.currentText()
        if name not in results.axes:
            return {}, []
        index = results.axes.index(name)
        levels = results.levels(index)
        numbers = [float(level) for level in levels if not isinstance(level, str)]
        is_ordered = len(numbers) == len(levels)
        if is_ordered:
            levels.sort(key=float)
        last = max(1, len(levels) - 1)
        theme = self.context.theme
        colors = {
            level: theme.heat_color(0.1 + 0.85 * place / last) if is_ordered else theme.category_color(place)
            for place, level in enumerate(levels)
        }
        shown = levels if len(levels) <= MAX_LEGEND else [levels[0], levels[last // 2], levels[-1]]
        legend = [(Path(str(level)).name, colors[level]) for level in shown]
        legend[0] = (f"{name} {legend[0][0]}", legend[0][1])
        return {row: colors[results.points[row][index]] for row in rows}, legend

    def _text_of(self, run: int) -> str:
        results = self._results
        if results is None:
            return ""
        lines = [f"{name}: {value}" for name, value in zip(results.axes, results.points[run], strict=True)]
        lines += [f"{name}: {number_text(float(column[run]))}" for name, column in results.columns.items()]
        return "\n".join([*lines, "A double click opens this run"])

    def _mark(self, run: int) -> None:
        row = self.table.row_of(run)
        if row >= 0:
            self.view.selectRow(row)
            self.view.scrollTo(self.table.index(row, 0))
        else:
            self.view.clearSelection()

    def _row_chosen(self, index: QModelIndex) -> None:
        self.scatter.choose(self.table.run_of(index))

    def _row_opened(self, index: QModelIndex) -> None:
        self.open_run(self.table.run_of(index))

    def _add_actions(self, menu: QMenu, index: QModelIndex) -> None:
        run = self.table.run_of(index)
        if run >= 0:
            menu.addAction("Open this run", lambda: self.open_run(run))


SPEC = PanelSpec("sweep", "Sweep", "mdi6.chart-scatter-plot", "center", 4, ("sweep results",), SweepPanel)
