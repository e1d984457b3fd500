"""The language of breakpoints.

    cycle == 1200            cycle >= 1200           (also > ; both hit once, when they become true)
    instr 1234               instr 10..20            an instruction starts; the end is excluded
    op conv1                 op "name with spaces"   the first instruction of an operator starts
    op conv1 ends                                    its last work ends
    queue Core[0].LD >= 2                            occupancy; hits when it becomes true
    read Core[0].SPAD 0x100..0x180                   an instruction reads bytes of the range
    write DRAM 0x1000                                an instruction writes this byte
    Core[0].LD.latency > 9                           a probe; an element is named `probe[3]`

Conditions are joined by `or`. Everything but a probe is lowered to rows that kernels test; a probe
is tested between cycles, which is slow, unless it is the occupancy of a queue.
"""

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from npuviz.base.errors import ConditionError
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.probe import Probe
from npuviz.sim.stop import (
    CMP_EQ,
    CMP_GE,
    CMP_GT,
    CMP_LE,
    CMP_LT,
    CMP_NE,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    STOP_QUEUE,
)

COMPARISONS: dict[str, tuple[int, Callable[[Any, Any], bool]]] = {
    ">=": (CMP_GE, operator.ge),
    ">": (CMP_GT, operator.gt),
    "<=": (CMP_LE, operator.le),
    "<": (CMP_LT, operator.lt),
    "==": (CMP_EQ, operator.eq),
    "=": (CMP_EQ, operator.eq),
    "!=": (CMP_NE, operator.ne),
}
LARGEST_CYCLE = 1 << 62

_TOKEN = re.compile(r'"[^"]*"?|>=|<=|==|!=|[<>=]|[^\s"<>=!]+|!')
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


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + len(self.text)


def parse(
    text: str, description: MachineDescription, program: Program, probes: Sequence[Probe] = ()
) -> Condition:
    """Understand a condition. Raises ConditionError with the span of the part that is wrong."""
    return _Parser(text, description, program, probes).parse()


