"""Requests on their way from a core's burst list to the DRAM.

One call of `noc_cycle` is one cycle of the network clock. A request's way back is computed at the
moment the DRAM takes it (`reply_kernels`), because simple DRAM keeps its order and its delay.
"""

from numba import int64

from npuviz.sim.dram.command_kernels import dram_can_accept, dram_offer
from npuviz.sim.dram.records_kernels import DC_NEXT, NIL, NODE_ADDRESS, NODE_TIME
from npuviz.sim.dram.simple_kernels import dram_arrive
from npuviz.sim.network.simple_kernels import (
    LOW_MASK,
    NOC_ACTIVE,
    NOC_CAPACITY,
    NOC_LATENCY,
    NOC_LIVE,
    NOC_PERIOD,
    NOC_POOL,
    NOC_STRIDE,
    NOC_WAITING,
    allocate_node,
    bring_near,
    noc_grant,
    noc_push,
)
from npuviz.sim.parts.bits_kernels import fetch, inlined, trailing_zeros
from npuviz.sim.parts.watch_kernels import (
    COUNTER,
    INTERVAL,
    emit,
    is_recording,
    is_watched,
    watch_queue,
)
from npuviz.targets.systolic.kernels.program_records import (
    C_BASE,
    C_LEN,
    C_MODE,
    C_N0,
    C_N1,
    C_OFFSET,
    C_OP,
    C_S0,
    C_S1,
    CODE_WORDS,
    MODE_STEP,
    T_BASE,
    TILE_WORDS,
)
from npuviz.targets.systolic.kernels.records import (
    B_CODE,
    B_ENTRY,
    B_INDEX,
    B_TILE,
    BURST_WORDS,
    H_BURST_CAPACITY,
    H_BURSTS,
    H_BURSTS_WAITING,
    H_CHANNEL_MODULO,
    H_CHANNELS,
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_DOORS,
    H_DOORS_WAITING,
    H_DRAM,
    H_DRAM_KIND,
    H_DRAM_PERIOD,
    H_LOCAL_SHIFT,
    H_NOC,
    H_NOC_LAST,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_PORTS,
    H_READS,
    H_REPLY_NEXT,
    H_REQUEST_BYTES,
    H_REQUEST_SHIFT,
    H_SENDING,
    H_WRITES,
    H_WRITES_OUT,
    K_BURST_COUNT,
    K_BURST_HEAD,
    K_BURST_START,
    K_LOAD_BUSY,
    K_LOAD_END,
    K_REQUEST,
    K_REQUEST_END,
    K_REQUEST_I,
    K_REQUEST_J,
    K_REQUEST_LAST,
    K_STORE_BUSY,
    K_STORE_END,
    N_LEFT,
    P_CODE,
    P_HASH,
    P_TILES,
    QUEUE_REQUESTS,
    QUEUES_PER_CORE,
    TRACK_LD,
    TRACK_REQUESTS,
    TRACK_ST,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.replies import (
    STORE_FLAG,
    complete_fill,
    core_cycle_at,
    reply_cycles,
    serve_node,
)


@inlined
def channel_of(s, p, address):
    """DRAM channel of a byte address (hash tables made by npuviz.sim.dram.channel_hash)."""
    line = address >> s[H_REQUEST_SHIFT]
    table = p[P_HASH]
    channel = (
        p[table + (line & 127)] ^ p[table + 128 + ((line >> 7) & 127)] ^ p[table + 256 + ((line >> 14) & 127)]
    )
    modulo = s[H_CHANNEL_MODULO]
    return channel % modulo if modulo != 0 else channel


@inlined
def enter_row(s, p, k, burst, i, j, last):
    """Set the generator to row (i, j) of a burst, or to the first later row that has a new block.

    Sets K_REQUEST to -1 when no row is left.
    """
    row = p[P_CODE] + s[burst + B_CODE] * CODE_WORDS
    size = s[H_REQUEST_BYTES]
    base = p[p[P_TILES] + s[burst + B_TILE] * TILE_WORDS + T_BASE + p[row + C_BASE]] + p[row + C_OFFSET]
    length = p[row + C_LEN]
    while i < p[row + C_N0]:
        while j < p[row + C_N1]:
            begin = base + i * p[row + C_S0] + j * p[row + C_S1]
            first = begin & -size
            if p[row + C_MODE] == MODE_STEP:
                end = first + (length + size - 1) // size * size
            else:
                end = begin + length
            if first == last:
                first += size
            if first < end and length > 0:
                s[k + K_REQUEST] = first
                s[k + K_REQUEST_END] = end
                s[k + K_REQUEST_I] = i
                s[k + K_REQUEST_J] = j
                return
            j += 1
        j = 0
        i += 1
    s[k + K_REQUEST] = -1


@inlined
def finish_burst(s, p, x, ev, c, burst, now):
    """Drop the head burst, whose last request entered the network in core cycle `now`."""
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    count = s[k + K_BURST_COUNT]
    entry = s[burst + B_ENTRY]
    end_word = K_LOAD_END if entry != 0 else K_STORE_END
    start = s[k + K_BURST_START]
    if start < s[k + end_word]:
        start = s[k + end_word]
    end = now + 1
    if end > start:
        s[k + end_word] = end
        s[k + (K_LOAD_BUSY if entry != 0 else K_STORE_BUSY)] += end - start
        if is_recording(x):
            track = c * TRACKS_PER_CORE + (TRACK_LD if entry != 0 else TRACK_ST)
            op = p[p[P_CODE] + s[burst + B_CODE] * CODE_WORDS + C_OP]
            emit(x, ev, int64(INTERVAL), track, op, start, end, s[burst + B_INDEX])
    if entry != 0:
        complete_fill(s, c, entry, now + 1)
    s[k + K_BURST_HEAD] = (s[k + K_BURST_HEAD] + 1) & (s[H_BURST_CAPACITY] - 1)
    s[k + K_BURST_COUNT] = count - 1
    s[H_BURSTS_WAITING] -= 1
    if count == 1:
        s[s[H_SENDING] + (c >> 6)] &= ~(1 << (c & 63))
    if is_recording(x):
        emit(x, ev, int64(COUNTER), c * TRACKS_PER_CORE + TRACK_REQUESTS, int64(0), now, count - 1, int64(-1))
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_REQUESTS, count, count - 1, now)


