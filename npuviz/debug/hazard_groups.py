"""Merge hazards of many units that share a line into one with a count."""

from collections.abc import Iterable
from dataclasses import dataclass

from npuviz.sim.machine import Hazard


@dataclass(slots=True)
class HazardGroup:
    """Hazards of one kind at one line, or at one instruction.

    first  the earliest one, whose text stands for all; last is the cycle of the latest
    units  number of different units that have it
    """

    first: Hazard
    last: int
    count: int = 0
    units: int = 0

    @property
    def text(self) -> str:
        """The sentence of the first hazard, and how often it occurred."""
        if self.count == 1:
            return self.first.text
        others = f" at {self.units} units" if self.units > 1 else ""
        return f"{self.first.text} ({self.count} times{others}, to cycle {self.last})"


def group_hazards(hazards: Iterable[Hazard]) -> list[HazardGroup]:
    """Merge hazards by kind and line, sorted by the cycle of the first.
    Their texts name the line before the unit."""
    found: dict[tuple[object, ...], HazardGroup] = {}
    units: dict[tuple[object, ...], set[str]] = {}
    for hazard in hazards:
        line, has_unit, _ = hazard.text.partition(f"{hazard.unit}: ") if hazard.unit else ("", "", "")
        place = line if has_unit and line else (hazard.instruction, "" if has_unit else hazard.text)
        key = (hazard.kind, hazard.level, place)
        group = found.setdefault(key, HazardGroup(hazard, hazard.cycle))
        group.count += 1
        group.last = max(group.last, hazard.cycle)
        units.setdefault(key, set()).add(hazard.unit)
        group.units = len(units[key])
    return list(found.values())
