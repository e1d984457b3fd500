"""One core: registers, CNA streams, CORE stripe by stripe, DPU or PPU, write; a task after the other."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    INTERVAL,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    emit,
    is_recording,
    is_watched,
    watch_queue,
    watch_subject,
)
from npuviz.targets.rk3588.kernels.bus import close_stream, stream_word
from npuviz.targets.rk3588.kernels.records import (
    A_HIGH,
    A_LOW,
    A_WRITE,
    ACCESS_WORDS,
    CORE_BUSY,
    CORE_DONE,
    CORE_IDLE,
    CORE_WAITING,
    CORE_WORDS,
    FAR,
    H_CORES,
    H_HANG,
    H_LOG,
    H_LOG_COUNT,
    H_NODES,
    H_RECORDS,
    H_STATUS,
    K_ATOM,
    K_ATOMS,
    K_CAUSE,
    K_CORE_BUSY,
    K_CORE_START,
    K_CORE_STATE,
    K_CORE_UNTIL,
    K_END,
    K_GROUP,
    K_GROUP_START,
    K_NEXT,
    K_OUT_BUSY,
    K_OUT_BYTES,
    K_OUT_DRAINED,
    K_OUT_START,
    K_OUT_TOTAL,
    K_OUT_UNTIL,
    K_PENDING,
    K_PHASE,
    K_RING,
    K_SINCE,
    K_START,
    K_STRIPES,
    K_TASK,
    K_TASK_BUSY,
    K_UNTIL,
    K_WAIT_DATA,
    K_WAIT_OUTPUT,
    K_WAIT_WEIGHTS,
    KIND_DPU,
    KIND_GROUP,
    KIND_INTERRUPT,
    KIND_PPU,
    KIND_REGISTERS,
    KIND_STRIPE,
    KIND_WAIT_DATA,
    KIND_WAIT_OUTPUT,
    KIND_WAIT_WEIGHTS,
    N_LEFT,
    N_STARTED,
    NODE_WORDS,
    P_ACCESSES,
    P_BACKLOG,
    P_MEMORY_DDR,
    P_QUEUES_PER_CORE,
    P_STRIPE,
    P_TASK_DRIVER,
    P_TASK_OVERHEAD,
    P_TASKS,
    PHASE_IDLE,
    PHASE_REGISTERS,
    PHASE_RUN,
    R_DONE,
    R_START,
    R_TOTAL,
    RECORD_WORDS,
    STATUS_HANG,
    STREAM_COMMANDS,
    STREAM_FEATURE,
    STREAM_OPERAND,
    STREAM_WEIGHT,
    STREAM_WRITE,
    STREAMS,
    STRIPE_RING,
    T_ACCESS,
    T_ACCESSES,
    T_ATOMS,
    T_COMMAND_BYTES,
    T_FACTOR,
    T_FEATURE_BYTES,
    T_GROUP_BYTES,
    T_GROUPS,
    T_HANGS,
    T_INSTRUCTION,
    T_IS_POOLING,
    T_KIND,
    T_NODE,
    T_OPERAND_BYTES,
    T_OUT_COST,
    T_OUT_COST_LAST,
    T_REACH,
    T_ROW_ATOMS,
    T_ROW_BYTES,
    T_STRIDE,
    T_WEIGHT_BYTES,
    T_WEIGHT_ROOM,
    T_WRITE_ATOM,
    T_WRITE_LAST,
    TASK_WORDS,
    TRACK_CORE,
    TRACK_DPU,
    TRACK_INTERRUPT,
    TRACK_PPU,
    TRACK_STRIPES,
    TRACK_TASK,
    TRACKS_PER_CORE,
    X_BYTES,
    X_DATA,
    X_END,
    X_MAC,
    X_OUT,
    X_OUTPUT,
    X_START,
    X_WEIGHTS,
)


@inlined
def task_word(p, task):
    """First word of a task."""
    return p[P_TASKS] + task * TASK_WORDS


@kernel
def note_completion(s, entry, t):
    """Append to the log: what values depend on."""
    row = s[H_LOG] + 2 * s[H_LOG_COUNT]
    s[row] = entry
    s[row + 1] = t
    s[H_LOG_COUNT] += 1


@kernel
def node_started(s, x, node, t):
    """The first work of a graph node starts."""
    if node >= 0 and s[s[H_NODES] + node * NODE_WORDS + N_STARTED] == 0:
        s[s[H_NODES] + node * NODE_WORDS + N_STARTED] = 1
        if is_watched(x):
            watch_subject(x, STOP_NODE_START, node, 0, 1, t)


@kernel
def node_progress(s, x, node, t):
    """One piece of a graph node's work is done."""
    if node >= 0:
        w = s[H_NODES] + node * NODE_WORDS
        s[w + N_LEFT] -= 1
        if s[w + N_LEFT] == 0 and is_watched(x):
            watch_subject(x, STOP_NODE_END, node, 0, 1, t)


