"""Records the causes that let tiles, instructions and transfers start; only while a trace is recorded.

Tracks of counters stand for what has no interval: those of a core's requests for its places for tiles, those
of scratchpad and accumulator for the two tiles in them, and the operators for the scheduler.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import END_OF_RUN, NOBODY, is_recording, of_track, record_cause
from npuviz.targets.systolic.kernels.program_records import CODE, LAYER, OP_MOVIN
from npuviz.targets.systolic.kernels.records import (
    CORE,
    KIND_ISSUE,
    KIND_LAUNCH,
    KIND_MEMORY,
    KIND_REQUESTS,
    KIND_RESULT,
    KIND_TILE,
    TRACK_ACC,
    TRACK_HOST,
    TRACK_LD,
    TRACK_OPERATORS,
    TRACK_REQUESTS,
    TRACK_SPAD,
    TRACK_ST,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.sram import entry_of


@inlined
def core_track(c):
    """Return the track that stands for the tile places of a core."""
    return c * TRACKS_PER_CORE + TRACK_REQUESTS


@inlined
def slot_track(c, slot_index):
    """Return the track that stands for a tile in a core."""
    return c * TRACKS_PER_CORE + (TRACK_SPAD if slot_index == 0 else TRACK_ACC)


@inlined
def _scheduler_track(chip):
    return chip.cores_count * TRACKS_PER_CORE + TRACK_OPERATORS


@kernel
def record_operands(machine, work, slot_index, filled, t):
    """Record the cause of an instruction issued at `t`, if its tile waited for an operand that became valid
    at `filled`."""
    if filled < t - 1 or filled <= work.slot.since:
        return
    chip, core, slot, row = machine.chip, work.core, work.slot, work.row
    writer, sender = int64(NOBODY), int64(NOBODY)
    operand = int64(0)
    for source in (row.src0, row.src1):
        if source != 0:
            entry = entry_of(chip, core, slot, source)
            if entry.valid == filled and entry.writer >= 0:
                writer, sender, operand = entry.writer, entry.sender, source
    if writer >= 0:
        # What is loaded comes from memory; what is computed leaves a pipeline.
        place = writer - slot.delta
        program = machine.program
        is_load = CODE(program, program.code, place).op == OP_MOVIN and operand != 0
        kind = KIND_MEMORY if is_load else KIND_RESULT
        source = sender if is_load else writer
        record_cause(machine, slot_track(work.c, slot_index), kind, (int64(-1), filled), source)


@inlined
def record_entry(machine, track, slot_index, enter):
    """Record that an instruction enters its pipeline at `enter`, a cycle after its tile issued it."""
    source = int64(of_track(slot_track(track // TRACKS_PER_CORE, slot_index)))
    record_cause(machine, track, KIND_ISSUE, (enter - 1, enter), source)


@inlined
def record_load(machine, c, slot_index, t):
    """Record that a load is taken up at `t`, after its tile issued it."""
    track = c * TRACKS_PER_CORE + TRACK_LD
    record_cause(machine, track, KIND_REQUESTS, (t - 1, t), int64(of_track(slot_track(c, slot_index))))


@inlined
def record_store(machine, c, writer, slot_index, t):
    """Record that a store is taken up at `t`, because its data are there or its tile issued it."""
    track = c * TRACKS_PER_CORE + TRACK_ST
    if writer >= 0:
        record_cause(machine, track, KIND_REQUESTS, (int64(-1), t), writer)
    else:
        record_cause(machine, track, KIND_REQUESTS, (t - 1, t), int64(of_track(slot_track(c, slot_index))))


@kernel
def record_turn(machine, c, is_load, ends, start):
    """Record that requests of a burst enter from `start` on, behind the bursts before in the core's list.

    ends  of the bursts before of its own kind and of the other one
    """
    own_end, other_end = ends
    first = c * TRACKS_PER_CORE
    track = first + (TRACK_LD if is_load else TRACK_ST)
    other = first + (TRACK_ST if is_load else TRACK_LD)
    before = own_end if own_end > other_end else other_end
    if before < start or other_end == start:
        source = track if own_end > other_end else other
        if before > 0:
            record_cause(machine, track, KIND_REQUESTS, (before, before), int64(of_track(source)))


@inlined
def record_tile_done(machine, c, source, t):
    """Record that a tile is done at `t` with this instruction."""
    if source >= 0:
        record_cause(machine, core_track(c), KIND_TILE, (int64(-1), t), source)


@kernel
def record_tile(machine, c, tile, t):
    """Record that a tile (its place, whether it is the core's first one of its layer, the layer) comes to a
    core at `t`, because its layer has just started, or a place is free."""
    slot_index, is_new, layer = tile
    chip = machine.chip
    opened = chip[chip.times + 2 * layer]
    source, done = int64(of_track(core_track(c))), t
    if is_new and opened >= t - 1:
        source, done = int64(of_track(_scheduler_track(chip))), opened
    record_cause(machine, slot_track(c, slot_index), KIND_TILE, (done, t), source)


@kernel
def record_layer_start(machine, layer, after_core, t):
    """Record that the scheduler starts a layer at `t`, because of a report of a core, of the Host, or of a
    launch."""
    chip, program = machine.chip, machine.program
    tracks = chip.cores_count * TRACKS_PER_CORE
    track = _scheduler_track(chip)
    if after_core >= 0:
        record_cause(machine, track, KIND_TILE, (t - 1, t), int64(of_track(core_track(after_core))))
    elif layer > 0 and LAYER(program, program.layers, layer - 1).host_cycles > 0:
        record_cause(machine, track, KIND_TILE, (t, t), int64(of_track(tracks + TRACK_HOST)))
    else:
        record_cause(machine, track, KIND_LAUNCH, (t, t), int64(NOBODY))
    if LAYER(program, program.layers, layer).host_cycles > 0:
        record_cause(machine, tracks + TRACK_HOST, KIND_TILE, (t, t), int64(of_track(track)))


@kernel
def record_last_layer(machine, layer, after_core, t):
    """Record that a layer ends at `t`, if it is the last one: the run may end with it, in the next cycle."""
    chip, program = machine.chip, machine.program
    if chip.layers_done < chip.layers_total:
        return
    source, done = int64(of_track(core_track(after_core))), t - 1
    if LAYER(program, program.layers, layer).host_cycles > 0:
        source, done = int64(of_track(chip.cores_count * TRACKS_PER_CORE + TRACK_HOST)), t
    elif after_core < 0:
        return
    record_cause(machine, END_OF_RUN, KIND_TILE, (done, t), source)


@kernel
def record_acknowledged(machine, final):
    """Record that the run ends with the acknowledgement of the last store, if it does."""
    chip = machine.chip
    if not is_recording(machine) or final <= chip.last_busy + 1:
        return
    last, latest = int64(-1), int64(0)
    for c in range(chip.cores_count):
        ended = CORE(chip, chip.cores + c * chip.core_words).store_end
        if ended > latest:
            last, latest = int64(c), ended
    if last >= 0:
        source = int64(of_track(last * TRACKS_PER_CORE + TRACK_ST))
        record_cause(machine, END_OF_RUN, KIND_MEMORY, (latest, final - 1), source)
