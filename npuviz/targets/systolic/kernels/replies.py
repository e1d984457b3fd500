"""Responses on their way back to the cores, computed as early as possible."""

from npuviz.sim.dram.command_kernels import dram_cycle, dram_take, dram_watch
from npuviz.sim.dram.records_kernels import NIL, WHEEL_MASKS, dram_at
from npuviz.sim.dram.simple_kernels import SIMPLE_DRAM, dram_accept, dram_first_cycle
from npuviz.sim.network.simple_kernels import EMPTY, LOW_MASK, NOC, NONE, free_node
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import is_watched
from npuviz.targets.systolic.kernels.records import (
    CORE_BITS,
    ENTRY,
    FAR,
    MOST_CORES,
    PORT,
    QUEUES_PER_CORE,
    REPLY,
    TRAFFIC,
)

STORE_FLAG = 1 << 31
"""Payload of a store: this bit, the layer << CORE_BITS, the core; of a load: the word of its entry."""
CORE_MASK = MOST_CORES - 1


@inlined
def layer_of_store(payload):
    """Return the layer whose results a store's payload writes."""
    return (payload & ~STORE_FLAG) >> CORE_BITS


@inlined
def complete_fill(chip, c, entry, cycle):
    """Remove one outstanding fill of core `c`; the entry cannot be valid before `cycle`. Wakes the core."""
    entry.left -= 1
    if entry.valid < cycle:
        entry.valid = cycle
    if entry.left == 0:
        valid = entry.valid
        word = chip.wakes + c
        if chip[word] > valid:
            chip[word] = valid
            if chip.wake > valid:
                chip.wake = valid


@inlined
def core_cycle_at(chip, noc_cycle_index):
    """Return the core cycle in which a NoC cycle falls."""
    shift = chip.noc_shift
    if shift >= 0:
        return noc_cycle_index >> shift
    return noc_cycle_index * chip.noc_period // chip.core_period


@inlined
def deliver(chip, payload, c, noc_cycle_index):
    """Hand a response to core `c` in a NoC cycle; the core sees it in its first cycle after that."""
    entry = ENTRY(chip, payload)
    if payload & STORE_FLAG == 0:
        seen = core_cycle_at(chip, noc_cycle_index) + 1
        complete_fill(chip, c, entry, seen)
    else:
        chip.writes_out -= 1
        time_ps = noc_cycle_index * chip.noc_period
        if chip.last_ack < time_ps:
            chip.last_ack = time_ps
        traffic = TRAFFIC(chip, chip.traffic, layer_of_store(payload))
        seen = core_cycle_at(chip, noc_cycle_index) + 1
        if traffic.drained < seen:
            traffic.drained = seen


@inlined
def queue_reply(chip, node, c, channel, enters):
    """Append a response to its channel's FIFO; it enters the network in NoC cycle `enters`."""
    noc = NOC(chip, chip.noc)
    pair = c * chip.channels + channel
    reply = chip.replies + pair
    pool = noc.pool
    stride = noc.stride
    word = pool + node * stride
    chip[word] = (NONE << 32) | (chip[word] & LOW_MASK)
    chip[word + 1] = enters
    if chip[reply] == EMPTY:
        chip[reply] = (node << 32) | node
    else:
        tail = pool + (chip[reply] & LOW_MASK) * stride
        chip[tail] = (node << 32) | (chip[tail] & LOW_MASK)
        chip[reply] = (chip[reply] >> 32 << 32) | node
    if noc.latency == 1:
        # Ready in the cycle after it enters, whatever else the FIFO holds.
        chip[word + 1] = enters + 1
    else:
        times = REPLY(chip, chip.reply_times, pair)
        if times.pending == NONE:
            times.pending = node
    chip.reply_waiting += 1
    ports = chip.ports
    index = c * ports
    if ports > 1:
        index += channel % ports
    port_row = PORT(chip, chip.reply_ports, index)
    port_row.channels |= 1 << channel
    chip[chip.reply_active + (index >> 6)] |= 1 << (index & 63)
    # With latency 1, word + 1 is when it may be taken, else when it enters.
    if port_row.next > chip[word + 1]:
        port_row.next = chip[word + 1]
    if chip.reply_next > enters:
        chip.reply_next = enters if noc.latency != 1 else enters + 1


@inlined
def send_response(chip, noc, channel, node, enters):
    """Send a response that the network may take from NoC cycle `enters` on."""
    payload = chip[noc.pool + node * noc.stride] & LOW_MASK
    entry = ENTRY(chip, payload)
    is_read = payload & STORE_FLAG == 0
    c = entry.core if is_read else payload & CORE_MASK
    # One response a channel and cycle.
    last = chip.reply_last + channel
    if enters <= chip[last]:
        enters = chip[last] + 1
    chip[last] = enters
    if chip.reply_queued:
        queue_reply(chip, node, c, channel, enters)
        return
    free_node(chip, noc, node)
    reply = REPLY(chip, chip.reply_times, c * chip.channels + channel)
    ready = enters + noc.latency
    if reply.ready >= enters:
        ready = reply.ready + 1
    reply.ready = ready
    deliver(chip, payload, c, ready + 1)


@inlined
def serve_node(chip, noc, channel, node):
    """Pass a granted request through DRAM, and send its response."""
    dram = SIMPLE_DRAM(chip, chip.dram)
    payload = chip[noc.pool + node * noc.stride] & LOW_MASK
    enters = dram_accept(dram, channel, payload & STORE_FLAG != 0)
    send_response(chip, noc, channel, node, enters)


@inlined
def is_pending(chip, pair, node):
    """Return whether the first response of a (core, channel) pair has not entered the network yet."""
    return REPLY(chip, chip.reply_times, pair).pending == node