@inlined
def place_node(s, noc, node, address):
    """Note in a request's node where in its channel it goes."""
    word = s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]
    s[word + NODE_ADDRESS] = (address >> s[H_LOCAL_SHIFT]) << s[H_REQUEST_SHIFT]


@inlined
def inject(s, p, x, ev, c, noc_cycle_index, now):
    """Let up to one request per port of core `c` enter the network."""
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    noc = s[H_NOC]
    ports = s[H_PORTS]
    size = s[H_REQUEST_BYTES]
    ring = s[H_BURSTS] + c * s[H_BURST_CAPACITY] * BURST_WORDS
    is_detailed = s[H_DRAM_KIND] == 1
    port = 0
    while port < ports and s[k + K_BURST_COUNT] > 0:
        burst = ring + s[k + K_BURST_HEAD] * BURST_WORDS
        entry = s[burst + B_ENTRY]
        if s[k + K_REQUEST] < 0:
            enter_row(s, p, k, burst, int64(0), int64(0), int64(-1))
            s[k + K_BURST_START] = now
        payload = entry if entry != 0 else STORE_FLAG | c
        address = s[k + K_REQUEST]
        end = s[k + K_REQUEST_END]
        taken = 0
        while address >= 0 and port < ports:
            node = noc_push(s, noc, c * ports + port, channel_of(s, p, address), payload, noc_cycle_index)
            if is_detailed:
                place_node(s, noc, node, address)
            taken += 1
            port += 1
            last = address
            address += size
            if address >= end:
                s[k + K_REQUEST_LAST] = last
                enter_row(s, p, k, burst, s[k + K_REQUEST_I], s[k + K_REQUEST_J] + 1, last)
                address = s[k + K_REQUEST]
                end = s[k + K_REQUEST_END]
        s[k + K_REQUEST] = address
        if entry != 0:
            s[entry + N_LEFT] += taken
            s[H_READS] += taken
        else:
            s[H_WRITES_OUT] += taken
            s[H_WRITES] += taken
        if address < 0:
            finish_burst(s, p, x, ev, c, burst, now)


