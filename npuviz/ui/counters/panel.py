"""The counters panel: occupancies, bytes and rates, now and over the run or the selected cycles."""

from PySide6.QtCore import QModelIndex

from npuviz.base.units import format_count
from npuviz.ui.counters.table import LIMIT, LOWEST, MEAN, MEASURE, CounterRow, CounterTable, counter_rows
from npuviz.ui.kit.columns import fit_columns
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import column, filter_line, line, summary_line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.workbench.selection import Selection

NO_TRACE = "Counters of the run are listed here: queue occupancy, bytes held, requests under way."
NAME_WIDTH = 150
NONE = "This machine records no counters."


class CountersPanel(Panel):
    """A line that names the range of cycles, and the table."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._rows: list[CounterRow] = []
        self.table = CounterTable(self)
        self.view = make_table(
            self.table, self.theme, "Counters", self, object_name="counters.table",
            is_single=True,
        )  # fmt: skip
        fit_columns(self.view, NAME_WIDTH, spare=(LIMIT, MEASURE, LOWEST, MEAN))
        add_copying(self.view, (self, "counters"))
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.summary = summary_line("counters.summary")
        self.filter = filter_line(
            self, "Filter", lambda _text: self._show(), title="Show only counters with this text"
        )
        bar = line((self.summary, 1), self.filter)
        self.set_pages(self.invitation(NO_TRACE), column(bar, (self.view, 1), parent=self))
        self.setFocusProxy(self.view)
        self.on_session_changed()

    def on_session_changed(self) -> None:
        reader = self.model.reader
        has_any = reader is not None and any(track.kind == "counter" for track in reader.schema.tracks)
        self.empty.set_text(NO_TRACE if reader is None else NONE)
        self.empty.set_action_visible(reader is None)
        self.show_page(has_any)
        self._rows = []
        self.table.reset([])
        self._read()

    def on_cycle_changed(self) -> None:
        self._read()

    def on_selection_changed(self, selection: Selection) -> None:
        if not self.view.hasFocus():
            self._read()

    def _read(self) -> None:
        reader = self.model.reader
        if reader is None or self.is_empty:
            return
        chosen = self.context.selection.current.cycles
        low, high = chosen if chosen is not None else (0, max(reader.end_cycle, 1))
        cycle = self.model.cycle if self.model.session is not None else max(reader.end_cycle - 1, 0)
        self._rows = counter_rows(reader, cycle, (low, high))
        span = f"cycles {format_count(low)} to {format_count(high)}"
        self.summary.setText(span if chosen is not None else f"{span}: the whole run")
        self._show()

    def _show(self) -> None:
        text = self.filter.text().casefold().strip()
        self.table.show_rows(
            [row for row in self._rows if text in row.name.casefold()], lambda row: row.track
        )

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            cycles = self.context.selection.current.cycles
            self.context.selection.set(Selection(track=self.table.rows[index.row()].track, cycles=cycles))


SPEC = PanelSpec(
    "counters", "Counters", "mdi6.chart-line-variant", "bottom", 23, ("counters",), CountersPanel
)
