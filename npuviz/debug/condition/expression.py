"""Evaluate expressions over a machine at one cycle. A value is a number, a truth, or None: not known (yet).

Events hold in the one cycle at which a machine stops for them. And, or and not are Kleene's: an unknown
part makes a condition neither hold nor fail.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuviz.base.errors import ConditionError
from npuviz.debug.condition.tokens import COMPARISONS, LARGEST_CYCLE
from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.machine import Machine
from npuviz.sim.stop import CMP_EQ, STOP_INSTRUCTION, STOP_QUEUE

Row = tuple[int, int, int, int, int]
Key = int
WHOLE_RUN = 1 << 62
MOST_LEVELS = 64
"""Levels of a queue that have a stop row each; a deeper queue is read after every cycle."""


@dataclass(slots=True)
class Moment:
    """A machine at a cycle, as expressions read it.

    keys    keys of the rows that hit at this cycle
    state   what expressions remember from earlier cycles, by slot
    timers  later cycles at which the value may change without any event; filled by expressions
    is_final  the program has ended: every tensor is complete
    """

    machine: Machine
    keys: frozenset[Key] = frozenset()
    state: dict[int, Any] = field(default_factory=dict[int, Any])
    timers: set[int] = field(default_factory=set[int])
    is_final: bool = False
    known: dict[int, Any] = field(default_factory=dict[int, Any])

    @property
    def cycle(self) -> int:
        """Number of cycles completed."""
        return self.machine.cycle


@dataclass(frozen=True, slots=True)
class Wakes:
    """When a value may change: rows with their keys, cycles, or any time (`every`)."""

    rows: tuple[tuple[Row, Key], ...] = ()
    cycles: tuple[int, ...] = ()
    every: bool = False

    def __or__(self, other: "Wakes") -> "Wakes":
        return Wakes(self.rows + other.rows, self.cycles + other.cycles, self.every or other.every)


class Expression:
    """A part of a condition; `span` is its place in the text."""

    span: tuple[int, int] = (0, 0)
    children: Sequence["Expression"] = ()
    is_truth = False
    name = ""

    def whole_number(self) -> int | None:
        """Return the number of a constant that is whole, else None."""
        return None

    def value(self, moment: Moment) -> Any:
        """Return a number, a truth, or None for not known."""
        raise NotImplementedError  # every subclass overrides it

    def wakes(self) -> Wakes:
        """Return when the value may change."""
        found = Wakes()
        for child in self.children:
            found |= child.wakes()
        return found

    def window(self) -> int:
        """Return the number of cycles before the present one that the value depends on."""
        return max((child.window() for child in self.children), default=0)

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return any(child.pulses(moment) for child in self.children)

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for the expression to hold;
        None if there are no such rows."""
        return None

    def earliest(self) -> int:
        """Return a cycle before which the expression cannot hold."""
        return 0

    def parts(self) -> Iterator["Expression"]:
        """Yield the expression and all below it."""
        yield self
        for child in self.children:
            yield from child.parts()


class Number(Expression):
    """A constant."""

    def __init__(self, number: float) -> None:
        self.number = number

    def whole_number(self) -> int | None:
        """Return the number if it is whole, else None."""
        return self.number if isinstance(self.number, int) else None

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        return self.number


class Cycle(Expression):
    """The number of cycles completed."""

    name = "cycle"

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        return moment.cycle

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(every=True)


class Event(Expression):
    """An event that kernels stop for; `is_tested` if not each stop of its rows is one."""

    is_truth = True
    is_tested = False

    def __init__(self, rows: Sequence[tuple[Row, Key]]) -> None:
        self.rows = tuple(rows)

    @property
    def instructions(self) -> Sequence[int]:
        """The instruction whose start each row waits for, -1 for rows of another kind or of several."""
        return [
            low if test == STOP_INSTRUCTION and high == low + 1 else -1
            for (test, _, low, high, _), _ in self.rows
        ]

    def only(self, numbers: Sequence[int]) -> "Event":
        """Return an event of some of its rows."""
        return Event([self.rows[number] for number in numbers])

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        return self.pulses(moment)

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return any(key in moment.keys for _, key in self.rows)

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(self.rows)

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return self.rows


