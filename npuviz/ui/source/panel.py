"""The source panel: program text with current line, breakpoints and costs, and variables of an element."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from PySide6.QtCore import QPoint, QSignalBlocker, Qt
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QMenu, QToolButton

from npuviz.debug.condition.tokens import quoted
from npuviz.debug.loop_turns import loops_around
from npuviz.program.source import Entry, HasSource, Place
from npuviz.program.variables import HasVariables
from npuviz.sim.fabric import FabricShape, HasFabric
from npuviz.sim.frames import HasFrames
from npuviz.sim.stop import StopKind
from npuviz.ui.bridge.focus import focused_element
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.kit.find_bar import FindBar
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import (
    button,
    choice,
    column,
    line,
    paint_icons,
    pop_up,
    restore_sizes,
    splitter,
)
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.source.lexer import Lexer
from npuviz.ui.source.line_costs import LineCost, line_costs, tip_of
from npuviz.ui.source.loops import LoopBar
from npuviz.ui.source.stack_view import StackView
from npuviz.ui.source.state import (
    ElementPlace,
    LineMark,
    element_place,
    line_condition,
    line_marks,
    next_line_with_code,
    place_of,
    unit_place,
)
from npuviz.ui.source.text import SourceMarks, SourceText
from npuviz.ui.source.variables import VariableTable
from npuviz.workbench.selection import Selection

EMPTY_TEXT = "The text of the program, line by line. Open a program that was compiled from source."
MAX_ENTRIES = 4
ROOM_FOR_STACK = 440
"""Height in pixels from which on a kernel's stack and tiles are shown below its text."""
ROOM_FOR_WORDS = 380
PATIENCE = 0.02
"""Seconds to wait for the costs of lines before they come later."""
STEPS = (
    ("debug.line_over_back", "mdi6.undo-variant"),
    ("debug.line_over", "mdi6.debug-step-over"),
    ("debug.line_into", "mdi6.debug-step-into"),
    ("debug.line_out", "mdi6.debug-step-out"),
    ("debug.next_task", "mdi6.skip-forward-outline"),
)


