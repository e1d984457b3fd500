"""Schedulers that decide while the chip runs: several requests at once, layers side by side.

Ref: systolic.md section 4. A request is a launch of the program tables; its layers become ready when the
layers they wait for have ended. Unlike under `simple`, who runs which tile depends on time, so tile queues,
ready lists and the queue of requests are part of the state: a block of words that `sched` of the chip names.

time_multiplex  when no tile waits on any core, the next request in rotation offers its first ready layer
partition_cpu   a core without waiting tiles lets the first request of its partition offer one
spatial_split   a request has one list of tiles; core c draws from request (c mod number of requests)

Parity: a core that may take a tile and has none asks the scheduler in every cycle, and each question turns
the rotation of `time_multiplex` by one, whether or not it finds work. Cycles that are skipped are counted.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import (
    STOP_NODE_END,
    STOP_NODE_START,
    is_recording,
    is_watched,
    record_interval,
    watch_node,
)
from npuviz.targets.systolic.kernels.causes import record_last_layer, record_layer_start
from npuviz.targets.systolic.kernels.program_records import LAUNCH, LAYER, OP_HOST, TILE
from npuviz.targets.systolic.kernels.records import (
    CORE,
    FAR,
    KIND_OPERATOR,
    PARTITION,
    REQUEST,
    RUN_LAYER,
    SCHED_MULTIPLEX,
    SCHED_PARTITION,
    SCHED_SPATIAL,
    SCHEDULER,
    TRACK_HOST,
    TRACK_OPERATORS,
    TRACKS_PER_CORE,
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
def open_layer(machine, layer, core, t, after):
    """Start a layer in cycle `t`; `core` names the partition that runs it, -1: all cores."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    layer_row = LAYER(program, program.layers, layer)
    run = RUN_LAYER(chip, scheduler.layers, layer)
    scheduler.started += 1
    run.left = layer_row.num_tiles
    run.lane = -1
    for lane in range(scheduler.num_lanes):
        if chip[scheduler.lanes + lane] < 0:
            chip[scheduler.lanes + lane] = layer
            run.lane = lane
            break
    chip[chip.times + 2 * layer] = t
    if is_recording(machine):
        record_layer_start(machine, layer, after, t)
    if is_watched(machine):
        watch_node(machine, int64(STOP_NODE_START), layer_row.node, t)
    if layer_row.host_cycles > 0:
        chip.host_until = t + layer_row.host_cycles
        chip.host_busy += layer_row.host_cycles
        scheduler.host_layer = layer
        return
    if scheduler.kind != SCHED_SPATIAL:
        deal(machine, layer, core, t, after)
        return
    request = REQUEST(chip, scheduler.requests, run.request)
    first, count = layer_row.first_tile, layer_row.num_tiles
    for tile in range(first, first + count):
        chip[scheduler.next + tile] = tile + 1
    chip[scheduler.next + first + count - 1] = -1
    request.tile_head = first
    request.tile_tail = first + count - 1
    scheduler.queued += count


@kernel
def refresh_multiplex(machine, t, after):
    """Advance the rotation by one step, if no tile waits on any core."""
    chip = machine.chip
    scheduler = SCHEDULER(chip, chip.sched)
    if scheduler.queued > 0:
        return
    scheduler.turn = (scheduler.turn + 1) % scheduler.count
    layer = take_layer(machine, chip[scheduler.queue + scheduler.turn])
    if layer >= 0:
        open_layer(machine, layer, int64(-1), t, after)


