"""The queues panel: fill level, entries and history of every queue."""

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QItemSelection, QModelIndex, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QMenu,
    QTableView,
)

from npuviz.sim.description import Queue
from npuviz.trace.schema import Track
from npuviz.ui.kit.columns import abbreviate_names, hide_without_room
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import fill, muted_label, restore_sizes, splitter
from npuviz.ui.kit.table_view import add_copying, make_table, on_key
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.queues.delegate import QueueDelegate
from npuviz.ui.queues.entries import EntryTable
from npuviz.ui.queues.table import HEAD, HISTORY, NAME, UNKNOWN, History, QueueState, QueueTable
from npuviz.workbench.selection import Selection, selected

EMPTY_TEXT = "Queues show how many entries wait at every unit and which come next. Open a model to fill them."
HISTORY_POINTS = 96
MIN_HISTORY_PIXELS = 56
GROUPED_FROM = 8
"""Fewest queues, of units in several groups, that are shown in groups."""
FOLDED_FROM = 24
"""Fewest queues whose groups begin folded."""
ENTRY, OPERATOR = 1, 3
"""Column of the entries' texts."""
NAME_PIXELS = 104, 200
"""Smallest and largest width of the column of names."""
NARROW_PIXELS = 640
HISTORY_SHARE = 0.02
MIN_HISTORY_CYCLES = 200


