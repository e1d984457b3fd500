"""Register command streams, areas and task tables made by hand: the inverse of what npuviz reads."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area
from npuviz.formats.rk3588.regcmd.stream import ALIGNMENT, TAIL_WORDS, WORD_BYTES, Stream, Tail, amount_of
from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.task_descriptors import Task

_INTERRUPTS = 0x1FFFF
_HEADER = "# idx qword target value reg"


def write_area(streams: tuple[Stream, ...], *, address: int = 0) -> Area:
    """An area from byte address `address` on with the streams one after the other.

    Raises FormatError when a stream's address is not its place; `chain_streams` gives such streams.
    """
    parts = [np.zeros(0, np.uint64)]
    place = address
    for index, stream in enumerate(streams):
        if stream.address != place:
            raise FormatError(
                "regcmd area",
                field=f"stream {index}",
                expected=f"address {place:#x}",
                found=f"{stream.address:#x}",
            )
        parts.append(stream.packed())
        place += len(parts[-1]) * WORD_BYTES
    return Area(np.concatenate(parts), address=address)


def chain_streams(
    bodies: tuple[tuple[tuple[Word, ...], int], ...], *, address: int = 0
) -> tuple[Stream, ...]:
    """Streams for (body, enables) pairs, placed after each other and chained: the last one ends.

    `address` is the byte address of the first, a multiple of 64. Next addresses and amounts follow
    the rules of `regcmd.stream`.
    """
    places: list[int] = []
    place = address
    for words, _ in bodies:
        places.append(place)
        place += -(-(len(words) + TAIL_WORDS) * WORD_BYTES // ALIGNMENT) * ALIGNMENT
    found: list[Stream] = []
    for index, (words, enables) in enumerate(bodies):
        tail = Tail(enables)
        if index + 1 < len(bodies):
            tail = Tail(enables, places[index + 1], amount_of(len(bodies[index + 1][0])))
        found.append(Stream(words, tail, places[index]))
    return tuple(found)


def format_columns(words: NDArray[np.uint64], comments: tuple[str, ...] = ()) -> str:
    """Comments, a header, then index, word, target, value and register of each word."""
    lines = [f"# {comment}" for comment in comments]
    lines.append(_HEADER)
    for index, packed in enumerate(words):
        word = Word.unpacked(int(packed))
        lines.append(f"{index:3d} {word} {word.target:04x} {word.value:08x} {word.offset:04x}")
    return "\n".join(lines) + "\n"


def convolution_task(stream: Stream, *, op_index: int = 0, flags: int = 0) -> Task:
    """The usual descriptor of a stream that ends in the DPU, with an absolute address.

    int_mask 0x300, int_clear 0x1ffff (source: D MTX; M ALLB).
    """
    return Task(
        flags, op_index, stream.tail.enables, 0x300, _INTERRUPTS, 0, len(stream.words), 0, stream.address
    )


def pooling_task(stream: Stream, *, op_index: int = 0, flags: int = 0) -> Task:
    """The usual descriptor of a stream that ends in the PPU: int_mask 0xc00 (source: M ALLB)."""
    return Task(
        flags, op_index, stream.tail.enables, 0xC00, _INTERRUPTS, 0, len(stream.words), 0, stream.address
    )


def pack_tasks(tasks: Iterable[Task]) -> bytes:
    """The table of the tasks. Raises FormatError when a value does not fit."""
    return b"".join(task.packed() for task in tasks)
