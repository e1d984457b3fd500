"""The two halves of scratchpad and accumulator, and the entries in them."""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import COUNTER, LIFETIME, emit, is_recording
from npuviz.targets.systolic.kernels.records import (
    ENTRY_STATE_WORDS,
    FAULT_ACC_FULL,
    FAULT_ENTRY_EXISTS,
    FAULT_SPAD_FULL,
    H_FAULT,
    H_FAULT_CORE,
    H_FAULT_INSTRUCTION,
    H_STATUS,
    K_ACC_HALF,
    K_ENTRIES,
    K_HALF_ENTRIES,
    K_PEAK_ACC,
    K_PEAK_SPAD,
    K_SPAD_HALF,
    K_USED,
    MEMORIES_PER_CORE,
    N_BYTES,
    N_CORE,
    N_FLOWED,
    N_HALF,
    N_LEFT,
    N_SINCE,
    N_VALID,
    N_WRITER,
    S_ACC,
    S_SPAD,
    STATUS_FAULT,
    TRACK_ACC,
    TRACK_SPAD,
    TRACKS_PER_CORE,
)


@kernel
def fault(s, c, code, instruction):
    """Stop the machine: the simulated program did what the chip cannot do."""
    s[H_STATUS] = STATUS_FAULT
    s[H_FAULT] = code
    s[H_FAULT_CORE] = c
    s[H_FAULT_INSTRUCTION] = instruction


@inlined
def entry_of(s, k, slot, operand):
    """Word of the entry that an operand names in the halves of a resident tile."""
    if operand > 0:
        return s[k + K_ENTRIES + s[slot + S_SPAD]] + (operand - 1) * ENTRY_STATE_WORDS
    return s[k + K_ENTRIES + 2 + s[slot + S_ACC]] + (-operand - 1) * ENTRY_STATE_WORDS


@inlined
def is_valid(s, entry, t):
    """Whether an entry exists and nothing is outstanding for it in core cycle `t`."""
    return s[entry + N_LEFT] == 0 and s[entry + N_VALID] <= t


@inlined
def has_operand(s, k, slot, operand, t):
    """Whether a source operand is absent or valid."""
    return operand == 0 or is_valid(s, entry_of(s, k, slot, operand), t)


@kernel
def empty_half(s, x, ev, c, k, half, t):
    """Remove all entries of a half (0, 1 scratchpad; 2, 3 accumulator) and record their lifetimes."""
    table = s[k + K_ENTRIES + half]
    recording = is_recording(x)
    memory = c * MEMORIES_PER_CORE + (half >> 1)
    for index in range(s[k + K_HALF_ENTRIES + half]):
        entry = table + index * ENTRY_STATE_WORDS
        if s[entry + N_LEFT] >= 0:
            if recording and s[entry + N_WRITER] >= 0:
                emit(x, ev, int64(LIFETIME), memory, half & 1, s[entry + N_SINCE], t, s[entry + N_WRITER])
            s[entry + N_LEFT] = -1
    if s[k + K_USED + half] != 0:
        s[k + K_USED + half] = 0
        record_use(s, x, ev, c, k, half, t)


@kernel
def record_use(s, x, ev, c, k, half, t):
    """Note the bytes in use of scratchpad or accumulator after a change."""
    first = half & 2
    used = s[k + K_USED + first] + s[k + K_USED + first + 1]
    peak = K_PEAK_SPAD if first == 0 else K_PEAK_ACC
    if s[k + peak] < used:
        s[k + peak] = used
    if is_recording(x):
        track = TRACK_SPAD if first == 0 else TRACK_ACC
        emit(x, ev, int64(COUNTER), c * TRACKS_PER_CORE + track, int64(0), t, used, int64(-1))


@kernel
def create_entry(s, x, ev, c, k, half, entry, size, instruction, t):
    """Bring an entry into being with one thing outstanding. Faults if it exists or the half is full."""
    if s[entry + N_LEFT] >= 0:
        fault(s, c, int64(FAULT_ENTRY_EXISTS), instruction)
        return
    s[entry + N_LEFT] = 1
    s[entry + N_VALID] = t
    s[entry + N_WRITER] = instruction
    s[entry + N_SINCE] = t
    s[entry + N_FLOWED] = 0
    s[entry + N_HALF] = half
    s[entry + N_CORE] = c
    s[entry + N_BYTES] = size
    if size != 0:
        s[k + K_USED + half] += size
        if s[k + K_USED + half] > s[k + (K_SPAD_HALF if half < 2 else K_ACC_HALF)]:
            fault(s, c, FAULT_SPAD_FULL if half < 2 else FAULT_ACC_FULL, instruction)
        record_use(s, x, ev, c, k, half, t)
