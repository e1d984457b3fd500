"""Requests on their way from a core's burst list to the DRAM.

One call of `noc_cycle` is one cycle of the network clock. A request's way back is computed at the
moment the DRAM takes it (`replies`), because simple DRAM keeps its order and its delay.
"""

from numba import int64

from npuviz.sim.dram.command_kernels import dram_can_accept, dram_offer
from npuviz.sim.dram.records_kernels import NIL, REQUEST_NODE, dram_at
from npuviz.sim.dram.simple_kernels import SIMPLE_DRAM, dram_arrive
from npuviz.sim.network.simple_kernels import LOW_MASK, NOC, allocate_node, bring_near, noc_grant, noc_push
from npuviz.sim.parts.bits_kernels import fetch, inlined, trailing_zeros
from npuviz.sim.parts.watch_kernels import (
    is_recording,
    is_watched,
    record_count,
    record_interval,
    watch_queue,
)
from npuviz.targets.systolic.kernels.causes import record_turn
from npuviz.targets.systolic.kernels.program_records import CODE, MODE_STEP, TILE
from npuviz.targets.systolic.kernels.records import (
    BURST,
    CORE,
    CORE_BITS,
    ENTRY,
    QUEUE_REQUESTS,
    QUEUES_PER_CORE,
    TRACK_LD,
    TRACK_REQUESTS,
    TRACK_ST,
    TRACKS_PER_CORE,
    TRAFFIC,
)
from npuviz.targets.systolic.kernels.replies import (
    STORE_FLAG,
    complete_fill,
    core_cycle_at,
    reply_cycles,
    serve_node,
)


@inlined
def channel_of(machine, address):
    """Return the DRAM channel of a byte address (hash tables made by npuviz.sim.dram.channel_hash)."""
    chip, program = machine.chip, machine.program
    line = address >> chip.request_shift
    table = program.hash
    channel = (
        program[table + (line & 127)]
        ^ program[table + 128 + ((line >> 7) & 127)]
        ^ program[table + 256 + ((line >> 14) & 127)]
    )
    modulo = chip.channel_modulo
    return channel % modulo if modulo != 0 else channel


@inlined
def enter_row(machine, core, burst, row, last):
    """Set the generator to row (i, j) of a burst, or to the first later row that has a new block.

    last  the block requested last, -1: none. Sets `request` of the core to -1 when no row is left.
    """
    program = machine.program
    i, j = row
    code = CODE(program, program.code, burst.code)
    size = machine.chip.request_bytes
    base = TILE(program, program.tiles, burst.tile).base[code.base] + code.offset
    length = code.len
    while i < code.n0:
        while j < code.n1:
            begin = base + i * code.s0 + j * code.s1
            first = begin & -size
            end = first + (length + size - 1) // size * size if code.mode == MODE_STEP else begin + length
            if first == last:
                first += size
            if first < end and length > 0:
                core.request = first
                core.request_end = end
                core.request_i = i
                core.request_j = j
                return
            j += 1
        j = 0
        i += 1
    core.request = -1


@inlined
def finish_burst(machine, c, burst, now):
    """Drop the head burst, whose last request entered the network in core cycle `now`."""
    chip, program = machine.chip, machine.program
    core = CORE(chip, chip.cores + c * chip.core_words)
    count = core.burst_count
    entry = burst.entry
    entry_of_entry = ENTRY(chip, entry)
    end_word = CORE.load_end if entry != 0 else CORE.store_end
    start = core.burst_start
    if start < core[end_word]:
        start = core[end_word]
    end = now + 1
    if end > start:
        if entry != 0:
            core.load_shown = burst.index
        if is_recording(machine):
            other_end = core.store_end if entry != 0 else core.load_end
            record_turn(machine, c, entry != 0, (core[end_word], other_end), start)
        core[end_word] = end
        core[(CORE.load_busy if entry != 0 else CORE.store_busy)] += end - start
        if is_recording(machine):
            track = c * TRACKS_PER_CORE + (TRACK_LD if entry != 0 else TRACK_ST)
            op = CODE(program, program.code, burst.code).op
            record_interval(machine, track, op, (start, end), burst.index)
    traffic = TRAFFIC(chip, chip.traffic, TILE(program, program.tiles, burst.tile).layer)
    if entry != 0:
        traffic.reads += core.requested
        # Requests that entered in the last cycle of the interval before have none of their own.
        entry_of_entry.sender = core.load_shown
        complete_fill(chip, c, entry_of_entry, now + 1)
    else:
        traffic.writes += core.requested
    core.requested = 0
    core.burst_head = (core.burst_head + 1) & (chip.burst_capacity - 1)
    core.burst_count = count - 1
    chip.bursts_waiting -= 1
    if count == 1:
        chip[chip.sending + (c >> 6)] &= ~(1 << (c & 63))
    if is_recording(machine):
        record_count(machine, c * TRACKS_PER_CORE + TRACK_REQUESTS, now, count - 1)
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_REQUESTS, count, count - 1, now)


