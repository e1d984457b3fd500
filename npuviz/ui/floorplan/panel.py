"""The floorplan panel: the machine drawn to scale, coloured by what each unit does now."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu

from npuviz.base.units import format_count
from npuviz.sim.machine import UnitState
from npuviz.trace.unit_times import unit_times
from npuviz.ui.floorplan.view import FloorplanData, FloorplanView
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import pop_up
from npuviz.ui.kit.picture import add_save_actions
from npuviz.workbench.selection import MemoryRange, Selection
from npuviz.workbench.under_way import under_way

EMPTY_TEXT = "The floorplan shows the machine and what each unit does. Open a model to see its machine."


class FloorplanPanel(Panel):
    """Feeds a FloorplanView with unit states, utilisation and memory levels."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self.view = FloorplanView(context.theme)
        self._states: dict[int, UnitState] = {}
        self._fills: dict[int, tuple[int, int]] = {}
        self._busy: dict[int, float] = {}
        self.set_pages(EMPTY_TEXT, self.view)
        self.setFocusProxy(self.view)
        self.view.unit_chosen.connect(self._unit_chosen)
        self.view.memory_chosen.connect(self._memory_chosen)
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.customContextMenuRequested.connect(self._show_menu)

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        description = self.model.description
        boxes = description.floorplan if description else ()
        self._states, self._fills, self._busy = {}, {}, {}
        self.view.set_boxes(boxes, description.links if description else ())
        self.show_page(bool(boxes))
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        session, description = self.model.session, self.model.description
        if session is None or description is None or self.model.is_running:
            return
        machine = session.machine
        self._states = {state.unit: state for state in machine.unit_states()}
        summary = machine.summary()
        cycles = max(machine.cycle, 1)
        ids = {unit.name: unit.id for unit in description.units}
        self._busy = {ids[name]: busy / cycles for name, busy, _ in summary.units if name in ids}
        self._fills = {
            memory.id: (sum(region.total_bytes for region in machine.regions(memory.id)), memory.size_bytes)
            for memory in description.memories
        }
        self._show()

    def on_selection_changed(self, selection: Selection) -> None:
        unit = -1 if selection.unit is None else selection.unit
        memory = -1 if selection.memory is None else selection.memory.memory
        self.view.set_chosen(unit, memory)
        self._show()

    def on_theme_changed(self) -> None:
        self.view.update()

    # -- inside -----------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Show states, memory levels, and the utilisation over the selected cycles, or since the start."""
        description = self.model.description
        if description is None:
            return
        utilization, span = dict(self._busy), "since the start"
        selection = self.context.selection.current
        reader = self.model.reader
        # The cycles of a selected slice do not count as a range.
        if reader is not None and selection.cycles is not None and selection.track is None:
            first, last = selection.cycles
            span = f"in cycles {format_count(first)} \u2013 {format_count(last)}"
            session = self.model.session
            machine = None if session is None or self.model.is_running else session.machine
            rows = under_way(machine, reader)
            times = unit_times(reader, (first, last), under_way=rows)
            utilization |= {unit: time.share for unit, time in times.items()}
        names = {unit.id: unit.name for unit in description.units}
        assumed = frozenset(unit.id for unit in description.units if unit.estimated)
        self.view.set_data(FloorplanData(self._states, utilization, self._fills, names, span, assumed))

    def _unit_chosen(self, unit: int) -> None:
        description = self.model.description
        tracks = description.tracks if description else ()
        track = next((t.id for t in tracks if t.unit == unit and t.kind == "interval"), None)
        state = self._states.get(unit)
        instruction = state.instruction if state is not None and state.instruction >= 0 else None
        self.view.set_chosen(unit, -1)
        self.context.selection.set(Selection(unit=unit, track=track, instruction=instruction))

    def _memory_chosen(self, memory: int) -> None:
        description = self.model.description
        if description is None:
            return
        self.view.set_chosen(-1, memory)
        size = description.memories[memory].size_bytes
        self.context.selection.set(Selection(memory=MemoryRange(memory, 0, size)))

    def _show_menu(self, point: QPoint) -> None:
        menu = QMenu(self)
        add_save_actions(menu, self.view, "floorplan")
        pop_up(menu, point, self.view)


SPEC = PanelSpec("floorplan", "Floorplan", "mdi6.floor-plan", "right", 20, (), FloorplanPanel)
