"""Undo and redo changes of breakpoints and bookmarks, from wherever they were made."""

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QUndoCommand, QUndoStack

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.sessions.bookmarks import Bookmark, BookmarkList

if TYPE_CHECKING:
    from npuviz.debug.breakpoint import Breakpoint

MAX_CHANGES = 200
State = TypeVar("State")


class Change(QUndoCommand, Generic[State]):
    """One change: the states before and after it, and the function that restores either."""

    def __init__(self, title: str, before: State, after: State, show: Callable[[State], object]) -> None:
        super().__init__(title)
        self._before, self._after, self._show = before, after, show

    def undo(self) -> None:
        self._show(self._before)

    def redo(self) -> None:
        self._show(self._after)


class BreakpointHistory(QObject):
    """Puts every change of the breakpoints on the undo stack, as long as the same session is open."""

    def __init__(self, model: SessionModel, stack: QUndoStack) -> None:
        super().__init__(stack)
        self._model, self._stack = model, stack
        self._shown: tuple[Breakpoint, ...] = ()
        # Queued, so that breakpoints that come along with a reloaded file are no change.
        model.session_changed.connect(self._begin, Qt.ConnectionType.QueuedConnection)
        model.breakpoints_changed.connect(self._look)
        model.running_changed.connect(self._look)

    def _begin(self) -> None:
        self._stack.clear()
        self._shown = self._present()

    def _look(self, *_running: object) -> None:
        # While a verb runs, marks that it sets for itself come and go.
        if self._model.is_running:
            return
        before, self._shown = self._shown, self._present()
        if _settings(before) != _settings(self._shown):
            title = _title("breakpoint", _ids(before), _ids(self._shown))
            self._stack.push(Change(title, before, self._shown, self.show))

    def _present(self) -> "tuple[Breakpoint, ...]":
        session = self._model.session
        return tuple(replace(each) for each in session.breakpoints.all) if session is not None else ()

    def show(self, wanted: "Sequence[Breakpoint]") -> None:
        """Restore these breakpoints, unless they are set already."""
        session = self._model.session
        if session is None or _settings(wanted) == _settings(session.breakpoints.all):
            return
        self._shown = tuple(wanted)
        session.breakpoints.replace_all(wanted)


class BookmarkHistory(QObject):
    """Puts every change of the bookmarks on the undo stack, as long as the same session is open."""

    def __init__(self, model: SessionModel, bookmarks: BookmarkList, stack: QUndoStack) -> None:
        super().__init__(stack)
        self._bookmarks, self._stack = bookmarks, stack
        self._shown = bookmarks.all
        bookmarks.changed.subscribe(self._look)
        # Not queued: bookmarks loaded with a file are there at this signal, and are no change of the user's.
        model.session_changed.connect(self._begin)

    def _begin(self) -> None:
        self._shown = self._bookmarks.all

    def _look(self) -> None:
        before, self._shown = self._shown, self._bookmarks.all
        if before != self._shown:
            title = _title("bookmark", {each.place for each in before}, {each.place for each in self._shown})
            self._stack.push(Change(title, before, self._shown, self.show))

    def show(self, wanted: tuple[Bookmark, ...]) -> None:
        """Restore these bookmarks."""
        self._shown = wanted
        self._bookmarks.replace_all(wanted)


def _ids(points: "Sequence[Breakpoint]") -> set[int]:
    return {each.id for each in points}


def _settings(points: "Sequence[Breakpoint]") -> list[tuple[int, str, bool]]:
    """Return the parts of breakpoints that a user sets, without hit counts."""
    return [(each.id, each.text, each.enabled) for each in points]


def _title(thing: str, before: Set[object], after: Set[object]) -> str:
    """Name a change for the Undo entry of the menu, such as "setting a breakpoint"."""
    gone, come = before - after, after - before
    if gone and not come:
        return f"deleting a {thing}" if len(gone) == 1 else f"deleting {len(gone)} {thing}s"
    if come and not gone:
        return f"setting a {thing}" if len(come) == 1 else f"setting {len(come)} {thing}s"
    return f"changing {thing}s"
