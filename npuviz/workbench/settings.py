"""Stores settings between runs, in one small readable file of the user's configuration folder."""

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

PREFIX = ".settings-"
"""Prefix of temporary files during saving."""
STALE_SECONDS = 60.0


def config_directory() -> Path:
    """Return the user's configuration folder of npuviz (in XDG_CONFIG_HOME); it may not exist yet."""
    return Path(platformdirs.user_config_dir("npuviz", appauthor=False))


class Settings:
    """Keys and plain values. A file that cannot be read counts as empty; errors of writing are ignored.

    path  of the file; None keeps the values in memory only (safe mode, tests, screenshots)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        if path is not None:
            with suppress(OSError, ValueError, RecursionError):
                loaded = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(loaded, dict):
                    self._values = loaded

    @property
    def is_kept(self) -> bool:
        """Whether the values are stored in a file."""
        return self._path is not None

    @classmethod
    def of_user(cls) -> "Settings":
        """Load the settings of the user who runs npuviz."""
        return cls(config_directory() / "settings.json")

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, `default` if it is not set."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Store a value (anything JSON can hold); None removes the key."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _remove_stale(self._path.parent)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=PREFIX)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(self._values, file, indent=1)
                os.replace(name, self._path)
            except BaseException:
                os.unlink(name)
                raise


def _remove_stale(folder: Path) -> None:
    """Remove temporary files of processes that were killed while saving."""
    for path in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()
