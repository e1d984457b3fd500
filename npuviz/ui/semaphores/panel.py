"""The semaphores panel: values of semaphores, units that wait for them, and units that update them."""

from PySide6.QtCore import QModelIndex
from PySide6.QtWidgets import QHeaderView

from npuviz.base.units import format_count
from npuviz.sim.machine import HasSemaphores
from npuviz.sim.stop import StopKind
from npuviz.ui.kit.columns import fit_columns
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import column, filter_line, line, summary_line
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.ui.semaphores.delegate import SemaphoreDelegate
from npuviz.ui.semaphores.table import INSTRUCTION, UPDATER, USE, SemaphoreRow, SemaphoreTable, rows_of
from npuviz.workbench.selection import Selection, selected

EMPTY_TEXT = "Semaphores show what the units of a machine wait for. The machine that is open uses none."
WIDTHS = (112, 52, 88, 80, 104, 92, 104)


class SemaphoresPanel(Panel):
    """A line that says how many semaphores are waited for, and the table."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._shown_cycle = -1
        self._rows: list[SemaphoreRow] = []
        self._units: dict[int, str] = {}
        self.table = SemaphoreTable(self)
        self._delegate = SemaphoreDelegate(context.theme)
        self.view = make_table(
            self.table, self.theme, "Semaphores", self, object_name="semaphores.table", is_single=True,
        )  # fmt: skip
        self.view.setItemDelegate(self._delegate)
        fit_columns(self.view, WIDTHS[0], spare=(UPDATER, USE, INSTRUCTION))
        header = self.view.horizontalHeader()
        for place, width in enumerate(WIDTHS[1:], 1):
            # The contents change at every step, so the columns have fixed widths.
            header.setSectionResizeMode(place, QHeaderView.ResizeMode.Interactive)
            header.resizeSection(place, width)
        add_copying(self.view, (self, "semaphores"))
        self.view.clicked.connect(self._choose)
        self.view.activated.connect(self._choose)
        self.summary = summary_line("semaphores.summary")
        title = "Show only semaphores with this text"
        self.filter = filter_line(self, "Filter", lambda _text: self._show(), title=title)
        bar = line((self.summary, 1), self.filter)
        self.set_pages(EMPTY_TEXT, column(bar, (self.view, 1), parent=self))
        self.setFocusProxy(self.view)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        session, description = self.model.session, self.model.description
        self._rows, self._shown_cycle = [], -1
        self._units = {unit.id: unit.name for unit in description.units} if description else {}
        has_any = session is not None and isinstance(session.machine, HasSemaphores)
        self.show_page(has_any)
        self.table.set_rows([])
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        session = self.model.session
        if session is None or self.model.is_running:
            return
        machine = session.machine
        if not isinstance(machine, HasSemaphores):
            return
        moved = self._shown_cycle != session.cycle
        self._shown_cycle = session.cycle
        self._rows = rows_of(
            machine.semaphores(),
            lambda unit: self._units.get(unit, ""),
            self.instruction_text,
            self._rows,
            moved,
            self.marks_changes,
        )
        self._show()

    def on_running_changed(self, running: bool) -> None:
        self.view.setEnabled(not running)

    def on_selection_changed(self, selection: Selection) -> None:
        """Mark the wait of the selected instruction, or else of the selected unit."""
        if self.view.hasFocus():
            return
        for place, row in enumerate(self.table.rows):
            wait = row.wait
            is_it = wait is not None and (
                wait.instruction == selection.instruction
                if selection.instruction is not None
                else wait.unit == selection.unit
            )
            if is_it:
                self.view.selectRow(place)
                return
        self.view.clearSelection()

    # -- inside -----------------------------------------------------------------------------------------

    def _show(self) -> None:
        text = self.filter.text().casefold().strip()
        shown = [
            row
            for row in self._rows
            if not text or text in f"{row.name} {row.state.use} {row.unit} {row.instruction}".casefold()
        ]
        chosen = self.view.selectionModel().selectedRows()
        key = self.table.rows[chosen[0].row()].key if chosen else None
        scrolled = self.view.verticalScrollBar().value()
        self.table.set_rows(shown)
        rows = {index.row() for index in self.view.selectionModel().selectedRows()}
        if key is not None and (place := self.table.place_of(key)) >= 0 and place not in rows:
            self.view.selectRow(place)
        self.view.verticalScrollBar().setValue(scrolled)
        self._say_how_many()

    def _say_how_many(self) -> None:
        waited = len({row.state.id for row in self._rows if row.wait is not None})
        total = len({row.state.id for row in self._rows})
        stop = self.model.stop
        self.summary.setText(
            f"deadlock: {waited} of {total} are waited for, and none will change"
            if stop is not None and stop.kind is StopKind.DEADLOCK and stop.cycle == self._shown_cycle
            else f"{format_count(waited)} of {format_count(total)} are waited for"
        )

    def _choose(self, index: QModelIndex) -> None:
        if not index.isValid():
            return
        row = self.table.rows[index.row()]
        instruction = row.wait.instruction if row.wait is not None else row.state.updater
        unit = row.wait.unit if row.wait is not None else -1
        program = self.model.program
        node = -1
        if program is not None and 0 <= instruction < len(program.listing):
            found = program.listing.describe(instruction)
            unit, node = (found.unit if unit < 0 else unit), found.node
        if instruction < 0 and unit < 0:
            return
        self.context.selection.set(selected(instruction=instruction, unit=unit, node=node))


SPEC = PanelSpec(
    "semaphores", "Semaphores", "mdi6.traffic-light-outline", "bottom", 22, ("semaphores",), SemaphoresPanel
)
