"""The accuracy panel: errors against the reference, tensor by tensor, and effects of narrower types."""

from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStackedWidget

from npuviz.base.errors import NpuvizError
from npuviz.base.names import echo
from npuviz.base.progress import NoProgress, Progress
from npuviz.debug.session import Session
from npuviz.onnx.check.rounding import TYPES, RoundingResult
from npuviz.sim.check_result import CheckResult
from npuviz.ui.accuracy.depth_chart import DepthChart
from npuviz.ui.accuracy.histogram import ErrorHistogram
from npuviz.ui.accuracy.table import (
    ALLOWED,
    COSINE,
    DEPTH,
    OWN_SQNR,
    TENSOR,
    AccuracyTable,
    RoundedTable,
    share_text,
)
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.kit.columns import abbreviate_names, fit_columns
from npuviz.ui.kit.empty_state import EmptyState
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, choice, column, line, restore_sizes, splitter, summary_line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.workbench.accuracy.report import Wanted, round_of
from npuviz.workbench.accuracy.rows import accuracy_rows, checked
from npuviz.workbench.selection import Selection, selected

NO_MODEL = "How far each tensor is from the reference is shown here."
NOT_COMPARED = (
    "Compare every tensor with the reference: the run goes to its end for that, and comes back here."
)
COMPARE = "Compare"
AS_RUN = "As the machine has it"
ROUNDING = "rounding tensors\u2026"
NAME_WIDTH = 150
SPARED = (TENSOR, COSINE, DEPTH, ALLOWED, OWN_SQNR)
"""Columns that are hidden first for want of room; the chart shows depth and the allowed error, too."""
CHART_ROOM = 620
"""Smallest width in pixels of a panel that shows charts beside the table."""
END = 1 << 62


