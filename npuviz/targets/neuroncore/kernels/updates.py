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
    ACCESS,
    FAULT_EVENT_CLEARED_TWICE,
    FAULT_EVENT_SET_TWICE,
    FAULT_SEMAPHORE_OVERFLOW,
    FAULT_SEMAPHORE_UNDERFLOW,
    INSTRUCTION,
    LIFE,
    LOG_WORDS,
    MAX_SEMAPHORE,
    NODE,
    SEMAPHORE,
    STATUS_FAULT,
    UP_ADD,
    UP_DEC,
    UP_EVENT_CLEAR,
    UP_EVENT_SET,
    UP_INC,
    UP_SUB,
)


@kernel
def fault(chip, code, index, subject):
    """The simulated chip misbehaves; the first fault counts."""
    if chip.status != STATUS_FAULT:
        chip.status = STATUS_FAULT
        chip.fault = code
        chip.fault_instruction = index
        chip.fault_subject = subject


@kernel
def update(chip, program, x, ev, kind, which, amount, index, t):
    """Change a semaphore or event (global index)."""
    semaphore = SEMAPHORE(chip, chip.semaphores, which)
    old = semaphore.value
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
            fault(chip, FAULT_EVENT_SET_TWICE, index, which)
        new = old - old + 1
    elif kind == UP_EVENT_CLEAR:
        if old == 0:
            fault(chip, FAULT_EVENT_CLEARED_TWICE, index, which)
        new = old - old
    else:
        new = amount
    if new > MAX_SEMAPHORE:
        fault(chip, FAULT_SEMAPHORE_OVERFLOW, index, which)
    if new < 0:
        fault(chip, FAULT_SEMAPHORE_UNDERFLOW, index, which)
        return
    semaphore.value = new
    semaphore.updater = index
    chip.dirty = 1
    track = program[program.track_of_semaphore + which]
    if track >= 0 and is_recording(x):
        emit(x, ev, COUNTER, track, 0, t, new, -1)


@inlined
def note_completion(chip, entry, t):
    """Append to the log: what values depend on."""
    row = chip.log + chip.log_count * LOG_WORDS
    chip[row] = entry
    chip[row + 1] = t
    chip.log_count += 1


@kernel
def close_allocations(chip, program, x, ev, instruction, t):
    """Ranges of memory that the instruction was the last to use are free now."""
    first = program.closed + instruction.closed
    for n in range(instruction.closes):
        tile = program[first + n]
        life = LIFE(program, program.allocations, tile)
        start = chip[chip.tiles + tile]
        chip[chip.tiles + tile] = -2 - start
        if start >= 0 and is_recording(x):
            emit(x, ev, LIFETIME, life.memory, life.bank, start, t, life[2])


@kernel
def node_progress(chip, x, instruction, t):
    """One completion less to come of the instruction's graph node."""
    node_number = instruction.node
    if node_number >= 0:
        node = NODE(chip, chip.nodes, node_number)
        node.left -= 1
        if node.left == 0 and is_watched(x):
            watch_subject(x, STOP_NODE_END, node_number, 0, 1, t)


@kernel
def watch_accesses(program, x, first, count, is_write, t):
    """Tell stop rows which memory is read or written."""
    for n in range(count):
        access = ACCESS(program, program.accesses, first + n)
        if access.write != is_write:
            continue
        test = STOP_MEMORY_WRITE if is_write else STOP_MEMORY_READ
        for q in range(access.partitions):
            base = (access.partition + q) * access.pitch
            watch_subject(x, test, access.memory, base + access.low, base + access.high, t)


@inlined
def instruction_at(program, index):
    """First word of an instruction."""
    return INSTRUCTION(program, program.instructions, index)
