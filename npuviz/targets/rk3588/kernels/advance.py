"""Run the machine's main loop: jobs one after the other, cores side by side, one DDR bus for all.

At one time the bus comes first, then cores in order, then the jobs, then the bus takes its next chunk. Times
are NPU cycles.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import (
    CALL,
    NOBODY,
    Machine,
    is_full,
    is_recording,
    is_watched,
    of_track,
    record_interval,
    watch_instruction,
)
from npuviz.targets.rk3588.kernels.bus import begin_chunk, end_chunk
from npuviz.targets.rk3588.kernels.causes import (
    last_task_track,
    record_end,
    record_job_cause,
    record_step_cause,
)
from npuviz.targets.rk3588.kernels.core import (
    core_step,
    core_wake,
    node_progress,
    node_started,
    note_completion,
)
from npuviz.targets.rk3588.kernels.records import (
    CHIP,
    CORE,
    FAR,
    HOST_CALL,
    JOB,
    JOB_DRIVER,
    JOB_HOST,
    JOB_RUNNING,
    JOB_WAITING,
    KIND_DRIVER,
    KIND_HOST,
    PHASE_IDLE,
    PHASE_REGISTERS,
    PROGRAM,
    RESULT_EVENTS,
    RESULT_FINISHED,
    RESULT_HANG,
    RESULT_UNTIL,
    STATUS_FINISHED,
    STATUS_HANG,
)


@kernel
def _end_host(machine, t):
    chip, program = machine.chip, machine.program
    host = HOST_CALL(program, program.hosts, chip.host)
    if is_recording(machine) and chip.job_start < t:
        record_interval(machine, program.track_host, KIND_HOST, (chip.job_start, t), host.instruction)
    chip.host_busy += t - chip.job_start
    note_completion(chip, -1 - chip.host, t)
    node_progress(machine, host.node, t)
    chip.host += 1
    chip.job_state = JOB_WAITING


@kernel
def _is_job_done(chip):
    for number in range(chip.cores_count):
        core = CORE(chip, chip.cores, number)
        if core.phase != PHASE_IDLE or core.next < core.end:
            return False
    return True


@kernel
def _start_job(machine, t):
    """Give every core its tasks of a job when the driver is done."""
    chip, program = machine.chip, machine.program
    if is_recording(machine) and chip.job_start < t:
        record_interval(machine, program.track_driver, KIND_DRIVER, (chip.job_start, t), -1)
    chip.driver_busy += t - chip.job_start
    job = JOB(program, program.jobs, chip.job)
    for number in range(chip.cores_count):
        core = CORE(chip, chip.cores, number)
        core.next = job.first[number]
        core.end = job.first[number + 1]
        if is_recording(machine) and core.next < core.end:
            record_job_cause(machine, number, t)
    chip.job_state = JOB_RUNNING
    chip.job_until = FAR


@kernel
def _record_next(machine, is_host, source, t):
    """Record what follows a job or a host call, and what let it begin."""
    chip, program = machine.chip, machine.program
    if is_host or chip.job < chip.jobs:
        record_step_cause(machine, program.track_host if is_host else program.track_driver, source, t)
    else:
        record_end(machine, source, t)


@kernel
def job_step(machine, t):
    """Run host calls, then the driver, then the tasks of a job; return whether cores have new tasks."""
    chip, program = machine.chip, machine.program
    has_started = False
    source = int64(NOBODY)
    if chip.job_state == JOB_HOST and chip.job_until <= t:
        _end_host(machine, t)
        source = int64(of_track(program.track_host))
    if chip.job_state == JOB_DRIVER and chip.job_until <= t:
        _start_job(machine, t)
        has_started = True
    elif chip.job_state == JOB_RUNNING and _is_job_done(chip):
        chip.job += 1
        chip.job_state = JOB_WAITING
        source = last_task_track(machine, t)
    if chip.job_state == JOB_WAITING:
        chip.job_until = FAR
        job = JOB(program, program.jobs, chip.job)
        if is_recording(machine):
            _record_next(machine, chip.host < job.host_end, source, t)
        if chip.host < job.host_end:
            host = HOST_CALL(program, program.hosts, chip.host)
            chip.job_state = JOB_HOST
            chip.job_start = t
            chip.job_until = t + host.cycles
            node_started(machine, host.node, t)
            if is_watched(machine):
                index = host.instruction
                watch_instruction(machine, index, t)
        elif chip.job < chip.jobs:
            chip.job_state = JOB_DRIVER
            chip.job_start = t
            chip.job_until = t + chip.job_driver
        else:
            chip.status = STATUS_FINISHED
    return has_started


@inlined
def next_event(chip):
    """Return the time of the next event, FAR if there is none."""
    time = chip.job_until
    if chip.bus_until < time:
        time = chip.bus_until
    for number in range(chip.cores_count):
        wake = core_wake(CORE(chip, chip.cores, number))
        if wake < time:
            time = wake
    return time


@kernel
def process(machine, t):
    """Run everything that happens at time `t`."""
    chip = machine.chip
    if chip.bus_until <= t:
        end_chunk(machine, t)
    for number in range(chip.cores_count):
        core_step(machine, number, t)
    if job_step(machine, t):
        for number in range(chip.cores_count):
            core_step(machine, number, t)
    if chip.bus_stream < 0:
        begin_chunk(machine, t)
    for number in range(chip.cores_count):
        # The overhead is over, but register words are still under way: the bus wakes the core.
        core = CORE(chip, chip.cores, number)
        if core.phase == PHASE_REGISTERS and core.until <= t:
            core.until = chip.bus_until
    chip.last = t


@entry
def advance(state, words, transient, events, margin):
    """Run until cycle `until` of the call, a hit, a hang, the end, or until the event buffer is full.

    state      (words,) int64 changed      root state
    words      (words,) int64 read         program words
    transient  (words,) int64 changed      stop rows, hits, number of event rows
    events     (rows * 4,) int64 changed   event rows
    margin     int                         event rows one cycle may need
    Returns a RESULT_ code. The state is that of cycle CHIP.cycle: all earlier events have happened.
    """
    chip, program = CHIP(state), PROGRAM(words)
    call = CALL(transient)
    machine = Machine(chip, program, call, pointer_to(events))
    if chip.status == STATUS_FINISHED:
        return RESULT_FINISHED
    if chip.status == STATUS_HANG:
        return RESULT_HANG
    while True:
        t = next_event(chip)
        if t >= call.until:
            chip.cycle = call.until
            return RESULT_UNTIL
        if is_full(machine, margin):
            chip.cycle = t
            return RESULT_EVENTS
        process(machine, t)
        if chip.status != 0:
            chip.cycle = t + 1
            return RESULT_FINISHED if chip.status == STATUS_FINISHED else RESULT_HANG


advance.takes("wwwwn")
