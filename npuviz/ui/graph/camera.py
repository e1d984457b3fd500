"""The part of a drawing that a widget shows: scale and offset, and how to change them."""

from dataclasses import dataclass

MIN_SCALE = 0.002
MAX_SCALE = 4.0
MARGIN = 24.0


@dataclass(frozen=True)
class GraphCamera:
    """screen = drawing * scale + offset. Immutable: every move gives a new one."""

    scale: float = 1.0
    offset_x: float = 0.0
    offset_y: float = 0.0

    def to_screen(self, x: float, y: float) -> tuple[float, float]:
        """Convert a point of the drawing into pixels of the widget."""
        return x * self.scale + self.offset_x, y * self.scale + self.offset_y

    def to_drawing(self, x: float, y: float) -> tuple[float, float]:
        """Convert a pixel of the widget into a point of the drawing."""
        return (x - self.offset_x) / self.scale, (y - self.offset_y) / self.scale

    def moved(self, dx: float, dy: float) -> "GraphCamera":
        """Return the camera with the drawing shifted by pixels."""
        return GraphCamera(self.scale, self.offset_x + dx, self.offset_y + dy)

    def zoomed(self, factor: float, x: float, y: float) -> "GraphCamera":
        """Return the camera zoomed so that the point under a pixel stays where it is."""
        scale = min(MAX_SCALE, max(MIN_SCALE, self.scale * factor))
        at_x, at_y = self.to_drawing(x, y)
        return GraphCamera(scale, x - at_x * scale, y - at_y * scale)

    def centred_on(self, x: float, y: float, width: float, height: float) -> "GraphCamera":
        """Return the camera with a point of the drawing in the middle of a widget of this size."""
        return GraphCamera(self.scale, width / 2 - x * self.scale, height / 2 - y * self.scale)

    def within(self, bounds: tuple[float, float, float, float], width: float, height: float) -> "GraphCamera":
        """Return the camera shifted so that a widget of this size shows only a rectangle and a margin.

        bounds  the rectangle (left, top, width, height) of the drawing; it is centred if it is smaller
        """
        left, top, span_x, span_y = bounds
        return self.moved(
            _into(left * self.scale + self.offset_x, span_x * self.scale, width),
            _into(top * self.scale + self.offset_y, span_y * self.scale, height),
        )


def _into(start: float, span: float, room: float) -> float:
    """Return the pixels by which to shift a span so that it fills, or is centred in, the room."""
    if span <= room - 2 * MARGIN:
        return (room - span) / 2 - start
    return min(MARGIN - start, 0.0) + max(room - MARGIN - start - span, 0.0)


def fit(
    bounds: tuple[float, float, float, float], width: float, height: float, largest: float = 1.0
) -> GraphCamera:
    """Return the camera that shows a whole rectangle (left, top, width, height) at a scale up to
    `largest`.
    """
    left, top, span_x, span_y = bounds
    room_x, room_y = max(1.0, width - 2 * MARGIN), max(1.0, height - 2 * MARGIN)
    scale = min(largest, room_x / max(1.0, span_x), room_y / max(1.0, span_y))
    scale = min(MAX_SCALE, max(MIN_SCALE, scale))
    return GraphCamera(1.0 * scale).centred_on(left + span_x / 2, top + span_y / 2, width, height)
