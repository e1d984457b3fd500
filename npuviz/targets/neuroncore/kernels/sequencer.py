"""Simulate sequencers: in-order issue that waits for semaphores, ports and DMA queues; pipelined
completion.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    STOP_NODE_START,
    compares,
    is_recording,
    is_watched,
    record_flow,
    record_interval,
    watch_instruction,
    watch_node,
    watch_queue,
)
from npuviz.targets.neuroncore.kernels.dma import enqueue, has_room
from npuviz.targets.neuroncore.kernels.records import (
    BUSY,
    ENDED,
    FAR,
    FAULT_BRANCH,
    FLAG_REGISTER,
    FLIGHTS,
    FREE,
    KIND_WAIT_BARRIER,
    KIND_WAIT_PORT,
    KIND_WAIT_QUEUE,
    KIND_WAIT_SEMAPHORE,
    NODE,
    ONE,
    OP_BRANCH,
    OP_CORE_BARRIER,
    OP_END,
    OP_REG_ALU,
    OP_REG_MOVE,
    PORTS,
    SEMAPHORE,
    SEQUENCER,
    UPDATE,
    WAIT,
    WAITING,
    WHEN_COMPLETE,
    WHEN_READ,
)
from npuviz.targets.neuroncore.kernels.releases import record_release
from npuviz.targets.neuroncore.kernels.updates import (
    Change,
    close_allocations,
    fault,
    instruction_at,
    node_progress,
    note_completion,
    update,
    watch_accesses,
)


@inlined
def compare(value, condition, bound):
    """Return whether a comparison, a number of isa.Condition, holds; numbers above 5 always do."""
    return condition > 5 or compares(value, bound, condition)


@kernel
def calculate(operator, a, b):
    """Return the result of an integer operator (numbers of isa.Alu); `b` for operators it lacks."""
    if operator == 1:
        return a + b
    if operator == 2:
        return a - b
    if operator == 3:
        return a * b
    if operator == 5:
        return a if a > b else b
    if operator == 6:
        return a if a < b else b
    if operator == 21:
        return a & b
    if operator == 22:
        return a | b
    if operator == 23:
        return a ^ b
    return b


@kernel
def send_updates(machine, instruction, index, when, t):
    """Make the instruction's updates that are due at a WHEN_ moment."""
    program = machine.program
    first = program.updates + instruction.update * UPDATE.num_words
    for n in range(instruction.updates):
        row = UPDATE(program, first, n)
        if row.when == when:
            update(machine, Change(row.kind, row.semaphore, row.value), index, t)


@kernel
def complete_due(machine, number, sequencer, t):
    """Complete the instruction that ends at `t`, and free the engine whose occupation ends."""
    chip, program = machine.chip, machine.program
    while sequencer.count > 0:
        oldest = sequencer.flight[sequencer.head]
        if oldest.end > t:
            break
        index = oldest.instruction
        sequencer.head = (sequencer.head + 1) % FLIGHTS
        sequencer.count -= 1
        instruction = instruction_at(program, index)
        note_completion(chip, index, t)
        chip.completed += 1
        chip.macs += instruction.macs
        send_updates(machine, instruction, index, WHEN_COMPLETE, t)
        if instruction.transfer < 0:
            close_allocations(machine, instruction, t)
            if is_watched(machine):
                watch_accesses(machine, instruction.access, instruction.accesses, 1, t)
        node_progress(machine, instruction, t)
        if is_watched(machine):
            before = sequencer.count + 1
            watch_queue(machine, chip.queues_count + number, before, before - 1, t)
    if sequencer.state == BUSY and sequencer.until <= t:
        if is_recording(machine):
            instruction = instruction_at(program, sequencer.current)
            record_interval(machine, number, instruction.kind, (sequencer.start, t), sequencer.current)
        sequencer.state = FREE
        sequencer.current = -1


