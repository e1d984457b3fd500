"""Undo and redo of every change of the breakpoints, whoever made it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QUndoCommand, QUndoStack

from npuviz.ui.bridge.session_model import SessionModel

if TYPE_CHECKING:
    from npuviz.debug.breakpoint import Breakpoint

MAX_CHANGES = 200


class BreakpointHistory(QObject):
    """Remembers the breakpoints before and after each change, while the same session is open.

    stack  the changes; it tells when undo and redo become possible
    """

    def __init__(self, model: SessionModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.stack = QUndoStack(self, undoLimit=MAX_CHANGES)
        self._shown: tuple[Breakpoint, ...] = ()
        # Queued, so that breakpoints that come along with a reloaded file are no change.
        model.session_changed.connect(self._begin, Qt.ConnectionType.QueuedConnection)
        model.breakpoints_changed.connect(self._look)
        model.running_changed.connect(self._look)

    def _begin(self) -> None:
        self.stack.clear()
        self._shown = self._present()

    def _look(self, *_running: object) -> None:
        # While a verb runs, marks that it sets for itself come and go.
        if self._model.is_running:
            return
        before, self._shown = self._shown, self._present()
        if _settings(before) != _settings(self._shown):
            self.stack.push(_Change(self, before, self._shown))

    def _present(self) -> "tuple[Breakpoint, ...]":
        session = self._model.session
        return tuple(replace(each) for each in session.breakpoints.all) if session is not None else ()

    def show(self, wanted: "Sequence[Breakpoint]") -> None:
        """Have the breakpoints of another moment; a no-op where they are so already."""
        session = self._model.session
        if session is None or _settings(wanted) == _settings(session.breakpoints.all):
            return
        self._shown = tuple(wanted)
        session.breakpoints.replace_all(wanted)


class _Change(QUndoCommand):
    """One change: what was there before and after it."""

    def __init__(
        self, history: BreakpointHistory, before: "Sequence[Breakpoint]", after: "Sequence[Breakpoint]"
    ) -> None:
        super().__init__(_title(before, after))
        self._history = history
        self._before = before
        self._after = after

    def undo(self) -> None:
        self._history.show(self._before)

    def redo(self) -> None:
        self._history.show(self._after)


def _settings(points: "Sequence[Breakpoint]") -> list[tuple[int, str, bool]]:
    """What a user sets of breakpoints; hit counts are none of it."""
    return [(each.id, each.text, each.enabled) for each in points]


def _title(before: "Sequence[Breakpoint]", after: "Sequence[Breakpoint]") -> str:
    """What a change did, for the menu."""
    gone = {each.id for each in before} - {each.id for each in after}
    come = {each.id for each in after} - {each.id for each in before}
    if gone and not come:
        return "deleting a breakpoint" if len(gone) == 1 else f"deleting {len(gone)} breakpoints"
    if come and not gone:
        return "setting a breakpoint" if len(come) == 1 else f"setting {len(come)} breakpoints"
    return "switching breakpoints"
