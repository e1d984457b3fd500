"""Go to iterations of loops: find those under way, and any other one, forward or back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.base.progress import Progress
from npuviz.debug.unit_steps import joined_ranges
from npuviz.program.instruction import Listing
from npuviz.program.source import CallSite, HasCalls, LoopTurn, Place
from npuviz.sim.machine import Machine
from npuviz.sim.stop import StopReason

if TYPE_CHECKING:
    from npuviz.debug.session import Session

Step = tuple[Place, int]
"""One step of the way to a loop: (head of an outer loop, its turn), or (place of a call, -1)."""


@dataclass(frozen=True, slots=True)
class ProgramLoop:
    """A loop of a program's text; `count` is the largest number of turns of any time that it is entered."""

    variable: str
    place: Place
    count: int


def program_loops(listing: Listing) -> list[ProgramLoop]:
    """Return all loops, by place. Raises UsageError if the program's loops are not known."""
    most: dict[tuple[Place, str], int] = {}
    for calls, _ in _distinct(listing):
        for call in calls:
            for loop in call.loops:
                key = loop.place, loop.variable
                most[key] = max(most.get(key, 0), loop.count)
    order = sorted(most, key=lambda key: (key[0].file, key[0].line))
    return [ProgramLoop(variable, place, most[place, variable]) for place, variable in order]


def loops_around(listing: Listing, instruction: int) -> list[LoopTurn]:
    """Return the loops around an instruction, outermost first, through the calls that led to it;
    [] if unknown."""
    if not isinstance(listing, HasCalls) or not 0 <= instruction < len(listing):
        return []
    return [loop for call in reversed(listing.calls_of(instruction)) for loop in call.loops]


def unit_in_loop(machine: Machine, variable: str) -> tuple[int, int]:
    """Return instruction and unit of the unit that most recently began something inside a loop over a
    variable; (-1, -1) if none is in one."""
    listing = machine.program.listing
    found = [
        (state.since, -state.unit, state.instruction)
        for state in machine.unit_states()
        if any(variable == loop.variable for loop in loops_around(listing, state.instruction))
    ]
    if not found:
        return -1, -1
    _since, negative, instruction = max(found)
    return instruction, -negative


def turn_condition(listing: Listing, variable: str, turn: int, here: int = -1, unit: int = -1) -> str:
    """Return a condition that hits when an instruction of a turn (from 1) of a variable's loop starts.

    here  an instruction; if it is inside such a loop, the turns of the loops around that loop and the
          calls that led to it must be the same
    unit  only instructions of this unit, if it has any in that turn
    Raises UsageError if there is no such turn.
    """
    ahead = _ahead_of(listing, variable, here)
    counts: dict[str, int] = {}
    found: list[int] = []
    for calls, indices in _distinct(listing):
        is_wanted = False
        for place, loop, before in _steps(calls):
            counts[loop.variable] = max(counts.get(loop.variable, 0), loop.count)
            is_there = ahead is None or (place, before) == ahead
            is_wanted |= (loop.variable, loop.turn) == (variable, turn) and is_there
        if is_wanted:
            found += indices
    if not found:
        known = ", ".join(f"{name} (1 to {count})" for name, count in counts.items()) or "none"
        raise UsageError(f"no iteration {turn} of a loop over {echo(variable)}; loops: {known}")
    ranges = listing.ranges_of_unit(unit) if unit >= 0 else ()
    own = [index for index in found if any(low <= index < high for low, high in ranges)]
    return " or ".join(f"instr {low}..{high}" for low, high in _first_of_units(listing, own or found))


def go_to_turn(
    session: "Session", variable: str, turn: int, progress: Progress, at: tuple[int, int] = (-1, -1)
) -> StopReason:
    """Go to where a turn of a loop begins, before now or later: the first start of one of its instructions.

    at  instruction and unit for `turn_condition`: units go through a loop at different times
    """
    condition = turn_condition(session.program.listing, variable, turn, *at)
    session.go_to(0)
    return session.run_to(condition, progress)


def turn_beside(listing: Listing, variable: str, here: int, step: int) -> int:
    """Return the turn that is `step` further than that of instruction `here`.
    Raises UsageError if it is in no such loop."""
    for loop in reversed(loops_around(listing, here)):
        if loop.variable == variable:
            return loop.turn + step
    raise UsageError(f"no unit is in a loop over {echo(variable)} now: give the iteration itself")


def _distinct(listing: Listing) -> Iterator[tuple[Sequence[CallSite], list[int]]]:
    """Yield each different stack of calls with the instructions that have it."""
    if not isinstance(listing, HasCalls):
        raise UsageError("the loops of this program are not known")
    found: dict[int, tuple[Sequence[CallSite], list[int]]] = {}
    for index in range(len(listing)):
        calls = listing.calls_of(index)
        found.setdefault(id(calls), (calls, []))[1].append(index)
    yield from found.values()


def _steps(calls: Sequence[CallSite]) -> Iterator[tuple[Place, LoopTurn, tuple[Step, ...]]]:
    """Yield each loop of a stack, outermost first: its head, its turn, and the way that leads to it."""
    way: list[Step] = []
    for call in reversed(calls):
        for loop in call.loops:
            yield loop.place, loop, tuple(way)
            way.append((loop.place, loop.turn))
        way.append((call.place, -1))


def _ahead_of(listing: Listing, variable: str, here: int) -> tuple[Place, tuple[Step, ...]] | None:
    """Return head and way of the innermost loop over a variable around an instruction;
    None if there is none."""
    if not isinstance(listing, HasCalls) or not 0 <= here < len(listing):
        return None
    found = [(place, way) for place, loop, way in _steps(listing.calls_of(here)) if loop.variable == variable]
    return found[-1] if found else None


def _first_of_units(listing: Listing, indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield, for each unit, the range that begins with its first of these instructions:
    a unit starts them in order."""
    seen: set[int] = set()
    for low, high in joined_ranges(indices):
        units = {listing.describe(low).unit, listing.describe(high - 1).unit}
        if len(units) > 1 or not units <= seen:
            yield (low, low + 1) if len(units) == 1 else (low, high)
        seen |= units
