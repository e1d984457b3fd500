"""Stop where a tile or variable is read or written, as long as it is the one that its memory holds."""

from collections.abc import Sequence

from npuviz.debug.condition.expression import Event, Key, Moment, Row
from npuviz.program.variables import VariablePlace
from npuviz.sim.machine import Machine, Region


class VariableEvent(Event):
    """Accesses of places that hold something else before and behind; each row belongs to one place."""

    is_tested = True

    def __init__(self, rows: Sequence[tuple[Row, Key]], places: Sequence[VariablePlace]) -> None:
        super().__init__(rows)
        self.places = tuple(places)

    @property
    def instructions(self) -> Sequence[int]:
        """The instruction that begins to write the place of each row."""
        return [place.first for place in self.places]

    def only(self, numbers: Sequence[int]) -> Event:
        """Return an event of some of its rows."""
        return VariableEvent([self.rows[n] for n in numbers], [self.places[n] for n in numbers])

    def pulses(self, moment: Moment) -> bool:
        """Whether one of the places was accessed while it held what is watched."""
        hit = {place for (_, key), place in zip(self.rows, self.places, strict=True) if key in moment.keys}
        return any(place.first < 0 or _is_held(moment.machine, place) for place in hit)


def _is_held(machine: Machine, place: VariablePlace) -> bool:
    """Whether a memory holds what a place is about, or held it until the access that has just ended."""
    regions = [each for each in machine.regions(place.memory) if place.overlaps(_place_of(each, place))]
    return not regions or any(each.instruction == place.first for each in regions)


def _place_of(region: Region, like: VariablePlace) -> VariablePlace:
    return VariablePlace(
        region.label, like.memory, region.address, region.size_bytes, region.banks, like.bank_bytes
    )
