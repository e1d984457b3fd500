"""Convert colours for painting: translucent, mixed, as plain pixel numbers; wrap pixels as an image."""

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage

HATCH_STEPS = {45: (1, 1), 135: (1, -1), 0: (0, 1), 90: (1, 0)}
"""Angle of a hatching -> how its phase grows with x and y."""
HATCH_BRUSHES = {
    45: Qt.BrushStyle.BDiagPattern,
    135: Qt.BrushStyle.FDiagPattern,
    0: Qt.BrushStyle.HorPattern,
    90: Qt.BrushStyle.VerPattern,
}
STALL_SHARE = 0.38
"""Share of its colour, 0..1, with which something that waits is drawn."""


def translucent(color: QColor, alpha: int) -> QColor:
    """Return the colour with another opacity, 0..255."""
    found = QColor(color)
    found.setAlpha(alpha)
    return found


def pixel(color: QColor) -> int:
    """Return a colour as an opaque 0xffRRGGBB number."""
    return color.rgb() & 0xFFFFFFFF


def blended(below: QColor, above: QColor, share: float) -> QColor:
    """Mix two colours: `share` (0..1) of the one above, the rest of the one below."""
    rest = 1 - share
    return QColor.fromRgbF(
        below.redF() * rest + above.redF() * share,
        below.greenF() * rest + above.greenF() * share,
        below.blueF() * rest + above.blueF() * share,
    )


def image_of(pixels: np.ndarray, ratio: float) -> QImage:
    """Wrap (height, width) uint32 device pixels as an image, valid only while the caller keeps the array."""
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(ratio)
    return image
