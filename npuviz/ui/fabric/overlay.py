"""Paint over the pixels of a fabric: heads of routes, words, the path of a word, outlines."""

import math
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPixmap, QPolygonF

from npuviz.sim.fabric import NUM_PORTS, PORT_STEPS, RAMP, FabricShape, Hop
from npuviz.ui.fabric.camera import FabricCamera
from npuviz.ui.fabric.frame import CELL_HALF, FabricFrame, waiting_together, word_places
from npuviz.ui.fabric.raster import draws_fine_words
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.kit.colors import translucent

ARROWS_FROM = 18.0
"""Pixels per element from which on routes have arrow heads."""
MAX_ARROWS = 3000
POSITION_FROM = 60.0
CYCLES_FROM = 44.0
"""Pixels per element from which on the hops of a followed word are labelled with cycles."""
COUNTS_FROM = 34.0
"""Pixels per element from which on the number of words that wait in one place is written."""
COUNT_HEIGHT = 12
MIN_OUTLINE = 7.0
MAX_MARKS = 1024


@dataclass(frozen=True, slots=True)
class FabricMarks:
    """Marked elements as (column, row), and the id of the marked word."""

    selected: tuple[int, int] | None = None
    hovered: tuple[int, int] | None = None
    word: int | None = None


class WordMarks:
    """Cache of pictures of words and of counts, because hundreds of equal ones are on a screen."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool, bool, float, float], QPixmap] = {}
        self._counts: dict[tuple[int, float], QPixmap] = {}

    def mark(
        self, style: FabricStyle, color: int, is_control: bool, waits: bool, radius: float, ratio: float
    ) -> QPixmap:
        """Return the picture of a word: a disc, a square with a dark edge if it waits, a diamond for
        control.
        """
        key = color, is_control, waits, radius, ratio
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= MAX_MARKS:
                self._made.clear()
            found = self._made[key] = _word_mark(style, color, is_control, waits, radius, ratio)
        return found

    def count(self, style: FabricStyle, number: int, ratio: float) -> QPixmap:
        """Return the picture of a number on a label."""
        found = self._counts.get((number, ratio))
        if found is None:
            if len(self._counts) >= MAX_MARKS:
                self._counts.clear()
            found = self._counts[number, ratio] = _count_label(style, number, ratio)
        return found


class FabricOverlay:
    """Draws one frame in the coordinates of the canvas: (0, 0) is its top left pixel."""

    def __init__(
        self,
        painter: QPainter,
        camera: FabricCamera,
        shape: FabricShape,
        style: FabricStyle,
        ratio: float,
        marks: WordMarks,
    ) -> None:
        self._marks = marks
        self._painter = painter
        self._camera = camera
        self._shape = shape
        self._style = style
        self._theme = style.theme
        self._ratio = ratio

    def paint_routes(self, routes: np.ndarray, color: int) -> None:
        """Draw the heads of a color's routes, which lie under the texts."""
        if self._camera.scale >= ARROWS_FROM:
            self._painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            self._arrows(routes[:MAX_ARROWS], self._style.color_of_route(color))
            self._painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def paint(self, frame: FabricFrame, marks: FabricMarks) -> None:
        """Draw everything that lies over the texts: program, path, words, outlines."""
        painter = self._painter
        self._program()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        if frame.path is not None and frame.path.hops:
            self._path(frame.path.hops)
        if frame.words is not None:
            self._words(frame, marks.word)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        if marks.hovered is not None and marks.hovered != marks.selected:
            self._outline(marks.hovered, self._theme.color("guide"), 1)
        if marks.selected is not None:
            self._outline(marks.selected, self._theme.color("accent"), 2)

    # -- parts ------------------------------------------------------------------------------------

    def _point(self, column: float, row: float) -> QPointF:
        return QPointF(*self._camera.to_screen(column, row))

    def _middle(self, column: int, row: int) -> QPointF:
        return self._point(column + 0.5, row + 0.5)

    def _program(self) -> None:
        """Outline the part of the grid that runs the program, unless it is the whole grid."""
        area = self._shape.program
        if area == self._shape.whole or not area.columns:
            return
        box = QRectF(
            self._point(area.column, area.row),
            self._point(area.column + area.columns, area.row + area.rows),
        )
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        self._painter.setPen(QPen(self._theme.color("text-muted"), 1, Qt.PenStyle.DashLine))
        self._painter.drawRect(box)

    def _outline(self, place: tuple[int, int], color: QColor, width: int) -> None:
        middle = self._middle(*place)
        # A smaller outline would be overlooked.
        half = max(self._camera.scale * (CELL_HALF + 0.04), MIN_OUTLINE / 2)
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        self._painter.setPen(QPen(color, width))
        self._painter.drawRect(QRectF(middle.x() - half, middle.y() - half, 2 * half, 2 * half))

    def _arrows(self, routes: np.ndarray, color: QColor) -> None:
        """Draw heads at the outputs, a disc where words go to the processor, a ring where they come from
        it.
        """
        painter, scale = self._painter, self._camera.scale
        size = min(max(scale * 0.11, 3.5), 8.0)
        usual = color
        for route in routes:
            color = self._theme.color("hazard") if route["closed"] else usual
            middle = self._middle(int(route["column"]), int(route["row"]))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            outputs, inputs = int(route["outputs"]), int(route["inputs"])
            for port in range(1, NUM_PORTS):
                if outputs >> port & 1:
                    step = QPointF(*PORT_STEPS[port])
                    _head(painter, middle + step * (scale * 0.5), step, size)
            if outputs >> RAMP & 1:
                painter.drawEllipse(middle, size * 0.65, size * 0.65)
            elif inputs >> RAMP & 1:
                painter.setPen(QPen(color, max(size * 0.3, 1.5)))
                painter.setBrush(self._style.canvas)
                painter.drawEllipse(middle, size * 0.65, size * 0.65)
            if scale >= POSITION_FROM and int(route["position"]) >= 0:
                painter.setFont(self._theme.font_ui(10))
                text = f"{int(route['position']) + 1}/{int(route['positions'])}"
                spot = middle + QPointF(size, size + 6)
                painter.setPen(self._theme.color("text"))
                painter.drawText(spot, text)

    def _words(self, frame: FabricFrame, chosen: int | None) -> None:
        assert frame.words is not None
        words, scale = frame.words, self._camera.scale
        is_fine = draws_fine_words(scale * self._ratio, len(words))
        if not is_fine and chosen is None:
            return
        if not is_fine:
            words = words[words["id"] == chosen]
        columns, rows = word_places(words, frame.cycle)
        together = waiting_together(words).tolist()
        radius = min(max(scale * 0.06, 3.0), 8.0)
        painter = self._painter
        text = self._theme.color("text")
        shown = zip(
            *(words[name].tolist() for name in ("id", "color", "control", "waits")),
            columns.tolist(),
            rows.tolist(),
            together,
            strict=True,
        )
        for word, color, is_control, waits, column, row, count in shown:
            if not count and word != chosen:
                continue
            spot = self._point(column, row)
            mark = self._marks.mark(self._style, color, is_control, waits, radius, self._ratio)
            half = mark.width() / self._ratio / 2
            painter.drawPixmap(QPointF(spot.x() - half, spot.y() - half), mark)
            if count > 1 and scale >= COUNTS_FROM:
                self._count(spot, count, radius)
            if word == chosen:
                painter.setBrush(Qt.BrushStyle.NoBrush)
                for pen, extra in ((QPen(self._style.canvas, 4), 4.0), (QPen(text, 2), 4.0)):
                    painter.setPen(pen)
                    painter.drawEllipse(spot, radius + extra, radius + extra)

    def _count(self, spot: QPointF, count: int, radius: float) -> None:
        """Draw the number of words that wait in one place."""
        label = self._marks.count(self._style, count, self._ratio)
        # On whole pixels, which keep the digits sharp.
        self._painter.drawPixmap(round(spot.x() + radius + 1), round(spot.y() - COUNT_HEIGHT / 2), label)

    def _path(self, hops: tuple[Hop, ...]) -> None:
        """Draw the path of the followed word: a line from element to element, with the cycles that passed."""
        painter, scale = self._painter, self._camera.scale
        width = min(max(scale * 0.07, 2.0), 5.0)
        color = self._theme.color("bookmark")
        lines = [
            (self._middle(hop.column, hop.row), QPointF(*PORT_STEPS[hop.port]) * scale)
            for hop in hops
            if hop.port != RAMP
        ]
        for pen in (QPen(translucent(self._style.canvas, 200), width + 3), QPen(color, width)):
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            painter.setPen(pen)
            for start, way in lines:
                painter.drawLine(start, start + way)
        for hop in hops:
            self._stage(hop, color, width)
        if scale >= CYCLES_FROM:
            self._cycles(hops, color)

    def _stage(self, hop: Hop, color: QColor, width: float) -> None:
        """Draw a ring where the word was sent, a disc where it was taken, a cross where it was dropped."""
        painter, middle = self._painter, self._middle(hop.column, hop.row)
        size = width * 1.6 + 2
        if hop.kind == "sent":
            painter.setPen(QPen(color, width))
            painter.setBrush(self._style.canvas)
            painter.drawEllipse(middle, size, size)
        elif hop.kind == "taken":
            painter.setPen(QPen(self._style.canvas, 1.5))
            painter.setBrush(color)
            painter.drawEllipse(middle, size, size)
        elif hop.kind == "dropped":
            painter.setPen(QPen(self._theme.color("hazard"), width))
            for dx in (size, -size):
                painter.drawLine(middle + QPointF(-dx, -size), middle + QPointF(dx, size))

    def _cycles(self, hops: tuple[Hop, ...], color: QColor) -> None:
        """Write the cycles since the word was sent beside every element on its path."""
        painter, scale = self._painter, self._camera.scale
        painter.setFont(self._theme.font_ui(10, bold=True))
        metrics = painter.fontMetrics()
        for hop in hops:
            text = f"+{hop.cycle - hops[0].cycle}" if hop.kind != "sent" else f"cycle {hop.cycle}"
            if hop.waited:
                text += f"  waited {hop.waited}"
            middle = self._middle(hop.column, hop.row)
            room = metrics.horizontalAdvance(text) + 6
            if room > scale and hop.kind != "sent":
                text = text.partition("  ")[0]
                room = metrics.horizontalAdvance(text) + 6
            # Beside a line that goes down, over one that goes across.
            below = 5 if hop.kind == "taken" else -20
            # The element that sent the word may have two labels, so that of sending is at the left.
            left = middle.x() - 7 - room if hop.kind == "sent" else middle.x() + 7
            box = QRectF(left, middle.y() + below, room, 14)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(translucent(self._style.canvas, 210))
            painter.drawRoundedRect(box, 3, 3)
            painter.setPen(self._theme.color("warning") if hop.waited else color)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)


