"""Handle mouse, wheel and keys of a timeline."""

from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from npuviz.ui.kit.gestures import DRAG_PIXELS, is_sideways, notches
from npuviz.ui.kit.plain_text import Markup
from npuviz.ui.theme.theme import Theme
from npuviz.ui.timeline.canvas import TimelineCanvas
from npuviz.ui.timeline.chrome import MINIMAP_HEIGHT, RULER_HEIGHT
from npuviz.ui.timeline.keys import Keys
from npuviz.ui.timeline.rows import Place
from npuviz.ui.timeline.state import Range
from npuviz.ui.timeline.tooltip import tooltip_text

SNAP_PIXELS = 5.0
CLICK_REACH = 3.0
MIN_ROW_HEIGHT, MAX_ROW_HEIGHT = 12, 64

Drag = Literal["", "maybe-range", "range", "pan", "zoom", "minimap", "border", "menu"]


class TimelineView(TimelineCanvas):
    """A timeline that turns mouse, wheel and key events into changes of what is shown."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._keys = Keys(self)
        self._drag: Drag = ""
        self._origin = QPointF()
        self._previous = QPointF()
        self._origin_cycle = 0.0
        self._origin_y = 0.0

    # -- places -------------------------------------------------------------------------------------

    def position_of(self, point: QPointF | QPoint) -> Place:
        """Return what is at a point of the widget."""
        state = self.state
        x = point.x() - state.header_width
        y = point.y() - MINIMAP_HEIGHT - RULER_HEIGHT
        if abs(x) <= 3 and y >= 0:
            return Place("border", x, y, None)
        if y < 0:
            zone = "minimap" if point.y() < MINIMAP_HEIGHT else "ruler"
            return Place(zone, x, y, None)
        row = state.layout.at(y + state.scroll)
        return Place("header" if x < 0 else "tracks", x, y + state.scroll, row)

    # -- mouse --------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a click or a drag."""
        place = self.position_of(event.position())
        state = self.state
        self._origin = self._previous = event.position()
        self._origin_cycle = state.viewport.cycle_at(place.x)
        self._origin_y = place.y
        button = event.button()
        if button == Qt.MouseButton.RightButton:
            self._drag = "menu"
        elif button == Qt.MouseButton.MiddleButton:
            self._drag = "zoom"
        elif button != Qt.MouseButton.LeftButton:
            return
        elif place.zone == "minimap":
            self._drag = "minimap"
            self._move_window(place.x)
        elif place.zone == "border":
            self._drag = "border"
        elif place.zone == "header":
            self._click_header(place, event.modifiers())
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._drag = "pan"
        else:
            self._drag = "maybe-range"

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Continue a drag, or show the cycle under the pointer."""
        state = self.state
        point = event.position()
        place = self.position_of(point)
        state.hover_track = place.track
        inside = place.x >= 0 and place.zone in ("tracks", "ruler")
        state.hover = max(state.viewport.cycle_at(place.x), 0.0) if inside else None
        if inside and place.track >= 0 and not self._drag:
            state.hover = float(self._snapped(place))
        far = (point - self._origin).manhattanLength() >= DRAG_PIXELS
        if self._drag == "menu" and far:
            self._drag = "pan"
        if self._drag == "maybe-range" and far:
            self._drag = "range"
        if self._drag == "pan":
            end = max(state.end_cycle, state.cursor)
            self.set_viewport(state.viewport.panned(self._previous.x() - point.x(), end))
            self.scroll_rows(round(self._previous.y() - point.y()))
        elif self._drag in ("range", "zoom"):
            self._drag_range(place, is_final=False)
        elif self._drag == "minimap":
            self._move_window(place.x)
        elif self._drag == "border":
            self.set_header_width(round(point.x()))
        self._previous = point
        on_border = place.zone == "border" or self._drag == "border"
        self.setCursor(Qt.CursorShape.SplitHCursor if on_border else Qt.CursorShape.ArrowCursor)
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a click or a drag."""
        place = self.position_of(event.position())
        drag, self._drag = self._drag, ""
        if drag == "range":
            self._drag_range(place, is_final=True)
        elif drag == "zoom":
            chosen = self.state.range
            self.set_range(None)
            if chosen is not None and chosen.last > chosen.first:
                self.set_viewport(self.state.viewport.shown(chosen.first, chosen.last, self.state.end_cycle))
        elif drag == "maybe-range":
            self._click(place)
        elif drag == "menu":
            self.menu_requested.emit(event.globalPosition().toPoint(), place)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Zoom to a slice, or out with Shift; on the ruler go to the cycle, on the minimap show the whole
        run.
        """
        state = self.state
        place = self.position_of(event.position())
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if place.zone == "minimap":
            self.fit()
        elif place.zone == "ruler":
            self.go_to.emit(max(round(state.viewport.cycle_at(place.x)), 0))
        elif place.zone == "tracks":
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.set_viewport(state.viewport.zoomed(8.0, place.x, max(state.end_cycle, state.cursor)))
                return
            found = state.slice_near(place.track, place.x, CLICK_REACH)
            if found is not None:
                self.pick(found)
                self.set_viewport(state.viewport.shown(found.start, found.end, state.end_cycle, 0.5))

    def hover(self, spot: QPointF | None) -> None:
        if spot is None:
            self.state.hover, self.state.hover_track = None, -1
            self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the pointer with Ctrl, pan with Shift, change the row height with Alt, else scroll the
        rows.
        """
        state = self.state
        place = self.position_of(event.position())
        modifiers = event.modifiers()
        steps = notches(event)
        end = max(state.end_cycle, state.cursor)
        if modifiers & Qt.KeyboardModifier.ControlModifier:
            self.set_viewport(state.viewport.zoomed(1.25**-steps, max(place.x, 0.0), end))
        elif modifiers & Qt.KeyboardModifier.AltModifier:
            height = min(max(self.options.row_height + round(2 * steps), MIN_ROW_HEIGHT), MAX_ROW_HEIGHT)
            self.set_options(replace(self.options, row_height=height))
        elif is_sideways(event):
            self.set_viewport(state.viewport.panned(-steps * state.viewport.width / 8, end))
        else:
            self.scroll_rows(round(-steps * 3 * self.options.row_height))
        event.accept()

    def tip_at(self, spot: QPointF) -> str:
        return Markup(tooltip_text(self.state, self.tracks, self.position_of(spot)))

    # -- keys ---------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self._keys.press(event):
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        is_shortcut = event.type() == QEvent.Type.ShortcutOverride
        # Plain letters belong to the canvas while it has the focus, not to the window's shortcuts.
        if is_shortcut and isinstance(event, QKeyEvent) and self._keys.claims(event):
            event.accept()
            return True
        return super().event(event)

    # -- inside -------------------------------------------------------------------------------------

    def _snapped(self, place: Place) -> int:
        viewport = self.state.viewport
        return self.state.snapped(
            place.track, viewport.cycle_at(place.x), SNAP_PIXELS * viewport.cycles_per_pixel
        )

    def _drag_range(self, place: Place, is_final: bool) -> None:
        """Measure the cycles from the start of the drag to a place, on the rows between them."""
        state = self.state
        here = float(self._snapped(place))
        origin_row = state.layout.at(self._origin_y) if self._origin_y >= 0 else None
        start = Place("tracks", state.viewport.x_of(self._origin_cycle), self._origin_y, origin_row)
        there = float(self._snapped(start))
        first, last = sorted((round(here), round(there)))
        if origin_row is None:
            tracks, top, bottom = tuple(row.track for row in state.layout.rows if row.track >= 0), 0, 0
            if state.selected_tracks:
                tracks = tuple(sorted(state.selected_tracks))
        else:
            low, high = sorted((self._origin_y, place.y if place.zone != "ruler" else self._origin_y))
            rows = state.layout.between(max(low, 0.0), high + 1)
            tracks = tuple(dict.fromkeys(t for row in rows for t in (row.members or (row.track,)) if t >= 0))
            top, bottom = rows[0].top if rows else 0, rows[-1].bottom if rows else 0
        self.set_range(Range(first, last, tracks, top, bottom), is_final)

    def _click(self, place: Place) -> None:
        self.set_range(None)
        if place.zone == "tracks":
            if place.row is not None and place.row.kind == "group":
                self.toggle_group(place.row)
                return
            self.pick(self.state.slice_near(place.track, place.x, CLICK_REACH))

    def _click_header(self, place: Place, modifiers: Qt.KeyboardModifier) -> None:
        state = self.state
        if place.row is None:
            state.selected_tracks = frozenset()
        elif place.row.kind == "group":
            self.toggle_group(place.row)
        elif modifiers & Qt.KeyboardModifier.ControlModifier:
            state.selected_tracks = state.selected_tracks ^ {place.track}
        else:
            state.selected_tracks = frozenset({place.track} - (state.selected_tracks & {place.track}))
        self.update()

    def _move_window(self, x: float) -> None:
        state = self.state
        end = max(state.end_cycle, 1)
        middle = x / state.viewport.width * end
        span = min(state.viewport.span, end * 1.0)
        self.set_viewport(state.viewport.shown(middle - span / 2, middle + span / 2, end))
