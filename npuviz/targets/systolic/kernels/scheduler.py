"""Hands tiles to cores; the `simple` scheduler: one launch and one layer at a time, tiles dealt to cores.

Which core runs which tile is known before the run (the layer order does not depend on time), so the
core queues are linked lists in the program words. The other schedulers are in `runtime_scheduler`.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import (
    STOP_NODE_END,
    STOP_NODE_START,
    is_recording,
    is_watched,
    watch_node,
)
from npuviz.targets.systolic.kernels.causes import record_last_layer, record_layer_start, record_tile
from npuviz.targets.systolic.kernels.program_records import LAUNCH, LAYER, TILE
from npuviz.targets.systolic.kernels.records import CORE, FAR
from npuviz.targets.systolic.kernels.runtime_scheduler import begin_cycle, end_of_tile, record_layer
from npuviz.targets.systolic.kernels.scheduler_queues import next_tile, wake_core
from npuviz.targets.systolic.kernels.sram import empty_half


@kernel
def start_work(machine, t, after_core):
    """Start the next layer, and the next launch where one is due. Sets the scheduler's wake-up.

    Cores behind `after_core` see the new tiles in cycle `t`, the others in the next one.
    """
    chip, program = machine.chip, machine.program
    chip.scheduler_wake = FAR
    if chip.layers_left == 0:
        if chip.launch >= chip.launches_total:
            return
        if t < chip.launch_at:
            chip.scheduler_wake = chip.launch_at
            return
        launch = LAUNCH(program, program.launches, chip.launch)
        chip.launch += 1
        chip.next_layer = launch.first_layer
        chip.layers_left = launch.num_layers
    index = chip.next_layer
    layer_row = LAYER(program, program.layers, index)
    chip.layer = index
    chip.next_layer = index + 1
    chip.layers_left -= 1
    chip.layer_start = t
    chip.layer_left = layer_row.num_tiles
    chip[chip.times + 2 * index] = t
    if is_recording(machine):
        record_layer_start(machine, index, after_core, t)
    if is_watched(machine):
        watch_node(machine, int64(STOP_NODE_START), layer_row.node, t)
    if layer_row.host_cycles > 0:
        chip.host_until = t + layer_row.host_cycles
        chip.host_busy += layer_row.host_cycles
        chip.scheduler_wake = chip.host_until
        return
    heads = program.heads + index * chip.cores_count
    for c in range(chip.cores_count):
        if program[heads + c] >= 0:
            CORE(chip, chip.cores + c * chip.core_words).next_tile = program[heads + c]
            wake_core(chip, c, t, after_core)


@kernel
def end_layer(machine, t, after_core):
    """Close the running layer in cycle `t` and start what follows."""
    chip, program = machine.chip, machine.program
    node = LAYER(program, program.layers, chip.layer).node
    if is_recording(machine):
        record_layer(machine, chip.layer, int64(0), chip.layer_start, t)
    if is_watched(machine):
        watch_node(machine, int64(STOP_NODE_END), node, t)
    chip[chip.times + 2 * chip.layer + 1] = t
    closed = chip.layer
    chip.layer = -1
    chip.layers_done += 1
    chip.last_busy = t
    if is_recording(machine):
        record_last_layer(machine, closed, after_core, t)
    if chip.layers_left == 0 and chip.launch < chip.launches_total:
        launch = LAUNCH(program, program.launches, chip.launch)
        at = t + launch.delay
        chip.launch_at = at if at > launch.earliest else launch.earliest
    start_work(machine, t, after_core)


@kernel
def scheduler_cycle(machine, t):
    """Run the scheduler at the start of core cycle `t`, before the cores: host work ends, launches start."""
    chip = machine.chip
    if chip.sched > 0:
        begin_cycle(machine, t)
    elif chip.host_until >= 0 and chip.host_until <= t:
        chip.host_until = -1
        end_layer(machine, t, int64(-1))
    elif chip.layer < 0:
        start_work(machine, t, int64(-1))


@kernel
def report_tile(machine, c, core, t):
    """Take one tile from the core's finished list; the last one of a layer ends it."""
    chip, program = machine.chip, machine.program
    tile = core.finished_ring[0]
    count = core.finished - 1
    core.finished = count
    for index in range(count):
        core.finished_ring[index] = core.finished_ring[index + 1]
    chip[chip.tile_done + (tile >> 5)] |= 1 << (tile & 31)
    chip.tiles_done += 1
    chip.last_busy = t
    if chip.sched > 0:
        end_of_tile(machine, TILE(program, program.tiles, tile).layer, c, t)
        return
    chip.layer_left -= 1
    if chip.layer_left == 0:
        end_layer(machine, t, c)


@kernel
def finish_tile(core, tile):
    """Put a tile on the core's finished list."""
    core.finished_ring[core.finished] = tile
    core.finished += 1


@kernel
def hand_tile(machine, c, core, t):
    """Give the core the head of its queue: choose and empty the halves it will own."""
    chip, program = machine.chip, machine.program
    if chip.sched > 0:
        tile = next_tile(machine, c, core, t)
    else:
        tile = core.next_tile
        core.next_tile = program[program.next + tile]
    tile_row = TILE(program, program.tiles, tile)
    layer = tile_row.layer
    is_new = core.last_layer != layer
    continues = tile_row.accumulate == 1 and core.last_layer == layer and core.last_fused == tile_row.fused
    core.last_layer = layer
    core.last_fused = tile_row.fused
    if tile_row.skip == 1:
        finish_tile(core, tile)
        return
    spad = 0
    acc = core.last_acc if chip.true_mode == 1 else 0
    free = 0
    if core.tiles == 1:
        resident = core.order[0]
        free = 1 - resident
        spad = core.slot[resident].spad
        acc = core.slot[resident].acc
    spad = 1 - spad
    layer_row = LAYER(program, program.layers, layer)
    empty_half(machine, c, core, spad, t)
    core.half_entries[spad] = layer_row.spad_entries
    if not continues:
        acc = 1 - acc
        empty_half(machine, c, core, 2 + acc, t)
        core.half_entries[2 + acc] = layer_row.acc_entries
    core.last_acc = acc
    slot = core.slot[free]
    slot.tile = tile
    slot.pc = tile_row.code
    slot.end = tile_row.code + tile_row.count
    slot.done = 0
    slot.spad = spad
    slot.acc = acc
    slot.delta = tile_row.first - tile_row.code
    slot.since = t
    slot.gemms = 0
    slot.vectors = 0
    slot.layer = layer
    if is_recording(machine):
        record_tile(machine, c, (free, is_new, layer), t)
    core.order[core.tiles] = free
    core.tiles += 1
