"""Finds the scripts that opening a file would start, and remembers which of them the user trusts."""

import hashlib
import os
from pathlib import Path

from npuviz.base.errors import NpuvizError
from npuviz.sim.target import RunsScripts
from npuviz.workbench.choosing import choose_target
from npuviz.workbench.opening import OpenOptions, is_bundle
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.settings import Settings

KEY = "trusted"
MAX_TRUSTED = 200
MAX_BYTES = 256 << 20
"""A folder with more bytes than this is never remembered: the user is asked every time."""


def scripts_to_run(path: Path, options: OpenOptions) -> tuple[Path, ...]:
    """Return the scripts that opening a path would start; () for data. Never raises."""
    try:
        if is_bundle(path):
            return ()
        target = choose_target(path, options.target, options.preset)
        return tuple(target.scripts(path)) if isinstance(target, RunsScripts) else ()
    except (NpuvizError, OSError):
        return ()


def is_trusted(settings: Settings, path: Path) -> bool:
    """Return whether a path ships with npuviz, or is unchanged since the user trusted it."""
    if path.resolve().is_relative_to(sample_models_path().resolve()):
        return True
    kept = settings.get(KEY, [])
    return isinstance(kept, list) and (digest := content_digest(path)) != "" and digest in kept


def trust(settings: Settings, path: Path) -> None:
    """Remember that scripts of a path may run, as long as its content does not change."""
    digest = content_digest(path)
    if digest:
        kept = settings.get(KEY, [])
        others = [one for one in kept if one != digest] if isinstance(kept, list) else []
        settings.set(KEY, [digest, *others][:MAX_TRUSTED])


def content_digest(path: Path) -> str:
    """Compute the SHA-256 of a path and its content; "" in the same cases as `tree_digest`."""
    return tree_digest(path, str(path.resolve()).encode("utf-8", "surrogateescape"))


def tree_digest(path: Path, place: bytes = b"") -> str:
    """Compute the SHA-256 of the names and contents of all files below a folder, or of a file.

    place  is hashed too. Returns "" if there is more than MAX_BYTES, a link out of the folder, or no access.
    """
    digest, size = hashlib.sha256(place), 0
    try:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_dir() and not file.is_symlink():
                continue
            size += file.lstat().st_size
            if size > MAX_BYTES or not (file.is_symlink() or file.is_file()):
                return ""
            # A link out of the folder cannot be trusted: its target may change without notice.
            if file.is_symlink() and not file.resolve().is_relative_to(path.resolve()):
                return ""
            name = os.fsencode(file.relative_to(path) if path.is_dir() else file.name)
            data = os.fsencode(os.readlink(file)) if file.is_symlink() else file.read_bytes()
            digest.update(len(name).to_bytes(8, "big") + name + len(data).to_bytes(8, "big") + data)
    except OSError:
        return ""
    return digest.hexdigest()
