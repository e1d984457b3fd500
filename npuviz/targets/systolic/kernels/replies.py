"""Responses on their way back to the cores, known as early as they can be known."""

from npuviz.sim.dram.command_kernels import dram_cycle, dram_take, dram_watch
from npuviz.sim.dram.records_kernels import DC_DONE, DC_NEXT, DC_PERIOD, NIL, WHEEL_MASKS
from npuviz.sim.dram.simple_kernels import D_PERIOD, dram_accept, dram_first_cycle
from npuviz.sim.network.simple_kernels import (
    EMPTY,
    LOW_MASK,
    NOC_LATENCY,
    NOC_MASK_WORDS,
    NOC_PERIOD,
    NOC_POOL,
    NOC_STRIDE,
    NONE,
    free_node,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import is_watched
from npuviz.targets.systolic.kernels.records import (
    FAR,
    H_CHANNELS,
    H_CORE_PERIOD,
    H_CORES_COUNT,
    H_CYCLE,
    H_DRAM,
    H_DRAM_KIND,
    H_LAST_ACK,
    H_NOC,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_NOC_SHIFT,
    H_PORTS,
    H_REPLIES,
    H_REPLY_ACTIVE,
    H_REPLY_LAST,
    H_REPLY_NEXT,
    H_REPLY_PORTS,
    H_REPLY_QUEUED,
    H_REPLY_TIMES,
    H_REPLY_WAITING,
    H_WAKE,
    H_WAKES,
    H_WRITES_OUT,
    N_CORE,
    N_LEFT,
    N_VALID,
    PORT_CHANNELS,
    PORT_NEXT,
    PORT_RIPE,
    PORT_TURN,
    PORT_WORDS,
    QUEUES_PER_CORE,
    REPLY_WORDS,
    Y_PENDING,
    Y_READY,
)

STORE_FLAG = 1 << 31  # payload of a store: this bit and the core; of a load: the word of its entry


@inlined
def complete_fill(s, c, entry, cycle):
    """Remove one outstanding fill of core `c`; the entry cannot be valid before `cycle`. Wakes the core."""
    s[entry + N_LEFT] -= 1
    if s[entry + N_VALID] < cycle:
        s[entry + N_VALID] = cycle
    if s[entry + N_LEFT] == 0:
        valid = s[entry + N_VALID]
        word = s[H_WAKES] + c
        if s[word] > valid:
            s[word] = valid
            if s[H_WAKE] > valid:
                s[H_WAKE] = valid


@inlined
def core_cycle_at(s, noc_cycle_index):
    """Core cycle in which a NoC cycle falls."""
    shift = s[H_NOC_SHIFT]
    if shift >= 0:
        return noc_cycle_index >> shift
    return noc_cycle_index * s[H_NOC_PERIOD] // s[H_CORE_PERIOD]


@inlined
def deliver(s, payload, c, noc_cycle_index):
    """Hand a response to core `c` in a NoC cycle; the core sees it in its first cycle after that."""
    if payload & STORE_FLAG == 0:
        seen = core_cycle_at(s, noc_cycle_index) + 1
        complete_fill(s, c, payload, seen)
    else:
        s[H_WRITES_OUT] -= 1
        time_ps = noc_cycle_index * s[H_NOC_PERIOD]
        if s[H_LAST_ACK] < time_ps:
            s[H_LAST_ACK] = time_ps


@inlined
def queue_reply(s, noc, node, c, channel, enters):
    """Append a response to its channel's FIFO; it enters the network in NoC cycle `enters`."""
    pair = c * s[H_CHANNELS] + channel
    reply = s[H_REPLIES] + pair
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    word = pool + node * stride
    s[word] = (NONE << 32) | (s[word] & LOW_MASK)
    s[word + 1] = enters
    if s[reply] == EMPTY:
        s[reply] = (node << 32) | node
    else:
        tail = pool + (s[reply] & LOW_MASK) * stride
        s[tail] = (node << 32) | (s[tail] & LOW_MASK)
        s[reply] = (s[reply] >> 32 << 32) | node
    if s[noc + NOC_LATENCY] == 1:
        # Ready in the cycle after it enters, whatever else the FIFO holds.
        s[word + 1] = enters + 1
    else:
        times = s[H_REPLY_TIMES] + pair * REPLY_WORDS
        if s[times + Y_PENDING] == NONE:
            s[times + Y_PENDING] = node
    s[H_REPLY_WAITING] += 1
    ports = s[H_PORTS]
    index = c * ports
    if ports > 1:
        index += channel % ports
    port = s[H_REPLY_PORTS] + index * PORT_WORDS
    s[port + PORT_CHANNELS] |= 1 << channel
    s[s[H_REPLY_ACTIVE] + (index >> 6)] |= 1 << (index & 63)
    # With latency 1, word + 1 is when it may be taken, else when it enters.
    if s[port + PORT_NEXT] > s[word + 1]:
        s[port + PORT_NEXT] = s[word + 1]
    if s[H_REPLY_NEXT] > enters:
        s[H_REPLY_NEXT] = enters if s[noc + NOC_LATENCY] != 1 else enters + 1


@inlined
def send_response(s, noc, channel, node, enters):
    """Send a response back that the network may take from NoC cycle `enters` on."""
    payload = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] & LOW_MASK
    is_read = payload & STORE_FLAG == 0
    c = s[payload + N_CORE] if is_read else payload & ~STORE_FLAG
    # One response a channel and cycle.
    last = s[H_REPLY_LAST] + channel
    if enters <= s[last]:
        enters = s[last] + 1
    s[last] = enters
    if s[H_REPLY_QUEUED]:
        queue_reply(s, noc, node, c, channel, enters)
        return
    free_node(s, noc, node)
    times = s[H_REPLY_TIMES] + (c * s[H_CHANNELS] + channel) * REPLY_WORDS
    ready = enters + s[noc + NOC_LATENCY]
    if s[times + Y_READY] >= enters:
        ready = s[times + Y_READY] + 1
    s[times + Y_READY] = ready
    deliver(s, payload, c, ready + 1)