class ProbeValue(Expression):
    """A probe, or one element of it (element -1: it is a scalar)."""

    def __init__(self, probe: str, element: int, name: str) -> None:
        self.probe, self.element, self.name = probe, element, name
        self.dtype = np.dtype(np.float64)

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        value = moment.machine.read(self.probe)
        return value if self.element < 0 else value.reshape(-1)[self.element].item()

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(every=True)


class QueueLevel(Expression):
    """The number of entries of a queue. keys  one for each level that has a stop row"""

    def __init__(self, queue: int, name: str, keys: Sequence[Key]) -> None:
        self.queue, self.name, self.keys = queue, f"queue {name}", tuple(keys)
        self.capacity = 0

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        return len(moment.machine.queue_entries(self.queue))

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        rows = tuple(((STOP_QUEUE, self.queue, level, 0, CMP_EQ), key) for level, key in enumerate(self.keys))
        return Wakes(rows) if rows else Wakes(every=True)


class UnitIs(Expression):
    """Whether a unit is in a state: `running`, `idle` or `waiting`."""

    is_truth = True

    def __init__(self, unit: int, state: str, name: str) -> None:
        self.unit, self.state, self.name = unit, state, f"unit {name} {state}"

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        role = moment.machine.unit_states()[self.unit].role
        found = "waiting" if role.startswith("wait") else "idle" if role == "idle" else "running"
        return found == self.state

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(every=True)


class MemoryValue(Expression):
    """The number at an address of a memory."""

    def __init__(self, memory: int, address: int, dtype: str, name: str) -> None:
        self.memory, self.address, self.dtype, self.name = memory, address, numpy_dtype(dtype), name

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        data = moment.machine.read_memory(self.memory, self.address, self.dtype.itemsize)
        number = np.frombuffer(data, self.dtype)[0]
        return number.item() if self.dtype.kind in "iub" else float(number)

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(every=True)


def _floats(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.kind in "iub" or values.dtype == np.float64 else values.astype(np.float64)


def _without_nan(reduce: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    def reduced(values: np.ndarray) -> Any:
        there = values[values == values]
        return reduce(there) if there.size else float("nan")

    return reduced


REDUCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "max": _without_nan(np.max),
    "min": _without_nan(np.min),
    "absmax": _without_nan(lambda values: np.max(np.abs(_floats(values)))),
    "mean": lambda values: np.mean(_floats(values)),
    "sum": lambda values: np.sum(_floats(values)),
}
"""Functions of a tensor's values; max, min and absmax ignore NaN."""

BAD: dict[str, Callable[[np.ndarray], Any]] = {
    "nan": lambda values: bool(np.isnan(_floats(values)).any()),
    "inf": lambda values: bool(np.isinf(_floats(values)).any()),
}


class TensorValue(Expression):
    """A reduction of a tensor's values, known once the operator that computes it has ended.

    row, key  the end of that operator; None for a tensor that exists from the beginning
    """

    def __init__(
        self, tensor: int, reduce: Callable[[np.ndarray], Any], row: tuple[Row, Key] | None, name: str
    ) -> None:
        self.tensor, self.reduce, self.row, self.name = tensor, reduce, row, name
        self.slot = -1 if row is None else row[1]

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        if self.slot >= 0 and self.slot in moment.keys:
            moment.state[self.slot] = True
        if self.slot >= 0 and not moment.is_final and self.slot not in moment.state:
            return None
        if id(self) not in moment.known:
            values = moment.machine.tensor(self.tensor)
            with np.errstate(all="ignore"):
                moment.known[id(self)] = None if values is None or not values.size else self.reduce(values)
        found = moment.known[id(self)]
        return found.item() if isinstance(found, np.generic) else found

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes() if self.row is None else Wakes((self.row,))

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return None if self.row is None else (self.row,)


class AnyBad(Expression):
    """Whether a tensor that an operator has just finished contains NaN or infinity.

    tensors  key of the operator's end -> its tensors
    """

    is_truth = True

    def __init__(
        self, tensors: dict[Key, tuple[int, ...]], rows: Sequence[tuple[Row, Key]], bad: str
    ) -> None:
        self.tensors, self.rows, self.test, self.name = tensors, tuple(rows), BAD[bad], f"any {bad}"

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        due = [key for key in self.tensors if key in moment.keys or moment.is_final]
        if not due:
            return None
        if id(self) not in moment.known:
            held = (moment.machine.tensor(tensor) for key in due for tensor in self.tensors[key])
            there = [values for values in held if values is not None and values.size]
            moment.known[id(self)] = any(self.test(values) for values in there) if there else None
        return moment.known[id(self)]

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return self.value(moment) is True

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        return Wakes(self.rows)

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return self.rows


class Arithmetic(Expression):
    """+ - * / % of two numbers."""

    def __init__(self, operator: str, left: Expression, right: Expression, text: str) -> None:
        self.operator, self.children, self.text = operator, (left, right), text

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        left, right = (child.value(moment) for child in self.children)
        if left is None or right is None:
            return None
        if self.operator in "/%" and right == 0:
            raise ConditionError(
                self.text, self.children[1].span, f"division by zero at cycle {moment.cycle}"
            )
        return self.apply(left, right)

    def apply(self, left: Any, right: Any) -> Any:
        """Apply the operation to two numbers; the right one must not be 0 for a division."""
        return OPERATORS[self.operator](left, right)

    def constant(self) -> Any:
        """Return the value if both sides are constants."""
        left, right = self.children
        assert isinstance(left, Number)
        assert isinstance(right, Number)
        return self.apply(left.number, right.number)

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return _either(self.children)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
}