@inlined
def stream_alone(s, p, x, ev, cycle, limit):
    """Requests of a network's only source: one a cycle, granted in the next one, without contention.

    Takes the rest of a row of the head burst, from NoC cycle `cycle` to before `limit`, in which
    nothing else happens; returns the cycle that follows the last one taken.
    """
    k = s[H_CORES]
    noc = s[H_NOC]
    dram = s[H_DRAM]
    size = s[H_REQUEST_BYTES]
    period = s[noc + NOC_PERIOD]
    burst = s[H_BURSTS] + s[k + K_BURST_HEAD] * BURST_WORDS
    entry = s[burst + B_ENTRY]
    if s[k + K_REQUEST] < 0:
        enter_row(s, p, k, burst, int64(0), int64(0), int64(-1))
        s[k + K_BURST_START] = core_cycle_at(s, cycle)
    payload = entry if entry != 0 else STORE_FLAG
    address = s[k + K_REQUEST]
    end = s[k + K_REQUEST_END]
    room = s[noc + NOC_CAPACITY] - s[noc + NOC_LIVE]
    if limit > cycle + room:
        limit = cycle + room
    now = cycle
    if address >= 0:
        while address < end and now < limit:
            dram_arrive(s, dram, (now + 2) * period)
            node = allocate_node(s, noc)
            s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] = payload
            serve_node(s, noc, channel_of(s, p, address), node)
            address += size
            now += 1
        s[k + K_REQUEST] = address
        if address >= end:
            last = address - size
            s[k + K_REQUEST_LAST] = last
            enter_row(s, p, k, burst, s[k + K_REQUEST_I], s[k + K_REQUEST_J] + 1, last)
    taken = now - cycle
    if entry != 0:
        s[entry + N_LEFT] += taken
        s[H_READS] += taken
    else:
        s[H_WRITES_OUT] += taken
        s[H_WRITES] += taken
    if s[k + K_REQUEST] < 0:
        finish_burst(s, p, x, ev, int64(0), burst, core_cycle_at(s, now - 1 if taken > 0 else now))
    return now


@inlined
def tick_behind(s, cycle):
    """First DRAM tick that sees what the DRAM is given in a NoC cycle."""
    return cycle * s[H_NOC_PERIOD] // s[H_DRAM_PERIOD] + 1


@inlined
def give(s, noc, channel, node, tick):
    """Put a request into a channel's front list, which has room."""
    address = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE] + NODE_ADDRESS]
    dram_offer(s, s[H_DRAM], channel, bring_near(s, noc, node), address, tick)


@inlined
def queue_at_door(s, noc, channel, node):
    """Append a node to those that wait at a channel."""
    door = s[H_DOORS] + 2 * channel
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    word = pool + node * stride
    s[word] = (NIL << 32) | (s[word] & LOW_MASK)
    if s[door] == NIL:
        s[door] = node
    else:
        last = pool + s[door + 1] * stride
        s[last] = (node << 32) | (s[last] & LOW_MASK)
    s[door + 1] = node
    s[H_DOORS_WAITING] += 1


@inlined
def take_from_door(s, noc, channel):
    """Remove the first node of those that wait at a channel."""
    door = s[H_DOORS] + 2 * channel
    following = s[s[noc + NOC_POOL] + s[door] * s[noc + NOC_STRIDE]] >> 32
    s[door] = following
    if following != NIL:
        # It has waited longer than caches keep it.
        fetch(s, s[noc + NOC_POOL] + following * s[noc + NOC_STRIDE])
    s[H_DOORS_WAITING] -= 1


@inlined
def grant_detailed(s, noc, cycle):
    """Every channel's node takes a waiting request, and hands it to the DRAM in the next cycle.

    While the front list has room now it has room then; else the request waits at the door.
    """
    tick = tick_behind(s, cycle + 1)
    active = s[s[noc + NOC_ACTIVE]]
    while active != 0:
        channel = trailing_zeros(active)
        active &= active - 1
        node = noc_grant(s, noc, channel, cycle)
        if node >= 0:
            door = s[H_DOORS] + 2 * channel
            if s[door] == NIL and dram_can_accept(s, s[H_DRAM], channel):
                give(s, noc, channel, node, tick)
            else:
                s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE] + NODE_TIME] = cycle + 1
                queue_at_door(s, noc, channel, node)


