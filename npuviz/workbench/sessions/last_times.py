"""Remembers how long opening a file took, to show the expected time at the next opening."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.settings import Settings

KEY = "last_times"
MAX_KEPT = 100


def remember_time(settings: Settings, opened: Opened) -> None:
    """Store how long reading, compiling, building and warming up took."""
    seconds = round(sum(opened.seconds.values()), 3)
    target = opened.target.id if opened.target is not None else ""
    # The next opening may name the target or leave the choice to the file: keep the time for both.
    names = {
        _name(opened.path, replace(opened.options, target=each)) for each in (opened.options.target, target)
    }
    others = {key: value for key, value in _kept(settings).items() if key not in names}
    newest = {**dict.fromkeys(sorted(names), seconds), **others}
    settings.set(KEY, dict(list(newest.items())[:MAX_KEPT]))


def last_seconds(settings: Settings, path: Path, options: OpenOptions) -> float | None:
    """Return the seconds that opening a path with these options took the last time, None if unknown."""
    found = _kept(settings).get(_name(path, options))
    return float(found) if isinstance(found, int | float) and found >= 0 else None


def _name(path: Path, options: OpenOptions) -> str:
    chosen = [options.target, options.preset, str(options.config or ""), sorted(options.settings.items())]
    return json.dumps([str(path.resolve()), *chosen])


def _kept(settings: Settings) -> dict[str, object]:
    kept = settings.get(KEY, {})
    return cast(dict[str, object], kept) if isinstance(kept, dict) else {}
