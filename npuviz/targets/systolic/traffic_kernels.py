"""Requests on their way: from a core's burst list through network and DRAM and back.

One call of `noc_cycle` is one cycle of the network clock. A request's way back is computed at the
moment the DRAM takes it, because simple DRAM keeps its order and its delay: where each port hears
one channel only, even the delivery is known then, and nothing else has to happen for this request.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.dram_kernels import D_PERIOD, dram_accept, dram_arrive, dram_first_cycle
from npuviz.sim.parts.interconnect_kernels import (
    LOW_MASK,
    NOC_ACTIVE,
    NOC_CAPACITY,
    NOC_LATENCY,
    NOC_LIVE,
    NOC_PERIOD,
    NOC_POOL,
    NOC_STRIDE,
    NOC_WAITING,
    NONE,
    allocate_node,
    free_node,
    noc_grant,
    noc_push,
)
from npuviz.targets.systolic.state_kernels import (
    B_CODE,
    B_ENTRY,
    B_INDEX,
    B_TILE,
    BURST_WORDS,
    FAR,
    H_BURST_CAPACITY,
    H_BURSTS,
    H_BURSTS_WAITING,
    H_CHANNEL_MODULO,
    H_CHANNELS,
    H_CORE_PERIOD,
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_DRAM,
    H_LAST_ACK,
    H_NOC,
    H_NOC_LAST,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_NOC_SHIFT,
    H_PORTS,
    H_READS,
    H_REPLIES,
    H_REPLY_NEXT,
    H_REPLY_QUEUED,
    H_REPLY_TURNS,
    H_REPLY_WAITING,
    H_REQUEST_BYTES,
    H_REQUEST_SHIFT,
    H_WAKE,
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
    K_WAKE,
    N_CORE,
    N_LEFT,
    N_VALID,
    P_CODE,
    P_HASH,
    P_TILES,
    QUEUE_REQUESTS,
    QUEUES_PER_CORE,
    REPLY_WORDS,
    TRACK_LD,
    TRACK_REQUESTS,
    TRACK_ST,
    TRACKS_PER_CORE,
    Y_HEAD,
    Y_LAST,
    Y_PENDING,
    Y_READY,
    Y_TAIL,
)
from npuviz.targets.systolic.tables_kernels import (
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
from npuviz.targets.systolic.watch_kernels import (
    COUNTER,
    INTERVAL,
    emit,
    is_recording,
    is_watched,
    watch_queue,
)

STORE_FLAG = 1 << 31  # payload of a store: this bit and the core; of a load: the word of its entry


@inlined
def channel_of(s, p, address):
    """DRAM channel of a byte address (hash tables made by npuviz.sim.parts.channel_hash)."""
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
def complete_fill(s, k, entry, cycle):
    """Remove one outstanding fill; the entry cannot be valid before `cycle`. Wakes the core."""
    s[entry + N_LEFT] -= 1
    if s[entry + N_VALID] < cycle:
        s[entry + N_VALID] = cycle
    if s[entry + N_LEFT] == 0 and s[k + K_WAKE] > s[entry + N_VALID]:
        s[k + K_WAKE] = s[entry + N_VALID]
        if s[H_WAKE] > s[entry + N_VALID]:
            s[H_WAKE] = s[entry + N_VALID]


@kernel
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
        complete_fill(s, k, entry, now + 1)
    s[k + K_BURST_HEAD] = (s[k + K_BURST_HEAD] + 1) & (s[H_BURST_CAPACITY] - 1)
    s[k + K_BURST_COUNT] = count - 1
    s[H_BURSTS_WAITING] -= 1
    if is_recording(x):
        emit(x, ev, int64(COUNTER), c * TRACKS_PER_CORE + TRACK_REQUESTS, int64(0), now, count - 1, int64(-1))
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_REQUESTS, count, count - 1, now)


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
        complete_fill(s, s[H_CORES] + c * s[H_CORE_WORDS], payload, seen)
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
    if s[H_REPLY_NEXT] > enters:
        s[H_REPLY_NEXT] = enters if s[noc + NOC_LATENCY] != 1 else enters + 1


@inlined
def serve_node(s, noc, channel, node):
    """Pass a granted request through DRAM, and send its response off."""
    dram = s[H_DRAM]
    payload = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] & LOW_MASK
    is_read = payload & STORE_FLAG == 0
    enters = dram_accept(s, dram, channel, not is_read)
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
def inject(s, p, x, ev, c, noc_cycle_index, now):
    """Let up to one request per port of core `c` enter the network."""
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    noc = s[H_NOC]
    ports = s[H_PORTS]
    size = s[H_REQUEST_BYTES]
    ring = s[H_BURSTS] + c * s[H_BURST_CAPACITY] * BURST_WORDS
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
            noc_push(s, noc, c * ports + port, channel_of(s, p, address), payload, noc_cycle_index)
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


@kernel
def _port_grant(s, noc, c, port, cycle):
    """One port takes the response of the next channel in rotation that is ready."""
    channels = s[H_CHANNELS]
    ports = s[H_PORTS]
    turn = s[H_REPLY_TURNS] + c * ports + port
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    for offset in range(channels):
        channel = s[turn] + offset
        if channel >= channels:
            channel -= channels
        if channel % ports != port:
            continue
        reply = s[H_REPLIES] + (c * channels + channel) * REPLY_WORDS
        node = s[reply + Y_HEAD]
        if node == NONE or node == s[reply + Y_PENDING]:
            continue
        if s[pool + node * stride + 1] > cycle:
            continue
        payload = s[pool + node * stride] & LOW_MASK
        following = s[pool + node * stride] >> 32
        s[reply + Y_HEAD] = following
        if following == NONE:
            s[reply + Y_TAIL] = NONE
        s[turn] = channel + 1 if channel + 1 < channels else 0
        free_node(s, noc, node)
        s[H_REPLY_WAITING] -= 1
        deliver(s, payload, c, cycle + 1)
        return


@kernel
def enter_replies(s, noc, cycle):
    """Give the responses that enter the network in `cycle` their ready time by the FIFO rule."""
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    latency = s[noc + NOC_LATENCY]
    for pair in range(s[H_CORES_COUNT] * s[H_CHANNELS]):
        reply = s[H_REPLIES] + pair * REPLY_WORDS
        node = s[reply + Y_PENDING]
        if node == NONE:
            continue
        if s[pool + node * stride + 1] <= cycle:
            ready = cycle + latency if s[reply + Y_HEAD] == node else s[reply + Y_READY] + 1
            s[reply + Y_READY] = ready
            s[pool + node * stride + 1] = ready
            s[reply + Y_PENDING] = s[pool + node * stride] >> 32


@kernel
def next_reply(s, noc):
    """NoC cycle in which the next queued response enters the network or may be taken, FAR if none."""
    upcoming = FAR
    if s[H_REPLY_WAITING] > 0:
        pool = s[noc + NOC_POOL]
        stride = s[noc + NOC_STRIDE]
        for pair in range(s[H_CORES_COUNT] * s[H_CHANNELS]):
            node = s[s[H_REPLIES] + pair * REPLY_WORDS + Y_HEAD]
            if node != NONE and s[pool + node * stride + 1] < upcoming:
                upcoming = s[pool + node * stride + 1]
    return upcoming


@kernel
def known_until(s, noc, cycle):
    """Last NoC cycle whose responses are all known in `cycle`: later requests cannot return earlier."""
    dram = s[H_DRAM]
    period = s[noc + NOC_PERIOD]
    leave = dram_first_cycle(s, dram, (cycle + 2) * period)
    return (leave * s[dram + D_PERIOD] + period - 1) // period


@kernel
def reply_cycles(s, noc, cycle):
    """The reply network where channels share ports, from `cycle` on as far as it is known.

    Each port takes one response a cycle. A core learns early at which cycle an entry will be
    valid, exactly as it does where ports are not shared. Sets H_REPLY_NEXT.
    """
    horizon = known_until(s, noc, cycle) if s[noc + NOC_LATENCY] == 1 else cycle
    now = cycle
    while now <= horizon:
        if s[noc + NOC_LATENCY] != 1:
            enter_replies(s, noc, now)
        for c in range(s[H_CORES_COUNT]):
            for port in range(s[H_PORTS]):
                _port_grant(s, noc, c, port, now)
        upcoming = next_reply(s, noc)
        now = upcoming if upcoming > now else now + 1
    s[H_REPLY_NEXT] = now


@inlined
def serve_channels(s, noc, cycle):
    """Every channel's node with waiting requests takes one."""
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
    if not late and s[noc + NOC_WAITING] > 0:
        serve_channels(s, noc, cycle)
    if s[H_BURSTS_WAITING] > 0:
        for c in range(s[H_CORES_COUNT]):
            if s[s[H_CORES] + c * s[H_CORE_WORDS] + K_BURST_COUNT] > 0:
                inject(s, p, x, ev, c, cycle, now)
    if late and s[noc + NOC_WAITING] > 0:
        serve_channels(s, noc, cycle)
    if s[H_REPLY_NEXT] <= cycle:
        reply_cycles(s, noc, cycle)
    s[H_NOC_LAST] = cycle
    is_waiting = s[H_BURSTS_WAITING] > 0 or s[noc + NOC_WAITING] > 0
    s[H_NOC_NEXT] = cycle + 1 if is_waiting else s[H_REPLY_NEXT]


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
