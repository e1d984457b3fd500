"""Handle the keys of a timeline while its canvas has the focus."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent

from npuviz.ui.timeline.canvas import TimelineCanvas
from npuviz.ui.timeline.state import Picked, Range
from npuviz.workbench.sessions.bookmarks import Bookmark

ZOOM = 1.5
PAN_SHARE = 0.125
BOOKMARK_REACH = 4.0
"""Distance in pixels within which the pointer is at a bookmark."""

_SCAN_CODES = {
    # evdev codes + 8, as X11 and Wayland give them
    "xcb": {25: Qt.Key.Key_W, 38: Qt.Key.Key_A, 39: Qt.Key.Key_S, 40: Qt.Key.Key_D},
    "wayland": {25: Qt.Key.Key_W, 38: Qt.Key.Key_A, 39: Qt.Key.Key_S, 40: Qt.Key.Key_D},
    "windows": {17: Qt.Key.Key_W, 30: Qt.Key.Key_A, 31: Qt.Key.Key_S, 32: Qt.Key.Key_D},
}

_NONE = Qt.KeyboardModifier.NoModifier
_CTRL = Qt.KeyboardModifier.ControlModifier
_SHIFT = Qt.KeyboardModifier.ShiftModifier


def physical_key(event: QKeyEvent) -> int:
    """Return a key: W, A, S and D by position on the keyboard if the platform reports it, else by character.

    0 for one of these letters at another position, where it must not act.
    """
    codes = _SCAN_CODES.get(QGuiApplication.platformName(), {})
    placed = codes.get(event.nativeScanCode())
    if placed is not None:
        return int(placed)
    letter = event.key() in (Qt.Key.Key_W, Qt.Key.Key_A, Qt.Key.Key_S, Qt.Key.Key_D)
    # On another layout the letter itself lies elsewhere and must not act there as well.
    return 0 if codes and letter and event.nativeScanCode() else int(event.key())


class Keys:
    """Maps keys to functions that act on the view."""

    def __init__(self, view: TimelineCanvas) -> None:
        self._view = view
        key = Qt.Key
        self._plain: dict[int, Callable[[], None]] = {
            key.Key_W: lambda: self._zoom(1 / ZOOM),
            key.Key_S: lambda: self._zoom(ZOOM),
            key.Key_Plus: lambda: self._zoom(1 / ZOOM),
            key.Key_Equal: lambda: self._zoom(1 / ZOOM),
            key.Key_Minus: lambda: self._zoom(ZOOM),
            key.Key_A: lambda: self._pan(-PAN_SHARE),
            key.Key_D: lambda: self._pan(PAN_SHARE),
            key.Key_Left: lambda: self._pan(-PAN_SHARE),
            key.Key_Right: lambda: self._pan(PAN_SHARE),
            key.Key_Up: lambda: self._scroll(-1),
            key.Key_Down: lambda: self._scroll(1),
            key.Key_PageUp: lambda: self._scroll(-self._page()),
            key.Key_PageDown: lambda: self._scroll(self._page()),
            key.Key_Home: lambda: self._show_cycle(0),
            key.Key_End: lambda: self._show_cycle(self._view.state.end_cycle),
            key.Key_F: self._focus,
            key.Key_R: self._range_of_picked,
            key.Key_Period: lambda: self._neighbour(1),
            key.Key_Comma: lambda: self._neighbour(-1),
            key.Key_BracketRight: lambda: self._follow(forward=True),
            key.Key_BracketLeft: lambda: self._follow(forward=False),
            key.Key_M: lambda: self._mark(is_kept=False),
            key.Key_Delete: self._delete_mark,
            key.Key_Escape: self._clear,
            **{int(key.Key_0) + n: (lambda n=n: self._show_bookmark(n)) for n in range(10)},
        }
        self._with_control: dict[int, Callable[[], None]] = {
            key.Key_Up: lambda: self._zoom(1 / ZOOM),
            key.Key_Down: lambda: self._zoom(ZOOM),
            key.Key_A: self._select_all,
            key.Key_BracketRight: lambda: self._choose_arrow(1),
            key.Key_BracketLeft: lambda: self._choose_arrow(-1),
            **{int(key.Key_0) + n: (lambda n=n: self._set_bookmark(n)) for n in range(10)},
        }
        self._with_shift: dict[int, Callable[[], None]] = {
            key.Key_M: lambda: self._mark(is_kept=True),
            key.Key_T: self._pin,
            key.Key_Plus: lambda: self._zoom(1 / ZOOM),
        }

    def claims(self, event: QKeyEvent) -> bool:
        """Return whether the timeline handles a key."""
        return self._action(event) is not None

    def press(self, event: QKeyEvent) -> bool:
        """Handle a key; return whether it has a meaning here."""
        action = self._action(event)
        if action is None:
            return False
        action()
        return True

    def _action(self, event: QKeyEvent) -> Callable[[], None] | None:
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if modifiers == _NONE:
            found = physical_key(event)
            # An idle Esc clears; with nothing to clear it belongs to the window.
            if found == Qt.Key.Key_Escape and self._is_clear():
                return None
            return self._plain.get(found)
        if modifiers == _CTRL:
            return self._with_control.get(int(event.key()))
        if modifiers == _SHIFT:
            return self._with_shift.get(int(event.key()))
        return None

    # -- window ---------------------------------------------------------------------------------------

    def _end(self) -> int:
        return max(self._view.state.end_cycle, self._view.state.cursor)

    def _zoom(self, factor: float) -> None:
        state = self._view.state
        x = state.viewport.width / 2
        if state.hover is not None:
            x = state.viewport.x_of(state.hover)
        self._view.set_viewport(state.viewport.zoomed(factor, x, self._end()))

    def _pan(self, share: float) -> None:
        viewport = self._view.state.viewport
        self._view.set_viewport(viewport.panned(share * viewport.width, self._end()))

    def _scroll(self, rows: int) -> None:
        self._view.scroll_rows(rows * self._view.options.row_height)

    def _page(self) -> int:
        return max(self._view.tracks_rect().height() // self._view.options.row_height - 1, 1)

    def _show_cycle(self, cycle: int) -> None:
        viewport = self._view.state.viewport
        half = viewport.span / 2
        self._view.set_viewport(viewport.shown(cycle - half, cycle + half, self._end()))

    def _focus(self) -> None:
        """Zoom to the selection; with nothing selected, to the whole run."""
        view, state = self._view, self._view.state
        span = (state.range.first, state.range.last) if state.range else None
        if span is None and state.picked is not None:
            span = (state.picked.start, state.picked.end)
            view.reveal_row(state.picked.track)
        if span is None:
            view.fit()
        else:
            view.zoom_to(*span)

    # -- selection --------------------------------------------------------------------------------------

    def _show_picked(self, picked: Picked | None) -> None:
        if picked is None:
            return
        view, state = self._view, self._view.state
        view.pick(picked)
        view.reveal_row(picked.track)
        if not state.viewport.start <= picked.start <= state.viewport.end:
            view.set_viewport(state.viewport.revealed(picked.start, self._end()))

    def _neighbour(self, direction: int) -> None:
        state = self._view.state
        if state.picked is not None:
            self._show_picked(state.neighbour(state.picked, direction))

    def _follow(self, forward: bool) -> None:
        """Select the other end of the chosen arrow if it leads in that direction, else of the first that
        does.
        """
        state = self._view.state
        picked = state.picked
        if picked is None or not state.arrows:
            return
        order = [state.arrows[state.arrow], *state.arrows]
        for arrow in order:
            leaves = arrow.source_track == picked.track and arrow.source_cycle == picked.end
            if leaves == forward:
                track = arrow.sink_track if forward else arrow.source_track
                cycle = arrow.cycle if forward else arrow.source_cycle - 1
                self._show_picked(state.slice_at(track, cycle))
                return

    def _choose_arrow(self, direction: int) -> None:
        state = self._view.state
        if state.arrows:
            state.arrow = (state.arrow + direction) % len(state.arrows)
            self._view.update()

    def _range_of_picked(self) -> None:
        picked = self._view.state.picked
        if picked is not None:
            self._view.set_range(Range(picked.start, picked.end, (picked.track,)))

    def _select_all(self) -> None:
        state = self._view.state
        tracks = tuple(row.track for row in state.layout.rows if row.track >= 0)
        self._view.set_range(Range(0, state.end_cycle, tracks))

    def _is_clear(self) -> bool:
        state = self._view.state
        return state.range is None and state.picked is None and not state.selected_tracks

    def _clear(self) -> None:
        self._view.state.selected_tracks = frozenset()
        self._view.set_range(None)
        self._view.pick(None)

    # -- marks ------------------------------------------------------------------------------------------

    def _mark(self, is_kept: bool) -> None:
        """Mark the range, or the picked slice: by a bookmark if `is_kept`, else until the next mark."""
        state = self._view.state
        if state.range is not None:
            wanted = Bookmark(state.range.first, state.range.last)
        elif state.picked is not None:
            wanted = self._view.bookmark_of(state.picked)
        else:
            return
        if is_kept:
            self._view.bookmark_asked.emit(wanted)
        else:
            state.mark = (wanted.first, wanted.last)
            self._view.update()

    def _delete_mark(self) -> None:
        """Delete the temporary mark, or else the bookmark under the pointer."""
        state = self._view.state
        if state.mark is not None:
            state.mark = None
            self._view.update()
            return
        x = state.viewport.x_of(state.hover) if state.hover is not None else None
        under = state.bookmarks_near(x, BOOKMARK_REACH) if x is not None else []
        if under:
            self._view.bookmark_dropped.emit(under[-1])

    def _set_bookmark(self, number: int) -> None:
        """Set a numbered bookmark at the pointer, or at the cursor; remove it if it is there already."""
        state = self._view.state
        cycle = round(state.hover) if state.hover is not None else max(state.cursor, 0)
        there = next((each for each in state.bookmarks if each.digit == number), None)
        if there is not None and there.first == cycle:
            self._view.bookmark_dropped.emit(there)
        else:
            self._view.bookmark_asked.emit(Bookmark(cycle, cycle, digit=number))

    def _show_bookmark(self, number: int) -> None:
        there = next((each for each in self._view.state.bookmarks if each.digit == number), None)
        if there is not None:
            self._show_cycle(there.first)

    def _pin(self) -> None:
        """Pin or unpin the track under the pointer, or that of the picked slice."""
        view, state = self._view, self._view.state
        track = state.hover_track
        if track < 0 and state.picked is not None:
            track = state.picked.track
        if track >= 0:
            pinned = view.options.pinned
            now = tuple(t for t in pinned if t != track) if track in pinned else (*pinned, track)
            view.set_options(replace(view.options, pinned=now))
