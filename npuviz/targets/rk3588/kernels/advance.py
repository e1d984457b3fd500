"""The machine's main loop: jobs one after the other, cores side by side, one DDR bus for all.

At one time the bus comes first, then cores in order, then the jobs, then the bus takes its next chunk.
Times are NPU cycles.
"""

from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import (
    INTERVAL,
    STOP_INSTRUCTION,
    X_CAPACITY,
    X_EVENTS,
    X_UNTIL,
    emit,
    is_recording,
    is_watched,
    watch_subject,
)
from npuviz.targets.rk3588.kernels.bus import begin_chunk, end_chunk
from npuviz.targets.rk3588.kernels.core import (
    core_step,
    core_wake,
    node_progress,
    node_started,
    note_completion,
)
from npuviz.targets.rk3588.kernels.records import (
    CORE_WORDS,
    FAR,
    H_BUS_STREAM,
    H_BUS_UNTIL,
    H_CORES,
    H_CORES_COUNT,
    H_CYCLE,
    H_DRIVER_BUSY,
    H_HOST,
    H_HOST_BUSY,
    H_JOB,
    H_JOB_START,
    H_JOB_STATE,
    H_JOB_UNTIL,
    H_JOBS,
    H_LAST,
    H_STATUS,
    HOST_CYCLES,
    HOST_INSTRUCTION,
    HOST_NODE,
    HOST_WORDS,
    J_FIRST,
    J_HOST_END,
    JOB_DRIVER,
    JOB_HOST,
    JOB_RUNNING,
    JOB_WAITING,
    JOB_WORDS,
    K_END,
    K_NEXT,
    K_PHASE,
    K_UNTIL,
    KIND_DRIVER,
    KIND_HOST,
    P_HOSTS,
    P_JOB_DRIVER,
    P_JOBS,
    P_TRACK_DRIVER,
    P_TRACK_HOST,
    PHASE_IDLE,
    PHASE_REGISTERS,
    RESULT_EVENTS,
    RESULT_FINISHED,
    RESULT_HANG,
    RESULT_UNTIL,
    STATUS_FINISHED,
    STATUS_HANG,
)


@kernel
def _end_host(s, p, x, ev, t):
    h = p[P_HOSTS] + s[H_HOST] * HOST_WORDS
    if is_recording(x) and s[H_JOB_START] < t:
        emit(x, ev, INTERVAL, p[P_TRACK_HOST], KIND_HOST, s[H_JOB_START], t, p[h + HOST_INSTRUCTION])
    s[H_HOST_BUSY] += t - s[H_JOB_START]
    note_completion(s, -1 - s[H_HOST], t)
    node_progress(s, x, p[h + HOST_NODE], t)
    s[H_HOST] += 1
    s[H_JOB_STATE] = JOB_WAITING


@kernel
def _is_job_done(s):
    for core in range(s[H_CORES_COUNT]):
        k = s[H_CORES] + core * CORE_WORDS
        if s[k + K_PHASE] != PHASE_IDLE or s[k + K_NEXT] < s[k + K_END]:
            return False
    return True


@kernel
def _start_job(s, p, x, ev, t):
    """The driver is done: every core takes its tasks."""
    if is_recording(x) and s[H_JOB_START] < t:
        emit(x, ev, INTERVAL, p[P_TRACK_DRIVER], KIND_DRIVER, s[H_JOB_START], t, -1)
    s[H_DRIVER_BUSY] += t - s[H_JOB_START]
    j = p[P_JOBS] + s[H_JOB] * JOB_WORDS
    for core in range(s[H_CORES_COUNT]):
        k = s[H_CORES] + core * CORE_WORDS
        s[k + K_NEXT] = p[j + J_FIRST + core]
        s[k + K_END] = p[j + J_FIRST + core + 1]
    s[H_JOB_STATE] = JOB_RUNNING
    s[H_JOB_UNTIL] = FAR


