"""Add entries to context menus: what can be done with a slice, an operator, a queue or bytes of a memory.

What a machine cannot do gets no entry. Answers are shown as messages of the window.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QApplication, QMenu

from npuviz.base.progress import Progress
from npuviz.debug.session import Session
from npuviz.program.instruction import HasDependencies
from npuviz.sim.description import Queue
from npuviz.sim.fabric import HasElements, HasFabric
from npuviz.sim.frames import HasFrames
from npuviz.ui.kit.panel import PanelContext
from npuviz.workbench.breakpoint_text import condition_for, memory_words, operator_word
from npuviz.workbench.questions import Found, who_reads_next, who_wrote, why_waiting
from npuviz.workbench.selection import MemoryRange, Selection, selected

MAX_OFFERED = 12
Question = Callable[[Session, Progress], Found]


class ThingMenu:
    """Adds entries to a menu that act on the session of a panel."""

    def __init__(self, context: PanelContext, menu: QMenu) -> None:
        self._context = context
        self._menu = menu
        model = context.model
        self._session = model.session
        self._program = model.program
        self._description = model.description

    def add_slice(self, unit: int, instruction: int, cycle: int, *, waits: bool) -> None:
        """Add entries for a slice or gap of a unit's track: why it waits, who needs the result, stop
        there.
        """
        if self._session is None or self._description is None:
            return
        if waits and 0 <= unit < len(self._description.units):
            self._menu.addAction(
                "Why it waits", lambda: self.ask("Looking for the cause", partial(_why, unit, cycle))
            )
        if not waits:
            self.add_needed_by(instruction)
            if instruction >= 0:
                self._add_provenance(selected(instruction=instruction, unit=unit))
        self._menu.addAction(f"Stop here: cycle == {cycle}", lambda: self.stop_at(f"cycle == {cycle}"))
        text = condition_for(selected(instruction=instruction), self._description, self._program)
        if text is not None:
            text += self._place_of(unit)
            self._menu.addAction(f"Stop when it starts: {text}", lambda: self.stop_at(text))

    def _place_of(self, unit: int) -> str:
        """Return a unit's element as a condition says it (" at column,row"); "" on machines without
        frames.
        """
        machine = self._session.machine if self._session is not None else None
        if not (isinstance(machine, HasElements) and isinstance(machine, HasFabric)):
            return ""
        if not isinstance(machine, HasFrames):
            return ""
        place, area = machine.element_of_unit(unit), machine.fabric.program
        return f" at {place[0] - area.column},{place[1] - area.row}" if place is not None else ""

    def add_needed_by(self, instruction: int) -> None:
        """Add a menu of the instructions that need the result of one."""
        if self._program is None or not 0 <= instruction < len(self._program.listing):
            return
        users = self._users(instruction)
        if not users:
            return
        inner = self._menu.addMenu("Who needs this")
        for user in users[:MAX_OFFERED]:
            found = self._program.listing.describe(user)
            unit = self._description.units[found.unit].name if self._description else ""
            wanted = selected(instruction=user, node=found.node, unit=found.unit)
            inner.addAction(f"{unit}: {found.opcode} #{user}", partial(self._context.selection.set, wanted))
        if len(users) > MAX_OFFERED:
            more = inner.addAction(f"and {len(users) - MAX_OFFERED} more: see \u201cWaited for by\u201d")
            more.triggered.connect(lambda: self._context.selection.set(Selection(instruction=instruction)))

    def add_memory(self, wanted: MemoryRange, tensor: int = -1) -> None:
        """Add entries for bytes: stop at a write or read, find writer and next reader, show their tensor."""
        description = self._description
        memory = (
            next((m for m in description.memories if m.id == wanted.memory), None) if description else None
        )
        if self._session is not None and memory is not None:
            words = memory_words(memory, wanted)
            self._menu.addAction("Stop when written", lambda: self.stop_at(f"write {words}"))
            self._menu.addAction("Stop when read", lambda: self.stop_at(f"read {words}"))
            self._menu.addAction(
                "Who wrote this", lambda: self.ask("Looking for the writer", partial(_wrote, wanted))
            )
            self._menu.addAction(
                "Who reads this next",
                lambda: self.ask("Looking for the reader", partial(who_reads_next, wanted=wanted)),
            )
            self._add_provenance(Selection(memory=wanted))
        if self._program is not None and 0 <= tensor < len(self._program.graph.tensors):
            name = self._program.graph.tensors[tensor].name
            self._menu.addAction(
                f"Show tensor {name}", lambda: self._context.selection.set(Selection(tensor=tensor))
            )

    def _add_provenance(self, selection: Selection) -> None:
        """Add the entry that shows the provenance of something, if the machine records accesses."""
        if "access order" not in self._context.model.features:
            return

        def show() -> None:
            self._context.selection.set(selection)
            self._context.commands.run("view.panel.provenance")

        self._menu.addAction("Where it comes from and goes to", show)

    def add_queue(self, queue: Queue, occupancy: int) -> None:
        """Add a menu of fill levels of a queue at which to stop."""
        if self._session is None:
            return
        capacity = queue.capacity
        levels = {1, max(occupancy + 1, 1), max(capacity // 2, 1), capacity or max(2 * occupancy, 8)}
        inner = self._menu.addMenu("Stop when it holds at least")
        for level in sorted(level for level in levels if not capacity or level <= capacity):
            title = f"{level}" + (" (full)" if level == capacity else "")
            inner.addAction(title, partial(self.stop_at, f"queue {queue.name} >= {level}"))

    def add_operator(self, node: int) -> None:
        """Add entries for an operator: run to its ends, stop there, show its first instruction, compare."""
        program = self._program
        if program is None or not 0 <= node < len(program.graph.nodes):
            return
        model, ranges = self._context.model, program.listing.ranges_of_node(node)
        if self._session is not None and ranges:
            word = operator_word(program, node)
            self._menu.addAction("Run to where it begins", lambda: model.run_to_begin_of_operator(node))
            self._menu.addAction("Run to where it ends", lambda: model.run_to_end_of_operator(node))
            self._menu.addAction("Break where it begins", lambda: self.stop_at(f"op {word}"))
            self._menu.addAction("Break where it ends", lambda: self.stop_at(f"op {word} ends"))
        if ranges:
            first = Selection(instruction=ranges[0][0], node=node)
            self._menu.addAction("First instruction", lambda: self._context.selection.set(first))
        kind = program.graph.nodes[node].op_type
        count = sum(other.op_type == kind for other in program.graph.nodes)
        if count > 1 and model.reader is not None:
            title = f"Compare with the other {count - 1} {kind}"
            self._menu.addAction(title, lambda: self._context.requests.compared.emit(node))

    def add_copy(self, text: str) -> None:
        """Add an entry that copies a text to the clipboard."""
        self._menu.addAction("Copy", lambda: QApplication.clipboard().setText(text))

    def stop_at(self, text: str) -> None:
        """Set a breakpoint, once the machine is free."""
        model = self._context.model
        model.when_free(lambda: model.add_breakpoint(text))

    def ask(self, title: str, question: Question) -> None:
        """Ask the session a question once it is free, and show the answer."""
        model, answers = self._context.model, list[Found]()

        def tell() -> None:
            for found in answers:
                tell_found(self._context, found)

        model.perform(title, lambda session, progress: answers.append(question(session, progress)))
        model.when_free(tell)

    def _users(self, instruction: int) -> list[int]:
        """Return the instructions that read what one writes, by the program's and the trace's
        dependencies.
        """
        assert self._program is not None
        listing, reader = self._program.listing, self._context.model.reader
        found: set[int] = set()
        if isinstance(listing, HasDependencies):
            said = listing.dependencies_of(instruction)
            found |= {d.sink for d in said if d.source == instruction and d.kind in ("flow", "accumulate")}
        if reader is not None:
            flows = reader.flows_of(instruction)
            found |= set(flows["sink"][flows["source"] == instruction].tolist())
        return sorted(index for index in found - {instruction} if 0 <= index < len(listing))


def tell_found(context: PanelContext, found: Found) -> None:
    """Show an answer as a message, with a button that selects what it is about or goes to its cycle."""
    selection, cycle = found.selection, found.cycle
    title = "Show" if selection is not None else ""
    if cycle is not None and cycle != context.model.cycle:
        title = "Go there"

    def show() -> None:
        if cycle is not None:
            context.model.go_to(cycle)
        if selection is not None:
            context.selection.set(selection)

    context.requests.told.emit(found.text, found.details, title, show if title else None)


def _why(unit: int, cycle: int, session: Session, _progress: Progress) -> Found:
    return why_waiting(session, unit, cycle)


def _wrote(wanted: MemoryRange, session: Session, _progress: Progress) -> Found:
    return who_wrote(session, wanted)