@kernel
def watch_accesses(p, x, q, is_write, t):
    """Tell stop rows which memory a task reads or writes."""
    for n in range(p[q + T_ACCESSES]):
        a = p[P_ACCESSES] + (p[q + T_ACCESS] + n) * ACCESS_WORDS
        if p[a + A_WRITE] == is_write:
            test = STOP_MEMORY_WRITE if is_write else STOP_MEMORY_READ
            watch_subject(x, test, p[P_MEMORY_DDR], p[a + A_LOW], p[a + A_HIGH], t)


@kernel
def begin_task(s, p, x, core, k, t):
    """Take the next task of the job: its registers are read first."""
    task = s[k + K_NEXT]
    q = task_word(p, task)
    s[k + K_TASK] = task
    s[k + K_NEXT] += 1
    s[k + K_PHASE] = PHASE_REGISTERS
    s[k + K_START] = t
    s[k + K_UNTIL] = t + p[P_TASK_OVERHEAD] + p[P_TASK_DRIVER]
    for stream in range(STREAMS):
        w = stream_word(s, core, stream)
        s[w + R_TOTAL] = 0
        s[w + R_DONE] = 0
        s[w + R_START] = -1
    s[stream_word(s, core, STREAM_COMMANDS) + R_TOTAL] = p[q + T_COMMAND_BYTES]
    s[k + K_CORE_STATE] = CORE_IDLE
    s[k + K_GROUP] = 0
    s[k + K_ATOM] = 0
    s[k + K_GROUP_START] = -1
    s[k + K_STRIPES] = 0
    s[k + K_OUT_UNTIL] = FAR
    s[k + K_OUT_DRAINED] = 0
    stripes = (p[q + T_ATOMS] + p[P_STRIPE] - 1) // p[P_STRIPE]
    s[k + K_OUT_TOTAL] = p[q + T_GROUPS] * stripes
    s[k + K_PENDING] = 0
    for word in (K_CORE_BUSY, K_OUT_BUSY, K_WAIT_DATA, K_WAIT_WEIGHTS, K_WAIT_OUTPUT):
        s[k + word] = 0
    s[k + K_CAUSE] = 0
    node_started(s, x, p[q + T_NODE], t)
    if is_watched(x):
        watch_subject(x, STOP_INSTRUCTION, 0, p[q + T_INSTRUCTION], p[q + T_INSTRUCTION] + 1, t)
        watch_accesses(p, x, q, 0, t)
        tasks = core * p[P_QUEUES_PER_CORE]
        left = s[k + K_END] - s[k + K_NEXT]
        watch_queue(x, tasks, left + 1, left, t)


@kernel
def _open_streams(s, p, core, q):
    s[stream_word(s, core, STREAM_FEATURE) + R_TOTAL] = p[q + T_FEATURE_BYTES]
    weights = p[q + T_WEIGHT_BYTES]
    if weights > p[q + T_WEIGHT_ROOM]:
        weights = p[q + T_WEIGHT_ROOM]
    s[stream_word(s, core, STREAM_WEIGHT) + R_TOTAL] = weights
    s[stream_word(s, core, STREAM_OPERAND) + R_TOTAL] = p[q + T_OPERAND_BYTES]


