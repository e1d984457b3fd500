"""Responses on their way back to the cores, known as early as they can be known."""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.dram_command_kernels import dram_cycle, dram_take, dram_watch
from npuviz.sim.parts.dram_command_state_kernels import DC_DONE, DC_NEXT, DC_PERIOD, NIL, WHEEL_MASKS
from npuviz.sim.parts.dram_kernels import D_PERIOD, dram_accept, dram_first_cycle
from npuviz.sim.parts.interconnect_kernels import (
    LOW_MASK,
    NOC_LATENCY,
    NOC_MASK_WORDS,
    NOC_PERIOD,
    NOC_POOL,
    NOC_STRIDE,
    NONE,
    free_node,
)
from npuviz.sim.parts.watch_kernels import is_watched
from npuviz.targets.systolic.state_kernels import (
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
    H_REPLY_NEXT,
    H_REPLY_PORTS,
    H_REPLY_QUEUED,
    H_REPLY_WAITING,
    H_WAKE,
    H_WAKES,
    H_WRITES_OUT,
    N_CORE,
    N_LEFT,
    N_VALID,
    PORT_CHANNELS,
    PORT_NEXT,
    PORT_TURN,
    PORT_WORDS,
    QUEUES_PER_CORE,
    REPLY_WORDS,
    Y_HEAD,
    Y_LAST,
    Y_PENDING,
    Y_READY,
    Y_TAIL,
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


@kernel
def queue_reply(s, noc, node, c, channel, enters):
    """Append a response to its channel's FIFO; it enters the network in NoC cycle `enters`."""
    reply = s[H_REPLIES] + (c * s[H_CHANNELS] + channel) * REPLY_WORDS
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    word = pool + node * stride
    s[word] = (NONE << 32) | (s[word] & LOW_MASK)
    s[word + 1] = enters
    tail = s[reply + Y_TAIL]
    if tail == NONE:
        s[reply + Y_HEAD] = node
    else:
        s[pool + tail * stride] = (node << 32) | (s[pool + tail * stride] & LOW_MASK)
    s[reply + Y_TAIL] = node
    if s[noc + NOC_LATENCY] == 1:
        # Ready in the cycle after it enters, whatever else the FIFO holds.
        s[word + 1] = enters + 1
    elif s[reply + Y_PENDING] == NONE:
        s[reply + Y_PENDING] = node
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
    # One response a channel and cycle: a last row of the reply table keeps each channel's newest.
    last = s[H_REPLIES] + (s[H_CORES_COUNT] * s[H_CHANNELS] + channel) * REPLY_WORDS
    if enters <= s[last + Y_LAST]:
        enters = s[last + Y_LAST] + 1
    s[last + Y_LAST] = enters
    if s[H_REPLY_QUEUED]:
        queue_reply(s, noc, node, c, channel, enters)
        return
    free_node(s, noc, node)
    reply = s[H_REPLIES] + (c * s[H_CHANNELS] + channel) * REPLY_WORDS
    ready = enters + s[noc + NOC_LATENCY]
    if s[reply + Y_READY] >= enters:
        ready = s[reply + Y_READY] + 1
    s[reply + Y_READY] = ready
    deliver(s, payload, c, ready + 1)


@inlined
def serve_node(s, noc, channel, node):
    """Pass a granted request through DRAM, and send its response off."""
    dram = s[H_DRAM]
    payload = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] & LOW_MASK
    enters = dram_accept(s, dram, channel, payload & STORE_FLAG != 0)
    send_response(s, noc, channel, node, enters)


@inlined
def serve_port(s, noc, index, cycle):
    """Port `index` (all cores counted) takes the response of the next channel in rotation that is ready.

    Returns the earliest cycle in which a response enters the network for it, or may be taken; FAR if
    none is left.
    """
    port = s[H_REPLY_PORTS] + index * PORT_WORDS
    c = index // s[H_PORTS] if s[H_PORTS] > 1 else index
    first = s[H_REPLIES] + c * s[H_CHANNELS] * REPLY_WORDS
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    chosen = -1
    upcoming = FAR
    behind = s[port + PORT_CHANNELS] >> s[port + PORT_TURN] << s[port + PORT_TURN]
    # The channels from the turn on, then those before it.
    for channels in (behind, s[port + PORT_CHANNELS] & ~behind):
        while channels != 0:
            channel = trailing_zeros(channels)
            channels &= channels - 1
            reply = first + channel * REPLY_WORDS
            node = s[reply + Y_HEAD]
            ready = s[pool + node * stride + 1]
            if chosen < 0 and ready <= cycle and node != s[reply + Y_PENDING]:
                chosen = channel
            elif ready < upcoming:
                upcoming = ready
    if chosen >= 0:
        reply = first + chosen * REPLY_WORDS
        node = s[reply + Y_HEAD]
        word = s[pool + node * stride]
        following = word >> 32
        s[reply + Y_HEAD] = following
        if following == NONE:
            s[reply + Y_TAIL] = NONE
            s[port + PORT_CHANNELS] &= ~(1 << chosen)
            if s[port + PORT_CHANNELS] == 0:
                s[s[H_REPLY_ACTIVE] + (index >> 6)] &= ~(1 << (index & 63))
        elif s[pool + following * stride + 1] < upcoming:
            upcoming = s[pool + following * stride + 1]
        s[port + PORT_TURN] = chosen + 1 if chosen + 1 < s[H_CHANNELS] else 0
        free_node(s, noc, node)
        s[H_REPLY_WAITING] -= 1
        deliver(s, word & LOW_MASK, c, cycle + 1)
    s[port + PORT_NEXT] = upcoming
    return upcoming


@inlined
def enter_replies(s, noc, index, cycle):
    """Give the responses for a port that enter the network in `cycle` their ready time by the FIFO rule."""
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    latency = s[noc + NOC_LATENCY]
    first = s[H_REPLIES] + index // s[H_PORTS] * s[H_CHANNELS] * REPLY_WORDS
    channels = s[s[H_REPLY_PORTS] + index * PORT_WORDS + PORT_CHANNELS]
    while channels != 0:
        reply = first + trailing_zeros(channels) * REPLY_WORDS
        channels &= channels - 1
        node = s[reply + Y_PENDING]
        if node != NONE and s[pool + node * stride + 1] <= cycle:
            ready = cycle + latency if s[reply + Y_HEAD] == node else s[reply + Y_READY] + 1
            s[reply + Y_READY] = ready
            s[pool + node * stride + 1] = ready
            s[reply + Y_PENDING] = s[pool + node * stride] >> 32


@kernel
def known_until(s, noc, cycle):
    """Last NoC cycle whose responses are all known in `cycle`: later requests cannot return earlier."""
    dram = s[H_DRAM]
    if s[H_DRAM_KIND] == 1:
        return cycle
    period = s[noc + NOC_PERIOD]
    leave = dram_first_cycle(s, dram, (cycle + 2) * period)
    return (leave * s[dram + D_PERIOD] + period - 1) // period


@kernel
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
