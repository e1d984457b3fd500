"""Places and areas on the grid of PEs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class IntVector:
    """A place (column, row), or a size."""

    x: int
    y: int


@dataclass(frozen=True)
class IntRectangle:
    """An area: the place of its first corner, and its size."""

    origin: IntVector
    dims: IntVector
