"""Text command `why`: the chain of causes of what a unit does, or what it lost the cycles of a span to."""

from collections.abc import Callable, Sequence
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug.causes import Cause, has_causes, losses
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import number_of, words_of
from npuviz.debug.console.places import unit_at
from npuviz.debug.explain import cause_unit, why
from npuviz.debug.session import Session
from npuviz.trace.reader import TraceReader

SHOWN_CAUSES = 60
CAUSE_COLUMNS = ("unit", "from", "to", "cycles", "state", "instruction", "detail")


def why_idle(session: Session, rest: str) -> Answer:
    """Answer `why [UNIT|QUEUE [CYCLE [TO]]]`: causes at a cycle, or of the cycles lost from CYCLE to TO."""
    words = words_of(rest, 0, 3) or [""]
    queue = session.description.queue_named(words[0])
    unit = queue.unit if queue is not None else unit_at(session, words[0])
    if len(words) == 3:
        return _lost_in(session, unit, *(number_of(word, "a cycle") for word in words[1:]))
    cycle = number_of(words[1], "a cycle") if len(words) > 1 else session.cycle
    chain = why(session, unit, cycle)
    if not chain:
        known = session.trace.end_cycle if session.trace else 0
        text = f"nothing is recorded for cycle {cycle}; the trace ends at {known}"
        return Answer({"unit": session.description.units[unit].name, "cycle": cycle}, note=text)
    name = session.description.units[unit].name
    return chain_answer(chain, name, cycle, lambda cause: _cause_row(session, cause))


def _lost_in(session: Session, unit: int, first: int, last: int) -> Answer:
    """Return what a unit lost the cycles of a span to, by cause."""
    if session.trace is None:
        raise UsageError("why UNIT FROM TO: nothing is recorded")
    name = session.description.units[unit].name
    return losses_answer(session.trace, (unit, name), (first, last), lambda cause: _cause_row(session, cause))


def losses_answer(
    trace: TraceReader,
    unit: tuple[int, str],
    span: tuple[int, int],
    row: Callable[[Cause], tuple[Any, ...]],
) -> Answer:
    """Return what a unit (id, name) lost the cycles of a span to. row  returns the columns of a cause.
    Raises UsageError."""
    first, last = span
    if not has_causes(trace):
        raise UsageError("why UNIT FROM TO: no causes are recorded; ask for one cycle instead")
    if not first < last <= trace.end_cycle:
        raise UsageError(f"why UNIT FROM TO: expected FROM below TO, and TO at most {trace.end_cycle}")
    found = losses(trace, unit[0], first, last)
    lost = sum(each.cycles for each in found)
    pairs = {"unit": unit[1], "from": first, "to": last, "busy": last - first - lost, "lost": lost}
    rows = tuple((each.cycles, each.count, *row(each.longest)) for each in found[:SHOWN_CAUSES])
    more = f"{len(found) - SHOWN_CAUSES} more, each less than these" if len(found) > SHOWN_CAUSES else ""
    return Answer(pairs, ("lost", "times", *CAUSE_COLUMNS), rows, "causes", more)


def chain_answer(
    chain: Sequence[Cause], unit: str, cycle: int, row: Callable[[Cause], tuple[Any, ...]]
) -> Answer:
    """Return a chain of causes of what a unit does at a cycle. row  returns the columns of a cause"""
    last = chain[-1]
    is_open = last.is_wait and not last.recorded
    note = "the chain ends here: what it waits for is not recorded" if is_open else ""
    if len(chain) > SHOWN_CAUSES:
        lost = sum(cause.cycles for cause in chain[SHOWN_CAUSES:])
        note = f"{len(chain) - SHOWN_CAUSES} more before, {lost} cycles"
    rows = tuple(row(cause) for cause in chain[:SHOWN_CAUSES])
    return Answer({"unit": unit, "cycle": cycle}, CAUSE_COLUMNS, rows, "chain", note)


def _cause_row(session: Session, cause: Cause) -> tuple[Any, ...]:
    instruction = cause.instruction if cause.instruction >= 0 else None
    detail = cause.detail if instruction is None else session.program.listing.describe(instruction).text
    return cause_row(cause, cause_unit(session, cause), detail)


def cause_row(cause: Cause, unit: str, detail: str) -> tuple[Any, ...]:
    """Return the CAUSE_COLUMNS of a cause."""
    values = (cause.start, cause.end, cause.cycles if cause.end >= 0 else -1)
    start, end, cycles = (value if value >= 0 else None for value in values)
    instruction = cause.instruction if cause.instruction >= 0 else None
    return unit, start, end, cycles, cause.what, instruction, detail
