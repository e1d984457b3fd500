"""Write the register command streams of a program to a file: binary words, or one word per line."""

from pathlib import Path

import numpy as np

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.units import format_bytes
from npuviz.formats.rk3588.regcmd.dump import format_plain
from npuviz.formats.rk3588.regcmd.stream import ALIGNMENT, WORD_BYTES
from npuviz.targets.rk3588.compiler.compiled import Compiled

_LINE = ALIGNMENT // WORD_BYTES


def write_compiled(compiled: Compiled, out: Path) -> str:
    """Write all streams, one after the other in the order of tasks, each from a multiple of 64 bytes on.

    `*.regcmd.txt` or `*.txt` holds one word of 16 hexadecimal digits per line, other names little-endian
    words. Returns a sentence about the file. Raises UsageError for a place that cannot be written, and
    TargetError for a program without tasks.
    """
    words = stream_words(compiled)
    if not len(words):
        raise TargetError("nothing to write: no operator of the model runs on the NPU")
    is_text = out.name.lower().endswith(".txt")
    data = format_plain(words).encode("ascii") if is_text else words.astype("<u8").tobytes()
    _replace(out, data)
    tasks = len(compiled.tables.tasks)
    kind = "text" if is_text else "binary"
    return f"{out}: {tasks} register command streams, {len(words)} words, {format_bytes(len(data))} of {kind}"


def stream_words(compiled: Compiled) -> np.ndarray:
    """Return (n,) uint64: the words of all tasks, filled up with zeros to whole lines of 64 bytes."""
    parts = [np.zeros(0, np.uint64)]
    for task in compiled.tables.tasks:
        part = np.zeros(-(-len(task.words) // _LINE) * _LINE, np.uint64)
        part[: len(task.words)] = task.words
        parts.append(part)
    return np.concatenate(parts)


def _replace(out: Path, data: bytes) -> None:
    """Write the whole file or nothing. Raises UsageError for a folder, device or pipe."""
    if out.exists() and not out.is_file():
        raise UsageError(f"{out}: cannot write: expected the name of a file")
    temporary = out.with_name(f".{out.name}.partial")
    try:
        try:
            temporary.write_bytes(data)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot write: {error.strerror or 'the file system refuses'}") from None
