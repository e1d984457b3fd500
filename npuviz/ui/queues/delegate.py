"""Draw bars and histories in the queue table."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from npuviz.ui.kit.colors import translucent
from npuviz.ui.kit.row_model import Index
from npuviz.ui.kit.table_view import paint_changed
from npuviz.ui.queues.table import (
    HISTORY,
    HISTORY_ROLE,
    OCCUPANCY,
    STATE_ROLE,
    History,
    QueueGroup,
    QueueState,
)
from npuviz.ui.theme.theme import Theme

NUMBER_WIDTH = 74


class QueueDelegate(QStyledItemDelegate):
    """Draws the occupancy as a bar with numbers, the history as a curve, a thin bar before changed rows."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        found = super().sizeHint(option, index)
        return QSize(found.width(), self._theme.row_height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        state = index.data(STATE_ROLE)
        if isinstance(state, QueueGroup):
            self._group(painter, option, index, state)
            return
        if not isinstance(state, QueueState):
            return
        painter.save()
        area: QRectF = QRectF(option.rect)
        if index.column() not in (OCCUPANCY, HISTORY):
            painter.restore()
            super().paint(painter, option, index)
            if state.is_changed and index.column() == 0:
                paint_changed(painter, option.rect, self._theme)
            return
        inner = area.adjusted(8, 4, -8, -4)
        if index.column() == OCCUPANCY:
            self._bar(painter, inner, state)
        else:
            history = index.data(HISTORY_ROLE)
            if isinstance(history, History):
                self._history(painter, inner, history)
        painter.restore()

    def _group(
        self, painter: QPainter, option: QStyleOptionViewItem, index: Index, group: QueueGroup
    ) -> None:
        """Draw a group's name in bold, and, while it is folded, the fill levels of its queues side by
        side.
        """
        painter.save()
        area = QRectF(option.rect)
        painter.fillRect(area, self._theme.color("raised"))
        if group.is_changed and index.column() == 0:
            paint_changed(painter, option.rect, self._theme)
        if index.column() == OCCUPANCY:
            painter.setFont(self._theme.font_ui(12))
            painter.setPen(self._theme.color("text"))
            right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            text = area.adjusted(8, 0, -8, 0)
            painter.drawText(text, right, group.text)
            room = text.width() - painter.fontMetrics().horizontalAdvance(group.text) - 8
            if group.is_folded:
                self._fills(painter, QRectF(text.left(), area.top() + 4, room, area.height() - 8), group)
        elif index.column() not in (HISTORY,):
            painter.setFont(self._theme.font_ui(12, bold=True))
            painter.setPen(self._theme.color("text"))
            flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
            painter.drawText(area.adjusted(4, 0, -4, 0), flags, str(index.data() or ""))
        painter.restore()

    def _fills(self, painter: QPainter, area: QRectF, group: QueueGroup) -> None:
        count = len(group.fractions)
        step = min(area.width() / max(count, 1), 9.0)
        if step < 2:
            return
        for number, fraction in enumerate(group.fractions):
            slot = QRectF(area.left() + number * step, area.top(), step - 1, area.height())
            painter.fillRect(slot, self._theme.color("canvas"))
            # A queue that is not empty is always visible.
            high = max(slot.height() * fraction, 2.0) if fraction > 0 else 0.0
            color = self._theme.heat_color(0.3 + 0.65 * fraction)
            painter.fillRect(QRectF(slot.left(), slot.bottom() - high, slot.width(), high), color)

    def _bar(self, painter: QPainter, area: QRectF, state: QueueState) -> None:
        theme = self._theme
        painter.setFont(theme.font_ui(12))
        painter.setPen(theme.color("text"))
        numbers = QRectF(area.right() - NUMBER_WIDTH, area.top() - 4, NUMBER_WIDTH, area.height() + 8)
        painter.drawText(numbers, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, state.text)
        bar = QRectF(area.left(), area.top() + 1, area.width() - NUMBER_WIDTH - 8, area.height() - 2)
        if bar.width() < 12:
            return
        painter.fillRect(bar, theme.color("canvas"))
        # The darkest end of the scale is not used, because it looks like the background.
        # A queue without limit is never full.
        color = theme.heat_color(0.3 + 0.65 * state.fraction if state.capacity else 0.5)
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width() * state.fraction, bar.height()), color)
        if 1 < state.capacity <= bar.width() / 6:
            painter.setPen(translucent(theme.color("surface"), 200))
            for slot in range(1, state.capacity):
                x = round(bar.left() + bar.width() * slot / state.capacity)
                painter.drawLine(QPointF(x, bar.top()), QPointF(x, bar.bottom() - 1))
        limit = state.capacity or state.peak
        if limit > 0 and state.peak > 0:
            x = bar.left() + bar.width() * min(state.peak / limit, 1.0)
            painter.fillRect(QRectF(x - 1, bar.top() - 2, 2, bar.height() + 4), theme.color("text-muted"))

    def _history(self, painter: QPainter, area: QRectF, history: History) -> None:
        count = len(history.high)
        if count < 2:
            return
        theme = self._theme
        scale = area.height() / max(history.limit, 1)
        step = area.width() / count
        points = [QPointF(area.left(), area.bottom())]
        for place, value in enumerate(history.high.tolist()):
            y = area.bottom() - min(value * scale, area.height())
            points.append(QPointF(area.left() + place * step, y))
            points.append(QPointF(area.left() + (place + 1) * step, y))
        points.append(QPointF(area.right(), area.bottom()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(translucent(theme.color("text-muted"), 70))
        painter.drawPolygon(QPolygonF(points))
        painter.setPen(QPen(theme.color("text-muted"), 1))
        painter.drawPolyline(QPolygonF(points[1:-1]))
        x = area.left() + area.width() * history.cursor
        painter.fillRect(QRectF(x - 0.5, area.top() - 2, 1.5, area.height() + 4), theme.color("cursor"))