@kernel
def job_step(s, p, x, ev, t):
    """Host calls, then the driver, then the tasks of a job; returns whether cores have new tasks."""
    has_started = False
    if s[H_JOB_STATE] == JOB_HOST and s[H_JOB_UNTIL] <= t:
        _end_host(s, p, x, ev, t)
    if s[H_JOB_STATE] == JOB_DRIVER and s[H_JOB_UNTIL] <= t:
        _start_job(s, p, x, ev, t)
        has_started = True
    elif s[H_JOB_STATE] == JOB_RUNNING and _is_job_done(s):
        s[H_JOB] += 1
        s[H_JOB_STATE] = JOB_WAITING
    if s[H_JOB_STATE] == JOB_WAITING:
        s[H_JOB_UNTIL] = FAR
        j = p[P_JOBS] + s[H_JOB] * JOB_WORDS
        if s[H_HOST] < p[j + J_HOST_END]:
            h = p[P_HOSTS] + s[H_HOST] * HOST_WORDS
            s[H_JOB_STATE] = JOB_HOST
            s[H_JOB_START] = t
            s[H_JOB_UNTIL] = t + p[h + HOST_CYCLES]
            node_started(s, x, p[h + HOST_NODE], t)
            if is_watched(x):
                index = p[h + HOST_INSTRUCTION]
                watch_subject(x, STOP_INSTRUCTION, 0, index, index + 1, t)
        elif s[H_JOB] < s[H_JOBS]:
            s[H_JOB_STATE] = JOB_DRIVER
            s[H_JOB_START] = t
            s[H_JOB_UNTIL] = t + p[P_JOB_DRIVER]
        else:
            s[H_STATUS] = STATUS_FINISHED
    return has_started


@inlined
def next_event(s):
    """Time of the next event, FAR if there is none."""
    time = s[H_JOB_UNTIL]
    if s[H_BUS_UNTIL] < time:
        time = s[H_BUS_UNTIL]
    for core in range(s[H_CORES_COUNT]):
        wake = core_wake(s, s[H_CORES] + core * CORE_WORDS)
        if wake < time:
            time = wake
    return time


@kernel
def process(s, p, x, ev, t):
    """Everything that happens at time `t`."""
    if s[H_BUS_UNTIL] <= t:
        end_chunk(s, p, x, ev, t)
    for core in range(s[H_CORES_COUNT]):
        core_step(s, p, x, ev, core, t)
    if job_step(s, p, x, ev, t):
        for core in range(s[H_CORES_COUNT]):
            core_step(s, p, x, ev, core, t)
    if s[H_BUS_STREAM] < 0:
        begin_chunk(s, p, x, ev, t)
    for core in range(s[H_CORES_COUNT]):
        # The overhead is over, but register words are still on their way: the bus wakes the core.
        k = s[H_CORES] + core * CORE_WORDS
        if s[k + K_PHASE] == PHASE_REGISTERS and s[k + K_UNTIL] <= t:
            s[k + K_UNTIL] = s[H_BUS_UNTIL]
    s[H_LAST] = t


@entry
def advance(state, program, transient, events, margin):
    """Run until cycle x[X_UNTIL], a hit, a hang, the end, or until the event buffer is full.

    state      (words,) int64    changed   root state
    program    (words,) int64    read      program words
    transient  (words,) int64    changed   stop rows, hits, number of event rows
    events     (rows * 4,) int64 changed   event rows
    margin                       int       event rows one cycle may need
    Returns a RESULT_ code. The state is that of cycle state[H_CYCLE]: all earlier events happened.
    """
    s, p = pointer_to(state), pointer_to(program)
    x, ev = pointer_to(transient), pointer_to(events)
    if s[H_STATUS] == STATUS_FINISHED:
        return RESULT_FINISHED
    if s[H_STATUS] == STATUS_HANG:
        return RESULT_HANG
    while True:
        t = next_event(s)
        if t >= x[X_UNTIL]:
            s[H_CYCLE] = x[X_UNTIL]
            return RESULT_UNTIL
        if x[X_CAPACITY] > 0 and x[X_EVENTS] + margin > x[X_CAPACITY]:
            s[H_CYCLE] = t
            return RESULT_EVENTS
        process(s, p, x, ev, t)
        if s[H_STATUS] != 0:
            s[H_CYCLE] = t + 1
            return RESULT_FINISHED if s[H_STATUS] == STATUS_FINISHED else RESULT_HANG
