"""The fabric panel: elements on their grid, the load of links, routes, and words on their way."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QMenu

from npuviz.base.units import format_count
from npuviz.sim.fabric import (
    Area,
    HasElements,
    HasFabric,
    HasQueueFill,
    HasRoutes,
    HasWordPaths,
    HasWords,
)
from npuviz.sim.stop import StopKind
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.fabric.frame import FabricFrame, FabricWants, take_frame
from npuviz.ui.fabric.legend import FabricLegend, legend_of
from npuviz.ui.fabric.overlay import FabricMarks
from npuviz.ui.fabric.raster import warm_up
from npuviz.ui.fabric.toolbar import FabricToolBar
from npuviz.ui.fabric.view import FabricView
from npuviz.ui.kit.empty_state import EmptyState
from npuviz.ui.kit.fabric_text import element_text, word_text
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import column, pop_up
from npuviz.ui.kit.picture import add_save_actions
from npuviz.workbench.selection import Selection

EMPTY_TEXT = (
    "The fabric shows what every processing element does and what travels between them. "
    "Open a program for a machine with a routed fabric."
)
PREPARING_TEXT = "Preparing to draw fabrics; this takes some seconds the first time, and never again."
PATIENCE_SECONDS = 0.2
"""How long the window waits for the kernels, which suffices if they are compiled already."""
MAX_OFFERED_COLORS = 32
_PLACE = re.compile(r"\D*?(-?\d+)\D+?(-?\d+)\D*")


class FabricPanel(Panel):
    """Connects a FabricView with a machine that has a fabric, which is asked only while it does not run."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self.view = FabricView(context.theme, self._ask, self._tell)
        self.bar = FabricToolBar(context.theme)
        self.legend = FabricLegend(context.theme)
        self._play = QTimer(self)
        self._play.timeout.connect(self._step)
        content = column(self.bar, (self.view, 1), self.legend, parent=self)
        self.set_pages(EMPTY_TEXT, content, EmptyState(PREPARING_TEXT))
        self._warming = LatestJob(self)
        self._warming.finished.connect(self._choose_page)
        self.setFocusProxy(self.view)
        self.view.element_chosen.connect(self._element_chosen)
        self.view.word_chosen.connect(self._word_chosen)
        self.view.cleared.connect(context.selection.clear)
        self.view.menu_requested.connect(self._show_menu)
        self.view.frame_changed.connect(self._show_legend)
        self.bar.changed.connect(self._bar_changed)
        self.bar.play_toggled.connect(self._play_toggled)
        self.bar.fit_requested.connect(self.view.fit)
        self.bar.place_entered.connect(self._go_to)
        self._is_warm = False
        self._bar_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        machine = self._fabric()
        self._stop_playing()
        self.view.forget()
        if machine is None:
            self.view.set_shape(None)
            self._choose_page()
            return
        if not self._is_warm:
            self._warming.ask(warm_up, PATIENCE_SECONDS)
        has_queues, has_words = isinstance(machine, HasQueueFill), isinstance(machine, HasWords)
        self.bar.set_shape(machine.fabric, isinstance(machine, HasRoutes), has_queues, has_words)
        self.view.set_shape(machine.fabric)
        self._choose_page()
        self._bar_changed()
        self.on_selection_changed(self.context.selection.current)

    @property
    def is_filled(self) -> bool:
        return not self._warming.is_waiting

    def on_cycle_changed(self) -> None:
        if self.model.is_running:
            return
        self.view.refresh()
        self._follow_word()

    def on_running_changed(self, running: bool) -> None:
        if running:
            self._show_legend()
        elif self._play.isActive() and not self._may_play():
            self._stop_playing()

    def on_selection_changed(self, selection: Selection) -> None:
        element = selection.element
        machine = self._fabric()
        if element is None and selection.unit is not None and isinstance(machine, HasElements):
            element = machine.element_of_unit(selection.unit)
        shape = self.view.shape
        if shape is None or (element is not None and not _is_inside(element, shape.whole)):
            element = None
        is_other = element is not None and element != self.view.marks.selected
        self.view.set_marks(FabricMarks(element, self.view.marks.hovered, selection.word))
        if is_other and element is not None:
            self.view.reveal(*element)

    def on_theme_changed(self) -> None:
        self.bar.refresh_icons()
        self.view.restyle()
        self._show_legend()

    def save_state(self) -> dict[str, Any]:
        bar = self.bar
        return {
            "shade": bar.shade.currentData(),
            "links": bar.links.isChecked(),
            "words": bar.words.isChecked(),
            "follow": bar.follow.isChecked(),
            "speed": bar.speed.currentIndex(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        bar = self.bar
        place = bar.shade.findData(state.get("shade"))
        if place >= 0:
            bar.shade.setCurrentIndex(place)
        for name, toggle in (("links", bar.links), ("words", bar.words), ("follow", bar.follow)):
            if isinstance(state.get(name), bool):
                toggle.setChecked(state[name])
        speed = state.get("speed")
        if isinstance(speed, int) and 0 <= speed < bar.speed.count():
            bar.speed.setCurrentIndex(speed)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, bar = event.key(), self.bar
        back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier):
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Space:
            bar.play.toggle()
        elif key == Qt.Key.Key_L:
            bar.turn(bar.shade, -1 if back else 1)
        elif key == Qt.Key.Key_C:
            bar.turn(bar.route, -1 if back else 1)
        elif key == Qt.Key.Key_T:
            bar.words.toggle()
        elif key in (Qt.Key.Key_BracketLeft, Qt.Key.Key_BracketRight):
            self._to_hop(1 if key == Qt.Key.Key_BracketRight else -1)
        else:
            super().keyPressEvent(event)

    def _choose_page(self) -> None:
        """Show the fabric if the machine has one and the kernels are compiled, else the page that says why
        not.
        """
        self._is_warm = self._is_warm or (self._warming.is_asked and not self._warming.is_waiting)
        is_there = self.view.shape is not None
        self.show_page(0 if not is_there else 1 if self._is_warm else 2)

    # -- the machine ------------------------------------------------------------------------------------

    def _fabric(self) -> HasFabric | None:
        """Return the machine if it has a fabric and does not run, else None."""
        session = self.model.session
        if session is None or self.model.is_running:
            return None
        machine = session.machine
        return machine if isinstance(machine, HasFabric) else None

    def _ask(self, area: Area, wants: FabricWants) -> FabricFrame | None:
        machine = self._fabric()
        return take_frame(machine, area, wants, self.model.cycle) if machine is not None else None

    def _tell(self, column: int, row: int, word: np.void | None) -> str:
        """Return the tooltip of an element, or of a word if given."""
        shape, machine = self.view.shape, self._fabric()
        if shape is None:
            return ""
        if word is not None:
            return word_text(shape, word, self.model.cycle)
        return element_text(shape, machine, column, row)

    # -- from the view ----------------------------------------------------------------------------------

    def _element_chosen(self, column: int, row: int) -> None:
        machine = self._fabric()
        units = machine.units_of_element(column, row) if isinstance(machine, HasElements) else ()
        chosen = Selection(element=(column, row), unit=units[0] if units else None)
        self.view.set_marks(replace(self.view.marks, selected=(column, row), word=None))
        self.context.selection.set(chosen)

    def _word_chosen(self, word: int, column: int, row: int) -> None:
        self.view.set_marks(replace(self.view.marks, selected=(column, row), word=word))
        self.context.selection.set(Selection(element=(column, row), word=word))

    def _go_to(self, text: str) -> None:
        """Select an element by column and row, counted from the program's corner, as typed by the user."""
        found = _PLACE.fullmatch(text)
        shape = self.view.shape
        if found is None or shape is None:
            return
        column, row = int(found[1]) + shape.program.column, int(found[2]) + shape.program.row
        if _is_inside((column, row), shape.whole):
            self._element_chosen(column, row)
            self.view.fit_selected()
            self.view.setFocus()

    def _bar_changed(self) -> None:
        bar = self.bar
        color = bar.route.currentData()
        wants = replace(
            self.view.wants,
            shade=bar.shade.currentData() or "state",
            links=bar.links.isChecked(),
            words=bar.words.isChecked(),
        )
        self.view.set_wants(wants if color is None else replace(wants, color=color))
        if self._play.isActive():
            self._play.setInterval(bar.interval_ms)

    def _show_legend(self) -> None:
        shape, style = self.view.shape, self.view.style_colors
        if shape is None or style is None:
            self.legend.set_items(None, ())
            return
        note = f"links: last {format_count(shape.load_cycles)} cycles" if shape.load_cycles else ""
        if self.model.is_running:
            note = "running: the picture is that of the last stop"
        items = legend_of(shape, self.view.frame, self.view.wants.shade, self.view.largest)
        self.legend.set_items(style, items, note)

    def _show_menu(self, element: tuple[int, int] | None, point: QPoint) -> None:
        menu = QMenu(self)
        shape = self.view.shape
        if element is not None and shape is not None:
            name = shape.label(*element)
            menu.addAction(f"Select {name}", lambda: self._element_chosen(*element))
            menu.addAction("Copy its name", lambda: QApplication.clipboard().setText(name))
            self._add_breakpoints(menu, element)
            menu.addSeparator()
        menu.addAction("Show the program", self.view.fit_all)
        menu.addSeparator()
        add_save_actions(menu, self.view, "fabric")
        pop_up(menu, point)

    def _add_breakpoints(self, menu: QMenu, element: tuple[int, int]) -> None:
        """Add entries that set breakpoints on words arriving at an element, if the machine has words."""
        shape = self.view.shape
        if (
            shape is None
            or not isinstance(self._fabric(), HasWords)
            or not _is_inside(element, shape.program)
        ):
            return
        inner = menu.addMenu(f"Break when a {shape.word} arrives here")
        inner.addAction("Of any color", lambda: self.add_word_breakpoint(element))
        for color in shape.colors[:MAX_OFFERED_COLORS]:
            title = f"Of color {color.id} {color.name}".strip()
            inner.addAction(title, partial(self.add_word_breakpoint, element, color.id))

    def add_word_breakpoint(self, element: tuple[int, int], color: int = -1) -> None:
        """Set a breakpoint on words, of one color or of any (-1), that arrive at an element."""
        shape = self.view.shape
        if shape is None or self.model.is_running:
            return
        column, row = element[0] - shape.program.column, element[1] - shape.program.row
        kind = f"{shape.word.lower()} color {color}" if color >= 0 else shape.word.lower()
        self.model.add_breakpoint(f"{kind} at {column},{row}")

    # -- in time ----------------------------------------------------------------------------------------

    def _play_toggled(self, checked: bool) -> None:
        if checked and self._may_play():
            self._play.start(self.bar.interval_ms)
        elif checked:
            self._stop_playing()
        else:
            self._play.stop()

    def _stop_playing(self) -> None:
        self._play.stop()
        self.bar.play.setChecked(False)

    def _may_play(self) -> bool:
        stop = self.model.stop
        is_hit = self._play.isActive() and stop is not None and stop.kind != StopKind.UNTIL
        return self.model.can_step and not is_hit

    def _step(self) -> None:
        if self.model.is_busy:
            return
        if self.model.can_step:
            self.model.step()
        else:
            self._stop_playing()

    def _follow_word(self) -> None:
        """Keep the selected word visible, if the user wants it followed."""
        word, machine = self.view.marks.word, self._fabric()
        if word is None or machine is None or not self.bar.follow.isChecked():
            return
        place = _place_of_word(machine, word)
        if place is not None:
            self.view.set_marks(replace(self.view.marks, selected=place))
            self.view.reveal(*place)

    def _to_hop(self, step: int) -> None:
        """Go back to the selected word's previous hop, or forward by the cycles of a hop until its path
        ends.
        """
        word, machine, cycle = self.view.marks.word, self._fabric(), self.model.cycle
        if word is None or machine is None:
            return
        path = machine.word_path(word) if isinstance(machine, HasWordPaths) else None
        if step > 0:
            if path is None or path.is_under_way or not path.hops or cycle < path.hops[-1].cycle:
                self.model.go_to(cycle + max(1, round(machine.fabric.hop_cycles)))
            return
        earlier = [hop.cycle for hop in path.hops if hop.cycle < cycle] if path is not None else []
        if earlier:
            self.model.go_to(max(earlier))


def _place_of_word(machine: HasFabric, word: int) -> tuple[int, int] | None:
    """Return (column, row) of the element that a word reached last, None if unknown."""
    if isinstance(machine, HasWordPaths):
        path = machine.word_path(word)
        if path is not None and path.hops:
            return path.hops[-1].column, path.hops[-1].row
    if isinstance(machine, HasWords):
        words = machine.words(machine.fabric.whole)
        found = words[words["id"] == word]
        if len(found):
            return int(found["column"][0]), int(found["row"][0])
    return None


def _is_inside(place: tuple[int, int], area: Area) -> bool:
    column, row = place[0] - area.column, place[1] - area.row
    return 0 <= column < area.columns and 0 <= row < area.rows


SPEC = PanelSpec("fabric", "Fabric", "mdi6.grid", "center", 10, ("routed fabric",), FabricPanel)
