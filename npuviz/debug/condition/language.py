"""The language of conditions: breakpoints, tracepoints, searches and assertions.

    cycle == 1200            cycle >= 1200           (also > ; both hit once, when they become true)
    instr 1234               instr 10..20            an instruction starts; the end is excluded
    op conv1                 op "name with spaces"   the first instruction of an operator starts
    op conv1 ends                                    its last work ends
    queue Core[0].LD >= 2    queue Core[0].LD full   occupancy; hits when it becomes true
    read Core[0].SPAD 0x100..0x180                   an instruction reads bytes of the range
    write DRAM 0x1000                                an instruction writes this byte
    write acc                read SBUF acc           ... of a tile or variable, wherever it is held
    unit Core[0].EX starts   unit Core[0].EX idle    an instruction of it starts; its state (running, waiting)
    Core[0].LD.latency > 9                           a probe; an element is named `probe[3]`
    value DRAM 0x1000 float32 > 1.5                  the number at an address
    max(conv2) > 100         any nan                 values of tensors, when their operator has ended

and in a machine of processing elements that run compiled texts, each also with `at COLUMN,ROW`:

    line pe.csl:42           line 42                 an instruction of this line starts
    task receive             function compute        its first instruction starts
    wavelet                  wavelet color 3         a word reaches an element's processor
    wavelet data >= 10       wavelet f32 < 0         ... and its 32 bits compare so
    wavelet index == 4       wavelet control         ... or its upper (`half`: lower) 16; control words

The name of a function, a task or an operator, FILE:LINE and a LINE alone, mean the same without the word
before them. Behind an event `if` takes a condition, up to the end or a closing bracket, which may name the
variables of the loops around the event:

    line pe.csl:42 if i == 3     42 if i % 4 == 0 or j > i     write acc if block == 2 and cycle > 1000

Numbers are combined with + - * / %, truths with `and`, `or`, `not` and brackets, and

    changed A   rises A   falls A                    it is another (larger, smaller) number than a cycle ago
    A for 20 cycles                                  it has held in each of the last 20 cycles
    B within 50 cycles after A                       both, at most so far apart
    count(A) >= 3                                    how often since the first cycle

Alternatives joined by `or` hit separately: an event each time, anything else when it becomes true. `log` in
front writes a line for each hit and goes on; `log A show X, Y` adds the values of expressions.

Events, cycles, levels of queues and the ends of operators are lowered to rows that kernels test, and what
is joined to an event by `and` is tested only there. Anything else is tested after every cycle: slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from npuviz.base.errors import ConditionError
from npuviz.debug.condition.atoms import Scope
from npuviz.debug.condition.bounds import check
from npuviz.debug.condition.expression import (
    Compare,
    Cycle,
    Either,
    Event,
    Expression,
    Number,
    ProbeValue,
    QueueLevel,
    Row,
)
from npuviz.debug.condition.grammar import Grammar, negated
from npuviz.debug.condition.tokens import COMPARISONS, TokenReader
from npuviz.debug.condition.trigger import Trigger, trigger_of
from npuviz.program.program import Program
from npuviz.sim.description import MachineDescription
from npuviz.sim.fabric import FabricShape
from npuviz.sim.probe import Probe
from npuviz.sim.stop import STOP_QUEUE


@dataclass(frozen=True, slots=True)
class ProbeTest:
    """A comparison of a probe (or of one of its elements) with a number, tested between cycles."""

    probe: str
    element: int
    comparison: str
    bound: float

    def holds(self, value: Any) -> bool:
        """Whether it is true for a value that `Machine.read` returned."""
        number = value if self.element < 0 else value.reshape(-1)[self.element]
        return bool(COMPARISONS[self.comparison][1](number, self.bound))


@dataclass(frozen=True, slots=True)
class Condition:
    """A lowered condition; it holds when any of its parts does.

    rows      stop rows without their last word, the breakpoint id
    cycles    cycles at which it hits
    probes    tests between cycles
    triggers  expressions that are evaluated where the machine stops for them
    is_log    hits are logged and do not stop; shown  expressions whose values are logged
    """

    text: str
    rows: tuple[Row, ...] = ()
    cycles: tuple[int, ...] = ()
    probes: tuple[ProbeTest, ...] = ()
    triggers: tuple[Trigger, ...] = ()
    is_log: bool = False
    shown: tuple[Expression, ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether the machine has to be stopped after every cycle to test it."""
        return bool(self.probes) or any(trigger.every for trigger in self.triggers)

    def stop_rows(self, breakpoint_id: int) -> list[tuple[int, int, int, int, int, int]]:
        """Return rows for `npuviz.sim.stop.stop_table`."""
        return [(*row, breakpoint_id) for row in self.rows]


