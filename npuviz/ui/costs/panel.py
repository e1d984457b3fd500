"""The costs panel: cycles of a run by operator, instruction, kind of work or unit, costliest first."""

from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QMenu

from npuviz.base.units import format_count, format_share
from npuviz.trace.unit_times import unit_label
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.costs.table import BUSY, NAME, SHARE, WAITING, WORK, CostRow, CostTable, rows_of
from npuviz.ui.kit.columns import abbreviate_names, fit_columns
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import choice, column, filter_line, line, summary_line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.workbench.costs import GROUPINGS, Costs, Grouping, costs
from npuviz.workbench.selection import Selection
from npuviz.workbench.under_way import under_way

NO_TRACE = "What the run is spent on is listed here: operators, instructions, kinds of work, units."
NOT_RUN = "Nothing has run yet. Run (F5) or step (F11), and see here what the cycles were spent on."
COUNTING = "counting\u2026"
TITLES: dict[Grouping, str] = {
    "operator": "Operators",
    "instruction": "Instructions",
    "kind": "Kinds of work",
    "unit": "Units",
}
NAME_WIDTH = 180
MAX_ROWS = 1000
PATIENCE = 0.02
"""Seconds that the window waits for an answer."""


class CostsPanel(Panel):
    """A chooser of the listed intervals, and the table. The trace is read in a separate thread."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._shown: tuple[int, Grouping] | None = None
        self._asked: tuple[int, Grouping] | None = None
        self._rows: list[CostRow] = []
        self._compared: int | None = None
        self._job = LatestJob(self)
        self._job.finished.connect(self._answered)
        self.table = CostTable(self)
        self.view = make_table(
            self.table, self.theme, "Costs", self, object_name="costs.table", is_single=True
        )
        self.view.horizontalHeader().setSortIndicator(SHARE, Qt.SortOrder.DescendingOrder)
        self.view.setSortingEnabled(True)
        fit_columns(self.view, NAME_WIDTH, spare=(WORK, WAITING, BUSY))
        abbreviate_names(self.view, 0)
        add_copying(self.view, (self, "costs"), self._add_actions)
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.view.doubleClicked.connect(self._go_to)
        self.grouping = choice(self, "What the costs are listed for", "costs.grouping")
        for name in GROUPINGS:
            self.grouping.addItem(TITLES[name], name)
        self.grouping.currentIndexChanged.connect(lambda _index: self._ask())
        self.summary = summary_line("costs.summary")
        self.filter = filter_line(
            self, "Filter", lambda _text: self._show(), title="Show only rows with this text"
        )
        bar = line(self.grouping, (self.summary, 1), self.filter)
        self.set_pages(self.invitation(NO_TRACE), column(bar, (self.view, 1), parent=self))
        self.setFocusProxy(self.view)
        context.requests.compared.connect(self._compare)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._job.drop()
        self._shown = self._asked = self._compared = None
        self._rows = []
        self.table.reset([])
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        if not self.model.is_running:
            self._ask()

    @property
    def is_filled(self) -> bool:
        return not self._job.is_waiting

    def save_state(self) -> dict[str, Any]:
        return {"grouping": self.grouping.currentData()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.grouping.setCurrentIndex(max(0, self.grouping.findData(state.get("grouping"))))

    # -- inside ---------------------------------------------------------------------------------------

    def _ask(self) -> None:
        reader = self.model.reader
        self.show_page(reader is not None and reader.end_cycle > 0)
        if reader is None or reader.end_cycle <= 0:
            self.empty.set_text(NO_TRACE if reader is None else NOT_RUN)
            return
        grouping: Grouping = self.grouping.currentData()
        wanted = (reader.end_cycle, grouping)
        if wanted in (self._shown, self._asked):
            return
        self._asked = wanted
        session = self.model.session
        rows = under_way(session.machine if session is not None else None, reader)
        if self._job.ask(lambda: costs(reader, grouping, rows, puts_functions_together=True), PATIENCE):
            self._answered()
        else:
            self.summary.setText(COUNTING)

    def _answered(self) -> None:
        found: Costs = self._job.answer()
        self._shown, self._asked = self._asked, None
        self.table.titles = (TITLES[found.grouping], *self.table.titles[1:])
        self.table.headerDataChanged.emit(Qt.Orientation.Horizontal, NAME, NAME)
        self._rows = rows_of(found, lambda key: self._name(found.grouping, key), self.unit_name, MAX_ROWS)
        total = len(found.key)
        parts = [f"{format_count(total)} {TITLES[found.grouping].lower()}"]
        if found.end:
            parts.append(f"{format_share(found.idle / found.end)} nothing under way")
        if total > MAX_ROWS:
            parts.append(f"the {format_count(MAX_ROWS)} costliest are shown")
        if found.num_unassigned:
            parts.append(f"{format_count(found.num_unassigned)} slices belong to none")
        self.summary.setText("; ".join(parts))
        self._show()

    def _show(self) -> None:
        text = self.filter.text().casefold().lstrip()
        header = self.view.horizontalHeader()
        self.table.rows = [row for row in self._rows if text in row.name.casefold()]
        self.table.sort(header.sortIndicatorSection(), header.sortIndicatorOrder())
        place = next((n for n, row in enumerate(self.table.rows) if row.key == self._compared), -1)
        if place >= 0:
            self.view.selectRow(place)

    def _name(self, grouping: Grouping, key: int) -> str:
        reader = self.model.reader
        assert reader is not None
        if grouping == "instruction":
            return self.instruction_text(key) or format_count(key)
        if grouping == "kind":
            return next((kind.name for kind in reader.schema.kinds if kind.id == key), str(key))
        if grouping == "unit":
            return self.unit_name(key)
        names, types = reader.schema.node_names, reader.schema.node_types
        return f"{types[key]} {names[key]}".strip() if key < len(names) else str(key)

    def unit_name(self, unit: int) -> str:
        """Return the name of a unit; for a trace without machine, derived from its tracks."""
        description, reader = self.model.description, self.model.reader
        assert reader is not None
        return description.units[unit].name if description is not None else unit_label(reader.schema, unit)

    def _compare(self, node: int) -> None:
        """List the operators of the same type as `node`, and select `node`."""
        reader = self.model.reader
        if reader is None or not 0 <= node < len(reader.schema.node_types):
            return
        self._compared = node
        self.grouping.setCurrentIndex(self.grouping.findData("operator"))
        self.filter.setText(f"{reader.schema.node_types[node]} ")
        self._show()

    def _row(self, index: QModelIndex) -> CostRow | None:
        row = self.table.rows[index.row()] if index.isValid() else None
        return row if row is not None and row.key >= 0 else None

    def _choose(self, index: QModelIndex) -> None:
        row = self._row(index)
        if row is None or self._shown is None:
            return
        self._compared = None
        field = {"operator": "node", "instruction": "instruction", "unit": "unit"}.get(self._shown[1])
        picked = {field: row.key} if field is not None else {}
        self.context.selection.set(Selection().with_fields(cycles=row.span, **picked))

    def _go_to(self, index: QModelIndex) -> None:
        row = self._row(index)
        if row is not None and self.model.session is not None:
            self.model.go_to(row.span[0])

    def _add_actions(self, menu: QMenu, index: QModelIndex) -> None:
        row = self._row(index)
        if row is not None and self.model.session is not None:
            first = row.span[0]
            menu.addAction(f"Go to its first cycle, {format_count(first)}", lambda: self.model.go_to(first))
        things = ThingMenu(self.context, menu)
        grouping = self._shown[1] if self._shown is not None else None
        if row is not None and grouping == "operator":
            things.add_operator(row.key)
        if row is not None and grouping == "instruction":
            things.add_needed_by(row.key)


SPEC = PanelSpec("costs", "Costs", "mdi6.sort-descending", "bottom", 24, (), CostsPanel, listens=True)
