"""The memory panel: map of a memory now, lifetimes of its ranges over cycles, and its contents as numbers."""

from typing import Any

import numpy as np
from PySide6.QtCore import QItemSelection, QPoint, QPointF, QSignalBlocker, Qt
from PySide6.QtWidgets import QMenu, QTableView

from npuviz.base.units import format_bytes, format_count, format_share
from npuviz.program.dtypes import DTYPES, numpy_dtype
from npuviz.sim.description import Memory
from npuviz.sim.machine import Region
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import pop_up
from npuviz.ui.kit.picture import add_save_actions
from npuviz.ui.kit.table_view import add_copy_actions
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.memory.asker import MemoryAsker
from npuviz.ui.memory.body import MemoryBody
from npuviz.ui.memory.colors import TensorColors
from npuviz.ui.memory.layout import range_text
from npuviz.ui.memory.statistics import MAX_BYTES, RangeStatistics, Statistics
from npuviz.ui.memory.table import HEX, Contents, MemoryTable, format_cell
from npuviz.ui.memory.touched import range_touched, touched_in
from npuviz.workbench.selection import MemoryRange, Selection, selected

EMPTY_TEXT = "Memories show which tensor lies where and its numbers at any cycle. Open a model to fill them."
AUTO = "as the tensor"
READABLE = tuple(name for name, dtype in DTYPES.items() if dtype.kind not in "Oc")
"""Element types whose items are plain numbers (not complex, not object)."""
NOT_SIMULATED = "not-simulated"
UNKNOWN = "The contents are not known: this program is not simulated."
COMPUTING = "computing the values\u2026"


