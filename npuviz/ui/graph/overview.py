"""A small map of the whole graph in a corner of the view, with the visible part and the selection."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPixmap

from npuviz.ui.graph.camera import GraphCamera
from npuviz.ui.graph.layout import NODE_HEIGHT, NODE_WIDTH
from npuviz.ui.graph.picture import GraphPicture
from npuviz.ui.theme.theme import GRID, Theme

LARGEST = 132.0, 104.0
"""Largest width and height of the map in pixels."""
SHARE = 0.26
"""Largest share of the view's width and height that the map takes."""
MARGIN = 2.0 * GRID
SMALLEST = 36.0
CORNERS = 4
PADDING = NODE_WIDTH / 2


@dataclass(frozen=True)
class GraphOverview:
    """Place and scale of the map in a view.

    area    pixels of the view that the map covers
    camera  converts the drawing's points into pixels of the view inside the area
    """

    area: QRectF
    camera: GraphCamera

    def to_drawing(self, spot: QPointF) -> tuple[float, float]:
        """Return the point of the drawing under a pixel of the map."""
        return self.camera.to_drawing(spot.x(), spot.y())


def overview_of(
    picture: GraphPicture, camera: GraphCamera, width: float, height: float, corner: int = 0
) -> GraphOverview | None:
    """Return the map for a view of this size; None if all is visible or there is no room.

    corner  0 lower right, 1 lower left, 2 upper right, 3 upper left
    """
    left, top, span_x, span_y = picture.layout.bounds()
    left, top, span_x, span_y = left - PADDING, top - PADDING, span_x + 2 * PADDING, span_y + 2 * PADDING
    first, last = camera.to_drawing(0, 0), camera.to_drawing(width, height)
    slack = NODE_WIDTH
    sees_all = first[0] <= left + slack and first[1] <= top + slack
    sees_all = sees_all and last[0] >= left + span_x - slack and last[1] >= top + span_y - slack
    room_x, room_y = min(LARGEST[0], width * SHARE), min(LARGEST[1], height * SHARE)
    if sees_all or min(room_x, room_y) < SMALLEST or span_x <= 0 or span_y <= 0:
        return None
    scale = min(room_x / span_x, room_y / span_y)
    area = QRectF(0, 0, max(span_x * scale, SMALLEST / 2), max(span_y * scale, SMALLEST / 2))
    area.moveLeft(MARGIN if corner % 2 else width - MARGIN - area.width())
    area.moveTop(MARGIN if corner >= 2 else height - MARGIN - area.height())
    seen = GraphCamera(scale).centred_on(left + span_x / 2, top + span_y / 2, area.width(), area.height())
    return GraphOverview(area, seen.moved(area.left(), area.top()))


def emptiest_corner(
    picture: GraphPicture, camera: GraphCamera, width: float, height: float, corner: int
) -> int:
    """Return a corner in which the map covers no box, `corner` if it is one, or if there is none."""
    for place in (corner, *(other for other in range(CORNERS) if other != corner)):
        overview = overview_of(picture, camera, width, height, place)
        if overview is None or not _covers_a_box(picture, camera, overview.area):
            return place
    return corner


def _covers_a_box(picture: GraphPicture, camera: GraphCamera, area: QRectF) -> bool:
    left, top = camera.to_drawing(area.left(), area.top())
    right, bottom = camera.to_drawing(area.right(), area.bottom())
    x, y = picture.layout.x, picture.layout.y
    across = (x > left - NODE_WIDTH / 2) & (x < right + NODE_WIDTH / 2)
    along = (y > top - NODE_HEIGHT / 2) & (y < bottom + NODE_HEIGHT / 2)
    return bool((across & along).any())


class OverviewMarks:
    """Draws the map; boxes are drawn once as marks into a picture, which is then copied."""

    def __init__(self, theme: Theme, picture: GraphPicture, overview: GraphOverview, ratio: float) -> None:
        self.key = overview, theme.name
        self._theme, self._layout, self._overview = theme, picture.layout, overview
        area, camera = overview.area, overview.camera
        self._marks = QPixmap((area.size() * ratio).toSize().expandedTo(QSize(1, 1)))
        self._marks.setDevicePixelRatio(ratio)
        self._marks.fill(theme.color("surface"))
        wide, high = max(NODE_WIDTH * camera.scale, 1.5), max(NODE_HEIGHT * camera.scale, 1.0)
        x = picture.layout.x * camera.scale + camera.offset_x - area.left() - wide / 2
        y = picture.layout.y * camera.scale + camera.offset_y - area.top() - high / 2
        # Boxes on the same pixel are drawn once, so that the cost depends on pixels, not on boxes.
        spots = np.stack([x, y], axis=1)
        places = np.unique(np.round(spots[~np.isnan(x)]), axis=0)
        painter = QPainter(self._marks)
        for place_x, place_y in places.tolist():
            painter.fillRect(QRectF(place_x, place_y, wide, high), theme.color("text-disabled"))
        painter.end()

    def paint(self, painter: QPainter, seen: QRectF, chosen: int) -> None:
        """Draw the map over a view, a frame around the visible part, a dot on the chosen box.

        seen  the visible rectangle of the drawing
        """
        area, camera, theme = self._overview.area, self._overview.camera, self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.drawPixmap(area.topLeft(), self._marks)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(theme.color("border"), 1))
        painter.drawRect(area)
        corner = QPointF(*camera.to_screen(seen.left(), seen.top()))
        far = QPointF(*camera.to_screen(seen.right(), seen.bottom()))
        painter.setPen(QPen(theme.color("accent"), 1.5))
        painter.drawRect(QRectF(corner, far).intersected(area))
        if 0 <= chosen < self._layout.num_boxes:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("accent"))
            spot = camera.to_screen(float(self._layout.x[chosen]), float(self._layout.y[chosen]))
            painter.drawEllipse(QPointF(*spot), 2.5, 2.5)
