"""Handing tiles to cores; the `simple` scheduler: one launch and one layer at a time, tiles dealt to cores.

Which core runs which tile is known before the run (the layer order does not depend on time), so the
core queues are linked lists in the program words. The other schedulers are in `requests_kernels`.
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
    L_ACC_ENTRIES,
    L_FIRST_TILE,
    L_HOST_CYCLES,
    L_INSTRUCTION,
    L_NODE,
    L_NUM_TILES,
    L_SPAD_ENTRIES,
    LAUNCH_WORDS,
    LAYER_WORDS,
    OP_HOST,
    T_ACCUMULATE,
    T_CODE,
    T_COUNT,
    T_FIRST,
    T_FUSED,
    T_LAYER,
    T_SKIP,
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
    H_LAYER,
    H_LAYER_LEFT,
    H_LAYER_START,
    H_LAYERS_DONE,
    H_LAYERS_LEFT,
    H_NEXT_LAYER,
    H_SCHED,
    H_SCHEDULER_WAKE,
    H_TILE_DONE,
    H_TILES_DONE,
    H_TIMES,
    H_TRUE_MODE,
    K_FINISHED,
    K_FINISHED_RING,
    K_HALF_ENTRIES,
    K_LAST_ACC,
    K_LAST_FUSED,
    K_LAST_LAYER,
    K_NEXT_TILE,
    K_ORDER,
    K_SLOT,
    K_TILES,
    KIND_OPERATOR,
    P_HEADS,
    P_LAUNCHES,
    P_LAYERS,
    P_NEXT,
    P_TILES,
    S_ACC,
    S_DELTA,
    S_DONE,
    S_END,
    S_GEMMS,
    S_LAYER,
    S_PC,
    S_SINCE,
    S_SPAD,
    S_TILE,
    S_VECTORS,
    SLOT_WORDS,
    TRACK_HOST,
    TRACK_OPERATORS,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.runtime_scheduler import begin_cycle, end_of_tile
from npuviz.targets.systolic.kernels.scheduler_queues import next_tile, wake_core
from npuviz.targets.systolic.kernels.sram import empty_half


@kernel
def start_work(s, p, x, t, after_core):
    """Start the next layer, and the next launch where one is due. Sets the scheduler's wake-up.

    Cores behind `after_core` see the new tiles in cycle `t`, the others in the next one.
    """
    s[H_SCHEDULER_WAKE] = FAR
    if s[H_LAYERS_LEFT] == 0:
        if s[H_LAUNCH] >= s[H_LAUNCHES_TOTAL]:
            return
        if t < s[H_LAUNCH_AT]:
            s[H_SCHEDULER_WAKE] = s[H_LAUNCH_AT]
            return
        launch = p[P_LAUNCHES] + s[H_LAUNCH] * LAUNCH_WORDS
        s[H_LAUNCH] += 1
        s[H_NEXT_LAYER] = p[launch + A_FIRST_LAYER]
        s[H_LAYERS_LEFT] = p[launch + A_NUM_LAYERS]
    index = s[H_NEXT_LAYER]
    layer = p[P_LAYERS] + index * LAYER_WORDS
    s[H_LAYER] = index
    s[H_NEXT_LAYER] = index + 1
    s[H_LAYERS_LEFT] -= 1
    s[H_LAYER_START] = t
    s[H_LAYER_LEFT] = p[layer + L_NUM_TILES]
    s[s[H_TIMES] + 2 * index] = t
    if is_watched(x):
        watch_subject(x, int64(STOP_NODE_START), p[layer + L_NODE], int64(0), int64(0), t)
    if p[layer + L_HOST_CYCLES] > 0:
        s[H_HOST_UNTIL] = t + p[layer + L_HOST_CYCLES]
        s[H_HOST_BUSY] += p[layer + L_HOST_CYCLES]
        s[H_SCHEDULER_WAKE] = s[H_HOST_UNTIL]
        return
    heads = p[P_HEADS] + index * s[H_CORES_COUNT]
    for c in range(s[H_CORES_COUNT]):
        if p[heads + c] >= 0:
            s[s[H_CORES] + c * s[H_CORE_WORDS] + K_NEXT_TILE] = p[heads + c]
            wake_core(s, c, t, after_core)


@kernel
def end_layer(s, p, x, ev, t, after_core):
    """Close the running layer in cycle `t` and start what follows."""
    layer = p[P_LAYERS] + s[H_LAYER] * LAYER_WORDS
    node = p[layer + L_NODE]
    if is_recording(x):
        tracks = s[H_CORES_COUNT] * TRACKS_PER_CORE
        first = s[H_LAYER_START]
        end = t
        instruction = p[layer + L_INSTRUCTION]
        if p[layer + L_HOST_CYCLES] > 0:
            emit(x, ev, int64(INTERVAL), tracks + TRACK_HOST, int64(OP_HOST), first, t, instruction)
        else:
            # The next layer may start in this very cycle: the cycle of the last report is its own.
            tile = p[P_TILES] + p[layer + L_FIRST_TILE] * TILE_WORDS
            instruction = p[tile + T_FIRST] if p[tile + T_COUNT] > 0 else -1
        if end > first:
            emit(
                x,
                ev,
                int64(INTERVAL),
                tracks + TRACK_OPERATORS,
                int64(KIND_OPERATOR),
                first,
                end,
                instruction,
            )
    if is_watched(x):
        watch_subject(x, int64(STOP_NODE_END), node, int64(0), int64(0), t)
    s[s[H_TIMES] + 2 * s[H_LAYER] + 1] = t
    s[H_LAYER] = -1
    s[H_LAYERS_DONE] += 1
    s[H_LAST_BUSY] = t
    if s[H_LAYERS_LEFT] == 0 and s[H_LAUNCH] < s[H_LAUNCHES_TOTAL]:
        launch = p[P_LAUNCHES] + s[H_LAUNCH] * LAUNCH_WORDS
        at = t + p[launch + A_DELAY]
        s[H_LAUNCH_AT] = at if at > p[launch + A_EARLIEST] else p[launch + A_EARLIEST]
    start_work(s, p, x, t, after_core)


@kernel
def scheduler_cycle(s, p, x, ev, t):
    """What happens at the start of core cycle `t`, before the cores: host work ends, launches start."""
    if s[H_SCHED] > 0:
        begin_cycle(s, p, x, ev, t)
    elif s[H_HOST_UNTIL] >= 0 and s[H_HOST_UNTIL] <= t:
        s[H_HOST_UNTIL] = -1
        end_layer(s, p, x, ev, t, int64(-1))
    elif s[H_LAYER] < 0:
        start_work(s, p, x, t, int64(-1))


@kernel
def report_tile(s, p, x, ev, c, k, t):
    """Take one tile from the core's finished list; the last one of a layer ends it."""
    tile = s[k + K_FINISHED_RING]
    count = s[k + K_FINISHED] - 1
    s[k + K_FINISHED] = count
    for index in range(count):
        s[k + K_FINISHED_RING + index] = s[k + K_FINISHED_RING + index + 1]
    s[s[H_TILE_DONE] + (tile >> 5)] |= 1 << (tile & 31)
    s[H_TILES_DONE] += 1
    s[H_LAST_BUSY] = t
    if s[H_SCHED] > 0:
        end_of_tile(s, p, x, ev, p[p[P_TILES] + tile * TILE_WORDS + T_LAYER], c, t)
        return
    s[H_LAYER_LEFT] -= 1
    if s[H_LAYER_LEFT] == 0:
        end_layer(s, p, x, ev, t, c)


