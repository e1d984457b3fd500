"""The graph panel: operators and their progress in the run; selects operators and tensors."""

from functools import partial
from typing import Any, cast

import numpy as np
from PySide6.QtCore import QPoint, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from npuviz.base.units import format_amount, format_count
from npuviz.program.program import Program
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.graph.groups import Group, groups_of, leaders_of, outermost
from npuviz.ui.graph.layout import Direction, GraphLayout, lay_out_graph
from npuviz.ui.graph.picture import GraphOverlay, make_picture
from npuviz.ui.graph.progress import GraphProgress
from npuviz.ui.graph.toolbar import GraphToolBar
from npuviz.ui.graph.view import GraphView
from npuviz.ui.kit.find_bar import FindBar
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import column, pop_up
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.kit.trace_facts import NodeTimes, retired_before
from npuviz.workbench.selection import NOTHING, Selection

NO_GRAPH = "Open a model to see its operators and how far the run has come."
NO_OPERATORS = "This program has no operator graph; its instructions are in the Program panel."
BUNDLE_ONLY = "A trace bundle holds no operator graph. Open the model it came from to see it."
WIDE = 2.2
"""A panel this many times wider than high shows the graph flowing right, unless the user chose otherwise."""


class GraphPanel(Panel):
    """Lays the graph out in a separate thread, and shows progress and selection over it."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._program: Program | None = None
        self._progress: GraphProgress | None = None
        self._times: NodeTimes | None = None
        self._groups: tuple[Group, ...] = ()
        self._folded: frozenset[Group] = frozenset()
        self._job = LatestJob(self)
        self._job.finished.connect(self._show_layout)
        self.view = GraphView(context.theme, self)
        self.view.node_chosen.connect(self._choose_node)
        self.view.tensor_chosen.connect(self._choose_tensor)
        self.view.menu_requested.connect(self._show_menu)
        self.find_bar = FindBar("Operator type or name", self)
        self.find_bar.searched.connect(self.search)
        self.find_bar.edited.connect(self._mark_found)
        self.find_bar.closed.connect(self._close_search)
        self.bar = GraphToolBar(self)
        self.bar.direction_changed.connect(self._start_layout)
        self.bar.fit_requested.connect(self.view.fit)
        self.bar.heat_toggled.connect(self._show_heat)
        self.bar.follow_toggled.connect(self.show_active)
        self.bar.fold_toggled.connect(self._fold_all)
        self._times_timer = QTimer(self, interval=0)
        self._times_timer.timeout.connect(self._read_times)
        self._lay_out()
        self.on_session_changed()

    def _lay_out(self) -> None:
        content = column(self.bar, self.find_bar, (self.view, 1), parent=self)
        self.set_pages(self.invitation(NO_GRAPH), content)
        self.find_bar.listen(self)

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        program = self.model.program
        self._program = program
        self._job.drop()
        self._progress = None
        self._times = None
        self._groups = groups_of(program.graph) if program is not None else ()
        self._folded = frozenset(self._groups if self.bar.fold.isChecked() else ())
        self.bar.fold.setVisible(bool(self._groups))
        self._times_timer.stop()
        self.view.overlay = GraphOverlay()
        self.view.show_picture(None)
        self.bar.status.setText("")
        if program is None or not program.graph.nodes:
            text = NO_GRAPH if self.model.reader is None else BUNDLE_ONLY
            self.empty.set_text(NO_OPERATORS if program else text)
            self.show_page(0)
            return
        self.show_page(1)
        self._start_layout()

    def on_cycle_changed(self) -> None:
        before = self.view.overlay.active
        self._refresh_state()
        if self.view.overlay.active != before:
            self.show_active()

    def on_selection_changed(self, selection: Selection) -> None:
        picture = self.view.picture
        if picture is None:
            return
        layout, overlay = picture.layout, self.view.overlay
        node = -1 if selection.node is None else selection.node
        tensor = -1 if selection.tensor is None else selection.tensor
        if node < 0 <= tensor:
            terminals = [t.tensor for t in layout.terminals]
            node = layout.num_nodes + terminals.index(tensor) if tensor in terminals else -1
        node = layout.drawn(node)
        overlay.tensor = tensor
        if node != overlay.selected:
            overlay.selected = node
            self.view.reveal(node)
        self.view.update()

    def save_state(self) -> dict[str, Any]:
        return {
            "direction": self.bar.direction.currentData(),
            "heat": self.bar.heat.isChecked(),
            "fold": self.bar.fold.isChecked(),
            "follow": self.bar.follow.isChecked(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        index = self.bar.direction.findData(str(state.get("direction", "")))
        self.bar.direction.setCurrentIndex(max(0, index))
        self.bar.heat.setChecked(bool(state.get("heat", False)))
        self.bar.follow.setChecked(bool(state.get("follow", True)))
        self.bar.fold.setChecked(bool(state.get("fold", False)))

    # -- layout ---------------------------------------------------------------------------------------

    def _start_layout(self) -> None:
        program = self._program
        if program is None or not program.graph.nodes:
            return
        chosen = str(self.bar.direction.currentData())
        is_wide = self.view.width() > WIDE * max(1, self.view.height())
        direction = cast(Direction, chosen or ("right" if is_wide else "down"))
        aspect = 0.0 if chosen else self.view.width() / max(1, self.view.height())
        units = [u.id for u in self.model.description.units] if self.model.description else []
        self.bar.status.setText("laying out\u2026")
        folded = self._folded

        def work() -> tuple[GraphLayout, GraphProgress]:
            leader = leaders_of(program.graph, folded) if folded else None
            layout = lay_out_graph(program.graph, direction, aspect, leader)
            return layout, GraphProgress(program.listing, len(program.graph.nodes), units)

        if self._job.ask(work, 0.0):
            self._show_layout()

    def _show_layout(self) -> None:
        program = self._program
        if program is None:
            return
        try:
            layout, progress = self._job.answer()
        except Exception as error:
            self.bar.status.setText(f"no layout: {error}")
            return
        self._progress = progress
        self.view.show_picture(make_picture(program, self.model.description, layout, self._folded))
        text = format_amount(layout.num_nodes, "operator")
        if self._folded:
            text += f", {format_amount(len(outermost(self._folded)), 'group')} folded"
        self.bar.status.setText(text)
        self._mark_found(self.find_bar.line.text())
        self._refresh_state()
        self.on_selection_changed(self.context.selection.current)

    # -- state over the picture -------------------------------------------------------------------------

    def _refresh_state(self) -> None:
        reader, session = self.model.reader, self.model.session
        if self._progress is None or self.view.picture is None:
            return
        active = self.view.overlay.active
        bounds = retired_before(reader, self.model.cycle) if reader is not None else {}
        if session is not None and not self.model.is_running:
            if session.is_finished:
                bounds = {unit.id: 1 << 62 for unit in session.description.units}
            elif reader is None:
                bounds = session.machine.next_instructions()
            drawn = self.view.picture.layout.drawn
            active = frozenset(drawn(a.node) for a in session.machine.activities() if a.node >= 0)
        self.view.set_state(self._progress.fractions(bounds, self._leaders()), active)
        if self.bar.heat.isChecked():
            self._show_heat()

    def _show_heat(self) -> None:
        reader = self.model.reader
        if not self.bar.heat.isChecked() or reader is None or self._program is None:
            self._times_timer.stop()
            self.view.overlay.heat = None
            self.view.update()
            return
        if self._times is None:
            self._times = NodeTimes(reader, len(self._program.graph.nodes))
        self._times_timer.start()

    def _read_times(self) -> None:
        if self._times is None:
            self._times_timer.stop()
            return
        if self._times.advance():
            self._times_timer.stop()
            busy, leader = self._times.busy, self._leaders()
            if leader is not None:
                busy = np.bincount(leader, busy, len(busy))
            most = max(1, int(busy.max(initial=0)))
            self.view.overlay.heat = np.sqrt(busy / most).astype(np.float32)
            self.view.overlay.heat_most = most
            self.view.update()

    def _leaders(self) -> np.ndarray | None:
        """Return (nodes,) the operator whose box is drawn for each; None while nothing is folded."""
        picture = self.view.picture
        if picture is None or not self._folded:
            return None
        return picture.layout.leader[: picture.layout.num_nodes]

    def _fold_all(self, is_folded: bool) -> None:
        self._fold(frozenset(self._groups if is_folded else ()))

    def _fold(self, folded: frozenset[Group]) -> None:
        """Draw these groups as one box each, and unfold all others."""
        if folded != self._folded:
            self._folded = folded
            self._start_layout()

    # -- picking and searching ----------------------------------------------------------------------------

    def show_active(self) -> None:
        """Bring an active operator into view if the user wants it followed."""
        active = self.view.overlay.active
        if active and self.bar.follow.isChecked():
            self.view.reveal(min(active))

    def _choose_node(self, node: int) -> None:
        self.context.selection.set(NOTHING if node < 0 else Selection(node=node))

    def _choose_tensor(self, tensor: int) -> None:
        self.context.selection.set(Selection(tensor=tensor))

    def search(self, text: str, backward: bool = False) -> None:
        """Select the next or previous operator that matches."""
        picture = self.view.picture
        if picture is None:
            return
        # In a folded group, continue after the operator found last, not after the leader.
        chosen, drawn = self.context.selection.current.node, self.view.overlay.selected
        after = chosen if chosen is not None and picture.layout.drawn(chosen) == drawn else drawn
        box = picture.find(text, after, backward)
        if box < 0:
            self.find_bar.set_status("not found")
        elif box < picture.layout.num_nodes:
            self._choose_node(box)
        else:
            self._choose_tensor(picture.layout.terminals[box - picture.layout.num_nodes].tensor)

    def _mark_found(self, text: str) -> None:
        picture = self.view.picture
        wanted = text.casefold().strip()
        found: frozenset[int] = frozenset()
        if picture is not None and wanted:
            pairs = enumerate(zip(picture.titles, picture.subtitles, strict=True))
            drawn = picture.layout.drawn
            found = frozenset(
                drawn(b) for b, (t, s) in pairs if wanted in t.casefold() or wanted in s.casefold()
            )
        self.view.overlay.found = found
        self.find_bar.set_status(f"{format_count(len(found))} found" if wanted else "")
        self.view.update()

    def _close_search(self) -> None:
        self.view.overlay.found = frozenset()
        self.view.setFocus()
        self.view.update()

    def _show_menu(self, box: int, position: QPoint) -> None:
        picture = self.view.picture
        if picture is None or not 0 <= box < picture.layout.num_nodes or self._program is None:
            return
        name = self._program.graph.nodes[box].name
        menu = QMenu(self)
        ThingMenu(self.context, menu).add_operator(box)
        menu.addSeparator()
        self._add_folding(menu, box)
        menu.addAction("Select", lambda: self._choose_node(box))
        menu.addAction("Copy name", lambda: QGuiApplication.clipboard().setText(name))
        pop_up(menu, position)

    def _add_folding(self, menu: QMenu, box: int) -> None:
        """Add entries that fold or unfold the groups of an operator."""
        around = [group for group in self._groups if box in group.nodes]
        shown = next((place for place, group in enumerate(around) if group in self._folded), len(around))
        # Up to the group that is folded now, which can be unfolded; innermost first.
        for group in reversed(around[: shown + 1]):
            verb, others = (
                ("Unfold", self._folded - {group})
                if group in self._folded
                else ("Fold", self._folded | {group})
            )
            text = f"{verb} {group.name}, {len(group.nodes)} operators"
            menu.addAction(text, partial(self._fold, others))


SPEC = PanelSpec("graph", "Graph", "mdi6.graph-outline", "bottom", 0, (), GraphPanel)
