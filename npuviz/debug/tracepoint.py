"""Log the hits of conditions that only log."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.base.errors import ConditionError
from npuviz.debug.breakpoint import BreakpointList
from npuviz.debug.condition.expression import Expression, Moment
from npuviz.debug.translate import format_value
from npuviz.sim.machine import Machine
from npuviz.sim.stop import StopReason

MOST_LINES = 100_000
"""Most lines kept; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One hit: its cycle, the breakpoint, the unit ("" if none), and the values it shows."""

    cycle: int
    breakpoint: int
    condition: str
    unit: str
    values: str


class TraceLog:
    """Lines in the order in which they were written; passing a cycle again writes nothing new."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._known: set[tuple[int, int]] = set()

    @property
    def lines(self) -> Sequence[LogLine]:
        """All lines that are kept, by cycle."""
        return sorted(self._lines, key=lambda line: line.cycle)

    def clear(self, after: int = -1) -> None:
        """Forget the lines after a cycle."""
        self._lines = deque((line for line in self._lines if line.cycle <= after), maxlen=MOST_LINES)
        self._known = {(line.cycle, line.breakpoint) for line in self._lines}

    def note(self, machine: Machine, breakpoints: BreakpointList, reason: StopReason) -> list[int]:
        """Write a line for each hit that only logs; return the ids of these breakpoints."""
        found: list[int] = []
        for number in reason.breakpoints:
            item = breakpoints.get(number)
            if item is None or not item.condition.is_log:
                continue
            found.append(number)
            if (reason.cycle, number) in self._known:
                continue
            if len(self._lines) == MOST_LINES:
                self._known.discard((self._lines[0].cycle, self._lines[0].breakpoint))
            self._known.add((reason.cycle, number))
            values = values_text(item.condition.shown, machine, item.text)
            self._lines.append(LogLine(reason.cycle, number, item.text, reason.unit, values))
        return found


def values_text(shown: Sequence[Expression], machine: Machine, text: str) -> str:
    """Return "NAME = VALUE, ..." of expressions; one without a name is quoted from the text."""
    moment = Moment(machine, is_final=machine.is_finished)
    parts: list[str] = []
    for expression in shown:
        name = expression.name or text[slice(*expression.span)]
        try:
            value = expression.value(moment)
        except ConditionError as error:
            value = error.reason
        parts.append(f"{name} = {'unknown' if value is None else format_value(value)}")
    return ", ".join(parts)
