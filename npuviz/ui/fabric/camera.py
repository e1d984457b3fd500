"""Where a pixel is on a grid of elements: pan and zoom, without any drawing."""

import math
from dataclasses import dataclass, replace

from npuviz.sim.fabric import Area, FabricShape

MIN_SCALE = 0.05
MAX_SCALE = 240.0
SHARP_FROM = 3.0
"""From so many pixels an element on, a fitted scale is whole, so that all elements are equally large."""
LARGEST_FITTED = 160.0
KEPT_PIXELS = 48
"""So much of the grid always stays in sight."""


@dataclass(frozen=True, slots=True)
class FabricCamera:
    """scale is pixels per element; (x, y) is the grid place, in columns and rows, at the left top pixel."""

    scale: float = 16.0
    x: float = 0.0
    y: float = 0.0

    def to_screen(self, column: float, row: float) -> tuple[float, float]:
        """Pixel of a grid place; whole numbers are the left top corners of elements."""
        return (column - self.x) * self.scale, (row - self.y) * self.scale

    def to_grid(self, px: float, py: float) -> tuple[float, float]:
        """Grid place under a pixel."""
        return self.x + px / self.scale, self.y + py / self.scale

    def zoomed(self, factor: float, px: float, py: float) -> "FabricCamera":
        """Zoom and keep the place under a pixel where it is."""
        column, row = self.to_grid(px, py)
        scale = min(max(self.scale * factor, MIN_SCALE), MAX_SCALE)
        return FabricCamera(scale, column - px / scale, row - py / scale)

    def moved(self, dx: float, dy: float) -> "FabricCamera":
        """Move the picture by pixels."""
        return replace(self, x=self.x - dx / self.scale, y=self.y - dy / self.scale)

    def centred_on(self, column: float, row: float, width: float, height: float) -> "FabricCamera":
        """The same scale with a grid place in the middle of `width` x `height` pixels."""
        return replace(self, x=column - width / 2 / self.scale, y=row - height / 2 / self.scale)

    def clamped(self, shape: FabricShape, width: float, height: float) -> "FabricCamera":
        """Keep a part of the grid in sight."""
        kept_x, kept_y = (min(KEPT_PIXELS, side / 2) / self.scale for side in (width, height))
        return replace(
            self,
            x=min(max(self.x, kept_x - width / self.scale), shape.columns - kept_x),
            y=min(max(self.y, kept_y - height / self.scale), shape.rows - kept_y),
        )

    def visible(self, shape: FabricShape, width: float, height: float) -> Area:
        """The elements that can be seen, at least one."""
        left = min(max(math.floor(self.x), 0), shape.columns - 1)
        top = min(max(math.floor(self.y), 0), shape.rows - 1)
        right = min(max(math.ceil(self.x + width / self.scale), left + 1), shape.columns)
        bottom = min(max(math.ceil(self.y + height / self.scale), top + 1), shape.rows)
        return Area(left, top, right - left, bottom - top)


def fitted(area: Area, width: float, height: float, margin: float = 8.0) -> FabricCamera:
    """The camera that shows an area as large as fits."""
    room_x, room_y = max(width - 2 * margin, 1.0), max(height - 2 * margin, 1.0)
    scale = min(room_x / max(area.columns, 1), room_y / max(area.rows, 1), LARGEST_FITTED)
    scale = max(float(math.floor(scale)) if scale >= SHARP_FROM else scale, MIN_SCALE)
    middle = area.column + area.columns / 2, area.row + area.rows / 2
    return FabricCamera(scale).centred_on(*middle, width, height)
