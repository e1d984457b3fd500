"""Record for the trace what let streams, blocks, tasks and jobs continue, if a run is recorded."""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import END_OF_RUN, NOBODY, of_track, record_cause
from npuviz.targets.rk3588.kernels.bus import track_of_stream
from npuviz.targets.rk3588.kernels.records import (
    CORE,
    KIND_DRIVER,
    KIND_INTERRUPT,
    KIND_WAIT_BUS,
    KIND_WAIT_DATA,
    KIND_WAIT_OUTPUT,
    KIND_WAIT_WEIGHTS,
    RESULT,
    STREAM_OPERAND,
    STREAM_WRITE,
    STREAMS,
    TRACK_DPU,
    TRACK_FEATURE,
    TRACK_PPU,
    TRACK_STRIPES,
    TRACK_TASK,
    TRACK_WEIGHT,
    TRACKS_PER_CORE,
)


@kernel
def ended_stream(chip, number):
    """Return the stream of a core whose chunk has just arrived, -1 without one."""
    if chip.bus_stream < 0 and chip.bus_since >= 0 and chip.bus_turn // STREAMS == number:
        return chip.bus_turn % STREAMS
    return -1


@kernel
def _record(machine, number, way, kind, t):
    """Record that a track of a core can continue because of another track of it: `way` is (source, track)."""
    first = number * TRACKS_PER_CORE
    record_cause(machine, first + way[1], kind, (t, t), int64(of_track(first + way[0])))


@kernel
def record_stream_cause(machine, number, which, source, t):
    """Record that a stream has bytes to ask for from `t` on, because of a track of the same core."""
    track = track_of_stream(which)
    if track >= 0:
        _record(machine, number, (source, track), KIND_WAIT_BUS, t)


@kernel
def output_track(task):
    """Return the track of the block that drains the accumulator for a task."""
    return TRACK_PPU if task.is_pooling != 0 else TRACK_DPU


@kernel
def record_input_cause(machine, number, core, task, t):
    """Record what ended a wait of CORE. If its stripes have no intervals, the block after it shows the
    wait."""
    cause = core.cause
    source = int64(output_track(task))
    if cause == KIND_WAIT_DATA:
        source = int64(TRACK_FEATURE)
    elif cause == KIND_WAIT_WEIGHTS:
        source = int64(TRACK_WEIGHT)
    if task.factor > 0:
        _record(machine, number, (source, TRACK_STRIPES), cause, t)
    elif cause != KIND_WAIT_OUTPUT:
        _record(machine, number, (source, output_track(task)), cause, t)


@kernel
def record_output_cause(machine, number, core, task, t):
    """Record why DPU or PPU takes a stripe at `t`: it has just been made, or a chunk has just arrived."""
    which = ended_stream(machine.chip, number)
    is_new = core.stripes == 1 and core.core_until == t
    if (which == STREAM_WRITE or which == STREAM_OPERAND) and not is_new:
        _record(machine, number, (track_of_stream(which), output_track(task)), KIND_WAIT_BUS, t)
    elif core.core_until == t and task.factor > 0:
        _record(machine, number, (TRACK_STRIPES, output_track(task)), KIND_WAIT_OUTPUT, t)


@kernel
def record_task_cause(machine, number, task, t):
    """Record what a task ended with: its last chunk, or its last stripe."""
    track = track_of_stream(ended_stream(machine.chip, number))
    source = track if track >= 0 else output_track(task)
    _record(machine, number, (source, TRACK_TASK), KIND_INTERRUPT, t)


@kernel
def last_task_track(machine, t):
    """Return the track of the tasks of the core whose task ended at `t`, as a source; NOBODY without one."""
    chip = machine.chip
    for number in range(chip.cores_count):
        core = CORE(chip, chip.cores, number)
        if core.next > 0 and RESULT(chip, chip.records, core.next - 1).end == t:
            return int64(of_track(number * TRACKS_PER_CORE + TRACK_TASK))
    return int64(NOBODY)


@kernel
def record_step_cause(machine, track, source, t):
    """Record that Host or driver can begin at `t`."""
    if source != NOBODY:
        record_cause(machine, track, KIND_DRIVER, (t, t), source)


@kernel
def record_job_cause(machine, number, t):
    """Record that the driver has started a job, so that the first task of a core can begin."""
    track = number * TRACKS_PER_CORE + TRACK_TASK
    record_cause(machine, track, KIND_DRIVER, (t, t), int64(of_track(machine.program.track_driver)))


@kernel
def record_end(machine, source, t):
    """Record what the run ended with."""
    if source != NOBODY:
        record_cause(machine, END_OF_RUN, KIND_INTERRUPT, (t, t), source)
