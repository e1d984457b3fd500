"""Semaphores, events and the completion of work: what one part of the machine tells the others."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    COUNTER,
    LIFETIME,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    emit,
    is_recording,
    is_watched,
    watch_subject,
)
from npuviz.targets.neuroncore.kernels.records import (
    A_HIGH,
    A_LOW,
    A_MEMORY,
    A_PARTITION,
    A_PARTITIONS,
    A_PITCH,
    A_WRITE,
    ACCESS_WORDS,
    FAULT_EVENT_CLEARED_TWICE,
    FAULT_EVENT_SET_TWICE,
    FAULT_SEMAPHORE_OVERFLOW,
    FAULT_SEMAPHORE_UNDERFLOW,
    H_DIRTY,
    H_FAULT,
    H_FAULT_INSTRUCTION,
    H_FAULT_SUBJECT,
    H_LOG,
    H_LOG_COUNT,
    H_NODES,
    H_SEMAPHORES,
    H_STATUS,
    H_TILES,
    I_CLOSED,
    I_CLOSES,
    I_NODE,
    INSTRUCTION_WORDS,
    L_BANK,
    L_MEMORY,
    LIFE_WORDS,
    LOG_WORDS,
    MAX_SEMAPHORE,
    N_LEFT,
    NODE_WORDS,
    P_ACCESSES,
    P_ALLOCATIONS,
    P_CLOSED,
    P_INSTRUCTIONS,
    P_TRACK_OF_SEMAPHORE,
    S_UPDATER,
    S_VALUE,
    SEMAPHORE_WORDS,
    STATUS_FAULT,
    UP_ADD,
    UP_DEC,
    UP_EVENT_CLEAR,
    UP_EVENT_SET,
    UP_INC,
    UP_SUB,
)


@kernel
def fault(s, code, instruction, subject):
    """The simulated chip misbehaves; the first fault counts."""
    if s[H_STATUS] != STATUS_FAULT:
        s[H_STATUS] = STATUS_FAULT
        s[H_FAULT] = code
        s[H_FAULT_INSTRUCTION] = instruction
        s[H_FAULT_SUBJECT] = subject


@kernel
def update(s, p, x, ev, kind, semaphore, amount, instruction, t):
    """Change a semaphore or event (global index)."""
    w = s[H_SEMAPHORES] + semaphore * SEMAPHORE_WORDS
    old = s[w + S_VALUE]
    if kind == UP_INC:
        new = old + 1
    elif kind == UP_DEC:
        new = old - 1
    elif kind == UP_ADD:
        new = old + amount
    elif kind == UP_SUB:
        new = old - amount
    elif kind == UP_EVENT_SET:
        if old != 0:
            fault(s, FAULT_EVENT_SET_TWICE, instruction, semaphore)
        new = old - old + 1
    elif kind == UP_EVENT_CLEAR:
        if old == 0:
            fault(s, FAULT_EVENT_CLEARED_TWICE, instruction, semaphore)
        new = old - old
    else:
        new = amount
    if new > MAX_SEMAPHORE:
        fault(s, FAULT_SEMAPHORE_OVERFLOW, instruction, semaphore)
    if new < 0:
        fault(s, FAULT_SEMAPHORE_UNDERFLOW, instruction, semaphore)
        return
    s[w + S_VALUE] = new
    s[w + S_UPDATER] = instruction
    s[H_DIRTY] = 1
    track = p[p[P_TRACK_OF_SEMAPHORE] + semaphore]
    if track >= 0 and is_recording(x):
        emit(x, ev, COUNTER, track, 0, t, new, -1)


@inlined
def note_completion(s, entry, t):
    """Append to the log: what values depend on."""
    row = s[H_LOG] + s[H_LOG_COUNT] * LOG_WORDS
    s[row] = entry
    s[row + 1] = t
    s[H_LOG_COUNT] += 1


@kernel
def close_allocations(s, p, x, ev, i, t):
    """Ranges of memory that the instruction was the last to use are free now."""
    first = p[P_CLOSED] + p[i + I_CLOSED]
    for n in range(p[i + I_CLOSES]):
        tile = p[first + n]
        a = p[P_ALLOCATIONS] + tile * LIFE_WORDS
        start = s[s[H_TILES] + tile]
        s[s[H_TILES] + tile] = -2 - start
        if start >= 0 and is_recording(x):
            emit(x, ev, LIFETIME, p[a + L_MEMORY], p[a + L_BANK], start, t, p[a + 2])


@kernel
def node_progress(s, p, x, i, t):
    """One completion less to come of the instruction's graph node."""
    node = p[i + I_NODE]
    if node >= 0:
        w = s[H_NODES] + node * NODE_WORDS
        s[w + N_LEFT] -= 1
        if s[w + N_LEFT] == 0 and is_watched(x):
            watch_subject(x, STOP_NODE_END, node, 0, 1, t)


@kernel
def watch_accesses(p, x, first, count, is_write, t):
    """Tell stop rows which memory is read or written."""
    for n in range(count):
        a = p[P_ACCESSES] + (first + n) * ACCESS_WORDS
        if p[a + A_WRITE] != is_write:
            continue
        test = STOP_MEMORY_WRITE if is_write else STOP_MEMORY_READ
        for q in range(p[a + A_PARTITIONS]):
            base = (p[a + A_PARTITION] + q) * p[a + A_PITCH]
            watch_subject(x, test, p[a + A_MEMORY], base + p[a + A_LOW], base + p[a + A_HIGH], t)


@inlined
def word_of(p, instruction):
    """First word of an instruction."""
    return p[P_INSTRUCTIONS] + instruction * INSTRUCTION_WORDS
