"""Paint the rulers of a fabric's canvas, with columns and rows, and a small map of the whole grid."""

import math

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from npuviz.sim.fabric import Area, FabricShape
from npuviz.ui.fabric.camera import FabricCamera
from npuviz.ui.kit.colors import translucent
from npuviz.ui.kit.viewport import tick_step
from npuviz.ui.theme.theme import Theme

RULER_LEFT, RULER_TOP = 36, 18
TICK_PIXELS = 40
MAP_SIDE = 112.0
MAP_MARGIN = 10.0
MAP_BELOW = 0.75
"""The map appears when less than this of the columns or rows can be seen."""


def paint_rulers(
    painter: QPainter, theme: Theme, camera: FabricCamera, shape: FabricShape, width: int, height: int
) -> None:
    """Paint the rulers: columns and rows counted from the program's corner, as in the elements' names."""
    painter.fillRect(QRectF(0, 0, width, RULER_TOP), theme.color("surface"))
    painter.fillRect(QRectF(0, 0, RULER_LEFT, height), theme.color("surface"))
    painter.setFont(theme.font_mono(10))
    for column, x in _ticks(camera.x, camera.scale, width - RULER_LEFT, shape.columns, shape.program.column):
        painter.setPen(theme.color("text-muted"))
        area = QRectF(RULER_LEFT + x - 24, 0, 48, RULER_TOP - 2)
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, str(column))
    for row, y in _ticks(camera.y, camera.scale, height - RULER_TOP, shape.rows, shape.program.row):
        painter.setPen(theme.color("text-muted"))
        area = QRectF(0, RULER_TOP + y - 8, RULER_LEFT - 5, 16)
        painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, str(row))
    painter.fillRect(QRectF(0, 0, RULER_LEFT, RULER_TOP), theme.color("surface"))
    painter.setPen(QPen(theme.color("border"), 1))
    painter.drawLine(RULER_LEFT - 1, RULER_TOP - 1, width, RULER_TOP - 1)
    painter.drawLine(RULER_LEFT - 1, RULER_TOP - 1, RULER_LEFT - 1, height)


def _ticks(origin: float, scale: float, pixels: float, count: int, zero: int) -> list[tuple[int, float]]:
    """Return (number, pixel of the element's middle) of visible round numbers, counted from place `zero`."""
    step = max(tick_step(pixels / scale, pixels, TICK_PIXELS if scale < TICK_PIXELS / 2 else 22), 1)
    first = max(math.floor(origin), 0) - zero
    last = min(math.ceil(origin + pixels / scale), count) - zero
    begin = math.ceil(first / step) * step
    found = [(number, (number + zero + 0.5 - origin) * scale) for number in range(begin, last, step)]
    return [(number, x) for number, x in found if 0 <= x <= pixels]


def map_rectangle(camera: FabricCamera, shape: FabricShape, width: float, height: float) -> QRectF | None:
    """Return the rectangle of the map on a canvas of this size, None while most of the grid is visible."""
    seen_x, seen_y = width / camera.scale / shape.columns, height / camera.scale / shape.rows
    if min(seen_x, seen_y) >= MAP_BELOW or min(width, height) < 2.4 * MAP_SIDE:
        return None
    scale = MAP_SIDE / max(shape.columns, shape.rows)
    wide, tall = max(shape.columns * scale, 6.0), max(shape.rows * scale, 6.0)
    return QRectF(width - wide - MAP_MARGIN, height - tall - MAP_MARGIN, wide, tall)


def paint_map(
    painter: QPainter,
    theme: Theme,
    camera: FabricCamera,
    shape: FabricShape,
    size: tuple[float, float],
    marked: tuple[int, int] | None,
) -> None:
    """Paint the map: the grid as a rectangle, with the program, the visible part and the selected element."""
    box = map_rectangle(camera, shape, *size)
    if box is None:
        return
    scale = box.width() / shape.columns, box.height() / shape.rows

    def part(area: Area) -> QRectF:
        return QRectF(
            box.left() + area.column * scale[0],
            box.top() + area.row * scale[1],
            max(area.columns * scale[0], 2.0),
            max(area.rows * scale[1], 2.0),
        )

    painter.fillRect(box, translucent(theme.color("surface"), 235))
    painter.fillRect(part(shape.program), theme.color("hover"))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(theme.color("border"), 1))
    painter.drawRect(box)
    painter.setPen(QPen(theme.color("accent"), 1.5))
    painter.drawRect(part(camera.visible(shape, *size)))
    if marked is not None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("accent"))
        painter.drawEllipse(part(Area(*marked, 1, 1)).center(), 3, 3)


def place_on_map(box: QRectF, shape: FabricShape, spot: QPointF) -> tuple[float, float]:
    """Return the grid place under a pixel of the map."""
    return (
        (spot.x() - box.left()) / box.width() * shape.columns,
        (spot.y() - box.top()) / box.height() * shape.rows,
    )
