"""The queues panel: how full every queue is, what waits in it, and how it came to that."""

from typing import Any

from PySide6.QtCore import QItemSelection, QPoint, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QSplitter,
    QStackedLayout,
    QTableView,
)

from npuviz.sim.description import Queue
from npuviz.trace.schema import Track
from npuviz.ui.panels.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.widgets.empty_state import EmptyState
from npuviz.ui.widgets.picture import add_save_actions
from npuviz.ui.widgets.queue_delegate import QueueDelegate
from npuviz.ui.widgets.queue_table import HEAD, HISTORY, EntryTable, History, QueueState, QueueTable
from npuviz.ui.widgets.table_copy import add_copy_actions
from npuviz.workbench.selection import Selection

EMPTY_TEXT = "Queues show how many entries wait at every unit and which come next. Open a model to fill them."
HISTORY_POINTS = 96
NARROW_PIXELS = 640
HISTORY_SHARE = 0.02
MIN_HISTORY_CYCLES = 200


class QueuesPanel(Panel):
    """Table of queues beside the entries of the chosen one."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._queues: tuple[Queue, ...] = ()
        self._tracks: dict[int, Track] = {}
        self._shown_cycle = -1
        self.table = QueueTable(self._history)
        self.entries = EntryTable()
        self._delegate = QueueDelegate(context.theme)
        self.view = self._make_view(self.table, "queues.table")
        self.view.setItemDelegate(self._delegate)
        self.entry_view = self._make_view(self.entries, "queues.entries")
        header = self.view.horizontalHeader()
        header.setSectionResizeMode(HISTORY, QHeaderView.ResizeMode.Stretch)
        for column, width in enumerate((116, 168, 52, 160, 120)):
            header.resizeSection(column, width)
        header.setStretchLastSection(False)
        self.view.setColumnHidden(HEAD, True)
        entry_header = self.entry_view.horizontalHeader()
        for column, width in enumerate((32, 140, 84, 120)):
            entry_header.resizeSection(column, width)
        entry_header.setStretchLastSection(True)
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self._splitter.addWidget(self.view)
        self._splitter.addWidget(self.entry_view)
        self._splitter.setStretchFactor(0, 3)
        self._splitter.setStretchFactor(1, 2)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(EmptyState(EMPTY_TEXT))
        self._stack.addWidget(self._splitter)
        self.setFocusProxy(self.view)
        self.view.selectionModel().selectionChanged.connect(self._queue_chosen)
        self.entry_view.selectionModel().selectionChanged.connect(self._entry_chosen)

    def _make_view(self, model: QueueTable | EntryTable, name: str) -> QTableView:
        view = QTableView()
        view.setObjectName(name)
        view.setModel(model)
        view.setShowGrid(False)
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        view.verticalHeader().hide()
        view.verticalHeader().setDefaultSectionSize(self.theme.row_height)
        view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        view.customContextMenuRequested.connect(lambda point: self._show_menu(view, point))
        view.horizontalHeader().setHighlightSections(False)
        view.horizontalHeader().setDefaultAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        return view

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        is_narrow = self.width() < NARROW_PIXELS
        self._splitter.setOrientation(Qt.Orientation.Vertical if is_narrow else Qt.Orientation.Horizontal)

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
        self.table.set_states(())
        self.entries.set_entries((), ())
        self._stack.setCurrentIndex(1 if self._queues else 0)
        self.on_cycle_changed()
        if self._queues:
            self.view.selectRow(0)

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
            if old is not None and not moved and not changed:
                changed = old.is_changed
            peak = max(peaks.get(queue.name, 0), occupancy)
            states.append(
                QueueState(queue.id, queue.name, occupancy, queue.capacity, peak, entries, changed, queue.doc)
            )
        self.table.set_states(states)
        self.table.refresh_history()
        self._show_entries()

    def on_running_changed(self, running: bool) -> None:
        self.view.setEnabled(not running)
        self.entry_view.setEnabled(not running)

    def on_selection_changed(self, selection: Selection) -> None:
        if selection.unit is None:
            return
        chosen = self._chosen()
        if chosen is not None and self._queues[chosen].unit == selection.unit:
            return
        for row, queue in enumerate(self._queues):
            if queue.unit == selection.unit:
                self.view.selectRow(row)
                return

    def save_state(self) -> dict[str, Any]:
        return {"sizes": self._splitter.sizes()}

    def restore_state(self, state: dict[str, Any]) -> None:
        sizes = state.get("sizes")
        if isinstance(sizes, list) and len(sizes) == 2 and all(isinstance(size, int) for size in sizes):
            self._splitter.setSizes(sizes)

    # -- inside -----------------------------------------------------------------------------------------

    def _history(self, row: int) -> History | None:
        reader = self.model.reader
        queue = self._queues[row]
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
        rows = self.view.selectionModel().selectedRows()
        return rows[0].row() if rows else None

    def _show_entries(self) -> None:
        chosen = self._chosen()
        reader = self.model.reader
        names = reader.schema.node_names if reader else ()
        entries = self.table.states[chosen].entries if chosen is not None else ()
        self.entries.set_entries(entries, names)

    def _queue_chosen(self, _selected: QItemSelection, _deselected: QItemSelection) -> None:
        self._show_entries()
        chosen = self._chosen()
        if chosen is not None and self.view.hasFocus():
            unit = self._queues[chosen].unit
            self.context.selection.set(Selection(unit=unit if unit >= 0 else None))

    def _entry_chosen(self, _selected: QItemSelection, _deselected: QItemSelection) -> None:
        rows = self.entry_view.selectionModel().selectedRows()
        if not rows or not self.entry_view.hasFocus():
            return
        entry = self.entries.entries[rows[0].row()]
        self.context.selection.set(
            Selection(
                instruction=entry.instruction if entry.instruction >= 0 else None,
                node=entry.node if entry.node >= 0 else None,
            )
        )

    def _show_menu(self, view: QTableView, point: QPoint) -> None:
        menu = QMenu(self)
        add_copy_actions(menu, view)
        add_save_actions(menu, self, "queues")
        menu.exec(view.viewport().mapToGlobal(point))


SPEC = PanelSpec("queues", "Queues", "mdi6.tray-full", "bottom", 20, (), QueuesPanel)
