"""Mouse and wheel of a timeline; keys are in timeline_keys."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent

from npuviz.ui.timeline.chrome import MINIMAP_HEIGHT, RULER_HEIGHT
from npuviz.ui.timeline.keys import Keys
from npuviz.ui.timeline.place import Place
from npuviz.ui.timeline.state import Range

if TYPE_CHECKING:
    from npuviz.ui.timeline.view import TimelineView

DRAG_PIXELS = 4
SNAP_PIXELS = 5.0
CLICK_REACH = 3.0
WHEEL_STEP = 120
MIN_ROW_HEIGHT, MAX_ROW_HEIGHT = 12, 64

Drag = Literal["", "maybe-range", "range", "pan", "zoom", "minimap", "border", "menu"]


class Gestures:
    """Turns events into changes of the view."""

    def __init__(self, view: "TimelineView") -> None:
        self._view = view
        self._keys = Keys(view)
        self._drag: Drag = ""
        self._origin = QPointF()
        self._previous = QPointF()
        self._origin_cycle = 0.0
        self._origin_y = 0.0

    # -- places -------------------------------------------------------------------------------------

    def position_of(self, point: QPointF | QPoint) -> Place:
        """What is at a point of the widget."""
        state = self._view.state
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

    def press(self, event: QMouseEvent) -> None:
        """Begin a click or a drag."""
        place = self.position_of(event.position())
        state = self._view.state
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

    def move(self, event: QMouseEvent) -> None:
        """Hover, or go on with a drag."""
        view, state = self._view, self._view.state
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
            view.set_viewport(state.viewport.panned(self._previous.x() - point.x(), end))
            view.scroll_rows(round(self._previous.y() - point.y()))
        elif self._drag in ("range", "zoom"):
            self._drag_range(place, is_final=False)
        elif self._drag == "minimap":
            self._move_window(place.x)
        elif self._drag == "border":
            view.set_header_width(round(point.x()))
        self._previous = point
        on_border = place.zone == "border" or self._drag == "border"
        view.setCursor(Qt.CursorShape.SplitHCursor if on_border else Qt.CursorShape.ArrowCursor)
        view.update()

    def release(self, event: QMouseEvent) -> None:
        """End a click or a drag."""
        view = self._view
        place = self.position_of(event.position())
        drag, self._drag = self._drag, ""
        if drag == "range":
            self._drag_range(place, is_final=True)
        elif drag == "zoom":
            chosen = self._view.state.range
            view.set_range(None)
            if chosen is not None and chosen.last > chosen.first:
                view.set_viewport(view.state.viewport.shown(chosen.first, chosen.last, view.state.end_cycle))
        elif drag == "maybe-range":
            self._click(place)
        elif drag == "menu":
            view.menu_requested.emit(event.globalPosition().toPoint(), place)

    def double_click(self, event: QMouseEvent) -> None:
        """Zoom to what was hit, or back out with Shift."""
        view, state = self._view, self._view.state
        place = self.position_of(event.position())
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if place.zone == "minimap":
            view.fit()
        elif place.zone == "ruler":
            view.go_to.emit(max(round(state.viewport.cycle_at(place.x)), 0))
        elif place.zone == "tracks":
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                view.set_viewport(state.viewport.zoomed(8.0, place.x, max(state.end_cycle, state.cursor)))
                return
            found = state.slice_near(place.track, place.x, CLICK_REACH)
            if found is not None:
                view.pick(found)
                view.set_viewport(state.viewport.shown(found.start, found.end, state.end_cycle, 0.5))

    def wheel(self, event: QWheelEvent) -> None:
        """Ctrl zooms at the pointer, Shift pans, Alt changes the row height, else rows scroll."""
        view, state = self._view, self._view.state
        place = self.position_of(event.position())
        modifiers = event.modifiers()
        # Qt turns Alt + wheel into a sideways wheel on some platforms.
        delta = event.angleDelta()
        notches = (delta.y() or delta.x()) / WHEEL_STEP
        end = max(state.end_cycle, state.cursor)
        if modifiers & Qt.KeyboardModifier.ControlModifier:
            view.set_viewport(state.viewport.zoomed(1.25**-notches, max(place.x, 0.0), end))
        elif modifiers & Qt.KeyboardModifier.AltModifier:
            height = min(max(view.options.row_height + round(2 * notches), MIN_ROW_HEIGHT), MAX_ROW_HEIGHT)
            view.set_options(replace(view.options, row_height=height))
        elif modifiers & Qt.KeyboardModifier.ShiftModifier or abs(delta.x()) > abs(delta.y()):
            view.set_viewport(state.viewport.panned(-notches * state.viewport.width / 8, end))
        else:
            view.scroll_rows(round(-notches * 3 * view.options.row_height))
        event.accept()

    # -- keys ---------------------------------------------------------------------------------------

    def claims(self, event: QKeyEvent) -> bool:
        """Whether a key belongs to the canvas while it has the focus."""
        return self._keys.claims(event)

    def key(self, event: QKeyEvent) -> bool:
        """Act on a key; returns whether it meant something."""
        return self._keys.press(event)

    # -- inside -------------------------------------------------------------------------------------

    def _snapped(self, place: Place) -> int:
        viewport = self._view.state.viewport
        return self._view.state.snapped(
            place.track, viewport.cycle_at(place.x), SNAP_PIXELS * viewport.cycles_per_pixel
        )

    def _drag_range(self, place: Place, is_final: bool) -> None:
        """Measure from where the drag began to here, on the rows it crosses."""
        state = self._view.state
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
        self._view.set_range(Range(first, last, tracks, top, bottom), is_final)

    def _click(self, place: Place) -> None:
        view = self._view
        view.set_range(None)
        if place.zone == "tracks":
            if place.row is not None and place.row.kind == "group":
                view.toggle_group(place.row)
                return
            view.pick(view.state.slice_near(place.track, place.x, CLICK_REACH))

    def _click_header(self, place: Place, modifiers: Qt.KeyboardModifier) -> None:
        view, state = self._view, self._view.state
        if place.row is None:
            state.selected_tracks = frozenset()
        elif place.row.kind == "group":
            view.toggle_group(place.row)
        elif modifiers & Qt.KeyboardModifier.ControlModifier:
            state.selected_tracks = state.selected_tracks ^ {place.track}
        else:
            state.selected_tracks = frozenset({place.track} - (state.selected_tracks & {place.track}))
        view.update()

    def _move_window(self, x: float) -> None:
        state = self._view.state
        end = max(state.end_cycle, 1)
        middle = x / state.viewport.width * end
        span = min(state.viewport.span, end * 1.0)
        self._view.set_viewport(state.viewport.shown(middle - span / 2, middle + span / 2, end))
