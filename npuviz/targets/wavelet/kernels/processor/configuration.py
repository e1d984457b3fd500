"""Read and write configuration registers: by library functions, `@get_config`, and pointers; router, queues,
timer.

On WSE-2 the words at 0x7f20 + color and 0x7f40 + color lie in the address space of the PE. Ref: the comments
of spmv-hypersparse (EX). Route register: outputs in bits 0-4 (west, east, south, north, ramp), inputs in 5-9,
color swap for north and south in 10, for west and east in 11, pop mode in 12-13, teardown in 14. Switch
register: positions 1 to 3 in bits 0-3, 4-7, 8-11 (port, 5: invalid; bit 3: it is an input), ring mode in 12,
the current position in 13-14. The words at 0x7f58 + input queue hold the priority of its microthread in bits
8-9 (1 medium, 2 high); their other bits are not simulated.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.faults import FAULT_COLOR, FAULT_REGISTER
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    EACH_LEVEL,
    FRONTIER,
    GIVEN_AT,
    LEVEL_BITS,
)
from npuviz.targets.wavelet.kernels.time.events import fault, open_router

ROUTES, SWITCHES, INPUT_QUEUES = 0x7F20, 0x7F40, 0x7F58
NUM_QUEUES = 8
PRIORITY_BITS = 0x300
TIMER, TIMER_CONTROL = 0x7E80, 0x7E84
"""Word addresses of the time stamp counter (three words) and of the register that starts it. Assumed."""
NUM_COLORS = 24
PORT_OF = (4, 2, 3, 1, 0)
"""Bit or number in a register -> port."""
INVALID = 5
VALID = 1 << 16
TAKES_RECEIVE = 1 << 17
TAKES_SEND = 1 << 18
"""Bits of a switch position that a register has set: which half of the route it gives itself."""


@kernel
def channel_of(machine, pe, color):
    """Return the place of a color's channel in the block; a fault and 0 if the router has no room for the
    color."""
    place = LAYOUT(machine.program, pe.layout).channel[color] if color >= 0 and color < NUM_COLORS else 0
    if place == 0:
        fault(machine.wafer, pe.node, FAULT_COLOR, color)
    return place


@kernel
def keep_half(channel, position, before):
    """Give a switch position the half of its route that it takes from position 0 again, after position 0 has
    changed.

    before  the old position 0
    """
    word = channel.positions[position]
    if word >> 16 == 0:
        return
    now = channel.positions[0]
    gives = word & (TAKES_RECEIVE | TAKES_SEND)
    takes_receive = (word & 0x1F) == (before & 0x1F)
    takes_send = (word & 0x1F00) == (before & 0x1F00)
    if gives:
        takes_receive, takes_send = (gives & TAKES_RECEIVE) == 0, (gives & TAKES_SEND) == 0
    receive = now & 0x1F if takes_receive else word & 0x1F
    send = now & 0x1F00 if takes_send else word & 0x1F00
    channel.positions[position] = receive | send | VALID | gives


@kernel
def _bits_of(mask):
    bits = 0
    for i in range(5):
        bits |= ((mask >> PORT_OF[i]) & 1) << i
    return bits


@kernel
def _mask_of(bits):
    mask = 0
    for i in range(5):
        mask |= ((bits >> i) & 1) << PORT_OF[i]
    return mask


@kernel
def _number_of(mask):
    """Return the first port of a mask as a switch register numbers it."""
    bits = _bits_of(mask)
    for i in range(5):
        if (bits >> i) & 1:
            return i
    return INVALID


@kernel
def _position_field(channel, k):
    """Return the four bits of the switch register for position `k`."""
    word = channel.positions[k]
    if word >> 16 == 0:
        return INVALID | ((word & 1) << 3)
    before = channel.positions[k - 1]
    is_input = (word & TAKES_RECEIVE) != 0
    if word & (TAKES_RECEIVE | TAKES_SEND) == 0:
        # A position of the layout does not say which half it gives: it is the half that differs.
        is_input = (word & 0x1F) != (before & 0x1F) or (word & 0x1F00) == (before & 0x1F00)
    return 8 | _number_of(word & 0x1F) if is_input else _number_of((word >> 8) & 0x1F)


@kernel
def _set_position(channel, k, field):
    code = field & 7
    if code >= INVALID:
        # The position is invalid, but its bit 3 is kept for programs that change only the port.
        channel.positions[k] = field >> 3
        return
    gives = TAKES_RECEIVE if field & 8 else TAKES_SEND
    if _position_field(channel, k) == field:
        # The register has room for one port: a position with several outputs keeps them.
        channel.positions[k] = (channel.positions[k] & 0x1FFFF) | gives
        return
    last = k - 1
    while last > 0 and channel.positions[last] >> 16 == 0:
        last -= 1
    before = channel.positions[last]
    port = 1 << PORT_OF[code]
    if field & 8:
        channel.positions[k] = port | (before & 0x1F00) | VALID | gives
    else:
        channel.positions[k] = (before & 0x1F) | (port << 8) | VALID | gives


@inlined
def is_register(program, address):
    """Return whether a byte address is that of a register that pointers reach."""
    word = address >> 1
    is_route = word >= ROUTES and word < ROUTES + NUM_COLORS
    is_switch = word >= SWITCHES and word < SWITCHES + NUM_COLORS
    is_queue = word >= INPUT_QUEUES and word < INPUT_QUEUES + NUM_QUEUES
    is_timer = word >= TIMER and word <= TIMER_CONTROL
    return (address & 1) == 0 and (is_timer or (program.arch == 2 and (is_route or is_switch or is_queue)))


@kernel
def _write_priority(machine, pe, queue, value):
    """Set the priority of a queue's microthread, now and for operations that give none."""
    if value & ~PRIORITY_BITS:
        fault(machine.wafer, pe.node, FAULT_REGISTER, INPUT_QUEUES + queue)
        return
    given = value >> 8 if value >> 8 < 2 else 2
    levels = pe.levels & ~(EACH_LEVEL << queue) & ~(3 << (GIVEN_AT + 2 * queue))
    pe.levels = levels | (given << (GIVEN_AT + 2 * queue)) | (1 << (queue + LEVEL_BITS * 2 * given))


