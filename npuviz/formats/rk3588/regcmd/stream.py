"""Parse and make one register command stream of the RK3588: the writes of its body, and its tail.

The tail has four words: address of the next stream, its length, a marker, the blocks to start
(source: D MESA, ALLB, MTX).
"""

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.registers import EMPTY, Word, registers

WORD_BYTES = 8
TAIL_WORDS = 4
ALIGNMENT = 64
"""Streams start at multiples of this many bytes (source: D MESA, ALLB)."""

_PC, _MARKER, _ENABLE = 0x0101, 0x0041, 0x0081
_BASE_ADDRESS, _REGISTER_AMOUNTS = 0x0010, 0x0014


def amount_of(body_words: int) -> int:
    """Return the amount of a stream with `body_words` words in its body:
    pairs of words with the tail, minus 1.

    floor((n + 4 + 1) / 2) - 1, as the kernels compute it (source: D KRKNPU, KROCKET; M ALLB).
    """
    return (body_words + TAIL_WORDS + 1) // 2 - 1


@dataclass(frozen=True, slots=True)
class Tail:
    """The last four words of a stream.

    `next_address` is a byte address, a multiple of 16, or None at the end of a chain (an all-zero
    word). `next_amount` counts pairs of words minus 1 (`amount_of`). `plan` encodes how many cores
    share the operation: 0 one or end, 1 two, 2 three (source: I DER). `enables` starts blocks. `unknown`
    are bits 31:18 of the amount word, kept as they are: some vendor streams set bit 30 (measured).
    """

    enables: int
    next_address: int | None = None
    next_amount: int = 0
    plan: int = 0
    unknown: int = 0

    @property
    def started(self) -> tuple[str, ...]:
        """Names of the blocks that the stream starts, in the order of the pipeline."""
        decoded = registers().decode(_ENABLE, 0x0008, self.enables)
        return tuple(field.name.upper() for field in reversed(decoded.fields) if field.value)

    def words(self) -> tuple[Word, Word, Word, Word]:
        """Return the four words. Raises FormatError if a value does not fit its field."""
        database = registers()
        first = EMPTY
        if self.next_address is not None:
            if self.next_address % 16:
                raise FormatError(
                    "stream tail",
                    field="next address",
                    expected="a multiple of 16",
                    found=f"{self.next_address:#x}",
                )
            first = database.encode("PC", "BASE_ADDRESS", next_address=self.next_address >> 4)
        enable = database.decode(_ENABLE, 0x0008, self.enables & 0xFFFFFFFF)
        return (
            first,
            database.encode(
                "PC",
                "REGISTER_AMOUNTS",
                reserved_31_18=self.unknown,
                plan=self.plan,
                amount=self.next_amount,
            ),
            Word(_MARKER, 0, 0),
            database.encode("ENABLE", enable.name, **{field.name: field.value for field in enable.fields}),
        )


@lru_cache(maxsize=1 << 10)
def _tail_words(tail: Tail) -> tuple[Word, Word, Word, Word]:
    """Return `Tail.words`, cached: most streams of a program have equal tails."""
    return tail.words()


