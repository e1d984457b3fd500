"""Commands of the menu Edit: take changes back, and make them again."""

from dataclasses import dataclass

from npuviz.ui.bridge.breakpoint_history import BreakpointHistory
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.commands import Command, CommandRegistry


@dataclass(frozen=True, eq=False)
class EditCommands:
    """Undo and redo of changes of the breakpoints."""

    _model: SessionModel
    _history: BreakpointHistory
    _registry: CommandRegistry

    def all(self) -> list[Command]:
        """The commands, in menu order."""
        stack, when_free = self._history.stack, self._model.when_free
        stack.indexChanged.connect(lambda _index: self._registry.state_changed.notify())
        return [
            Command("edit.undo", "Undo", lambda: when_free(stack.undo), stack.canUndo, ("Ctrl+Z",), "Edit",
                    icon="mdi6.undo", doc="Take the last change of the breakpoints back"),
            Command("edit.redo", "Redo", lambda: when_free(stack.redo), stack.canRedo,
                    ("Ctrl+Shift+Z", "Ctrl+Y"), "Edit", order=1, icon="mdi6.redo",
                    doc="Make the change of the breakpoints again"),
        ]  # fmt: skip
