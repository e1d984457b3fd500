"""The picture of the floorplan: units and memories to scale, their states, utilisation and fill levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetrics,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QWidget

from npuviz.base.names import fitting
from npuviz.base.units import format_bytes, format_count, format_share
from npuviz.sim.description import Box, Link
from npuviz.sim.machine import UnitState
from npuviz.trace.schema import Role
from npuviz.ui.kit.colors import HATCH_BRUSHES, STALL_SHARE, blended, translucent
from npuviz.ui.kit.gestures import Canvas
from npuviz.ui.kit.trace_facts import BUSY_MEANS
from npuviz.ui.theme.theme import Theme

MARGIN = 16
ROLES = frozenset(get_args(Role))
NARROW_PIXELS = 52
BAR_HEIGHT = 4
TITLE_SIZE, SMALLEST_TITLE, TITLE_GAP = 11, 8, 2
"""Pixels of the letters of a group's label where there is room, where it is left out, and around them."""
FEWEST = 4
"""Fewest letters beside an ellipsis that are worth showing."""
MAX_TOLD = 24
"""Most boxes that the text for screen readers names."""
MANY_LINKS = 24
"""With more links than this they are drawn as a bundle, without heads."""


@dataclass(frozen=True)
class FloorplanData:
    """What a floorplan shows besides its boxes, by unit and memory id.

    states       state of each unit
    utilization  busy share of a unit, 0..1, counted over `span`
    fills        (used bytes, size in bytes) of a memory
    estimated    units whose durations are assumptions
    """

    states: Mapping[int, UnitState] = field(default_factory=dict[int, UnitState])
    utilization: Mapping[int, float] = field(default_factory=dict[int, float])
    fills: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    unit_names: Mapping[int, str] = field(default_factory=dict[int, str])
    span: str = "since the start"
    estimated: frozenset[int] = frozenset()


