"""What the colours and hatchings of a timeline mean, in one line."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.kit.strip import SWATCH, Strip, paint_swatch
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.marks import arrow_pen
from npuviz.ui.timeline.style import TimelineStyle

LINE = 22
NOTHING_TO_DO = "waits: empty"
WAITS = "waits"
"""How names of waiting begin."""


class TimelineLegend(Strip):
    """Swatches with names. What does not fit is left out and counted, the rarest first, waits last."""

    lines_height = 22

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Legend of the timeline", parent)
        self._style: TimelineStyle | None = None
        self._entries: list[tuple[int, str]] = []
        self._amounts: Mapping[str, float] = {}
        self._arrows: list[str] = []

    def set_entries(self, style: TimelineStyle | None, entries: Sequence[tuple[int, str]]) -> None:
        """Show categories: (number, name)."""
        self._style = style
        self._entries = list(entries)
        self.setToolTip(plain_tip(", ".join(name for _number, name in entries)))
        self.update()

    def set_amounts(self, amounts: Mapping[str, float]) -> None:
        """Tell how much of the picture entries are, by name: those there is most of stay longest."""
        if amounts != self._amounts:
            self._amounts = amounts
            self.update()

    def set_arrows(self, kinds: Sequence[str]) -> None:
        """Explain the arrows on show: kinds of dependencies."""
        if list(kinds) != self._arrows:
            self._arrows = list(kinds)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._style is None:
            return
        painter = QPainter(self)
        painter.setFont(self._theme.font_ui(11))
        metrics = painter.fontMetrics()
        room = self._paint_arrows(painter)
        entries = self.fitting(room, metrics)
        more = self._more(entries)
        width = sum(self._width_of(name, metrics) for _number, name in entries)
        x = float(room - width - (self._more_width(metrics) if more else 0))
        middle = self.height() / 2
        for number, name in entries:
            width = self._width_of(name, metrics)
            box = QRectF(x, middle - SWATCH / 2, SWATCH, SWATCH)
            paint_swatch(painter, box, self._style.table[number], self._style.colors[number])
            painter.setPen(self._theme.color("text-muted"))
            area = QRectF(x + SWATCH + 5, 0, width, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, name)
            x += width
        if more:
            area = QRectF(x, 0, self._more_width(metrics), self.height())
            painter.setPen(self._theme.color("text-muted"))
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, more)
        painter.end()

    def fitting(self, room: float, metrics: QFontMetrics) -> list[tuple[int, str]]:
        """Entries that fit: all, else one entry for all waits, and as much work as there is room for
        beside the number of what is left out."""
        waits = [entry for entry in self._entries if entry[1].startswith(WAITS)]
        work = [entry for entry in self._entries if not entry[1].startswith(WAITS)]

        def width_of(entries: Sequence[tuple[int, str]]) -> int:
            return sum(self._width_of(name, metrics) for _number, name in entries)

        if width_of(self._entries) > room and len(waits) > 1:
            # The colour of the wait that there is most of; that of having nothing to do is hard to see.
            seen = [
                entry for entry in waits if entry[1] != NOTHING_TO_DO and self._amounts.get(entry[1], 0.0)
            ]
            most = max(seen or waits, key=lambda entry: self._amounts.get(entry[1], 0.0))
            waits = [(most[0], WAITS)]
        number = len(work)
        while work and width_of([*work, *waits]) + self._more_width(metrics) * (len(work) < number) > room:
            # Of equally rare ones the last.
            rarest = min(range(len(work)), key=lambda i: (self._amounts.get(work[i][1], 0.0), -i))
            del work[rarest]
        return [*work, *waits] if width_of(waits) <= room else []

    def _more(self, shown: Sequence[tuple[int, str]]) -> str:
        """How many kinds of work are left out, "" for none; the tip names them."""
        number = sum(not name.startswith(WAITS) for _number, name in self._entries)
        left = number - sum(not name.startswith(WAITS) for _number, name in shown)
        return f"+{left}" if left and shown else ""

    def _more_width(self, metrics: QFontMetrics) -> int:
        return metrics.horizontalAdvance(f"+{len(self._entries)}") + 12

    @staticmethod
    def _width_of(name: str, metrics: QFontMetrics) -> int:
        return SWATCH + 5 + metrics.horizontalAdvance(name) + 12

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
