"""A chart of the tensors' errors along the depth of a model, on a scale of powers of two."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.base.names import echo
from npuviz.sim.check_result import SMALLEST_EXPONENT, Spread
from npuviz.ui.accuracy.table import share_text
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import GRID, Theme
from npuviz.workbench.accuracy.rows import Row

_TOP = 2.0
"""Binary exponent of the upper edge, where values that are not finite are drawn."""
_NAMED = 56
"""Wanted pixels between two labelled powers."""
SERIES = (("end to end", "move-in"), ("own", "compute"), ("allowed", "guide"))


class DepthChart(QWidget):
    """Draws the errors; a click or an arrow key selects a tensor.

    row_chosen  number of the row of the selected tensor
    chosen      number of the marked row, -1 for none
    """

    row_chosen = Signal(int)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("accuracy.depth")
        self.setAccessibleName("Errors along the depth of the model")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setMinimumSize(120, 72)
        self._theme = theme
        self._rows: Sequence[Row] = ()
        self._low = float(SMALLEST_EXPONENT)
        self.chosen = -1
        self._hovered = -1

    def sizeHint(self) -> QSize:
        return QSize(320, 160)

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other tensors, in program order."""
        self._rows, self.chosen, self._hovered = rows, -1, -1
        sizes = [_exponent(value) for row in rows for value in _values(row) if value]
        least = min((size for size in sizes if math.isfinite(size)), default=-24.0)
        self._low = max(float(SMALLEST_EXPONENT), math.floor(least / 4) * 4.0)
        self.update()

    def choose(self, place: int) -> None:
        """Mark a tensor, -1 for none."""
        self.chosen = place if 0 <= place < len(self._rows) else -1
        self.update()

    # --- drawing -----------------------------------------------------------------------------------------

    def _field(self) -> QRectF:
        left, top = 11.0 * GRID, 6.0 * GRID
        return QRectF(left, top, self.width() - left - 3 * GRID, self.height() - top - 3 * GRID)

    def _x(self, place: int) -> float:
        field = self._field()
        return field.left() + (place + 0.5) / max(1, len(self._rows)) * field.width()

    def _y(self, value: float) -> float:
        field = self._field()
        exponent = min(max(_exponent(value), self._low), _TOP) if value else self._low
        return field.bottom() - (exponent - self._low) / (_TOP - self._low) * field.height()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("canvas"))
        self._draw_axis(painter)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_chosen(painter)
        self._draw_allowed(painter)
        self._draw_whole(painter)
        self._draw_own(painter)
        self._draw_legend(painter)

    def _draw_axis(self, painter: QPainter) -> None:
        field, theme = self._field(), self._theme
        step = 4
        while field.height() / max(1.0, (_TOP - self._low) / step) < _NAMED / 2:
            step *= 2
        metrics = painter.fontMetrics()
        exponent = math.ceil(self._low / step) * step
        while exponent <= _TOP:
            y = self._y(2.0**exponent)
            painter.setPen(theme.color("grid"))
            painter.drawLine(QPointF(field.left(), y), QPointF(field.right(), y))
            text = f"2^{exponent}" if exponent else "1"
            painter.setPen(theme.color("text-muted"))
            width = metrics.horizontalAdvance(text)
            painter.drawText(QPointF(field.left() - width - GRID, y + metrics.ascent() / 2 - 1), text)
            exponent += step

    def _draw_chosen(self, painter: QPainter) -> None:
        if self.chosen >= 0:
            x, field = self._x(self.chosen), self._field()
            painter.setPen(QPen(self._theme.color("accent"), 1.0))
            painter.drawLine(QPointF(x, field.top()), QPointF(x, field.bottom()))

    def _line(self, painter: QPainter, values: Sequence[float | None], pen: QPen) -> None:
        points = [
            QPointF(self._x(place), self._y(value)) for place, value in enumerate(values) if value is not None
        ]
        painter.setPen(pen)
        painter.drawPolyline(QPolygonF(points))

    def _draw_allowed(self, painter: QPainter) -> None:
        pen = QPen(self._theme.color(SERIES[2][1]), 1.0, Qt.PenStyle.DashLine)
        self._line(painter, [row.errors.allowed or None for row in self._rows], pen)

    def _draw_whole(self, painter: QPainter) -> None:
        pen = QPen(self._theme.color(SERIES[0][1]), 1.5)
        self._line(painter, [_largest(row.errors.whole) for row in self._rows], pen)

    def _draw_own(self, painter: QPainter) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        for place, row in enumerate(self._rows):
            value = _largest(row.errors.own)
            if value is None:
                continue
            is_wrong = row.errors.own_class == "wrong"
            painter.setBrush(self._theme.color("error" if is_wrong else SERIES[1][1]))
            size = 4.5 if place in (self.chosen, self._hovered) else 3.0
            painter.drawEllipse(QPointF(self._x(place), self._y(value)), size, size)

    def _draw_legend(self, painter: QPainter) -> None:
        metrics = painter.fontMetrics()
        x, y = self._field().left(), 1.0 * GRID + metrics.ascent()
        for name, role in SERIES:
            painter.setPen(QPen(self._theme.color(role), 2.0))
            middle = y - metrics.ascent() / 2 + 1
            painter.drawLine(QPointF(x, middle), QPointF(x + 3 * GRID, middle))
            x += 4 * GRID
            painter.setPen(self._theme.color("text-muted"))
            painter.drawText(QPointF(x, y), name)
            x += metrics.horizontalAdvance(name) + 4 * GRID

    # --- hands -------------------------------------------------------------------------------------------

    def _place_at(self, x: float) -> int:
        field = self._field()
        place = int((x - field.left()) / max(1.0, field.width()) * len(self._rows))
        return place if field.left() <= x and 0 <= place < len(self._rows) else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        place = self._place_at(event.position().x())
        if place == self._hovered:
            return
        self._hovered = place
        self.update()
        if place < 0:
            QToolTip.hideText()
            return
        row = self._rows[place]
        whole, own = _largest(row.errors.whole), _largest(row.errors.own)
        said = [
            f"{name} {share_text(value)}"
            for name, value in (("end to end", whole), ("own", own))
            if value is not None
        ]
        text = f"{echo(row.label)}: {echo(row.name)}\n{', '.join(said)}"
        QToolTip.showText(event.globalPosition().toPoint(), plain_tip(text), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        place = self._place_at(event.position().x())
        if event.button() == Qt.MouseButton.LeftButton and place >= 0:
            self.choose(place)
            self.row_chosen.emit(place)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        if step is None or not self._rows:
            super().keyPressEvent(event)
            return
        self.choose(min(max(self.chosen + step, 0), len(self._rows) - 1))
        self.row_chosen.emit(self.chosen)


def _largest(spread: Spread | None) -> float | None:
    return None if spread is None else spread.largest


def _values(row: Row) -> tuple[float, ...]:
    errors = row.errors
    measured = [each.largest for each in (errors.whole, errors.own) if each is not None]
    return (*measured, errors.allowed)


def _exponent(value: float) -> float:
    return math.log2(value) if math.isfinite(value) and value > 0 else _TOP