@inlined
def serve_port(chip, noc, index, cycle):
    """Let port `index` (all cores counted) take the response of the next channel in rotation that is ready.

    Returns the earliest cycle in which a response enters the network for it, or may be taken; FAR if
    none is left.
    """
    port_row = PORT(chip, chip.reply_ports, index)
    c = index // chip.ports if chip.ports > 1 else index
    first = c * chip.channels
    replies = chip.replies + first
    pool = noc.pool + 1
    stride = noc.stride
    is_late = noc.latency != 1
    upcoming = FAR
    ripe = port_row.ripe
    channels = port_row.channels & ~ripe
    while channels != 0:
        channel = trailing_zeros(channels)
        channels &= channels - 1
        node = chip[replies + channel] >> 32
        ready = chip[pool + node * stride]
        if ready <= cycle and not (is_late and is_pending(chip, first + channel, node)):
            ripe |= 1 << channel
        elif ready < upcoming:
            upcoming = ready
    if ripe != 0:
        behind = ripe >> port_row.turn << port_row.turn
        channel = trailing_zeros(behind if behind != 0 else ripe)
        node = chip[replies + channel] >> 32
        word = chip[pool - 1 + node * stride]
        following = word >> 32
        if following == NONE:
            chip[replies + channel] = EMPTY
            ripe &= ~(1 << channel)
            port_row.channels &= ~(1 << channel)
            if port_row.channels == 0:
                chip[chip.reply_active + (index >> 6)] &= ~(1 << (index & 63))
        else:
            chip[replies + channel] = (following << 32) | (chip[replies + channel] & LOW_MASK)
            ready = chip[pool + following * stride]
            if ready > cycle or (is_late and is_pending(chip, first + channel, following)):
                ripe &= ~(1 << channel)
            if ready < upcoming:
                upcoming = ready
        port_row.turn = channel + 1 if channel + 1 < chip.channels else 0
        free_node(chip, noc, node)
        chip.reply_waiting -= 1
        deliver(chip, word & LOW_MASK, c, cycle + 1)
    if ripe != 0:
        upcoming = cycle
    port_row.ripe = ripe
    port_row.next = upcoming
    return upcoming


@inlined
def enter_replies(chip, noc, index, cycle):
    """Give the responses for a port that enter the network in `cycle` their ready times by the FIFO rule."""
    pool = noc.pool
    stride = noc.stride
    first = index // chip.ports * chip.channels
    channels = PORT(chip, chip.reply_ports, index).channels
    while channels != 0:
        pair = first + trailing_zeros(channels)
        channels &= channels - 1
        reply = REPLY(chip, chip.reply_times, pair)
        node = reply.pending
        if node != NONE and chip[pool + node * stride + 1] <= cycle:
            is_first = chip[chip.replies + pair] >> 32 == node
            ready = cycle + noc.latency if is_first else reply.ready + 1
            reply.ready = ready
            chip[pool + node * stride + 1] = ready
            reply.pending = chip[pool + node * stride] >> 32


@inlined
def known_until(chip, noc, cycle):
    """Return the last NoC cycle whose responses are all known in `cycle`: later requests cannot return
    earlier."""
    dram = SIMPLE_DRAM(chip, chip.dram)
    if chip.dram_kind == 1:
        return cycle
    period = noc.period
    leave = dram_first_cycle(dram, (cycle + 2) * period)
    return (dram.origin + leave * dram.period + period - 1) // period


@inlined
def reply_cycles(chip, noc, cycle):
    """Run the reply network where channels share ports, from `cycle` on as far as it is known.

    Each port takes one response a cycle. A core learns early at which cycle an entry will be
    valid, exactly as it does where ports are not shared. Sets `reply_next` of the chip.
    """
    is_late = noc.latency != 1
    horizon = cycle if is_late else known_until(chip, noc, cycle)
    ports = chip.reply_ports
    now = cycle
    while now <= horizon:
        upcoming = FAR
        for part in range(noc.mask_words):
            active = chip[chip.reply_active + part]
            while active != 0:
                index = 64 * part + trailing_zeros(active)
                active &= active - 1
                time = PORT(chip, ports, index).next
                if time <= now:
                    if is_late:
                        enter_replies(chip, noc, index, now)
                    time = serve_port(chip, noc, index, now)
                if time < upcoming:
                    upcoming = time
        now = upcoming if upcoming > now else now + 1
    chip.reply_next = now


@kernel
def run_dram(machine):
    """Run the next tick of command-level DRAM; returns the NoC cycle in which its responses may leave."""
    chip = machine.chip
    dram = dram_at(chip, chip.dram)
    tick = dram.device.next
    dram_cycle(dram, tick)
    if is_watched(machine):
        dram_watch(machine, dram, chip.cores_count * QUEUES_PER_CORE, tick, chip.cycle)
    period = chip.noc_period
    return (chip.dram_origin + tick * dram.device.period + period - 1) // period


@kernel
def dram_responses(machine):
    """Run the next tick of command-level DRAM, and send the responses of that tick.

    A response is final in its tick: a write of a later one cannot get ahead of it.
    """
    chip = machine.chip
    dram = dram_at(chip, chip.dram)
    noc = NOC(chip, chip.noc)
    enters = run_dram(machine)
    for part in range(WHEEL_MASKS):
        mask = dram.device.done[part]
        dram.device.done[part] = 0
        while mask != 0:
            channel = 32 * part + trailing_zeros(mask)
            mask &= mask - 1
            node = dram_take(dram, channel)
            while node != NIL:
                send_response(chip, noc, channel, node, enters)
                node = dram_take(dram, channel)
    if chip.reply_next < chip.noc_next:
        chip.noc_next = chip.reply_next
