"""Bound the time of a run from below: what each part of a machine needs at least for the work done,
in any order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of the time of the run so far, set by one part of the machine.

    cycles  of the base clock; unit  id of that part's unit, or of the busiest one if it has several
    text    how the number is computed, in words
    """

    name: str
    cycles: float
    unit: int
    text: str


@runtime_checkable
class HasBounds(Protocol):
    """A machine that computes the least time for the work that it did."""

    def bounds(self) -> Sequence[Bound]:
        """Return the bounds of all parts that did something, for the work begun so far."""
        ...


def highest(bounds: Sequence[Bound]) -> Bound | None:
    """Return the largest bound; None without any."""
    return max(bounds, key=lambda each: each.cycles, default=None)
