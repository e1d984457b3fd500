"""Paint over the tracks: cursor, guide, ranges, bookmarks, picked slice, arrows, work under way."""

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QLinearGradient, QPainter, QPainterPath, QPen, QPolygonF

from npuviz.trace.unit_times import UnderWay
from npuviz.ui.kit.colors import translucent
from npuviz.ui.kit.elided_label import elided
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.index import Categories
from npuviz.ui.timeline.rows import Row
from npuviz.ui.timeline.state import Arrow, TimelineState

FADE_ALPHA = 96
PATH_HEIGHT = 4.0
MOST_PIECES = 4000
"""A path with more pieces in sight is thinned evenly."""
OPEN_END_PIXELS = 12.0
DASHES: dict[str, list[float]] = {"anti": [5, 3], "output": [1.2, 2.4], "accumulate": [7, 2.5, 1.2, 2.5]}
"""Kind of dependency -> dashes and gaps of its line, in widths of the line; other kinds are solid."""


def arrow_pen(theme: Theme, kind: str, is_chosen: bool = False) -> QPen:
    """Return the pen for an arrow of a kind: its colour, and dashes that tell kinds apart without colour."""
    if not kind:
        return QPen(theme.color("accent" if is_chosen else "text-muted"), 2.0 if is_chosen else 1.3)
    pen = QPen(theme.color(f"dependency-{kind}"), 2.6 if is_chosen else 1.5)
    if kind in DASHES:
        pen.setDashPattern(DASHES[kind])
    return pen


