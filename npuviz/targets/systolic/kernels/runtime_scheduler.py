"""Schedulers that decide while the chip runs: several requests at once, layers side by side.

Ref: systolic.md section 4. A request is a launch of the program tables; its layers become ready when the
layers they wait for have ended. Unlike under `simple`, who runs which tile depends on time, so tile queues,
ready lists and the queue of requests are part of the state: a block of words that H_SCHED names.

time_multiplex  when no tile waits on any core, the next request in rotation offers its first ready layer
partition_cpu   a core without waiting tiles lets the first request of its partition offer one
spatial_split   a request has one list of tiles; core c draws from request (c mod number of requests)

Parity: a core that may take a tile and has none asks the scheduler in every cycle, and each question turns
the rotation of `time_multiplex` by one, whether or not it finds work. Cycles that are skipped are counted.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import (
    INTERVAL,
    STOP_NODE_END,
    STOP_NODE_START,
    emit,
    is_recording,
    is_watched,
    watch_subject,
)
from npuviz.targets.systolic.kernels.program_records import (
    A_DELAY,
    A_EARLIEST,
    A_FIRST_LAYER,
    A_NUM_LAYERS,
    A_PARTITION,
    L_FIRST_TILE,
    L_HOST_CYCLES,
    L_INSTRUCTION,
    L_NODE,
    L_NUM_TILES,
    LAUNCH_WORDS,
    LAYER_WORDS,
    OP_HOST,
    T_COUNT,
    T_FIRST,
    TILE_WORDS,
)
from npuviz.targets.systolic.kernels.records import (
    FAR,
    H_CORE_WORDS,
    H_CORES,
    H_CORES_COUNT,
    H_HOST_BUSY,
    H_HOST_UNTIL,
    H_LAST_BUSY,
    H_LAUNCH,
    H_LAUNCH_AT,
    H_LAUNCHES_TOTAL,
    H_LAYERS_DONE,
    H_LAYERS_LEFT,
    H_SCHED,
    H_SCHEDULER_WAKE,
    H_TIMES,
    K_NEXT_TILE,
    K_TILES,
    KIND_OPERATOR,
    P_EDGES,
    P_EDGES_AT,
    P_LAUNCHES,
    P_LAYERS,
    P_PARTITION,
    P_TILES,
    PARTITION_ID,
    PARTITION_WORDS,
    Q_COUNT,
    Q_HOST_LAYER,
    Q_KIND,
    Q_LANES,
    Q_LAYERS,
    Q_NEXT,
    Q_NUM_LANES,
    Q_POLLED,
    Q_QUEUE,
    Q_QUEUED,
    Q_READY,
    Q_REQUESTS,
    Q_STARTED,
    Q_TURN,
    REQUEST_WORDS,
    RUN_LAYER_WORDS,
    SCHED_MULTIPLEX,
    SCHED_PARTITION,
    SCHED_SPATIAL,
    TRACK_HOST,
    TRACK_OPERATORS,
    TRACKS_PER_CORE,
    V_LANE,
    V_LEFT,
    V_MISSING,
    V_REQUEST,
    W_LEFT,
    W_TILE_HEAD,
    W_TILE_TAIL,
)
from npuviz.targets.systolic.kernels.scheduler_queues import (
    append_ready,
    deal,
    offers,
    share_tiles,
    take_layer,
)

# --- layers -----------------------------------------------------------------------------------------


@kernel
def open_layer(s, p, x, layer, core, t, after):
    """Start a layer in cycle `t`; `core` names the partition that runs it, -1: all cores."""
    q = s[H_SCHED]
    row = p[P_LAYERS] + layer * LAYER_WORDS
    word = s[q + Q_LAYERS] + layer * RUN_LAYER_WORDS
    s[q + Q_STARTED] += 1
    s[word + V_LEFT] = p[row + L_NUM_TILES]
    s[word + V_LANE] = -1
    for lane in range(s[q + Q_NUM_LANES]):
        if s[s[q + Q_LANES] + lane] < 0:
            s[s[q + Q_LANES] + lane] = layer
            s[word + V_LANE] = lane
            break
    s[s[H_TIMES] + 2 * layer] = t
    if is_watched(x):
        watch_subject(x, int64(STOP_NODE_START), p[row + L_NODE], int64(0), int64(0), t)
    if p[row + L_HOST_CYCLES] > 0:
        s[H_HOST_UNTIL] = t + p[row + L_HOST_CYCLES]
        s[H_HOST_BUSY] += p[row + L_HOST_CYCLES]
        s[q + Q_HOST_LAYER] = layer
        return
    if s[q + Q_KIND] != SCHED_SPATIAL:
        deal(s, p, layer, core, t, after)
        return
    request = s[q + Q_REQUESTS] + s[word + V_REQUEST] * REQUEST_WORDS
    first, count = p[row + L_FIRST_TILE], p[row + L_NUM_TILES]
    for tile in range(first, first + count):
        s[s[q + Q_NEXT] + tile] = tile + 1
    s[s[q + Q_NEXT] + first + count - 1] = -1
    s[request + W_TILE_HEAD] = first
    s[request + W_TILE_TAIL] = first + count - 1
    s[q + Q_QUEUED] += count


@kernel
def refresh_multiplex(s, p, x, t, after):
    """One step of the rotation, if no tile waits on any core."""
    q = s[H_SCHED]
    if s[q + Q_QUEUED] > 0:
        return
    s[q + Q_TURN] = (s[q + Q_TURN] + 1) % s[q + Q_COUNT]
    layer = take_layer(s, p, s[s[q + Q_QUEUE] + s[q + Q_TURN]])
    if layer >= 0:
        open_layer(s, p, x, layer, int64(-1), t, after)


@kernel
def first_of_partition(s, p, partition):
    """The first request in the queue of a partition, -1 if none."""
    q = s[H_SCHED]
    for place in range(s[q + Q_COUNT]):
        index = s[s[q + Q_QUEUE] + place]
        if p[p[P_LAUNCHES] + index * LAUNCH_WORDS + A_PARTITION] == partition:
            return index
    return -1


@kernel
def refresh_partition(s, p, x, t, after):
    """Every core without waiting tiles asks the first request of its partition."""
    for c in range(s[H_CORES_COUNT]):
        if s[s[H_CORES] + c * s[H_CORE_WORDS] + K_NEXT_TILE] >= 0:
            continue
        index = first_of_partition(s, p, p[p[P_PARTITION] + c * PARTITION_WORDS + PARTITION_ID])
        if index < 0:
            continue
        layer = take_layer(s, p, index)
        if layer >= 0:
            open_layer(s, p, x, layer, c, t, after)


@kernel
def refresh_spatial(s, p, x, t, after):
    """Every request without waiting tiles starts its next ready layer."""
    q = s[H_SCHED]
    for place in range(s[q + Q_COUNT]):
        index = s[s[q + Q_QUEUE] + place]
        if s[s[q + Q_REQUESTS] + index * REQUEST_WORDS + W_TILE_HEAD] < 0:
            layer = take_layer(s, p, index)
            if layer >= 0:
                open_layer(s, p, x, layer, int64(-1), t, after)
    share_tiles(s, t, after)


@kernel
def refresh(s, p, x, t, after):
    """Start what can be started now. Cores behind `after` see it in cycle `t`, the others in the next."""
    q = s[H_SCHED]
    kind = s[q + Q_KIND]
    if s[q + Q_COUNT] == 0:
        if kind == SCHED_SPATIAL:
            share_tiles(s, t, after)
        return
    if kind == SCHED_MULTIPLEX:
        refresh_multiplex(s, p, x, t, after)
    elif kind == SCHED_PARTITION:
        refresh_partition(s, p, x, t, after)
    else:
        refresh_spatial(s, p, x, t, after)


@kernel
def record_layer(s, p, x, ev, layer, lane, start, t):
    """Emit the interval of a layer that ends in cycle `t` on the track of its lane."""
    row = p[P_LAYERS] + layer * LAYER_WORDS
    tracks = s[H_CORES_COUNT] * TRACKS_PER_CORE
    instruction = p[row + L_INSTRUCTION]
    if p[row + L_HOST_CYCLES] > 0:
        emit(x, ev, int64(INTERVAL), tracks + TRACK_HOST, int64(OP_HOST), start, t, instruction)
    else:
        tile = p[P_TILES] + p[row + L_FIRST_TILE] * TILE_WORDS
        instruction = p[tile + T_FIRST] if p[tile + T_COUNT] > 0 else -1
    if lane >= 0 and t > start:
        track = tracks + (TRACK_OPERATORS if lane == 0 else TRACK_HOST + lane)
        emit(x, ev, int64(INTERVAL), track, int64(KIND_OPERATOR), start, t, instruction)


@kernel
def close_layer(s, p, x, ev, layer, t):
    """A layer ends in cycle `t`: its consumers may become ready, its request may leave the queue."""
    q = s[H_SCHED]
    word = s[q + Q_LAYERS] + layer * RUN_LAYER_WORDS
    lane = s[word + V_LANE]
    start = s[s[H_TIMES] + 2 * layer]
    if is_recording(x):
        record_layer(s, p, x, ev, layer, lane, start, t)
    if lane >= 0:
        s[s[q + Q_LANES] + lane] = -1
    if is_watched(x):
        node = p[p[P_LAYERS] + layer * LAYER_WORDS + L_NODE]
        watch_subject(x, int64(STOP_NODE_END), node, int64(0), int64(0), t)
    s[s[H_TIMES] + 2 * layer + 1] = t
    s[H_LAYERS_DONE] += 1
    s[H_LAYERS_LEFT] -= 1
    s[H_LAST_BUSY] = t
    for edge in range(p[p[P_EDGES_AT] + layer], p[p[P_EDGES_AT] + layer + 1]):
        consumer = p[p[P_EDGES] + edge]
        waiting = s[q + Q_LAYERS] + consumer * RUN_LAYER_WORDS
        s[waiting + V_MISSING] -= 1
        if s[waiting + V_MISSING] == 0:
            append_ready(s, consumer)
    index = s[word + V_REQUEST]
    request = s[q + Q_REQUESTS] + index * REQUEST_WORDS
    s[request + W_LEFT] -= 1
    if s[request + W_LEFT] == 0:
        remove_request(s, p, index, t)


@kernel
def remove_request(s, p, index, t):
    """Take a finished request out of the queue; the one that waits for its end may come now."""
    q = s[H_SCHED]
    queue = s[q + Q_QUEUE]
    place = 0
    while s[queue + place] != index:
        place += 1
    count = s[q + Q_COUNT] - 1
    s[q + Q_COUNT] = count
    for later in range(place, count):
        s[queue + later] = s[queue + later + 1]
    if index + 1 == s[H_LAUNCH] and s[H_LAUNCH] < s[H_LAUNCHES_TOTAL]:
        launch = p[P_LAUNCHES] + s[H_LAUNCH] * LAUNCH_WORDS
        if p[launch + A_DELAY] > 0:
            at = t + p[launch + A_DELAY]
            s[H_LAUNCH_AT] = at if at > p[launch + A_EARLIEST] else p[launch + A_EARLIEST]


@kernel
def end_of_tile(s, p, x, ev, layer, c, t):
    """Core `c` reports a tile of a layer in cycle `t`."""
    word = s[s[H_SCHED] + Q_LAYERS] + layer * RUN_LAYER_WORDS
    s[word + V_LEFT] -= 1
    if s[word + V_LEFT] == 0:
        close_layer(s, p, x, ev, layer, t)
    refresh(s, p, x, t, c)


# --- cycles -----------------------------------------------------------------------------------------


@kernel
def idle_cores(s):
    """Cores that ask for a tile in every cycle while none waits for them."""
    count = 0
    for c in range(s[H_CORES_COUNT]):
        k = s[H_CORES] + c * s[H_CORE_WORDS]
        if s[k + K_TILES] < 2 and s[k + K_NEXT_TILE] < 0:
            count += 1
    return count


@kernel
def count_polls(s, t):
    """Turn the rotation by the questions of the cycles that were skipped before cycle `t`."""
    q = s[H_SCHED]
    skipped = t - s[q + Q_POLLED] - 1
    s[q + Q_POLLED] = t
    if skipped > 0 and s[q + Q_KIND] == SCHED_MULTIPLEX and s[q + Q_COUNT] > 0 and s[q + Q_QUEUED] == 0:
        s[q + Q_TURN] = (s[q + Q_TURN] + skipped % s[q + Q_COUNT] * idle_cores(s)) % s[q + Q_COUNT]


@kernel
def poll(s, p, x, c, t):
    """Core `c` asks for a tile and has none waiting. Ref: section 3, step 4c."""
    q = s[H_SCHED]
    if s[q + Q_COUNT] > 0 and s[q + Q_KIND] != SCHED_SPATIAL:
        refresh(s, p, x, t, c)


@kernel
def admit(s, p, x, t):
    """Requests whose time has come join the queue, each with a look for work."""
    q = s[H_SCHED]
    while s[H_LAUNCH] < s[H_LAUNCHES_TOTAL] and s[H_LAUNCH_AT] <= t:
        index = s[H_LAUNCH]
        launch = p[P_LAUNCHES] + index * LAUNCH_WORDS
        request = s[q + Q_REQUESTS] + index * REQUEST_WORDS
        s[s[q + Q_QUEUE] + s[q + Q_COUNT]] = index
        s[q + Q_COUNT] += 1
        first, count = p[launch + A_FIRST_LAYER], p[launch + A_NUM_LAYERS]
        s[request + W_LEFT] = count
        s[H_LAYERS_LEFT] += count
        for layer in range(first, first + count):
            word = s[q + Q_LAYERS] + layer * RUN_LAYER_WORDS
            s[word + V_REQUEST] = index
            if s[word + V_MISSING] == 0:
                append_ready(s, layer)
        s[H_LAUNCH] = index + 1
        s[H_LAUNCH_AT] = FAR
        if index + 1 < s[H_LAUNCHES_TOTAL] and p[launch + LAUNCH_WORDS + A_DELAY] == 0:
            s[H_LAUNCH_AT] = p[launch + LAUNCH_WORDS + A_EARLIEST]
        refresh(s, p, x, t, int64(-1))


@kernel
def begin_cycle(s, p, x, ev, t):
    """What happens at the start of core cycle `t`, before the cores."""
    if s[H_HOST_UNTIL] >= 0 and s[H_HOST_UNTIL] <= t:
        s[H_HOST_UNTIL] = -1
        close_layer(s, p, x, ev, s[s[H_SCHED] + Q_HOST_LAYER], t)
        refresh(s, p, x, t, int64(-1))
    admit(s, p, x, t)


@kernel
def has_offer(s, p):
    """Whether a question in the next cycle may find a layer to start."""
    q = s[H_SCHED]
    kind = s[q + Q_KIND]
    if s[q + Q_READY] == 0 or kind == SCHED_SPATIAL or idle_cores(s) == 0:
        return False
    if kind == SCHED_MULTIPLEX:
        if s[q + Q_QUEUED] > 0:
            return False
        found = False
        for place in range(s[q + Q_COUNT]):
            found = found or offers(s, p, s[s[q + Q_QUEUE] + place]) >= 0
        return found
    for c in range(s[H_CORES_COUNT]):
        if s[s[H_CORES] + c * s[H_CORE_WORDS] + K_NEXT_TILE] < 0:
            index = first_of_partition(s, p, p[p[P_PARTITION] + c * PARTITION_WORDS + PARTITION_ID])
            if index >= 0 and offers(s, p, index) >= 0:
                return True
    return False


@kernel
def end_cycle(s, p, t):
    """Set the scheduler's wake-up after core cycle `t`."""
    wake = s[H_LAUNCH_AT]
    if s[H_HOST_UNTIL] >= 0 and s[H_HOST_UNTIL] < wake:
        wake = s[H_HOST_UNTIL]
    if wake > t + 1 and has_offer(s, p):
        wake = t + 1
    s[H_SCHEDULER_WAKE] = wake if wake > t else t + 1
