"""Finds the file and the target that a user means."""

import codecs
import os
from pathlib import Path

from npuviz.base.errors import FormatError, UnknownTarget, UsageError
from npuviz.base.names import echo
from npuviz.base.registry import TARGETS, load_plugins
from npuviz.sim.target import TakesFolders, Target
from npuviz.workbench.resources import sample_models_path

HEAD_BYTES = 4096
BUNDLE_MANIFEST = "manifest.json"


def targets() -> dict[str, Target]:
    """Return all installed targets by id."""
    return {target.id: target for target in load_plugins(TARGETS).values()}


def find_file(text: str, config: Path | None = None) -> Path:
    """Find the file for a text: a path, a model that a target locates beside its hardware description, or a
    sample.

    Raises UsageError.
    """
    try:
        path = Path(text).expanduser()
    except (RuntimeError, ValueError):  # ValueError: the name has a byte that no path can have
        raise UsageError(f"{echo(text)}: no such user") from None
    if os.path.exists(path):
        return path
    for target in targets().values():
        located = target.locate(text, config)
        if located is not None:
            return located
    samples = sample_models_path()
    if samples.is_dir() and path.name == text:
        found = sorted(p for p in samples.rglob("*") if text in (p.name, p.stem))
        if found:
            return found[0]
    raise UsageError(f"{echo(text)}: no such file or sample model; `npuviz targets` lists what can be opened")


def choose_target(path: Path, wanted: str = "", preset: str = "") -> Target:
    """Choose the target for a file: the wanted one, the only one with the preset, or the first that accepts
    it.

    Raises UnknownTarget with the choices.
    """
    known = targets()
    if wanted:
        if wanted not in known:
            raise UnknownTarget(f"unknown target {echo(wanted)!r}; known: {', '.join(known) or 'none'}")
        return known[wanted]
    if os.path.isdir(path):
        for target in known.values():
            if isinstance(target, TakesFolders) and target.accepts_folder(path):
                return target
        raise UnknownTarget(
            f"{path}: expected a model, a program, a trace bundle or a sweep's results, found a folder "
            f"without {BUNDLE_MANIFEST} or anything else that a target knows"
        )
    head = read_head(path)
    having = [target for target in known.values() if preset and preset in target.presets]
    if len(having) == 1 and path.suffix.lower() in having[0].file_kinds:
        return having[0]
    for target in known.values():
        if target.accepts(path, head):
            return target
    kinds = {f"*{suffix} ({doc})" for target in known.values() for suffix, doc in target.file_kinds.items()}
    alike = {kind for kind in kinds if path.suffix and kind.startswith(f"*{path.suffix.lower()} ")}
    raise UnknownTarget(
        f"{path}: no target takes this file; expected "
        f"{', '.join(sorted(alike or kinds)) or 'an installed target'}, found {_described(head)}"
    )


def _described(head: bytes) -> str:
    """Describe what a file that no target takes holds, by its first bytes."""
    if not head:
        return "an empty file"
    if not _is_text(head):
        return "other bytes, which are no text in UTF-8"
    return "another text; a hardware description goes to --config, beside a model"


def _is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file may be those of a text in UTF-8."""
    try:
        # Not final: the head may end within a letter.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def targets_for(path: Path) -> list[Target]:
    """Return every target that may open a path, the one that is chosen by default first."""
    name = path.name.lower()
    found: list[Target]
    if path.is_dir():
        found = [t for t in targets().values() if isinstance(t, TakesFolders) and t.accepts_folder(path)]
    else:
        found = [t for t in targets().values() if name.endswith(tuple(t.file_kinds))]
    try:
        first = choose_target(path)
    except (UnknownTarget, FormatError):
        return found
    return [first, *(target for target in found if target.id != first.id)]


def read_head(path: Path) -> bytes:
    """Read the first bytes of a file, for `Target.accepts`; empty for a folder or an empty file.

    Raises FormatError.
    """
    if not os.path.isfile(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FormatError(path, expected="a readable file", found=reason.lower()) from None
