"""Steps of a unit by lines of its program's text, as conditions over instructions."""

from collections.abc import Callable, Iterator, Sequence

from npuviz.debug.element_steps import LineStep
from npuviz.program.instruction import Listing
from npuviz.program.source import CallSite, HasCalls, HasSource, Place

MOST_RANGES = 2000
"""Of instructions in a condition."""


def line_condition(listing: Listing, unit: int, here: int, how: LineStep) -> str:
    """A condition: the unit starts an instruction of another line than that of instruction `here`; "" where
    lines are unknown. Where calls are known, over and out stay out of deeper ones."""
    now = _calls(listing, here)
    if not now:
        return ""
    depth = len(now) - (how is LineStep.OUT)
    if not depth:
        return ""
    keeps_to = how is not LineStep.INTO and isinstance(listing, HasCalls)

    def is_other(index: int) -> bool:
        calls = _calls(listing, index)
        if keeps_to and len(calls) > depth:
            return False
        if not calls:  # what the compiler added belongs to no line
            return not isinstance(listing, HasCalls)
        return calls[0].place != now[0].place or len(calls) != len(now)

    return _condition(listing, unit, is_other)


def _calls(listing: Listing, index: int) -> Sequence[CallSite]:
    """Calls under way at an instruction, or its line alone; () where neither is known."""
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
    """Half-open ranges of rising numbers."""
    first = last = -2
    for index in sorted(set(indices)):
        if index != last:
            if first >= 0:
                yield first, last
            first = index
        last = index + 1
    if first >= 0:
        yield first, last