@kernel
def _blocking_cause(machine, number, sequencer, instruction, t):
    """Return the KIND_ of what holds the next instruction back, 0 if nothing does; set `retry`."""
    chip, program = machine.chip, machine.program
    sequencer.retry = FAR
    first = program.waits + instruction.wait * WAIT.num_words
    for n in range(instruction.waits):
        wait = WAIT(program, first, n)
        value = SEMAPHORE(chip, chip.semaphores, wait.semaphore).value
        if not compare(value, wait.condition, wait.value):
            return KIND_WAIT_SEMAPHORE
    if sequencer.count == FLIGHTS:
        return KIND_WAIT_PORT  # a completion comes before anything else of this sequencer
    ports = instruction.ports
    if ports != 0:
        base = chip.ports + (number // 5) * PORTS
        latest = t
        for port in range(PORTS):
            if (ports >> port) & 1 and chip[base + port] > latest:
                latest = chip[base + port]
        if latest > t:
            sequencer.retry = latest
            return KIND_WAIT_PORT
    if instruction.transfer >= 0 and not has_room(machine, instruction.transfer):
        return KIND_WAIT_QUEUE
    if instruction.opcode == OP_CORE_BARRIER:
        if sequencer.cause != KIND_WAIT_BARRIER:
            sequencer.barrier += 1
            chip.again = t + 1
            sequencer.cause = KIND_WAIT_BARRIER
            sequencer.since = t
        for other in range(number % 5, chip.sequencers_count - 1, 5):
            if SEQUENCER(chip, chip.sequencers, other).barrier < sequencer.barrier:
                return KIND_WAIT_BARRIER
    return 0


@kernel
def _end_wait(machine, number, sequencer, t):
    if sequencer.cause != 0 and sequencer.since < t:
        sequencer.waited += t - sequencer.since
        if is_recording(machine):
            record_interval(machine, number, sequencer.cause, (sequencer.since, t), sequencer.pc)
            record_release(machine, number, sequencer, t)
    sequencer.since = t


@kernel
def _control(chip, sequencer, instruction, index):
    """Execute an instruction on registers, or a branch, at its issue; return the next instruction."""
    code = instruction.opcode
    registers = sequencer.registers
    operand = instruction.value
    if instruction.flags & FLAG_REGISTER:
        operand = registers[(operand & 63)]
    if code == OP_REG_MOVE:
        registers[(instruction.op0 & 63)] = operand
    elif code == OP_REG_ALU:
        a = registers[(instruction.op1 & 63)]
        value = calculate(instruction.cmd, a, operand)
        # Registers have 32 bits, kept with their sign.
        registers[(instruction.op0 & 63)] = ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    elif code == OP_BRANCH and compare(registers[(instruction.op0 & 63)], instruction.cmd, operand):
        target = instruction.target
        if target < sequencer.first or target > sequencer.end:
            fault(chip, FAULT_BRANCH, index, target)
            return sequencer.end
        return target
    return index + 1


@kernel
def _open_allocations(machine, instruction, t):
    chip, program = machine.chip, machine.program
    first = program.opened + instruction.opened
    for n in range(instruction.opens):
        chip[chip.tiles + program[first + n]] = t


@kernel
def _used(sequencer, window, after):
    """Return the newest instruction's cycles of the whole array in a window, in 1/65536, rounded up."""
    begin, end = sequencer.start, sequencer.until
    shared = min(end, after) - max(begin, window)
    if shared <= 0 or sequencer.array == 0:
        return 0
    return (sequencer.array * shared * ONE + end - begin - 1) // (end - begin)


@kernel
def _limit(chip, sequencer, instruction, occupied, t):
    """Return the cycles by which a PE instruction that starts at `t` is slowed, because PE was underused."""
    if chip.ramp == 0 or (instruction.array == 0 and sequencer.array == 0):
        return 0
    while sequencer.window + chip.ramp <= t:
        after = sequencer.window + chip.ramp
        used = sequencer.used + _used(sequencer, sequencer.window, after)
        sequencer.is_limited = 1 if used < chip.ramp * chip.ramp_share else 0
        sequencer.used = 0
        sequencer.window = after
        if after >= sequencer.until and after + chip.ramp <= t:
            sequencer.is_limited = 1
            sequencer.window = t
    sequencer.used += _used(sequencer, sequencer.window, t)
    if sequencer.is_limited != 0 and sequencer.used == 0:
        sequencer.window = t
    extra = (occupied * ONE + chip.ramp_share - 1) // chip.ramp_share - occupied
    if sequencer.is_limited == 0 or instruction.array == 0:
        extra = 0
    sequencer.limited += extra
    # Cycles lost to the limit count as used, otherwise PE could never leave it.
    sequencer.array = instruction.array * (occupied + extra) // occupied
    return extra


@kernel
def _start(machine, number, sequencer, instruction, t):
    """Start the next instruction, which nothing holds back any more."""
    chip, program = machine.chip, machine.program
    index = sequencer.pc
    if sequencer.cause != 0:
        _end_wait(machine, number, sequencer, t)
        sequencer.cause = 0
    occupied = (instruction.issue * sequencer.cost + 65535) >> 16
    extra = _limit(chip, sequencer, instruction, occupied, t)
    occupied += extra
    sequencer.state = BUSY
    sequencer.current = index
    sequencer.start = t
    sequencer.until = t + occupied
    sequencer.busy += occupied
    sequencer.issued += 1
    done = t + ((instruction.latency * sequencer.cost + 65535) >> 16) + extra
    if done <= sequencer.done:
        done = sequencer.done + 1
    sequencer.done = done
    newest = sequencer.flight[(sequencer.head + sequencer.count) % FLIGHTS]
    newest.instruction = index
    newest.end = done
    sequencer.count += 1
    ports = instruction.ports
    if ports != 0:
        base = chip.ports + (number // 5) * PORTS
        for port in range(PORTS):
            if (ports >> port) & 1:
                chip[base + port] = sequencer.until
    _open_allocations(machine, instruction, t)
    node_number = instruction.node
    if node_number >= 0 and NODE(chip, chip.nodes, node_number).started == 0:
        NODE(chip, chip.nodes, node_number).started = 1
        if is_watched(machine):
            watch_node(machine, STOP_NODE_START, node_number, t)
    if is_watched(machine):
        watch_instruction(machine, index, t)
        watch_queue(machine, chip.queues_count + number, sequencer.count - 1, sequencer.count, t)
        if instruction.transfer < 0:
            watch_accesses(machine, instruction.access, instruction.accesses, 0, t)
    if is_recording(machine):
        first = program.waits + instruction.wait * WAIT.num_words
        for n in range(instruction.waits):
            producer = WAIT(program, first, n).producer
            if producer >= 0:
                record_flow(machine, t, producer, index)
    if instruction.transfer >= 0:
        enqueue(machine, index, instruction.transfer, (sequencer.until, done), t)
    sequencer.pc = _control(chip, sequencer, instruction, index)


@kernel
def issue(machine, number, sequencer, t):
    """Issue the next instruction if nothing holds it back, else wait."""
    program = machine.program
    if sequencer.pc >= sequencer.end or instruction_at(program, sequencer.pc).opcode == OP_END:
        sequencer.state = ENDED
        return
    instruction = instruction_at(program, sequencer.pc)
    cause = _blocking_cause(machine, number, sequencer, instruction, t)
    if cause == 0:
        _start(machine, number, sequencer, instruction, t)
        return
    if sequencer.state != WAITING or cause != sequencer.cause:
        if sequencer.state == WAITING:
            _end_wait(machine, number, sequencer, t)
        sequencer.since = t
        sequencer.cause = cause
        sequencer.state = WAITING


@kernel
def send_read_updates(machine, sequencer, t):
    """Make the updates that an instruction starting at `t` makes when it has read its operands."""
    if sequencer.state == BUSY and sequencer.start == t:
        instruction = instruction_at(machine.program, sequencer.current)
        if instruction.updates > 0:
            send_updates(machine, instruction, sequencer.current, WHEN_READ, t)


@inlined
def next_time(sequencer):
    """Return when the sequencer has something to do without an outside event, FAR if never."""
    time = FAR
    if sequencer.state == BUSY:
        time = sequencer.until
    elif sequencer.state == WAITING:
        time = sequencer.retry
    if sequencer.count > 0:
        done = sequencer.flight[sequencer.head].end
        if done < time:
            time = done
    return time