@kernel
def _end_wait(s, p, x, ev, core, k, q, t):
    if s[k + K_CORE_STATE] == CORE_WAITING and s[k + K_SINCE] < t:
        waited = t - s[k + K_SINCE]
        if s[k + K_CAUSE] == KIND_WAIT_DATA:
            s[k + K_WAIT_DATA] += waited
        elif s[k + K_CAUSE] == KIND_WAIT_WEIGHTS:
            s[k + K_WAIT_WEIGHTS] += waited
        else:
            s[k + K_WAIT_OUTPUT] += waited
        if is_recording(x) and p[q + T_FACTOR] > 0:
            track = core * TRACKS_PER_CORE + TRACK_STRIPES
            emit(x, ev, INTERVAL, track, s[k + K_CAUSE], s[k + K_SINCE], t, p[q + T_INSTRUCTION])
    s[k + K_SINCE] = t


@kernel
def _end_stripe(s, p, x, ev, core, k, q, t):
    """CORE has finished a stripe: it waits in the accumulator for the DPU."""
    slot = k + K_RING + 2 * s[k + K_STRIPES]
    s[slot] = s[k + K_ATOMS]
    s[slot + 1] = s[k + K_GROUP]
    s[k + K_STRIPES] += 1
    s[k + K_CORE_STATE] = CORE_IDLE
    s[k + K_ATOM] += s[k + K_ATOMS]
    is_shown = is_recording(x) and p[q + T_FACTOR] > 0
    first = core * TRACKS_PER_CORE
    if is_shown:
        emit(
            x, ev, INTERVAL, first + TRACK_STRIPES, KIND_STRIPE, s[k + K_CORE_START], t, p[q + T_INSTRUCTION]
        )
    if is_watched(x):
        queue = core * p[P_QUEUES_PER_CORE] + 1
        watch_queue(x, queue, s[k + K_STRIPES] - 1, s[k + K_STRIPES], t)
    if s[k + K_ATOM] >= p[q + T_ATOMS]:
        if is_shown:
            emit(
                x, ev, INTERVAL, first + TRACK_CORE, KIND_GROUP, s[k + K_GROUP_START], t, p[q + T_INSTRUCTION]
            )
        s[k + K_ATOM] = 0
        s[k + K_GROUP] += 1
        s[k + K_GROUP_START] = -1
        room = s[k + K_GROUP] * p[q + T_GROUP_BYTES] + p[q + T_WEIGHT_ROOM]
        if room > p[q + T_WEIGHT_BYTES]:
            room = p[q + T_WEIGHT_BYTES]
        s[stream_word(s, core, STREAM_WEIGHT) + R_TOTAL] = room
        if s[k + K_GROUP] == p[q + T_GROUPS]:
            s[k + K_CORE_STATE] = CORE_DONE


@kernel
def _missing(s, p, core, k, q, atoms):
    """KIND_WAIT_ of what the next stripe needs and is not there, 0 if nothing."""
    if s[k + K_STRIPES] >= STRIPE_RING:
        return KIND_WAIT_OUTPUT
    row = (s[k + K_ATOM] + atoms - 1) // p[q + T_ROW_ATOMS]
    needed = (row * p[q + T_STRIDE] + p[q + T_REACH]) * p[q + T_ROW_BYTES]
    if needed > p[q + T_FEATURE_BYTES]:
        needed = p[q + T_FEATURE_BYTES]
    if s[stream_word(s, core, STREAM_FEATURE) + R_DONE] < needed:
        return KIND_WAIT_DATA
    needed = (s[k + K_GROUP] + 1) * p[q + T_GROUP_BYTES]
    if needed > p[q + T_WEIGHT_BYTES]:
        needed = p[q + T_WEIGHT_BYTES]
    if s[stream_word(s, core, STREAM_WEIGHT) + R_DONE] < needed:
        return KIND_WAIT_WEIGHTS
    return 0


