"""The queues of the run-time schedulers: ready layers of each request, tiles of each core or request.

See `runtime_scheduler`, which fills and empties them. They are words of the block that `sched` of the chip
names.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.systolic.kernels.program_records import LAYER, TILE
from npuviz.targets.systolic.kernels.records import (
    CORE,
    PARTITION,
    REQUEST,
    RUN_LAYER,
    SCHED_SPATIAL,
    SCHEDULER,
)


@inlined
def wake_core(chip, c, t, after):
    """Let core `c` look in cycle `t`, or in the next one if its turn in this cycle is over."""
    word = chip.wakes + c
    wake = t if c > after else t + 1
    if chip[word] > wake:
        chip[word] = wake


# --- ready layers -----------------------------------------------------------------------------------


@kernel
def append_ready(chip, layer):
    """Put a layer at the end of its request's ready list."""
    scheduler = SCHEDULER(chip, chip.sched)
    run = RUN_LAYER(chip, scheduler.layers, layer)
    request = REQUEST(chip, scheduler.requests, run.request)
    run.next = -1
    if request.ready_head < 0:
        request.ready_head = layer
    else:
        RUN_LAYER(chip, scheduler.layers, request.ready_tail).next = layer
    request.ready_tail = layer
    scheduler.ready += 1


@inlined
def offers(machine, index):
    """Return the layer that a request can start now, -1 if none: the Host runs one layer at a time."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    layer = REQUEST(chip, scheduler.requests, index).ready_head
    if layer >= 0 and chip.host_until >= 0 and LAYER(program, program.layers, layer).host_cycles > 0:
        return -1
    return layer


@kernel
def take_layer(machine, index):
    """Take the first ready layer of a request from its list, and return it; -1 if it offers none."""
    chip = machine.chip
    layer = offers(machine, index)
    if layer >= 0:
        scheduler = SCHEDULER(chip, chip.sched)
        request = REQUEST(chip, scheduler.requests, index)
        request.ready_head = RUN_LAYER(chip, scheduler.layers, layer).next
        scheduler.ready -= 1
    return layer


# --- tile queues ------------------------------------------------------------------------------------


@kernel
def enqueue(chip, c, tile, t, after):
    """Put a tile at the end of a core's own queue."""
    scheduler = SCHEDULER(chip, chip.sched)
    core = CORE(chip, chip.cores + c * chip.core_words)
    following = scheduler.next
    tail = scheduler.tails + c
    chip[following + tile] = -1
    if chip[scheduler.own + c] > 0:
        chip[following + chip[tail]] = tile
    else:
        core.next_tile = tile
    chip[tail] = tile
    chip[scheduler.own + c] += 1
    scheduler.queued += 1
    wake_core(chip, c, t, after)


@kernel
def deal(machine, layer, core, t, after):
    """Deal the tiles of a layer: over all cores, or over the partition of `core` from its place on."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    layer_row = LAYER(program, program.layers, layer)
    first = layer_row.first_tile
    count = chip.cores_count
    offset = 0
    members = -1
    if core >= 0:
        partition = PARTITION(program, program.partition, core)
        offset = partition.place
        count = partition.size
        members = program.partition + partition.members
    for tile in range(first, first + layer_row.num_tiles):
        preset = TILE(program, program.tiles, tile).core
        if preset < 0:
            place = offset + scheduler.dealt
            scheduler.dealt += 1
        else:
            place = preset + scheduler.started
        place %= count
        enqueue(chip, program[members + place] if members >= 0 else place, tile, t, after)


@kernel
def share_tiles(chip, t, after):
    """Show every core without tiles of its own the head of the list it draws from (spatial_split)."""
    scheduler = SCHEDULER(chip, chip.sched)
    count = scheduler.count
    for c in range(chip.cores_count):
        if chip[scheduler.own + c] > 0:
            continue
        core = CORE(chip, chip.cores + c * chip.core_words)
        head = -1
        if count > 0:
            index = chip[scheduler.queue + c % count]
            head = REQUEST(chip, scheduler.requests, index).tile_head
        core.next_tile = head
        if head >= 0:
            wake_core(chip, c, t, after)


@kernel
def draw_group(machine, c, t):
    """Move the head of a request's list, with all tiles that continue its accumulation, to the core's
    queue."""
    chip, program = machine.chip, machine.program
    scheduler = SCHEDULER(chip, chip.sched)
    index = chip[scheduler.queue + c % scheduler.count]
    request = REQUEST(chip, scheduler.requests, index)
    following = scheduler.next
    tile = request.tile_head
    more = True
    while more:
        after = chip[following + tile]
        scheduler.queued -= 1
        enqueue(chip, c, tile, t, int64(-1))
        tile = after
        # Flaw F21: ONNXim scatters the tiles of an accumulation.
        more = tile >= 0 and chip.true_mode == 1 and TILE(program, program.tiles, tile).accumulate == 1
    request.tile_head = tile


@kernel
def next_tile(machine, c, core, t):
    """Take the head of the queue of core `c`, which is not empty."""
    chip = machine.chip
    scheduler = SCHEDULER(chip, chip.sched)
    is_spatial = scheduler.kind == SCHED_SPATIAL
    if is_spatial and chip[scheduler.own + c] == 0:
        draw_group(machine, c, t)
    tile = core.next_tile
    core.next_tile = chip[scheduler.next + tile]
    chip[scheduler.own + c] -= 1
    scheduler.queued -= 1
    if is_spatial:
        share_tiles(chip, t, c)
    return tile
