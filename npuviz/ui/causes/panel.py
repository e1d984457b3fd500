"""The causes panel: the critical path by cause, its costliest parts, and lost cycles of units by cause."""

from typing import Any

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QStackedWidget

from npuviz.base.units import format_count, format_share
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.causes.table import (
    CYCLES,
    FREE,
    HELPS,
    LINES,
    OPERATORS,
    TIMES,
    CausesTable,
    UnitRow,
    UnitsTable,
)
from npuviz.ui.kit.columns import fit_columns
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, choice, column, line, summary_line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.workbench.causes.overview import CausesOverview, causes_overview
from npuviz.workbench.selection import Selection

NO_TRACE = "What holds the run up, and what would help, is listed here."
NOT_RUN = "Nothing has run yet. Run (F5) or step (F11), and see here what the cycles were lost to."
COUNTING = "following causes\u2026"
PATH, OF_UNITS = "Critical path", "Units"
MARK_TIP = "Mark the critical path in the timeline"
NAME_WIDTH = 220
TEXT_WIDTH = 176
"""Largest width in pixels of a column of names or advice."""
PATIENCE = 0.02
"""Seconds that the window waits for an answer."""


class CausesPanel(Panel):
    """Shows one of two tables, which are computed in a separate thread."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._shown = self._asked = -1
        self._found: CausesOverview | None = None
        self._job = LatestJob(self)
        self._job.finished.connect(self._answered)
        self.table, self.units = CausesTable(self), UnitsTable(self)
        self.view = make_table(
            self.table, self.theme, "Critical path", self, object_name="causes.table", is_single=True
        )
        self.units_view = make_table(
            self.units, self.theme, "Causes of units", self, object_name="causes.units", is_single=True
        )
        self._fitting = fit_columns(
            self.view, NAME_WIDTH, spare=(LINES, TIMES, OPERATORS, FREE, CYCLES), most=TEXT_WIDTH
        )
        fit_columns(self.units_view, NAME_WIDTH)
        for view, name in ((self.view, "critical-path"), (self.units_view, "unit-causes")):
            add_copying(view, (self, name))
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.view.doubleClicked.connect(self._go_to)
        self.units_view.clicked.connect(self._choose_unit)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.units_view)
        self.what = choice(self, "What causes are listed for", "causes.what")
        self.what.addItems([PATH, OF_UNITS])
        self.what.currentIndexChanged.connect(self.stack.setCurrentIndex)
        self.summary = summary_line("causes.summary")
        self.mark = button(
            self, "In timeline", MARK_TIP, lambda _is_on: self._mark(), name="causes.mark", is_on=False
        )
        bar = line(self.what, (self.summary, 1), self.mark)
        self.set_pages(self.invitation(NO_TRACE), column(bar, (self.stack, 1), parent=self))
        self.setFocusProxy(self.view)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._job.drop()
        self._shown = self._asked = -1
        self._found = None
        self.table.reset([])
        self.units.reset([])
        self._mark()
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        if not self.model.is_running:
            self._ask()

    @property
    def is_filled(self) -> bool:
        return not self._job.is_waiting

    def save_state(self) -> dict[str, Any]:
        return {"what": self.what.currentText()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.what.setCurrentIndex(max(0, self.what.findText(str(state.get("what")))))

    # -- inside ---------------------------------------------------------------------------------------

    def _ask(self) -> None:
        reader, opened = self.model.reader, self.model.opened
        self.show_page(reader is not None and reader.end_cycle > 0)
        if reader is None or opened is None or reader.end_cycle <= 0:
            self.empty.set_text(NO_TRACE if reader is None else NOT_RUN)
            return
        if reader.end_cycle in (self._shown, self._asked):
            return
        self._asked = reader.end_cycle
        program = self.model.program
        if self._job.ask(lambda: causes_overview(opened, reader, program), PATIENCE):
            self._answered()
        else:
            self.summary.setText(COUNTING)

    def _answered(self) -> None:
        found: CausesOverview = self._job.answer()
        self._found, self._shown, self._asked = found, self._asked, -1
        total = max(found.run.cycles, 1)
        self.table.total = self.units.total = total
        self.table.reset(found.costs)
        self._fitting.leave_out(
            [
                place
                for place in (OPERATORS, LINES, HELPS)
                if not any(self.table.text(row, place) for row in found.costs)
            ]
        )
        self.units.reset([UnitRow(name, cycles) for name, cycles in found.units.items()])
        parts = sorted(found.run.by_cause.items(), key=lambda item: -item[1])
        text = ", ".join(f"{name} {format_share(cycles / total)}" for name, cycles in parts if cycles)
        self.summary.setText(f"{format_count(found.run.cycles)} cycles: {text}")
        self.summary.setToolTip(self.summary.text())
        self._mark()

    def _mark(self) -> None:
        is_shown = self.mark.isChecked() and self._found is not None
        self.context.requests.path_marked.emit(self._found.run.path if is_shown and self._found else None)

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        cost = self.table.rows[index.row()].cost
        unit = cost.track >= 0 and self.model.reader and self.model.reader.schema.tracks[cost.track].unit
        picked = {"cycles": (cost.start, cost.end), "track": cost.track, "instruction": cost.instruction}
        picked["unit"] = unit if isinstance(unit, int) else -1
        fields = {name: value for name, value in picked.items() if value != -1}
        self.context.selection.set(Selection().with_fields(**fields))

    def _go_to(self, index: QModelIndex) -> None:
        if index.isValid() and self.model.session is not None and not self.model.is_running:
            self.model.go_to(self.table.rows[index.row()].cost.start)

    def _choose_unit(self, index: QModelIndex) -> None:
        if index.isValid() and self._found is not None:
            unit = self._found.run.unit_of(self.units.rows[index.row()].name)
            self.context.selection.set(Selection().with_fields(unit=unit))


SPEC = PanelSpec("causes", "Causes", "mdi6.help-rhombus-outline", "bottom", 25, (), CausesPanel)