@inlined
def place_node(chip, noc, node, address):
    """Note in a request's node its place in its channel."""
    request = REQUEST_NODE(chip, noc.pool + node * noc.stride)
    request.address = (address >> chip.local_shift) << chip.request_shift


@inlined
def store_payload(machine, burst, c):
    """Return what a request of a burst of stores carries to the DRAM and back to core `c`."""
    layer = TILE(machine.program, machine.program.tiles, burst.tile).layer
    return STORE_FLAG | layer << CORE_BITS | c


@inlined
def inject(machine, c, noc_cycle_index, now):
    """Let up to one request per port of core `c` enter the network."""
    chip = machine.chip
    core = CORE(chip, chip.cores + c * chip.core_words)
    noc = NOC(chip, chip.noc)
    ports = chip.ports
    size = chip.request_bytes
    ring = chip.bursts + c * chip.burst_capacity * BURST.num_words
    is_detailed = chip.dram_kind == 1
    port = 0
    while port < ports and core.burst_count > 0:
        burst = BURST(chip, ring, core.burst_head)
        entry = burst.entry
        entry_of_entry = ENTRY(chip, entry)
        if core.request < 0:
            enter_row(machine, core, burst, (int64(0), int64(0)), int64(-1))
            core.burst_start = now
        payload = entry if entry != 0 else store_payload(machine, burst, c)
        address = core.request
        end = core.request_end
        taken = 0
        while address >= 0 and port < ports:
            way = (c * ports + port, channel_of(machine, address))
            node = noc_push(chip, noc, way, payload, noc_cycle_index)
            if is_detailed:
                place_node(chip, noc, node, address)
            taken += 1
            port += 1
            last = address
            address += size
            if address >= end:
                core.request_last = last
                enter_row(machine, core, burst, (core.request_i, core.request_j + 1), last)
                address = core.request
                end = core.request_end
        core.request = address
        core.requested += taken
        if entry != 0:
            entry_of_entry.left += taken
            chip.reads += taken
        else:
            chip.writes_out += taken
            chip.writes += taken
        if address < 0:
            finish_burst(machine, c, burst, now)


@inlined
def stream_alone(machine, cycle, limit):
    """Inject requests of a network's only source: one per cycle, granted in the next one, without contention.

    Takes the rest of a row of the head burst, from NoC cycle `cycle` to before `limit`, in which
    nothing else happens; returns the cycle that follows the last one taken.
    """
    chip = machine.chip
    core = CORE(chip, chip.cores)
    noc = NOC(chip, chip.noc)
    dram = SIMPLE_DRAM(chip, chip.dram)
    size = chip.request_bytes
    period = noc.period
    burst = BURST(chip, chip.bursts, core.burst_head)
    entry = burst.entry
    entry_of_entry = ENTRY(chip, entry)
    if core.request < 0:
        enter_row(machine, core, burst, (int64(0), int64(0)), int64(-1))
        core.burst_start = core_cycle_at(chip, cycle)
    payload = entry if entry != 0 else store_payload(machine, burst, int64(0))
    address = core.request
    end = core.request_end
    room = noc.capacity - noc.live
    if limit > cycle + room:
        limit = cycle + room
    now = cycle
    if address >= 0:
        while address < end and now < limit:
            dram_arrive(dram, (now + 2) * period)
            node = allocate_node(chip, noc)
            chip[noc.pool + node * noc.stride] = payload
            serve_node(chip, noc, channel_of(machine, address), node)
            address += size
            now += 1
        core.request = address
        if address >= end:
            last = address - size
            core.request_last = last
            enter_row(machine, core, burst, (core.request_i, core.request_j + 1), last)
    taken = now - cycle
    core.requested += taken
    if entry != 0:
        entry_of_entry.left += taken
        chip.reads += taken
    else:
        chip.writes_out += taken
        chip.writes += taken
    if core.request < 0:
        finish_burst(machine, int64(0), burst, core_cycle_at(chip, now - 1 if taken > 0 else now))
    return now


@inlined
def tick_behind(chip, cycle):
    """Return the first DRAM tick that sees requests that the DRAM is given in a NoC cycle."""
    return (cycle * chip.noc_period - chip.dram_origin) // chip.dram_period + 1


@inlined
def give(chip, noc, channel, node, tick):
    """Put a request into a channel's front list, which has room."""
    address = REQUEST_NODE(chip, noc.pool + node * noc.stride).address
    dram_offer(dram_at(chip, chip.dram), channel, bring_near(chip, noc, node), address, tick)


@inlined
def queue_at_door(chip, noc, channel, node):
    """Append a node to those that wait at a channel."""
    door = chip.doors[0] + 2 * channel
    pool = noc.pool
    stride = noc.stride
    word = pool + node * stride
    chip[word] = (NIL << 32) | (chip[word] & LOW_MASK)
    if chip[door] == NIL:
        chip[door] = node
    else:
        last = pool + chip[door + 1] * stride
        chip[last] = (node << 32) | (chip[last] & LOW_MASK)
    chip[door + 1] = node
    chip.doors_waiting += 1


