"""OP_SYS: timers, random numbers, configuration of router and queues, prints, the host's command stream."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside
from npuviz.targets.wavelet.kernels.memory import store_16
from npuviz.targets.wavelet.kernels.program_records import (
    L_CHANNEL,
    L_FIFOS,
    L_QUEUE,
    NODE_COLUMN,
    NODE_ROW,
    NODE_WORDS,
    NODE_X,
    NODE_Y,
    P_NODES,
)
from npuviz.targets.wavelet.kernels.records import (
    B_BUSY,
    B_CHANNELS,
    B_CLASS,
    B_FLUSH,
    B_HALTED,
    B_HIGH,
    B_LAUNCH_COMMAND,
    B_LEVEL,
    B_LINE,
    B_MAIN_MASK,
    B_MEMORY,
    B_NODE,
    B_OUT,
    B_PRNG,
    B_PRNG_STATE,
    B_STALLED,
    B_TASK,
    B_TEARDOWN,
    B_TESTED,
    B_THREADS,
    B_TSC,
    B_TSC_STOPPED,
    C_CLOSED,
    C_FILTER_FIELDS,
    C_LIMIT_RAMP,
    C_POP,
    C_PORTS,
    C_POSITION,
    C_POSITIONS,
    C_QUEUE,
    C_RING,
    C_ROUTED,
    F_READ_LENGTH,
    F_WRITE_LENGTH,
    FAULT_ADDRESS,
    FAULT_COLOR,
    FIFO_WORDS,
    FRONTIER,
    LOG_PRINT,
    LOG_REBOUND,
    LOG_TRACE,
    Q_COLOR,
    Q_COUNT,
    Q_LENGTH,
    Q_LIMIT,
    R_COUNT,
)
from npuviz.targets.wavelet.kernels.router.ring import drop_queue_head, head_entry, push_queue
from npuviz.targets.wavelet.kernels.time.events import (
    end_part,
    fault,
    hazard,
    log,
    open_router,
    wake_processor,
)

PRNG_MASK = (1 << 23) - 1


@kernel
def random_16(s, b):
    """The next u16 of the active generator: x^23 + x^18 + 1, 128 steps a use. Ref: BLT.

    Assumed: the register shifts right and its low 16 bits come out; of the usual forms it is one with
    which the published estimate of pi from 200 points is within its tolerance.
    """
    at = b + B_PRNG_STATE + s[b + B_PRNG]
    state = s[at]
    for _ in range(128):
        state = (state >> 1) | (((state ^ (state >> 5)) & 1) << 22)
    s[at] = state
    return state & 0xFFFF


@kernel
def _write_48(s, b, address, value):
    if not is_inside(s, b, address, 6):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    for i in range(3):
        store_16(s, s[b + B_MEMORY], address + 2 * i, (value >> (16 * i)) & 0xFFFF)


@kernel
def channel_of(s, p, b, color):
    """Word of a color's channel; a fault if the router has no room for the color."""
    place = p[s[b + B_CLASS] + L_CHANNEL + color] if color >= 0 and color < 24 else 0
    if place == 0:
        fault(s, s[b + B_NODE], FAULT_COLOR, color)
        return 0
    return b + place


@kernel
def _router_system(s, p, b, number, first, second, third, t):
    ch = channel_of(s, p, b, first)
    if ch == 0:
        return
    if number == isa.S_ROUTE_SET:
        before = s[ch + C_POSITIONS]
        s[ch + C_POSITIONS] = (second & 0x1F) | ((third & 0x1F) << 8) | (1 << 16)
        s[ch + C_ROUTED] = 1
        for k in range(1, 4):
            _keep_half(s, ch, k, before)
    elif number == isa.S_ROUTE_TOGGLE:
        s[ch + C_POSITIONS] ^= (second & 0x1F) | ((third & 0x1F) << 8)
    elif number == isa.S_SWITCH_SET:
        if second >= 1 and second <= 3:
            # The half that is not given is that of the position before.
            last = second - 1
            while last > 0 and s[ch + C_POSITIONS + last] >> 16 == 0:
                last -= 1
            base = s[ch + C_POSITIONS + last]
            receive = third & 0x1F if third & 0x1F else base & 0x1F
            send = (third >> 8) & 0x1F if (third >> 8) & 0x1F else (base >> 8) & 0x1F
            s[ch + C_POSITIONS + second] = receive | (send << 8) | (third & (1 << 16))
    elif number == isa.S_SWITCH_POSITION:
        if second >= 0 and second <= 3:
            s[ch + C_POSITION] = second
    elif number == isa.S_SWITCH_MODE:
        if third & 1:
            s[ch + C_RING] = second & 1
        if third & 6:
            s[ch + C_POP] = (second >> 1) & 3
    elif number == isa.S_SWITCH_CLEAR:
        for k in range(1, 4):
            s[ch + C_POSITIONS + k] = 0
    elif number == isa.S_FILTER_SET:
        place = 2 if second == 0 else (3 if second == 1 else 5)
        s[ch + C_FILTER_FIELDS + place] = third
    elif number == isa.S_TEARDOWN_EXIT:
        s[ch + C_CLOSED] = 0
    # It may send to others now.
    s[b + B_CHANNELS] |= FRONTIER
    open_router(s, b, t + 1)


