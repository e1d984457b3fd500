"""Remembers recently opened files, each with the machine and the settings it was opened with."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.settings import Settings

KEY = "recent_files"
MAX_RECENT = 12


@dataclass(frozen=True)
class RecentFile:
    """A recent file, and the options it was opened with."""

    path: Path
    options: OpenOptions

    @property
    def detail(self) -> str:
        """Machine and settings in a few words, "" when neither was chosen."""
        options = self.options
        chosen = [options.preset or options.target]
        if options.config is not None:
            chosen.append(options.config.name)
        chosen += [f"{name}={value}" for name, value in options.settings.items()]
        return ", ".join(part for part in chosen if part)


def recent_files(settings: Settings) -> list[RecentFile]:
    """Return the recent files, newest first; missing files and invalid entries are left out."""
    return [recent for recent in _kept(settings) if os.path.exists(recent.path)]


def remember(settings: Settings, path: Path, options: OpenOptions) -> None:
    """Put a file at the head of the recent files; it replaces the same file with the same options."""
    head = RecentFile(path.resolve(), options)
    others = [_stored(each) for each in recent_files(settings)]
    settings.set(KEY, [_stored(head), *(one for one in others if one != _stored(head))][:MAX_RECENT])


def _stored(recent: RecentFile) -> dict[str, Any]:
    options = recent.options
    facts: dict[str, Any] = {
        "path": str(recent.path),
        "target": options.target,
        "preset": options.preset,
        "config": str(options.config or ""),
        "settings": dict(options.settings),
    }
    return {name: value for name, value in facts.items() if value}


def _kept(settings: Settings) -> Iterator[RecentFile]:
    kept = settings.get(KEY, [])
    for entry in cast(list[object], kept) if isinstance(kept, list) else []:
        # Older versions kept the path alone.
        facts = {"path": entry} if isinstance(entry, str) else entry
        if isinstance(facts, dict) and (recent := _read(cast(dict[str, object], facts))) is not None:
            yield recent


def _read(facts: dict[str, object]) -> RecentFile | None:
    texts = [facts.get(name, "") for name in ("path", "target", "preset", "config")]
    chosen = facts.get("settings", {})
    if not all(isinstance(text, str) for text in texts) or not texts[0] or not isinstance(chosen, dict):
        return None
    path, target, preset, config = (str(text) for text in texts)
    pairs = {str(name): str(value) for name, value in cast(dict[object, object], chosen).items()}
    return RecentFile(
        Path(path), OpenOptions(target, preset, Path(config) if config else None, settings=pairs)
    )
