"""Commands that compare what is open with another run; the panel Compare shows the result."""

from pathlib import Path

from PySide6.QtWidgets import QWidget

from npuviz.ui.dialogs.files import ask_bundle_to_open
from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.commands.file import FileCommands
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.commands import Command
from npuviz.workbench.opening import OpenOptions

PANEL = "compare"


class CompareCommands:
    """The compare commands of one window: ask for a model or bundle and pass it to the panel."""

    def __init__(self, window: QWidget, context: PanelContext, docks: Docks, files: FileCommands) -> None:
        self._window, self._context, self._docks, self._files = window, context, docks, files

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        return [
            Command("trace.compare", "Compare with ...", self._show, self._has_trace, ("Ctrl+Shift+D",),
                    "Trace", 0, 1, "mdi6.compare-horizontal",
                    doc="What another preset, setting, model or bundle wins and loses, by cause and line"),
            Command("trace.compare_model", "Compare with a Model ...", self._ask_model, self._has_trace, (),
                    "Trace", 0, 2, doc="Run another model or kernel and compare it with this run"),
            Command("trace.compare_bundle", "Compare with a Bundle ...", self._ask_bundle, self._has_trace,
                    (), "Trace", 0, 3, doc="Compare this run with a recorded one"),
        ]  # fmt: skip

    def compare(self, path: Path, options: OpenOptions) -> None:
        """Compare what is open with a file opened with these options."""
        if PANEL in self._docks.all:
            self._docks.show_panel(PANEL)
            self._context.requests.comparison_asked.emit(path, options)

    def _show(self) -> None:
        if PANEL in self._docks.all:
            self._docks.show_panel(PANEL)

    def _ask_model(self) -> None:
        path = self._files.ask_file()
        if path is not None:
            self.compare(path, OpenOptions())

    def _ask_bundle(self) -> None:
        path = ask_bundle_to_open(self._window, self._files.folder())
        if path is not None:
            self.compare(path, OpenOptions())

    def _has_trace(self) -> bool:
        model = self._context.model
        return model.reader is not None and PANEL in self._docks.all
