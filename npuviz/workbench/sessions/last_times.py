"""How long opening a file took the last time, so that the next time people know what to expect."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.settings import Settings

KEY = "last_times"
MAX_KEPT = 100


def remember_time(settings: Settings, opened: Opened) -> None:
    """Keep how long reading, compiling and building took."""
    seconds = round(sum(opened.seconds.values()), 3)
    target = opened.target.id if opened.target is not None else ""
    # Whoever opens it again may name the machine, or leave that to the file again.
    names = {
        _name(opened.path, replace(opened.options, target=each)) for each in (opened.options.target, target)
    }
    others = {key: value for key, value in _kept(settings).items() if key not in names}
    newest = {**dict.fromkeys(sorted(names), seconds), **others}
    settings.set(KEY, dict(list(newest.items())[:MAX_KEPT]))


def last_seconds(settings: Settings, path: Path, options: OpenOptions) -> float | None:
    """Seconds that opening a path in this way took the last time, None if it never was."""
    found = _kept(settings).get(_name(path, options))
    return float(found) if isinstance(found, int | float) and found >= 0 else None


def _name(path: Path, options: OpenOptions) -> str:
    chosen = [options.target, options.preset, str(options.config or ""), sorted(options.settings.items())]
    return json.dumps([str(path.resolve()), *chosen])


def _kept(settings: Settings) -> dict[str, object]:
    kept = settings.get(KEY, {})
    return cast(dict[str, object], kept) if isinstance(kept, dict) else {}