class FloorplanView(Canvas):
    """Draws the boxes of a machine.

    unit_chosen, memory_chosen  id of the unit or memory that was clicked
    """

    unit_chosen = Signal(int)
    memory_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "floorplan.view", "Floorplan", parent)
        self._boxes: tuple[Box, ...] = ()
        self._links: tuple[Link, ...] = ()
        self._data = FloorplanData()
        self._unit = -1
        self._memory = -1

    def sizeHint(self) -> QSize:
        return QSize(360, 260)

    def summary(self) -> str:
        shown = [box for box in self._boxes if box.unit >= 0 or box.memory >= 0]
        is_chosen = [box for box in shown if box.unit >= 0 and box.unit == self._unit]
        is_chosen += [box for box in shown if box.memory >= 0 and box.memory == self._memory]
        chosen = [f"selected: {self._box_text(box)}" for box in is_chosen[:1]]
        return "; ".join([*chosen, *(self._box_text(box) for box in shown[:MAX_TOLD])])

    def _box_text(self, box: Box) -> str:
        """Return the name of a box with its state or fill level."""
        state = self._data.states.get(box.unit) if box.unit >= 0 else None
        name = self._data.unit_names.get(box.unit, box.label)
        if box.memory in self._data.fills and box.memory >= 0:
            used, size = self._data.fills[box.memory]
            return f"{name} holds {format_bytes(used)} of {format_bytes(size)}"
        return f"{name} {state.status}".strip() if state is not None else name

    def set_boxes(self, boxes: Sequence[Box], links: Sequence[Link]) -> None:
        """Show another machine."""
        self._boxes, self._links = tuple(boxes), tuple(links)
        self.update()

    def set_data(self, data: FloorplanData) -> None:
        """Show other numbers."""
        if data != self._data:
            self._data = data
            self.update()

    def set_chosen(self, unit: int, memory: int) -> None:
        """Outline a unit or a memory, -1 for none."""
        self._unit, self._memory = unit, memory
        self.update()

    # -- geometry ---------------------------------------------------------------------------------------

    def area_of(self, box: Box) -> QRectF:
        """Return the rectangle of a box: to scale, as large as fits, centred."""
        left = min(b.x for b in self._boxes)
        top = min(b.y for b in self._boxes)
        width = max(b.x + b.width for b in self._boxes) - left
        height = max(b.y + b.height for b in self._boxes) - top
        room_x, room_y = max(self.width() - 2 * MARGIN, 1), max(self.height() - 2 * MARGIN, 1)
        scale = min(room_x / max(width, 1e-9), room_y / max(height, 1e-9))
        # A little stretch uses the room without making squares unrecognisable.
        scale_x = min(scale * 1.6, room_x / max(width, 1e-9))
        scale_y = min(scale * 1.6, room_y / max(height, 1e-9))
        origin_x = (self.width() - width * scale_x) / 2
        origin_y = (self.height() - height * scale_y) / 2
        return QRectF(
            origin_x + (box.x - left) * scale_x,
            origin_y + (box.y - top) * scale_y,
            box.width * scale_x,
            box.height * scale_y,
        )

    def box_at(self, point: QPointF) -> Box | None:
        """Return the smallest box at a point, None if there is none; boxes may be inside others."""
        under = [box for box in self._boxes if self.area_of(box).contains(point)]
        return min(under, key=lambda box: box.width * box.height) if under else None

    # -- painting ---------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("surface"))
        if self._boxes:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            order = sorted(self._boxes, key=lambda box: -box.width * box.height)
            frames = [box for box in order if box.unit < 0 and box.memory < 0]
            for box in frames:
                self._paint_frame(painter, box)
            self._paint_links(painter)
            for box in frames:
                self._paint_title(painter, box)
            for box in order:
                if box.unit >= 0 or box.memory >= 0:
                    self._paint_box(painter, box)
        painter.end()

    def _paint_frame(self, painter: QPainter, box: Box) -> None:
        """Paint the frame of a box that encloses a group of others."""
        painter.setPen(QPen(self._theme.color("border"), 1))
        painter.setBrush(self._theme.color("canvas"))
        painter.drawRoundedRect(self.area_of(box), 6, 6)

    def _paint_title(self, painter: QPainter, box: Box) -> None:
        """Paint the label of a frame above the boxes inside, smaller where they leave less room."""
        area = self.area_of(box)
        inside = [self.area_of(each).top() for each in self._boxes if _is_inside(each, box)]
        room = min(inside, default=area.bottom()) - area.top()
        size = int(min(TITLE_SIZE, room - 2 * TITLE_GAP))
        if size < SMALLEST_TITLE:
            return
        painter.setFont(self._theme.font_ui(size, bold=True))
        painter.setPen(self._theme.color("text-muted"))
        place = QRectF(area.left() + 8, area.top(), area.width() - 16, min(room, 2 * TITLE_SIZE))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, box.label)

    def _paint_links(self, painter: QPainter) -> None:
        by_unit: dict[int, Box] = {}
        for box in self._boxes:
            if box.unit >= 0:
                by_unit.setdefault(box.unit, box)
        for link in self._links:
            source, sink = by_unit.get(link.source), by_unit.get(link.sink)
            if source is not None and sink is not None and source is not sink:
                self._paint_link(painter, self.area_of(source), self.area_of(sink))

    def _paint_link(self, painter: QPainter, source: QRectF, sink: QRectF) -> None:
        """Draw a link from the edge of one box to the nearest edge of the other."""
        start, end = _ends(source, sink)
        is_bundle = len(self._links) > MANY_LINKS
        color = self._theme.color("border" if is_bundle else "text-disabled")
        painter.setPen(QPen(color, 1.0 if is_bundle else 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        path = QPainterPath(start)
        path.lineTo(end)
        painter.drawPath(path)
        if is_bundle:
            return
        direction = end - start
        length = max((direction.x() ** 2 + direction.y() ** 2) ** 0.5, 1e-6)
        along = direction / length
        across = QPointF(-along.y(), along.x())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawPolygon(QPolygonF([end, end - along * 7 + across * 3.5, end - along * 7 - across * 3.5]))

    def _paint_box(self, painter: QPainter, box: Box) -> None:
        theme = self._theme
        area = self.area_of(box)
        state = self._data.states.get(box.unit) if box.unit >= 0 else None
        base = theme.color("raised")
        path = QPainterPath()
        path.addRoundedRect(area, 4, 4)
        painter.fillPath(path, base)
        text_color = theme.color("text")
        if state is not None and state.role in ROLES:
            role = theme.color(state.role)
            waits = state.role.startswith("wait-")
            fill = blended(base, role, STALL_SHARE) if waits else role
            painter.fillPath(path, fill)
            angle = theme.hatch_angle(state.role)
            if waits and angle is not None:
                painter.fillPath(path, QBrush(translucent(role, 150), HATCH_BRUSHES[angle]))
            text_color = theme.color("text") if waits else theme.text_on(fill)
        is_chosen = (box.unit >= 0 and box.unit == self._unit) or (
            box.memory >= 0 and box.memory == self._memory
        )
        painter.setBrush(Qt.BrushStyle.NoBrush)
        pen = QPen(theme.color("text" if is_chosen else "border"), 2 if is_chosen else 1)
        if box.unit in self._data.estimated:
            # A dotted outline marks estimated units.
            pen = QPen(theme.color("text" if is_chosen else "estimated"), 2 if is_chosen else 1.4)
            pen.setDashPattern([1.5, 2])
        painter.setPen(pen)
        painter.drawPath(path)
        padding = min(8.0, area.width() * 0.1)
        inner = area.adjusted(padding, 5, -padding, -5)
        has_bar = box.unit in self._data.utilization or box.memory in self._data.fills
        if has_bar and inner.height() > 22 and inner.width() > 24:
            self._paint_bar(painter, box, inner, text_color)
            inner.setBottom(inner.bottom() - BAR_HEIGHT - 4)
        self._paint_text(painter, box, state, inner, text_color)

    def _paint_bar(self, painter: QPainter, box: Box, inner: QRectF, text_color: QColor) -> None:
        """Paint a bar: the utilisation of a unit, or the fill level of a memory."""
        theme = self._theme
        fraction = self._data.utilization.get(box.unit, 0.0) if box.unit >= 0 else 0.0
        if box.memory >= 0:
            used, size = self._data.fills.get(box.memory, (0, 1))
            fraction = used / max(size, 1)
        bar = QRectF(inner.left(), inner.bottom() - BAR_HEIGHT, inner.width(), BAR_HEIGHT)
        painter.fillRect(bar, translucent(theme.color("canvas"), 130))
        fill = theme.heat_color(0.3 + 0.65 * min(fraction, 1.0)) if box.memory >= 0 else text_color
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width() * min(fraction, 1.0), BAR_HEIGHT), fill)

    def _paint_text(
        self, painter: QPainter, box: Box, state: UnitState | None, inner: QRectF, color: QColor
    ) -> None:
        if inner.width() < 18 or inner.height() < 9:
            return
        painter.setPen(color)
        lines = [box.label]
        if state is not None and state.status:
            lines.append(state.status)
        if box.unit in self._data.utilization and box.unit >= 0:
            lines.append(format_share(self._data.utilization[box.unit], 0))
        if box.memory in self._data.fills and box.memory >= 0:
            used, size = self._data.fills[box.memory]
            lines.append(f"{format_bytes(used)} of {format_bytes(size)}")
        if inner.width() < NARROW_PIXELS < inner.height():
            # Narrow boxes carry their name upright.
            painter.save()
            painter.translate(inner.center())
            painter.rotate(-90)
            inner = QRectF(-inner.height() / 2, -inner.width() / 2, inner.height(), inner.width())
            self._paint_lines(painter, lines, inner)
            painter.restore()
        else:
            self._paint_lines(painter, lines, inner)

    def _paint_lines(self, painter: QPainter, lines: Sequence[str], inner: QRectF) -> None:
        """Paint centred lines, as many as fit; a name that does not fit is reduced to its last word."""
        line_height = 15
        shown = lines[: max(int(inner.height() / line_height), 1)]
        top = inner.top() + max((inner.height() - line_height * len(shown)) / 2, 0)
        for number, line in enumerate(shown):
            painter.setFont(self._theme.font_ui(12 if number == 0 else 11, bold=number == 0))
            text = _fitted(painter.fontMetrics(), line, inner.width(), is_name=number == 0)
            row = QRectF(inner.left(), top + number * line_height, inner.width(), line_height)
            painter.drawText(row, Qt.AlignmentFlag.AlignCenter, text)

    # -- pointing ---------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        box = self.box_at(event.position())
        if event.button() != Qt.MouseButton.LeftButton or box is None:
            return
        if box.unit >= 0:
            self.unit_chosen.emit(box.unit)
        elif box.memory >= 0:
            self.memory_chosen.emit(box.memory)

    def tip_at(self, spot: QPointF) -> str:
        box = self.box_at(spot)
        return "" if box is None else self.tooltip(box)

    def tooltip(self, box: Box) -> str:
        """Describe a box and its state in lines of text."""
        lines = [self._data.unit_names.get(box.unit, box.label)]
        state = self._data.states.get(box.unit) if box.unit >= 0 else None
        if state is not None:
            lines.append(state.status)
            if state.detail:
                lines.append(f"why: {state.detail}" if state.role.startswith("wait-") else state.detail)
            if state.since >= 0:
                lines.append(f"since cycle {format_count(state.since)}")
        if box.unit in self._data.estimated:
            lines.append("\u2248 estimated: its durations are assumptions")
        if box.unit in self._data.utilization and box.unit >= 0:
            lines.append(f"{format_share(self._data.utilization[box.unit])} busy {self._data.span}")
            lines.append(BUSY_MEANS)
        if box.memory in self._data.fills and box.memory >= 0:
            used, size = self._data.fills[box.memory]
            lines.append(f"{format_bytes(used)} of {format_bytes(size)}")
        return "\n".join(lines[:6])


