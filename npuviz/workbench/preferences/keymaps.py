"""Keys of commands: presets that follow other tools, and what the user set for single commands."""

from collections.abc import Mapping
from typing import cast

from npuviz.workbench.preferences.choices import KEYS, preferred
from npuviz.workbench.settings import Settings

OWN = "own_keys"
"""Setting: command id -> keys that the user chose, [] for none."""
MAX_KEYS = 4

PRESETS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "npuviz": {},
    # Steps by line get VS Code's keys for stepping; steps of the machine get other keys.
    "vscode": {
        "debug.line_over": ("F10",),
        "debug.line_into": ("F11",),
        "debug.line_out": ("Shift+F11",),
        "debug.line_over_back": ("Ctrl+Alt+F10",),
        "debug.line_into_back": ("Ctrl+Alt+F11",),
        "debug.line_out_back": ("Ctrl+Alt+Shift+F11",),
        "debug.step": ("F12",),
        "debug.step_back": ("Shift+F12",),
        "debug.step_instruction": ("F8",),
        "debug.step_instruction_back": ("Shift+F8",),
        "debug.step_operator": ("Ctrl+F12",),
        "view.find": ("Ctrl+P", "Ctrl+T"),
        "view.theme": (),
        "help.shortcuts": ("Ctrl+K, Ctrl+S", "?"),
    },
    # The letters of gdb's single-key mode; with Shift they go back in time.
    "gdb": {
        "debug.run": ("C", "F5"),
        "debug.run_back": ("Shift+C", "F7"),
        "debug.line_into": ("S", "F12"),
        "debug.line_into_back": ("Shift+S", "Shift+F12"),
        "debug.line_over": ("N", "F8"),
        "debug.line_over_back": ("Shift+N", "Shift+F8"),
        "debug.line_out": ("F", "Ctrl+F12"),
        "debug.line_out_back": ("Shift+F", "Ctrl+Shift+F12"),
        "debug.step_instruction": ("I", "F10"),
        "debug.step_instruction_back": ("Shift+I", "Shift+F4"),
        "debug.step": ("O", "F11"),
        "debug.step_back": ("Shift+O", "F4"),
        "debug.restart": ("R", "Shift+F5"),
        "debug.toggle_breakpoint": ("B", "F9"),
        "view.palette": ("Ctrl+Shift+P", "F1", ":"),
    },
    # The canvas always has Perfetto's W, A, S, D, F, M and /; these are the keys of the page around it.
    "perfetto": {
        "view.palette": ("Ctrl+Shift+P", ">", "F1"),
        "view.find": ("/", "Ctrl+P"),
        "view.panel.inspector": ("Q",),
    },
}
"""Preset -> command id -> keys instead of the declared ones."""


class Keymap:
    """Finds the current keys of commands."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def keys_of(self, command_id: str, declared: tuple[str, ...]) -> tuple[str, ...]:
        """Return the keys of a command: the user's own, else those of the preset, else the declared ones."""
        own = self._own().get(command_id)
        if own is not None:
            return own
        return PRESETS[preferred(self._settings, KEYS)].get(command_id, declared)

    def is_own(self, command_id: str) -> bool:
        """Return whether the user chose the keys of a command."""
        return command_id in self._own()

    def set_own(self, command_id: str, keys: tuple[str, ...] | None) -> None:
        """Choose the keys of a command; None goes back to the preset."""
        kept = {name: list(known) for name, known in self._own().items() if name != command_id}
        if keys is not None:
            kept[command_id] = list(keys[:MAX_KEYS])
        self._settings.set(OWN, kept or None)

    def _own(self) -> dict[str, tuple[str, ...]]:
        kept = self._settings.get(OWN, {})
        found: dict[str, tuple[str, ...]] = {}
        for name, keys in cast(dict[str, object], kept).items() if isinstance(kept, dict) else ():
            if isinstance(keys, list):
                found[name] = tuple(str(key) for key in cast(list[object], keys)[:MAX_KEYS])
        return found
