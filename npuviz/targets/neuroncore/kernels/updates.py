"""Update semaphores and events, log completions, free allocations, and test accesses for stops."""

from typing import Any, NamedTuple

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    HIT,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    hit,
    is_recording,
    is_watched,
    may_watch,
    record_count,
    record_lifetime,
    stop_row,
    watch_node,
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
    """Set the fault of the simulated chip, unless it has one already."""
    if chip.status != STATUS_FAULT:
        chip.status = STATUS_FAULT
        chip.fault = code
        chip.fault_instruction = index
        chip.fault_subject = subject


class Change(NamedTuple):
    """A change of a semaphore or event: an UP_ number, its global index, a value."""

    kind: Any
    semaphore: Any
    value: Any


@kernel
def update(machine, change, instruction, t):
    """Change a semaphore or event on behalf of an instruction."""
    chip, program = machine.chip, machine.program
    kind, which, amount = change.kind, change.semaphore, change.value
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
            fault(chip, FAULT_EVENT_SET_TWICE, instruction, which)
        new = int64(1)
    elif kind == UP_EVENT_CLEAR:
        if old == 0:
            fault(chip, FAULT_EVENT_CLEARED_TWICE, instruction, which)
        new = int64(0)
    else:
        new = amount
    if new > MAX_SEMAPHORE:
        fault(chip, FAULT_SEMAPHORE_OVERFLOW, instruction, which)
    if new < 0:
        fault(chip, FAULT_SEMAPHORE_UNDERFLOW, instruction, which)
        return
    semaphore.value = new
    semaphore.updater = instruction
    chip.dirty = 1
    track = program[program.track_of_semaphore + which]
    if track >= 0 and is_recording(machine):
        record_count(machine, track, t, new)


@inlined
def note_completion(chip, entry, t):
    """Append a completion to the log, on which values depend."""
    row = chip.log + chip.log_count * LOG_WORDS
    chip[row] = entry
    chip[row + 1] = t
    chip.log_count += 1


@kernel
def close_allocations(machine, instruction, t):
    """Free the allocations that the instruction was the last to use."""
    chip, program = machine.chip, machine.program
    first = program.closed + instruction.closed
    for n in range(instruction.closes):
        tile = program[first + n]
        life = LIFE(program, program.allocations, tile)
        start = chip[chip.tiles + tile]
        chip[chip.tiles + tile] = -2 - start
        if start >= 0 and is_recording(machine):
            record_lifetime(machine, life.memory, life.bank, (start, t), life[2])


@kernel
def node_progress(machine, instruction, t):
    """Count a completion of the instruction's graph node."""
    chip = machine.chip
    node_number = instruction.node
    if node_number >= 0:
        node = NODE(chip, chip.nodes, node_number)
        node.left -= 1
        if node.left == 0 and is_watched(machine):
            watch_node(machine, STOP_NODE_END, node_number, t)


@inlined
def touches(access, low, high):
    """Return whether a range of its memory overlaps the bytes that an access touches in each partition."""
    if access.pitch == 0:
        return access.partitions > 0 and access.low < high and access.high > low
    # The first partition in which the access ends after `low`.
    partition = max(access.partition, (low - access.high) // access.pitch + 1)
    if partition >= access.partition + access.partitions:
        return False
    return partition * access.pitch + access.low < high


@kernel
def watch_accesses(machine, first, count, is_write, t):
    """Test accesses of memory against the stop rows."""
    program, call = machine.program, machine.call
    test = STOP_MEMORY_WRITE if is_write else STOP_MEMORY_READ
    if call.filters[test] == 0:
        return
    for n in range(count):
        access = ACCESS(program, program.accesses, first + n)
        if access.write != is_write or not may_watch(machine, test, access.memory):
            continue
        if not touches(access, call.low, call.high):
            continue
        for index in range(call.stops):
            row = stop_row(machine, index)
            if row.test == test and row.subject == access.memory and touches(access, row.low, row.high):
                hit(machine, index, HIT, t)


@inlined
def instruction_at(program, index):
    """Return the record of an instruction."""
    return INSTRUCTION(program, program.instructions, index)
