"""Which part of a timeline a pixel belongs to."""

from dataclasses import dataclass
from typing import Literal

from npuviz.ui.timeline.rows import Row

Zone = Literal["minimap", "ruler", "header", "border", "tracks"]


@dataclass(frozen=True, slots=True)
class Place:
    """A pixel in terms of what is there.

    x    pixels from the left edge of the tracks; y pixels of the row layout
    row  the row at that height, or None
    """

    zone: Zone
    x: float
    y: float
    row: Row | None

    @property
    def track(self) -> int:
        """Track of the row, -1 for none."""
        return self.row.track if self.row else -1