class MarksPainter:
    """Draws in the coordinates of the track area: x 0 is its left edge, y 0 its top."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme

    def paint(self, painter: QPainter, state: TimelineState, width: int, height: int) -> None:
        """Draw all marks of a frame in their order."""
        self._future(painter, state, width, height)
        self._under_way(painter, state, height)
        self._spans(painter, state, height)
        if state.path is not None:
            self._path(painter, state, state.path, (width, height))
        self._range(painter, state, height)
        self._picked(painter, state, width)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for number, arrow in enumerate(state.arrows):
            self._arrow(painter, state, arrow, number == state.arrow)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        self._bookmarks(painter, state, height)
        if state.hover is not None:
            x = round(state.viewport.x_of(state.hover))
            painter.setPen(QPen(translucent(self._theme.color("guide"), 170), 1, Qt.PenStyle.DashLine))
            painter.drawLine(x, 0, x, height)
        if state.cursor >= 0:
            x = round(state.viewport.x_of(state.cursor))
            painter.fillRect(QRectF(x - 0.5, 0, 1.5, height), self._theme.color("cursor"))

    def _future(self, painter: QPainter, state: TimelineState, width: int, height: int) -> None:
        """Fade what is recorded beyond the cursor."""
        if 0 <= state.cursor < state.end_cycle:
            x = max(state.viewport.x_of(state.cursor), 0.0)
            if x < width:
                veil = translucent(self._theme.color("canvas"), FADE_ALPHA)
                painter.fillRect(QRectF(x, 0, width - x, height), veil)

    def _row_box(self, state: TimelineState, row: Row) -> tuple[float, float]:
        return row.top - state.scroll + 2, row.height - 4

    def _under_way(self, painter: QPainter, state: TimelineState, height: int) -> None:
        """Draw the work under way in visible rows; a fabric has many rows that are not visible."""
        in_sight = {row.track: row for row in state.layout.between(state.scroll, state.scroll + height)}
        for item in state.under_way:
            row = in_sight.get(item.track)
            if row is not None and state.index is not None:
                self._slice_under_way(painter, state, item, row, state.index.categories)

    def _slice_under_way(
        self, painter: QPainter, state: TimelineState, item: UnderWay, row: Row, categories: Categories
    ) -> None:
        """Draw a slice that is not recorded yet; one without an end so far fades out behind the cursor."""
        left = max(state.viewport.x_of(item.start), -4.0)
        right = max(state.viewport.x_of(item.end), left + 1)
        role = categories.roles[item.kind] if item.kind < len(categories.roles) else "control"
        color = self._theme.color(role)
        if not categories.is_work[item.kind]:
            color = translucent(color, 120)
        top, height = self._row_box(state, row)
        painter.fillRect(QRectF(left, top, right - left, height), color)
        if item.end >= state.cursor:
            gradient = QLinearGradient(right, 0, right + OPEN_END_PIXELS, 0)
            gradient.setColorAt(0, translucent(color, 170))
            gradient.setColorAt(1, translucent(color, 0))
            painter.fillRect(QRectF(right, top, OPEN_END_PIXELS, height), QBrush(gradient))
        name = categories.names[item.kind]
        names = state.index.reader.schema.node_names if state.index is not None else ()
        if 0 <= item.node < len(names) and categories.is_work[item.kind]:
            name = f"{name}  {names[item.node]}"
        room = right - max(left, 0.0) - 8
        if room >= 24:
            painter.setFont(self._theme.font_ui(11))
            text = elided(painter.fontMetrics(), name, int(room))
            painter.setPen(
                self._theme.text_on(color) if categories.is_work[item.kind] else self._theme.color("text")
            )
            area = QRectF(max(left, 0.0) + 4, top, room, height)
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, text)

    def _spans(self, painter: QPainter, state: TimelineState, height: int) -> None:
        color = self._theme.color("bookmark")
        by_name = {track.name: track.id for track in state.index.reader.schema.tracks} if state.index else {}
        ranges = [(each.first, each.last, each.track) for each in state.bookmarks if each.is_range]
        pens = [Qt.PenStyle.SolidLine] * len(ranges)
        if state.mark is not None:
            ranges.append((*state.mark, ""))
            pens.append(Qt.PenStyle.DotLine)
        for (first, last, track), pen in zip(ranges, pens, strict=True):
            left, right = state.viewport.x_of(first), state.viewport.x_of(last)
            row = state.layout.of_track(by_name.get(track, -1)) if track else None
            top, bottom = (row.top - state.scroll, row.bottom - state.scroll) if row else (0.0, float(height))
            painter.fillRect(QRectF(left, top, right - left, bottom - top), translucent(color, 22))
            painter.setPen(QPen(translucent(color, 180), 1, pen))
            painter.drawLine(QPointF(left, top), QPointF(left, bottom))
            painter.drawLine(QPointF(right, top), QPointF(right, bottom))

    def _path(self, painter: QPainter, state: TimelineState, path: np.ndarray, size: tuple[int, int]) -> None:
        """Draw a path as a line under the slices it leads through, joined where it changes to another
        track.
        """
        x = state.viewport.x_of
        low = int(np.searchsorted(path["end"], state.viewport.cycle_at(0.0)))
        high = int(np.searchsorted(path["start"], state.viewport.cycle_at(float(size[0]))))
        step = max(1, -(-(high - low) // MOST_PIECES))
        color = self._theme.color("accent")
        before: tuple[float, float] | None = None
        painter.setPen(QPen(translucent(color, 150), 1))
        for start, end, track in path[low:high:step][["start", "end", "track"]].tolist():
            row = state.layout.showing(track) if track >= 0 else None
            if row is None:
                before = None
                continue
            left, right, y = x(start), x(end), float(row.bottom - state.scroll)
            painter.fillRect(QRectF(left, y - PATH_HEIGHT, max(right - left, 1.0), PATH_HEIGHT), color)
            if before is not None and before[1] != y and step == 1:
                painter.drawLine(QPointF(left, before[1]), QPointF(left, y))
            before = right, y

    def _range(self, painter: QPainter, state: TimelineState, height: int) -> None:
        chosen = state.range
        if chosen is None:
            return
        left, right = state.viewport.x_of(chosen.first), state.viewport.x_of(chosen.last)
        top, bottom = 0.0, float(height)
        if chosen.bottom > chosen.top:
            top, bottom = chosen.top - state.scroll, chosen.bottom - state.scroll
        accent = self._theme.color("accent")
        painter.fillRect(QRectF(left, top, right - left, bottom - top), translucent(accent, 44))
        painter.setPen(QPen(accent, 1))
        painter.drawLine(QPointF(left, 0), QPointF(left, height))
        painter.drawLine(QPointF(right, 0), QPointF(right, height))

    def _picked(self, painter: QPainter, state: TimelineState, width: int) -> None:
        picked = state.picked
        row = state.layout.of_track(picked.track) if picked else None
        if picked is None or row is None:
            return
        left = max(state.viewport.x_of(picked.start), -3.0)
        right = min(state.viewport.x_of(picked.end), width + 3.0)
        if right < 0 or left > width:
            return
        top, height = self._row_box(state, row)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._theme.color("text"), 2))
        painter.drawRect(QRectF(left, top, max(right - left, 2.0), height))

    def _arrow(self, painter: QPainter, state: TimelineState, arrow: Arrow, is_chosen: bool) -> None:
        source, sink = state.layout.showing(arrow.source_track), state.layout.showing(arrow.sink_track)
        if source is None or sink is None:
            return
        start = QPointF(
            state.viewport.x_of(arrow.source_cycle), source.top + source.height / 2 - state.scroll
        )
        end = QPointF(state.viewport.x_of(arrow.cycle), sink.top + sink.height / 2 - state.scroll)
        bend = min(max(abs(end.x() - start.x()) / 2, 16.0), 120.0)
        path = QPainterPath(start)
        path.cubicTo(start + QPointF(bend, 0), end - QPointF(bend, 0), end)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        halo = QPen(translucent(self._theme.color("canvas"), 200), 4.5 if is_chosen else 3.5)
        painter.setPen(halo)
        painter.drawPath(path)
        pen = arrow_pen(self._theme, arrow.kind, is_chosen)
        painter.setPen(pen)
        painter.drawPath(path)
        color = pen.color()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color)
        painter.drawPolygon(QPolygonF([end, end + QPointF(-8, -4), end + QPointF(-8, 4)]))

    def _bookmarks(self, painter: QPainter, state: TimelineState, height: int) -> None:
        color = self._theme.color("bookmark")
        for bookmark in state.bookmarks:
            if bookmark.is_range:
                continue
            x = round(state.viewport.x_of(bookmark.first))
            painter.setPen(QPen(translucent(color, 140), 1))
            painter.drawLine(x, 0, x, height)