@inlined
def open_doors(s, noc, cycle):
    """Requests at the door enter, one a channel, where the front list has room again."""
    dram = s[H_DRAM]
    tick = tick_behind(s, cycle)
    for channel in range(s[H_CHANNELS]):
        door = s[H_DOORS] + 2 * channel
        node = s[door]
        if (
            node != NIL
            and dram_can_accept(s, dram, channel)
            and s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE] + NODE_TIME] <= cycle
        ):
            take_from_door(s, noc, channel)
            give(s, noc, channel, node, tick)


@inlined
def serve_channels(s, noc, cycle):
    """Every channel's node with waiting requests takes one."""
    if s[H_DRAM_KIND] == 1:
        grant_detailed(s, noc, cycle)
        return
    dram_arrive(s, s[H_DRAM], (cycle + 1) * s[noc + NOC_PERIOD])
    active = s[s[noc + NOC_ACTIVE]]
    while active != 0:
        channel = trailing_zeros(active)
        active &= active - 1
        node = noc_grant(s, noc, channel, cycle)
        if node >= 0:
            serve_node(s, noc, channel, node)


@inlined
def noc_cycle(s, p, x, ev, cycle, now):
    """One cycle of the network, in core cycle `now`.

    With latency 1 what enters in this cycle cannot be granted in it, and the order of the two halves
    is free; ready times that are kept (other latencies) depend on it.
    """
    noc = s[H_NOC]
    late = s[noc + NOC_LATENCY] != 1
    if s[H_DOORS_WAITING] > 0:
        open_doors(s, noc, cycle)
    if not late and s[noc + NOC_WAITING] > 0:
        serve_channels(s, noc, cycle)
    if s[H_BURSTS_WAITING] > 0:
        for part in range((s[H_CORES_COUNT] + 63) >> 6):
            sending = s[s[H_SENDING] + part]
            while sending != 0:
                inject(s, p, x, ev, 64 * part + trailing_zeros(sending), cycle, now)
                sending &= sending - 1
    if late and s[noc + NOC_WAITING] > 0:
        serve_channels(s, noc, cycle)
    if s[H_REPLY_NEXT] <= cycle:
        reply_cycles(s, noc, cycle)
    s[H_NOC_LAST] = cycle
    is_waiting = s[H_BURSTS_WAITING] > 0 or s[noc + NOC_WAITING] > 0
    s[H_NOC_NEXT] = cycle + 1 if is_waiting else s[H_REPLY_NEXT]
    if s[H_DOORS_WAITING] > 0 and not is_waiting:
        # A front list has room again after a tick of the DRAM at the earliest.
        dram = s[H_DRAM]
        following = (s[dram + DC_NEXT] * s[H_DRAM_PERIOD] + s[H_NOC_PERIOD] - 1) // s[H_NOC_PERIOD]
        if following <= cycle:
            following = cycle + 1
        if following < s[H_NOC_NEXT]:
            s[H_NOC_NEXT] = following


@inlined
def lone_cycles(s, p, x, ev, cycle, limit):
    """NoC cycles from `cycle` to before `limit` where the network has one source."""
    noc = s[H_NOC]
    now = cycle
    reply = s[H_REPLY_NEXT]
    if s[H_BURSTS_WAITING] > 0:
        # The cycle of a response is the last one taken: cores must not run past what it tells them.
        stop = limit if limit <= reply else reply + 1
        now = stream_alone(s, p, x, ev, cycle, stop if stop > cycle else cycle + 1)
    elif reply == cycle:
        now = cycle + 1
    if reply < now:
        reply_cycles(s, noc, reply)
    s[H_NOC_LAST] = now - 1
    s[H_NOC_NEXT] = now if s[H_BURSTS_WAITING] > 0 else s[H_REPLY_NEXT]
