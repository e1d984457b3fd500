"""Convert between pixels and places on a grid of elements; pan and zoom, without any drawing."""

import math
from dataclasses import dataclass, replace

from npuviz.sim.fabric import Area, FabricShape

MIN_SCALE = 0.05
MAX_SCALE = 240.0
SHARP_FROM = 3.0
"""From this many pixels per element on, a fitted scale is an integer, so that elements are equally large."""
LARGEST_FITTED = 160.0
KEPT_PIXELS = 48
"""Pixels of the grid that always stay visible."""


@dataclass(frozen=True, slots=True)
class FabricCamera:
    """The visible part of a grid: `scale` pixels per element; (x, y) is the column and row at the top
    left.
    """

    scale: float = 16.0
    x: float = 0.0
    y: float = 0.0

    def to_screen(self, column: float, row: float) -> tuple[float, float]:
        """Return the pixel of a grid place; whole numbers are the top left corners of elements."""
        return (column - self.x) * self.scale, (row - self.y) * self.scale

    def to_grid(self, px: float, py: float) -> tuple[float, float]:
        """Return the grid place under a pixel."""
        return self.x + px / self.scale, self.y + py / self.scale

    def zoomed(self, factor: float, px: float, py: float) -> "FabricCamera":
        """Return the camera zoomed so that the place under a pixel stays where it is."""
        column, row = self.to_grid(px, py)
        scale = min(max(self.scale * factor, MIN_SCALE), MAX_SCALE)
        return FabricCamera(scale, column - px / scale, row - py / scale)

    def moved(self, dx: float, dy: float) -> "FabricCamera":
        """Return the camera with the picture moved by pixels."""
        return replace(self, x=self.x - dx / self.scale, y=self.y - dy / self.scale)

    def centred_on(self, column: float, row: float, width: float, height: float) -> "FabricCamera":
        """Return the camera, at the same scale, with a grid place in the middle of `width` x `height`
        pixels.
        """
        return replace(self, x=column - width / 2 / self.scale, y=row - height / 2 / self.scale)

    def clamped(self, shape: FabricShape, width: float, height: float) -> "FabricCamera":
        """Return the camera limited so that KEPT_PIXELS of the grid stay visible."""
        kept_x, kept_y = (min(KEPT_PIXELS, side / 2) / self.scale for side in (width, height))
        return replace(
            self,
            x=min(max(self.x, kept_x - width / self.scale), shape.columns - kept_x),
            y=min(max(self.y, kept_y - height / self.scale), shape.rows - kept_y),
        )

    def visible(self, shape: FabricShape, width: float, height: float) -> Area:
        """Return the area of visible elements, at least one."""
        left = min(max(math.floor(self.x), 0), shape.columns - 1)
        top = min(max(math.floor(self.y), 0), shape.rows - 1)
        right = min(max(math.ceil(self.x + width / self.scale), left + 1), shape.columns)
        bottom = min(max(math.ceil(self.y + height / self.scale), top + 1), shape.rows)
        return Area(left, top, right - left, bottom - top)


def fitted(area: Area, width: float, height: float, margin: float = 8.0) -> FabricCamera:
    """Return the camera that shows an area as large as it fits, up to LARGEST_FITTED pixels per element."""
    room_x, room_y = max(width - 2 * margin, 1.0), max(height - 2 * margin, 1.0)
    scale = min(room_x / max(area.columns, 1), room_y / max(area.rows, 1), LARGEST_FITTED)
    scale = max(float(math.floor(scale)) if scale >= SHARP_FROM else scale, MIN_SCALE)
    middle = area.column + area.columns / 2, area.row + area.rows / 2
    return FabricCamera(scale).centred_on(*middle, width, height)