@kernel
def _start_stripe(s, p, x, ev, core, k, q, t):
    atoms = p[q + T_ATOMS] - s[k + K_ATOM]
    if atoms > p[P_STRIPE]:
        atoms = p[P_STRIPE]
    cause = _missing(s, p, core, k, q, atoms)
    if cause != 0:
        if s[k + K_CORE_STATE] != CORE_WAITING or cause != s[k + K_CAUSE]:
            _end_wait(s, p, x, ev, core, k, q, t)
            s[k + K_CORE_STATE] = CORE_WAITING
            s[k + K_SINCE] = t
            s[k + K_CAUSE] = cause
        return
    _end_wait(s, p, x, ev, core, k, q, t)
    s[k + K_CORE_STATE] = CORE_BUSY
    s[k + K_ATOMS] = atoms
    s[k + K_CORE_START] = t
    cycles = atoms * p[q + T_FACTOR]
    s[k + K_CORE_BUSY] += cycles
    s[k + K_CORE_UNTIL] = t + (cycles if cycles > 0 else 1)
    if s[k + K_GROUP_START] < 0:
        s[k + K_GROUP_START] = t


@kernel
def _end_output(s, p, x, ev, core, k, q, t):
    """DPU or PPU has drained a stripe: its bytes go to the writer."""
    if is_recording(x):
        is_pooling = p[q + T_IS_POOLING] != 0
        track = core * TRACKS_PER_CORE + (TRACK_PPU if is_pooling else TRACK_DPU)
        kind = KIND_PPU if is_pooling else KIND_DPU
        emit(x, ev, INTERVAL, track, kind, s[k + K_OUT_START], t, p[q + T_INSTRUCTION])
    s[k + K_OUT_UNTIL] = FAR
    s[k + K_OUT_DRAINED] += 1
    s[stream_word(s, core, STREAM_WRITE) + R_TOTAL] += s[k + K_OUT_BYTES]
    s[k + K_PENDING] += s[k + K_OUT_BYTES]


@kernel
def _start_output(s, p, x, core, k, q, t):
    if s[k + K_PENDING] > p[P_BACKLOG]:
        return
    operand = stream_word(s, core, STREAM_OPERAND)
    needed = p[q + T_OPERAND_BYTES] * (s[k + K_OUT_DRAINED] + 1) // s[k + K_OUT_TOTAL]
    if s[operand + R_DONE] < needed:
        return
    atoms, group = s[k + K_RING], s[k + K_RING + 1]
    s[k + K_STRIPES] -= 1
    for n in range(2 * s[k + K_STRIPES]):
        s[k + K_RING + n] = s[k + K_RING + n + 2]
    if is_watched(x):
        queue = core * p[P_QUEUES_PER_CORE] + 1
        watch_queue(x, queue, s[k + K_STRIPES] + 1, s[k + K_STRIPES], t)
    is_last = group == p[q + T_GROUPS] - 1
    cost = atoms * (p[q + T_OUT_COST_LAST] if is_last else p[q + T_OUT_COST])
    cycles = (cost + 1023) >> 10
    if cycles < 1:
        cycles = cycles - cycles + 1
    s[k + K_OUT_BYTES] = atoms * (p[q + T_WRITE_LAST] if is_last else p[q + T_WRITE_ATOM])
    s[k + K_OUT_START] = t
    s[k + K_OUT_UNTIL] = t + cycles
    s[k + K_OUT_BUSY] += cycles


@kernel
def _is_complete(s, core, k):
    if s[k + K_CORE_STATE] != CORE_DONE or s[k + K_OUT_DRAINED] < s[k + K_OUT_TOTAL]:
        return False
    for stream in range(STREAMS):
        w = stream_word(s, core, stream)
        if s[w + R_DONE] < s[w + R_TOTAL]:
            return False
    return True


