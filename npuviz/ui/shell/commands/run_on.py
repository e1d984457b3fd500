"""Commands that choose machine, preset and settings for a model before it is opened."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.dialogs.run_on.dialog import RunOnDialog
from npuviz.ui.shell.commands.file import FileCommands
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.choosing import choose_target
from npuviz.workbench.commands import Command
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.recent import recent_files
from npuviz.workbench.sessions.last_times import last_seconds
from npuviz.workbench.settings import Settings


class RunOnCommands:
    """Shows the dialog "Run on" for the open model or for another one."""

    def __init__(
        self,
        window: QWidget,
        model: SessionModel,
        looks: tuple[Theme, Settings],
        files: FileCommands,
        compare: Callable[[Path, OpenOptions], None],
    ) -> None:
        self._window, self._model, self._compare = window, model, compare
        self._theme, self._settings = looks
        self._ask_file, self._open_as = files.ask_file, files.open_as
        model.settings_needed.connect(self._ask_settings)

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        return [
            Command("file.open_on", "Open on ...", self._open_on, shortcuts=("Ctrl+Alt+O",), menu="File",
                    order=1, doc="Open a model and choose machine, preset, dimensions and settings for it"),
            Command("file.run_on", "Run on ...", self._run_on, self._is_model, ("Ctrl+Shift+R",),
                    "File", 1, 2, "mdi6.chip",
                    doc="Run this model on another machine, preset or setting; compare presets"),
        ]  # fmt: skip

    def _is_model(self) -> bool:
        opened = self._model.opened
        return opened is not None and opened.session is not None and opened.path.exists()

    def _open_on(self) -> None:
        path = self._ask_file()
        if path is not None:
            self._show(path, OpenOptions())

    def _run_on(self) -> None:
        opened = self._model.opened
        if opened is not None:
            target = opened.options.target or (opened.target.id if opened.target else "")
            self._show(opened.path, replace(opened.options, target=target))

    def _ask_settings(self, path: Path, options: OpenOptions) -> None:
        """Ask for the settings that a file needs, with those of the last time filled in."""
        target = options.target or choose_target(path).id
        entries = (entry for entry in recent_files(self._settings) if entry.path == path.resolve())
        known = next((dict(entry.options.settings) for entry in entries), {})
        settings = {**known, **options.settings}
        self._show(path, replace(options, target=target, settings=settings), is_agreed=True)

    def _show(self, path: Path, options: OpenOptions, *, is_agreed: bool = False) -> None:
        """Show the dialog; `is_agreed`: the user has already agreed to open this path."""
        dialog = RunOnDialog(self._theme, self._ask_file, self._last_time, self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(
            lambda chosen, how: self._open_as(chosen, how, is_named=is_agreed and chosen == path)
        )
        if self._is_model():
            dialog.offer_comparison(self._compare)
        dialog.show_model(path, options)
        dialog.open()

    def _last_time(self, path: Path, options: OpenOptions) -> str:
        seconds = last_seconds(self._settings, path, options)
        if seconds is None:
            return ""
        return f"Opening it like this took {seconds:.1f} s the last time. Its cycles are known once measured."