@kernel
def first_of_partition(machine, partition):
    """Return the first request in the queue of a partition, -1 if none."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    for place in range(scheduler.count):
        index = chip[scheduler.queue + place]
        if LAUNCH(program, program.launches, index).partition == partition:
            return index
    return -1


@kernel
def refresh_partition(machine, t, after):
    """Let every core without waiting tiles start a layer of the first request of its partition."""
    chip, program = machine.chip, machine.program
    for c in range(chip.cores_count):
        if CORE(chip, chip.cores + c * chip.core_words).next_tile >= 0:
            continue
        index = first_of_partition(machine, PARTITION(program, program.partition, c).id)
        if index < 0:
            continue
        layer = take_layer(machine, index)
        if layer >= 0:
            open_layer(machine, layer, c, t, after)


@kernel
def refresh_spatial(machine, t, after):
    """Start the next ready layer of every request without waiting tiles."""
    chip = machine.chip
    scheduler = SCHEDULER(chip, chip.sched)
    for place in range(scheduler.count):
        index = chip[scheduler.queue + place]
        if REQUEST(chip, scheduler.requests, index).tile_head < 0:
            layer = take_layer(machine, index)
            if layer >= 0:
                open_layer(machine, layer, int64(-1), t, after)
    share_tiles(chip, t, after)


@kernel
def refresh(machine, t, after):
    """Start all layers that can start now. Cores behind `after` see it in cycle `t`, the others in the
    next."""
    chip = machine.chip
    scheduler = SCHEDULER(chip, chip.sched)
    kind = scheduler.kind
    if scheduler.count == 0:
        if kind == SCHED_SPATIAL:
            share_tiles(chip, t, after)
        return
    if kind == SCHED_MULTIPLEX:
        refresh_multiplex(machine, t, after)
    elif kind == SCHED_PARTITION:
        refresh_partition(machine, t, after)
    else:
        refresh_spatial(machine, t, after)


@kernel
def record_layer(machine, layer, lane, start, t):
    """Emit the interval of a layer that ends in cycle `t` on the track of its lane.

    The next layer may start in this very cycle: the cycle of the last report is its own.
    """
    program = machine.program
    layer_row = LAYER(program, program.layers, layer)
    tracks = machine.chip.cores_count * TRACKS_PER_CORE
    instruction = layer_row.instruction
    if layer_row.host_cycles > 0:
        record_interval(machine, tracks + TRACK_HOST, int64(OP_HOST), (start, t), instruction)
    else:
        tile_row = TILE(program, program.tiles, layer_row.first_tile)
        instruction = tile_row.first if tile_row.count > 0 else -1
    if lane >= 0 and t > start:
        track = tracks + (TRACK_OPERATORS if lane == 0 else TRACK_HOST + lane)
        record_interval(machine, track, int64(KIND_OPERATOR), (start, t), instruction)


@kernel
def close_layer(machine, layer, core, t):
    """End a layer in cycle `t`, reported by `core` (-1: the Host); others may become ready."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    run = RUN_LAYER(chip, scheduler.layers, layer)
    lane = run.lane
    start = chip[chip.times + 2 * layer]
    if is_recording(machine):
        record_layer(machine, layer, lane, start, t)
    if lane >= 0:
        chip[scheduler.lanes + lane] = -1
    if is_watched(machine):
        node = LAYER(program, program.layers, layer).node
        watch_node(machine, int64(STOP_NODE_END), node, t)
    chip[chip.times + 2 * layer + 1] = t
    chip.layers_done += 1
    chip.layers_left -= 1
    chip.last_busy = t
    if is_recording(machine):
        record_last_layer(machine, layer, core, t)
    for edge in range(program[program.edges_at + layer], program[program.edges_at + layer + 1]):
        consumer = program[program.edges + edge]
        waiting = RUN_LAYER(chip, scheduler.layers, consumer)
        waiting.missing -= 1
        if waiting.missing == 0:
            append_ready(chip, consumer)
    index = run.request
    request = REQUEST(chip, scheduler.requests, index)
    request.left -= 1
    if request.left == 0:
        remove_request(machine, index, t)