@kernel
def _end_task(s, p, x, ev, core, k, q, t):
    task = s[k + K_TASK]
    record = s[H_RECORDS] + task * RECORD_WORDS
    s[record + X_START] = s[k + K_START]
    s[record + X_END] = t
    s[record + X_MAC] = s[k + K_CORE_BUSY]
    s[record + X_OUT] = s[k + K_OUT_BUSY]
    s[record + X_DATA] = s[k + K_WAIT_DATA]
    s[record + X_WEIGHTS] = s[k + K_WAIT_WEIGHTS]
    s[record + X_OUTPUT] = s[k + K_WAIT_OUTPUT]
    total = 0
    for stream in range(STREAMS):
        close_stream(s, p, x, ev, core, stream, t)
        total += s[stream_word(s, core, stream) + R_DONE]
    s[record + X_BYTES] = total
    s[k + K_TASK_BUSY] += t - s[k + K_START]
    if is_recording(x):
        track = core * TRACKS_PER_CORE + TRACK_TASK
        emit(x, ev, INTERVAL, track, p[q + T_KIND], s[k + K_UNTIL], t, p[q + T_INSTRUCTION])
        track = core * TRACKS_PER_CORE + TRACK_INTERRUPT
        emit(x, ev, INTERVAL, track, KIND_INTERRUPT, t, t + 1, p[q + T_INSTRUCTION])
    note_completion(s, task, t)
    node_progress(s, x, p[q + T_NODE], t)
    if is_watched(x):
        watch_accesses(p, x, q, 1, t)
    s[k + K_PHASE] = PHASE_IDLE
    s[k + K_TASK] = -1


@kernel
def core_step(s, p, x, ev, core, t):
    """Everything a core does at time `t`."""
    k = s[H_CORES] + core * CORE_WORDS
    if s[k + K_PHASE] == PHASE_REGISTERS and s[k + K_UNTIL] <= t:
        q = task_word(p, s[k + K_TASK])
        if s[stream_word(s, core, STREAM_COMMANDS) + R_DONE] < p[q + T_COMMAND_BYTES]:
            return
        # Words may arrive later than the overhead: the task starts when both are over.
        s[k + K_UNTIL] = t
        if is_recording(x) and s[k + K_START] < t:
            track = core * TRACKS_PER_CORE + TRACK_TASK
            emit(x, ev, INTERVAL, track, KIND_REGISTERS, s[k + K_START], t, p[q + T_INSTRUCTION])
        if p[q + T_HANGS] != 0:
            s[H_STATUS] = STATUS_HANG
            s[H_HANG] = s[k + K_TASK]
            return
        s[k + K_PHASE] = PHASE_RUN
        s[k + K_SINCE] = t
        _open_streams(s, p, core, q)
    if s[k + K_PHASE] == PHASE_RUN:
        q = task_word(p, s[k + K_TASK])
        if s[k + K_CORE_STATE] == CORE_BUSY and s[k + K_CORE_UNTIL] <= t:
            _end_stripe(s, p, x, ev, core, k, q, t)
        if s[k + K_OUT_UNTIL] <= t:
            _end_output(s, p, x, ev, core, k, q, t)
        if s[k + K_OUT_UNTIL] == FAR and s[k + K_STRIPES] > 0:
            _start_output(s, p, x, core, k, q, t)
        if s[k + K_CORE_STATE] == CORE_IDLE or s[k + K_CORE_STATE] == CORE_WAITING:
            _start_stripe(s, p, x, ev, core, k, q, t)
        if _is_complete(s, core, k):
            _end_task(s, p, x, ev, core, k, q, t)
    if s[k + K_PHASE] == PHASE_IDLE and s[k + K_NEXT] < s[k + K_END]:
        begin_task(s, p, x, core, k, t)


@inlined
def core_wake(s, k):
    """When a core has something to do by itself."""
    time = FAR
    if s[k + K_PHASE] == PHASE_REGISTERS:
        time = s[k + K_UNTIL]
    elif s[k + K_PHASE] == PHASE_RUN:
        if s[k + K_CORE_STATE] == CORE_BUSY:
            time = s[k + K_CORE_UNTIL]
        if s[k + K_OUT_UNTIL] < time:
            time = s[k + K_OUT_UNTIL]
    return time
