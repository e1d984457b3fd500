"""Undo and redo changes of the docks: layouts, and panels shown, hidden, moved or floated."""

from PySide6.QtCore import QObject
from PySide6.QtGui import QUndoStack

from npuviz.ui.bridge.history import Change
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.docks import Arranged, Docks


class LayoutHistory(QObject):
    """Puts changes of the arrangement of docks on the undo stack, except those made by opening a file."""

    def __init__(self, docks: Docks, model: SessionModel, stack: QUndoStack) -> None:
        super().__init__(stack)
        self._docks, self._stack = docks, stack
        self._shown: Arranged | None = None
        model.session_changed.connect(self._begin)
        docks.settled.subscribe(self._look)

    def _begin(self) -> None:
        self._shown = None

    def _look(self) -> None:
        before, self._shown = self._shown, self._docks.arranged()
        if before is not None and before.shape != self._shown.shape:
            self._stack.push(Change("changing the layout", before, self._shown, self._show))

    def _show(self, wanted: Arranged) -> None:
        if self._docks.arranged().shape != wanted.shape:
            self._shown = wanted
            self._docks.rearrange(wanted)