class Compare(Expression):
    """A comparison of two numbers."""

    is_truth = True

    def __init__(self, comparison: str, left: Expression, right: Expression) -> None:
        self.comparison, self.children = comparison, (left, right)

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        left, right = (child.value(moment) for child in self.children)
        if left is None or right is None:
            return None
        return bool(COMPARISONS[self.comparison][1](left, right))

    def wakes(self) -> Wakes:
        """Return when its value may change."""
        left, right = self.children
        if isinstance(left, Cycle) and isinstance(right, Number):
            # A comparison with NaN or infinity changes at no cycle.
            edge = int(min(max(right.number, 0), LARGEST_CYCLE)) if right.number == right.number else 0
            return Wakes(cycles=(edge, edge + 1))
        return left.wakes() | right.wakes()

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return _either(self.children)

    def earliest(self) -> int:
        """Return a cycle before which it cannot hold."""
        left, right = self.children
        if not (isinstance(left, Cycle) and isinstance(right, Number)):
            return 0
        if self.comparison not in (">", ">=", "==") or not 0 <= right.number <= LARGEST_CYCLE:
            return 0
        return int(right.number) + (self.comparison == ">")


def _either(children: Sequence[Expression]) -> tuple[tuple[Row, Key], ...] | None:
    """Return the anchors of an expression that is only known if all of its parts are."""
    return next((found for child in children if (found := child.anchors()) is not None), None)


class Not(Expression):
    """The opposite of a truth."""

    is_truth = True

    def __init__(self, child: Expression) -> None:
        self.children = (child,)

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        value = self.children[0].value(moment)
        return None if value is None else not value

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        # `not any nan` is known for one cycle only; the opposite of an event holds nearly always.
        return False


class Both(Expression):
    """Whether two truths both hold."""

    is_truth = True

    def __init__(self, left: Expression, right: Expression) -> None:
        self.children = (left, right)

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        left, right = (child.value(moment) for child in self.children)
        if left is False or right is False:
            return False
        return None if left is None or right is None else True

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        return _either(self.children)

    def earliest(self) -> int:
        """Return a cycle before which it cannot hold."""
        return max(child.earliest() for child in self.children)


class Either(Expression):
    """Whether one of two truths holds."""

    is_truth = True

    def __init__(self, left: Expression, right: Expression) -> None:
        self.children = (left, right)

    def value(self, moment: Moment) -> Any:
        """Return its value at a moment."""
        left, right = (child.value(moment) for child in self.children)
        if left is True or right is True:
            return True
        return None if left is None or right is None else False

    def pulses(self, moment: Moment) -> bool:
        """Whether it holds now because of something that holds for one cycle only."""
        return any(child.value(moment) is True and child.pulses(moment) for child in self.children)

    def anchors(self) -> tuple[tuple[Row, Key], ...] | None:
        """Return rows of which at least one must hit for it to hold; None if there are no such rows."""
        left, right = (child.anchors() for child in self.children)
        return None if left is None or right is None else left + right

    def earliest(self) -> int:
        """Return a cycle before which it cannot hold."""
        return min(child.earliest() for child in self.children)