@kernel
def _keep_half(s, ch, position, before):
    """A switch position that has a half from position 0 takes it from the new one."""
    word = s[ch + C_POSITIONS + position]
    if word >> 16:
        now = s[ch + C_POSITIONS]
        receive = now & 0x1F if (word & 0x1F) == (before & 0x1F) else word & 0x1F
        send = now & 0x1F00 if (word & 0x1F00) == (before & 0x1F00) else word & 0x1F00
        s[ch + C_POSITIONS + position] = receive | send | (1 << 16)


@kernel
def queue_level(s, p, b, queue, is_output):
    """Words in a queue; an output queue counts until they have left the router."""
    if is_output:
        color = s[b + B_OUT + (queue & 7)]
        place = p[s[b + B_CLASS] + L_CHANNEL + color] if color >= 0 else 0
        return s[b + place + C_PORTS + R_COUNT] if place else 0
    place = p[s[b + B_CLASS] + L_QUEUE + (queue & 31)]
    return s[b + place + Q_COUNT] if place else 0


@kernel
def _move_words(s, b, source, target, old, new):
    """Words of a color that wait in the queue it had so far go to the one it is bound to now."""
    while s[source + Q_COUNT] > 0 and s[target + Q_COUNT] < s[target + Q_LIMIT]:
        at = head_entry(s, source)
        push_queue(s, b, target, s[at], s[at + 1], s[at + 2])
        drop_queue_head(s, source)
        s[b + B_MAIN_MASK] |= 1 << new
    if s[source + Q_COUNT] == 0:
        s[b + B_MAIN_MASK] &= ~(1 << old)


@kernel
def _queue_system(s, p, b, number, queue, kind, third, t):
    is_output = kind == isa.ID_OUTPUT_QUEUE
    if number == isa.S_QUEUE_FLUSH:
        s[b + B_FLUSH] |= 1 << ((queue & 7) + (8 if is_output else 0))
        wake_processor(s, b, t + 1)
        return 0
    if number == isa.S_QUEUE_STATUS:
        count = queue_level(s, p, b, queue, is_output)
        place = p[s[b + B_CLASS] + L_QUEUE + (queue & 7)]
        length = s[b + place + Q_LENGTH] if place else 0
        if is_output:
            color = s[b + B_OUT + (queue & 7)]
            length = s[channel_of(s, p, b, color) + C_LIMIT_RAMP] if color >= 0 else 1
        is_full = 1 if count >= length and length > 0 else 0
        return (count & 0xFF) | (is_full << 8) | ((1 if count == 0 else 0) << 9)
    if number == isa.S_QUEUE_BIND:
        ch = channel_of(s, p, b, third)
        if ch == 0:
            return 0
        if queue_level(s, p, b, queue & 7, is_output) > 0:
            old = s[b + B_OUT + (queue & 7)]
            if not is_output:
                old = s[b + p[s[b + B_CLASS] + L_QUEUE + (queue & 7)] + Q_COLOR]
            if old != third:
                value = third | ((queue & 7) << 8) | ((1 if is_output else 0) << 16)
                hazard(s, s[b + B_NODE], LOG_REBOUND, value, s[b + B_LINE])
        # What a thread waits for may be another queue now.
        s[b + B_STALLED] = 0
        s[b + B_TESTED] |= s[b + B_THREADS]
        if is_output:
            s[b + B_OUT + (queue & 7)] = third
        else:
            place = p[s[b + B_CLASS] + L_QUEUE + (queue & 7)]
            if place:
                old = s[b + place + Q_COLOR]
                if old >= 0:
                    s[channel_of(s, p, b, old) + C_QUEUE] = -1
                waiting = s[ch + C_QUEUE]
                if waiting >= 0 and waiting != queue & 7:
                    _move_words(
                        s, b, b + p[s[b + B_CLASS] + L_QUEUE + waiting], b + place, waiting, queue & 7
                    )
                s[b + place + Q_COLOR] = third
                s[ch + C_QUEUE] = queue & 7
                wake_processor(s, b, t + 1)
        open_router(s, b, t + 1)
    return 0


