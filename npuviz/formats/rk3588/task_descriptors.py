"""Read and write task descriptors of the RK3588: tables of 40-byte records that refer to register streams.

Layout: u32 flags, op_idx, enable_mask, int_mask, int_clear, int_status, regcfg_amount, regcfg_offset,
u64 regcmd_addr (source: D KRKNPU, MTX).
"""

import struct
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.regcmd.area import Area
from npuviz.formats.rk3588.regcmd.stream import TAIL_WORDS, Stream

TASK_BYTES = 40
TABLE_LIMIT = 1 << 20
"""Most tasks of a table. Assumed: no model has more; one start runs at most 4095."""

_RECORD = struct.Struct("<8IQ")
_INTERRUPTS = 0x1FFFF
"""The 17 possible events (source: D XML, TRM)."""
_LIMITS = {
    "flags": (0xFFFFFFFF, "32 bits"),
    "op_idx": (0xFFFFFFFF, "32 bits"),
    "enable_mask": (0x7D, "the bits of the blocks, 0x7d"),
    "int_mask": (_INTERRUPTS, "17 events, 0x1ffff"),
    "int_clear": (_INTERRUPTS, "17 events, 0x1ffff"),
    "int_status": (_INTERRUPTS, "17 events, 0x1ffff"),
    "regcfg_amount": (0xFFFF, "words of a body, at most 0xffff"),
    "regcfg_offset": (0xFFFFFFF8, "a multiple of 8"),
    "regcmd_addr": ((1 << 64) - 8, "a multiple of 8"),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `amount` counts the words of the stream's body, without the tail.

    The stream starts at `address` + `offset`: either the address is absolute and the offset 0, or
    the address is a base that tasks share (source: D ALLB).
    """

    flags: int
    op_index: int
    enables: int
    interrupt_mask: int
    interrupt_clear: int
    interrupt_status: int
    amount: int
    offset: int
    address: int

    @property
    def start(self) -> int:
        """Byte address of the stream."""
        return self.address + self.offset

    def packed(self) -> bytes:
        """Return the 40 bytes. Raises FormatError if a value does not fit."""
        _check(self, "task", None, None)
        return _RECORD.pack(*astuple(self))


def parse_tasks(data: bytes, *, file: str = "task table", at: int = 0) -> tuple[Task, ...]:
    """Parse the tasks of a table; `at` is its byte offset in `file`.

    Raises FormatError for a cut record and for values no driver could use.
    """
    if len(data) % TASK_BYTES:
        raise FormatError(
            file,
            offset=at + len(data) // TASK_BYTES * TASK_BYTES,
            field="task table",
            expected=f"records of {TASK_BYTES} bytes",
            found=f"{len(data)} bytes",
        )
    if len(data) > TASK_BYTES * TABLE_LIMIT:
        raise FormatError(
            file,
            offset=at,
            field="task table",
            expected=f"at most {TABLE_LIMIT} tasks",
            found=str(len(data) // TASK_BYTES),
        )
    tasks: list[Task] = []
    for index, record in enumerate(_RECORD.iter_unpack(data)):
        task = Task(*record)
        _check(task, file, at + index * TASK_BYTES, index)
        tasks.append(task)
    return tuple(tasks)


def _check(task: Task, file: str, at: int | None, index: int | None) -> None:
    fields = zip(_LIMITS.items(), astuple(task), strict=True)
    for place, ((name, (limit, expected)), value) in enumerate(fields):
        stray = value & ~limit if limit != 0xFFFF else value >> 16
        if value < 0 or stray or (name == "regcfg_amount" and value == 0):
            where = name if index is None else f"task {index}, {name}"
            raise FormatError(
                file,
                offset=None if at is None else at + 4 * place,
                field=where,
                expected=expected if value else "at least 1 word",
                found=f"{value:#x}",
            )


def task_streams(tasks: Iterable[Task], area: Area) -> tuple[Stream, ...]:
    """Return the stream of each task.

    Raises FormatError, naming the task, if a stream is not inside `area`, does not end in a tail
    after the body, holds unknown registers, or starts other blocks than the task's `enables`.
    """
    return tuple(_stream(index, task, area) for index, task in enumerate(tasks))


def _stream(index: int, task: Task, area: Area) -> Stream:
    field = f"task {index}, regcmd_addr + regcfg_offset"
    first = area.index_of(task.start, field)
    end = first + task.amount + TAIL_WORDS
    if end > len(area.words):
        expected = f"a body and tail inside of the area of {len(area.words)} words"
        found = f"{task.amount} words from word {first} on"
        raise area.error(f"task {index}, regcfg_amount", expected, found, first)
    stream = area.stream(task.start, task.amount)
    if stream.tail.enables != task.enables:
        expected = f"the enables of its stream, {stream.tail.enables:#x}"
        raise area.error(f"task {index}, enable_mask", expected, f"{task.enables:#x}", end - 1)
    return stream
