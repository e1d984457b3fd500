"""Commands that open the same file again with another value of a setting that the machine offers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

from npuviz.sim.description import MachineDescription
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.commands import Command, CommandRegistry

FEATURE = "choices"
"""Feature of a machine's description that lists settings worth comparing: {setting: [value, ...]}."""
MENU = "Run/Reopen With"
MAX_CHOICES = 32


class ReopenCommands:
    """Keeps one command registered for each choice of the open machine.

    reopen  opens the file again with settings in addition to its present ones
    forget  removes the menu entry of a command, before the command is removed
    """

    def __init__(
        self,
        model: SessionModel,
        commands: CommandRegistry,
        reopen: Callable[[Mapping[str, str]], None],
        forget: Callable[[str], None],
    ) -> None:
        self._model = model
        self._commands = commands
        self._reopen = reopen
        self._forget = forget
        self._known: tuple[tuple[str, str], ...] = ()
        model.session_changed.connect(self._follow)

    def _follow(self) -> None:
        found = tuple(choices_of(self._model.description))[:MAX_CHOICES]
        if found == self._known:
            return
        for name, value in self._known:
            self._forget(_command_id(name, value))
            self._commands.remove(_command_id(name, value))
        self._known = found
        self._commands.add(*(self._command(i, *choice) for i, choice in enumerate(found)))

    def _command(self, order: int, name: str, value: str) -> Command:
        return Command(
            _command_id(name, value),
            f"Reopen with {name} = {value}",
            partial(self._reopen, {name: value}),
            lambda: not self._model.is_busy,
            menu=MENU,
            order=order,
            doc=f"Open the same file with --set {name}={value}",
            is_checked=partial(self._is_set, name, value),
        )

    def _is_set(self, name: str, value: str) -> bool:
        opened = self._model.opened
        return opened is not None and opened.options.settings.get(name) == value


def choices_of(description: MachineDescription | None) -> Iterator[tuple[str, str]]:
    """Yield every (setting, value) that a machine offers, in the machine's order."""
    offered: object = description.features.get(FEATURE) if description is not None else None
    if not isinstance(offered, Mapping):
        return
    for name, values in cast(Mapping[str, Sequence[object]], offered).items():
        for value in values:
            yield name, str(value)


def _command_id(name: str, value: str) -> str:
    return f"file.reopen.{name}.{value}"
