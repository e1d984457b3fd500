"""Commands of the menu Edit: undo and redo."""

from dataclasses import dataclass

from PySide6.QtGui import QUndoStack

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.commands import Command, CommandRegistry


@dataclass(frozen=True, eq=False)
class EditCommands:
    """Undo and redo of changes of breakpoints, bookmarks and layout."""

    _model: SessionModel
    _stack: QUndoStack
    _registry: CommandRegistry

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        stack, when_free = self._stack, self._model.when_free
        stack.indexChanged.connect(lambda _index: self._registry.state_changed.notify())
        return [
            Command("edit.undo", "Undo", lambda: when_free(stack.undo), stack.canUndo, ("Ctrl+Z",), "Edit",
                    icon="mdi6.undo", doc="Take the last change of breakpoints, bookmarks or layout back"),
            Command("edit.redo", "Redo", lambda: when_free(stack.redo), stack.canRedo,
                    ("Ctrl+Shift+Z", "Ctrl+Y"), "Edit", order=1, icon="mdi6.redo",
                    doc="Make the change again"),
        ]  # fmt: skip
