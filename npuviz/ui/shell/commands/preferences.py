"""The command that shows the preferences, and the functions that apply them."""

from dataclasses import dataclass
from typing import cast

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from npuviz.ui.dialogs.preferences.dialog import PreferencesDialog
from npuviz.ui.theme.theme import Mode, Theme
from npuviz.workbench.commands import Command, CommandRegistry
from npuviz.workbench.preferences.choices import FONT, MONO, THEME, preferred
from npuviz.workbench.preferences.keymaps import Keymap
from npuviz.workbench.settings import Settings


def apply_looks(theme: Theme, settings: Settings) -> None:
    """Give a theme the colours and fonts that the user prefers."""
    theme.set_families(str(preferred(settings, FONT)), str(preferred(settings, MONO)))
    theme.set_mode(cast(Mode, preferred(settings, THEME)))


@dataclass(frozen=True, eq=False)
class PreferenceCommands:
    """Shows the preferences dialog of one window and applies what changes in it."""

    _window: QWidget
    _theme: Theme
    _settings: Settings
    _registry: CommandRegistry

    def all(self) -> list[Command]:
        """Return the command; from now on the registry uses the keys that the user prefers."""
        self._registry.keys_of = Keymap(self._settings).keys_of
        return [
            Command("edit.preferences", "Preferences ...", self._show, shortcuts=("Ctrl+,",), menu="Edit",
                    group=1, icon="mdi6.cog-outline", doc="Theme, fonts, size, keys and memory"),
        ]  # fmt: skip

    def _show(self) -> None:
        dialog = PreferencesDialog(self._theme, self._settings, self._registry, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.changed.connect(self._apply)
        dialog.open()

    def _apply(self) -> None:
        apply_looks(self._theme, self._settings)
        self._registry.rebind()
        self._registry.state_changed.notify()