def parse(
    text: str,
    description: MachineDescription,
    program: Program,
    probes: Sequence[Probe] = (),
    fabric: FabricShape | None = None,
) -> Condition:
    """Parse a condition. Raises ConditionError with the span of the part that is wrong.

    The condition's text has the words that were left out: `line pe.csl:42` for `pe.csl:42`.
    """
    words = TokenReader(text)
    grammar = Grammar(words, Scope(description, program, probes, fabric))
    is_log = grammar.takes_log()
    expression = grammar.condition()
    shown = grammar.shown() if is_log else ()
    grammar.end()
    return replace(lowered(text, expression, is_log, shown), text=words.full_text.strip())


def parse_violation(text: str, scope: Scope) -> tuple[Condition | None, Expression]:
    """Parse an assertion; return (when it becomes false, None if it never can; the assertion).
    Raises ConditionError."""
    expression = parse_expression(text, scope, True)
    try:
        return lowered(text, negated(expression)), expression
    except ConditionError as error:
        if error.reason.startswith("never "):
            return None, expression
        raise


def parse_expression(text: str, scope: Scope, is_truth: bool = False) -> Expression:
    """Parse a number, or a truth if `is_truth`. Raises ConditionError."""
    grammar = Grammar(TokenReader(text), scope)
    expression = grammar.condition() if is_truth else grammar.any_value()
    grammar.end()
    return expression


def complete(text: str, scope: Scope) -> tuple[int, list[str]]:
    """Return (where the word at the end of a text begins, words that may stand there)."""
    start = len(text)
    quotes = text.count('"') % 2
    while start and (
        text.rfind('"') < start if quotes else not (text[start - 1].isspace() or text[start - 1] == "(")
    ):
        start -= 1
    words = TokenReader(text[:start])
    grammar = Grammar(words, scope)
    try:
        is_log = grammar.takes_log()
        grammar.condition()
        if is_log:
            grammar.shown()
        grammar.end()
    except ConditionError:
        pass
    partial = text[start:].strip('"').casefold()
    if partial[:1].isdigit():  # nothing is known to follow a number
        return start, []
    found = [w for w in dict.fromkeys(words.offered) if partial in w.strip('"').casefold()]
    found.sort(key=lambda w: not w.strip('"').casefold().startswith(partial))
    return start, [] if found == [text[start:]] else found


def lowered(
    text: str, expression: Expression, is_log: bool = False, shown: tuple[Expression, ...] = ()
) -> Condition:
    """Lower an expression to a condition. Raises ConditionError for one that can never become true."""
    check(expression, text)
    rows: list[Row] = []
    cycles: list[int] = []
    probes: list[ProbeTest] = []
    triggers: list[Trigger] = []
    for part in _alternatives(expression):
        left, right = part.children if isinstance(part, Compare) else (part, part)
        level, cycle = right.whole_number(), _cycle_of(part)
        if isinstance(part, Event) and not part.is_tested:
            rows.extend(row for row, _ in part.rows)
        elif cycle is not None:
            cycles.append(cycle)
        elif isinstance(part, Compare) and isinstance(left, QueueLevel) and level is not None:
            rows.append((STOP_QUEUE, left.queue, level, 0, COMPARISONS[part.comparison][0]))
        elif isinstance(part, Compare) and isinstance(left, ProbeValue) and isinstance(right, Number):
            probes.append(ProbeTest(left.probe, left.element, part.comparison, right.number))
        else:
            triggers.append(trigger_of(part))
    return Condition(text.strip(), tuple(rows), tuple(cycles), tuple(probes), tuple(triggers), is_log, shown)


def _alternatives(expression: Expression) -> list[Expression]:
    if isinstance(expression, Either):
        return [part for child in expression.children for part in _alternatives(child)]
    return [expression]


def _cycle_of(part: Expression) -> int | None:
    """Return the cycle at which a comparison of `cycle` becomes true, None for anything else."""
    if not isinstance(part, Compare) or not isinstance(part.children[0], Cycle):
        return None
    number = part.children[1].whole_number()
    if number is None:
        return None
    return {"==": number, "=": number, ">=": number, ">": number + 1}.get(part.comparison)
