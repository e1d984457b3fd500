"""Compute the registers that each task sees: two groups per block, inherited values, changes to before.

Each block has two register groups; the pointer says which one is written. Switching copies nothing:
a group keeps what was written two tasks earlier (source: D NVDLA; M ALLB, vendor chains write the full
set in tasks 0 and 1 and then only changes). Measured on a chain of 461 tasks in a public vendor model:
OUT_CVT_SCALE and OUT_CVT_SHIFT are written 168 times by short tasks, each time exactly because they differ
from the task of the same group; against the task just before, 68 of these writes would be idle.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from npuviz.formats.rk3588.regcmd.stream import Stream
from npuviz.formats.rk3588.register_data import Register
from npuviz.formats.rk3588.registers import Word, registers

GROUPED = ("CNA", "CORE", "DPU", "DPU_RDMA", "PPU", "PPU_RDMA")
"""Blocks with two register groups (source: D TRM)."""
USUAL_POINTER = 0x0E
"""S_POINTER that drivers write before the first task: both ping-pongs on, toggling (source: D KROCKET)."""

_PP_ENABLE, _PP_TOGGLE, _PP_CLEAR = 0x02, 0x08, 0x10


@dataclass(frozen=True, slots=True)
class TaskRegisters:
    """The registers with which one task runs.

    `groups` names the register group of each block. `values` holds every register of those groups
    that was ever written, by offset. `written` are the offsets that the task's own stream wrote.
    `changed` has (value before, value now) of the registers that differ from those of the previous
    task of the same group; the value before is None if nothing had been written.
    """

    groups: Mapping[str, int]
    values: Mapping[int, int]
    written: frozenset[int]
    changed: Mapping[int, tuple[int | None, int]]


class _Block:
    """Pointer and two register groups of one block."""

    def __init__(self, pointer: int) -> None:
        self.groups: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.pointer = 0
        self.control = 0
        self.started = False
        self.point(pointer)

    def point(self, value: int) -> None:
        """Handle a write to S_POINTER: with ping-pong on, bit 0 is not a new position (source: I DER)."""
        self.control = value
        if value & _PP_CLEAR:
            self.pointer = 0
        if not value & _PP_ENABLE:
            self.pointer = value & 1

    def end_task(self) -> None:
        if self.started and self.control & _PP_ENABLE and self.control & _PP_TOGGLE:
            self.pointer ^= 1
        self.started = False


def effective_registers(tasks: Iterable[Stream]) -> tuple[TaskRegisters, ...]:
    """Return the registers of each task when the streams run one after the other on one core.

    A block's pointer moves after a task that started the block; with pointer mode "follows the executer" it
    is assumed to stay, as the executer is not modelled here. The streams must hold known registers only, as
    read streams do.
    """
    blocks = {name: _Block(USUAL_POINTER) for name in GROUPED}
    alone: dict[int, int] = {}
    return tuple(_run(stream, blocks, alone) for stream in tasks)


def _run(stream: Stream, blocks: dict[str, _Block], alone: dict[int, int]) -> TaskRegisters:
    database = registers()
    before: dict[int, int | None] = {}
    written: set[int] = set()
    for word in stream.words:
        if word.target == 0:
            continue
        register = database.by_offset[word.offset]
        block = blocks.get(register.block)
        held = _held(block, register, word, alone)
        before.setdefault(word.offset, held.get(word.offset))
        held[word.offset] = word.value
        written.add(word.offset)
    for name in stream.tail.started:
        blocks[name].started = True
    values = dict(alone)
    for block in blocks.values():
        values.update(block.groups[block.pointer])
    found = TaskRegisters(
        MappingProxyType({name: block.pointer for name, block in blocks.items()}),
        MappingProxyType(values),
        frozenset(written),
        MappingProxyType(
            {
                offset: (old, values[offset])
                for offset, old in before.items()
                if offset in values and old != values[offset]
            }
        ),
    )
    for block in blocks.values():
        block.end_task()
    return found


def _held(block: _Block | None, register: Register, word: Word, alone: dict[int, int]) -> dict[int, int]:
    """Apply the side effect of a write on its block, and return the group in which its value is kept.

    PC, S_STATUS and S_POINTER exist once, all others twice (source: D NVDLA).
    """
    if block is None:
        return alone
    if register.name == "S_POINTER":
        block.point(word.value)
        return alone
    if register.name == "S_STATUS":
        return alone
    if register.name == "OPERATION_ENABLE" and word.value & 1:
        block.started = True
    return block.groups[block.pointer]
