"""Registers every user action once: menus, toolbar, palette and keys are built from the registry."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from npuviz.base.errors import SimulationError, UsageError
from npuviz.base.notifier import Notifier


def always() -> bool:
    """Return True: the default `is_enabled` of a command."""
    return True


@dataclass(frozen=True)
class Command:
    """One user action.

    id         stable name, also the objectName of its action: "debug.step"
    run        the action, called without arguments in the window's thread
    is_enabled called whenever the state of the session changed
    shortcuts  portable key texts ("Ctrl+O"), the first one is shown in menus
    menu       path of the menu it appears in, "/" between levels; "" = palette only
    group      entries of one menu are separated where the group changes
    order      position in menu, rising
    icon       QtAwesome name
    is_checked for a toggle: asks for its state, else None
    """

    id: str
    title: str
    run: Callable[[], None]
    is_enabled: Callable[[], bool] = always
    shortcuts: tuple[str, ...] = ()
    menu: str = ""
    group: int = 0
    order: int = 0
    icon: str = ""
    doc: str = ""
    is_checked: Callable[[], bool] | None = None


KeysOf = Callable[[str, tuple[str, ...]], tuple[str, ...]]


def _declared_keys(_command_id: str, declared: tuple[str, ...]) -> tuple[str, ...]:
    return declared


class CommandRegistry:
    """All commands by id.

    added          notifies with each command that is registered
    rebound        notifies when commands may have other keys
    keys_of        returns the keys of a command, given its id and the keys it declares
    state_changed  notifies when enablement or check state of commands may have changed
    """

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self.added: Notifier[Command] = Notifier()
        self.state_changed: Notifier[()] = Notifier()
        self.rebound: Notifier[()] = Notifier()
        self.keys_of: KeysOf = _declared_keys
        self._declared: dict[str, tuple[str, ...]] = {}

    def add(self, *commands: Command) -> None:
        """Register commands. Raises SimulationError when an id is taken."""
        for command in commands:
            if command.id in self._commands:
                raise SimulationError(f"two commands are called {command.id!r}")
            self._declared[command.id] = command.shortcuts
            bound = replace(command, shortcuts=self.keys_of(command.id, command.shortcuts))
            self._commands[command.id] = bound
            self.added.notify(bound)

    def rebind(self) -> None:
        """Look up the keys of all commands again, and notify `rebound`."""
        for name, command in self._commands.items():
            self._commands[name] = replace(command, shortcuts=self.keys_of(name, self._declared[name]))
        self.rebound.notify()

    def remove(self, command_id: str) -> None:
        """Forget a command; unknown ids are ignored."""
        self._commands.pop(command_id, None)

    def get(self, command_id: str) -> Command:
        """Return the command of this id. Raises UsageError for an unknown one."""
        try:
            return self._commands[command_id]
        except KeyError:
            raise UsageError(f"no command is called {command_id!r}") from None

    def all(self) -> list[Command]:
        """Return all commands in menu order."""
        return sorted(self._commands.values(), key=lambda c: (c.menu, c.group, c.order, c.title))

    def run(self, command_id: str) -> bool:
        """Run a command if it is enabled; returns whether it ran."""
        command = self.get(command_id)
        if not command.is_enabled():
            return False
        command.run()
        return True
