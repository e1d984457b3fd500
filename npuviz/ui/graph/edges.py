"""Draw the edges of an operator graph, and the shapes of the tensors on them."""

from itertools import pairwise

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

from npuviz.ui.graph.camera import GraphCamera
from npuviz.ui.graph.picture import GraphOverlay, GraphPicture
from npuviz.ui.theme.theme import SIZE_NOTE, Theme

MAX_CURVES = 1500
HEAD_SCALE = 0.3
"""From this scale on edges have arrow heads."""


class GraphEdgePainter:
    """Paints edges as straight lines from far, as curves with heads and shapes from near."""

    def __init__(self, theme: Theme, picture: GraphPicture, overlay: GraphOverlay) -> None:
        self._theme = theme
        self._picture = picture
        self._overlay = overlay

    def visible(self, camera: GraphCamera, width: int, height: int) -> np.ndarray:
        """Return the edges that may be visible in a widget of this size."""
        layout = self._picture.layout
        if not len(layout.source):
            return np.zeros(0, dtype=np.int64)
        left, top = camera.to_drawing(0, 0)
        right, bottom = camera.to_drawing(width, height)
        starts = layout.path_start[:-1]
        low = np.minimum.reduceat(layout.path_points, starts, axis=0)
        high = np.maximum.reduceat(layout.path_points, starts, axis=0)
        inside = (high[:, 0] >= left) & (low[:, 0] <= right) & (high[:, 1] >= top) & (low[:, 1] <= bottom)
        return np.flatnonzero(inside)

    def paint_lines(self, painter: QPainter, camera: GraphCamera, edges: np.ndarray) -> None:
        """Draw edges as straight lines; those on the same pixels only once."""
        layout = self._picture.layout
        ends = np.stack(
            [
                layout.x[layout.source[edges]],
                layout.y[layout.source[edges]],
                layout.x[layout.sink[edges]],
                layout.y[layout.sink[edges]],
            ],
            axis=1,
        )
        offset = np.array([camera.offset_x, camera.offset_y] * 2)
        pixels = np.unique((ends * camera.scale + offset).astype(np.int32), axis=0)
        painter.setPen(QPen(self._theme.color("border"), 1))
        painter.drawLines([QLineF(a, b, c, d) for a, b, c, d in pixels.tolist()])

    def paint_ways(self, painter: QPainter, camera: GraphCamera, edges: np.ndarray) -> None:
        """Draw edges as curves; those of the selection in the accent colour over the others."""
        layout = self._picture.layout
        chosen = self._overlay.selected
        marked = layout.tensor[edges] == self._overlay.tensor if self._overlay.tensor >= 0 else False
        marked |= (chosen >= 0) & ((layout.source[edges] == chosen) | (layout.sink[edges] == chosen))
        plain = edges[~marked] if isinstance(marked, np.ndarray) else edges
        is_curved = len(edges) <= MAX_CURVES
        self._paint_paths(painter, camera, plain, self._theme.color("guide"), 1.0, is_curved)
        if isinstance(marked, np.ndarray) and marked.any():
            self._paint_paths(painter, camera, edges[marked], self._theme.color("accent"), 2.0, is_curved)

    def _paint_paths(
        self,
        painter: QPainter,
        camera: GraphCamera,
        edges: np.ndarray,
        color: QColor,
        pen: float,
        curved: bool,
    ) -> None:
        path = QPainterPath()
        heads: list[QPolygonF] = []
        for edge in edges.tolist():
            points = [QPointF(*camera.to_screen(x, y)) for x, y in self._picture.layout.path(edge).tolist()]
            self._add_way(path, points, curved)
            if camera.scale > HEAD_SCALE:
                heads.append(self._head(points[-1], camera.scale))
        painter.setPen(QPen(color, pen))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(path)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        for head in heads:
            painter.drawPolygon(head)

    def _add_way(self, path: QPainterPath, points: list[QPointF], curved: bool) -> None:
        path.moveTo(points[0])
        is_right = self._picture.layout.direction == "right"
        for a, b in pairwise(points):
            if not curved or abs(a.x() - b.x()) < 1 or abs(a.y() - b.y()) < 1:
                path.lineTo(b)
            elif is_right:
                middle = (a.x() + b.x()) / 2
                path.cubicTo(middle, a.y(), middle, b.y(), b.x(), b.y())
            else:
                middle = (a.y() + b.y()) / 2
                path.cubicTo(a.x(), middle, b.x(), middle, b.x(), b.y())

    def _head(self, tip: QPointF, scale: float) -> QPolygonF:
        size = min(6.0, 7 * scale)
        if self._picture.layout.direction == "right":
            return QPolygonF(
                [
                    tip,
                    QPointF(tip.x() - size, tip.y() - size / 2),
                    QPointF(tip.x() - size, tip.y() + size / 2),
                ]
            )
        return QPolygonF(
            [tip, QPointF(tip.x() - size / 2, tip.y() - size), QPointF(tip.x() + size / 2, tip.y() - size)]
        )

    def paint_shapes(self, painter: QPainter, camera: GraphCamera, edges: np.ndarray) -> None:
        """Write the shapes of the tensors beside the edges, once for each source and tensor.

        Labels that would cover another one are left out.
        """
        painter.setFont(self._theme.font_mono(SIZE_NOTE))
        metrics = painter.fontMetrics()
        seen: set[tuple[int, int]] = set()
        taken: list[QRectF] = []
        layout = self._picture.layout
        for edge in edges.tolist():
            key = (int(layout.source[edge]), int(layout.tensor[edge]))
            if key in seen:
                continue
            seen.add(key)
            a, b = layout.path(edge)[:2].tolist()
            x, y = camera.to_screen((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
            label = self._picture.edge_labels[edge]
            width = metrics.horizontalAdvance(label) + 6
            if layout.direction == "right" and width > (b[0] - a[0]) * camera.scale + 4:
                continue  # there is no room between the boxes
            spot = QRectF(x - width / 2, y - metrics.height() / 2, width, metrics.height())
            if any(spot.intersects(other) for other in taken):
                continue
            taken.append(spot)
            background = self._theme.color("canvas")
            background.setAlphaF(0.85)
            painter.fillRect(spot, background)
            painter.setPen(self._theme.color("accent" if key[1] == self._overlay.tensor else "text-muted"))
            painter.drawText(spot, Qt.AlignmentFlag.AlignCenter, label)