class _Parser:
    """One pass over the tokens; every `_take...` moves on or raises."""

    def __init__(
        self, text: str, description: MachineDescription, program: Program, probes: Sequence[Probe]
    ) -> None:
        self._text = text
        self._description = description
        self._program = program
        self._probes = {probe.id: probe for probe in probes}
        self._tokens = [_Token(m.group(), m.start()) for m in _TOKEN.finditer(text)]
        self._next = 0
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._cycles: list[int] = []
        self._tests: list[ProbeTest] = []

    def parse(self) -> Condition:
        self._parse_one()
        while self._next < len(self._tokens):
            joint = self._take("`or`, or the end")
            if joint.text.lower() != "or":
                raise self._error(joint, "expected `or`, or the end of the condition")
            self._parse_one()
        return Condition(self._text.strip(), tuple(self._rows), tuple(self._cycles), tuple(self._tests))

    def _parse_one(self) -> None:
        first = self._take("cycle, instr, op, queue, read, write or a probe")
        parsers = {
            "cycle": self._parse_cycle,
            "instr": self._parse_instruction,
            "instruction": self._parse_instruction,
            "op": self._parse_operator,
            "queue": self._parse_queue,
            "read": lambda: self._parse_memory(STOP_MEMORY_READ),
            "write": lambda: self._parse_memory(STOP_MEMORY_WRITE),
        }
        parser = parsers.get(first.text.lower())
        if parser is not None:
            parser()
        else:
            self._parse_probe(first, list(parsers))

    def _parse_cycle(self) -> None:
        comparison = self._take("a comparison, such as `cycle == 1200`")
        if comparison.text not in ("==", "=", ">=", ">"):
            raise self._error(comparison, "expected ==, >= or > after `cycle`")
        cycle = self._take_integer("a cycle")
        self._cycles.append(cycle + 1 if comparison.text == ">" else cycle)

    def _parse_instruction(self) -> None:
        low, high = self._take_range("an instruction or a range such as 10..20", len(self._program.listing))
        self._rows.append((STOP_INSTRUCTION, 0, low, high, 0))

    def _parse_operator(self) -> None:
        name = self._take("the name of an operator")
        nodes = {node.name: node.id for node in self._program.graph.nodes}
        node = self._lookup(name, nodes, "operator")
        following = self._peek()
        test = STOP_NODE_START
        if following is not None and following.text.lower() in ("starts", "ends"):
            self._next += 1
            test = STOP_NODE_END if following.text.lower() == "ends" else STOP_NODE_START
        self._rows.append((test, node, 0, 0, 0))

    def _parse_queue(self) -> None:
        name = self._take("the name of a queue")
        queue = self._lookup(name, {queue.name: queue.id for queue in self._description.queues}, "queue")
        self._parse_level(queue)

    def _parse_level(self, queue_id: int) -> None:
        comparison = self._take_comparison()
        start = self._next
        level = self._take_integer("a number of entries")
        capacity = next(queue.capacity for queue in self._description.queues if queue.id == queue_id)
        least = {">=": level, "==": level, "=": level, ">": level + 1}.get(comparison, 0)
        if 0 < capacity < least:
            reason = f"never true: the queue has room for {capacity} entries"
            raise self._error(self._tokens[start], reason)
        self._rows.append((STOP_QUEUE, queue_id, level, 0, COMPARISONS[comparison][0]))

    def _parse_memory(self, test: int) -> None:
        name = self._take("the name of a memory")
        memories = {memory.name: memory for memory in self._description.memories}
        memory = self._lookup(name, memories, "memory")
        low, high = self._take_range("an address or a range such as 0x100..0x180", memory.size_bytes)
        self._rows.append((test, memory.id, low, high, 0))

    def _parse_probe(self, name: _Token, keywords: list[str]) -> None:
        wanted = name.text.strip('"')
        element = -1
        found = self._probes.get(wanted)
        match = _ELEMENT.fullmatch(wanted)
        if found is None and match is not None and match.group(1) in self._probes:
            found, element = self._probes[match.group(1)], int(match.group(2))
        if found is None:
            reason = f"neither a probe nor one of {', '.join(keywords)}"
            raise self._error(name, reason + self._hint(wanted, [*self._probes, *keywords]))
        count = 1
        for size in found.shape:
            count *= size
        if found.shape and element < 0:
            raise self._error(name, f"has {count} elements; name one of them, such as {found.id}[0]")
        if element >= count:
            raise self._error(name, f"element {element} is outside 0..{count - 1}")
        queue = next((queue.id for queue in self._description.queues if queue.probe == found.id), None)
        if queue is not None:
            self._parse_level(queue)
            return
        comparison = self._take_comparison()
        self._tests.append(ProbeTest(found.id, element, comparison, self._take_number()))

    # ---- tokens

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, expected: str) -> _Token:
        token = self._peek()
        if token is None:
            end = len(self._text)
            raise ConditionError(self._text, (end, end), f"expected {expected}")
        self._next += 1
        if token.text.startswith('"') and (len(token.text) < 2 or not token.text.endswith('"')):
            raise self._error(token, "the quote is not closed")
        return token

    def _take_comparison(self) -> str:
        token = self._take("a comparison: >= > <= < == !=")
        if token.text not in COMPARISONS:
            raise self._error(token, "expected a comparison: >= > <= < == !=")
        return token.text

    def _take_integer(self, expected: str) -> int:
        token = self._take(expected)
        return self._integer(token, token.text, expected)

    def _take_number(self) -> float:
        token = self._take("a number")
        try:
            return (
                int(token.text, 0) if not re.search(r"[.]|\d[eE]|inf|nan", token.text) else float(token.text)
            )
        except ValueError:
            raise self._error(token, "expected a number") from None

    def _take_range(self, expected: str, limit: int) -> tuple[int, int]:
        """`a..b`, with or without spaces, or `a`; within 0..limit."""
        start = self._next
        text = self._take(expected).text
        following = self._peek()
        if not text.endswith("..") and following is not None and following.text.startswith(".."):
            text += following.text
            self._next += 1
        if text.endswith(".."):
            text += self._take("the end of the range").text
        first, last = self._tokens[start], self._tokens[self._next - 1]
        whole = _Token(self._text[first.start : last.span[1]], first.start)
        low_text, dots, high_text = text.partition("..")
        low = self._integer(whole, low_text, expected)
        high = self._integer(whole, high_text, expected) if dots else low + 1
        if high <= low:
            raise self._error(whole, f"an empty range: the end {high} is excluded")
        if high > limit:
            raise self._error(whole, f"outside 0..{limit}")
        return low, high

    def _integer(self, token: _Token, text: str, expected: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            raise self._error(token, f"expected {expected}") from None
        if not 0 <= value <= LARGEST_CYCLE:
            raise self._error(token, f"expected {expected} from 0 to 2^62")
        return value

    def _lookup(self, token: _Token, known: dict[str, Any], what: str) -> Any:
        name = token.text.strip('"')
        if name not in known:
            raise self._error(token, f"no {what} of this name" + self._hint(name, known))
        return known[name]

    def _hint(self, name: str, known: Iterable[str]) -> str:
        names = list(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if close:
            return f"; did you mean {', '.join(close)}?"
        shown = ", ".join(names[:6])
        return f"; known: {shown}{', ...' if len(names) > 6 else ''}" if names else "; this machine has none"

    def _error(self, token: _Token, reason: str) -> ConditionError:
        return ConditionError(self._text, token.span, reason)
