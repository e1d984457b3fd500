"""Session files: the state of a debugging session, to continue later or to send to a colleague.

A session names its sources by path and hash, and holds the current cycle, breakpoints, bookmarks and the
layout. It is one JSON object without anything executable.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuviz.base.errors import FormatError
from npuviz.export.exporter import replacing
from npuviz.formats.json_text import read_json_object
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.sessions.bookmarks import Bookmark, read_bookmarks, stored
from npuviz.workbench.trust import tree_digest

SUFFIX = ".npuviz-session"
VERSION = 1
KEY = "npuviz_session"
"""The key whose value is the version of the format."""
LIMIT_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """A file or folder that a session is about.

    path    relative to the folder of the session file, with "/" between the parts
    sha256  of the content, for a folder of all names and contents; "" if it was too large to hash
    """

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True)
class SavedSession:
    """Content of a session file. `options` lack the description file, which is the source `config`.

    breakpoints  (condition, whether it is enabled)
    layout       plain values of the window, {} for none
    """

    source: Source
    config: Source | None = None
    options: OpenOptions = field(default_factory=OpenOptions)
    cycle: int = 0
    breakpoints: Sequence[tuple[str, bool]] = ()
    bookmarks: Sequence[Bookmark] = ()
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])


def digest_of(path: Path) -> str:
    """Compute the SHA-256 of a file or of a folder's content; "" for a folder that is too large, or without
    access."""
    if not path.is_file():
        return tree_digest(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def source_of(path: Path, session: Path) -> Source:
    """Describe a file or folder as a source of the session file at `session`."""
    try:
        relative = os.path.relpath(path.resolve(), session.resolve().parent)
    except ValueError:  # another drive
        relative = path.name
    return Source(Path(relative).as_posix(), digest_of(path))


def find_source(source: Source, session: Path) -> Path | None:
    """Find a source at its path, or beside the session file; None if it is at neither place."""
    for place in (session.parent / source.path, session.parent / source.name):
        if os.path.exists(place):  # False for a name that no file can have
            return place
    return None


def difference(source: Source, path: Path) -> str:
    """Return a line that says that a file differs from the source of a session; "" if it does not differ."""
    if not source.sha256:
        return ""
    found = digest_of(path)
    if found == source.sha256:
        return ""
    return f"{path.name} is not the file the session was made with: its content differs."


def write_session(out: Path, saved: SavedSession) -> None:
    """Write a session file, whole or not at all. Raises ExportError."""
    options = saved.options
    sources = [("model", saved.source), *([("config", saved.config)] if saved.config else [])]
    content: dict[str, Any] = {
        KEY: VERSION,
        "sources": [{"role": role, "path": each.path, "sha256": each.sha256} for role, each in sources],
        "target": options.target,
        "preset": options.preset,
        "settings": dict(options.settings),
        "seed": options.seed,
        "cycle": saved.cycle,
        "breakpoints": [{"condition": text, "enabled": is_on} for text, is_on in saved.breakpoints],
        "bookmarks": stored(saved.bookmarks),
        "layout": dict(saved.layout),
    }
    with replacing(out) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_session(path: Path) -> SavedSession:
    """Read a session file. Raises FormatError."""
    from pydantic import ValidationError

    from npuviz.workbench.sessions.schema import StoredSession

    data = read_json_object(path, LIMIT_BYTES)
    if data.get(KEY) != VERSION:
        found = json.dumps(data[KEY])[:40] if KEY in data else "no such key"
        hint = "a newer npuviz wrote it" if isinstance(data.get(KEY), int) and data[KEY] > VERSION else ""
        raise FormatError(path, field=f"key {KEY}", expected=str(VERSION), found=found, hint=hint)
    try:
        found = StoredSession.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])[:80]
        wanted = first["msg"].removeprefix("Input should be ")
        raise FormatError(
            path, field=f"key {place}", expected=wanted, found=repr(first.get("input"))[:60]
        ) from None
    by_role = {each.role: Source(each.path, each.sha256) for each in found.sources}
    if "model" not in by_role or len(by_role) != len(found.sources):
        raise FormatError(path, field="key sources", expected="one model, at most one config", found="others")
    return SavedSession(
        by_role["model"],
        by_role.get("config"),
        OpenOptions(found.target, found.preset, settings=found.settings, seed=found.seed),
        found.cycle,
        tuple((each.condition, each.enabled) for each in found.breakpoints),
        tuple(read_bookmarks(found.bookmarks)),
        found.layout.model_dump(),
    )