@kernel
def _stamp(pe, t):
    """Return the time stamp counter at cycle `t`."""
    return pe.tsc_stopped if pe.tsc_stopped >= 0 else t - pe.tsc


@kernel
def _write_timer(pe, word, value, t):
    now = _stamp(pe, t)
    is_stopped = pe.tsc_stopped >= 0
    if word == TIMER_CONTROL:
        is_stopped = (value & 1) == 0
    elif word < TIMER + 3:
        shift = 16 * (word - TIMER)
        now = (now & ~(0xFFFF << shift)) | ((value & 0xFFFF) << shift)
    pe.tsc = t - now
    pe.tsc_stopped = now if is_stopped else -1


@kernel
def read_register(machine, pe, word, t):
    """Return a configuration register by its word address; a fault for one that is not simulated."""
    if not is_register(machine.program, 2 * word):
        fault(machine.wafer, pe.node, FAULT_REGISTER, word)
        return 0
    if word <= TIMER_CONTROL:
        is_running = 0 if pe.tsc_stopped >= 0 else 7
        return is_running if word == TIMER_CONTROL else (_stamp(pe, t) >> (16 * (word - TIMER))) & 0xFFFF
    if word >= INPUT_QUEUES:
        return ((pe.levels >> (GIVEN_AT + 2 * (word - INPUT_QUEUES))) & 3) << 8
    is_route = word < SWITCHES
    place = channel_of(machine, pe, word - (ROUTES if is_route else SWITCHES))
    if place == 0:
        return 0
    channel = CHANNEL(pe, place)
    if is_route:
        now = channel.positions[0]
        bits = _bits_of((now >> 8) & 0x1F) | (_bits_of(now & 0x1F) << 5)
        bits |= ((channel.swap >> 1) & 1) << 10 | (channel.swap & 1) << 11
        return bits | (channel.pop & 3) << 12 | (channel.closed & 1) << 14
    fields = _position_field(channel, 1) | _position_field(channel, 2) << 4 | _position_field(channel, 3) << 8
    return fields | (channel.is_ring & 1) << 12 | (channel.position & 3) << 13


@kernel
def write_register(machine, pe, word, value, t):
    """Write a configuration register by its word address; a fault for one that is not simulated."""
    if not is_register(machine.program, 2 * word):
        fault(machine.wafer, pe.node, FAULT_REGISTER, word)
        return
    if word <= TIMER_CONTROL:
        _write_timer(pe, word, value, t)
        return
    if word >= INPUT_QUEUES:
        _write_priority(machine, pe, word - INPUT_QUEUES, value)
        return
    is_route = word < SWITCHES
    place = channel_of(machine, pe, word - (ROUTES if is_route else SWITCHES))
    if place == 0:
        return
    channel = CHANNEL(pe, place)
    if is_route:
        before = channel.positions[0]
        channel.positions[0] = _mask_of(value >> 5) | (_mask_of(value) << 8) | VALID
        channel.swap = ((value >> 11) & 1) | ((value >> 10) & 1) << 1
        channel.pop = (value >> 12) & 3
        channel.closed = (value >> 14) & 1
        channel.routed = 1
        for k in range(1, 4):
            keep_half(channel, k, before)
    else:
        for k in range(1, 4):
            _set_position(channel, k, (value >> (4 * (k - 1))) & 0xF)
        channel.is_ring = (value >> 12) & 1
        channel.position = (value >> 13) & 3
    # The channel may send to other routers now.
    pe.channels |= FRONTIER
    open_router(machine.wafer, pe, t + 1)
