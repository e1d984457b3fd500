"""Places and areas on the grid of PEs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntVector:
    """A place (column, row), or a size."""

    x: int
    y: int


@dataclass(frozen=True)
class IntRectangle:
    """An area: its first place, and the place after its last (exclusive in both directions)."""

    upper_left: IntVector
    lower_right: IntVector
