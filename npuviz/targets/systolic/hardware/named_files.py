"""Finds files that a hardware file names."""

from pathlib import Path

from npuviz.base.errors import FormatError, TargetError
from npuviz.base.names import is_named_file


def named_file(key: str, name: str, beside: Path | None, *, absent: str, hint: str) -> Path:
    """Return the file that a key of the hardware file `beside` names, in that file's folder, as ONNXim looks
    for it.

    absent  the error where no file is named; hint  what to do where there is no such file
    """
    if not name or beside is None:
        raise TargetError(absent)
    for path in (beside.parent / name, Path(name)):
        if is_named_file(path):
            return path
    place = f"a file at {beside.parent / name}"
    raise FormatError(beside, field=f"key {key}", expected=place, found="none", hint=hint)
