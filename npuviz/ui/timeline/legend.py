"""What the colours and hatchings of a timeline mean, in one line."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from npuviz.ui.kit.raster_kernels import FILL, X_STEP, Y_STEP
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.marks import arrow_pen
from npuviz.ui.timeline.style import TimelineStyle

SWATCH = 10
LINE = 22


class TimelineLegend(QWidget):
    """Swatches with names; those that do not fit are left out, the tooltip holds them all."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._style: TimelineStyle | None = None
        self._entries: list[tuple[int, str]] = []
        self._arrows: list[str] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Legend of the timeline")

    def set_entries(self, style: TimelineStyle | None, entries: Sequence[tuple[int, str]]) -> None:
        """Show categories: (number, name)."""
        self._style = style
        self._entries = list(entries)
        self.setToolTip(", ".join(name for _number, name in entries))
        self.update()

    def set_arrows(self, kinds: Sequence[str]) -> None:
        """Explain the arrows on show: kinds of dependencies."""
        if list(kinds) != self._arrows:
            self._arrows = list(kinds)
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, 22)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 22)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._style is None:
            return
        painter = QPainter(self)
        painter.setFont(self._theme.font_ui(11))
        metrics = painter.fontMetrics()
        widths = [SWATCH + 5 + metrics.horizontalAdvance(name) + 12 for _number, name in self._entries]
        room = self._paint_arrows(painter)
        shown = len(widths)
        while shown and sum(widths[:shown]) > room:
            shown -= 1
        x = float(room - sum(widths[:shown]))
        middle = self.height() / 2
        for (number, name), width in zip(self._entries[:shown], widths, strict=False):
            box = QRectF(x, middle - SWATCH / 2, SWATCH, SWATCH)
            self._swatch(painter, number, box)
            painter.setPen(self._theme.color("text-muted"))
            area = QRectF(x + SWATCH + 5, 0, width, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, name)
            x += width
        painter.end()

    def _paint_arrows(self, painter: QPainter) -> int:
        """Samples of the arrows at the right end; returns the pixels that are left."""
        metrics = painter.fontMetrics()
        x, middle = float(self.width()), self.height() / 2
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for kind in reversed(self._arrows):
            width = LINE + 5 + metrics.horizontalAdvance(kind) + 12
            if width > x:
                break
            x -= width
            painter.setPen(arrow_pen(self._theme, kind))
            painter.drawLine(QPointF(x, middle), QPointF(x + LINE, middle))
            painter.setPen(self._theme.color("text-muted"))
            area = QRectF(x + LINE + 5, 0, width, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, kind)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        return int(x)

    def _swatch(self, painter: QPainter, number: int, box: QRectF) -> None:
        assert self._style is not None
        row = self._style.table[number]
        painter.fillRect(box, QColor.fromRgb(int(row[FILL]) & 0xFFFFFF))
        brushes = {
            (1, 1): Qt.BrushStyle.BDiagPattern,
            (1, -1): Qt.BrushStyle.FDiagPattern,
            (0, 1): Qt.BrushStyle.HorPattern,
            (1, 0): Qt.BrushStyle.VerPattern,
        }
        pattern = brushes.get((int(row[X_STEP]), int(row[Y_STEP])))
        if pattern is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            brush = painter.brush()
            brush.setColor(self._style.colors[number])
            brush.setStyle(pattern)
            painter.fillRect(box, brush)
