"""The program panel: instructions of one unit or of all, with program counters and breakpoints."""

from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QSignalBlocker, QTimer
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QCheckBox, QMenu

from npuviz.base.units import format_count
from npuviz.program.program import Program
from npuviz.ui.kit.find_bar import FindBar
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import add_keys, choice, column, line, muted_label, pop_up
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.kit.trace_facts import intervals_of_instruction
from npuviz.ui.program.facts import (
    instruction_of_breakpoint,
    marked_instructions,
    opcode_roles,
    short_names,
    units_with_code,
)
from npuviz.ui.program.listing import ListingMarks, ProgramListing
from npuviz.ui.program.row_painter import RowLook
from npuviz.ui.program.rows import Decoder, ListingRows, ListingSearch
from npuviz.workbench.selection import Selection, selected

ALL_UNITS = -1
MAX_LOOKED_AT = 256
"""Most units whose instruction under way is looked up."""
SLICE_SECONDS = 0.008
NO_PROGRAM = "Open a model to read its instructions here, unit by unit."
NO_LISTING = "A trace bundle holds no instructions. Open the model it came from to read them."
EMPTY_LISTING = "This program has no instructions."


class ProgramPanel(Panel):
    """Shows the listing of a chosen unit, and updates it with machine and selection."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._program: Program | None = None
        self._decoder: Decoder | None = None
        self._search: ListingSearch | None = None
        self._unit_names: dict[int, str] = {}
        self._short_names: dict[int, str] = {}
        self._roles: dict[str, str] = {}
        self._counters: dict[int, int] = {}
        self._wanted_unit = ""
        self._choice = choice(self, "Unit whose instructions are listed", changed=self._show_unit)
        self._follow = QCheckBox("Follow", self)
        self._follow.setToolTip("Keep the next instruction, or what is under way, in view")
        self._follow.setChecked(True)
        self._follow.toggled.connect(self._follow_counter)
        self._count = muted_label(self)
        self.find_bar = FindBar("Opcode, operator or number", self)
        self.find_bar.searched.connect(self.search)
        self.find_bar.closed.connect(self._end_search)
        self.find_bar.edited.connect(self._clear_status)
        self.listing = ProgramListing(context.theme, self)
        self.listing.chosen.connect(self._choose)
        self.listing.breakpoint_toggled.connect(self.toggle_breakpoint)
        self.listing.menu_requested.connect(self._show_menu)
        self._search_timer = QTimer(self, interval=0)
        self._search_timer.timeout.connect(self._search_slice)
        context.model.breakpoints_changed.connect(self._refresh_marks)
        self._lay_out()
        self.on_session_changed()

    def _lay_out(self) -> None:
        bar = line((self._choice, 1), self._count, self._follow, margins=(4, 2, 8, 2))
        content = column(bar, self.find_bar, (self.listing, 1), parent=self)
        self.set_pages(self.invitation(NO_PROGRAM), content)
        self.find_bar.listen(self)
        add_keys(self, ((QKeySequence.StandardKey.Copy, self.copy_selected),))

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._end_search()
        program, description = self.model.program, self.model.description
        self._program = program
        self._counters = {}
        if program is None or description is None or not len(program.listing):
            text = NO_PROGRAM if self.model.reader is None else NO_LISTING
            self.empty.set_text(EMPTY_LISTING if program else text)
            self._decoder = None
            self.listing.show_rows(ListingRows([]), None, RowLook())
            self.show_page(0)
            return
        self._decoder = Decoder(program.listing)
        self._unit_names = {unit.id: unit.name for unit in description.units}
        self._roles = opcode_roles(description)
        with QSignalBlocker(self._choice):
            self._choice.clear()
            self._choice.addItem("All units", ALL_UNITS)
            units = units_with_code(program, description)
            self._short_names = short_names(units)
            for unit in units:
                self._choice.addItem(unit.name, unit.id)
            self._choice.setCurrentIndex(max(0, self._choice.findText(self._wanted_unit)))
        self.show_page(1)
        self._show_unit()

    def on_cycle_changed(self) -> None:
        if self.model.is_running:
            return
        self._refresh_marks()
        self._follow_counter()

    def on_selection_changed(self, selection: Selection) -> None:
        if self._program is None:
            return
        instruction = -1 if selection.instruction is None else selection.instruction
        node = -1 if selection.node is None else selection.node
        moved = instruction != self.listing.selected
        self.listing.select(instruction, node)
        if instruction >= 0 and moved:
            self.listing.reveal(instruction)
        elif instruction < 0 <= node and (ranges := self._program.listing.ranges_of_node(node)):
            self.listing.reveal(ranges[0][0])

    def save_state(self) -> dict[str, Any]:
        return {"unit": self._choice.currentText(), "follow": self._follow.isChecked()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self._wanted_unit = str(state.get("unit", ""))
        self._follow.setChecked(bool(state.get("follow", True)))
        if (index := self._choice.findText(self._wanted_unit)) >= 0:
            self._choice.setCurrentIndex(index)

    # -- the listing ----------------------------------------------------------------------------------

    def _show_unit(self) -> None:
        if self._program is None or self._choice.currentIndex() < 0:
            return
        unit = int(self._choice.currentData())
        self._wanted_unit = self._choice.currentText()
        listing = self._program.listing
        rows = ListingRows([(0, len(listing))] if unit == ALL_UNITS else listing.ranges_of_unit(unit))
        names = self._unit_names if unit == ALL_UNITS else {}
        look = RowLook(
            self._program.graph.nodes,
            self._unit_names,
            self._roles,
            bool(names) and bool(self._short_names),
            len(str(len(listing))),
            self._short_names,
        )
        self._end_search()
        self.listing.show_rows(rows, self._decoder, look)
        self._count.setText(format_count(len(rows)))
        self._count.setToolTip(f"{format_count(len(rows))} instructions")
        if not self.model.is_running:
            self._refresh_marks()
        self._follow_counter()

    def _refresh_marks(self) -> None:
        session = self.model.session
        if session is None or self.model.is_running or self._program is None:
            return
        self._counters = session.machine.next_instructions()
        names: dict[int, str] = {}
        for unit, instruction in self._counters.items():
            name = self._unit_names.get(unit, "")
            names[instruction] = f"{names[instruction]}, {name}" if instruction in names else name
        points = marked_instructions((b.text, b.enabled) for b in session.breakpoints.all)
        self.listing.set_marks(ListingMarks(names, points))

    def _follow_counter(self) -> None:
        if not self._follow.isChecked() or self._choice.currentIndex() < 0:
            return
        unit = int(self._choice.currentData())
        counters = self._counters or self._held()
        held = list(counters.values()) if unit == ALL_UNITS else [counters.get(unit, -1)]
        known = [instruction for instruction in held if instruction >= 0]
        if known:
            self.listing.reveal(min(known))

    def _held(self) -> dict[int, int]:
        """Return {unit: instruction under way}, for units without a next instruction."""
        session = self.model.session
        if session is None or self.model.is_running:
            return {}
        states = session.machine.unit_states(MAX_LOOKED_AT)
        return {state.unit: state.instruction for state in states if state.instruction >= 0}

    def _choose(self, instruction: int) -> None:
        if self._decoder is None:
            return
        found = self._decoder.describe(instruction)
        self.context.selection.set(
            selected(node=found.node, instruction=instruction, tile=found.tile, unit=found.unit)
        )

    def toggle_breakpoint(self, instruction: int) -> None:
        """Set the breakpoint `instr N`, or remove it if it is set; do nothing while the machine runs."""
        session = self.model.session
        if session is None or self.model.is_running:
            return
        for point in session.breakpoints.all:
            if instruction_of_breakpoint(point.text) == (instruction, instruction + 1):
                session.breakpoints.remove(point.id)
                break
        else:
            session.breakpoints.add(f"instr {instruction}")
        self._refresh_marks()

    def copy_selected(self) -> None:
        """Put the text of the current instruction on the clipboard."""
        if self._decoder is not None and self.listing.selected >= 0:
            QGuiApplication.clipboard().setText(self._decoder.describe(self.listing.selected).text)

    def _show_menu(self, instruction: int, position: QPoint) -> None:
        menu = QMenu(self)
        toggle = menu.addAction("Toggle breakpoint", lambda: self.toggle_breakpoint(instruction))
        toggle.setEnabled(self.model.session is not None and not self.model.is_running)
        reader = self.model.reader
        runs = intervals_of_instruction(reader, instruction) if reader else []
        if runs and self.model.session is not None:
            cycle = runs[0].start
            menu.addAction(
                f"Go to cycle {format_count(cycle)}, where it ran", lambda: self.model.go_to(cycle)
            )
        ThingMenu(self.context, menu).add_needed_by(instruction)
        if self._program is not None:
            node = int(self._program.listing.nodes_of(np.array([instruction]))[0])
            if node >= 0:
                ThingMenu(self.context, menu.addMenu("Its operator")).add_operator(node)
        menu.addSeparator()
        menu.addAction("Copy line", self.copy_selected)
        menu.addAction("Copy number", lambda: QGuiApplication.clipboard().setText(str(instruction)))
        pop_up(menu, position)

    # -- search -----------------------------------------------------------------------------------------

    def search(self, text: str, backward: bool = False) -> None:
        """Search for the next or previous row with a text, in slices between which the window handles
        events.
        """
        if self._program is None:
            return
        rows = self.listing.rows
        current = rows.row_of(self.listing.selected)
        start = self.listing.first_row - 1 if current is None else current
        description = self.model.description
        opcodes = [kind.name for kind in description.kinds if "wait" not in kind.role] if description else []
        self._search = ListingSearch(
            rows, self._program.listing, self._program.graph, text, start, backward, opcodes
        )
        self._search_timer.start()
        self._search_slice()

    def _search_slice(self) -> None:
        search = self._search
        if search is None:
            return
        if not search.advance(SLICE_SECONDS):
            self.find_bar.set_status(f"{format_count(search.num_searched)}\u2026")
            return
        self._end_search()
        if search.row is None:
            self.find_bar.set_status("not found")
            return
        instruction = self.listing.rows.instruction_at(search.row)
        self.find_bar.set_status(f"row {format_count(search.row + 1)}")
        self._choose(instruction)
        self.listing.select(instruction)
        self.listing.reveal(instruction)

    def _clear_status(self, _text: str) -> None:
        self.find_bar.set_status("")

    def _end_search(self) -> None:
        self._search = None
        self._search_timer.stop()


SPEC = PanelSpec("program", "Program", "mdi6.format-list-numbered", "left", 0, (), ProgramPanel)
