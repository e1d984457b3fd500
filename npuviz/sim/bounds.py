"""The least time that parts of a machine need for what a run has done, whatever the order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that the run so far cannot be shorter than, because one part of the machine needs it.

    cycles  of the base clock; unit  id of the unit that is this part, or the one of several that did most
    text    how the number comes about
    """

    name: str
    cycles: float
    unit: int
    text: str


@runtime_checkable
class HasBounds(Protocol):
    """A machine that knows the least time for what it did."""

    def bounds(self) -> Sequence[Bound]:
        """Of all parts that did something, by what has begun up to now."""
        ...


def highest(bounds: Sequence[Bound]) -> Bound | None:
    """The bound that decides; None where nothing was done."""
    return max(bounds, key=lambda each: each.cycles, default=None)
