"""Labels of slices as pixel masks, which Qt renders once and a kernel draws in every frame."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QImage, QPainter

from npuviz.base.names import fitting

BUCKET_PIXELS = 8
MAX_MASK_BYTES = 16 << 20
MAX_NEW_PER_FRAME = 600
FEWEST = 4
"""Fewest letters beside an ellipsis that are worth showing."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Place of a text in the buffer: `offset`, `width` pixels a line, the first `ink` of them not empty."""

    offset: int
    width: int
    ink: int


class LabelMasks:
    """Renders texts, shortened to a width, as one byte of coverage per pixel.

    buffer  all masks one after the other, uint8; each has label_height lines
    """

    def __init__(self, font: QFont, ratio: float) -> None:
        self._font = QFont(font)
        self._ratio = ratio
        self._metrics = QFontMetricsF(self._font)
        self.label_height = max(int(np.ceil(self._metrics.height() * ratio)), 1)
        self.buffer = np.zeros(1 << 16, dtype=np.uint8)
        self._used = 0
        self._masks: dict[tuple[str, str, int], Mask] = {}
        self._widths: dict[str, float] = {}
        self._rendered = 0

    @property
    def is_short_of_time(self) -> bool:
        """Whether the last frame left labels out, to be rendered with the next one."""
        return self._rendered >= MAX_NEW_PER_FRAME

    def begin_frame(self) -> None:
        """Allow MAX_NEW_PER_FRAME new masks again; drop all masks if they exceed MAX_MASK_BYTES."""
        self._rendered = 0
        if self._used > MAX_MASK_BYTES:
            self._masks.clear()
            self._used = 0

    def mask(self, short: str, long: str, pixels: int) -> Mask | None:
        """Return the mask of the best text for a slice with room for `pixels` device pixels, or None.

        short, long  name of the slice (an opcode), and with more detail (opcode and operator)
        """
        full = int(np.ceil(self._width(long) * self._ratio)) + 1
        bucket = full if pixels >= full else pixels // BUCKET_PIXELS * BUCKET_PIXELS
        key = (short, long, bucket)
        found = self._masks.get(key)
        if found is None and bucket > 0 and self._rendered < MAX_NEW_PER_FRAME:
            self._rendered += 1
            found = self._masks[key] = self._render(self._best(short, long, bucket / self._ratio), bucket)
        return found

    def _width(self, text: str) -> float:
        width = self._widths.get(text)
        if width is None:
            width = self._widths[text] = self._metrics.horizontalAdvance(text)
        return width

    def _best(self, short: str, long: str, room: float) -> str:
        if self._width(long) <= room + 0.5:
            return long
        if short != long and self._width(short) <= room < self._width(short) + 48:
            return short
        wanted = short if self._width(short) > room else long
        # Fewer than FEWEST letters and an ellipsis are not worth showing.
        return fitting(wanted, lambda text: self._width(text) <= room, FEWEST)

    def _render(self, text: str, width: int) -> Mask:
        image = QImage(width, self.label_height, QImage.Format.Format_ARGB32_Premultiplied)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        painter.scale(self._ratio, self._ratio)
        painter.setFont(self._font)
        painter.setPen(Qt.GlobalColor.white)
        area = QRectF(0, 0, width / self._ratio + 1, self.label_height / self._ratio)
        painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()
        pixels = np.frombuffer(image.constBits(), dtype=np.uint8)
        alpha = pixels.reshape(self.label_height, image.bytesPerLine())[:, 3 : 4 * width : 4]
        size = width * self.label_height
        while self._used + size > len(self.buffer):
            self.buffer = np.concatenate([self.buffer, np.zeros_like(self.buffer)])
        self.buffer[self._used : self._used + size] = alpha.reshape(-1)
        inked = np.flatnonzero(alpha.any(axis=0))
        mask = Mask(self._used, width, int(inked[-1]) + 1 if len(inked) else 0)
        self._used += size
        return mask