@kernel
def remove_request(machine, index, t):
    """Remove a finished request from the queue, and set the start of the one that waits for its end."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    queue = scheduler.queue
    place = 0
    while chip[queue + place] != index:
        place += 1
    count = scheduler.count - 1
    scheduler.count = count
    for later in range(place, count):
        chip[queue + later] = chip[queue + later + 1]
    if index + 1 == chip.launch and chip.launch < chip.launches_total:
        launch = LAUNCH(program, program.launches, chip.launch)
        if launch.delay > 0:
            at = t + launch.delay
            chip.launch_at = at if at > launch.earliest else launch.earliest


@kernel
def end_of_tile(machine, layer, c, t):
    """Count a tile of a layer that core `c` reports in cycle `t`."""
    chip = machine.chip
    run = RUN_LAYER(chip, SCHEDULER(chip, chip.sched).layers, layer)
    run.left -= 1
    if run.left == 0:
        close_layer(machine, layer, c, t)
    refresh(machine, t, c)


# --- cycles -----------------------------------------------------------------------------------------


@kernel
def idle_cores(chip):
    """Count the cores that ask for a tile in every cycle because none waits for them."""
    count = 0
    for c in range(chip.cores_count):
        core = CORE(chip, chip.cores + c * chip.core_words)
        if core.tiles < 2 and core.next_tile < 0:
            count += 1
    return count


@kernel
def count_polls(chip, t):
    """Advance the rotation by the polls of the cycles that were skipped before cycle `t`."""
    scheduler = SCHEDULER(chip, chip.sched)
    skipped = t - scheduler.polled - 1
    scheduler.polled = t
    if skipped > 0 and scheduler.kind == SCHED_MULTIPLEX and scheduler.count > 0 and scheduler.queued == 0:
        scheduler.turn = (scheduler.turn + skipped % scheduler.count * idle_cores(chip)) % scheduler.count


@kernel
def poll(machine, c, t):
    """Let core `c`, which has no waiting tile, ask for one. Ref: section 3, step 4c."""
    chip = machine.chip
    scheduler = SCHEDULER(chip, chip.sched)
    if scheduler.count > 0 and scheduler.kind != SCHED_SPATIAL:
        refresh(machine, t, c)


@kernel
def admit(machine, t):
    """Add the requests whose time has come to the queue, and start layers after each."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    while chip.launch < chip.launches_total and chip.launch_at <= t:
        index = chip.launch
        launch = LAUNCH(program, program.launches, index)
        request = REQUEST(chip, scheduler.requests, index)
        chip[scheduler.queue + scheduler.count] = index
        scheduler.count += 1
        first, count = launch.first_layer, launch.num_layers
        request.left = count
        chip.layers_left += count
        for layer in range(first, first + count):
            run = RUN_LAYER(chip, scheduler.layers, layer)
            run.request = index
            if run.missing == 0:
                append_ready(chip, layer)
        chip.launch = index + 1
        chip.launch_at = FAR
        if index + 1 < chip.launches_total and LAUNCH(launch, LAUNCH.num_words).delay == 0:
            chip.launch_at = LAUNCH(launch, LAUNCH.num_words).earliest
        refresh(machine, t, int64(-1))


@kernel
def begin_cycle(machine, t):
    """Run the scheduler at the start of core cycle `t`, before the cores."""
    chip = machine.chip
    if chip.host_until >= 0 and chip.host_until <= t:
        chip.host_until = -1
        close_layer(machine, SCHEDULER(chip, chip.sched).host_layer, int64(-1), t)
        refresh(machine, t, int64(-1))
    admit(machine, t)


@kernel
def has_offer(machine):
    """Return whether a poll in the next cycle may find a layer to start."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    kind = scheduler.kind
    if scheduler.ready == 0 or kind == SCHED_SPATIAL or idle_cores(chip) == 0:
        return False
    if kind == SCHED_MULTIPLEX:
        if scheduler.queued > 0:
            return False
        found = False
        for place in range(scheduler.count):
            found = found or offers(machine, chip[scheduler.queue + place]) >= 0
        return found
    for c in range(chip.cores_count):
        if CORE(chip, chip.cores + c * chip.core_words).next_tile < 0:
            index = first_of_partition(machine, PARTITION(program, program.partition, c).id)
            if index >= 0 and offers(machine, index) >= 0:
                return True
    return False


@kernel
def end_cycle(machine, t):
    """Set the scheduler's wake-up after core cycle `t`."""
    chip = machine.chip
    wake = chip.launch_at
    if chip.host_until >= 0 and chip.host_until < wake:
        wake = chip.host_until
    if wake > t + 1 and has_offer(machine):
        wake = t + 1
    chip.scheduler_wake = wake if wake > t else t + 1