class MemoryPanel(Panel):
    """Map or lifetimes above, contents below."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._memories: tuple[Memory, ...] = ()
        self._range: MemoryRange | None = None
        self._region: Region | None = None
        self._shown_region: Region | None = None
        self._whole = Contents()
        self._automatic: tuple[int, ...] = ()
        self._decided_at = -1
        self._asker = MemoryAsker(self)
        self._asker.answered.connect(self._show_answer)
        self._asker.filled.connect(self._show_filled)
        self._found = RangeStatistics(self)
        self._found.found.connect(self._show_numbers)
        self.colors = TensorColors(context.theme, None)
        self.table = MemoryTable(self._read)
        body = self.body = MemoryBody(context.theme, self.table, [AUTO, HEX, *READABLE])
        self.chooser, self.dtype = body.chooser, body.dtype
        self.usage, self.numbers = body.usage, body.numbers
        self.map, self.lifetimes, self.pictures = body.map, body.lifetimes, body.pictures
        self.map.value_of = self._value_of
        self.view, self._buttons = body.view, body.buttons
        self.set_pages(EMPTY_TEXT, body)
        self._connect()

    def _connect(self) -> None:
        self.chooser.currentIndexChanged.connect(self._other_chosen)
        self.dtype.currentIndexChanged.connect(lambda _index: self._show_contents())
        self._buttons.idToggled.connect(self._view_chosen)
        self.map.view_changed.connect(self._show_usage)
        self.map.region_chosen.connect(self._region_chosen)
        self.map.range_chosen.connect(self._range_chosen)
        self.lifetimes.lifetime_chosen.connect(self._lifetime_chosen)
        self.view.selectionModel().selectionChanged.connect(self._cells_chosen)
        self.view.customContextMenuRequested.connect(lambda point: self._show_menu(self.view, point))
        for widget, show in ((self.map, self._show_map_menu), (self.lifetimes, self._show_lifetime_menu)):
            widget.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            widget.customContextMenuRequested.connect(show)

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        description = self.model.description
        self._memories = description.memories if description else ()
        self._range = self._region = None
        self._asker.move(None)
        self._make_colors()
        self.chooser.blockSignals(True)
        self.chooser.clear()
        self.chooser.addItems([memory.name for memory in self._memories])
        self._automatic = self._worth_seeing()
        self.chooser.setCurrentIndex(self._automatic[0] if self._automatic else -1)
        self.chooser.blockSignals(False)
        self.show_page(bool(self._memories))
        self._memory_chosen()

    def _worth_seeing(self) -> tuple[int, ...]:
        """Return the memories to show until the user chooses: the first fast one, and DRAM while that is
        empty.
        """
        fast = (place for place, memory in enumerate(self._memories) if memory.role != "dram")
        slow = (place for place, memory in enumerate(self._memories) if memory.role == "dram")
        return tuple(place for place in (next(fast, None), next(slow, None)) if place is not None)

    def on_cycle_changed(self) -> None:
        is_there = not self.model.is_running and not self.model.is_step
        is_new = self._decided_at != self.model.num_verbs
        if is_there and is_new and self.chooser.currentIndex() in self._automatic[1:]:
            # After a step the shown memory is not exchanged; after a run the picture differs anyway.
            self._look_into(self._automatic[0])
            return
        memory = self._memory()
        if memory is None:
            return
        self.lifetimes.set_cursor_cycle(self.model.cycle)
        session = self.model.session
        if session is None or self.model.is_running:
            return
        self._asker.move(session.machine)
        if self.pictures.currentIndex() == 1:
            self.lifetimes.refresh_data()
        self._look()

    def _look(self) -> None:
        """Ask for the contents and show them, later if values must be computed first."""
        memory = self._memory()
        if memory is None or not self._may_ask():
            self._show_contents()
        elif self._asker.look(memory, self._range):
            self._show_answer()
        else:
            self.numbers.setText(COMPUTING)

    def _may_ask(self) -> bool:
        """Return whether the machine may be asked now: while it runs, only if it has still memories."""
        return not (self.model.is_running and self._asker.is_exclusive)

    @property
    def is_filled(self) -> bool:
        return not (self._asker.is_waiting or self._found.is_waiting)

    def _show_answer(self) -> None:
        answer = self._asker.answer
        if answer is None:
            return
        self.map.set_regions(answer.regions)
        if not answer.regions and self.chooser.currentIndex() in self._automatic[:-1]:
            self._decided_at = self.model.num_verbs
            self._look_into(self._automatic[-1])
            return
        self._show_usage()
        contents = self.table.contents
        if self._range is None or contents.address != self._range.address:
            self._show_contents()
        else:
            self.table.refresh()
            self._show_numbers()

    def _show_filled(self) -> None:
        self.table.show_again()
        self._show_numbers()

    def _show_usage(self) -> None:
        """Show how full the memory is, and which part of it the map shows."""
        memory, view = self._memory(), self.map.view
        if memory is None or view is None:
            return
        used = sum(region.total_bytes for region in self.map.regions)
        share = format_share(used / max(memory.size_bytes, 1))
        text = f"{format_bytes(used)} of {format_bytes(memory.size_bytes)}  ({share})"
        if not view.is_whole:
            shown = format_bytes(view.shown_bytes)
            first = f" from {view.offset:#x}" if view.offset else ""
            text += (
                f"   shown: {shown}{first} of each bank"
                if view.num_banks > 1
                else f"   shown: {shown}{first}"
            )
        self.usage.setText(text)

    def on_running_changed(self, running: bool) -> None:
        self.view.setEnabled(not running)

    def on_theme_changed(self) -> None:
        self._make_colors()

    def _make_colors(self) -> None:
        self.colors = TensorColors(self.theme, self.model.program)
        self.map.set_colors(self.colors)
        self.lifetimes.set_colors(self.colors)

    def on_selection_changed(self, selection: Selection) -> None:
        self._follow(selection)
        self._show_touched()

    def _show_touched(self) -> None:
        chosen = self.context.selection.current.instruction
        self.map.set_touched(touched_in(self.model.program, self._memory(), chosen))

    def _follow(self, selection: Selection) -> None:
        chosen = selection.memory
        if chosen is None and selection.tensor is not None:
            chosen = self._range_of_tensor(selection.tensor)
        elif chosen is None:
            chosen = self._range_of_work(selection)
        if chosen is None or chosen == self._range:
            return
        if not 0 <= chosen.memory < len(self._memories):
            return
        self._automatic = ()
        if self.chooser.currentIndex() != chosen.memory:
            self.chooser.setCurrentIndex(chosen.memory)
        self._choose(chosen, self.map.region_at(chosen.address))

    def save_state(self) -> dict[str, Any]:
        return {"sizes": self.body.chosen_sizes, "view": self._buttons.checkedId()}

    def restore_state(self, state: dict[str, Any]) -> None:
        self.body.restore_sizes(state.get("sizes"))
        if state.get("view") in (0, 1):
            self._buttons.button(state["view"]).setChecked(True)

    # -- choosing ---------------------------------------------------------------------------------------

    def _memory(self) -> Memory | None:
        place = self.chooser.currentIndex()
        return self._memories[place] if 0 <= place < len(self._memories) else None

    def _other_chosen(self, _place: int) -> None:
        """Show the memory that the user chose, and never exchange it automatically again."""
        self._automatic = ()
        self._memory_chosen()

    def _look_into(self, place: int) -> None:
        """Show a memory that the panel chose, not the user."""
        with QSignalBlocker(self.chooser):
            self.chooser.setCurrentIndex(place)
        self._memory_chosen()

    def _memory_chosen(self) -> None:
        memory = self._memory()
        extent = self._extent(memory) if memory else 0
        self._range = self._region = None
        self._asker.drop()
        self.map.set_memory(memory, extent)
        banks = memory.num_banks if memory and extent == memory.size_bytes else 1
        self.lifetimes.set_memory(self.model.reader, memory.id if memory else -1, extent, banks)
        self._show_contents()
        self._show_touched()
        self.on_cycle_changed()

    def _extent(self, memory: Memory) -> int:
        """Return the bytes worth showing: all of an on-chip memory, the allocated part of DRAM."""
        program = self.model.program
        if memory.role != "dram" or program is None:
            return memory.size_bytes
        ends = [a.address + a.size_bytes for a in program.memory_map.allocations if a.memory == memory.id]
        return min(max(ends, default=memory.size_bytes), memory.size_bytes)

    def _view_chosen(self, number: int, checked: bool) -> None:
        if checked:
            self.pictures.setCurrentIndex(number)
            if number == 1 and self._memory() is not None:
                self.lifetimes.refresh_data()

    def _region_chosen(self, region: Region | None) -> None:
        memory = self._memory()
        if memory is None:
            return
        if region is None:
            self._choose(None, None)
            self.context.selection.set(Selection())
            return
        chosen = MemoryRange(memory.id, region.address, region.size_bytes, region.banks)
        self._choose(chosen, region)
        program, node = self.model.program, -1
        if program is not None and region.tensor >= 0:
            node = program.graph.tensors[region.tensor].producer
        self.context.selection.set(
            selected(memory=chosen, node=node, tensor=region.tensor, instruction=region.instruction)
        )

    def _range_chosen(self, address: int, size_bytes: int, banks: int = 1) -> None:
        memory = self._memory()
        if memory is not None:
            chosen = MemoryRange(memory.id, address, size_bytes, banks)
            self._choose(chosen, None)
            self.context.selection.set(Selection(memory=chosen))

    def _lifetime_chosen(self, row: np.void | None) -> None:
        memory = self._memory()
        if memory is None or row is None:
            return
        chosen = MemoryRange(memory.id, int(row["address"]), int(row["size_bytes"]))
        self._choose(chosen, None)
        tensor, instruction = int(row["tensor"]), int(row["instruction"])
        cycles = (int(row["start"]), int(row["end"]))
        self.context.selection.set(
            selected(memory=chosen, tensor=tensor, instruction=instruction, cycles=cycles)
        )

    def _choose(self, chosen: MemoryRange | None, region: Region | None) -> None:
        self._range, self._region = chosen, region
        if chosen is None:
            self.map.set_chosen(0, 0)
        else:
            self.map.set_chosen(chosen.address, chosen.size_bytes, chosen.banks)
        self._asker.forget()
        self._show_contents()
        self._look()

    def _range_of_tensor(self, tensor: int) -> MemoryRange | None:
        """Return a tensor's range in the memory shown, else its place in the memory map, else None."""
        memory, program = self._memory(), self.model.program
        for region in self.map.regions if memory is not None else ():
            if region.tensor == tensor and memory is not None:
                return MemoryRange(memory.id, region.address, region.size_bytes, region.banks)
        held = program.memory_map.of_tensor(tensor) if program is not None else None
        return MemoryRange(held.memory, held.address, held.size_bytes) if held is not None else None

    def _range_of_work(self, selection: Selection) -> MemoryRange | None:
        """Return the range that the selected instruction, or else operator, writes; None if unknown."""
        program = self.model.program
        if program is None:
            return None
        number, node = selection.instruction, selection.node
        if number is not None and 0 <= number < len(program.listing):
            instruction = program.listing.describe(number)
            regions = [r for r in self.map.regions if r.instruction == number]
            if regions and (memory := self._memory()) is not None:
                return MemoryRange(memory.id, regions[0].address, regions[0].size_bytes, regions[0].banks)
            written = [place for place in instruction.writes if place.size_bytes > 0]
            for place in written:
                # Addresses inside a bank cannot be used as long as the bank is unknown.
                if 0 <= place.memory < len(self._memories) and self._memories[place.memory].num_banks < 2:
                    return MemoryRange(place.memory, place.address, place.size_bytes)
            if (around := range_touched(program, self._memories, number)) is not None:
                return around
            tensors = [place.tensor for place in written if place.tensor >= 0]
            return self._range_of_tensor(tensors[0]) if tensors else None
        if node is not None and 0 <= node < len(program.graph.nodes):
            outputs = program.graph.nodes[node].outputs
            return self._range_of_tensor(outputs[0]) if outputs else None
        return None

    # -- contents ---------------------------------------------------------------------------------------

    def _read(self, address: int, size_bytes: int) -> bytes | None:
        return self._asker.read(address, size_bytes) if self._may_ask() else None

    def _show_contents(self) -> None:
        memory = self._memory()
        if memory is None:
            self.table.set_contents(Contents())
            self.numbers.clear()
            return
        address, size, banks = 0, memory.size_bytes, 1
        dtype = self.dtype.currentText()
        shape: tuple[int, ...] = ()
        region = self._region
        if self._range is not None:
            address, size, banks = self._range.address, self._range.size_bytes, self._range.banks
        elif self.map.regions:
            # If nothing is chosen, the first region is more interesting than the zeros of a large memory.
            region = self.map.regions[0]
            address, size, banks = region.address, region.size_bytes, region.banks
        self._shown_region = region
        is_region = region is not None and (region.address, region.size_bytes) == (address, size)
        if region is not None and is_region and region.banks == banks:
            shape = region.shape
        if dtype == AUTO:
            dtype = region.dtype if region is not None else memory.dtype
        dtype = dtype if dtype in READABLE else HEX
        self._whole = Contents(address, size, dtype, shape, banks, memory.bank_bytes)
        self.table.set_contents(self._whole.shown)
        header, width = self.view.horizontalHeader(), 40 if self.table.contents.dtype == HEX else 86
        if header.defaultSectionSize() != width:
            # Qt lays out and paints all cells even if the width is the same.
            header.setDefaultSectionSize(width)
        self._show_numbers()

    def _is_unknown(self) -> bool:
        """Return whether the program is not simulated, so that no contents are known."""
        program = self.model.program
        return program is not None and any(note.code == NOT_SIMULATED for note in program.notes)

    def _show_numbers(self) -> None:
        """Show the address range and the statistics of the selected cells, or of the whole range."""
        is_unknown = self._is_unknown()
        self.view.setVisible(not is_unknown)
        self.dtype.setVisible(not is_unknown)
        if is_unknown:
            self.numbers.setText(UNKNOWN)
            return
        contents, memory = self.table.contents, self._memory()
        label = self._shown_region.label if self._shown_region is not None else "bytes"
        if not contents.size_bytes or memory is None:
            self.numbers.clear()
            return
        whole = (contents.address, contents.size_bytes, contents.banks)
        address, size, banks = self._selected_bytes() or whole
        text = f"{label}  {range_text(memory, address, size, banks)}  {contents.dtype}"
        if contents.size_bytes < self._whole.size_bytes:
            text += f"   of {format_bytes(self._whole.total_bytes)}"
        has_choice = size * banks < memory.size_bytes
        found = self._statistics(address, size, banks) if has_choice else None
        if found is not None:
            text += f"   min {found.low:.5g}   mean {found.mean:.5g}   max {found.high:.5g}"
            if found.num_not_finite:
                text += f"   not finite {format_count(found.num_not_finite)}"
        self.numbers.setText(text)

    def _statistics(self, address: int, size_bytes: int, banks: int) -> Statistics | None:
        """Return the statistics of a range; None if it holds no numbers or too many, or is not read yet."""
        answer, dtype = self._asker.answer, self.table.contents.dtype
        if dtype == HEX or answer is None or size_bytes * banks > MAX_BYTES:
            return None
        pieces = self.table.pieces(address, size_bytes, banks)
        if pieces is None:
            return None
        return self._found.of(answer, (address, size_bytes, banks), pieces, dtype)

    def _value_of(self, address: int, region: Region) -> str:
        """Return the number at an address of a region as text, "" if its bytes are not read yet."""
        memory, answer = self._memory(), self._asker.answer
        dtype = region.dtype if self.dtype.currentText() == AUTO else self.dtype.currentText()
        if memory is None or answer is None or dtype not in READABLE:
            return ""
        size = numpy_dtype(dtype).itemsize
        start = region.address
        if region.banks > 1:
            start += (address - start) // memory.bank_bytes * memory.bank_bytes
        data = answer.kept(start + (address - start) // size * size, size)
        return format_cell(data, dtype) if data is not None else ""

    def _selected_bytes(self) -> tuple[int, int, int] | None:
        """Return address, size and banks from the first to the last selected cell, None without selection."""
        indexes = self.view.selectionModel().selection()
        if indexes.isEmpty():
            return None
        box = indexes.first()
        contents = self.table.contents
        first = contents.address_of(box.top(), box.left())
        last = contents.address_of(box.bottom(), box.right()) + contents.item_bytes
        banks = contents.place_of(box.bottom(), 0)[0] - contents.place_of(box.top(), 0)[0] + 1
        if banks > 1:
            # Over several banks, the same bytes of each.
            last -= (banks - 1) * contents.bank_bytes
            last = last if last > first else first + contents.item_bytes
        start = contents.start_of(contents.place_of(box.top(), 0)[0])
        return first, min(last, start + contents.size_bytes) - first, banks

    def _cells_chosen(self, _selected: QItemSelection, _deselected: QItemSelection) -> None:
        chosen, memory = self._selected_bytes(), self._memory()
        if chosen is None or memory is None or not self.view.hasFocus():
            return
        self.map.set_chosen(*chosen)
        self._show_numbers()

    def _show_menu(self, view: QTableView, point: QPoint) -> None:
        menu = QMenu(self)
        chosen, memory = self._selected_bytes(), self._memory()
        if chosen is not None and memory is not None:
            self._add_actions(menu, MemoryRange(memory.id, *chosen))
            menu.addAction("Select these bytes", lambda: self._range_chosen(*chosen))
        add_copy_actions(menu, view)
        add_save_actions(menu, self, "memory")
        pop_up(menu, point, view.viewport())

    def _show_map_menu(self, point: QPoint) -> None:
        """Show the menu of the chosen bytes if the pointer is on them, else of the region under it."""
        menu, memory = QMenu(self), self._memory()
        address = self.map.address_at(QPointF(point))
        chosen, region = self._range, self.map.region_at(address) if address is not None else None
        if memory is not None and address is not None:
            if chosen is None or not chosen.address <= address < chosen.address + chosen.size_bytes:
                chosen = MemoryRange(memory.id, address)
            if region is not None and chosen.size_bytes == 1:
                chosen = MemoryRange(memory.id, region.address, region.size_bytes, region.banks)
            self._add_actions(menu, chosen)
        add_save_actions(menu, self.map, "memory")
        pop_up(menu, point, self.map)

    def _show_lifetime_menu(self, point: QPoint) -> None:
        menu, memory = QMenu(self), self._memory()
        row = self.lifetimes.lifetime_at(QPointF(point))
        if memory is not None and row is not None:
            chosen = MemoryRange(memory.id, int(row["address"]), int(row["size_bytes"]))
            ThingMenu(self.context, menu).add_memory(chosen, int(row["tensor"]))
            menu.addSeparator()
        add_save_actions(menu, self.lifetimes, "memory")
        pop_up(menu, point, self.lifetimes)

    def _add_actions(self, menu: QMenu, chosen: MemoryRange) -> None:
        region = self.map.region_at(chosen.address)
        tensor = region.tensor if region is not None else -1
        ThingMenu(self.context, menu).add_memory(chosen, tensor)
        menu.addSeparator()


SPEC = PanelSpec("memory", "Memory", "mdi6.memory", "bottom", 30, (), MemoryPanel)
