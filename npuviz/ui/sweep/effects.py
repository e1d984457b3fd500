"""A chart of the effects of a sweep's axes on a column: a row per axis, a dot per level, against the
average.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import GRID, Theme
from npuviz.workbench.sweep.analysis import Effect

ROW = 12 * GRID
TOP = 15 * GRID


class SweepEffects(QWidget):
    """Draws the effects, the strongest first; a click on a row selects its axis.

    axis_chosen  name of the axis
    effects      the effects that are shown
    """

    axis_chosen = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sweep.effects")
        self.setAccessibleName("What every axis changes")
        self.setMouseTracking(True)
        self.setMinimumSize(160, 100)
        self._theme = theme
        self.effects: list[Effect] = []
        self._column = ""

    def sizeHint(self) -> QSize:
        return QSize(360, 240)

    def set_effects(self, column: str, found: Sequence[Effect]) -> None:
        """Show the effects on a column."""
        self._column = column
        self.effects = [each for each in found if any(math.isfinite(factor) for factor in each.factors)]
        self.update()

    def _span(self) -> tuple[float, float, float]:
        """Return (first pixel, last pixel, largest factor in either direction)."""
        factors = [f for each in self.effects for f in each.factors if math.isfinite(f)]
        extreme = max(1.02, *(max(factor, 1 / factor) for factor in factors))
        left = min(40.0 * GRID, self.width() * 0.36)
        return left, self.width() - 16.0 * GRID, extreme

    def _at(self, factor: float) -> float:
        left, right, extreme = self._span()
        return (left + right) / 2 + math.log(factor) / math.log(extreme) * (right - left) / 2

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme = self._theme
        painter.fillRect(self.rect(), theme.color("canvas"))
        if not self.effects:
            painter.setPen(theme.color("text-muted"))
            text = "No axis can be compared: runs are missing, or numbers are not positive."
            flags = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
            painter.drawText(QRectF(self.rect()).adjusted(16, 0, -16, 0), flags, text)
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, right, extreme = self._span()
        painter.setPen(theme.color("text"))
        painter.drawText(QPointF(4.0 * GRID, 5.0 * GRID), f"What changes {self._column}")
        bottom = TOP + ROW * len(self.effects)
        metrics = painter.fontMetrics()
        for factor in (1 / extreme, 1.0, extreme):
            x = self._at(factor)
            painter.setPen(QPen(theme.color("border" if factor == 1.0 else "grid"), 1.0))
            painter.drawLine(QPointF(x, TOP - GRID), QPointF(x, bottom))
            text = f"\u00d7{factor:.3g}"
            painter.setPen(theme.color("text-muted"))
            width = metrics.horizontalAdvance(text)
            painter.drawText(QPointF(x - width / 2, TOP - 2.0 * GRID), text)
        for index, effect in enumerate(self.effects):
            self._draw_row(painter, effect, TOP + index * ROW, left, right)

    def _draw_row(self, painter: QPainter, effect: Effect, top: float, left: float, right: float) -> None:
        theme, metrics = self._theme, painter.fontMetrics()
        middle = top + ROW / 2
        painter.setPen(theme.color("text"))
        name = metrics.elidedText(effect.axis, Qt.TextElideMode.ElideRight, int(left - 3 * GRID))
        where = QRectF(GRID, top, left - 3 * GRID, ROW)
        painter.drawText(where, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        points = [self._at(factor) for factor in effect.factors if math.isfinite(factor)]
        painter.setPen(Qt.PenStyle.NoPen)
        color = QColor(theme.color("compute"))
        color.setAlphaF(0.45)
        painter.setBrush(color)
        painter.drawRoundedRect(
            QRectF(min(points) - 2, middle - 1.5 * GRID, max(points) - min(points) + 4, 3.0 * GRID), 2, 2
        )
        numbered = [factor for factor in effect.factors if math.isfinite(factor)]
        for place, factor in enumerate(numbered):
            painter.setBrush(theme.heat_color(0.15 + 0.75 * place / max(1, len(numbered) - 1)))
            painter.setPen(QPen(theme.color("canvas"), 1.0))
            painter.drawEllipse(QPointF(self._at(factor), middle), 4.5, 4.5)
        painter.setPen(theme.color("text-muted"))
        self._draw_levels(painter, effect, middle + 2.0 * GRID + metrics.ascent())
        area = QRectF(right + 2 * GRID, top, self.width() - right - 2 * GRID, ROW)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, f"\u00d7{effect.spread:.2f}")

    def _draw_levels(self, painter: QPainter, effect: Effect, base: float) -> None:
        """Draw the names of levels under their dots where there is room, the outermost first."""
        metrics = painter.fontMetrics()
        pairs = [(self._at(f), str(level)) for f, level in zip(effect.factors, effect.levels, strict=True)
                 if math.isfinite(f)]  # fmt: skip
        pairs.sort()
        taken: list[tuple[float, float]] = []
        for x, text in [pairs[0], pairs[-1], *pairs[1:-1]]:
            shown = metrics.elidedText(Path(text).name, Qt.TextElideMode.ElideRight, 24 * GRID)
            half = metrics.horizontalAdvance(shown) / 2 + GRID
            if all(x + half < low or x - half > high for low, high in taken):
                painter.drawText(QPointF(x - half + GRID, base), shown)
                taken.append((x - half, x + half))

    def effect_at(self, y: float) -> Effect | None:
        """Return the effect whose row is at a height, or None."""
        index = int((y - TOP) // ROW)
        return self.effects[index] if 0 <= index < len(self.effects) else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        effect = self.effect_at(event.position().y())
        if effect is None:
            QToolTip.hideText()
            return
        lines = [f"{effect.axis} changes {self._column} by \u00d7{effect.spread:.2f}"]
        lines += [
            f"{level}: \u00d7{factor:.3f}" if math.isfinite(factor) else f"{level}: cannot be compared"
            for level, factor in zip(effect.levels, effect.factors, strict=True)
        ]
        QToolTip.showText(event.globalPosition().toPoint(), plain_tip("\n".join(lines)), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        effect = self.effect_at(event.position().y())
        if effect is not None:
            self.axis_chosen.emit(effect.axis)