@dataclass(frozen=True, slots=True)
class Stream:
    """One register program: the writes of its body, and its tail.
    `address` is the byte address of its first word."""

    words: tuple[Word, ...]
    tail: Tail
    address: int = 0

    @property
    def amount(self) -> int:
        """The amount that the stream before must announce for this one."""
        return amount_of(len(self.words))

    def packed(self) -> NDArray[np.uint64]:
        """Return body, tail and zeros up to the next multiple of 64 bytes, as uint64."""
        used = len(self.words) + TAIL_WORDS
        line = ALIGNMENT // WORD_BYTES
        found = np.zeros(-(-used // line) * line, np.uint64)
        # `Word.packed` is not called here: it would take half of the compile time of a large model.
        words = (*self.words, *_tail_words(self.tail))
        found[:used] = [word.target << 48 | word.value << 16 | word.offset for word in words]
        return found


def parse_stream(
    words: NDArray[np.uint64],
    start: int = 0,
    *,
    body: int | None = None,
    markers: NDArray[np.intp] | None = None,
    address: int = 0,
    file: str = "regcmd",
    at: int = 0,
) -> Stream:
    """Parse the stream that starts at word `start` of `words`.

    `body` is the number of body words if it is known from a task; without it the tail is searched,
    in `markers` (`tail_markers` of `words`) if these are given.
    `address` is the byte address of words[0], `at` its byte offset in `file`, for messages. Raises
    FormatError when there is no tail, when the tail is wrong, and for unknown targets and registers.
    """
    if body is not None:
        end = _tail_at(start + body, body, words, file, at)
    else:
        end = _tail_after(tail_markers(words) if markers is None else markers, words, start, file, at)
    tail = [Word.unpacked(int(each)) for each in words[end : end + TAIL_WORDS]]
    _check_body(words[start:end], file, at + start * WORD_BYTES)
    return Stream(
        tuple(Word.unpacked(packed) for packed in words[start:end].tolist()),
        _parse_tail(tail, file, at + end * WORD_BYTES),
        address + start * WORD_BYTES,
    )


def tail_markers(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the indices of marker words that an enable word follows, rising."""
    targets = words >> np.uint64(48)
    return np.flatnonzero((targets[:-1] == _MARKER) & (targets[1:] == _ENABLE))


def _tail_after(markers: NDArray[np.intp], words: NDArray[np.uint64], start: int, file: str, at: int) -> int:
    """Return the index of the first word of the first tail at or after `start`."""
    place = int(np.searchsorted(markers, start + 2))
    if place == len(markers) or (place and markers[place - 1] >= start):
        raise FormatError(
            file,
            offset=at + start * WORD_BYTES,
            field="stream tail",
            expected="next address, next amount, marker 0041 and enables 0081 at the end of the stream",
            found=f"no tail in {len(words) - start} words",
        )
    return int(markers[place]) - 2


def _tail_at(end: int, body: int, words: NDArray[np.uint64], file: str, at: int) -> int:
    """Return `end` if a tail begins there. Raises FormatError if not."""
    found = "the end of the area"
    if end + TAIL_WORDS <= len(words):
        marker, enable = (Word.unpacked(int(words[end + place])) for place in (2, 3))
        if (marker.target, enable.target) == (_MARKER, _ENABLE):
            return end
        found = f"word {marker}"
    raise FormatError(
        file,
        offset=at + (end + 2) * WORD_BYTES,
        field="stream tail",
        expected=f"the marker 0041 and enables 0081 after a body of {body} words",
        found=found,
    )


def _parse_tail(tail: list[Word], file: str, at: int) -> Tail:
    first, second, marker, enable = tail
    checks = (
        (first == EMPTY or (first.target, first.offset) == (_PC, _BASE_ADDRESS), "next address", first, 0),
        ((second.target, second.offset) == (_PC, _REGISTER_AMOUNTS), "next amount", second, 1),
        ((marker.value, marker.offset) == (0, 0), "marker", marker, 2),
        (enable.offset == 0x0008, "enables", enable, 3),
        (not first.value & 0xF, "next address, bits 3:0", first, 0),
        (not enable.value & ~0x7D, "enables, bits 31:7 and 1", enable, 3),
    )
    for fine, field, word, index in checks:
        if not fine:
            raise FormatError(
                file,
                offset=at + index * WORD_BYTES,
                field=f"stream tail, {field}",
                expected="a tail word as documented",
                found=f"word {word}",
            )
    next_address = None if first == EMPTY else first.value
    return Tail(enable.value, next_address, second.value & 0xFFFF, second.value >> 16 & 3, second.value >> 18)


@cache
def _known_writes() -> NDArray[np.uint64]:
    """Return target << 16 | offset of every register that a body may write, and of the empty word."""
    codes = [0]
    for block in registers().blocks.values():
        if block.target not in (None, 0, _MARKER, _ENABLE):
            codes += [block.target << 16 | offset for offset in block.by_offset]
    return np.array(sorted(codes), np.uint64)


def _check_body(body: NDArray[np.uint64], file: str, at: int) -> None:
    codes = (body >> np.uint64(32) & np.uint64(0xFFFF0000)) | (body & np.uint64(0xFFFF))
    known = np.isin(codes, _known_writes()) & ((codes != 0) | (body == 0))
    if known.all():
        return
    index = int(np.argmin(known))
    word = Word.unpacked(int(body[index]))
    where = at + index * WORD_BYTES
    registers().find(word.target, word.offset, file=file, at=where)
    raise FormatError(
        file, offset=where, field="target", expected="a register write in a body", found=f"word {word}"
    )
