"""Step a unit by lines of its program's text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from npuviz.debug.element_steps import LineStep
from npuviz.debug.session import Session
from npuviz.program.instruction import Listing
from npuviz.program.source import CallSite, HasCalls, HasSource, Place
from npuviz.sim.stop import StopKind, StopReason

MOST_RANGES = 2000
"""Most ranges of instructions in a condition."""


def step_unit_line(session: Session, unit: int, how: LineStep, is_back: bool = False) -> StopReason:
    """Bring a unit to an instruction of another line, forward or back in time,
    or to a breakpoint before that.

    Stepping out of the outermost function goes to the end or beginning of the run. If no line is known,
    it goes to the unit's next instruction, or the one before.
    """
    listing, here = session.program.listing, instruction_at(session, unit)
    if how is LineStep.OUT and here >= 0 and len(calls_at(listing, here)) == 1:
        return session.run_back() if is_back else session.run()
    text = line_condition(listing, unit, here, how)
    if not text:
        return session.step_instruction_back(unit) if is_back else session.step_instruction(unit)
    with session.breakpoints.temporary(text) as made:
        reason = session.run_back() if is_back else session.run()
    others = tuple(hit for hit in reason.breakpoints if hit != made.id)
    if reason.kind is not StopKind.BREAKPOINT or others:
        return session.stopped(replace(reason, breakpoints=others))
    name = next(each.name for each in session.description.units if each.id == unit)
    now = instruction_at(session, unit)
    text = line_text(listing, now) or "another line"
    return session.stopped(StopReason(StopKind.UNTIL, reason.cycle, (), name, text, now))


def instruction_at(session: Session, unit: int) -> int:
    """Return the instruction that a unit runs, or else runs next, at the beginning its first; -1 if none."""
    machine = session.machine
    state = next((state for state in machine.unit_states() if state.unit == unit), None)
    index = state.instruction if state is not None else -1
    index = index if index >= 0 else machine.next_instructions().get(unit, -1)
    if index < 0 and machine.cycle == 0:
        ranges = session.program.listing.ranges_of_unit(unit)
        index = ranges[0][0] if ranges else -1
    return index


def unit_of_stop(session: Session) -> int:
    """Return the unit that the last stop was about, -1 if it was about none."""
    stop = session.stop
    if stop.instruction >= 0:
        return session.program.listing.describe(stop.instruction).unit
    unit = session.description.unit_named(stop.unit) if stop.unit else None
    return unit.id if unit is not None else -1


def line_text(listing: Listing, index: int) -> str:
    """Return where an instruction comes from, as "kernel.py:12 in softmax", "" if that is unknown."""
    calls = calls_at(listing, index) if index >= 0 else ()
    if not calls or not isinstance(listing, HasSource):
        return ""
    place, function = calls[0].place, calls[0].function
    return f"{listing.sources[place.file].name}:{place.line}{f' in {function}' if function else ''}"


def line_condition(listing: Listing, unit: int, here: int, how: LineStep) -> str:
    """A condition: the unit starts an instruction of another line than that of instruction `here`; "" where
    lines are unknown. Where calls are known, over and out stay out of deeper ones."""
    now = calls_at(listing, here) if here >= 0 else ()
    if not now:
        return ""
    depth = len(now) - (how is LineStep.OUT)
    if not depth:
        return ""
    keeps_to = how is not LineStep.INTO and isinstance(listing, HasCalls)

    def is_other(index: int) -> bool:
        calls = calls_at(listing, index)
        if keeps_to and len(calls) > depth:
            return False
        if not calls:  # an instruction that the compiler added belongs to no line
            return not isinstance(listing, HasCalls)
        # The same line in another iteration, or called from elsewhere, is another one to step to.
        return calls != now

    return _condition(listing, unit, is_other)


def calls_at(listing: object, index: int) -> Sequence[CallSite]:
    """Return the calls under way at an instruction, innermost first, or its line alone.

    () where neither is known, and for an index below 0.
    """
    if index < 0:
        return ()
    calls = listing.calls_of(index) if isinstance(listing, HasCalls) else ()
    if calls or not isinstance(listing, HasSource):
        return calls
    place = listing.place_of(index)
    return (CallSite("", Place(place.file, place.line)),) if place is not None else ()


def _condition(listing: Listing, unit: int, is_wanted: Callable[[int], bool]) -> str:
    wanted = [
        index for low, high in listing.ranges_of_unit(unit) for index in range(low, high) if is_wanted(index)
    ]
    parts = [f"instr {low}..{high}" for low, high in joined_ranges(wanted)]
    return " or ".join(parts) if len(parts) <= MOST_RANGES else ""


def joined_ranges(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges that numbers form."""
    first = last = -2
    for index in sorted(set(indices)):
        if index != last:
            if first >= 0:
                yield first, last
            first = index
        last = index + 1
    if first >= 0:
        yield first, last