def _is_inside(box: Box, frame: Box) -> bool:
    """Whether a box lies inside of another one, of which it may be the larger part."""
    is_within = frame.x <= box.x < frame.x + frame.width and frame.y <= box.y < frame.y + frame.height
    return is_within and box is not frame


def _fitted(metrics: QFontMetrics, text: str, room: float, is_name: bool) -> str:
    """Shorten a text to the room, to "" if too little would be left; a name keeps at least its beginning."""

    def fits(each: str) -> bool:
        return metrics.horizontalAdvance(each) <= room

    if not is_name:
        # The used size is kept rather than the total: "5 KiB of 32 MiB" becomes "5 KiB".
        used = text.partition(" of ")[0]
        return text if fits(text) else fitting(used, fits, FEWEST)
    shown = fitting(text if fits(text) else text.split()[-1], fits, FEWEST)
    while not shown and text:
        text = text[:-1]
        shown = text if fits(text) else ""
    return shown


def _ends(source: QRectF, sink: QRectF) -> tuple[QPointF, QPointF]:
    """Return start and end of a link between two boxes: horizontal or vertical where they overlap."""
    top, bottom = max(source.top(), sink.top()), min(source.bottom(), sink.bottom())
    left, right = max(source.left(), sink.left()), min(source.right(), sink.right())
    if bottom > top:
        y = (top + bottom) / 2
        if source.center().x() < sink.center().x():
            return QPointF(source.right(), y), QPointF(sink.left(), y)
        return QPointF(source.left(), y), QPointF(sink.right(), y)
    if right > left:
        x = (left + right) / 2
        if source.center().y() < sink.center().y():
            return QPointF(x, source.bottom()), QPointF(x, sink.top())
        return QPointF(x, source.top()), QPointF(x, sink.bottom())
    start = QPointF(_nearest(sink.center().x(), source.left(), source.right()),
                    _nearest(sink.center().y(), source.top(), source.bottom()))  # fmt: skip
    end = QPointF(_nearest(start.x(), sink.left(), sink.right()),
                  _nearest(start.y(), sink.top(), sink.bottom()))  # fmt: skip
    return start, end


def _nearest(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
