"""Serve DDR: one bus for all cores, chunk by chunk, round robin over the streams that want bytes."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import is_recording, record_interval
from npuviz.targets.rk3588.kernels.records import (
    CORE,
    FAR,
    KIND_BUS,
    KIND_FEATURE,
    KIND_OPERAND,
    KIND_REGISTERS,
    KIND_WEIGHT,
    KIND_WRITE,
    STREAM_FEATURE,
    STREAM_OPERAND,
    STREAM_WEIGHT,
    STREAM_WRITE,
    STREAMS,
    TASK,
    TRACK_FEATURE,
    TRACK_OPERAND,
    TRACK_WEIGHT,
    TRACK_WRITE,
    TRACKS_PER_CORE,
)


@inlined
def stream_of(chip, number, which):
    """Return a stream of a core."""
    return CORE(chip, chip.cores, number).streams[which]


@kernel
def track_of_stream(which):
    """Return the track of a stream among those of its core, -1 without one."""
    if which == STREAM_FEATURE:
        return TRACK_FEATURE
    if which == STREAM_WEIGHT:
        return TRACK_WEIGHT
    if which == STREAM_OPERAND:
        return TRACK_OPERAND
    if which == STREAM_WRITE:
        return TRACK_WRITE
    return -1


@kernel
def _kind_of(which):
    if which == STREAM_FEATURE:
        return KIND_FEATURE
    if which == STREAM_WEIGHT:
        return KIND_WEIGHT
    if which == STREAM_OPERAND:
        return KIND_OPERAND
    if which == STREAM_WRITE:
        return KIND_WRITE
    return KIND_REGISTERS


@kernel
def count_units(machine, core, t):
    """Begin or end the busy time of CNA and of DPU, after one of their streams began or ended at `t`."""
    streams = core.streams
    is_fetching = streams[STREAM_FEATURE].start >= 0 or streams[STREAM_WEIGHT].start >= 0
    if is_fetching and core.fetch_since < 0:
        core.fetch_since = t
    elif not is_fetching and core.fetch_since >= 0:
        core.fetch_busy += t - core.fetch_since
        core.fetch_since = -1
    is_working = streams[STREAM_OPERAND].start >= 0 or streams[STREAM_WRITE].start >= 0
    if not is_working and core.out_until < FAR:
        program = machine.program
        is_working = TASK(program, program.tasks, core.task).is_pooling == 0
    if is_working and core.dpu_since < 0:
        core.dpu_since = t
    elif not is_working and core.dpu_since >= 0:
        core.dpu_busy += t - core.dpu_since
        core.dpu_since = -1


@kernel
def close_stream(machine, number, which, t):
    """End the interval of a stream that has no bytes under way any more."""
    chip, program = machine.chip, machine.program
    stream = stream_of(chip, number, which)
    if stream.start >= 0:
        track = track_of_stream(which)
        if track >= 0 and is_recording(machine) and stream.start < t:
            index = CORE(chip, chip.cores, number).task
            instruction = TASK(program, program.tasks, index).instruction if index >= 0 else index
            record_interval(
                machine, number * TRACKS_PER_CORE + track, _kind_of(which), (stream.start, t), instruction
            )
        stream.start = -1
        count_units(machine, CORE(chip, chip.cores, number), t)


@kernel
def end_chunk(machine, t):
    """Count the chunk under way as arrived; return its core."""
    chip = machine.chip
    number, which = chip.bus_stream // STREAMS, chip.bus_stream % STREAMS
    stream = stream_of(chip, number, which)
    stream.done += chip.bus_bytes
    if which == STREAM_WRITE:
        CORE(chip, chip.cores, number).pending -= chip.bus_bytes
        chip.write_bytes += chip.bus_bytes
    else:
        chip.read_bytes += chip.bus_bytes
    chip.bus_stream = -1
    chip.bus_until = FAR
    if stream.done >= stream.total:
        close_stream(machine, number, which, t)
    return number


@kernel
def begin_chunk(machine, t):
    """Give the bus to the next stream that wants bytes."""
    chip, program = machine.chip, machine.program
    count = chip.cores_count * STREAMS
    turn = chip.bus_turn
    for _ in range(count):
        turn += 1
        if turn >= count:
            turn = 0
        number, which = turn // STREAMS, turn % STREAMS
        stream = stream_of(chip, number, which)
        left = stream.total - stream.done
        if left > 0:
            size = left if left < program.chunk else program.chunk
            cost = (size * chip.bus_cost + 65535) >> 16
            chip.bus_turn = turn
            chip.bus_stream = turn
            chip.bus_bytes = size
            chip.bus_until = t + cost
            chip.bus_busy += cost
            if stream.start < 0:
                stream.start = t
                count_units(machine, CORE(chip, chip.cores, number), t)
            if chip.bus_since < 0:
                chip.bus_since = t
            return
    if chip.bus_since >= 0:
        if is_recording(machine) and chip.bus_since < t:
            record_interval(machine, program.track_bus, KIND_BUS, (chip.bus_since, t), -1)
        chip.bus_since = -1
