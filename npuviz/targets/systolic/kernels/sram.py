"""The two halves of scratchpad and accumulator, and the entries in them."""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import COUNTER, LIFETIME, emit, is_recording
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


@kernel
def fault(chip, c, code, instruction):
    """Stop the machine: the simulated program did what the chip cannot do."""
    chip.status = STATUS_FAULT
    chip.fault = code
    chip.fault_core = c
    chip.fault_instruction = instruction


@inlined
def entry_of(chip, core, slot, operand):
    """Word of the entry that an operand names in the halves of a resident tile."""
    if operand > 0:
        return ENTRY(chip, core.entries[slot.spad], operand - 1)
    return ENTRY(chip, core.entries[2 + slot.acc], -operand - 1)


@inlined
def is_valid(entry, t):
    """Whether an entry exists and nothing is outstanding for it in core cycle `t`."""
    return entry.left == 0 and entry.valid <= t


@inlined
def has_operand(chip, core, slot, operand, t):
    """Whether a source operand is absent or valid."""
    return operand == 0 or is_valid(entry_of(chip, core, slot, operand), t)


@kernel
def empty_half(chip, x, ev, c, core, half, t):
    """Remove all entries of a half (0, 1 scratchpad; 2, 3 accumulator) and record their lifetimes."""
    table = core.entries[half]
    recording = is_recording(x)
    memory = c * MEMORIES_PER_CORE + (half >> 1)
    for index in range(core.half_entries[half]):
        entry = ENTRY(chip, table, index)
        if entry.left >= 0:
            if recording and entry.writer >= 0:
                emit(x, ev, int64(LIFETIME), memory, half & 1, entry.since, t, entry.writer)
            entry.left = -1
    if core.used[half] != 0:
        core.used[half] = 0
        record_use(x, ev, c, core, half, t)


@kernel
def record_use(x, ev, c, core, half, t):
    """Note the bytes in use of scratchpad or accumulator after a change."""
    first = half & 2
    used = core.used[first] + core.used[first + 1]
    peak = CORE.peak_spad if first == 0 else CORE.peak_acc
    if core[peak] < used:
        core[peak] = used
    if is_recording(x):
        track = TRACK_SPAD if first == 0 else TRACK_ACC
        emit(x, ev, int64(COUNTER), c * TRACKS_PER_CORE + track, int64(0), t, used, int64(-1))


@kernel
def create_entry(chip, x, ev, c, core, half, entry, size, instruction, t):
    """Bring an entry into being with one thing outstanding. Faults if it exists or the half is full."""
    if entry.left >= 0:
        fault(chip, c, int64(FAULT_ENTRY_EXISTS), instruction)
        return
    entry.left = 1
    entry.valid = t
    entry.writer = instruction
    entry.since = t
    entry.flowed = 0
    entry.half = half
    entry.core = c
    entry.bytes = size
    if size != 0:
        core.used[half] += size
        if core.used[half] > core[(CORE.spad_half if half < 2 else CORE.acc_half)]:
            fault(chip, c, FAULT_SPAD_FULL if half < 2 else FAULT_ACC_FULL, instruction)
        record_use(x, ev, c, core, half, t)
