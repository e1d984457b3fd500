"""Ask the user before a file is opened that starts programs, unless it is trusted."""

from collections.abc import Callable, Sequence
from pathlib import Path

from npuviz.ui.dialogs.trust import Answer
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings
from npuviz.workbench.trust import is_trusted, scripts_to_run, trust


class Consent:
    """Asks for permission to open a path, unless the user has chosen "always" for its contents.

    ask  called with the path and the scripts that opening it would start
    """

    def __init__(self, settings: Settings, ask: Callable[[Path, Sequence[Path]], Answer]) -> None:
        self._settings = settings
        self.ask = ask

    def may_open(self, path: Path, options: OpenOptions) -> bool:
        """Return whether a path may be opened that the user has not named on the command line; may ask."""
        scripts = scripts_to_run(path, options)
        if not scripts or is_trusted(self._settings, path):
            return True
        answer = self.ask(path, scripts)
        if answer == "always":
            trust(self._settings, path)
        return answer != "no"
