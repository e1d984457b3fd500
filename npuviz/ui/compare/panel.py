"""The compare panel: differences between the open run and another one, by cause, operator, line and unit."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from npuviz.base.errors import Cancelled
from npuviz.base.progress import Progress
from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.program.source import first_of_line
from npuviz.trace.unit_times import unit_label
from npuviz.ui.bridge.worker import Worker
from npuviz.ui.compare.table import (
    BAR,
    BAR_WIDTH,
    CHANGE,
    WAITS_HERE,
    WAITS_THERE,
    ChangeBar,
    DifferenceTable,
    Offer,
    OfferTable,
    rows_of,
)
from npuviz.ui.kit.columns import abbreviate_names, fit_columns
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, choice, column, filter_line, line, muted_label, summary_line
from npuviz.ui.kit.progress import WorkProgress
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.workbench.advice import failure_of
from npuviz.workbench.comparing.comparison import in_nanoseconds, times_differ
from npuviz.workbench.comparing.other_runs import OtherRun, compare_with, other_presets
from npuviz.workbench.jobs import JobEnd
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.selection import Selection

NO_TRACE = "What another preset, setting, model or recorded run wins and loses is listed here."
ELSEWHERE = (
    ("Machine or setting \u2026", "chosen in Run on, then Compare", "file.run_on"),
    ("Model or kernel \u2026", "a file, run as it is", "trace.compare_model"),
    ("Trace bundle \u2026", "a run that was recorded", "trace.compare_bundle"),
)
"""Title, sentence and command of the offers that open a dialog."""
WHATS = ("causes", "operators", "lines", "units")
NOTE = "The other run runs beside this one, which stays at its cycle."
NAME_WIDTH = 180
OFFER_WIDTH = 150


class ComparePanel(Panel):
    """A list of runs to compare with, and the comparison. Other runs are made in a separate thread."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._found: Mapping[str, Any] | None = None
        self._other: OtherRun | None = None
        self._version = 0
        self._presets: list[OtherRun] = []
        self._worker = Worker(self)
        self._worker.progress.connect(self._show_progress)
        self._worker.ended.connect(self._ended)
        self.work = WorkProgress(self)
        self.work.cancelled.connect(self._worker.cancel_all)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self._make_offers())
        self.stack.addWidget(self._make_result())
        self.set_pages(self.invitation(NO_TRACE), column((self.stack, 1), self.work, parent=self))
        self.setFocusProxy(self.offers_view)
        context.requests.comparison_asked.connect(self.compare)
        self.on_session_changed()

    def _make_offers(self) -> QWidget:
        self.offers = OfferTable(self)
        self.offers_view = make_table(
            self.offers, self.theme, "What to compare with", self, object_name="compare.offers",
            widths=(OFFER_WIDTH,), is_single=True,
        )  # fmt: skip
        self.offers_view.clicked.connect(self._choose_offer)
        self.offers_view.activated.connect(self._choose_offer)
        self.note = muted_label(self, "compare.note", NOTE)
        self.note.setWordWrap(True)
        return column((self.offers_view, 1), line(self.note), parent=self)

    def _make_result(self) -> QWidget:
        self.table = DifferenceTable(self)
        self.view = make_table(
            self.table, self.theme, "What changed", self, object_name="compare.table", is_single=True
        )
        self.view.setItemDelegateForColumn(BAR, ChangeBar(self.theme, self.view))
        self.view.horizontalHeader().setSortIndicator(CHANGE, Qt.SortOrder.DescendingOrder)
        self.view.setSortingEnabled(True)
        self._fitting = fit_columns(self.view, NAME_WIDTH, spare=(BAR, WAITS_THERE, WAITS_HERE))
        abbreviate_names(self.view, 0)
        self.view.horizontalHeader().setMinimumSectionSize(BAR_WIDTH // 2)
        add_copying(self.view, (self, "comparison"))
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.what = choice(self, "What is compared", "compare.what")
        for name in WHATS:
            self.what.addItem(name.capitalize(), name)
        self.what.currentIndexChanged.connect(lambda _index: self._show())
        self.summary = summary_line("compare.summary")
        self.filter = filter_line(
            self, "Filter", lambda _text: self._show(), title="Show only rows with this text", width=110
        )
        self.first = button(
            self, "First difference", "Go to the cycle at which the runs first differ", self._go_to_first,
            name="compare.first",
        )  # fmt: skip
        self.back = button(
            self, "Other \u2026", "Compare with another run", self._show_offers, name="compare.back"
        )
        bar = line(self.what, self.filter, 1, self.first, self.back)
        return column(bar, line(self.summary, margins=(8, 0, 8, 4)), (self.view, 1), parent=self)

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._worker.cancel_all()
        self._found = self._other = None
        self.table.reset([])
        opened = self.model.opened
        self._presets = other_presets(opened) if opened is not None else []
        found = [Offer(each.title, each.text) for each in self._presets]
        skipped = () if self.model.session is not None else ("file.run_on",)
        found += [Offer(title, text) for title, text, command in ELSEWHERE if command not in skipped]
        self.offers.reset(found)
        self.show_page(self.model.reader is not None)
        self._show_offers()

    def on_cycle_changed(self) -> None:
        # After a value was written the comparison is about a run that is no longer open.
        session = None if self.model.is_running else self.model.session
        if self._found is not None and session is not None and session.version != self._version:
            self._found = None
            self._show_offers()

    @property
    def is_filled(self) -> bool:
        return not self._worker.is_busy

    def save_state(self) -> dict[str, Any]:
        return {"what": self.what.currentData()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.what.setCurrentIndex(max(0, self.what.findData(state.get("what"))))

    def dispose(self) -> None:
        self._worker.shut_down()
        super().dispose()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._worker.is_busy:
            self._worker.cancel_all()
        elif event.key() == Qt.Key.Key_Escape and self.stack.currentIndex() and not self.filter.hasFocus():
            self._show_offers()
            self.offers_view.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            super().keyPressEvent(event)

    # -- asking ---------------------------------------------------------------------------------------

    def compare(self, path: Path, options: OpenOptions) -> None:
        """Compare the open run with a file opened with these options."""
        title = options.preset if self.model.opened and path == self.model.opened.path else path.name
        self._compare(OtherRun(title or path.name, "", path, options))

    def _choose_offer(self, index: QModelIndex) -> None:
        if self._worker.is_busy or not index.isValid():
            return
        if index.row() < len(self._presets):
            self._compare(self._presets[index.row()])
            return
        title = self.offers.rows[index.row()].title
        self.context.commands.run(next(command for name, _, command in ELSEWHERE if name == title))

    def _compare(self, other: OtherRun) -> None:
        opened, session = self.model.opened, self.model.session
        if opened is None or not self.model.may_open(other.path, other.options):
            return
        self._worker.cancel_all()
        self._other, self._version = other, session.version if session is not None else 0
        self.note.setText(NOTE)

        def work(progress: Progress) -> Mapping[str, Any]:
            return compare_with(opened, other, progress)

        self._worker.start(f"Comparing with {other.title}", work, partial(self._answered, opened))

    def _show_progress(self, fraction: float, text: str) -> None:
        if text:
            self.work.report(fraction, text)
        else:
            self.work.end()

    def _ended(self, end: JobEnd) -> None:
        if end.error is not None and not isinstance(end.error, Cancelled):
            self._show_offers()
            title = f"{self._other.title}: " if self._other is not None else ""
            self.note.setText(title + failure_of(end.error).text)

    def _answered(self, opened: object, found: Mapping[str, Any]) -> None:
        if opened is not self.model.opened:
            return
        self._found = in_nanoseconds(found) if times_differ(found) else found
        if not self._found["lines"] and self.what.currentData() == "lines":
            self.what.setCurrentIndex(0)
        self._show()
        self.stack.setCurrentIndex(1)
        self.setFocusProxy(self.view)
        if self.offers_view.hasFocus():
            self.view.setFocus(Qt.FocusReason.OtherFocusReason)

    # -- showing --------------------------------------------------------------------------------------

    def _show_offers(self) -> None:
        self.stack.setCurrentIndex(0)
        self.setFocusProxy(self.offers_view)

    def _show(self) -> None:
        found, other = self._found, self._other
        if found is None or other is None:
            return
        what = str(self.what.currentData())
        is_time = times_differ(found)
        here, there = ("Here, ns", "There, ns") if is_time else ("Here", "There")
        self.table.titles = (what.capitalize(), here, there, *DifferenceTable.titles[CHANGE:])
        words = self.filter.text().casefold().split()
        rows = rows_of(found, what)
        header = self.view.horizontalHeader()
        self.table.rows = [row for row in rows if all(word in row.name.casefold() for word in words)]
        self.table.sort(header.sortIndicatorSection(), header.sortIndicatorOrder())
        self.table.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.table.titles) - 1)
        self._fitting.leave_out(() if what == "units" else (WAITS_HERE, WAITS_THERE))
        self.first.setVisible(found["first_difference"] is not None and self.model.session is not None)
        self.summary.setText(_summary(found, other.title))

    def _go_to_first(self) -> None:
        if self._found is not None and self.model.session is not None:
            self.model.go_to(self._found["first_difference"]["cycle"])

    def _choose(self, index: QModelIndex) -> None:
        reader = self.model.reader
        if not index.isValid() or reader is None:
            return
        name, what = self.table.rows[index.row()].name, self.what.currentData()
        if what == "operators" and name in reader.schema.node_names:
            self.context.selection.set(Selection(node=reader.schema.node_names.index(name)))
        elif what == "lines" and self.model.program is not None:
            first = first_of_line(self.model.program.listing, name)
            if first >= 0:
                self.context.selection.set(Selection(instruction=first))
        elif what == "units":
            units = {track.unit for track in reader.schema.tracks if track.unit >= 0}
            found = next((unit for unit in sorted(units) if unit_label(reader.schema, unit) == name), None)
            self.context.selection.set(Selection(unit=found))


def _summary(found: Mapping[str, Any], other: str) -> str:
    """Return the result of a comparison in one line, the most important part first."""
    a, b = found["a"], found["b"]
    if found["is_equal"]:
        return f"The runs are equal: {format_count(a['cycles'])} cycles"
    ends = [each["cycles"] / (each["frequency_hz"] if times_differ(found) else 1) for each in (a, b)]
    cycles = [format_count(each["cycles"]) for each in (a, b)]
    times = [format_cycles_as_time(each["cycles"], each["frequency_hz"]) for each in (a, b)]
    parts = [f"{other}: {ends[1] / ends[0]:.2f} times as long" if ends[0] else other]
    parts += [
        f"{which} did not end: {run['problem']}"
        for which, run in (("here", a), ("there", b))
        if run["problem"]
    ]
    parts.append(f"{cycles[0]} \u2192 {cycles[1]} cycles")
    if all(times):
        parts.append(f"{times[0]} \u2192 {times[1]}")
    return "   ".join(parts)


SPEC = PanelSpec(
    "compare", "Compare", "mdi6.compare-horizontal", "bottom", 95, (), ComparePanel, listens=True
)
