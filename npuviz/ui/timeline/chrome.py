"""Paint the parts around the tracks: marks of the minimap, ruler, row headers, measurement box."""

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from npuviz.base.units import format_count, format_cycles_as_time, format_share
from npuviz.ui.kit.colors import translucent
from npuviz.ui.kit.viewport import tick_step, ticks
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.measure import MAX_KINDS, Measurement
from npuviz.ui.timeline.rows import Row
from npuviz.ui.timeline.state import TimelineState
from npuviz.ui.timeline.style import TimelineStyle
from npuviz.workbench.sessions.bookmarks import Bookmark

MINIMAP_HEIGHT = 28
RULER_HEIGHT = 34
TICK_PIXELS = 104
INDENT = 12


def _is_estimated(state: TimelineState, row: Row) -> bool:
    """Return whether everything that a row shows is an assumption."""
    if row.kind == "counter":
        return False
    return row.track in state.estimated or bool(row.members and state.estimated.issuperset(row.members))


def flag_text(bookmark: Bookmark) -> str:
    """Return the text on a bookmark's flag: its digit, else a sign for one with or without a note."""
    return str(bookmark.digit) if bookmark.digit >= 0 else "\u2261" if bookmark.note else "\u2022"


class ChromePainter:
    """Draws each part in coordinates in which (0, 0) is the part's upper left corner."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme

    def paint_ruler(self, painter: QPainter, state: TimelineState, width: int, frequency_hz: float) -> None:
        """Draw the ruler: cycles above, times below, marks of cursor, guide, range and bookmarks."""
        theme, view = self._theme, state.viewport
        painter.fillRect(0, 0, width, RULER_HEIGHT, theme.color("surface"))
        step = tick_step(view.span, view.width, TICK_PIXELS)
        minor = max(step // 5, 1)
        painter.setPen(theme.color("border"))
        if minor < step:
            for cycle in ticks(view, minor):
                x = round(view.x_of(cycle))
                painter.drawLine(x, RULER_HEIGHT - 4, x, RULER_HEIGHT)
        covered = self._flag_span(painter, state, width)
        painter.setFont(theme.font_ui(11))
        length_of = painter.fontMetrics().horizontalAdvance
        for cycle in ticks(view, step):
            x = round(view.x_of(cycle))
            painter.setPen(theme.color("text-disabled"))
            painter.drawLine(x, 4, x, RULER_HEIGHT)
            # A text that the end of the ruler would cut is left out, a time also where the cursor's flag is.
            count, when = format_count(cycle), format_cycles_as_time(cycle, frequency_hz)
            if x + 5 + length_of(count) <= width:
                painter.setPen(theme.color("text"))
                painter.drawText(QPointF(x + 5, 14), count)
            end = x + 5 + length_of(when)
            if end <= width and (end < covered[0] or x + 5 > covered[1]):
                painter.setPen(theme.color("text-muted"))
                painter.drawText(QPointF(x + 5, 28), when)
        painter.setPen(theme.color("border"))
        painter.drawLine(0, RULER_HEIGHT - 1, width, RULER_HEIGHT - 1)
        self._ruler_marks(painter, state, width)

    def _ruler_marks(self, painter: QPainter, state: TimelineState, width: int) -> None:
        theme, view = self._theme, state.viewport
        ranges = [(each.first, each.last, 200) for each in state.bookmarks if each.is_range]
        for first, last, alpha in (*ranges, *([(*state.mark, 110)] if state.mark else [])):
            left, right = view.x_of(first), view.x_of(last)
            color = translucent(theme.color("bookmark"), alpha)
            painter.fillRect(QRectF(left, RULER_HEIGHT - 5, max(right - left, 2.0), 4), color)
        if state.range is not None:
            left, right = view.x_of(state.range.first), view.x_of(state.range.last)
            painter.fillRect(QRectF(left, RULER_HEIGHT - 5, right - left, 4), theme.color("accent"))
        painter.setFont(theme.font_ui(11, bold=True))
        for bookmark in state.bookmarks:
            x = view.x_of(bookmark.first)
            if -12 < x < width + 12:
                flag = QPolygonF(
                    [
                        QPointF(x, 0),
                        QPointF(x + 13, 0),
                        QPointF(x + 13, 13),
                        QPointF(x + 4, 13),
                        QPointF(x, 17),
                    ]
                )
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.color("bookmark"))
                painter.drawPolygon(flag)
                painter.setPen(theme.text_on(theme.color("bookmark")))
                painter.drawText(QRectF(x, 0, 13, 13), Qt.AlignmentFlag.AlignCenter, flag_text(bookmark))
        if state.hover is not None:
            self._flag(painter, view.x_of(state.hover), format_count(round(state.hover)), "guide", width)
        if state.cursor >= 0:
            self._flag(painter, view.x_of(state.cursor), format_count(state.cursor), "cursor", width)

    def _flag_span(self, painter: QPainter, state: TimelineState, width: int) -> tuple[float, float]:
        """Return the left and right pixel of the cursor's flag on the ruler; (0, -1) without one."""
        x = state.viewport.x_of(state.cursor)
        if state.cursor < 0 or not -1 <= x <= width + 1:
            return 0.0, -1.0
        left, room = self._flag_place(painter, x, format_count(state.cursor), width)
        return left, left + room

    def _flag_place(self, painter: QPainter, x: float, text: str, width: int) -> tuple[float, float]:
        """Return left edge and width of a flag, and set the painter's font for it."""
        painter.setFont(self._theme.font_ui(11, bold=True))
        room = painter.fontMetrics().horizontalAdvance(text) + 10
        return min(max(x - room / 2, 0.0), max(width - room, 0.0)), room

    def _flag(self, painter: QPainter, x: float, text: str, role: str, width: int) -> None:
        """Draw a small label with a tip at the bottom edge of the ruler."""
        if not -1 <= x <= width + 1:
            return
        color = self._theme.color(role)
        left, room = self._flag_place(painter, x, text, width)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawRoundedRect(QRectF(left, RULER_HEIGHT - 21, room, 16), 3, 3)
        base = RULER_HEIGHT - 5
        painter.drawPolygon(QPolygonF([QPointF(x - 4, base), QPointF(x + 4, base), QPointF(x, RULER_HEIGHT)]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self._theme.text_on(color))
        painter.drawText(QRectF(left, RULER_HEIGHT - 21, room, 16), Qt.AlignmentFlag.AlignCenter, text)

    def paint_window(self, painter: QPainter, state: TimelineState, width: int) -> None:
        """Draw over the minimap: a frame around the visible cycles, bookmarks, and the cursor."""
        theme = self._theme
        whole = max(state.end_cycle, 1)
        left = min(max(state.viewport.start / whole, 0.0), 1.0) * width
        right = min(max(state.viewport.end / whole, 0.0), 1.0) * width
        right = max(right, left + 3)
        veil = translucent(theme.color("surface"), 165)
        painter.fillRect(QRectF(0, 0, left, MINIMAP_HEIGHT), veil)
        painter.fillRect(QRectF(right, 0, width - right, MINIMAP_HEIGHT), veil)
        painter.setPen(QPen(theme.color("accent"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(left, 0, right - left - 1, MINIMAP_HEIGHT - 1))
        for bookmark in state.bookmarks:
            painter.fillRect(
                QRectF(bookmark.first / whole * width, 0, 1.5, MINIMAP_HEIGHT), theme.color("bookmark")
            )
        if state.cursor >= 0:
            x = min(state.cursor / whole, 1.0) * width
            painter.fillRect(QRectF(x - 1, 0, 2, MINIMAP_HEIGHT), theme.color("cursor"))

    def paint_headers(
        self,
        painter: QPainter,
        state: TimelineState,
        rows: tuple[Row, ...],
        height: int,
        scales: Mapping[int, str],
    ) -> None:
        """Draw the names of the rows, indented by depth, with a triangle before each group.

        scales  counter track -> text of the value at the top of its row
        """
        theme = self._theme
        width = state.header_width
        painter.fillRect(0, 0, width, height, theme.color("surface"))
        for row in rows:
            top = row.top - state.scroll
            area = QRectF(0, top, width, row.height)
            if row.track >= 0 and row.track in state.selected_tracks:
                painter.fillRect(area, theme.color("selection"))
            elif row.track >= 0 and row.track == state.hover_track:
                painter.fillRect(area, theme.color("hover"))
            left = 8 + row.depth * INDENT
            if row.kind == "group":
                self._triangle(painter, left, top + row.height / 2, row.is_collapsed)
                has_tracks = bool(row.members)
                painter.setFont(theme.font_ui(12 if has_tracks else 11, bold=has_tracks))
                painter.setPen(theme.color("text" if has_tracks else "text-muted"))
                left += 12
            else:
                painter.setFont(theme.font_ui(12 if row.kind == "interval" else 11))
                role = "text" if row.kind == "interval" else "text-muted"
                chosen = row.track in state.selected_tracks
                painter.setPen(theme.color("selection-text" if chosen else role))
                left += 4
            room = width - left - 8
            scale = scales.get(row.track, "")
            if scale:
                wide = painter.fontMetrics().horizontalAdvance(scale)
                right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
                painter.drawText(QRectF(left, top, room, row.height), right, scale)
                room -= wide + 6
            if _is_estimated(state, row):
                pen = painter.pen()
                painter.setPen(theme.color("estimated"))
                mark = "\u2248"
                painter.drawText(QRectF(left, top, room, row.height), Qt.AlignmentFlag.AlignVCenter, mark)
                painter.setPen(pen)
                wide = painter.fontMetrics().horizontalAdvance(mark) + 4
                left, room = left + wide, room - wide
            text = painter.fontMetrics().elidedText(row.label, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QRectF(left, top, room, row.height), Qt.AlignmentFlag.AlignVCenter, text)
            painter.fillRect(QRectF(0, top + row.height - 1, width, 1), theme.color("grid"))
        painter.fillRect(width - 1, 0, 1, height, theme.color("border"))

    def _triangle(self, painter: QPainter, x: float, y: float, is_collapsed: bool) -> None:
        closed = [QPointF(x, y - 4), QPointF(x + 5, y), QPointF(x, y + 4)]
        opened = [QPointF(x - 2, y - 2), QPointF(x + 6, y - 2), QPointF(x + 2, y + 3)]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("text-muted"))
        painter.drawPolygon(QPolygonF(closed if is_collapsed else opened))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def paint_measurement(
        self, painter: QPainter, measurement: Measurement, style: TimelineStyle, width: int, height: int
    ) -> None:
        """Draw the numbers of the selected range in a small box at the upper right."""
        theme = self._theme
        body, small = theme.font_ui(12, bold=True), theme.font_ui(11)
        shares, counters = measurement.shares[:MAX_KINDS], measurement.counters
        lines = 2 + len(shares) + len(measurement.counters)
        box_width = min(300.0, width - 16.0)
        box = QRectF(width - box_width - 10, 10, box_width, 18.0 * lines + 14)
        if box.height() > height - 12 or box_width < 160:
            box = QRectF(width - box_width - 10, 10, box_width, 50)
            shares, counters = (), ()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(theme.color("border"), 1))
        painter.setBrush(translucent(theme.color("raised"), 244))
        painter.drawRoundedRect(box, 6, 6)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        inner = box.adjusted(10, 7, -10, -7)
        y = inner.top()
        painter.setFont(body)
        painter.setPen(theme.color("text"))
        painter.drawText(
            QRectF(inner.left(), y, inner.width(), 18), Qt.AlignmentFlag.AlignVCenter, measurement.title()
        )
        y += 18
        painter.setFont(small)
        painter.setPen(theme.color("text-muted"))
        tracks = measurement.tracks_text
        busy = f"{measurement.parts_text}; {tracks}" if measurement.num_tracks else tracks
        painter.drawText(QRectF(inner.left(), y, inner.width(), 18), Qt.AlignmentFlag.AlignVCenter, busy)
        y += 18
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        for share in shares:
            painter.fillRect(QRectF(inner.left(), y + 5, 9, 9), style.colors[share.category])
            painter.setPen(theme.color("text"))
            name = painter.fontMetrics().elidedText(
                share.name, Qt.TextElideMode.ElideRight, int(inner.width() - 150)
            )
            painter.drawText(
                QRectF(inner.left() + 15, y, inner.width() - 150, 18), Qt.AlignmentFlag.AlignVCenter, name
            )
            painter.drawText(QRectF(inner.right() - 135, y, 82, 18), right, format_count(share.cycles))
            painter.drawText(QRectF(inner.right() - 50, y, 50, 18), right, format_share(share.fraction))
            y += 18
        for values in counters:
            name = values.name.rsplit(".", 1)[-1]
            text = f"{name}: min {values.low}  mean {values.mean:.4g}  max {values.high}"
            painter.setPen(theme.color("text-muted"))
            painter.drawText(QRectF(inner.left(), y, inner.width(), 18), Qt.AlignmentFlag.AlignVCenter, text)
            y += 18
