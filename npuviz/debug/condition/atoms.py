"""Parse what conditions are about: events that kernels stop for, and values of a machine that can be read."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npuviz.base.names import named
from npuviz.debug.condition.elements import ElementWords
from npuviz.debug.condition.expression import (
    BAD,
    MOST_LEVELS,
    REDUCTIONS,
    AnyBad,
    Compare,
    Cycle,
    Event,
    Expression,
    MemoryValue,
    Number,
    ProbeValue,
    QueueLevel,
    Row,
    TensorValue,
    UnitIs,
)
from npuviz.debug.condition.tokens import OPERATORS, Token, TokenReader, quoted
from npuviz.debug.condition.turns import Turns, TurnValue, chosen, turns_of
from npuviz.debug.condition.variable_event import VariableEvent
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Program
from npuviz.program.source import HasSource
from npuviz.program.variables import HasVariables, VariablePlace
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape
from npuviz.sim.probe import Probe
from npuviz.sim.stop import (
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
)

_ELEMENT = re.compile(r"(.+)\[(\d+)\]")
UNIT_STATES = ("running", "idle", "waiting")
MOST_ROWS = 1 << 16
"""Ranges of bytes that a watched tile may have, over all tiles of that name."""


@dataclass(frozen=True)
class Scope:
    """Everything that a condition can name."""

    description: MachineDescription
    program: Program
    probes: Sequence[Probe] = ()
    fabric: FabricShape | None = None


class Atoms:
    """Parses the words that name something; brackets and operators between them are parsed by the grammar."""

    def __init__(
        self, words: TokenReader, scope: Scope, condition: Callable[[], Expression] | None = None
    ) -> None:
        """`condition` parses what follows `if`; without it that word is none of the language."""
        self._words = words
        self._scope = scope
        self._condition = condition
        self._turns: dict[str, list[int]] = {}
        self._probes = {probe.id: probe for probe in scope.probes}
        self._elements = ElementWords(words, scope.program.listing, scope.fabric)
        self._num_keys = 0
        self._node_ends: dict[int, tuple[Row, int]] = {}
        self.parsers: dict[str, Callable[[], Expression]] = {
            "cycle": Cycle,
            "instr": self._instruction,
            "instruction": self._instruction,
            "op": self._operator,
            "queue": self._queue,
            "read": lambda: self._memory(STOP_MEMORY_READ),
            "write": lambda: self._memory(STOP_MEMORY_WRITE),
            "value": self._value,
            "unit": self._unit,
            "any": self._any_bad,
        }
        for word, lowered in self._elements.parsers.items():
            self.parsers[word] = lambda lowered=lowered: self._event(lowered())
        self.names = (*self.parsers, *(n for p in scope.probes for n in _elements_of(p)))

    def key(self) -> int:
        """Return a number that nothing else in this condition has."""
        self._num_keys += 1
        return self._num_keys - 1

    def atom(self, first: Token, expected: str = "") -> Expression:
        """Parse what begins with a word. expected  what else may stand there, for the error; "": anything"""
        parser = self.parsers.get(first.text.lower())
        if parser is None and not self.is_known(first.name) and (word := self._kind_of(first.name)):
            self._words.put_before_taken(word)
            parser = self.parsers[word]
        if first.name in self._turns:
            return TurnValue(first.name)
        if parser is None:
            return self._probe(first, expected)
        found = parser()
        if isinstance(found, Event) and self._condition is not None and self._words.follows("if"):
            return self._chosen(found, self._words.tokens[self._words.next - 1], self._condition)
        return found

    def is_line(self) -> bool:
        """Whether the next word is a number that stands alone, for a line of the program's text."""
        token, listing = self._words.peek(), self._scope.program.listing
        if token is None or not token.text.isdecimal() or not isinstance(listing, HasSource):
            return False
        behind = self._words.tokens[self._words.next + 1 : self._words.next + 2]
        return not behind or behind[0].text.lower() in _BEHIND_EVENTS

    def line(self) -> Expression:
        """Parse a line's number, and what belongs to it."""
        self._words.next += 1
        self._words.put_before_taken("line")
        return self.atom(Token("line", self._words.tokens[self._words.next].start))

    def tensor(self, function: str) -> Expression:
        """Parse a function of a tensor's values."""
        graph = self._scope.program.graph
        tensors = {tensor.name: tensor.id for tensor in graph.tensors}
        name = self._words.take("the name of a tensor", map(quoted, tensors))
        tensor = self._words.lookup(name, tensors, "tensor")
        node = next((node.id for node in graph.nodes if tensor in node.outputs), None)
        if node is not None and (node := self._worker(node)) is None:
            raise self._words.error(name, "no instruction of this program computes it")
        row = None if node is None else self._end_of(node)
        return TensorValue(tensor, REDUCTIONS[function], row, f"{function}({name.name})")

    # ---- inside

    def _chosen(self, event: Event, word: Token, condition: Callable[[], Expression]) -> Expression:
        """Parse what follows `if` behind an event, and return the event where that holds."""
        turns = turns_of(self._scope.program.listing, event)
        before, self._turns = self._turns, _values_of(turns)
        here, self._turns = self._turns, before | self._turns
        found = chosen(event, turns, condition())
        self._turns = before
        if found is None:
            spans = (f"{name} is {min(values)} to {max(values)}" for name, values in here.items())
            raise self._words.error(word, f"in no turn: {', '.join(spans) or 'no loop is around it'} there")
        return found

    def _kind_of(self, name: str) -> str:
        """Return the word that belongs before a name that stands alone, "" if it names nothing known."""
        word = self._elements.kind_of(name)
        if not word and any(node.name == name for node in self._scope.program.graph.nodes):
            word = "op"
        return word

    def _event(self, rows: Sequence[Row]) -> Event:
        return Event([(row, self.key()) for row in rows])

    def _end_of(self, node: int) -> tuple[Row, int]:
        if node not in self._node_ends:
            self._node_ends[node] = (STOP_NODE_END, node, 0, 0, 0), self.key()
        return self._node_ends[node]

    def _worker(self, node: int) -> int | None:
        """Return the operator whose instructions do the work of a node: the node itself, or the one it is
        fused with; None if none do."""
        graph, listing = self._scope.program.graph, self._scope.program.listing
        makers = {tensor: other.id for other in graph.nodes for tensor in other.outputs}
        seen: set[int] = set()
        while not listing.ranges_of_node(node):
            seen.add(node)
            before = [makers[t] for t in graph.nodes[node].inputs if t in makers and makers[t] not in seen]
            if not before:
                return None
            node = max(before)  # of several producers the last one: all of them have ended then
        return node

    def _instruction(self) -> Event:
        low, high = self._words.take_range(
            "an instruction or a range such as 10..20", len(self._scope.program.listing)
        )
        return self._event([(STOP_INSTRUCTION, self._elements.take_at(), low, high, 0)])

    def _operator(self) -> Event:
        nodes = {node.name: node.id for node in self._scope.program.graph.nodes}
        name = self._words.take("the name of an operator", map(quoted, nodes))
        node = self._words.lookup(name, nodes, "operator")
        test = STOP_NODE_END if self._words.follows("starts", "ends") == "ends" else STOP_NODE_START
        return self._event([(test, node, 0, 0, 0)])

    def _queue(self) -> Expression:
        queues = {queue.name: queue for queue in self._scope.description.queues}
        name = self._words.take("the name of a queue", map(quoted, queues))
        queue = self._words.lookup(name, queues, "queue")
        level = self._level(queue)
        if not self._words.follows("full"):
            return level
        if queue.capacity <= 0:
            full = self._words.tokens[self._words.next - 1]
            raise self._words.error(full, "never true: this queue has no limit")
        return Compare(">=", level, Number(queue.capacity))

    def _level(self, queue: Any) -> QueueLevel:
        levels = queue.capacity + 1 if 0 < queue.capacity < MOST_LEVELS else 0
        level = QueueLevel(queue.id, queue.name, [self.key() for _ in range(levels)])
        level.capacity = queue.capacity
        return level

    def _memory(self, test: int) -> Event:
        """Parse MEMORY RANGE, VARIABLE or MEMORY VARIABLE."""
        memories = {memory.name: memory for memory in self._scope.description.memories}
        places = self._variables()
        what = "the name of a memory or variable" if places else "the name of a memory"
        token = self._words.take(what, map(quoted, (*memories, *places)))
        if named(token.name, memories) is None:
            wanted = self._words.lookup(token, {**memories, **places}, what.removeprefix("the name of a "))
            return self._accesses(token, test, wanted)
        memory, following = memories[named(token.name, memories) or ""], self._words.peek()
        if following is None or following.name not in places:
            expected = "an address or a range such as 0x100..0x180"
            low, high = self._words.take_range(expected, memory.size_bytes)
            return self._event([(test, memory.id, low, high, 0)])
        self._words.next += 1
        wanted = [place for place in places[following.name] if place.memory == memory.id]
        if not wanted:
            raise self._words.error(following, f"never in {memory.name}")
        return self._accesses(following, test, wanted)

    def _variables(self) -> dict[str, list[VariablePlace]]:
        """The places of each variable or tile of the program, by name."""
        found: dict[str, list[VariablePlace]] = {}
        if isinstance(self._scope.program.listing, HasVariables):
            for place in self._scope.program.listing.variable_places:
                found.setdefault(place.name, []).append(place)
        return found

    def _accesses(self, token: Token, test: int, places: Sequence[VariablePlace]) -> Event:
        """Return the accesses of places."""
        if sum(place.banks for place in places) > MOST_ROWS:
            raise self._words.error(token, f"{len(places)} tiles have this name, more than can be watched")
        spread = [(place, span) for place in places for span in place.ranges]
        rows = [((test, place.memory, low, high, 0), self.key()) for place, (low, high) in spread]
        return VariableEvent(rows, [place for place, _ in spread])

    def _range(self, expected: str) -> tuple[Any, int, int]:
        memories = {memory.name: memory for memory in self._scope.description.memories}
        name = self._words.take("the name of a memory", map(quoted, memories))
        memory = self._words.lookup(name, memories, "memory")
        return memory, *self._words.take_range(expected, memory.size_bytes)

    def _value(self) -> MemoryValue:
        memory, low, high = self._range("an address")
        begin = self._words.tokens[self._words.next - 1]
        following = self._words.peek()
        dtype = "uint8"
        if following is not None and _is_dtype(following.text):
            dtype = self._words.take("a number type").text
        size = numpy_dtype(dtype).itemsize
        if high != low + 1 or low + size > memory.size_bytes:
            raise self._words.error(begin, f"expected the address of {size} bytes of {memory.name}")
        return MemoryValue(memory.id, low, dtype, f"{memory.name} {low:#x}")

    def _unit(self) -> Expression:
        units = {unit.name: unit.id for unit in self._scope.description.units}
        name = self._words.take("the name of a unit", map(quoted, units))
        unit = self._words.lookup(name, units, "unit")
        state = self._words.follows("starts", *UNIT_STATES)
        if not state:
            found = self._words.take("starts, running, idle or waiting")
            raise self._words.error(found, "expected starts, running, idle or waiting")
        if state != "starts":
            return UnitIs(unit, state, name.name)
        ranges = self._scope.program.listing.ranges_of_unit(unit)
        if not ranges:
            raise self._words.error(name, "never true: this unit has no instructions")
        return self._event([(STOP_INSTRUCTION, 0, low, high, 0) for low, high in ranges])

    def _any_bad(self) -> AnyBad:
        bad = self._words.follows(*BAD)
        if not bad:
            raise self._words.error(self._words.take("nan or inf", BAD), "expected nan or inf")
        graph = self._scope.program.graph
        ends: dict[tuple[Row, int], tuple[int, ...]] = {}
        for node in graph.nodes:
            worker = self._worker(node.id)
            if worker is not None:
                end = self._end_of(worker)
                ends[end] = (*ends.get(end, ()), *(t for t in node.outputs if t >= 0))
        if not ends:
            raise self._words.error(self._words.tokens[self._words.next - 1], "this program has no operators")
        return AnyBad({key: tensors for (_, key), tensors in ends.items()}, list(ends), bad)

    def _probe(self, name: Token, expected: str) -> Expression:
        wanted = name.text.strip('"')
        element = -1
        found = self._probes.get(wanted)
        match = _ELEMENT.fullmatch(wanted)
        if found is None and match is not None and match.group(1) in self._probes:
            found, element = self._probes[match.group(1)], int(match.group(2))
        if found is None:
            if expected:
                raise self._words.error(name, f"expected {expected}{self._near(wanted)}")
            loops = f"neither a loop's variable ({', '.join(self._turns)}), " if self._turns else "neither "
            reason = f"{loops}a probe nor one of {', '.join(self.parsers)}"
            raise self._words.error(name, reason + self._near(wanted))
        count = math.prod(found.shape)
        if found.shape and element < 0:
            raise self._words.error(name, f"has {count} elements; name one of them, such as {found.id}[0]")
        if element >= count:
            raise self._words.error(name, f"element {element} is outside 0..{count - 1}")
        queue = next((q for q in self._scope.description.queues if q.probe == found.id), None)
        if queue is not None:
            return self._level(queue)
        value = ProbeValue(found.id, element, wanted)
        value.dtype = numpy_dtype(found.dtype)
        return value

    def _near(self, wanted: str) -> str:
        nodes = (node.name for node in self._scope.program.graph.nodes)
        hint = self._words.hint(wanted, (*self._turns, *self.names, *self._elements.names, *nodes))
        return hint if "did you mean" in hint else ""

    def is_known(self, text: str) -> bool:
        """Whether a text is the name of a probe, of one of its elements, or of a loop's variable."""
        match = _ELEMENT.fullmatch(text)
        return (
            text in self._probes
            or text in self._turns
            or (match is not None and match.group(1) in self._probes)
        )

    def split_before_operator(self) -> None:
        """Split `a+b` into words if `a` is a number or a probe and the whole is neither."""
        token = self._words.peek()
        if token is None or token.text.startswith('"') or self.is_known(token.text) or _is_number(token.text):
            return
        for index, letter in enumerate(token.text):
            head = token.text[:index]
            if letter in OPERATORS and (self.is_known(head) or _is_number(head) or head.lower() == "cycle"):
                self._words.split(index)
                return


_BEHIND_EVENTS = ("if", "at", "and", "or", "for", "within", "show")


def _values_of(turns: Sequence[Turns]) -> dict[str, list[int]]:
    """Return what each variable is in some turn."""
    found: dict[str, list[int]] = {}
    for each in turns:
        for name, value in each.items():
            found.setdefault(name, []).append(value)
    return found


def _elements_of(probe: Probe) -> tuple[str, ...]:
    return (f"{probe.id}[0]",) if probe.shape else (probe.id,)


def _is_dtype(text: str) -> bool:
    try:
        numpy_dtype(text)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False
    return not text[:1].isdigit()


def number_in(text: str) -> float | None:
    """Return the number that a word stands for, or None."""
    try:
        return (
            float(text)
            if re.search(r"[.]|\d[eE]|^[+-]?(inf|nan)$", text) and "x" not in text
            else int(text, 0)
        )
    except ValueError:
        return None


def _is_number(text: str) -> bool:
    return number_in(text) is not None
