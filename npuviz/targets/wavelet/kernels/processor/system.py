"""Run OP_SYS: timers, random numbers, configuration of router and queues, prints, the host's command
stream."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import STOP_MEMORY_WRITE, is_watched
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside
from npuviz.targets.wavelet.kernels.faults import FAULT_ADDRESS, FAULT_FILTER, FAULT_MASK, FAULT_OPERAND
from npuviz.targets.wavelet.kernels.log_numbers import LOG_PRINT, LOG_REBOUND, LOG_TRACE
from npuviz.targets.wavelet.kernels.memory import store_16
from npuviz.targets.wavelet.kernels.processor.configuration import (
    NUM_COLORS,
    channel_of,
    keep_half,
    read_register,
    write_register,
)
from npuviz.targets.wavelet.kernels.program_records import CODE, LAYOUT, NODE
from npuviz.targets.wavelet.kernels.records import CHANNEL, FIFO, FLUSH_DONE, FRONTIER, QUEUE, ZERO
from npuviz.targets.wavelet.kernels.router.ring import drop_queue_head, head_entry, push_queue
from npuviz.targets.wavelet.kernels.taps import WRITE_MEMORY, is_tapped, touch
from npuviz.targets.wavelet.kernels.time.events import (
    end_part,
    fault,
    hazard,
    log,
    open_router,
    wake_processor,
)
from npuviz.targets.wavelet.kernels.time.stops import mark_of, watch_bytes
from npuviz.targets.wavelet.kernels.unset import note_written

PRNG_MASK = (1 << 23) - 1


@kernel
def random_16(pe):
    """Return the next u16 of the active generator: x^23 + x^18 + 1, 128 steps per number. Ref: BLT.

    Assumed: the register shifts right and its low 16 bits come out; among the usual forms this is one with
    which the published estimate of pi from 200 points is within its tolerance.
    """
    state = pe.prng_state[pe.prng]
    for _ in range(128):
        state = (state >> 1) | (((state ^ (state >> 5)) & 1) << 22)
    pe.prng_state[pe.prng] = state
    return state & 0xFFFF


@kernel
def _write_48(machine, pe, address, value, t):
    wafer = machine.wafer
    if is_watched(machine):
        watch_bytes(machine, pe.node, STOP_MEMORY_WRITE, (address, address + 6, mark_of(pe.line)), t)
        if is_tapped(machine):
            touch(machine, pe.node, WRITE_MEMORY, address, 6)
    if not is_inside(pe, address, 6):
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if machine.program.unset:
        note_written(machine, pe, address, address + 6)
    for i in range(3):
        store_16(wafer, pe.memory, address + 2 * i, (value >> (16 * i)) & 0xFFFF)


@kernel
def _router_system(machine, pe, number, arguments, t):
    first, second, third = arguments
    place = channel_of(machine, pe, first)
    if place == 0:
        return
    channel = CHANNEL(pe, place)
    if number == isa.S_ROUTE_SET:
        before = channel.positions[0]
        channel.positions[0] = (second & 0x1F) | ((third & 0x1F) << 8) | (1 << 16)
        channel.routed = 1
        for k in range(1, 4):
            keep_half(channel, k, before)
    elif number == isa.S_ROUTE_TOGGLE or number == isa.S_ROUTE_ADD or number == isa.S_ROUTE_REMOVE:
        before = channel.positions[0]
        ports = (second & 0x1F) | ((third & 0x1F) << 8)
        kept = before & ~ports if number != isa.S_ROUTE_TOGGLE else before
        channel.positions[0] = kept if number == isa.S_ROUTE_REMOVE else kept ^ ports
        for k in range(1, 4):
            keep_half(channel, k, before)
    elif number == isa.S_SWITCH_SET:
        if second >= 1 and second <= 3:
            # A half of the route that is not given is taken from the position before.
            last = second - 1
            while last > 0 and channel.positions[last] >> 16 == 0:
                last -= 1
            base = channel.positions[last]
            receive = third & 0x1F if third & 0x1F else base & 0x1F
            send = (third >> 8) & 0x1F if (third >> 8) & 0x1F else (base >> 8) & 0x1F
            channel.positions[second] = receive | (send << 8) | (third & (1 << 16))
    elif number == isa.S_SWITCH_POSITION:
        if second >= 0 and second <= 3:
            channel.position = second
    elif number == isa.S_SWITCH_MODE:
        if third & 1:
            channel.is_ring = second & 1
        if third & 6:
            channel.pop = (second >> 1) & 3
    elif number == isa.S_SWITCH_CLEAR:
        for k in range(1, 4):
            channel.positions[k] = 0
    elif number == isa.S_FILTER_SET:
        rule = channel.filters[0]
        if second == 0:
            rule.counter = third
        elif second == 1:
            rule.limit1 = third
        else:
            rule.max_counter = third
    elif number == isa.S_TEARDOWN_EXIT:
        channel.closed = 0
    # The channel may send to other routers now.
    pe.channels |= FRONTIER
    open_router(machine.wafer, pe, t + 1)


@kernel
def queue_level(program, pe, queue, is_output):
    """Return the words in a queue; words of an output queue count until they have left the router."""
    if is_output:
        color = pe.out[queue & 7]
        place = LAYOUT(program, pe.layout).channel[color] if color >= 0 else 0
        return CHANNEL(pe, place).ports[0].count if place else 0
    place = LAYOUT(program, pe.layout).queue[queue & 31]
    return QUEUE(pe, place).count if place else 0


@kernel
def _move_words(pe, queue, target, old, new):
    """Move waiting words of a color from its previous queue to the one that it is bound to now."""
    while queue.count > 0 and target.count < target.limit:
        head = head_entry(queue)
        push_queue(pe, target, head.payload, head.identity, head.ready)
        drop_queue_head(queue)
        pe.filled |= 1 << new
    if queue.count == 0:
        pe.filled &= ~(1 << old)


@kernel
def _queue_system(machine, pe, number, arguments, t):
    queue, kind, third = arguments
    wafer, program = machine.wafer, machine.program
    is_output = kind == isa.ID_OUTPUT_QUEUE
    if number == isa.S_QUEUE_FLUSH:
        pe.flush |= 1 << ((queue & 7) + (8 if is_output else 0))
        wake_processor(wafer, pe, t + 1)
        return 0
    if number == isa.S_QUEUE_STATUS:
        count = queue_level(program, pe, queue, is_output)
        place = LAYOUT(program, pe.layout).queue[queue & 7]
        length = QUEUE(pe, place).length if place else 0
        if is_output:
            color = pe.out[queue & 7]
            place = channel_of(machine, pe, color) if color >= 0 else 0
            length = CHANNEL(pe, place).limit_ramp if place else 1
        is_full = 1 if count >= length and length > 0 else 0
        return (count & 0xFF) | (is_full << 8) | ((1 if count == 0 else 0) << 9)
    if number == isa.S_QUEUE_BIND:
        place = channel_of(machine, pe, third)
        if place == 0:
            return 0
        channel = CHANNEL(pe, place)
        if queue_level(program, pe, queue & 7, is_output) > 0:
            old = pe.out[queue & 7]
            if not is_output:
                old = QUEUE(pe, LAYOUT(program, pe.layout).queue[queue & 7]).color
            if old != third:
                value = third | ((queue & 7) << 8) | ((1 if is_output else 0) << 16)
                hazard(wafer, pe.node, LOG_REBOUND, value, pe.line)
        # A waiting thread may have to wait for another queue now.
        pe.stalled = 0
        pe.tested |= pe.threads
        if is_output:
            pe.out[queue & 7] = third
        else:
            place = LAYOUT(program, pe.layout).queue[queue & 7]
            if place:
                old = QUEUE(pe, place).color
                before = channel_of(machine, pe, old) if old >= 0 else 0
                if before:
                    CHANNEL(pe, before).queue = -1
                waiting = channel.queue
                if waiting >= 0 and waiting != queue & 7:
                    source = QUEUE(pe, LAYOUT(program, pe.layout).queue[waiting])
                    _move_words(pe, source, QUEUE(pe, place), waiting, queue & 7)
                QUEUE(pe, place).color = third
                channel.queue = queue & 7
                wake_processor(wafer, pe, t + 1)
        open_router(wafer, pe, t + 1)
    return 0


@kernel
def _timer_system(machine, pe, number, first, t):
    if number == isa.S_TSC_ENABLE:
        if pe.tsc_stopped >= 0:
            pe.tsc = t - pe.tsc_stopped
            pe.tsc_stopped = -1
    elif number == isa.S_TSC_DISABLE:
        if pe.tsc_stopped < 0:
            pe.tsc_stopped = t - pe.tsc
    elif number == isa.S_TSC_RESET:
        pe.tsc = t
        if pe.tsc_stopped >= 0:
            pe.tsc_stopped = 0
    elif number == isa.S_TSC_READ:
        stopped = pe.tsc_stopped
        _write_48(machine, pe, first, stopped if stopped >= 0 else t - pe.tsc, t)
    else:
        _write_48(machine, pe, first, pe.busy, t)


@kernel
def _color_of_filter(machine, pe, identity):
    """Return the color of a filter by its id, the number of filters of lower colors; a fault if there is
    none."""
    count = 0
    for color in range(NUM_COLORS):
        place = LAYOUT(machine.program, pe.layout).channel[color]
        if place and CHANNEL(pe, place).filter_kind:
            if count == identity:
                return color
            count += 1
    fault(machine.wafer, pe.node, FAULT_FILTER, identity)
    return 0


@kernel
def _filter_field(machine, pe, color, field):
    """Return a field that S_FILTER_SET sets; 0 if the color has no channel, which is a fault."""
    place = channel_of(machine, pe, color)
    if place == 0:
        return 0
    rule = CHANNEL(pe, place).filters[0]
    if field == 0:
        return rule.counter
    return rule.limit1 if field == 1 else rule.max_counter


@kernel
def _queue_states(machine, pe, kind):
    states = 0
    for queue in range(8):
        status = _queue_system(machine, pe, isa.S_QUEUE_STATUS, (queue, kind, ZERO), ZERO)
        states |= ((status >> 9) & 1) << queue | ((status >> 8) & 1) << (8 + queue)
    return states


@kernel
def _unblock_commands(wafer, pe, t):
    command = pe.launch_command
    if command < 0:
        return
    pe.launch_command = -1
    pe.released = t + 1
    end_part(wafer, command, t)


@kernel
def system_call(machine, pe, number, arguments, t):
    """Run a system function of three register words; those that are absent are 0. Returns the result."""
    wafer, program = machine.wafer, machine.program
    first, second, third = arguments
    node = pe.node
    place = NODE(program, program.nodes, node)
    if number <= isa.S_PERF_READ:
        _timer_system(machine, pe, number, first, t)
    elif number == isa.S_RANDOM16:
        return random_16(pe)
    elif number == isa.S_UNBLOCK_COMMANDS:
        _unblock_commands(wafer, pe, t)
    elif number == isa.S_X:
        return place.x
    elif number == isa.S_Y:
        return place.y
    elif number == isa.S_FABRIC_X:
        return place.column
    elif number == isa.S_FABRIC_Y:
        return place.row
    elif number == isa.S_PRINT:
        log(wafer, node, LOG_PRINT, first & 0xFF, pe.line)
    elif number == isa.S_TRACE:
        log(wafer, node, LOG_TRACE, (first & 0xFFFF_FFFF) | (second << 32), pe.line)
    elif number == isa.S_TEARDOWN_PENDING:
        task = pe.task
        mask = pe.teardown
        return mask | (1 << (task & 0xFFFF)) if task >> 16 == isa.ID_COLOR else mask
    elif (
        number == isa.S_TEARDOWN_EXIT
        or (number >= isa.S_ROUTE_SET and number <= isa.S_FILTER_SET)
        or number == isa.S_ROUTE_ADD
        or number == isa.S_ROUTE_REMOVE
    ):
        _router_system(machine, pe, number, arguments, t)
    elif number == isa.S_FILTER_COLOR:
        return _color_of_filter(machine, pe, first)
    elif number == isa.S_FILTER_GET:
        return _filter_field(machine, pe, first, second)
    elif number == isa.S_QUEUE_STATES:
        return _queue_states(machine, pe, first)
    elif number == isa.S_FLUSHED:
        return (pe.flush >> (FLUSH_DONE + (8 if first == isa.ID_OUTPUT_QUEUE else 0))) & 0xFF
    elif number == isa.S_QUEUE_FLUSH_EXIT:
        pe.flush &= ~(1 << (FLUSH_DONE + (first & 7) + (8 if second == isa.ID_OUTPUT_QUEUE else 0)))
    elif number >= isa.S_QUEUE_FLUSH and number <= isa.S_QUEUE_BIND:
        return _queue_system(machine, pe, number, arguments, t)
    elif number == isa.S_CONFIG_GET:
        return read_register(machine, pe, first, t)
    elif number == isa.S_CONFIG_SET:
        write_register(machine, pe, first, second, t)
    elif number == isa.S_PRIORITY_TASK:
        if first >= 0 and first < 63:
            pe.high = pe.high | (1 << first) if second else pe.high & ~(1 << first)
    elif number == isa.S_PRIORITY_MAIN:
        pe.level = (first & 3) + 1
    elif number == isa.S_FIFO_READ_LENGTH or number == isa.S_FIFO_WRITE_LENGTH:
        index = (first >> isa.SHIFT_BASE) & isa.MASK_BASE
        if pe.code < 0 or index >= CODE(program, pe.code).num_fifos:
            fault(wafer, node, FAULT_OPERAND, index)
            return 0
        fifo = FIFO(pe, LAYOUT(program, pe.layout).fifos, index)
        if number == isa.S_FIFO_READ_LENGTH:
            fifo.read_length = second
        else:
            fifo.write_length = second
    elif number == isa.S_PRNG:
        pe.prng = first & 3
        if third >= 0:
            pe.prng_state[first & 3] = second & PRNG_MASK
    elif number == isa.S_CONTROL_MASK:
        if first & 0x3F:
            fault(wafer, node, FAULT_MASK, first & 0x3F)
    elif number == isa.S_STOP:
        pe.halted = 1
    return 0
