"""Read and write text dumps of RK3588 register commands:
one word a line, alone or with its parts in columns."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.registers import Word

_PLAIN = re.compile(r"(?:0x)?([0-9a-fA-F]{16})")
_COLUMNS = re.compile(r"(\d{1,9})\s+([0-9a-f]{16})\s+([0-9a-f]{4})\s+([0-9a-f]{8})\s+([0-9a-f]{4})", re.I)
_HEADER = "# idx qword target value reg"


@dataclass(frozen=True, slots=True)
class TextDump:
    """The words of a text dump, uint64, and its comment lines without the leading mark."""

    words: NDArray[np.uint64]
    comments: tuple[str, ...] = ()


def parse_dump(text: str, file: str = "regcmd") -> TextDump:
    """Parse the words of a text dump.

    A line is empty, a comment after `#`, one word of 16 hexadecimal digits, or the columns index,
    word, target, value, register. Raises FormatError for anything else, for columns that contradict
    the word, and for an index that does not count from 0.
    """
    words: list[int] = []
    comments: list[str] = []
    offset = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line.startswith("#"):
            comments.append(line[1:].strip())
        elif line:
            words.append(_word(line, len(words), file, offset, number))
        offset += len(raw.encode()) + 1
    header = _HEADER[1:].strip()
    return TextDump(np.array(words, np.uint64), tuple(each for each in comments if each != header))


def _word(line: str, index: int, file: str, offset: int, number: int) -> int:
    where = f"line {number}"
    plain = _PLAIN.fullmatch(line)
    if plain:
        return int(plain[1], 16)
    columns = _COLUMNS.fullmatch(line)
    if columns is None:
        raise FormatError(
            file,
            offset=offset,
            field=where,
            expected="16 hexadecimal digits, or index, word, target, value, register",
            found=repr(line[:60]),
        )
    if int(columns[1]) != index:
        raise FormatError(file, offset=offset, field=where, expected=f"index {index}", found=columns[1])
    word = Word.unpacked(int(columns[2], 16))
    parts = Word(int(columns[3], 16), int(columns[4], 16), int(columns[5], 16))
    if parts != word:
        raise FormatError(
            file, offset=offset, field=where, expected=f"columns of word {word}", found=f"columns of {parts}"
        )
    return word.packed


def format_plain(words: NDArray[np.uint64]) -> str:
    """Return the words as text, one of 16 hexadecimal digits a line."""
    return "".join(f"{int(word):016x}\n" for word in words)