class SourcePanel(Panel):
    """Shows the line and variables of the selected element or unit; asks the machine only when it is
    stopped.
    """

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._listing: HasSource | None = None
        self._shape: FabricShape | None = None
        self._element: int | None = None
        self._place: ElementPlace | None = None
        self._file = -1
        self._told: ElementPlace | None = None
        self._chosen: tuple[int, int] = (-1, 0)
        self._points: dict[tuple[int, int], list[LineMark]] = {}
        self._heat: dict[tuple[int, int], LineCost] = {}
        self._heat_end = -1
        self._has_frames = self._is_choosing = self._is_turning = False
        self._job = LatestJob(self)
        self._job.finished.connect(self._heat_found)
        self.text = SourceText(context.theme, self._tell, self)
        self.stack = StackView(context, self)
        self.stack.line_chosen.connect(self._frame_chosen)
        self.files = choice(self, "File", "source.files", self._file_chosen)
        self.follow = QCheckBox("Follow", self)
        self.follow.setToolTip("Follow: keep the line that runs in view")
        self.follow.setAccessibleName("Follow")
        self.follow.setChecked(True)
        self.follow.toggled.connect(lambda _checked: self._reveal_current())
        self._stack = button(
            self,
            "",
            "Stack and tiles",
            self._toggle_stack,
            name="source.stack",
            icon_name="mdi6.layers-outline",
        )
        self._stack.setCheckable(True)
        self._shows_stack: bool | None = None
        self.loops = LoopBar(self)
        self.loops.chosen.connect(self._turn_chosen)
        self.find_bar = FindBar("Text in this file", self)
        self.find_bar.searched.connect(self.search)
        self._steps = [self._step_button(*step) for step in STEPS]
        self._lay_out()
        self.text.chosen.connect(self._line_chosen)
        self.text.breakpoint_toggled.connect(self.toggle_breakpoint)
        self.text.menu_requested.connect(self._show_menu)
        context.model.breakpoints_changed.connect(self._refresh_marks)
        self.on_theme_changed()

    def _lay_out(self) -> None:
        margins = (8, 2, 8, 2)
        bar = line((self.files, 1), *self._steps, self._stack, self.follow, margins=margins, spacing=4)
        upper = column(bar, self.loops, self.find_bar, (self.text, 1), parent=self)
        self._splitter = splitter(Qt.Orientation.Vertical, (upper, 3), (self.stack, 2))
        self.set_pages(EMPTY_TEXT, self._splitter)
        self.setFocusProxy(self.text)
        self.find_bar.listen(self)

    def _step_button(self, command: str, name: str) -> QToolButton:
        found = next((known for known in self.context.commands.all() if known.id == command), None)
        title = found.title if found is not None else command
        keys = f" ({found.shortcuts[0]})" if found is not None and found.shortcuts else ""
        run = partial(self.context.commands.run, command)
        made = button(self, "", f"{title}{keys}", lambda: run(), name=f"source.{command}", icon_name=name)
        made.setAccessibleName(title)
        return made

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        program, session = self.model.program, self.model.session
        listing = program.listing if program is not None else None
        self._listing = listing if isinstance(listing, HasSource) and listing.sources else None
        self._element, self._place, self._file, self._chosen = None, None, -1, (-1, 0)
        self.loops.show_loops(())
        self._shape = None
        self._job.drop()
        self._heat, self._heat_end = {}, -1
        if session is not None and not self.model.is_running and isinstance(session.machine, HasFabric):
            self._shape = session.machine.fabric
        self.show_page(self._listing is not None)
        # Machines without frames have lines, but no variables.
        has_frames = session is not None and isinstance(session.machine, HasFrames)
        self._has_frames = has_frames or self._shape is not None
        self._steps[-1].setVisible(not self._has_tiles)  # to the next task, which kernels do not have
        self._show_stack()
        with QSignalBlocker(self.files):
            self.files.clear()
            for number, source in enumerate(self._listing.sources if self._listing else ()):
                if not source.library:
                    self.files.addItem(source.name, number)
        self.stack.clear()
        if self._listing is not None:
            self._show_file(self._first_file())
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        session = self.model.session
        if session is None or self._listing is None or self.model.is_running:
            return
        self._element = focused_element(session.machine, self.context.selection.current, self._element)
        self._show_element()
        self._ask_heat()

    @property
    def is_filled(self) -> bool:
        return not (self._job.is_waiting or self.stack.is_waiting)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        # In a narrow panel the name of the file needs the room.
        self.follow.setText("Follow" if self.width() >= ROOM_FOR_WORDS else "")
        if not self._has_frames:
            self._show_stack()

    @property
    def _has_tiles(self) -> bool:
        """Whether the open program is one whose tiles have names in its text."""
        return not self._has_frames and isinstance(self._listing, HasVariables)

    def _show_stack(self) -> None:
        """Show stack and tiles of a kernel where there is room, or as the user wants it."""
        wanted = self.height() >= ROOM_FOR_STACK if self._shows_stack is None else self._shows_stack
        is_shown = self._has_frames or (self._has_tiles and wanted)
        self._stack.setVisible(self._has_tiles)
        self._stack.setChecked(is_shown)
        if is_shown == self.stack.isHidden():
            self.stack.setVisible(is_shown)
            if is_shown and self._has_tiles:
                self._show_variables()

    def _toggle_stack(self) -> None:
        self._shows_stack = self.stack.isHidden()
        self._show_stack()

    def _ask_heat(self) -> None:
        """Compute the costs of the lines so far; not for machines with elements, whose traces are too
        long.
        """
        reader, listing = self.model.reader, self._listing
        if reader is None or listing is None or self._shape is not None or reader.end_cycle == self._heat_end:
            return
        self._heat_end = reader.end_cycle
        if self._job.ask(lambda: line_costs(reader, listing), PATIENCE):
            self._heat_found()

    def _heat_found(self) -> None:
        self._heat = self._job.answer()
        self._refresh_marks()

    def _unit(self) -> int | None:
        """Return the selected unit, or that of the selected instruction, or None."""
        selection, program = self.context.selection.current, self.model.program
        if selection.unit is None and selection.instruction is not None and program is not None:
            is_known = 0 <= selection.instruction < len(program.listing)
            return program.listing.describe(selection.instruction).unit if is_known else None
        return selection.unit

    def on_running_changed(self, running: bool) -> None:
        self.stack.table.setEnabled(not running)
        if not running:
            self._select_who_stopped()

    def on_selection_changed(self, selection: Selection) -> None:
        session = self.model.session
        if self._listing is None or session is None or self.model.is_running:
            return
        before = self._element
        self._element = focused_element(session.machine, selection, self._element)
        if self._element != before or self._element is None:
            self._show_element()
        place = place_of(self._listing, -1 if selection.instruction is None else selection.instruction)
        if place is not None and (place.file, place.line) != self._chosen and not self._is_choosing:
            self._chosen = (place.file, place.line)
            self._show_file(place.file)
            self.text.reveal(place.line)
        elif place is None and selection.instruction is None:
            self._chosen = (-1, 0)
        self._refresh_marks()

    def on_theme_changed(self) -> None:
        paint_icons((*self._steps, self._stack), self.theme)
        self.text.viewport().update()

    def save_state(self) -> dict[str, Any]:
        sizes = self._splitter.sizes()
        return {"follow": self.follow.isChecked(), "sizes": sizes, "stack": self._shows_stack}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.follow.setChecked(state.get("follow") is not False)
        restore_sizes(self._splitter, state.get("sizes"))
        shown = state.get("stack")
        self._shows_stack = shown if isinstance(shown, bool) else None
        self._show_stack()

    def _select_who_stopped(self) -> None:
        """Select the instruction that reached a breakpoint or another iteration, if another unit is shown."""
        stop, session = self.model.stop, self.model.session
        is_turning, self._is_turning = self._is_turning, False
        if (
            stop is None
            or session is None
            or (stop.kind is not StopKind.BREAKPOINT and not is_turning)
            or self._element is not None
        ):
            return
        unit = session.program.listing.describe(stop.instruction).unit if stop.instruction >= 0 else -1
        if unit >= 0 and unit != self._unit():
            self.context.selection.set(Selection(instruction=stop.instruction, unit=unit))

    @property
    def variables(self) -> VariableTable:
        """The variables that are shown."""
        return self.stack.variables

    # -- what is shown ----------------------------------------------------------------------------------

    @property
    def costs_of_lines(self) -> Mapping[tuple[int, int], LineCost]:
        """(file, line) -> the costs that the margin shows."""
        return self._heat

    @property
    def place(self) -> ElementPlace | None:
        """Place, frames and variables of the shown element."""
        return self._place

    @property
    def file(self) -> int:
        """Number of the shown file, -1 for none."""
        return self._file

    def _first_file(self) -> int:
        """Return the file of the user (not of a library) with the most lines of code."""
        assert self._listing is not None
        sources = self._listing.sources
        own = [n for n, source in enumerate(sources) if not source.library] or [0]
        return max(own, key=lambda n: len(self._listing.lines_with_code(n)) if self._listing else 0)

    def _show_file(self, file: int) -> None:
        if self._listing is None or file == self._file:
            return
        self._file = file
        source = self._listing.sources[file]
        place = self.files.findData(file)
        with QSignalBlocker(self.files):
            if place < 0:
                # Files of libraries are listed only after the program has entered one.
                self.files.addItem(f"{source.name} (library)", file)
                place = self.files.count() - 1
            self.files.setCurrentIndex(place)
        self.files.setToolTip(plain_tip(source.path or source.name))
        self.text.show_text(source.text, Lexer(source.language, source.name))
        self._refresh_marks()

    def _show_element(self) -> None:
        session = self.model.session
        if session is None:
            return
        if self._element is not None:
            place = element_place(session.machine, self._element)
        else:
            place = unit_place(session.machine, self._unit())
        self._place = place
        at = place.frames[0][0].instruction if place is not None and place.frames else -1
        self.loops.show_loops(loops_around(session.program.listing, at))
        if place is None:
            self._refresh_marks()
            return
        self._show_variables()
        self._reveal_current()
        self._refresh_marks()

    def _show_variables(self) -> None:
        session = self.model.session
        if session is not None and not self.model.is_running and not self.stack.isHidden():
            self.stack.show_place(session.machine, self._place, self.marks_changes)

    def _reveal_current(self) -> None:
        place = self._place.place if self._place is not None else None
        if place is not None and self.follow.isChecked():
            self._show_file(place.file)
            self.text.reveal(place.line)

    def _refresh_marks(self) -> None:
        session, listing = self.model.session, self._listing
        if session is None or listing is None or self.model.is_running or self._file < 0:
            return
        points = [(b.id, b.text, b.enabled) for b in session.breakpoints.all]
        self._points = line_marks(listing, points, self._shape)
        own = 1 + self._element if self._element is not None else 0
        shown = {
            line: (any(m.is_enabled for m in marks), any(m.element in (0, own) for m in marks))
            for (file, line), marks in self._points.items()
            if file == self._file
        }
        places = [place for _frame, place in self._place.frames] if self._place is not None else []
        current = places[0].line if places and places[0] is not None and places[0].file == self._file else 0
        callers = {place.line for place in places[1:] if place is not None and place.file == self._file}
        chosen = self._chosen[1] if self._chosen[0] == self._file else 0
        code = frozenset(listing.lines_with_code(self._file))
        costs = {line: cost for (file, line), cost in self._heat.items() if file == self._file}
        heat = {line: cost.share for line, cost in costs.items() if cost.share > 0}
        called = {line: cost.called for line, cost in costs.items() if cost.called > 0}
        units = self.model.description.units if self.model.description is not None else ()
        names = {unit.id: unit.name for unit in units}
        tips = {line: tip_of(line, cost, listing, names) for line, cost in costs.items()}
        self.text.set_marks(SourceMarks(current, frozenset(callers), shown, code, chosen, heat, called, tips))

    def _tell(self, name: str) -> str:
        """Return name, type and value of a variable under the pointer, "" if unknown."""
        place, session = self._place, self.model.session
        if self._has_tiles and session is not None and not self.model.is_running:
            if self.stack.isHidden() and self._told is not place:
                self._told = place
                self.stack.show_place(session.machine, place, self.marks_changes)
            place = self.stack.place
        variable = place.variable(name) if place is not None else None
        if variable is None:
            return ""
        where = f", {variable.where}" if variable.where else ""
        return f"{variable.name}: {variable.type}{where} = {variable.value}"

    # -- from the user ----------------------------------------------------------------------------------

    def _turn_chosen(self, variable: str, turn: int) -> None:
        """Go to an iteration of a loop around the shown unit's instruction."""
        place = self._place
        if place is not None and place.frames and not self.model.is_running:
            self._is_turning = True
            self.model.go_to_turn(variable, turn, place.frames[0][0].instruction)

    def _frame_chosen(self, place: Place) -> None:
        """Show the line that a function on the stack is at."""
        self._chosen = (place.file, place.line)
        self._show_file(place.file)
        self.text.reveal(place.line)
        self._refresh_marks()

    def _file_chosen(self, index: int) -> None:
        if index >= 0:
            self._show_file(int(self.files.itemData(index)))

    def _line_chosen(self, line: int) -> None:
        """Select the first instruction of a line, keeping the element."""
        self._chosen = (self._file, line)
        self._refresh_marks()
        listing = self._listing
        ranges = listing.ranges_of_line(self._file, line) if listing is not None else []
        if not ranges:
            return
        current = self.context.selection.current
        self._is_choosing = True  # the instruction may be one of another text, that the line calls
        self.context.selection.set(
            Selection(instruction=ranges[0][0], element=current.element, unit=current.unit)
        )
        self._is_choosing = False

    def toggle_breakpoint(self, line: int, is_here: bool = False) -> None:
        """Set a breakpoint on a line, or the next one with code; if there are some already, remove them.

        is_here  only for the shown element
        """
        session, listing = self.model.session, self._listing
        if session is None or listing is None or self.model.is_running:
            return
        own = 1 + self._element if self._element is not None else 0
        goal = next_line_with_code(listing.lines_with_code(self._file), line)
        for candidate in (line, goal):
            marks = self._points.get((self._file, candidate or 0), [])
            if marks:
                for mark in marks:
                    if mark.element in (0, own) or not is_here:
                        session.breakpoints.remove(mark.breakpoint)
                self._refresh_marks()
                return
        if goal is None:
            return
        session.breakpoints.add(line_condition(listing, self._file, goal, self._at() if is_here else ""))
        self._refresh_marks()

    def _at(self) -> str:
        """Return the shown element in the syntax of conditions: "column,row"."""
        shape = self._shape
        if shape is None or self._element is None:
            return ""
        row, column = divmod(self._element, shape.columns)
        return f"{column - shape.program.column},{row - shape.program.row}"

    def search(self, text: str, backward: bool = False) -> None:
        """Go to the next or previous line that contains a text."""
        count = self.text.num_lines
        start = self._chosen[1] if self._chosen[0] == self._file else 0
        step = -1 if backward else 1
        for away in range(1, count + 1):
            line = (start - 1 + step * away) % count + 1
            if text.casefold() in self.text.text_of(line).casefold():
                self._line_chosen(line)
                self.text.reveal(line)
                self.find_bar.set_status(f"line {line}")
                return
        self.find_bar.set_status("not found")

    def _show_menu(self, line: int, position: QPoint) -> None:
        menu = QMenu(self)
        label = self._place.label if self._place is not None else "this element"
        can_set = self.model.session is not None and not self.model.is_running
        menu.addAction("Toggle breakpoint", lambda: self.toggle_breakpoint(line)).setEnabled(can_set)
        only = menu.addAction(f"Break only in {label}", lambda: self.toggle_breakpoint(line, True))
        only.setEnabled(can_set and bool(self._at()))
        for entry in self._entries_at(line):
            name = f"{entry.kind} {quoted(entry.name)}"
            menu.addSeparator()
            menu.addAction(f"Break when {name} begins", partial(self.model.add_breakpoint, name)).setEnabled(
                can_set
            )
            here = partial(self.model.add_breakpoint, f"{name} at {self._at()}")
            menu.addAction(f"Break when {name} begins in {label}", here).setEnabled(only.isEnabled())
        menu.addSeparator()
        text = self.text.text_of(line)
        menu.addAction("Copy line", lambda: QGuiApplication.clipboard().setText(text))
        pop_up(menu, position)

    def _entries_at(self, line: int) -> list[Entry]:
        """Return the tasks and functions that begin on a line of the shown file."""
        entries = self._listing.entries if self._listing is not None else ()
        return [e for e in entries if (e.place.file, e.place.line) == (self._file, line)][:MAX_ENTRIES]


SPEC = PanelSpec("source", "Source", "mdi6.code-braces", "left", 5, ("source text",), SourcePanel)
