"""Parses option texts of the command line, with errors that say what was expected."""

import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.names import echo, is_number
from npuviz.formats.binary import read_file

_NPY_MAGIC = b"\x93NUMPY"
LARGEST_ARRAY_BYTES = 1 << 32
_HEADER_LIMIT = 1024
"""Largest header in bytes: numpy's parser for headers of Python 2 takes minutes for long ones."""


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `--set KEY=VALUE` pairs; a later pair wins. Raises UsageError."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"--set {pair}: expected KEY=VALUE, for example --set batch=1")
        found[key.strip()] = value.strip()
    return found


def parse_inputs(pairs: Sequence[str]) -> dict[str, np.ndarray]:
    """Parse `--input NAME=FILE.npy` pairs and read their arrays. Raises UsageError or FormatError."""
    found: dict[str, np.ndarray] = {}
    for pair in pairs:
        # Tensor names may hold "=", file names rarely do: the last one separates.
        name, separator, file = pair.rpartition("=")
        if not separator or not name or not file:
            raise UsageError(f"--input {pair}: expected NAME=FILE.npy")
        found[name] = read_array(Path(file))
    return found


def read_array(path: Path) -> np.ndarray:
    """Read a .npy file. Raises UsageError without the file, FormatError for any other content or pickled
    objects."""
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file")
    data = read_file(path, LARGEST_ARRAY_BYTES)
    if data[: len(_NPY_MAGIC)] != _NPY_MAGIC:
        found = "an .npz archive of several arrays" if data[:2] == b"PK" else "other bytes at its beginning"
        raise FormatError(path, expected="a numpy .npy array", found=found)
    try:
        # From memory: a header that announces more than the file holds then fails instead of allocating.
        return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False, max_header_size=_HEADER_LIMIT)
    except Exception as error:
        # The header is Python text: errors of Python's tokenizer and of numpy's types may come out.
        reason = echo(" ".join(str(error).split()) or type(error).__name__)
        raise FormatError(path, expected="a numpy .npy array", found=reason) from error


def parse_exports(pairs: Sequence[str]) -> tuple[tuple[str, Path], ...]:
    """Parse `--export FORMAT:FILE` pairs. Raises UsageError."""
    found: list[tuple[str, Path]] = []
    for pair in pairs:
        name, separator, file = pair.partition(":")
        if not separator or not name or not file:
            raise UsageError(f"--export {pair}: expected FORMAT:FILE, for example perfetto:run.pftrace")
        found.append((name, Path(file)))
    return tuple(found)


def parse_record(text: str | None) -> tuple[Path | None, bool]:
    """Parse `--record DIR|none`. Returns (folder or None, whether anything is recorded at all)."""
    if text is None:
        return None, True
    if text == "none":
        return None, False
    return Path(text), True


def parse_size(text: str) -> tuple[int, int]:
    """Parse `--size WxH` in pixels, 200 to 8192 each. Raises UsageError."""
    width, separator, height = text.lower().partition("x")
    if not separator or not (is_number(width) and is_number(height)):
        raise UsageError(f"--size {echo(text)}: expected WIDTHxHEIGHT, for example 1280x800")
    size = int(width), int(height)
    if not all(200 <= side <= 8192 for side in size):
        raise UsageError(f"--size {echo(text)}: each side must be 200 to 8192 pixels")
    return size
