"""Turn commands into Qt actions, from which menus, toolbar and keys are made."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

from npuviz.ui.theme.icons import icon
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import Command, CommandRegistry

MENUS: tuple[tuple[str, str], ...] = (
    ("File", "&File"),
    ("Edit", "&Edit"),
    ("Run", "&Run"),
    ("View", "&View"),
    ("Trace", "&Trace"),
    ("Help", "&Help"),
)
"""Top-level menus in order, (name, title with mnemonic); a command's path begins with the name."""


class Actions:
    """One QAction for each command, with the command's id as objectName."""

    def __init__(self, window: QMainWindow, commands: CommandRegistry, theme: Theme) -> None:
        self._window = window
        self._commands = commands
        self._theme = theme
        self._actions: dict[str, QAction] = {}
        self._menus: dict[str, QMenu] = {}
        self._refresh_soon = QTimer(window, singleShot=True)
        self._refresh_soon.timeout.connect(self.refresh)
        for command in commands.all():
            self._make_action(command)
        self._fill_menus(commands.all())
        self._unsubscribe = (
            commands.added.subscribe(self._added),
            commands.state_changed.subscribe(self.refresh_later),
            commands.rebound.subscribe(self._rebind),
        )

    def action(self, command_id: str) -> QAction:
        """Return the action of a command."""
        return self._actions[command_id]

    def menu(self, path: str) -> QMenu:
        """Return the menu at a path such as "View/Layout", and make it if needed."""
        if path not in self._menus:
            parent, _, name = path.rpartition("/")
            if parent:
                self._menus[path] = self.menu(parent).addMenu(name)
            else:
                title = dict(MENUS).get(name, name)
                self._menus[path] = self._window.menuBar().addMenu(title)
            self._menus[path].setObjectName(f"menu.{path}")
            self._menus[path].setToolTipsVisible(True)
        return self._menus[path]

    def refresh(self) -> None:
        """Update which actions are enabled and checked."""
        for command in self._commands.all():
            action = self._actions.get(command.id)
            if action is None:
                continue
            action.setEnabled(command.is_enabled())
            if command.is_checked is not None:
                action.setChecked(command.is_checked())

    def refresh_later(self) -> None:
        """Refresh once when control returns to the event loop, however often this is called before."""
        if not self._refresh_soon.isActive():
            self._refresh_soon.start(0)

    def refresh_icons(self) -> None:
        """Draw the icons in the colours of the theme in use."""
        for command in self._commands.all():
            if command.icon:
                self._actions[command.id].setIcon(icon(command.icon, self._theme))

    def forget(self, command_id: str) -> None:
        """Remove the action of a command, and hide its submenu if that is empty now."""
        action = self._actions.pop(command_id, None)
        if action is None:
            return
        for menu in self._menus.values():
            menu.removeAction(action)
        self._window.removeAction(action)
        action.deleteLater()
        path = self._commands.get(command_id).menu
        if "/" in path:
            self.menu(path).menuAction().setVisible(not self.menu(path).isEmpty())

    def dispose(self) -> None:
        """Stop listening to the registry."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._refresh_soon.stop()

    def _make_action(self, command: Command) -> QAction:
        action = QAction(command.title, self._window, checkable=command.is_checked is not None)
        action.setObjectName(command.id)
        action.setEnabled(command.is_enabled())
        action.triggered.connect(partial(self._run, command.id))
        self._bind(action, command)
        action.setStatusTip("")
        self._window.addAction(action)
        self._actions[command.id] = action
        return action

    def _bind(self, action: QAction, command: Command) -> None:
        action.setShortcuts([QKeySequence(keys) for keys in command.shortcuts])
        keys = f" ({command.shortcuts[0]})" if command.shortcuts else ""
        action.setToolTip(f"{command.doc or command.title}{keys}")

    def _rebind(self) -> None:
        for command in self._commands.all():
            if command.id in self._actions:
                self._bind(self._actions[command.id], command)

    def _run(self, command_id: str, _checked: bool = False) -> None:
        self._commands.run(command_id)
        self.refresh_later()

    def _fill_menus(self, commands: Sequence[Command]) -> None:
        for name, _ in MENUS:
            self.menu(name)
        last_group: dict[str, int] = {}
        # Commands come sorted by menu, group and order; a submenu stands where its first entry would.
        for command in sorted(commands, key=lambda c: (c.group, c.order, c.title)):
            if command.menu:
                self._add_to_menu(command, last_group)

    def _add_to_menu(self, command: Command, last_group: dict[str, int]) -> None:
        top = command.menu.partition("/")[0]
        for path in (top, command.menu):
            if last_group.get(path, command.group) != command.group:
                self.menu(path).addSeparator()
            last_group[path] = command.group
            if path == command.menu:
                break
        self.menu(command.menu).addAction(self._actions[command.id])

    def _added(self, command: Command) -> None:
        action = self._make_action(command)
        if command.menu:
            self.menu(command.menu).addAction(action)
            self.menu(command.menu).menuAction().setVisible(True)
        if command.icon:
            action.setIcon(icon(command.icon, self._theme))
