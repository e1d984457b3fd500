"""Lets a file that starts programs be opened only if the user named it, trusts it, or says so now."""

from collections.abc import Callable, Sequence
from pathlib import Path

from npuviz.ui.dialogs.trust import Answer
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings
from npuviz.workbench.trust import is_trusted, scripts_to_run, trust


class Consent:
    """Asks once for each content of a folder.

    ask  gets the path and the scripts that opening it would start
    """

    def __init__(self, settings: Settings, ask: Callable[[Path, Sequence[Path]], Answer]) -> None:
        self._settings = settings
        self.ask = ask

    def may_open(self, path: Path, options: OpenOptions) -> bool:
        """Whether a path may be opened that the user has not named on the command line."""
        scripts = scripts_to_run(path, options)
        if not scripts or is_trusted(self._settings, path):
            return True
        answer = self.ask(path, scripts)
        if answer == "always":
            trust(self._settings, path)
        return answer != "no"
