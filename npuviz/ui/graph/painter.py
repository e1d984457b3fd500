"""Draw the visible part of an operator graph in as much detail as the scale allows."""

import math

import numpy as np
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QLinearGradient, QPainter, QPainterPath, QPen

from npuviz.base.units import format_count, format_share
from npuviz.ui.graph.camera import GraphCamera
from npuviz.ui.graph.edges import GraphEdgePainter
from npuviz.ui.graph.layout import NODE_HEIGHT, NODE_WIDTH, TERMINAL_HEIGHT
from npuviz.ui.graph.picture import GraphOverlay, GraphPicture
from npuviz.ui.kit.elided_label import elided
from npuviz.ui.theme.theme import SIZE_BODY, SIZE_NOTE, Theme

TEXT_SCALE = 0.68
"""Smallest scale at which labels are drawn."""
BOX_SCALE = 0.14
"""Below this scale boxes are plain blocks and edges straight lines."""
SHAPE_SCALE = 0.8
ROOM = 120
"""Pixels that an edge's label may reach beyond its path."""


class GraphPainter:
    """Paints with one picture and one overlay; holds no state of the view."""

    def __init__(self, theme: Theme, picture: GraphPicture, overlay: GraphOverlay) -> None:
        self._theme = theme
        self._picture = picture
        self._overlay = overlay
        self._edges = GraphEdgePainter(theme, picture, overlay)
        self._palette: dict[str, QColor] = {}

    def paint(
        self, painter: QPainter, camera: GraphCamera, width: int, height: int, area: QRect | None = None
    ) -> None:
        """Fill a widget of this size, or only an area of it that the painter is clipped to."""
        area = area or QRect(0, 0, width, height)
        painter.fillRect(area, self._theme.color("canvas"))
        seen = camera.moved(-area.x(), -area.y())
        boxes = self._visible_boxes(seen, area.width(), area.height())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, camera.scale >= BOX_SCALE)
        edges = self._edges.visible(seen.moved(ROOM, ROOM), area.width() + 2 * ROOM, area.height() + 2 * ROOM)
        if camera.scale < BOX_SCALE:
            self._edges.paint_lines(painter, camera, edges)
            self._paint_blocks(painter, camera, boxes)
            self._paint_far_marks(painter, camera)
            self._paint_legend(painter, height)
            return
        self._edges.paint_ways(painter, camera, edges)
        for box in boxes.tolist():
            self._paint_box(painter, camera, box)
        if camera.scale >= SHAPE_SCALE:
            self._edges.paint_shapes(painter, camera, edges)
        self._paint_legend(painter, height)

    # -- what can be seen -------------------------------------------------------------------------

    def _visible_boxes(self, camera: GraphCamera, width: int, height: int) -> np.ndarray:
        layout = self._picture.layout
        left, top = camera.to_drawing(0, 0)
        right, bottom = camera.to_drawing(width, height)
        # Repainting one box clears 4 pixels around it, where a neighbour's outline may be.
        room = 8 * max(1.0, 1 / camera.scale)
        half_x, half_y = NODE_WIDTH / 2 + room, NODE_HEIGHT / 2 + room
        inside = (layout.x > left - half_x) & (layout.x < right + half_x)
        inside &= (layout.y > top - half_y) & (layout.y < bottom + half_y)
        return np.flatnonzero(inside)

    # -- far away -----------------------------------------------------------------------------------

    def _paint_blocks(self, painter: QPainter, camera: GraphCamera, boxes: np.ndarray) -> None:
        layout = self._picture.layout
        width, height = max(2.0, NODE_WIDTH * camera.scale), max(1.0, NODE_HEIGHT * camera.scale)
        x = (layout.x[boxes] * camera.scale + camera.offset_x).astype(np.int32)
        y = (layout.y[boxes] * camera.scale + camera.offset_y).astype(np.int32)
        # Of several boxes on one pixel only the first is drawn.
        _, kept = np.unique(np.stack([x // max(1, int(width / 2)), y], axis=1), axis=0, return_index=True)
        groups: dict[int, list[QRectF]] = {}
        for place in kept.tolist():
            color = self._box_color(int(boxes[place])).rgb()
            spot = QRectF(float(x[place]) - width / 2, float(y[place]) - height / 2, width, height)
            groups.setdefault(color, []).append(spot)
        painter.setPen(Qt.PenStyle.NoPen)
        for color, rects in groups.items():
            painter.setBrush(QColor.fromRgb(color))
            painter.drawRects(rects)

    def _paint_far_marks(self, painter: QPainter, camera: GraphCamera) -> None:
        """Outline selected, active and found boxes, so that they stay visible however small they are."""
        marks = [(box, "accent") for box in self._overlay.found]
        marks += [(box, "cursor") for box in self._overlay.active]
        marks += [(self._overlay.selected, "accent")] if self._overlay.selected >= 0 else []
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for box, role in marks:
            spot = self.box_rect(camera, box)
            room = max(3.0, 6 - spot.height() / 2)
            painter.setPen(QPen(self._theme.color(role), 2))
            painter.drawRect(spot.adjusted(-room, -room, room, room))

    def _paint_legend(self, painter: QPainter, height: int) -> None:
        """Draw the legend of the heat colours with its numbers."""
        if self._overlay.heat is None:
            return
        theme = self._theme
        painter.setFont(theme.font_ui(SIZE_NOTE))
        most = f"{format_count(self._overlay.heat_most)} unit cycles"
        box = QRectF(8, height - 40, max(140, painter.fontMetrics().horizontalAdvance(most) + 32), 32)
        background = theme.color("raised")
        background.setAlphaF(0.92)
        painter.fillRect(box, background)
        bar = QRectF(box.left() + 8, box.top() + 5, box.width() - 16, 7)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for step in range(9):
            # Colours depend on the square root of the cycles, so that short operators differ, too.
            gradient.setColorAt((step / 8) ** 2, theme.heat_color(step / 8))
        painter.fillRect(bar, gradient)
        painter.setPen(theme.color("text-muted"))
        text = QRectF(bar.left(), bar.bottom() + 1, bar.width(), 16)
        painter.drawText(text, Qt.AlignmentFlag.AlignLeft, "0")
        painter.drawText(text, Qt.AlignmentFlag.AlignRight, most)

    # -- boxes ------------------------------------------------------------------------------------------

    def box_rect(self, camera: GraphCamera, box: int) -> QRectF:
        """Return the rectangle of a box in the widget."""
        layout = self._picture.layout
        x, y = camera.to_screen(float(layout.x[box]), float(layout.y[box]))
        height = (NODE_HEIGHT if box < layout.num_nodes else TERMINAL_HEIGHT) * camera.scale
        width = NODE_WIDTH * camera.scale
        return QRectF(x - width / 2, y - height / 2, width, height)

    def _box_color(self, box: int) -> QColor:
        if box >= self._picture.layout.num_nodes:
            return self._theme.color("text-disabled")
        heat = self._overlay.heat
        if heat is not None and box < len(heat):
            return self._theme.heat_color(float(heat[box])) if heat[box] > 0 else self._theme.color("border")
        op_type = self._picture.op_types[box]
        if op_type not in self._palette:
            self._palette[op_type] = self._theme.operator_color(op_type)
        return self._palette[op_type]

    def _paint_box(self, painter: QPainter, camera: GraphCamera, box: int) -> None:
        theme, overlay = self._theme, self._overlay
        rect, color = self.box_rect(camera, box), self._box_color(box)
        is_node = box < self._picture.layout.num_nodes
        progress = self._progress(box)
        is_dim = 0 <= progress < 1 and progress == 0 and box not in overlay.active
        radius = (5 if is_node else TERMINAL_HEIGHT / 2) * camera.scale
        path = QPainterPath()
        path.addRoundedRect(rect, radius, radius)
        if box in self._picture.folded:
            self._paint_stack(painter, rect, color, camera.scale)
        painter.fillPath(path, theme.color("surface"))
        tint = QColor(color)
        tint.setAlphaF(0.85 if overlay.heat is not None and is_node else 0.12 if is_dim else 0.3)
        painter.fillPath(path, tint)
        if is_node:
            self._paint_stripe(painter, rect, path, color, camera.scale)
        if progress > 0:
            self._paint_progress(painter, rect, path, progress, box in overlay.active, camera.scale)
        painter.setPen(self._outline(box, color, is_dim))
        painter.setBrush(QBrush(Qt.BrushStyle.NoBrush))
        painter.drawPath(path)
        if box in overlay.found and box != overlay.selected:
            painter.setPen(QPen(theme.color("bookmark"), 2))
            painter.drawPath(path)
        if camera.scale >= TEXT_SCALE:
            self._paint_labels(painter, rect, camera.scale, box, is_dim)

    def _paint_stack(self, painter: QPainter, rect: QRectF, color: QColor, scale: float) -> None:
        """Draw a second box behind that of a group."""
        offset = min(3.0, 4 * scale)
        behind = rect.translated(offset, offset)
        painter.setBrush(self._theme.color("surface"))
        outline = QColor(color)
        outline.setAlphaF(0.6)
        painter.setPen(QPen(outline, 1))
        painter.drawRoundedRect(behind, 5 * scale, 5 * scale)

    def _progress(self, box: int) -> float:
        progress = self._overlay.progress
        return float(progress[box]) if progress is not None and box < len(progress) else -1.0

    def _outline(self, box: int, color: QColor, is_dim: bool) -> QPen:
        if box == self._overlay.selected:
            return QPen(self._theme.color("accent"), 2.5)
        if box in self._picture.estimated:
            return QPen(self._theme.color("estimated"), 1.5, Qt.PenStyle.DotLine)
        if box in self._overlay.active:
            return QPen(self._theme.color("cursor"), 2)
        if box == self._overlay.hovered:
            return QPen(self._theme.color("text"), 1.2)
        outline = QColor(color)
        outline.setAlphaF(0.4 if is_dim else 0.9)
        return QPen(outline, 1)

    def _paint_stripe(
        self, painter: QPainter, rect: QRectF, clip: QPainterPath, color: QColor, scale: float
    ) -> None:
        painter.save()
        painter.setClipPath(clip)
        painter.fillRect(QRectF(rect.left(), rect.top(), max(2.0, 5 * scale), rect.height()), color)
        painter.restore()

    def _paint_progress(
        self, painter: QPainter, rect: QRectF, clip: QPainterPath, progress: float, active: bool, scale: float
    ) -> None:
        """Draw a bar along the lower border, full when every instruction has retired."""
        height = max(2.0, 4 * scale)
        painter.save()
        painter.setClipPath(clip)
        bar = QRectF(rect.left(), rect.bottom() - height, rect.width(), height)
        painter.fillRect(bar, self._theme.color("border"))
        color = self._theme.color("cursor" if progress < 1 or active else "ok")
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width() * progress, height), color)
        painter.restore()

    def _paint_labels(self, painter: QPainter, rect: QRectF, scale: float, box: int, is_dim: bool) -> None:
        theme, picture = self._theme, self._picture
        is_node = box < picture.layout.num_nodes
        inner = rect.adjusted((12 if is_node else 8) * scale, 3 * scale, -7 * scale, -5 * scale)
        size = min(SIZE_BODY * 1.4, max(8.0, SIZE_BODY * scale))
        painter.setFont(theme.font_ui(round(size), bold=is_node))
        painter.setPen(self._label_color(box, "text-muted" if is_dim or not is_node else "text"))
        if not is_node:
            text = f"{picture.subtitles[box]}  {picture.titles[box]}"
            text = elided(painter.fontMetrics(), text, int(rect.width() - 12 * scale))
            painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)
            return
        state = self._state_text(box)
        title = picture.titles[box]
        font, metrics = painter.font(), painter.fontMetrics()
        room = inner.width() - metrics.horizontalAdvance(title) - 6 * scale
        painter.setFont(theme.font_ui(round(min(SIZE_NOTE * 1.4, max(8.0, SIZE_NOTE * scale)))))
        painter.setPen(self._label_color(box, "text-muted"))
        right = picture.badges.get(box, "")
        note = "  ".join(part for part in (right, state) if part)
        if painter.fontMetrics().horizontalAdvance(note) > room:
            # The badge is left out before it would cover the title.
            note = state
        painter.drawText(inner, _TOP_RIGHT, note)
        taken = painter.fontMetrics().horizontalAdvance(note) + 6 * scale if note else 0.0
        name = elided(painter.fontMetrics(), picture.subtitles[box], max(0, int(inner.width())))
        painter.drawText(inner, _BOTTOM_LEFT, name)
        painter.setFont(font)
        painter.setPen(self._label_color(box, "text-muted" if is_dim else "text"))
        whole = metrics.elidedText(
            title, Qt.TextElideMode.ElideRight, max(0, math.ceil(inner.width() - taken))
        )
        painter.drawText(inner, _TOP_LEFT, whole)

    def _label_color(self, box: int, role: str) -> QColor:
        if self._overlay.heat is not None and box < self._picture.layout.num_nodes:
            return self._theme.text_on(self._box_color(box))
        return self._theme.color(role)

    def _state_text(self, box: int) -> str:
        progress = self._progress(box)
        if progress >= 1:
            return "\u2713"
        if progress > 0:
            return format_share(max(1, int(progress * 100)) / 100, 0)
        return "\u25b6" if box in self._overlay.active else ""


_TOP_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop
_TOP_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop
_BOTTOM_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
