"""Base of hand-painted strips over the whole width of a panel or window, such as legends and notes."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QBrush, QColor, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from npuviz.ui.kit.colors import HATCH_BRUSHES, HATCH_STEPS
from npuviz.ui.kit.raster_kernels import FILL, X_STEP, Y_STEP
from npuviz.ui.theme.theme import Theme

SWATCH = 10
_BRUSHES = {HATCH_STEPS[angle]: brush for angle, brush in HATCH_BRUSHES.items()}


class Strip(QWidget):
    """A widget as wide as there is room and `lines_height` pixels high."""

    lines_height = 24

    def __init__(self, theme: Theme, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(title)

    def sizeHint(self) -> QSize:
        return QSize(200, self.lines_height)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.lines_height)


def paint_swatch(painter: QPainter, box: QRectF, style: Sequence[int], line: QColor) -> None:
    """Paint a filled square, with its hatching if it has one; style: a row of the table of raster_kernels."""
    painter.fillRect(box, QColor.fromRgb(int(style[FILL]) & 0xFFFFFF))
    brush = _BRUSHES.get((int(style[X_STEP]), int(style[Y_STEP])))
    if brush is not None:
        painter.fillRect(box, QBrush(line, brush))