@kernel
def _timer_system(s, b, number, first, second, t):
    if number == isa.S_TSC_ENABLE:
        if s[b + B_TSC_STOPPED] >= 0:
            s[b + B_TSC] = t - s[b + B_TSC_STOPPED]
            s[b + B_TSC_STOPPED] = -1
    elif number == isa.S_TSC_DISABLE:
        if s[b + B_TSC_STOPPED] < 0:
            s[b + B_TSC_STOPPED] = t - s[b + B_TSC]
    elif number == isa.S_TSC_RESET:
        s[b + B_TSC] = t
        if s[b + B_TSC_STOPPED] >= 0:
            s[b + B_TSC_STOPPED] = 0
    elif number == isa.S_TSC_READ:
        stopped = s[b + B_TSC_STOPPED]
        _write_48(s, b, first, stopped if stopped >= 0 else t - s[b + B_TSC])
    else:
        _write_48(s, b, first, s[b + B_BUSY])


@kernel
def _unblock_commands(s, b, t):
    command = s[b + B_LAUNCH_COMMAND]
    if command < 0:
        return
    s[b + B_LAUNCH_COMMAND] = -1
    end_part(s, command, t)


@kernel
def system_call(s, p, b, number, first, second, third, t):
    """A system function of register words; -1 where an operand is absent is 0 here. Returns the result."""
    node = s[b + B_NODE]
    row = p[P_NODES] + node * NODE_WORDS
    if number <= isa.S_PERF_READ:
        _timer_system(s, b, number, first, second, t)
    elif number == isa.S_RANDOM16:
        return random_16(s, b)
    elif number == isa.S_UNBLOCK_COMMANDS:
        _unblock_commands(s, b, t)
    elif number == isa.S_X:
        return p[row + NODE_X]
    elif number == isa.S_Y:
        return p[row + NODE_Y]
    elif number == isa.S_FABRIC_X:
        return p[row + NODE_COLUMN]
    elif number == isa.S_FABRIC_Y:
        return p[row + NODE_ROW]
    elif number == isa.S_PRINT:
        log(s, node, LOG_PRINT, first & 0xFF, s[b + B_LINE])
    elif number == isa.S_TRACE:
        log(s, node, LOG_TRACE, (first & 0xFFFF_FFFF) | (second << 32), s[b + B_LINE])
    elif number == isa.S_TEARDOWN_PENDING:
        task = s[b + B_TASK]
        mask = s[b + B_TEARDOWN]
        return mask | (1 << (task & 0xFFFF)) if task >> 16 == isa.ID_COLOR else mask
    elif number == isa.S_TEARDOWN_EXIT or (number >= isa.S_ROUTE_SET and number <= isa.S_FILTER_SET):
        _router_system(s, p, b, number, first, second, third, t)
    elif number == isa.S_QUEUE_FLUSH_EXIT:
        return 0
    elif number >= isa.S_QUEUE_FLUSH and number <= isa.S_QUEUE_BIND:
        return _queue_system(s, p, b, number, first, second, third, t)
    elif number == isa.S_PRIORITY_TASK:
        if first >= 0 and first < 63:
            s[b + B_HIGH] = s[b + B_HIGH] | (1 << first) if second else s[b + B_HIGH] & ~(1 << first)
    elif number == isa.S_PRIORITY_MAIN:
        s[b + B_LEVEL] = (first & 3) + 1
    elif number == isa.S_FIFO_READ_LENGTH or number == isa.S_FIFO_WRITE_LENGTH:
        place = (first >> isa.SHIFT_BASE) & isa.MASK_BASE
        at = b + p[s[b + B_CLASS] + L_FIFOS] + place * FIFO_WORDS
        s[at + (F_READ_LENGTH if number == isa.S_FIFO_READ_LENGTH else F_WRITE_LENGTH)] = second
    elif number == isa.S_PRNG:
        s[b + B_PRNG] = first & 3
        if third >= 0:
            s[b + B_PRNG_STATE + (first & 3)] = second & PRNG_MASK
    elif number == isa.S_STOP:
        s[b + B_HALTED] = 1
    return 0
