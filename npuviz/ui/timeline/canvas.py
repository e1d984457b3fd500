"""The widget that paints a timeline: minimap, ruler, headers and tracks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from PySide6.QtCore import QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QScrollBar, QWidget

from npuviz.base.units import format_bytes, format_count
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import Track
from npuviz.trace.unit_times import UnderWay
from npuviz.ui.kit.gestures import Canvas
from npuviz.ui.kit.viewport import Viewport
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.chrome import MINIMAP_HEIGHT, RULER_HEIGHT, ChromePainter
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.marks import MarksPainter
from npuviz.ui.timeline.measure import measure
from npuviz.ui.timeline.raster import Frame, NameOf, TimelineRaster
from npuviz.ui.timeline.rows import Row, RowLayout, RowOptions, lay_out
from npuviz.ui.timeline.state import NOTHING_MARKED, Arrow, Marked, Picked, Range, TimelineState
from npuviz.ui.timeline.style import TimelineStyle
from npuviz.ui.timeline.tooltip import slice_name
from npuviz.workbench.sessions.bookmarks import Bookmark

TOP = MINIMAP_HEIGHT + RULER_HEIGHT
SCROLLBAR_WIDTH = 12
MINIMAP_MS, MINIMAP_LAG = 150, 8
"""Milliseconds after which the minimap follows a growing run; until then it may lag by 1/8 of its cycles."""


class TimelineCanvas(Canvas):
    """Shows one trace, with methods for what gestures and keys do. It reads only the trace, never a machine.

    picked           the user picked a slice; None: cleared the choice
    range_changed    the user measured a range of cycles; None: cleared it
    go_to            the user wants the machine at a cycle
    options_changed  rows were folded, hidden, pinned or resized
    bookmark_asked, bookmark_dropped  the user wants a bookmark set, or deleted
    reader  the trace that is shown
    tracks  all tracks of the trace; from `num_recorded` on those that a grouping made of the others
    """

    keys_text = "F fits, W and S zoom, A and D pan, arrows choose slices"
    picked = Signal(object)
    range_changed = Signal(object)
    go_to = Signal("qlonglong")  # pyright: ignore[reportArgumentType]
    options_changed = Signal()
    bookmark_asked = Signal(object)
    bookmark_dropped = Signal(object)
    menu_requested = Signal(QPoint, object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, "timeline.view", "Timeline", parent)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setMinimumSize(320, 140)
        self.theme = theme
        self.state = TimelineState()
        self.options = RowOptions(row_height=theme.row_height)
        self.by_operator = False
        self.is_fitted = True
        self.reader: TraceReader | None = None
        self._name_of: NameOf | None = None
        self.tracks: tuple[Track, ...] = ()
        self.num_recorded = 0
        self._raster: TimelineRaster | None = None
        self._style: TimelineStyle | None = None
        self._image: QImage | None = None
        self._image_key: object = None
        self._headers: QPixmap | None = None
        self._headers_key: object = None
        self._minimap: QImage | None = None
        self._minimap_key: tuple[object, object] = (None, None)
        self._minimap_end = 0
        self._minimap_soon = QTimer(self, singleShot=True, interval=MINIMAP_MS)
        self._minimap_soon.timeout.connect(self._renew_minimap)
        self._marks = MarksPainter(theme)
        self._chrome = ChromePainter(theme)
        self._scrollbar = QScrollBar(Qt.Orientation.Vertical, self)
        self._scrollbar.valueChanged.connect(self._scrolled)
        theme.changed.connect(self.refresh_colors)

    def summary(self) -> str:
        state = self.state
        if self.reader is None:
            return "Nothing is open"
        first = max(round(state.viewport.start), 0)
        last = min(round(state.viewport.end), max(state.end_cycle, first))
        parts = [
            f"{len(self.tracks)} tracks, cycles {first} to {last} of {state.end_cycle}",
            f"the machine is at cycle {state.cursor}" if state.cursor >= 0 else "",
            self._picked_text(),
            state.measurement.title() if state.measurement is not None else "",
        ]
        return "; ".join(part for part in parts if part)

    def _picked_text(self) -> str:
        """Describe the selected slice, "" without one."""
        picked, index = self.state.picked, self.state.index
        if picked is None or index is None:
            return ""
        track = next((track.name for track in self.tracks if track.id == picked.track), "")
        return f"selected: {track} {slice_name(index, picked)}, cycles {picked.start} to {picked.end}"

    # -- what is shown ------------------------------------------------------------------------------

    @property
    def style_colors(self) -> TimelineStyle | None:
        """Colours in use, None while nothing is shown."""
        return self._style

    def set_reader(self, reader: TraceReader | None, name_of: NameOf | None = None) -> None:
        """Show another trace, from its beginning to its end.

        name_of  returns short and long text of an instruction for labels; None: work is labelled by its kind
        """
        self.reader = reader
        self._name_of = name_of
        self.tracks = reader.schema.tracks if reader else ()
        self.num_recorded = len(self.tracks)
        kept = TimelineState(
            header_width=self.state.header_width, viewport=self.state.viewport, bookmarks=self.state.bookmarks
        )
        self.state = kept
        self.is_fitted = True
        self._rebuild()
        self.refresh_data()

    def regroup(self, reader: TraceReader) -> None:
        """Show the same trace, at the same place, by a reader that may have further tracks at its end."""
        self.reader = reader
        picked = self.state.picked
        if picked is not None and picked.track >= self.num_recorded:
            self.state.picked, self.state.arrows = None, ()
        self.state.marked = NOTHING_MARKED
        self._rebuild()
        self.refresh_data()

    def set_estimated(self, tracks: Iterable[int]) -> None:
        """Mark tracks whose intervals are assumptions."""
        self.state.estimated = frozenset(tracks)
        self._headers_key = None
        self.update()

    def set_by_operator(self, by_operator: bool) -> None:
        """Colour work by operator type instead of by what the unit does."""
        self.by_operator = by_operator
        self._rebuild()

    def set_options(self, options: RowOptions) -> None:
        """Arrange the rows by other options."""
        self.options = options
        self._lay_out()
        self.options_changed.emit()

    def refresh_data(self) -> None:
        """Read the trace again, because it has grown, or its history was rewritten."""
        self._image_key = None
        if self.reader is not None and self.reader.schema.tracks is not self.tracks:
            self._rebuild()
        state = self.state
        state.end_cycle = self.reader.end_cycle if self.reader else 0
        if self.is_fitted:
            self._fit_growing()
        else:
            state.viewport = state.viewport.clamped(max(state.end_cycle, state.cursor))
        self._measure()
        self.update()

    def refresh_colors(self) -> None:
        """Read the colours of the theme again."""
        self._rebuild()

    def set_cursor_cycle(self, cycle: int, reveal: bool = True) -> None:
        """Set the cycle of the machine, -1 for none; if `reveal`, move the visible window to contain it."""
        state = self.state
        moved = cycle != state.cursor
        state.cursor = cycle
        if reveal and moved and cycle >= 0 and not self.is_fitted:
            state.viewport = state.viewport.revealed(cycle, max(state.end_cycle, cycle))
        self.update()

    def set_under_way(self, rows: Sequence[UnderWay]) -> None:
        """Set the work under way at the cursor, which is drawn although the trace does not hold it yet."""
        self.state.under_way = rows
        self.update()

    def set_arrows(self, arrows: Iterable[Arrow]) -> None:
        """Set the arrows of the picked slice."""
        state, fresh = self.state, tuple(arrows)
        if fresh != state.arrows:
            state.arrows, state.arrow = fresh, 0
            self.update()

    def set_node(self, node: int) -> None:
        """Underline the slices of a graph node; -1 for none."""
        self.state.node = node
        self.update()

    def set_instructions(self, instructions: np.ndarray) -> None:
        """Underline the slices of instructions, rising; none for an empty array."""
        self.state.marked = Marked(instructions) if len(instructions) else NOTHING_MARKED
        self.update()

    def set_bookmarks(self, bookmarks: Iterable[Bookmark]) -> None:
        """Set the bookmarks to draw."""
        self.state.bookmarks = tuple(bookmarks)
        self.update()

    def set_path(self, path: np.ndarray | None) -> None:
        """Mark a path through the tracks (SEGMENT_DTYPE, oldest first); None removes the marks."""
        self.state.path = path
        self.update()

    def bookmark_of(self, picked: Picked) -> Bookmark:
        """Make a bookmark of a slice, labelled with the name of the slice."""
        track = next((track.name for track in self.tracks if track.id == picked.track), "")
        index = self.state.index
        label = slice_name(index, picked) if index is not None else ""
        return Bookmark(picked.start, picked.end, track=track, label=label)

    # -- what gestures do -----------------------------------------------------------------------------

    def set_viewport(self, viewport: Viewport) -> None:
        """Show other cycles, as the user asked: the window no longer follows the growing run."""
        self.is_fitted = False
        self.state.viewport = viewport
        self.update()

    def zoom_to(self, first: int, last: int) -> None:
        """Show a range of cycles with a margin."""
        end = max(self.state.end_cycle, self.state.cursor)
        self.set_viewport(self.state.viewport.shown(first, last, end, 0.1))

    def fit(self) -> None:
        """Show the whole run, and keep showing it while it grows."""
        self.is_fitted = True
        state = self.state
        state.viewport = state.viewport.fitted(max(state.end_cycle, state.cursor, 1))
        self.update()

    def pick(self, picked: Picked | None, tell: bool = True) -> None:
        """Select a slice, None for none; emit `picked` if `tell`."""
        self.state.picked = picked
        self.state.arrows = ()
        if tell:
            self.picked.emit(picked)
        self.update()

    def set_range(self, chosen: Range | None, is_final: bool = True) -> None:
        """Measure a range of cycles, None for none; emit `range_changed` if `is_final`."""
        self.state.range = chosen
        self._measure()
        if is_final:
            self.range_changed.emit(chosen)
        self.update()

    def reveal_row(self, track: int) -> None:
        """Scroll so that the row of a track is visible."""
        row = self.state.layout.of_track(track)
        if row is None:
            return
        height = self.tracks_rect().height()
        if row.top < self.state.scroll:
            self._scrollbar.setValue(row.top)
        elif row.bottom > self.state.scroll + height:
            self._scrollbar.setValue(row.bottom - height)

    def bring_up(self, track: int) -> None:
        """Scroll so that the row of a track, with the head of its group, is at the top."""
        row = self.state.layout.showing(track)
        if row is None:
            return
        heads = [r.top for r in self.state.layout.rows if r.kind == "group" and r.bottom == row.top]
        self._scrollbar.setValue(heads[0] if heads else row.top)

    def reveal_cycles(self, first: int, last: int) -> None:
        """Move the window, at the same zoom, so that a slice is visible, unless some of it is already."""
        view = self.state.viewport
        if not (last > view.start and first < view.end):
            self.set_viewport(view.revealed(first, max(self.state.end_cycle, self.state.cursor)))

    def scroll_rows(self, pixels: int) -> None:
        """Move the rows up by a number of pixels (down if negative)."""
        self._scrollbar.setValue(self._scrollbar.value() + pixels)

    def toggle_group(self, row: Row) -> None:
        """Fold or unfold a group."""
        self.set_options(replace(self.options, collapsed=self.options.collapsed ^ {row.name}))

    def set_header_width(self, width: int) -> None:
        """Resize the column of names."""
        self.state.header_width = min(max(width, 60), max(self.width() // 2, 60))
        self._resize_viewport()

    # -- geometry ---------------------------------------------------------------------------------------

    def tracks_rect(self) -> QRect:
        """Return the rectangle in which slices are drawn."""
        left = self.state.header_width
        width = max(self.width() - left - SCROLLBAR_WIDTH, 1)
        return QRect(left, TOP, width, max(self.height() - TOP, 1))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._resize_viewport()

    def _resize_viewport(self) -> None:
        area = self.tracks_rect()
        self.state.viewport = self.state.viewport.resized(float(area.width()))
        self._scrollbar.setGeometry(self.width() - SCROLLBAR_WIDTH, TOP, SCROLLBAR_WIDTH, area.height())
        self._update_scrollbar()
        if self.is_fitted:
            self._fit_growing()
        self.update()

    def _update_scrollbar(self) -> None:
        height = self.tracks_rect().height()
        self._scrollbar.setRange(0, max(self.state.layout.height - height, 0))
        self._scrollbar.setPageStep(height)
        self._scrollbar.setSingleStep(self.options.row_height)
        self._scrollbar.setVisible(self._scrollbar.maximum() > 0)

    def _scrolled(self, value: int) -> None:
        self.state.scroll = value
        self.update()

    def _fit_growing(self) -> None:
        """Keep the whole run visible without moving the picture at every step."""
        state = self.state
        end = max(state.end_cycle, state.cursor, 1)
        if state.viewport.start != 0 or not end * 1.01 <= state.viewport.span <= end * 1.5:
            fitted = state.viewport.fitted(end)
            state.viewport = fitted

    # -- painting ---------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        theme, state = self.theme, self.state
        area = self.tracks_rect()
        if self._raster is None:
            painter.fillRect(self.rect(), theme.color("canvas"))
        rows = state.layout.between(state.scroll, state.scroll + area.height())
        if self._raster is not None and self._style is not None and self.reader is not None:
            painter.drawImage(area.topLeft(), self._track_image(area, rows))
            self._clipped(painter, area)
            self._marks.paint(painter, state, area.width(), area.height())
            if state.measurement is not None and state.range is not None:
                self._chrome.paint_measurement(
                    painter, state.measurement, self._style, area.width(), area.height()
                )
            painter.restore()
            minimap = QRect(area.left(), 0, area.width(), MINIMAP_HEIGHT)
            painter.drawImage(minimap.topLeft(), self._minimap_image(minimap))
            self._clipped(painter, minimap)
            self._chrome.paint_window(painter, state, minimap.width())
            painter.restore()
        painter.fillRect(area.right() + 1, 0, SCROLLBAR_WIDTH + 1, self.height(), theme.color("surface"))
        frequency = self.reader.schema.frequency_hz if self.reader else 0.0
        self._clipped(painter, QRect(area.left(), MINIMAP_HEIGHT, area.width(), RULER_HEIGHT))
        self._chrome.paint_ruler(painter, state, area.width(), frequency)
        painter.restore()
        painter.drawPixmap(0, TOP, self._header_pixmap(rows, area.height()))
        painter.fillRect(0, 0, state.header_width, TOP, theme.color("surface"))
        painter.fillRect(0, TOP - 1, state.header_width, 1, theme.color("border"))
        painter.fillRect(state.header_width - 1, 0, 1, TOP, theme.color("border"))
        painter.end()
        if self._raster is not None and self._raster.wants_more:
            self._image_key = None
            self.update()

    def _clipped(self, painter: QPainter, area: QRect) -> None:
        """Clip drawing to an area and put the origin at its corner, until `painter.restore`."""
        painter.save()
        painter.setClipRect(area)
        painter.translate(area.topLeft())

    def _track_image(self, area: QRect, rows: tuple[Row, ...]) -> QImage:
        state = self.state
        ratio = self.devicePixelRatioF()
        marked = state.node, state.marked
        key = (state.viewport, state.scroll, state.layout, area.size().toTuple(), ratio, marked)
        if self._image is None or key != self._image_key:
            assert self._raster is not None
            frame = Frame(
                state.viewport,
                rows,
                area.width(),
                area.height(),
                state.scroll,
                ratio,
                state.end_cycle,
                state.node,
                state.marked,
            )
            self._image = self._raster.paint(frame)
            self._image_key = key
        return self._image

    def _header_pixmap(self, rows: tuple[Row, ...], height: int) -> QPixmap:
        """Return the picture of the row headers, kept between frames because drawing text is slow."""
        state = self.state
        ratio = self.devicePixelRatioF()
        size, texts = (state.header_width, height, ratio), self._scale_texts(rows)
        look = state.selected_tracks, state.hover_track, self._style
        key = (state.layout, state.scroll, size, look, texts)
        if self._headers is None or key != self._headers_key:
            pixmap = QPixmap(round(state.header_width * ratio), round(height * ratio))
            pixmap.setDevicePixelRatio(ratio)
            painter = QPainter(pixmap)
            self._chrome.paint_headers(painter, state, rows, height, texts)
            painter.end()
            self._headers, self._headers_key = pixmap, key
        return self._headers

    def _scale_texts(self, rows: tuple[Row, ...]) -> dict[int, str]:
        """Return, for each visible counter track, the text of the value at the top of its row."""
        texts: dict[int, str] = {}
        by_id = {track.id: track for track in self.tracks}
        for row in rows:
            if row.kind == "counter" and self._raster is not None:
                value = self._raster.scale_of(row.track, self.state.end_cycle)
                is_bytes = by_id[row.track].measure == "bytes"
                texts[row.track] = format_bytes(value) if is_bytes else format_count(value)
        return texts

    def _minimap_image(self, area: QRect) -> QImage:
        ratio = self.devicePixelRatioF()
        # The picture of a growing run is renewed when it has grown by a hundredth.
        grown = (
            self.state.end_cycle.bit_length(),
            self.state.end_cycle * 100 >> self.state.end_cycle.bit_length(),
        )
        key = (area.width(), ratio), grown
        kept, known = self._minimap, self._minimap_key
        behind = self.state.end_cycle - self._minimap_end
        is_close = 0 <= behind * MINIMAP_LAG <= self._minimap_end
        if kept is not None and key != known and known[0] == key[0] and is_close:
            # Painting it reads all tracks, so it is renewed later; until then it differs by a pixel or two.
            self._minimap_soon.start()
            return kept
        if kept is None or key != known:
            assert self._raster is not None
            self._minimap_end = self.state.end_cycle
            kept = self._raster.paint_overview(area.width(), area.height(), ratio, self._minimap_end)
            self._minimap, self._minimap_key = kept, key
        return kept

    def _renew_minimap(self) -> None:
        self._minimap = None
        self.update(QRect(0, 0, self.width(), MINIMAP_HEIGHT))

    def _rebuild(self) -> None:
        """Build everything again that depends on the trace, its colouring or the theme."""
        self._image = self._image_key = self._minimap = None
        if self.reader is None:
            self._raster = self._style = None
            self.state.index = None
        else:
            self.tracks = self.reader.schema.tracks
            index = TimelineIndex(self.reader, self.by_operator)
            self._style = TimelineStyle(self.theme, index.categories)
            font = self.theme.font_ui(11)
            self._raster = TimelineRaster(self.reader, index, self._style, font, self._name_of)
            self._raster.num_recorded = self.num_recorded
            self.state.index = index
        # A measurement names the categories of the colouring that it was made with.
        self._measure()
        self._lay_out()

    def _lay_out(self) -> None:
        self.state.layout = lay_out(self.tracks, self.options) if self.tracks else RowLayout()
        self._image_key = None
        self._update_scrollbar()
        self.update()

    def _measure(self) -> None:
        state = self.state
        state.measurement = None
        if state.range is None or state.index is None or state.range.last <= state.range.first:
            return
        wanted = set(state.range.tracks)
        tracks = [track for track in self.tracks if track.id in wanted]
        cycles = state.range.first, state.range.last
        state.measurement = measure(state.index, tracks, *cycles, state.under_way)