@inlined
def serve_node(s, noc, channel, node):
    """Pass a granted request through DRAM, and send its response off."""
    dram = s[H_DRAM]
    payload = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] & LOW_MASK
    enters = dram_accept(s, dram, channel, payload & STORE_FLAG != 0)
    send_response(s, noc, channel, node, enters)


@inlined
def is_pending(s, pair, node):
    """Whether the first response of a (core, channel) pair has not entered the network yet."""
    return s[s[H_REPLY_TIMES] + pair * REPLY_WORDS + Y_PENDING] == node


@inlined
def serve_port(s, noc, index, cycle):
    """Port `index` (all cores counted) takes the response of the next channel in rotation that is ready.

    Returns the earliest cycle in which a response enters the network for it, or may be taken; FAR if
    none is left.
    """
    port = s[H_REPLY_PORTS] + index * PORT_WORDS
    c = index // s[H_PORTS] if s[H_PORTS] > 1 else index
    first = c * s[H_CHANNELS]
    replies = s[H_REPLIES] + first
    pool = s[noc + NOC_POOL] + 1
    stride = s[noc + NOC_STRIDE]
    is_late = s[noc + NOC_LATENCY] != 1
    upcoming = FAR
    ripe = s[port + PORT_RIPE]
    channels = s[port + PORT_CHANNELS] & ~ripe
    while channels != 0:
        channel = trailing_zeros(channels)
        channels &= channels - 1
        node = s[replies + channel] >> 32
        ready = s[pool + node * stride]
        if ready <= cycle and not (is_late and is_pending(s, first + channel, node)):
            ripe |= 1 << channel
        elif ready < upcoming:
            upcoming = ready
    if ripe != 0:
        behind = ripe >> s[port + PORT_TURN] << s[port + PORT_TURN]
        channel = trailing_zeros(behind if behind != 0 else ripe)
        node = s[replies + channel] >> 32
        word = s[pool - 1 + node * stride]
        following = word >> 32
        if following == NONE:
            s[replies + channel] = EMPTY
            ripe &= ~(1 << channel)
            s[port + PORT_CHANNELS] &= ~(1 << channel)
            if s[port + PORT_CHANNELS] == 0:
                s[s[H_REPLY_ACTIVE] + (index >> 6)] &= ~(1 << (index & 63))
        else:
            s[replies + channel] = (following << 32) | (s[replies + channel] & LOW_MASK)
            ready = s[pool + following * stride]
            if ready > cycle or (is_late and is_pending(s, first + channel, following)):
                ripe &= ~(1 << channel)
            if ready < upcoming:
                upcoming = ready
        s[port + PORT_TURN] = channel + 1 if channel + 1 < s[H_CHANNELS] else 0
        free_node(s, noc, node)
        s[H_REPLY_WAITING] -= 1
        deliver(s, word & LOW_MASK, c, cycle + 1)
    if ripe != 0:
        upcoming = cycle
    s[port + PORT_RIPE] = ripe
    s[port + PORT_NEXT] = upcoming
    return upcoming