@kernel
def finish_tile(s, k, tile):
    """Put a tile on the core's finished list."""
    s[k + K_FINISHED_RING + s[k + K_FINISHED]] = tile
    s[k + K_FINISHED] += 1


@kernel
def hand_tile(s, p, x, ev, c, k, t):
    """Give the core the head of its queue: choose and empty the halves it will own."""
    if s[H_SCHED] > 0:
        tile = next_tile(s, p, c, k, t)
    else:
        tile = s[k + K_NEXT_TILE]
        s[k + K_NEXT_TILE] = p[p[P_NEXT] + tile]
    row = p[P_TILES] + tile * TILE_WORDS
    layer = p[row + T_LAYER]
    continues = (
        p[row + T_ACCUMULATE] == 1
        and s[k + K_LAST_LAYER] == layer
        and s[k + K_LAST_FUSED] == p[row + T_FUSED]
    )
    s[k + K_LAST_LAYER] = layer
    s[k + K_LAST_FUSED] = p[row + T_FUSED]
    if p[row + T_SKIP] == 1:
        finish_tile(s, k, tile)
        return
    spad = 0
    acc = s[k + K_LAST_ACC] if s[H_TRUE_MODE] == 1 else 0
    free = 0
    if s[k + K_TILES] == 1:
        resident = s[k + K_ORDER]
        free = 1 - resident
        spad = s[k + K_SLOT + resident * SLOT_WORDS + S_SPAD]
        acc = s[k + K_SLOT + resident * SLOT_WORDS + S_ACC]
    spad = 1 - spad
    entries = p[P_LAYERS] + layer * LAYER_WORDS
    empty_half(s, x, ev, c, k, spad, t)
    s[k + K_HALF_ENTRIES + spad] = p[entries + L_SPAD_ENTRIES]
    if not continues:
        acc = 1 - acc
        empty_half(s, x, ev, c, k, 2 + acc, t)
        s[k + K_HALF_ENTRIES + 2 + acc] = p[entries + L_ACC_ENTRIES]
    s[k + K_LAST_ACC] = acc
    slot = k + K_SLOT + free * SLOT_WORDS
    s[slot + S_TILE] = tile
    s[slot + S_PC] = p[row + T_CODE]
    s[slot + S_END] = p[row + T_CODE] + p[row + T_COUNT]
    s[slot + S_DONE] = 0
    s[slot + S_SPAD] = spad
    s[slot + S_ACC] = acc
    s[slot + S_DELTA] = p[row + T_FIRST] - p[row + T_CODE]
    s[slot + S_SINCE] = t
    s[slot + S_GEMMS] = 0
    s[slot + S_VECTORS] = 0
    s[slot + S_LAYER] = layer
    s[k + K_ORDER + s[k + K_TILES]] = free
    s[k + K_TILES] += 1
