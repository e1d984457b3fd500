"""A scatter plot of a sweep's runs over two columns, with the Pareto front."""

from collections.abc import Callable, Sequence

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import GRID, Theme
from npuviz.workbench.sweep.figures import Scale, number_text, ticks

REACH = 9.0
"""Distance in pixels within which the pointer is at a dot."""


class SweepScatter(QWidget):
    """Draws dots; a click selects a run, a double click or Enter opens it, arrow keys go to neighbours.

    run_chosen, run_opened  number of the run
    rows    runs that are drawn
    chosen  the marked run, -1 for none
    """

    run_chosen = Signal(int)
    run_opened = Signal(int)

    def __init__(self, theme: Theme, text_of: Callable[[int], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sweep.scatter")
        self.setAccessibleName("Runs")
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(160, 120)
        self._theme = theme
        self._text_of = text_of
        self._names = ("", "")
        self.rows: list[int] = []
        self._xs = self._ys = np.zeros(0)
        self._front: list[int] = []
        self._colors: dict[int, QColor] = {}
        self._legend: list[tuple[str, QColor]] = []
        self.chosen = -1
        self._hovered = -1

    def sizeHint(self) -> QSize:
        return QSize(560, 360)

    def set_runs(
        self,
        names: tuple[str, str],
        rows: Sequence[int],
        xs: np.ndarray,
        ys: np.ndarray,
        front: Sequence[int],
        colors: dict[int, QColor],
        legend: Sequence[tuple[str, QColor]] = (),
    ) -> None:
        """Show runs.


        names   names of the columns across and upwards
        rows    runs to draw
        xs, ys  float64 values of all runs
        front   the runs of the Pareto front, by x
        colors  run -> colour
        legend  (text, colour) pairs
        """
        self._names = names
        self.rows = [row for row in rows if np.isfinite(xs[row]) and np.isfinite(ys[row])]
        self._xs, self._ys, self._colors = xs, ys, colors
        self._legend = list(legend)
        known = set(self.rows)
        self._front = [row for row in front if row in known]
        if self.chosen not in known:
            self.chosen = -1
        self._hovered = -1
        self.update()

    def choose(self, row: int) -> None:
        """Mark a run, -1 for none."""
        self.chosen = row if row in set(self.rows) else -1
        self.update()

    # --- drawing -----------------------------------------------------------------------------------------

    def _field(self) -> QRectF:
        left = 18.0 * GRID
        return QRectF(left, 3.0 * GRID, self.width() - left - 4 * GRID, self.height() - 14 * GRID)

    def _scales(self) -> tuple[Scale, Scale]:
        field = self._field()
        return (
            Scale(self._xs[self.rows], field.left(), field.right()),
            Scale(self._ys[self.rows], field.bottom(), field.top()),
        )

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("canvas"))
        if not self.rows:
            painter.setPen(self._theme.color("text-muted"))
            text = "No run has both numbers."
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, text)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        x_scale, y_scale = self._scales()
        self._draw_axes(painter, x_scale, y_scale)
        self._draw_front(painter, x_scale, y_scale)
        self._draw_legend(painter)
        best = set(self._front)
        for row in sorted(self.rows, key=lambda row: (row in best, row == self.chosen)):
            self._draw_dot(painter, row, QPointF(x_scale.at(self._xs[row]), y_scale.at(self._ys[row])), best)

    def _draw_axes(self, painter: QPainter, x_scale: Scale, y_scale: Scale) -> None:
        field, theme = self._field(), self._theme
        metrics = painter.fontMetrics()
        last = field.left() - 100.0
        for value in ticks(x_scale.low, x_scale.high, x_scale.logarithmic):
            x = x_scale.at(value)
            painter.setPen(theme.color("grid"))
            painter.drawLine(QPointF(x, field.top()), QPointF(x, field.bottom()))
            text = number_text(value)
            width = metrics.horizontalAdvance(text)
            if x - width / 2 < last + 2 * GRID or x + width / 2 > self.width():
                continue
            last = x + width / 2
            painter.setPen(theme.color("text-muted"))
            painter.drawText(QPointF(x - width / 2, field.bottom() + metrics.height()), text)
        for value in ticks(y_scale.low, y_scale.high, y_scale.logarithmic):
            y = y_scale.at(value)
            painter.setPen(theme.color("grid"))
            painter.drawLine(QPointF(field.left(), y), QPointF(field.right(), y))
            text = number_text(value)
            width = metrics.horizontalAdvance(text)
            painter.setPen(theme.color("text-muted"))
            painter.drawText(QPointF(field.left() - width - GRID, y + metrics.ascent() / 2 - 1), text)
        painter.setPen(theme.color("text"))
        x_name = self._names[0] + (" (logarithmic)" if x_scale.logarithmic else "")
        y_name = self._names[1] + (" (logarithmic)" if y_scale.logarithmic else "")
        area = QRectF(field.left(), self.height() - 6.0 * GRID, field.width(), 5.0 * GRID)
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, x_name)
        painter.save()
        painter.translate(3.0 * GRID, field.center().y())
        painter.rotate(-90)
        painter.drawText(
            QRectF(-field.height() / 2, -2.0 * GRID, field.height(), 5.0 * GRID),
            Qt.AlignmentFlag.AlignCenter,
            y_name,
        )
        painter.restore()

    def _draw_legend(self, painter: QPainter) -> None:
        metrics = painter.fontMetrics()
        field = self._field()
        x, y = field.right(), field.top() + metrics.ascent() + GRID
        for text, color in reversed(self._legend):
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, 40 * GRID)
            x -= metrics.horizontalAdvance(shown)
            if x < field.left() + 8 * GRID:
                return
            painter.setPen(self._theme.color("text-muted"))
            painter.drawText(QPointF(x, y), shown)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            painter.drawEllipse(QPointF(x - 2.0 * GRID, y - metrics.ascent() / 2 + 1), 4.0, 4.0)
            x -= 6 * GRID

    def _draw_front(self, painter: QPainter, x_scale: Scale, y_scale: Scale) -> None:
        path = QPainterPath()
        for index, row in enumerate(self._front):
            point = QPointF(x_scale.at(self._xs[row]), y_scale.at(self._ys[row]))
            if index:
                path.lineTo(point)
            else:
                path.moveTo(point)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._theme.color("text-muted"), 1.5, Qt.PenStyle.DashLine))
        painter.drawPath(path)

    def _draw_dot(self, painter: QPainter, row: int, point: QPointF, best: set[int]) -> None:
        color = QColor(self._colors.get(row, self._theme.color("compute")))
        is_best = row in best
        size = 5.0 if is_best else 3.5
        if not is_best:
            color.setAlphaF(0.55)
        painter.setBrush(color)
        painter.setPen(QPen(self._theme.color("text"), 1.0) if is_best else Qt.PenStyle.NoPen)
        painter.drawEllipse(point, size, size)
        if row in (self.chosen, self._hovered):
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self._theme.color("accent"), 2.0))
            painter.drawEllipse(point, size + 4, size + 4)

    # --- hands ----------------------------------------------------------------------------------------------

    def row_at(self, place: QPointF) -> int:
        """Return the run at a point, -1 for none."""
        if not self.rows:
            return -1
        x_scale, y_scale = self._scales()
        found, least = -1, REACH
        for row in self.rows:
            away = QPointF(x_scale.at(self._xs[row]), y_scale.at(self._ys[row])) - place
            distance = (away.x() ** 2 + away.y() ** 2) ** 0.5
            if distance < least or (distance == least and row in self._front):
                found, least = row, distance
        return found

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position())
        if row != self._hovered:
            self._hovered = row
            self.update()
            if row >= 0:
                QToolTip.showText(event.globalPosition().toPoint(), plain_tip(self._text_of(row)), self)
            else:
                QToolTip.hideText()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            row = self.row_at(event.position())
            self.choose(row)
            self.run_chosen.emit(row)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        row = self.row_at(event.position())
        if row >= 0:
            self.run_opened.emit(row)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        order = self._front or self.rows
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1, Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1}.get(
            Qt.Key(event.key())
        )
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.chosen >= 0:
            self.run_opened.emit(self.chosen)
        elif step is not None and order:
            at = order.index(self.chosen) + step if self.chosen in order else 0
            self.choose(order[max(0, min(len(order) - 1, at))])
            self.run_chosen.emit(self.chosen)
        else:
            super().keyPressEvent(event)