class AccuracyPanel(Panel):
    """Shows one of two tables, and two charts about the first. The comparison is a verb of the session."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._check: CheckResult | None = None
        self._checked_version = -1
        self._job = LatestJob(self)
        self._job.finished.connect(self._rounded)
        self.table, self.types = AccuracyTable(self.theme, self), RoundedTable(self)
        self.view = make_table(
            self.table, self.theme, "Errors of tensors", self, object_name="accuracy.table", is_single=True
        )
        self.types_view = make_table(
            self.types, self.theme, "Tensors in a narrower type", self, object_name="accuracy.types",
            is_single=True,
        )  # fmt: skip
        for view, name in ((self.view, "accuracy"), (self.types_view, "narrower-types")):
            fit_columns(view, NAME_WIDTH, spare=SPARED if view is self.view else ())
            abbreviate_names(view, 0)
            add_copying(view, (self, name))
        self.view.selectionModel().currentRowChanged.connect(self._mark)
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.types_view.clicked.connect(self._choose_rounded)
        self.types_view.activated.connect(self._choose_rounded)
        self.along = DepthChart(self.theme, self)
        self.along.row_chosen.connect(self._choose_place)
        self.histogram = ErrorHistogram(self.theme, self)
        self.charts = splitter(Qt.Orientation.Vertical, (self.along, 3), (self.histogram, 2))
        self.parts = splitter(Qt.Orientation.Horizontal, (self.view, 3), (self.charts, 2))
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.parts)
        self.stack.addWidget(self.types_view)
        self.what = choice(self, "The types that tensors are in", "accuracy.what")
        self.what.addItems([AS_RUN, *(f"One in {name}" for name in TYPES)])
        self.what.currentIndexChanged.connect(self._choose_what)
        self.summary = summary_line("accuracy.summary")
        self.first = button(
            self, "First wrong", "Select what made the first wrong element", self._go_to_first,
            name="accuracy.first",
        )  # fmt: skip
        self.again = button(
            self,
            COMPARE,
            "Compare with the reference as the run is now",
            self._compare,
            name="accuracy.compare",
        )
        bar = line(self.what, (self.summary, 1), self.first, self.again)
        self.offer = EmptyState(NOT_COMPARED, COMPARE, self._compare, self)
        content = column(bar, (self.stack, 1), parent=self)
        self.set_pages(self.invitation(NO_MODEL), content, self.offer)
        self.setFocusProxy(self.view)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._job.drop()
        self._check, self._checked_version = None, -1
        self.what.setCurrentIndex(0)
        self.table.graph = self.types.graph = self.model.program.graph if self.model.program else None
        self.table.reset([])
        self.types.reset([])
        self.along.set_rows(())
        self.histogram.set_spreads("", None, None)
        self._show()

    def on_cycle_changed(self) -> None:
        self._show()

    def on_theme_changed(self) -> None:
        self.along.update()
        self.histogram.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.charts.setVisible(self.width() >= CHART_ROOM)

    @property
    def is_filled(self) -> bool:
        return not self._job.is_waiting

    def save_state(self) -> dict[str, Any]:
        return {"parts": self.parts.sizes(), "charts": self.charts.sizes()}

    def restore_state(self, state: dict[str, Any]) -> None:
        restore_sizes(self.parts, state.get("parts"))
        restore_sizes(self.charts, state.get("charts"))

    # -- the comparison -------------------------------------------------------------------------------

    def _show(self) -> None:
        session = self.model.session
        self.empty.set_action_visible(session is None)
        is_offered = self._check is None and self.what.currentIndex() == 0
        self.show_page(0 if session is None else 2 if is_offered else 1)
        if session is None or self._check is None:
            self.first.hide()
            self.again.hide()
            return
        is_old = not self.model.is_running and session.version != self._checked_version
        self.again.setVisible(is_old)
        self.first.setVisible(self._check.first_instruction >= 0)
        if self.what.currentIndex() == 0:
            old = "  \u00b7  before values were written" if is_old else ""
            self.summary.setText(_verdict(self._check) + old)
            self.summary.setToolTip(_verdict(self._check))

    def _compare(self) -> None:
        opened = self.model.opened
        if opened is None:
            return

        def work(session: Session, progress: Progress) -> None:
            here = session.cycle
            try:
                if not session.is_finished:
                    session.go_to(END, progress)
                check = checked(opened, session, progress)
            finally:
                if session.cycle != here:
                    session.go_to(here, progress)
            self._check, self._checked_version = check, session.version
            self.model.when_free(self._fill)

        self.model.perform("Comparing with the reference", work)

    def _fill(self) -> None:
        check, graph = self._check, self.table.graph
        if check is None or graph is None:
            return
        rows = accuracy_rows(graph, check)
        self.table.reset(rows)
        self.along.set_rows(rows)
        self.histogram.set_spreads("", None, None)
        self._show()
        wrong = [place for place, row in enumerate(rows) if row.errors.own_class == "wrong"]
        if rows:
            self.view.selectRow(wrong[0] if wrong else len(rows) - 1)

    # -- narrower types -------------------------------------------------------------------------------

    def _choose_what(self, place: int) -> None:
        self.stack.setCurrentIndex(1 if place else 0)
        self._show()
        opened, graph = self.model.opened, self.types.graph
        self._job.drop()
        if not place or opened is None or graph is None:
            return
        self.types.reset([])
        self.summary.setText(ROUNDING)
        wanted = Wanted((TYPES[place - 1],))
        if self._job.ask(lambda: round_of(opened, graph, wanted, NoProgress()), 0.02):
            self._rounded()

    def _rounded(self) -> None:
        try:
            found: RoundingResult = self._job.answer()
        except NpuvizError as error:
            self.summary.setText(echo(str(error)))
            return
        self.types.reset(sorted(found.rows, key=lambda row: -row.outputs))
        together = "".join(
            f"  \u00b7  all of them: about {share_text(error)}" for error in found.together.values()
        )
        left = f"  \u00b7  {len(found.left_out)} scalars not tried" if found.left_out else ""
        text = f"{len(found.rows)} tensors, each narrower alone{together}{left}"
        self.summary.setText(text)
        self.summary.setToolTip(text)

    # -- hands ----------------------------------------------------------------------------------------

    def _mark(self, index: QModelIndex, _before: QModelIndex | None = None) -> None:
        if not index.isValid():
            return
        row = self.table.rows[index.row()]
        self.along.choose(index.row())
        self.histogram.set_spreads(f"{echo(row.label)}: {echo(row.name)}", row.errors.whole, row.errors.own)

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            errors = self.table.rows[index.row()].errors
            self.context.selection.set(Selection().with_fields(node=errors.node, tensor=errors.tensor))

    def _choose_place(self, place: int) -> None:
        self.view.selectRow(place)
        self._choose(self.table.index(place, 0))

    def _choose_rounded(self, index: QModelIndex) -> None:
        if index.isValid():
            tensor = self.types.rows[index.row()].tensor
            self.context.selection.set(Selection().with_fields(tensor=tensor))

    def _go_to_first(self) -> None:
        program = self.model.program
        if self._check is None or program is None or self._check.first_instruction < 0:
            return
        found = program.listing.describe(self._check.first_instruction)
        self.context.selection.set(selected(instruction=found.index, node=found.node, unit=found.unit))


def _verdict(check: CheckResult) -> str:
    """Return the verdicts on outputs and operators, and the number of tensors not compared, in one line."""
    whole = check.end_to_end
    parts = [f"{'passed' if check.is_passed else 'FAILED'}: {check.num_tensors} tensors"]
    left_out = sum(map(len, check.not_compared.values()))
    if left_out:
        parts.append(f"{left_out} not compared")
    if whole is not None:
        parts.append(f"outputs off by {share_text(whole.outputs_error)}, allowed {share_text(whole.share)}")
    if check.num_failed:
        parts.append(f"{check.num_failed} operators wrong, first {echo(check.first_divergence)}")
    parts += [f"{echo(each.tensor)} {echo(each.text)}" for each in check.findings[:1] if not check.num_failed]
    return "  \u00b7  ".join(parts)


SPEC = PanelSpec("accuracy", "Accuracy", "mdi6.chart-bell-curve", "bottom", 26, ("reference",), AccuracyPanel)
