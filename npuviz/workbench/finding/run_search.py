"""Searches a run for a text: names of operators, tensors, units and tracks, instructions, log, hazards."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from npuviz.base.units import format_count
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.machine import Hazard
from npuviz.workbench.selection import NOTHING, Selection, selected

MAX_OF_A_SORT = 200
"""Largest number of finds of one sort that are kept."""
CLOCK_EVERY = 64


@dataclass(frozen=True, slots=True)
class Found:
    """Something that contains the text.

    sort       "operator", "tensor", "unit", "track", "hazard", "log" or "instruction"
    selection  what to select for it; cycle is when it happened, -1 where it has none
    """

    sort: str
    name: str
    text: str = ""
    selection: Selection = NOTHING
    cycle: int = -1


class RunSearch:
    """Searches for a text in slices of time, so that a window stays responsive.

    found  finds so far: names first, instructions as they are read
    cut    sorts with more finds than MAX_OF_A_SORT
    """

    def __init__(
        self,
        text: str,
        program: Program | None,
        description: MachineDescription | None,
        hazards: Sequence[Hazard] = (),
        log: Iterable[Found] = (),
    ) -> None:
        self._text = text.casefold().strip()
        self._program = program
        self.found: list[Found] = []
        self.cut: list[str] = []
        self.num_read = 0
        self.num_instructions = len(program.listing) if program is not None and self._text else 0
        if not self._text:
            return
        if program is not None:
            self._keep(_of_operators(program))
            self._keep(_of_tensors(program))
        if description is not None:
            self._keep(_of_machine(description))
        self._keep(log)
        self._keep(_of_hazards(hazards, program))
        self._num_hits = 0

    @property
    def is_done(self) -> bool:
        """Whether everything has been looked at."""
        return self.num_read >= self.num_instructions

    def advance(self, seconds: float) -> bool:
        """Search further instructions for about `seconds`. Returns whether the search is over."""
        if self._program is None or self.is_done:
            return True
        listing, end = self._program.listing, time.perf_counter() + seconds
        names = [node.name.casefold() for node in self._program.graph.nodes]
        while not self.is_done:
            number = self.num_read
            self.num_read += 1
            instruction = listing.describe(number)
            shown = f"{number} {instruction.opcode} {instruction.text}"
            if self._text in shown.casefold() or f"#{number}" == self._text:
                node = names[instruction.node] if 0 <= instruction.node < len(names) else ""
                here = selected(instruction=number, unit=instruction.unit, node=instruction.node)
                self.found.append(
                    Found("instruction", f"{format_count(number)} {instruction.text}", node, here)
                )
                self._num_hits += 1
                if self._num_hits == MAX_OF_A_SORT and not self.is_done:
                    self.cut.append("instruction")
                    self.num_read = self.num_instructions
            if self.num_read % CLOCK_EVERY == 0 and time.perf_counter() > end:
                break
        return self.is_done

    def stop(self) -> None:
        """End the search: no further instructions are read."""
        self.num_read = self.num_instructions

    def _keep(self, candidates: Iterable[Found]) -> None:
        count: dict[str, int] = {}
        for one in candidates:
            if self._text not in f"{one.name}\n{one.text}".casefold():
                continue
            count[one.sort] = count.get(one.sort, 0) + 1
            if count[one.sort] <= MAX_OF_A_SORT:
                self.found.append(one)
        self.cut += [sort for sort, number in count.items() if number > MAX_OF_A_SORT]


def _of_operators(program: Program) -> Iterator[Found]:
    for node in program.graph.nodes:
        yield Found(
            "operator", node.name or f"{node.op_type} {node.id}", node.op_type, Selection(node=node.id)
        )


def _of_tensors(program: Program) -> Iterator[Found]:
    for tensor in program.graph.tensors:
        shape = "\u00d7".join(map(str, tensor.shape))
        yield Found("tensor", tensor.name, f"{tensor.dtype} {shape}".strip(), Selection(tensor=tensor.id))


def _of_machine(description: MachineDescription) -> Iterator[Found]:
    for unit in description.units:
        yield Found("unit", unit.name, unit.doc, Selection(unit=unit.id))
    for track in description.tracks:
        yield Found("track", track.name, track.doc, Selection(track=track.id))


def _of_hazards(hazards: Sequence[Hazard], program: Program | None) -> Iterator[Found]:
    for hazard in hazards:
        is_known = program is not None and 0 <= hazard.instruction < len(program.listing)
        number = hazard.instruction if is_known else None
        yield Found(
            "hazard", hazard.text, f"{hazard.kind} {hazard.unit}", Selection(instruction=number), hazard.cycle
        )