class QueuesPanel(Panel):
    """The table of queues beside the entries of the chosen one."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._queues: tuple[Queue, ...] = ()
        self._tracks: dict[int, Track] = {}
        self._shown_cycle = -1
        self._is_following = False
        self._is_wanted = False  # whether the user or a command chose the queue
        self._estimated: set[int] = set()
        self.table = QueueTable(self._history)
        self.entries = EntryTable()
        self._delegate = QueueDelegate(context.theme)
        self.view = self._make_view(self.table, "queues.table", "Queues", (124, 156, 48, 120, 120))
        self.view.setItemDelegate(self._delegate)
        self.view.clicked.connect(self._clicked)
        for key in (Qt.Key.Key_Return, Qt.Key.Key_Space):
            on_key(self.view, key, lambda: self._clicked(self.view.currentIndex()))
        header = self.view.horizontalHeader()
        header.setSectionResizeMode(HISTORY, QHeaderView.ResizeMode.Stretch)
        header.setStretchLastSection(False)
        self.view.setColumnHidden(HEAD, True)
        hide_without_room(self.view, HISTORY, MIN_HISTORY_PIXELS)
        widths = (32, 180, 84, 96)
        self.entry_view = self._make_view(self.entries, "queues.entries", "Entries of the queue", widths)
        abbreviate_names(self.entry_view, OPERATOR)
        entry_header = self.entry_view.horizontalHeader()
        entry_header.setSectionResizeMode(ENTRY, QHeaderView.ResizeMode.Stretch)
        entry_header.setStretchLastSection(False)
        self._none = muted_label(self.entry_view.viewport(), "queues.none")
        fill(self.entry_view.viewport(), self._none, 1, margins=(8, 6, 8, 6))
        self._splitter = splitter(Qt.Orientation.Horizontal, (self.view, 3), (self.entry_view, 2))
        self._splitter.setSizes([2500, 2500])
        self.set_pages(EMPTY_TEXT, self._splitter)
        self.setFocusProxy(self.view)
        self.view.selectionModel().selectionChanged.connect(self._queue_chosen)
        self.entry_view.selectionModel().selectionChanged.connect(self._entry_chosen)

    def _make_view(
        self, model: QueueTable | EntryTable, name: str, title: str, widths: tuple[int, ...]
    ) -> QTableView:
        view = make_table(model, self.theme, title, object_name=name, widths=widths, is_single=True)
        add_copying(view, (self, "queues"), self._add_actions if model is self.table else None)
        return view

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < NARROW_PIXELS
        orientation = Qt.Orientation.Vertical if is_narrow else Qt.Orientation.Horizontal
        if orientation != self._splitter.orientation():
            self._splitter.setOrientation(orientation)
            # One above the other, the queues get more height; side by side, both get the same width.
            self._splitter.setSizes([3000, 2000] if is_narrow else [2500, 2500])

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        description = self.model.description
        self._queues = description.queues if description else ()
        self._tracks = {}
        self._shown_cycle = -1
        if description is not None:
            counters = {track.name: track for track in description.tracks if track.kind == "counter"}
            for queue in self._queues:
                found = counters.get(queue.probe) or counters.get(queue.name)
                if found is not None:
                    self._tracks[queue.id] = found
        units = {unit.id: unit for unit in description.units} if description else {}
        groups = [units[q.unit].group if q.unit in units else "" for q in self._queues]
        self._estimated = {unit.id for unit in units.values() if unit.estimated}
        is_grouped = len(set(groups)) > 1 and len(groups) >= GROUPED_FROM
        folded = set(groups) if len(groups) >= FOLDED_FROM else set[str]()
        self.table.set_groups(groups if is_grouped else (), folded)
        self.entries.set_entries((), ())
        self.show_page(bool(self._queues))
        self._is_wanted = False
        self.on_cycle_changed()
        if self._queues:
            wanted = self.view.sizeHintForColumn(NAME)
            least, most = NAME_PIXELS
            self.view.setColumnWidth(NAME, min(max(wanted, least), most))

    def on_cycle_changed(self) -> None:
        session = self.model.session
        if session is None or self.model.is_running:
            return
        machine = session.machine
        peaks = {name: peak for name, peak, _capacity in machine.summary().queues}
        before = {state.id: state for state in self.table.states}
        moved = self._shown_cycle != session.cycle
        self._shown_cycle = session.cycle
        states: list[QueueState] = []
        for queue in self._queues:
            entries = tuple(machine.queue_entries(queue.id))
            occupancy = int(machine.read(queue.probe)) if queue.probe else len(entries)
            old = before.get(queue.id)
            changed = old is not None and (old.occupancy != occupancy or old.entries != entries)
            changed = changed and self.marks_changes
            if old is not None and not moved and not changed:
                changed = old.is_changed
            peak = max(peaks[queue.name], occupancy) if queue.name in peaks else UNKNOWN
            is_assumed = queue.unit in self._estimated
            now = QueueState(queue.id, queue.name, occupancy, queue.capacity, peak, entries)
            states.append(replace(now, is_changed=changed, doc=queue.doc, is_estimated=is_assumed))
        self.table.set_states(states)
        self.table.refresh_history()
        if not self._is_wanted:
            self._choose_by_itself()
        self._show_entries()

    def on_running_changed(self, running: bool) -> None:
        self.view.setEnabled(not running)
        self.entry_view.setEnabled(not running)

    def on_selection_changed(self, selection: Selection) -> None:
        unit = self._unit_of(selection)
        if unit is None:
            return
        chosen = self._chosen()
        if chosen is not None and self._queues[chosen].unit == unit:
            return
        for place, queue in enumerate(self._queues):
            if queue.unit == unit:
                # The selection of another panel must not be replaced by the unit of this queue.
                self._choose(place)
                self._is_wanted = True
                return

    def _unit_of(self, selection: Selection) -> int | None:
        """Return the selected unit, or that of the selected track or instruction; None if there is none."""
        description, program = self.model.description, self.model.program
        if selection.unit is not None:
            return selection.unit
        if selection.track is not None and description is not None:
            return next((t.unit for t in description.tracks if t.id == selection.track and t.unit >= 0), None)
        number = selection.instruction
        if number is not None and program is not None and 0 <= number < len(program.listing):
            return program.listing.describe(number).unit
        return None

    def save_state(self) -> dict[str, Any]:
        return {"sizes": self._splitter.sizes()}

    def restore_state(self, state: dict[str, Any]) -> None:
        restore_sizes(self._splitter, state.get("sizes"))

    # -- inside -----------------------------------------------------------------------------------------

    def _history(self, place: int) -> History | None:
        reader = self.model.reader
        queue = self._queues[place]
        track = self._tracks.get(queue.id)
        if reader is None or track is None:
            return None
        cycle = self._shown_cycle
        half = max(round(reader.end_cycle * HISTORY_SHARE), MIN_HISTORY_CYCLES)
        first = max(cycle - half, 0)
        _cycles, low, high, _last = reader.counter(track.id, (first, first + 2 * half), HISTORY_POINTS)
        limit = queue.capacity or max(int(high.max(initial=0)), 1)
        return History(low, high, limit, (cycle - first) / (2 * half))

    def _chosen(self) -> int | None:
        """Return the number of the chosen queue, None if none is."""
        rows = self.view.selectionModel().selectedRows()
        return self.table.place_at(rows[0].row()) if rows else None

    def _choose(self, place: int) -> None:
        """Select a queue in the table without changing the selection of the window."""
        self._is_following = True
        self.view.selectRow(self.table.row_of(place))
        self._is_following = False

    def _choose_by_itself(self) -> None:
        """Choose a queue with entries, unless the chosen one has entries or all are empty."""
        states, chosen = self.table.states, self._chosen()
        if chosen is not None and (states[chosen].entries or not any(state.entries for state in states)):
            return
        shown = [row for row in self.table.rows if isinstance(row, int)]
        filled = [place for place in shown if states[place].entries]
        if states:
            self._choose((filled or shown or [0])[0])

    def _clicked(self, index: QModelIndex) -> None:
        """Fold or unfold a group."""
        if index.isValid() and self.table.place_at(index.row()) is None:
            self.table.toggle(index.row())
            self.view.selectRow(index.row())

    def _show_entries(self) -> None:
        chosen = self._chosen()
        reader = self.model.reader
        names = reader.schema.node_names if reader else ()
        state = self.table.states[chosen] if chosen is not None else None
        self.entries.set_entries(state.entries if state is not None else (), names)
        self._none.setText(f"{state.name} is empty" if state is not None else "Choose a queue of the group.")
        self._none.setVisible(not self.entries.rows)

    def _queue_chosen(self, _selected: QItemSelection, _deselected: QItemSelection) -> None:
        self._show_entries()
        chosen = self._chosen()
        if chosen is not None and self.view.hasFocus() and not self._is_following:
            self._is_wanted = True
            unit = self._queues[chosen].unit
            self.context.selection.set(selected(unit=unit))

    def _add_actions(self, menu: QMenu, index: QModelIndex) -> None:
        """Add entries for the queue under the pointer."""
        place = self.table.place_at(index.row()) if index.isValid() else None
        if place is not None:
            ThingMenu(self.context, menu).add_queue(self._queues[place], self.table.states[place].occupancy)
            menu.addSeparator()

    def _entry_chosen(self, _selected: QItemSelection, _deselected: QItemSelection) -> None:
        rows = self.entry_view.selectionModel().selectedRows()
        if not rows or not self.entry_view.hasFocus():
            return
        entry = self.entries.rows[rows[0].row()][1]
        self.context.selection.set(selected(instruction=entry.instruction, node=entry.node))


SPEC = PanelSpec("queues", "Queues", "mdi6.tray-full", "bottom", 20, (), QueuesPanel)