@inlined
def enter_replies(s, noc, index, cycle):
    """Give the responses for a port that enter the network in `cycle` their ready time by the FIFO rule."""
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    first = index // s[H_PORTS] * s[H_CHANNELS]
    channels = s[s[H_REPLY_PORTS] + index * PORT_WORDS + PORT_CHANNELS]
    while channels != 0:
        pair = first + trailing_zeros(channels)
        channels &= channels - 1
        times = s[H_REPLY_TIMES] + pair * REPLY_WORDS
        node = s[times + Y_PENDING]
        if node != NONE and s[pool + node * stride + 1] <= cycle:
            is_first = s[s[H_REPLIES] + pair] >> 32 == node
            ready = cycle + s[noc + NOC_LATENCY] if is_first else s[times + Y_READY] + 1
            s[times + Y_READY] = ready
            s[pool + node * stride + 1] = ready
            s[times + Y_PENDING] = s[pool + node * stride] >> 32


@inlined
def known_until(s, noc, cycle):
    """Last NoC cycle whose responses are all known in `cycle`: later requests cannot return earlier."""
    dram = s[H_DRAM]
    if s[H_DRAM_KIND] == 1:
        return cycle
    period = s[noc + NOC_PERIOD]
    leave = dram_first_cycle(s, dram, (cycle + 2) * period)
    return (leave * s[dram + D_PERIOD] + period - 1) // period


@inlined
def reply_cycles(s, noc, cycle):
    """The reply network where channels share ports, from `cycle` on as far as it is known.

    Each port takes one response a cycle. A core learns early at which cycle an entry will be
    valid, exactly as it does where ports are not shared. Sets H_REPLY_NEXT.
    """
    is_late = s[noc + NOC_LATENCY] != 1
    horizon = cycle if is_late else known_until(s, noc, cycle)
    ports = s[H_REPLY_PORTS]
    now = cycle
    while now <= horizon:
        upcoming = FAR
        for part in range(s[noc + NOC_MASK_WORDS]):
            active = s[s[H_REPLY_ACTIVE] + part]
            while active != 0:
                index = 64 * part + trailing_zeros(active)
                active &= active - 1
                time = s[ports + index * PORT_WORDS + PORT_NEXT]
                if time <= now:
                    if is_late:
                        enter_replies(s, noc, index, now)
                    time = serve_port(s, noc, index, now)
                if time < upcoming:
                    upcoming = time
        now = upcoming if upcoming > now else now + 1
    s[H_REPLY_NEXT] = now


@kernel
def run_dram(s, x):
    """Run the next tick of command-level DRAM; returns the NoC cycle in which its responses may leave."""
    dram = s[H_DRAM]
    tick = s[dram + DC_NEXT]
    dram_cycle(s, dram, tick)
    if is_watched(x):
        dram_watch(s, dram, x, s[H_CORES_COUNT] * QUEUES_PER_CORE, tick, s[H_CYCLE])
    period = s[H_NOC_PERIOD]
    return (tick * s[dram + DC_PERIOD] + period - 1) // period


@kernel
def dram_responses(s, x):
    """Run the next tick of command-level DRAM, and send the responses off that it brings.

    A response is final in its tick: a write of a later one cannot get ahead of it.
    """
    dram = s[H_DRAM]
    noc = s[H_NOC]
    enters = run_dram(s, x)
    for part in range(WHEEL_MASKS):
        mask = s[dram + DC_DONE + part]
        s[dram + DC_DONE + part] = 0
        while mask != 0:
            channel = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            node = dram_take(s, dram, channel)
            while node != NIL:
                send_response(s, noc, channel, node, enters)
                node = dram_take(s, dram, channel)
    if s[H_REPLY_NEXT] < s[H_NOC_NEXT]:
        s[H_NOC_NEXT] = s[H_REPLY_NEXT]
