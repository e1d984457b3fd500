"""The legend of a fabric: meaning of the colours, with counts of the visible elements."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from npuviz.base.units import format_count, format_share
from npuviz.sim.fabric import FULL, FabricShape
from npuviz.ui.fabric.frame import FabricFrame, Shade
from npuviz.ui.fabric.grid_kernels import LINE
from npuviz.ui.fabric.style import FabricStyle
from npuviz.ui.kit.strip import SWATCH, Strip, paint_swatch
from npuviz.ui.theme.theme import Theme

BAR = 84
GAP = 14


@dataclass(frozen=True, slots=True)
class LegendItem:
    """A text with a swatch (code of a state), with a bar of the heat colours (code -1), or alone (-2)."""

    code: int
    text: str


def legend_of(shape: FabricShape, frame: FabricFrame | None, shade: Shade, largest: int) -> list[LegendItem]:
    """Return the items for a frame: states with counts of elements, or a scale; then the words in sight.

    largest  the largest value that is shaded, out of FULL; -1 if unknown
    """
    items: list[LegendItem] = []
    if frame is None:
        return items
    if shade == "state":
        counts = np.bincount(frame.states.reshape(-1), minlength=len(shape.states))
        items += [
            LegendItem(code, f"{state.name} {format_count(int(counts[code]))}")
            for code, state in enumerate(shape.states)
            if counts[code]
        ]
    else:
        most = format_share(largest / FULL, 0) if largest >= 0 else "\u2013"
        what = "busiest link" if shade == "load" else "fullest queue"
        items.append(LegendItem(-1, f"{what} {most}"))
    if frame.words is not None:
        held = int(frame.words["waits"].sum())
        plural = "" if len(frame.words) == 1 else "s"
        text = f"{format_count(len(frame.words))} {shape.word}{plural} in sight"
        items.append(LegendItem(-2, f"{text}, {format_count(held)} held back" if held else text))
    return items


class FabricLegend(Strip):
    """One line of swatches; items that do not fit are left out, the tooltip has all of them."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Legend of the fabric", parent)
        self._style: FabricStyle | None = None
        self._items: list[LegendItem] = []
        self._note = ""

    @property
    def texts(self) -> list[str]:
        """Texts of the items, from left to right."""
        return [item.text for item in self._items]

    def set_items(self, style: FabricStyle | None, items: Sequence[LegendItem], note: str = "") -> None:
        """Show items, and `note` at the right end."""
        if (style, list(items), note) == (self._style, self._items, self._note):
            return
        self._style, self._items, self._note = style, list(items), note
        self.setToolTip("\n".join([*(item.text for item in items), *([note] if note else [])]))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._theme.color("surface"))
        painter.setPen(self._theme.color("border"))
        painter.drawLine(0, 0, self.width(), 0)
        if self._style is None:
            painter.end()
            return
        painter.setFont(self._theme.font_ui(11))
        metrics = painter.fontMetrics()
        right = self.width() - 8.0
        if self._note:
            wide = metrics.horizontalAdvance(self._note)
            painter.setPen(self._theme.color("text-muted"))
            painter.drawText(
                QRectF(right - wide, 0, wide + 2, self.height()), Qt.AlignmentFlag.AlignVCenter, self._note
            )
            right -= wide + GAP
        x, middle = 8.0, self.height() / 2
        for item in self._items:
            mark = BAR + 64 if item.code == -1 else SWATCH + 5 if item.code >= 0 else 0
            wide = metrics.horizontalAdvance(item.text)
            if x + mark + wide > right:
                break
            if item.code == -1:
                self._bar(painter, x, middle)
            elif item.code >= 0:
                self._swatch(painter, item.code, QRectF(x, middle - SWATCH / 2, SWATCH, SWATCH))
            painter.setPen(self._theme.color("text-muted"))
            area = QRectF(x + mark, 0, wide + 2, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, item.text)
            x += mark + wide + GAP
        painter.end()

    def _bar(self, painter: QPainter, x: float, middle: float) -> None:
        assert self._style is not None
        gradient = QLinearGradient(x + 22, 0, x + 22 + BAR, 0)
        for step in range(9):
            gradient.setColorAt(step / 8, self._style.heat_color(step / 8))
        painter.setPen(self._theme.color("text-muted"))
        left, right = QRectF(x, 0, 22, self.height()), QRectF(x + 26 + BAR, 0, 44, self.height())
        painter.drawText(left, Qt.AlignmentFlag.AlignVCenter, format_share(0, 0))
        painter.drawText(right, Qt.AlignmentFlag.AlignVCenter, format_share(1, 0))
        painter.fillRect(QRectF(x + 22, middle - 4, BAR, 8), gradient)

    def _swatch(self, painter: QPainter, code: int, box: QRectF) -> None:
        assert self._style is not None
        row = self._style.states[code]
        paint_swatch(painter, box, row, QColor.fromRgb(int(row[LINE]) & 0xFFFFFF))
        painter.setPen(self._theme.color("border"))
        painter.drawRect(box)
