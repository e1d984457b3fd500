"""Sequencers: in-order issue behind semaphores, exclusive ports and DMA queues; pipelined completion."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    FLOW,
    INTERVAL,
    STOP_INSTRUCTION,
    STOP_NODE_START,
    emit,
    is_recording,
    is_watched,
    watch_queue,
    watch_subject,
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
    H_AGAIN,
    H_COMPLETED,
    H_MACS,
    H_NODES,
    H_PORTS,
    H_QUEUES_COUNT,
    H_SEMAPHORES,
    H_SEQUENCERS,
    H_SEQUENCERS_COUNT,
    H_TILES,
    I_ACCESS,
    I_ACCESSES,
    I_CMD,
    I_FLAGS,
    I_ISSUE,
    I_KIND,
    I_LATENCY,
    I_MACS,
    I_NODE,
    I_OP0,
    I_OP1,
    I_OPCODE,
    I_OPENED,
    I_OPENS,
    I_PORTS,
    I_TARGET,
    I_TRANSFER,
    I_UPDATE,
    I_UPDATES,
    I_VALUE,
    I_WAIT,
    I_WAITS,
    KIND_WAIT_BARRIER,
    KIND_WAIT_PORT,
    KIND_WAIT_QUEUE,
    KIND_WAIT_SEMAPHORE,
    N_STARTED,
    NODE_WORDS,
    OP_BRANCH,
    OP_CORE_BARRIER,
    OP_END,
    OP_REG_ALU,
    OP_REG_MOVE,
    P_OPENED,
    P_UPDATES,
    P_WAITS,
    PORTS,
    Q_BARRIER,
    Q_BUSY,
    Q_CAUSE,
    Q_COUNT,
    Q_CURRENT,
    Q_DONE,
    Q_END,
    Q_FIRST,
    Q_FLIGHT,
    Q_HEAD,
    Q_ISSUED,
    Q_PC,
    Q_REGISTERS,
    Q_RETRY,
    Q_SINCE,
    Q_START,
    Q_STATE,
    Q_UNTIL,
    Q_WAITED,
    S_VALUE,
    SEMAPHORE_WORDS,
    SEQUENCER_WORDS,
    UPDATE_KIND,
    UPDATE_SEMAPHORE,
    UPDATE_VALUE,
    UPDATE_WHEN,
    UPDATE_WORDS,
    WAIT_CONDITION,
    WAIT_PRODUCER,
    WAIT_SEMAPHORE,
    WAIT_VALUE,
    WAIT_WORDS,
    WAITING,
    WHEN_COMPLETE,
    WHEN_READ,
)
from npuviz.targets.neuroncore.kernels.updates import (
    close_allocations,
    fault,
    node_progress,
    note_completion,
    update,
    watch_accesses,
    word_of,
)


@inlined
def compare(value, condition, bound):
    """Condition of isa.Condition."""
    if condition == 0:
        return value >= bound
    if condition == 1:
        return value > bound
    if condition == 2:
        return value <= bound
    if condition == 3:
        return value < bound
    if condition == 4:
        return value == bound
    if condition == 5:
        return value != bound
    return True


@kernel
def calculate(operator, a, b):
    """Integer ALU of the sequencer (numbers of isa.Alu); others give the second operand."""
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
def send_updates(s, p, x, ev, i, instruction, when, t):
    """The updates that the instruction makes at this moment of its life."""
    first = p[P_UPDATES] + p[i + I_UPDATE] * UPDATE_WORDS
    for n in range(p[i + I_UPDATES]):
        u = first + n * UPDATE_WORDS
        if p[u + UPDATE_WHEN] == when:
            update(
                s, p, x, ev, p[u + UPDATE_KIND], p[u + UPDATE_SEMAPHORE], p[u + UPDATE_VALUE], instruction, t
            )


@kernel
def complete_due(s, p, x, ev, number, k, t):
    """Complete the instruction that ends at `t`, and free the engine whose occupation ends."""
    while s[k + Q_COUNT] > 0:
        head = k + Q_FLIGHT + 2 * s[k + Q_HEAD]
        if s[head + 1] > t:
            break
        instruction = s[head]
        s[k + Q_HEAD] = (s[k + Q_HEAD] + 1) % FLIGHTS
        s[k + Q_COUNT] -= 1
        i = word_of(p, instruction)
        note_completion(s, instruction, t)
        s[H_COMPLETED] += 1
        s[H_MACS] += p[i + I_MACS]
        send_updates(s, p, x, ev, i, instruction, WHEN_COMPLETE, t)
        if p[i + I_TRANSFER] < 0:
            close_allocations(s, p, x, ev, i, t)
            if is_watched(x):
                watch_accesses(p, x, p[i + I_ACCESS], p[i + I_ACCESSES], 1, t)
        node_progress(s, p, x, i, t)
        if is_watched(x):
            before = s[k + Q_COUNT] + 1
            watch_queue(x, s[H_QUEUES_COUNT] + number, before, before - 1, t)
    if s[k + Q_STATE] == BUSY and s[k + Q_UNTIL] <= t:
        if is_recording(x):
            i = word_of(p, s[k + Q_CURRENT])
            emit(x, ev, INTERVAL, number, p[i + I_KIND], s[k + Q_START], t, s[k + Q_CURRENT])
        s[k + Q_STATE] = FREE
        s[k + Q_CURRENT] = -1


@kernel
def _blocking_cause(s, p, x, ev, number, k, i, t):
    """KIND_ of what holds the next instruction back, 0 if nothing does; sets Q_RETRY."""
    s[k + Q_RETRY] = FAR
    first = p[P_WAITS] + p[i + I_WAIT] * WAIT_WORDS
    for n in range(p[i + I_WAITS]):
        w = first + n * WAIT_WORDS
        value = s[s[H_SEMAPHORES] + p[w + WAIT_SEMAPHORE] * SEMAPHORE_WORDS + S_VALUE]
        if not compare(value, p[w + WAIT_CONDITION], p[w + WAIT_VALUE]):
            return KIND_WAIT_SEMAPHORE
    if s[k + Q_COUNT] == FLIGHTS:
        return KIND_WAIT_PORT  # a completion comes before anything else of this sequencer
    ports = p[i + I_PORTS]
    if ports != 0:
        base = s[H_PORTS] + (number // 5) * PORTS
        latest = t
        for port in range(PORTS):
            if (ports >> port) & 1 and s[base + port] > latest:
                latest = s[base + port]
        if latest > t:
            s[k + Q_RETRY] = latest
            return KIND_WAIT_PORT
    if p[i + I_TRANSFER] >= 0 and not has_room(s, p, p[i + I_TRANSFER]):
        return KIND_WAIT_QUEUE
    if p[i + I_OPCODE] == OP_CORE_BARRIER:
        if s[k + Q_CAUSE] != KIND_WAIT_BARRIER:
            s[k + Q_BARRIER] += 1
            s[H_AGAIN] = t + 1
            s[k + Q_CAUSE] = KIND_WAIT_BARRIER
            s[k + Q_SINCE] = t
        for other in range(number % 5, s[H_SEQUENCERS_COUNT] - 1, 5):
            if s[s[H_SEQUENCERS] + other * SEQUENCER_WORDS + Q_BARRIER] < s[k + Q_BARRIER]:
                return KIND_WAIT_BARRIER
    return 0


@kernel
def _end_wait(s, x, ev, number, k, t):
    if s[k + Q_CAUSE] != 0 and s[k + Q_SINCE] < t:
        s[k + Q_WAITED] += t - s[k + Q_SINCE]
        if is_recording(x):
            emit(x, ev, INTERVAL, number, s[k + Q_CAUSE], s[k + Q_SINCE], t, s[k + Q_PC])
    s[k + Q_SINCE] = t


@kernel
def _control(s, p, k, i, instruction):
    """Registers and branches take effect when they are issued; returns the next instruction."""
    code = p[i + I_OPCODE]
    registers = k + Q_REGISTERS
    operand = p[i + I_VALUE]
    if p[i + I_FLAGS] & FLAG_REGISTER:
        operand = s[registers + (operand & 63)]
    if code == OP_REG_MOVE:
        s[registers + (p[i + I_OP0] & 63)] = operand
    elif code == OP_REG_ALU:
        a = s[registers + (p[i + I_OP1] & 63)]
        value = calculate(p[i + I_CMD], a, operand)
        # Registers have 32 bits, kept with their sign.
        s[registers + (p[i + I_OP0] & 63)] = ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
    elif code == OP_BRANCH and compare(s[registers + (p[i + I_OP0] & 63)], p[i + I_CMD], operand):
        target = p[i + I_TARGET]
        if target < s[k + Q_FIRST] or target > s[k + Q_END]:
            fault(s, FAULT_BRANCH, instruction, target)
            return s[k + Q_END]
        return target
    return instruction + 1


@kernel
def _open_allocations(s, p, i, t):
    first = p[P_OPENED] + p[i + I_OPENED]
    for n in range(p[i + I_OPENS]):
        s[s[H_TILES] + p[first + n]] = t


@kernel
def _start(s, p, x, ev, number, k, i, t):
    """Issue the instruction: nothing holds it back any more."""
    instruction = s[k + Q_PC]
    if s[k + Q_CAUSE] != 0:
        _end_wait(s, x, ev, number, k, t)
        s[k + Q_CAUSE] = 0
    s[k + Q_STATE] = BUSY
    s[k + Q_CURRENT] = instruction
    s[k + Q_START] = t
    s[k + Q_UNTIL] = t + p[i + I_ISSUE]
    s[k + Q_BUSY] += p[i + I_ISSUE]
    s[k + Q_ISSUED] += 1
    done = t + p[i + I_LATENCY]
    if done <= s[k + Q_DONE]:
        done = s[k + Q_DONE] + 1
    s[k + Q_DONE] = done
    tail = k + Q_FLIGHT + 2 * ((s[k + Q_HEAD] + s[k + Q_COUNT]) % FLIGHTS)
    s[tail] = instruction
    s[tail + 1] = done
    s[k + Q_COUNT] += 1
    ports = p[i + I_PORTS]
    if ports != 0:
        base = s[H_PORTS] + (number // 5) * PORTS
        for port in range(PORTS):
            if (ports >> port) & 1:
                s[base + port] = s[k + Q_UNTIL]
    _open_allocations(s, p, i, t)
    node = p[i + I_NODE]
    if node >= 0 and s[s[H_NODES] + node * NODE_WORDS + N_STARTED] == 0:
        s[s[H_NODES] + node * NODE_WORDS + N_STARTED] = 1
        if is_watched(x):
            watch_subject(x, STOP_NODE_START, node, 0, 1, t)
    if is_watched(x):
        watch_subject(x, STOP_INSTRUCTION, 0, instruction, instruction + 1, t)
        watch_queue(x, s[H_QUEUES_COUNT] + number, s[k + Q_COUNT] - 1, s[k + Q_COUNT], t)
        if p[i + I_TRANSFER] < 0:
            watch_accesses(p, x, p[i + I_ACCESS], p[i + I_ACCESSES], 0, t)
    if is_recording(x):
        first = p[P_WAITS] + p[i + I_WAIT] * WAIT_WORDS
        for n in range(p[i + I_WAITS]):
            producer = p[first + n * WAIT_WORDS + WAIT_PRODUCER]
            if producer >= 0:
                emit(x, ev, FLOW, 0, 0, t, producer, instruction)
    if p[i + I_TRANSFER] >= 0:
        enqueue(s, p, x, ev, instruction, p[i + I_TRANSFER], done, t)
    s[k + Q_PC] = _control(s, p, k, i, instruction)


@kernel
def issue(s, p, x, ev, number, k, t):
    """Issue the next instruction if nothing holds it back, else wait."""
    if s[k + Q_PC] >= s[k + Q_END] or p[word_of(p, s[k + Q_PC]) + I_OPCODE] == OP_END:
        s[k + Q_STATE] = ENDED
        return
    i = word_of(p, s[k + Q_PC])
    cause = _blocking_cause(s, p, x, ev, number, k, i, t)
    if cause == 0:
        _start(s, p, x, ev, number, k, i, t)
        return
    if s[k + Q_STATE] != WAITING or cause != s[k + Q_CAUSE]:
        if s[k + Q_STATE] == WAITING:
            _end_wait(s, x, ev, number, k, t)
        s[k + Q_SINCE] = t
        s[k + Q_CAUSE] = cause
        s[k + Q_STATE] = WAITING


@kernel
def send_read_updates(s, p, x, ev, k, t):
    """The updates of an instruction that starts at `t`."""
    if s[k + Q_STATE] == BUSY and s[k + Q_START] == t:
        i = word_of(p, s[k + Q_CURRENT])
        if p[i + I_UPDATES] > 0:
            send_updates(s, p, x, ev, i, s[k + Q_CURRENT], WHEN_READ, t)


@inlined
def next_time(s, k):
    """When the sequencer has something to do by itself."""
    time = FAR
    if s[k + Q_STATE] == BUSY:
        time = s[k + Q_UNTIL]
    elif s[k + Q_STATE] == WAITING:
        time = s[k + Q_RETRY]
    if s[k + Q_COUNT] > 0:
        done = s[k + Q_FLIGHT + 2 * s[k + Q_HEAD] + 1]
        if done < time:
            time = done
    return time
