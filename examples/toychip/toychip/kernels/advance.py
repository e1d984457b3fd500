"""The chip, from event to event.

At one cycle: instructions end, then the heads of the queues start, then SEQ hands out one instruction.
"""

from npuviz.sim.parts.bits_kernels import entry, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import (
    CALL,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    Machine,
    is_full,
    is_recording,
    is_watched,
    record_count,
    record_interval,
    watch_instruction,
    watch_memory,
    watch_node,
    watch_queue,
)
from toychip.kernels.records import CHIP, FAR, INSTRUCTION, KIND_WAIT, LOG, NODE, PROGRAM, RING, UNITS

MARGIN = 16
"""Event rows that one cycle may need: of each unit two intervals and a counter, and one for SEQ."""
RESULT_UNTIL, RESULT_FINISHED, RESULT_EVENTS = 0, 1, 4


@kernel
def _instruction(program, index):
    return INSTRUCTION(program, PROGRAM.instructions, index)


@kernel
def _end(machine, number, t):
    """The instruction under way ends."""
    chip = machine.chip
    unit = chip.units[number]
    index = unit.running
    row = _instruction(machine.program, index)
    if is_recording(machine):
        record_interval(machine, number, row.kind, (unit.start, t), index)
    unit.busy += t - unit.start
    unit.running = -1
    unit.until = FAR
    chip[chip.done + index] = 1
    entry = LOG(chip, chip.log, chip.log_count)
    entry.instruction = index
    entry.cycle = t
    chip.log_count += 1
    node = NODE(chip, chip.nodes, row.node)
    node.left -= 1
    if node.left == 0:
        watch_node(machine, STOP_NODE_END, row.node, t)


@kernel
def _is_ready(chip, row):
    ended = 0
    for number in range(row.num_after):
        ended += chip[chip.done + row.after[number]]
    return ended == row.num_after


@kernel
def _change_queue(machine, number, before, after, t):
    if is_recording(machine):
        record_count(machine, UNITS + number, t, after)
    if is_watched(machine):
        watch_queue(machine, number, before, after, t)


@kernel
def _start(machine, number, t):
    """The head of the queue starts, or waits for what it depends on."""
    chip = machine.chip
    unit = chip.units[number]
    index = unit.ring[unit.head % RING]
    row = _instruction(machine.program, index)
    if not _is_ready(chip, row):
        if unit.since < 0:
            unit.since = t
        return
    if unit.since >= 0 and is_recording(machine):
        record_interval(machine, number, KIND_WAIT, (unit.since, t), index)
    unit.since = -1
    unit.head += 1
    unit.running = index
    unit.start = t
    unit.until = t + row.cycles
    _change_queue(machine, number, unit.tail - unit.head + 1, unit.tail - unit.head, t)
    node = NODE(chip, chip.nodes, row.node)
    if is_watched(machine):
        watch_instruction(machine, index, t)
        for place in range(3):
            access = row.accesses[place]
            test = STOP_MEMORY_WRITE if access.is_write else STOP_MEMORY_READ
            watch_memory(machine, test, access.memory, (access.low, access.high), t)
        if node.started == 0:
            watch_node(machine, STOP_NODE_START, row.node, t)
    node.started = 1


@kernel
def _dispatch(machine, t):
    """SEQ puts the next instruction into the queue of its unit."""
    chip, program = machine.chip, machine.program
    chip.wake = FAR
    if chip.next == program.count:
        return
    number = _instruction(program, chip.next).unit
    unit = chip.units[number]
    level = unit.tail - unit.head
    if level == program.queue:
        return  # the queue has room when its head starts, and then somebody wakes
    unit.ring[unit.tail % RING] = chip.next
    unit.tail += 1
    unit.peak = max(unit.peak, level + 1)
    chip.next += 1
    chip.wake = t + 1
    _change_queue(machine, number, level, level + 1, t)


@kernel
def _process(machine, t):
    """Everything that happens at cycle t."""
    chip = machine.chip
    for number in range(UNITS):
        if chip.units[number].until <= t:
            _end(machine, number, t)
    for number in range(UNITS):
        unit = chip.units[number]
        if unit.running < 0 and unit.tail > unit.head:
            _start(machine, number, t)
    _dispatch(machine, t)
    if chip.log_count == machine.program.count:
        chip.status = 1


@kernel
def _next_event(chip):
    time = chip.wake
    for number in range(UNITS):
        time = min(time, chip.units[number].until)
    return time


@entry
def advance(state, words, transient, events):
    """Run until cycle `until` of the call, a hit, the end, or until the event buffer is full.

    Returns a RESULT_ code.

    state      changed  the words of CHIP and what it names
    words      read     the words of PROGRAM
    transient  changed  until, stop rows, hits, number of event rows
    events     changed  event rows
    """
    chip, program = CHIP(state), PROGRAM(words)
    call = CALL(transient)
    machine = Machine(chip, program, call, pointer_to(events))
    while chip.status == 0:
        t = _next_event(chip)
        if t >= call.until:
            chip.cycle = call.until
            return RESULT_UNTIL
        if is_full(machine, MARGIN):
            chip.cycle = t
            return RESULT_EVENTS
        _process(machine, t)
        chip.cycle = t + 1
    return RESULT_FINISHED


advance.takes("wwww")