def _word_mark(
    style: FabricStyle, color: int, is_control: bool, waits: bool, radius: float, ratio: float
) -> QPixmap:
    side = 2 * (radius * 1.35 + 2)
    found = QPixmap(math.ceil(side * ratio), math.ceil(side * ratio))
    found.setDevicePixelRatio(ratio)
    found.fill(Qt.GlobalColor.transparent)
    painter = QPainter(found)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setBrush(style.color_of_route(color))
    painter.setPen(QPen(style.theme.color("text"), 1.4) if waits else QPen(style.canvas, 1.2))
    middle = found.width() / ratio / 2
    spot = QPointF(middle, middle)
    if is_control:
        painter.drawPolygon(_diamond(spot, radius * 1.35))
    elif waits:
        painter.drawRect(QRectF(middle - radius, middle - radius, 2 * radius, 2 * radius))
    else:
        painter.drawEllipse(spot, radius, radius)
    painter.end()
    return found


def _count_label(style: FabricStyle, number: int, ratio: float) -> QPixmap:
    text, font = str(number), style.theme.font_ui(10, bold=True)
    box = QRectF(0, 0, QFontMetrics(font).horizontalAdvance(text) + 4, COUNT_HEIGHT)
    found = QPixmap(math.ceil(box.width() * ratio), math.ceil(box.height() * ratio))
    found.setDevicePixelRatio(ratio)
    found.fill(Qt.GlobalColor.transparent)
    painter = QPainter(found)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setFont(font)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(translucent(style.canvas, 190))
    painter.drawRoundedRect(box, 3, 3)
    painter.setPen(style.theme.color("text"))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
    painter.end()
    return found


def _head(painter: QPainter, tip: QPointF, step: QPointF, size: float) -> None:
    """Draw an arrow head with its tip at a place, pointing along `step`."""
    across = QPointF(-step.y(), step.x())
    painter.drawPolygon(QPolygonF([tip, tip - step * size + across * size * 0.6,
                                   tip - step * size - across * size * 0.6]))  # fmt: skip


def _diamond(spot: QPointF, size: float) -> QPolygonF:
    return QPolygonF(
        [spot + QPointF(0, -size), spot + QPointF(size, 0), spot + QPointF(0, size), spot + QPointF(-size, 0)]
    )
