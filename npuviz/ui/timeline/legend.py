"""The legend of a timeline: one line that explains colours, hatchings and arrows."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.kit.strip import SWATCH, Strip, paint_swatch
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.marks import arrow_pen
from npuviz.ui.timeline.style import TimelineStyle

LINE = 22
NAMELESS, GAP = SWATCH + 4, 8
"""Pixels from one swatch without a name to the next, and after the last one."""
NOTHING_TO_DO = "waits: empty"
WAITS = "waits"
"""How the names of waits begin; also the name of the entry for all of them."""


class TimelineLegend(Strip):
    """Swatches with names. Names that do not fit are left out, the rarest first, waits last.

    The swatches of these follow without name, which is then their tooltip; where even swatches do not fit,
    only their number is shown.
    """

    lines_height = 22

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "Legend of the timeline", parent)
        self._style: TimelineStyle | None = None
        self._entries: list[tuple[int, str]] = []
        self._amounts: Mapping[str, float] = {}
        self._arrows: list[str] = []
        self._places: list[tuple[QRectF, str]] = []

    def set_entries(self, style: TimelineStyle | None, entries: Sequence[tuple[int, str]]) -> None:
        """Show categories: (number, name)."""
        self._style = style
        self._entries = list(entries)
        self.setToolTip(plain_tip(", ".join(name for _number, name in entries)))
        self.update()

    def set_amounts(self, amounts: Mapping[str, float]) -> None:
        """Set the cycles of each entry, by name: the most frequent entries keep their names longest."""
        if amounts != self._amounts:
            self._amounts = amounts
            self.update()

    def set_arrows(self, kinds: Sequence[str]) -> None:
        """Show samples of arrows for these kinds of dependencies."""
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
        named = sum(self._width_of(name, metrics) for _number, name in entries)
        left_out = self.left_out(entries)
        are_shown = named + len(left_out) * NAMELESS + GAP <= room
        rest = len(left_out) * NAMELESS + GAP if are_shown else self._more_width(metrics)
        x = float(room - named - (rest if left_out else 0))
        self._places = []
        for number, name in entries:
            self._swatch(painter, number, name, x)
            width = self._width_of(name, metrics)
            painter.setPen(self._theme.color("text-muted"))
            area = QRectF(x + SWATCH + 5, 0, width, self.height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, name)
            x += width
        if are_shown:
            for number, name in left_out:
                self._swatch(painter, number, name, x)
                x += NAMELESS
        elif left_out:
            area = QRectF(x, 0, self._more_width(metrics), self.height())
            painter.setPen(self._theme.color("text-muted"))
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, f"+{len(left_out)}")
        painter.end()

    def _swatch(self, painter: QPainter, number: int, name: str, x: float) -> None:
        assert self._style is not None
        box = QRectF(x, (self.height() - SWATCH) / 2, SWATCH, SWATCH)
        paint_swatch(painter, box, self._style.table[number], self._style.colors[number])
        self._places.append((box, name))

    def event(self, event: QEvent) -> bool:
        """Show the name of a swatch as its tooltip, elsewhere the names of all."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            x = event.pos().x()
            names = [name for box, name in self._places if box.left() <= x <= box.right() + NAMELESS - SWATCH]
            if names:
                QToolTip.showText(event.globalPos(), plain_tip(names[0]), self)
                return True
        return super().event(event)

    def fitting(self, room: float, metrics: QFontMetrics) -> list[tuple[int, str]]:
        """Return the entries to show with names: all if they fit; else one for all waits, and as many of
        work as
        fit beside the swatches, or the number, of those left out.
        """
        waits = [entry for entry in self._entries if entry[1].startswith(WAITS)]
        work = [entry for entry in self._entries if not entry[1].startswith(WAITS)]

        def width_of(entries: Sequence[tuple[int, str]]) -> int:
            return sum(self._width_of(name, metrics) for _number, name in entries)

        if width_of(self._entries) > room and len(waits) > 1:
            # The colour of the longest kind of wait, because that of idle units is hard to see.
            seen = [
                entry for entry in waits if entry[1] != NOTHING_TO_DO and self._amounts.get(entry[1], 0.0)
            ]
            most = max(seen or waits, key=lambda entry: self._amounts.get(entry[1], 0.0))
            waits = [(most[0], WAITS)]
        number = len(work)
        are_shown = width_of(waits) + number * NAMELESS + GAP <= room

        def rest() -> int:
            left = number - len(work)
            return (left * NAMELESS + GAP if are_shown else self._more_width(metrics)) if left else 0

        while work and width_of([*work, *waits]) + rest() > room:
            # Of equally rare categories, the last.
            rarest = min(range(len(work)), key=lambda i: (self._amounts.get(work[i][1], 0.0), -i))
            del work[rarest]
        return [*work, *waits] if width_of(waits) <= room else []

    def left_out(self, shown: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the entries of work that are not among those shown; none if nothing is shown."""
        if not shown:
            return []
        return [entry for entry in self._entries if entry not in shown and not entry[1].startswith(WAITS)]

    def _more_width(self, metrics: QFontMetrics) -> int:
        return metrics.horizontalAdvance(f"+{len(self._entries)}") + 12

    @staticmethod
    def _width_of(name: str, metrics: QFontMetrics) -> int:
        return SWATCH + 5 + metrics.horizontalAdvance(name) + 12

    def _paint_arrows(self, painter: QPainter) -> int:
        """Draw samples of the arrows at the right end; return the pixels that are left."""
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