@inlined
def take_from_door(chip, noc, channel):
    """Remove the first node of those that wait at a channel."""
    door = chip.doors[0] + 2 * channel
    following = chip[noc.pool + chip[door] * noc.stride] >> 32
    chip[door] = following
    if following != NIL:
        # It has waited longer than caches keep it.
        fetch(chip, noc.pool + following * noc.stride)
    chip.doors_waiting -= 1


@inlined
def grant_detailed(chip, noc, cycle):
    """Grant one waiting request per channel's node; it reaches the DRAM in the next cycle.

    While the front list has room now it has room then; else the request waits at the door.
    """
    tick = tick_behind(chip, cycle + 1)
    active = chip[noc.active]
    while active != 0:
        channel = trailing_zeros(active)
        active &= active - 1
        node = noc_grant(chip, noc, channel, cycle)
        if node >= 0:
            door = chip.doors[0] + 2 * channel
            if chip[door] == NIL and dram_can_accept(dram_at(chip, chip.dram), channel):
                give(chip, noc, channel, node, tick)
            else:
                REQUEST_NODE(chip, noc.pool + node * noc.stride).time = cycle + 1
                queue_at_door(chip, noc, channel, node)


@inlined
def open_doors(chip, noc, cycle):
    """Let waiting requests enter where the front list has room again, one per channel."""
    dram = dram_at(chip, chip.dram)
    tick = tick_behind(chip, cycle)
    for channel in range(chip.channels):
        door = chip.doors[0] + 2 * channel
        node = chip[door]
        if (
            node != NIL
            and dram_can_accept(dram, channel)
            and REQUEST_NODE(chip, noc.pool + node * noc.stride).time <= cycle
        ):
            take_from_door(chip, noc, channel)
            give(chip, noc, channel, node, tick)


@inlined
def serve_channels(chip, noc, cycle):
    """Let every channel's node take one of its waiting requests."""
    if chip.dram_kind == 1:
        grant_detailed(chip, noc, cycle)
        return
    dram_arrive(SIMPLE_DRAM(chip, chip.dram), (cycle + 1) * noc.period)
    active = chip[noc.active]
    while active != 0:
        channel = trailing_zeros(active)
        active &= active - 1
        node = noc_grant(chip, noc, channel, cycle)
        if node >= 0:
            serve_node(chip, noc, channel, node)


@inlined
def noc_cycle(machine, cycle, now):
    """Run one cycle of the network, in core cycle `now`.

    With latency 1 what enters in this cycle cannot be granted in it, and the order of the two halves
    is free; ready times that are kept (other latencies) depend on it.
    """
    chip = machine.chip
    noc = NOC(chip, chip.noc)
    late = noc.latency != 1
    if chip.doors_waiting > 0:
        open_doors(chip, noc, cycle)
    if not late and noc.waiting > 0:
        serve_channels(chip, noc, cycle)
    if chip.bursts_waiting > 0:
        for part in range((chip.cores_count + 63) >> 6):
            sending = chip[chip.sending + part]
            while sending != 0:
                inject(machine, 64 * part + trailing_zeros(sending), cycle, now)
                sending &= sending - 1
    if late and noc.waiting > 0:
        serve_channels(chip, noc, cycle)
    if chip.reply_next <= cycle:
        reply_cycles(chip, noc, cycle)
    chip.noc_last = cycle
    is_waiting = chip.bursts_waiting > 0 or noc.waiting > 0
    chip.noc_next = cycle + 1 if is_waiting else chip.reply_next
    if chip.doors_waiting > 0 and not is_waiting:
        # A front list has room again after a tick of the DRAM at the earliest.
        dram = dram_at(chip, chip.dram)
        time_ps = chip.dram_origin + dram.device.next * chip.dram_period
        following = (time_ps + chip.noc_period - 1) // chip.noc_period
        if following <= cycle:
            following = cycle + 1
        if following < chip.noc_next:
            chip.noc_next = following


@inlined
def lone_cycles(machine, cycle, limit):
    """Run NoC cycles from `cycle` to before `limit` where the network has one source."""
    chip = machine.chip
    noc = NOC(chip, chip.noc)
    now = cycle
    reply = chip.reply_next
    if chip.bursts_waiting > 0:
        # The cycle of a response is the last one taken: cores must not run past what it tells them.
        stop = limit if limit <= reply else reply + 1
        now = stream_alone(machine, cycle, stop if stop > cycle else cycle + 1)
    elif reply == cycle:
        now = cycle + 1
    if reply < now:
        reply_cycles(chip, noc, reply)
    chip.noc_last = now - 1
    chip.noc_next = now if chip.bursts_waiting > 0 else chip.reply_next
