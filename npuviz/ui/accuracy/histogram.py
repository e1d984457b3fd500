"""A histogram of the errors of a tensor's elements, in bins of powers of two."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from npuviz.base.units import format_count
from npuviz.sim.check_result import NUM_BINS, Spread, bin_name
from npuviz.ui.kit.plain_text import plain_tip
from npuviz.ui.theme.theme import GRID, Theme

NONE = "Choose a tensor to see its errors."
_NAMED_EVERY = 4


class ErrorHistogram(QWidget):
    """Draws two rows of bars, end to end and own; each is scaled to its most frequent error."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("accuracy.histogram")
        self.setAccessibleName("Histogram of errors")
        self.setMouseTracking(True)
        self.setMinimumSize(120, 72)
        self._theme = theme
        self._spreads: tuple[Spread | None, Spread | None] = (None, None)
        self._title = ""

    def sizeHint(self) -> QSize:
        return QSize(320, 140)

    def set_spreads(self, title: str, whole: Spread | None, own: Spread | None) -> None:
        """Show the errors of a tensor, end to end and own; None: not compared."""
        self._title, self._spreads = title, (whole, own)
        self.setAccessibleDescription(self.text())
        self.update()

    def text(self) -> str:
        """Return what is drawn as text."""
        lines = [self._title or NONE]
        for name, spread in zip(("end to end", "own"), self._spreads, strict=True):
            if spread is not None:
                known = [f"{bin_name(place)}: {count}" for place, count in enumerate(spread.counts) if count]
                lines.append(f"{name}: {', '.join(known)}")
        return "\n".join(lines)

    def _shown(self) -> range:
        """Return the bins from the first used one on, at least the last ten, without those of equal and tiny
        errors.
        """
        used = [
            place
            for spread in self._spreads
            if spread is not None
            for place, count in enumerate(spread.counts)
            if count and place > 1
        ]
        first = min(used, default=NUM_BINS - 10)
        return range(max(2, min(first, NUM_BINS - 10)), NUM_BINS)

    def _field(self) -> QRectF:
        metrics = self.fontMetrics()
        top = metrics.height() + 2 * GRID
        return QRectF(2 * GRID, top, self.width() - 4 * GRID, self.height() - top - metrics.height() - GRID)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme, field = self._theme, self._field()
        painter.fillRect(self.rect(), theme.color("canvas"))
        painter.setPen(theme.color("text-muted"))
        if self._spreads == (None, None):
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, NONE)
            return
        metrics = painter.fontMetrics()
        title = metrics.elidedText(self._title, Qt.TextElideMode.ElideRight, int(field.width()))
        painter.drawText(QPointF(field.left(), GRID + metrics.ascent()), title)
        bins = (0, 1, *self._shown())
        width = field.width() / len(bins)
        for side, spread in enumerate(self._spreads):
            if spread is None:
                continue
            role = ("move-in", "compute")[side]
            most = max(spread.counts[place] for place in bins) or 1
            for slot, place in enumerate(bins):
                count = spread.counts[place]
                if not count:
                    continue
                height = max(2.0, count / most * field.height())
                color = theme.color("error" if place == NUM_BINS - 1 else role)
                left = field.left() + (slot + 0.5 * side) * width + 0.5
                bar = QRectF(left, field.bottom() - height, max(1.0, width / 2 - 1), height)
                painter.fillRect(bar, color)
        painter.setPen(QPen(theme.color("grid")))
        painter.drawLine(field.bottomLeft(), field.bottomRight())
        self._draw_names(painter, bins, width)

    def _draw_names(self, painter: QPainter, bins: tuple[int, ...], width: float) -> None:
        field, metrics = self._field(), painter.fontMetrics()
        painter.setPen(self._theme.color("text-muted"))
        y, last = field.bottom() + metrics.ascent() + 1, -1.0 * self.width()
        for slot, place in enumerate(bins):
            name = {0: "equal", NUM_BINS - 1: "lost"}.get(place, bin_name(place))
            if place == 1 or place == NUM_BINS - 2 or (1 < place < NUM_BINS - 1 and place % _NAMED_EVERY):
                continue
            room = metrics.horizontalAdvance(name)
            x = field.left() + (slot + 0.5) * width - room / 2
            x = min(max(x, field.left()), field.right() - room)
            if x > last + GRID:
                painter.drawText(QPointF(x, y), name)
                last = x + room

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        bins = (0, 1, *self._shown())
        field = self._field()
        slot = int((event.position().x() - field.left()) / max(1.0, field.width()) * len(bins))
        if not 0 <= slot < len(bins) or self._spreads == (None, None):
            QToolTip.hideText()
            return
        place = bins[slot]
        lines = [f"Off by {bin_name(place)}" if place else "Equal"]
        for name, spread in zip(("end to end", "own"), self._spreads, strict=True):
            if spread is not None:
                lines.append(f"{name}: {format_count(spread.counts[place])} elements")
        QToolTip.showText(event.globalPosition().toPoint(), plain_tip("\n".join(lines)), self)
