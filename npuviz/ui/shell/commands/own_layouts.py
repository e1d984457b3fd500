"""Commands that save arrangements of docks under a name, apply them and delete them."""

from collections.abc import Callable
from functools import partial

from PySide6.QtWidgets import QInputDialog, QWidget

from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.commands import Command
from npuviz.workbench.preferences.own_layouts import delete_layout, own_layouts, save_layout

DELETE = "View/Delete Layout"


def ask_name(parent: QWidget, known: list[str]) -> str:
    """Let the user type a name or pick a known one; return "" if dismissed."""
    name, is_given = QInputDialog.getItem(parent, "Save layout as", "Name", known, -1, True)
    return name.strip() if is_given else ""


class OwnLayoutCommands:
    """Keeps two commands registered for each saved layout: show it, delete it.

    forget  removes the menu entry of a command, before the command is removed
    """

    def __init__(self, docks: Docks, context: PanelContext, forget: Callable[[str], None]) -> None:
        self._docks, self._model, self._settings = docks, context.model, context.settings
        self._commands, self._forget = context.commands, forget
        self._known: list[str] = []
        self._commands.add(
            Command("view.save_layout", "Save Layout As ...", self._ask, self._is_open, menu="View/Layout",
                    group=4, doc="Keep where the panels are under a name")
        )  # fmt: skip
        self.refresh()

    def refresh(self) -> None:
        """Register commands for the layouts that are saved now, instead of the earlier ones."""
        found = list(own_layouts(self._settings))
        for name in self._known:
            for command_id in (_show_id(name), _delete_id(name)):
                self._forget(command_id)
                self._commands.remove(command_id)
        self._known = found
        for order, name in enumerate(found):
            self._commands.add(
                Command(_show_id(name), name, partial(self._show, name), self._is_open, (), "View/Layout", 3,
                        order, doc="A layout of yours"),
                Command(_delete_id(name), name, partial(self._delete, name), menu=DELETE, order=order),
            )  # fmt: skip

    def _is_open(self) -> bool:
        return self._model.opened is not None

    def _ask(self) -> None:
        name = ask_name(self._docks.window, self._known)
        if name:
            save_layout(self._settings, name, self._docks.save())
            self.refresh()

    def _show(self, name: str) -> None:
        focused = self._docks.focused_panel()
        self._docks.restore(own_layouts(self._settings).get(name))
        self._docks.refresh_titles()
        self._docks.focus_first(focused, "timeline")
        self._commands.state_changed.notify()

    def _delete(self, name: str) -> None:
        delete_layout(self._settings, name)
        self.refresh()


def _show_id(name: str) -> str:
    return f"view.own_layout.{name}"


def _delete_id(name: str) -> str:
    return f"view.delete_layout.{name}"
