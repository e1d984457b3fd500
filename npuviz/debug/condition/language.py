"""The language of breakpoints.

    cycle == 1200            cycle >= 1200           (also > ; both hit once, when they become true)
    instr 1234               instr 10..20            an instruction starts; the end is excluded
    op conv1                 op "name with spaces"   the first instruction of an operator starts
    op conv1 ends                                    its last work ends
    queue Core[0].LD >= 2    queue Core[0].LD full   occupancy; hits when it becomes true
    read Core[0].SPAD 0x100..0x180                   an instruction reads bytes of the range
    write DRAM 0x1000                                an instruction writes this byte
    Core[0].LD.latency > 9                           a probe; an element is named `probe[3]`

and in a machine of processing elements that run compiled texts, each also with `at COLUMN,ROW`:

    line pe.csl:42           line 42                 an instruction of this line starts
    task receive             function compute        its first instruction starts
    wavelet                  wavelet color 3         a word reaches an element's processor
    wavelet data >= 10       wavelet f32 < 0         ... and its 32 bits compare so
    wavelet index == 4       wavelet control         ... or its upper (`half`: lower) 16; control words

Conditions are joined by `or`. Everything but a probe is lowered to rows that kernels test; a probe
is tested between cycles, which is slow, unless it is the occupancy of a queue.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npuviz.debug.condition.elements import ElementWords
from npuviz.debug.condition.tokens import COMPARISONS, Token, TokenReader
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape
from npuviz.sim.probe import Probe
from npuviz.sim.stop import (
    CMP_GE,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    STOP_QUEUE,
)

_ELEMENT = re.compile(r"(.+)\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class ProbeTest:
    """A comparison of a probe (or of one of its elements) with a number, made between cycles."""

    probe: str
    element: int
    comparison: str
    bound: float

    def holds(self, value: Any) -> bool:
        """Whether it is true for the value `Machine.read` gave."""
        number = value if self.element < 0 else value.reshape(-1)[self.element]
        return bool(COMPARISONS[self.comparison][1](number, self.bound))


@dataclass(frozen=True, slots=True)
class Condition:
    """A lowered condition; it holds when any of its parts does.

    rows    stop rows without their last word, the breakpoint id
    cycles  cycles at which it hits
    probes  tests between cycles
    """

    text: str
    rows: tuple[tuple[int, int, int, int, int], ...] = ()
    cycles: tuple[int, ...] = ()
    probes: tuple[ProbeTest, ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether the machine has to be stopped after every cycle to test it."""
        return bool(self.probes)

    def stop_rows(self, breakpoint_id: int) -> list[tuple[int, int, int, int, int, int]]:
        """Rows for `npuviz.sim.stop.stop_table`."""
        return [(*row, breakpoint_id) for row in self.rows]


def parse(
    text: str,
    description: MachineDescription,
    program: Program,
    probes: Sequence[Probe] = (),
    fabric: FabricShape | None = None,
) -> Condition:
    """Understand a condition. Raises ConditionError with the span of the part that is wrong."""
    return _Parser(TokenReader(text), description, program, probes, fabric).parse()


