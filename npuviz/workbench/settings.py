"""What npuviz remembers between runs, in one small readable file of the user's configuration folder."""

import json
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

PREFIX = ".settings-"
"""Of files that are being written."""
STALE_SECONDS = 60.0


def config_directory() -> Path:
    """The user's configuration folder of npuviz (XDG_CONFIG_HOME is honoured); it may not exist yet."""
    return Path(platformdirs.user_config_dir("npuviz", appauthor=False))


class Settings:
    """Keys and plain values. A file that cannot be read counts as empty; writing never fails loudly.

    path  where they are kept; None keeps them in memory only (safe mode, tests, screenshots)
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
        """Whether they are there again after the next start."""
        return self._path is not None

    @classmethod
    def of_user(cls) -> "Settings":
        """The settings of the user who runs npuviz."""
        return cls(config_directory() / "settings.json")

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, `default` if it is not set."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Keep a value (anything JSON can hold); None forgets the key."""
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
    """Remove what programs that were killed while saving have left."""
    for path in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - STALE_SECONDS:
                path.unlink()
