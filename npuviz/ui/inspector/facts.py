"""The sources of the inspector's pages: program, machine, trace and session, as far as they exist."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from npuviz.base.units import format_count
from npuviz.debug.session import Session
from npuviz.program.graph import Node
from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.program.tensor import Tensor
from npuviz.sim.description import MachineDescription, Memory, Unit
from npuviz.sim.machine import HasReports
from npuviz.trace.reader import TraceReader
from npuviz.trace.unit_times import UnderWay, unit_label
from npuviz.ui.bridge.still_answers import Question, StillAnswers
from npuviz.ui.inspector.page import Cell, count_cell, text_cell
from npuviz.ui.kit.trace_facts import NodeTimes
from npuviz.workbench.selection import Selection, selected

Value = TypeVar("Value")
Made = TypeVar("Made")


@dataclass(frozen=True)
class InspectorSource:
    """What is open. `session` is None while the machine runs; a bundle has only a reader.

    times      when nodes were worked on; None without trace, incomplete while `times_complete` is False
    consumers  tensor id -> nodes that read it
    under_way  work that the trace does not hold yet
    answers    computes contents in another thread; without it, the machine is asked at once
    made       cache of `made_of`, shared by all sources of one session
    """

    program: Program | None = None
    description: MachineDescription | None = None
    reader: TraceReader | None = None
    session: Session | None = None
    cycle: int = 0
    times: NodeTimes | None = None
    times_complete: bool = True
    consumers: dict[int, list[int]] | None = None
    under_way: Sequence[UnderWay] = ()
    answers: StillAnswers | None = None
    made: dict[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])

    def made_of(self, name: str, value: Value, make: Callable[[Value], Made]) -> Made:
        """Return `make(value)`; as long as the value stays equal, the object made the last time."""
        known = self.made.get(name)
        if known is None or known[0] != value:
            known = self.made[name] = value, make(value)
        return known[1]

    def ask(self, key: Hashable, question: Question) -> Any:
        """Ask the machine, which must not be running; return the answer, or PENDING while it is computed."""
        assert self.session is not None
        if self.answers is None:
            return question(self.session.machine)
        return self.answers.get(key, question)

    @property
    def frequency_hz(self) -> float:
        """Frequency of the base clock; 0 if unknown."""
        if self.description is not None:
            return self.description.base_clock.frequency_hz
        return self.reader.schema.frequency_hz if self.reader is not None else 0.0

    def node(self, node: int) -> Node | None:
        """Return a graph node, None if there is none of this id."""
        if self.program is None or not 0 <= node < len(self.program.graph.nodes):
            return None
        return self.program.graph.nodes[node]

    def tensor(self, tensor: int) -> Tensor | None:
        """Return a tensor, None if there is none of this id."""
        if self.program is None or not 0 <= tensor < len(self.program.graph.tensors):
            return None
        return self.program.graph.tensors[tensor]

    def unit(self, unit: int) -> Unit | None:
        """Return a unit, None if there is none of this id."""
        units = self.description.units if self.description else ()
        return next((u for u in units if u.id == unit), None)

    def memory(self, memory: int) -> Memory | None:
        """Return a memory, None if there is none of this id."""
        memories = self.description.memories if self.description else ()
        return next((m for m in memories if m.id == memory), None)

    def node_cell(self, node: int) -> Cell:
        """Return a link to a node, a dash for none."""
        found = self.node(node)
        if found is not None:
            return text_cell(f"{found.op_type} {found.name}".strip(), Selection(node=node))
        names = self.reader.schema.node_names if self.reader else ()
        if 0 <= node < len(names):
            return text_cell(names[node], Selection(node=node))
        return text_cell("\u2013")

    def tensor_cell(self, tensor: int) -> Cell:
        """Return a link to a tensor, a dash for none."""
        found = self.tensor(tensor)
        return text_cell("\u2013") if found is None else text_cell(found.name, Selection(tensor=tensor))

    def unit_cell(self, unit: int) -> Cell:
        """Return a link to a unit, a dash for none."""
        found = self.unit(unit)
        return text_cell("\u2013") if found is None else text_cell(found.name, Selection(unit=unit))

    def unit_name(self, unit: int) -> str:
        """Return the name of a unit; for a trace without machine, derived from its tracks."""
        found = self.unit(unit)
        if found is not None:
            return found.name
        return unit_label(self.reader.schema, unit) if self.reader is not None else str(unit)

    def instruction_cell(self, instruction: int) -> Cell:
        """Return a link to an instruction, a dash for none."""
        if instruction < 0:
            return text_cell("\u2013")
        if self.program is None or instruction >= len(self.program.listing):
            return count_cell(instruction)
        found = self.program.listing.describe(instruction)
        link = selected(instruction=instruction, node=found.node, unit=found.unit)
        return text_cell(f"{format_count(instruction)} {found.opcode}", link)

    def reports(self) -> tuple[DetailTable, ...]:
        """Return the machine's report tables about the run so far; none while it runs."""
        machine = self.session.machine if self.session is not None else None
        return tuple(machine.reports()) if isinstance(machine, HasReports) else ()
