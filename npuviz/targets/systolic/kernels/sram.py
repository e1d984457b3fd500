"""The two halves of scratchpad and accumulator, and the entries in them."""

from typing import Any, NamedTuple

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    NOBODY,
    is_recording,
    record_count,
    record_lifetime,
)
from npuviz.targets.systolic.kernels.program_records import CODE
from npuviz.targets.systolic.kernels.records import (
    CORE,
    ENTRY,
    FAULT_ACC_FULL,
    FAULT_ENTRY_EXISTS,
    FAULT_SPAD_FULL,
    MEMORIES_PER_CORE,
    STATUS_FAULT,
    TRACK_ACC,
    TRACK_SPAD,
    TRACKS_PER_CORE,
)


class Work(NamedTuple):
    """An instruction of a resident tile on a core."""

    c: Any
    """Number of the core."""
    core: Any
    """Row CORE."""
    slot: Any
    """Row SLOT: the tile."""
    code: Any
    """Number of the instruction's row in the program."""
    row: Any
    """The instruction's row, CODE."""
    instruction: Any
    """Number of the instruction in the listing."""


@inlined
def work_of(program, c, core, slot, code):
    """Return the records of instruction `code` of a tile on core `c`."""
    return Work(c, core, slot, code, CODE(program, program.code, code), code + slot.delta)


@kernel
def fault(chip, c, code, instruction):
    """Stop the machine: the simulated program did what the chip cannot do."""
    chip.status = STATUS_FAULT
    chip.fault = code
    chip.fault_core = c
    chip.fault_instruction = instruction


@inlined
def entry_of(chip, core, slot, operand):
    """Return the word of the entry that an operand names in the halves of a resident tile."""
    if operand > 0:
        return ENTRY(chip, core.entries[slot.spad], operand - 1)
    return ENTRY(chip, core.entries[2 + slot.acc], -operand - 1)


@inlined
def is_valid(entry, t):
    """Return whether an entry exists and nothing is outstanding for it in core cycle `t`."""
    return entry.left == 0 and entry.valid <= t


@inlined
def has_operand(chip, core, slot, operand, t):
    """Return whether a source operand is absent or valid."""
    return operand == 0 or is_valid(entry_of(chip, core, slot, operand), t)


@kernel
def empty_half(machine, c, core, half, t):
    """Remove all entries of a half (0, 1 scratchpad; 2, 3 accumulator) and record their lifetimes."""
    table = core.entries[half]
    recording = is_recording(machine)
    memory = c * MEMORIES_PER_CORE + (half >> 1)
    for index in range(core.half_entries[half]):
        entry = ENTRY(machine.chip, table, index)
        if entry.left >= 0:
            if recording and entry.writer >= 0:
                record_lifetime(machine, memory, half & 1, (entry.since, t), entry.writer)
            entry.left = -1
    if core.used[half] != 0:
        core.used[half] = 0
        record_use(machine, c, core, half, t)


@kernel
def record_use(machine, c, core, half, t):
    """Record the bytes in use of scratchpad or accumulator after a change."""
    first = half & 2
    used = core.used[first] + core.used[first + 1]
    peak = CORE.peak_spad if first == 0 else CORE.peak_acc
    if core[peak] < used:
        core[peak] = used
    if is_recording(machine):
        track = TRACK_SPAD if first == 0 else TRACK_ACC
        record_count(machine, c * TRACKS_PER_CORE + track, t, used)


@kernel
def create_entry(machine, work, entry, t):
    """Create the entry of a destination, with one outstanding access.

    Faults if it exists or its half is full.
    """
    c, core, instruction, size = work.c, work.core, work.instruction, work.row.size
    half = work.slot.spad if work.row.dst > 0 else 2 + work.slot.acc
    chip = machine.chip
    if entry.left >= 0:
        fault(chip, c, int64(FAULT_ENTRY_EXISTS), instruction)
        return
    entry.left = 1
    entry.valid = t
    entry.writer = instruction
    entry.since = t
    entry.sender = NOBODY
    entry.flowed = 0
    entry.half = half
    entry.core = c
    entry.bytes = size
    if size != 0:
        core.used[half] += size
        if core.used[half] > core[(CORE.spad_half if half < 2 else CORE.acc_half)]:
            fault(chip, c, FAULT_SPAD_FULL if half < 2 else FAULT_ACC_FULL, instruction)
        record_use(machine, c, core, half, t)
