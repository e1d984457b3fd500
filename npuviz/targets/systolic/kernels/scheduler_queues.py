"""The queues of the run-time schedulers: ready layers of each request, tiles of each core or request.

See `requests_kernels`, which fills and empties them. They are words of the block that H_SCHED names.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.systolic.kernels.program_records import (
    L_FIRST_TILE,
    L_HOST_CYCLES,
    L_NUM_TILES,
    LAYER_WORDS,
    T_ACCUMULATE,
    T_CORE,
    TILE_WORDS,
)
from npuviz.targets.systolic.kernels.records import (
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_HOST_UNTIL,
    H_SCHED,
    H_TRUE_MODE,
    H_WAKES,
    K_NEXT_TILE,
    P_LAYERS,
    P_PARTITION,
    P_TILES,
    PARTITION_MEMBERS,
    PARTITION_PLACE,
    PARTITION_SIZE,
    PARTITION_WORDS,
    Q_COUNT,
    Q_DEALT,
    Q_KIND,
    Q_LAYERS,
    Q_NEXT,
    Q_OWN,
    Q_QUEUE,
    Q_QUEUED,
    Q_READY,
    Q_REQUESTS,
    Q_STARTED,
    Q_TAILS,
    REQUEST_WORDS,
    RUN_LAYER_WORDS,
    SCHED_SPATIAL,
    V_NEXT,
    V_REQUEST,
    W_READY_HEAD,
    W_READY_TAIL,
    W_TILE_HEAD,
)


@inlined
def wake_core(s, c, t, after):
    """Let core `c` look in cycle `t`, or in the next one if its turn in this cycle is over."""
    word = s[H_WAKES] + c
    wake = t if c > after else t + 1
    if s[word] > wake:
        s[word] = wake


# --- ready layers -----------------------------------------------------------------------------------


@kernel
def append_ready(s, layer):
    """Put a layer at the end of its request's ready list."""
    q = s[H_SCHED]
    word = s[q + Q_LAYERS] + layer * RUN_LAYER_WORDS
    request = s[q + Q_REQUESTS] + s[word + V_REQUEST] * REQUEST_WORDS
    s[word + V_NEXT] = -1
    if s[request + W_READY_HEAD] < 0:
        s[request + W_READY_HEAD] = layer
    else:
        s[s[q + Q_LAYERS] + s[request + W_READY_TAIL] * RUN_LAYER_WORDS + V_NEXT] = layer
    s[request + W_READY_TAIL] = layer
    s[q + Q_READY] += 1


@inlined
def offers(s, p, index):
    """The layer that a request can start now, -1 if none: the Host does one thing at a time."""
    q = s[H_SCHED]
    layer = s[s[q + Q_REQUESTS] + index * REQUEST_WORDS + W_READY_HEAD]
    if layer >= 0 and s[H_HOST_UNTIL] >= 0 and p[p[P_LAYERS] + layer * LAYER_WORDS + L_HOST_CYCLES] > 0:
        return -1
    return layer


@kernel
def take_layer(s, p, index):
    """The first ready layer of a request, taken from its list; -1 if it offers none."""
    layer = offers(s, p, index)
    if layer >= 0:
        q = s[H_SCHED]
        request = s[q + Q_REQUESTS] + index * REQUEST_WORDS
        s[request + W_READY_HEAD] = s[s[q + Q_LAYERS] + layer * RUN_LAYER_WORDS + V_NEXT]
        s[q + Q_READY] -= 1
    return layer


# --- tile queues ------------------------------------------------------------------------------------


@kernel
def enqueue(s, c, tile, t, after):
    """Put a tile at the end of a core's own queue."""
    q = s[H_SCHED]
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    following = s[q + Q_NEXT]
    tail = s[q + Q_TAILS] + c
    s[following + tile] = -1
    if s[s[q + Q_OWN] + c] > 0:
        s[following + s[tail]] = tile
    else:
        s[k + K_NEXT_TILE] = tile
    s[tail] = tile
    s[s[q + Q_OWN] + c] += 1
    s[q + Q_QUEUED] += 1
    wake_core(s, c, t, after)


@kernel
def deal(s, p, layer, core, t, after):
    """Deal the tiles of a layer: over all cores, or over the partition of `core` from its place on."""
    q = s[H_SCHED]
    row = p[P_LAYERS] + layer * LAYER_WORDS
    first = p[row + L_FIRST_TILE]
    count = s[H_CORES_COUNT]
    offset = 0
    members = -1
    if core >= 0:
        partition = p[P_PARTITION] + core * PARTITION_WORDS
        offset = p[partition + PARTITION_PLACE]
        count = p[partition + PARTITION_SIZE]
        members = p[P_PARTITION] + p[partition + PARTITION_MEMBERS]
    for tile in range(first, first + p[row + L_NUM_TILES]):
        preset = p[p[P_TILES] + tile * TILE_WORDS + T_CORE]
        if preset < 0:
            place = offset + s[q + Q_DEALT]
            s[q + Q_DEALT] += 1
        else:
            place = preset + s[q + Q_STARTED]
        place %= count
        enqueue(s, p[members + place] if members >= 0 else place, tile, t, after)


@kernel
def share_tiles(s, t, after):
    """Show every core without tiles of its own the head of the list it draws from (spatial_split)."""
    q = s[H_SCHED]
    count = s[q + Q_COUNT]
    for c in range(s[H_CORES_COUNT]):
        if s[s[q + Q_OWN] + c] > 0:
            continue
        k = s[H_CORES] + c * s[H_CORE_WORDS]
        head = -1
        if count > 0:
            index = s[s[q + Q_QUEUE] + c % count]
            head = s[s[q + Q_REQUESTS] + index * REQUEST_WORDS + W_TILE_HEAD]
        s[k + K_NEXT_TILE] = head
        if head >= 0:
            wake_core(s, c, t, after)


@kernel
def draw_group(s, p, c, k, t):
    """Move the head of a request's list, with all that continues its accumulation, to the core's queue."""
    q = s[H_SCHED]
    index = s[s[q + Q_QUEUE] + c % s[q + Q_COUNT]]
    request = s[q + Q_REQUESTS] + index * REQUEST_WORDS
    following = s[q + Q_NEXT]
    tile = s[request + W_TILE_HEAD]
    more = True
    while more:
        after = s[following + tile]
        s[q + Q_QUEUED] -= 1
        enqueue(s, c, tile, t, int64(-1))
        tile = after
        # Flaw F21: ONNXim scatters the tiles of an accumulation.
        more = tile >= 0 and s[H_TRUE_MODE] == 1 and p[p[P_TILES] + tile * TILE_WORDS + T_ACCUMULATE] == 1
    s[request + W_TILE_HEAD] = tile


@kernel
def next_tile(s, p, c, k, t):
    """Take the head of the queue of core `c`, which is not empty."""
    q = s[H_SCHED]
    is_spatial = s[q + Q_KIND] == SCHED_SPATIAL
    if is_spatial and s[s[q + Q_OWN] + c] == 0:
        draw_group(s, p, c, k, t)
    tile = s[k + K_NEXT_TILE]
    s[k + K_NEXT_TILE] = s[s[q + Q_NEXT] + tile]
    s[s[q + Q_OWN] + c] -= 1
    s[q + Q_QUEUED] -= 1
    if is_spatial:
        share_tiles(s, t, c)
    return tile