class _Parser:
    """One pass over the words; every `_parse...` moves on or raises."""

    def __init__(
        self,
        words: TokenReader,
        description: MachineDescription,
        program: Program,
        probes: Sequence[Probe],
        fabric: FabricShape | None,
    ) -> None:
        self._words = words
        self._description = description
        self._program = program
        self._probes = {probe.id: probe for probe in probes}
        self._elements = ElementWords(words, program.listing, fabric)
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._cycles: list[int] = []
        self._tests: list[ProbeTest] = []

    def parse(self) -> Condition:
        self._parse_one()
        while self._words.next < len(self._words.tokens):
            joint = self._words.take("`or`, or the end")
            if joint.text.lower() != "or":
                raise self._words.error(joint, "expected `or`, or the end of the condition")
            self._parse_one()
        return Condition(self._words.text.strip(), tuple(self._rows), tuple(self._cycles), tuple(self._tests))

    def _parse_one(self) -> None:
        first = self._words.take("cycle, instr, op, queue, read, write or a probe")
        parsers: dict[str, Callable[[], None]] = {
            "cycle": self._parse_cycle,
            "instr": self._parse_instruction,
            "instruction": self._parse_instruction,
            "op": self._parse_operator,
            "queue": self._parse_queue,
            "read": lambda: self._parse_memory(STOP_MEMORY_READ),
            "write": lambda: self._parse_memory(STOP_MEMORY_WRITE),
        }
        for word, lowered in self._elements.parsers.items():
            parsers[word] = lambda lowered=lowered: self._rows.extend(lowered())
        parser = parsers.get(first.text.lower())
        if parser is not None:
            parser()
        else:
            self._parse_probe(first, list(parsers))

    def _parse_cycle(self) -> None:
        comparison = self._words.take("a comparison, such as `cycle == 1200`")
        if comparison.text not in ("==", "=", ">=", ">"):
            raise self._words.error(comparison, "expected ==, >= or > after `cycle`")
        cycle = self._words.take_integer("a cycle")
        self._cycles.append(cycle + 1 if comparison.text == ">" else cycle)

    def _parse_instruction(self) -> None:
        low, high = self._words.take_range(
            "an instruction or a range such as 10..20", len(self._program.listing)
        )
        self._rows.append((STOP_INSTRUCTION, self._elements.take_at(), low, high, 0))

    def _parse_operator(self) -> None:
        name = self._words.take("the name of an operator")
        nodes = {node.name: node.id for node in self._program.graph.nodes}
        node = self._words.lookup(name, nodes, "operator")
        following = self._words.peek()
        test = STOP_NODE_START
        if following is not None and following.text.lower() in ("starts", "ends"):
            self._words.next += 1
            test = STOP_NODE_END if following.text.lower() == "ends" else STOP_NODE_START
        self._rows.append((test, node, 0, 0, 0))

    def _parse_queue(self) -> None:
        name = self._words.take("the name of a queue")
        queue = self._words.lookup(
            name, {queue.name: queue.id for queue in self._description.queues}, "queue"
        )
        following = self._words.peek()
        if following is not None and following.text.lower() == "full":
            self._words.next += 1
            capacity = next(q.capacity for q in self._description.queues if q.id == queue)
            if capacity <= 0:
                raise self._words.error(following, "never true: this queue has no limit")
            self._rows.append((STOP_QUEUE, queue, capacity, 0, CMP_GE))
            return
        self._parse_level(queue)

    def _parse_level(self, queue_id: int) -> None:
        comparison = self._words.take_comparison()
        start = self._words.next
        level = self._words.take_integer("a number of entries")
        capacity = next(queue.capacity for queue in self._description.queues if queue.id == queue_id)
        least = {">=": level, "==": level, "=": level, ">": level + 1}.get(comparison, 0)
        if 0 < capacity < least:
            reason = f"never true: the queue has room for {capacity} entries"
            raise self._words.error(self._words.tokens[start], reason)
        self._rows.append((STOP_QUEUE, queue_id, level, 0, COMPARISONS[comparison][0]))

    def _parse_memory(self, test: int) -> None:
        name = self._words.take("the name of a memory")
        memories = {memory.name: memory for memory in self._description.memories}
        memory = self._words.lookup(name, memories, "memory")
        low, high = self._words.take_range("an address or a range such as 0x100..0x180", memory.size_bytes)
        self._rows.append((test, memory.id, low, high, 0))

    def _parse_probe(self, name: Token, keywords: list[str]) -> None:
        wanted = name.text.strip('"')
        element = -1
        found = self._probes.get(wanted)
        match = _ELEMENT.fullmatch(wanted)
        if found is None and match is not None and match.group(1) in self._probes:
            found, element = self._probes[match.group(1)], int(match.group(2))
        if found is None:
            reason = f"neither a probe nor one of {', '.join(keywords)}"
            raise self._words.error(name, reason + self._words.hint(wanted, [*self._probes, *keywords]))
        count = math.prod(found.shape)
        if found.shape and element < 0:
            raise self._words.error(name, f"has {count} elements; name one of them, such as {found.id}[0]")
        if element >= count:
            raise self._words.error(name, f"element {element} is outside 0..{count - 1}")
        queue = next((queue.id for queue in self._description.queues if queue.probe == found.id), None)
        if queue is not None:
            self._parse_level(queue)
            return
        comparison = self._words.take_comparison()
        self._tests.append(ProbeTest(found.id, element, comparison, self._words.take_number()))
