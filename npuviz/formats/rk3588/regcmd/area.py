"""Read register commands of the RK3588: areas of streams, chains through them, dumps."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_file
from npuviz.formats.rk3588.regcmd.dump import parse_dump
from npuviz.formats.rk3588.regcmd.stream import (
    ALIGNMENT,
    TAIL_WORDS,
    WORD_BYTES,
    Stream,
    parse_stream,
    tail_markers,
)

CHAIN_LIMIT = 4095
"""Most tasks of one start: the task counter has 12 bits (source: D TRM)."""
FILE_LIMIT = 32 << 20

_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}


@dataclass(frozen=True, slots=True)
class Chain:
    """Streams that follow each other by the addresses in their tails.

    `loops_to` is the address of the stream to which the last one leads back, None if the chain
    ends. `findings` list announced lengths and alignments that break the rules; such chains have
    been seen to hang the chip, so that they are reported, but still read.
    """

    streams: tuple[Stream, ...]
    loops_to: int | None
    findings: tuple[str, ...]


class Area:
    """Memory with streams: `words` (uint64, owned by the caller) from byte address `address` on.

    `file` and `at` name the place of the area in messages.
    """

    def __init__(
        self, words: NDArray[np.uint64], *, address: int = 0, file: str = "regcmd", at: int = 0
    ) -> None:
        self.words = words
        self.address = address
        self.file = file
        self.at = at

    @classmethod
    def of_bytes(cls, data: bytes, *, address: int = 0, file: str = "regcmd", at: int = 0) -> "Area":
        """Make an area of little-endian words. Raises FormatError if a word is cut off."""
        if len(data) % WORD_BYTES:
            raise FormatError(
                file,
                offset=at + len(data) // WORD_BYTES * WORD_BYTES,
                field="regcmd area",
                expected="whole words of 8 bytes",
                found=f"{len(data)} bytes",
            )
        return cls(np.frombuffer(data, "<u8").astype(np.uint64), address=address, file=file, at=at)

    def to_bytes(self) -> bytes:
        """Return the words as little-endian bytes."""
        return self.words.astype("<u8").tobytes()

    def error(self, field: str, expected: str, found: str, word: int = 0) -> FormatError:
        """Return an error about a word of the area."""
        place = self.at + WORD_BYTES * word
        return FormatError(self.file, offset=place, field=field, expected=expected, found=found)

    def index_of(self, address: int, field: str = "stream address") -> int:
        """Return the word index of a byte address.
        Raises FormatError outside of the area or between words."""
        place = address - self.address
        if not 0 <= place < len(self.words) * WORD_BYTES or place % WORD_BYTES:
            end = self.address + len(self.words) * WORD_BYTES
            raise self.error(field, f"a word of the area {self.address:#x} to {end:#x}", f"{address:#x}")
        return place // WORD_BYTES

    def stream(self, address: int, body: int | None = None) -> Stream:
        """Parse the stream at a byte address; `body` and errors as for `parse_stream`."""
        start = self.index_of(address)
        return parse_stream(self.words, start, body=body, address=self.address, file=self.file, at=self.at)

    @cached_property
    def _markers(self) -> NDArray[np.intp]:
        return tail_markers(self.words)

    def _parse(self, start: int, body: int | None = None) -> Stream:
        return parse_stream(
            self.words,
            start,
            body=body,
            markers=self._markers,
            address=self.address,
            file=self.file,
            at=self.at,
        )

    def streams(self) -> tuple[Stream, ...]:
        """Parse all streams of the area, in the order of their addresses; zeros between them are skipped.

        Raises FormatError for words that belong to no stream.
        """
        found: list[Stream] = []
        filled = np.flatnonzero(self.words)
        place = 0
        while place < len(filled):
            start = int(filled[place])
            stream = self._parse(start)
            found.append(stream)
            end = start + len(stream.words) + TAIL_WORDS
            place = int(np.searchsorted(filled, end))
        return tuple(found)

    def chain(self, address: int, body: int | None = None) -> Chain:
        """Parse the stream at a byte address and those to which its tail leads.

        Raises FormatError as `stream` does, e.g. for a tail that leads out of the area, and for more
        than CHAIN_LIMIT streams.
        """
        streams = [self.stream(address, body)]
        findings: list[str] = _alignment(address)
        seen = {address}
        while (target := streams[-1].tail.next_address) is not None:
            before = streams[-1]
            if target in seen:
                findings.append(f"stream {before.address:#x} leads back to {target:#x}: the chain never ends")
                return Chain(tuple(streams), target, tuple(findings))
            if len(streams) == CHAIN_LIMIT:
                raise self.error("chain", f"at most {CHAIN_LIMIT} streams", "")
            self.index_of(target, f"tail of stream {before.address:#x}, next address")
            seen.add(target)
            streams.append(self.stream(target))
            findings += _alignment(target)
            if before.tail.next_amount != streams[-1].amount:
                findings.append(
                    f"stream {before.address:#x} announces amount {before.tail.next_amount},"
                    f" stream {target:#x} has {streams[-1].amount}"
                )
        return Chain(tuple(streams), None, tuple(findings))


def _alignment(address: int) -> list[str]:
    if address % ALIGNMENT == 0:
        return []
    return [f"stream {address:#x} does not start at a multiple of {ALIGNMENT} bytes"]


def read_regcmd(path: Path) -> Area:
    """Read the words of a dump: little-endian binary, or text as `parse_dump` reads it.

    Raises FormatError if the file cannot be read or is neither.
    """
    data = read_file(path, FILE_LIMIT)
    if _TEXT.issuperset(data):
        return Area(parse_dump(data.decode("ascii"), str(path)).words, file=str(path))
    return Area.of_bytes(data, file=str(path))
