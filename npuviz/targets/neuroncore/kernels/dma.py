"""DMA engines: rings of queue sets served element by element, round robin, in order inside a ring."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import COUNTER, INTERVAL, emit, is_recording, is_watched, watch_queue
from npuviz.targets.neuroncore.kernels.records import (
    D_BUSY,
    D_BYTES,
    D_CORE,
    D_IS_MARK,
    D_NUMBER,
    D_QUEUE,
    D_SERVED,
    D_SLICE,
    D_SLICE_QUEUE,
    D_SLICE_TRIGGER,
    D_TURN,
    D_UNTIL,
    ENGINE_WORDS,
    F_LEFT,
    F_READY,
    F_START,
    F_TRIGGER,
    FAR,
    FIFO_TRANSFERS,
    FIFO_WORDS,
    H_BYTES,
    H_CORES_COUNT,
    H_DIRTY,
    H_ENGINES,
    H_ENGINES_COUNT,
    H_QUEUES,
    H_QUEUES_COUNT,
    H_RINGS,
    H_SEQUENCERS_COUNT,
    H_TRANSFERS,
    H_WAKES,
    I_TRANSFER,
    KIND_TRANSFER,
    MAX_RINGS,
    P_DMA_START,
    P_MARK_COST,
    P_OFFSETS,
    P_PARTS,
    P_REMOTES,
    P_TRACK_ENGINES,
    P_TRACK_PENDING,
    P_TRANSFERS,
    PART_BYTES,
    PART_COST,
    PART_ELEMENTS,
    PART_WORDS,
    QUANTUM,
    QUEUE_WORDS,
    R_HEAD,
    R_LEFT,
    R_PART,
    RING_WORDS,
    T_ACCESS,
    T_ACCESSES,
    T_EVENT,
    T_QUEUE,
    T_REMOTE,
    T_REMOTES,
    T_SEMAPHORE,
    TRANSFER_WORDS,
    UP_ADD,
    UP_EVENT_SET,
    W_BASE,
    W_CORE,
    W_COUNT,
    W_DONE,
    W_FIFO,
    W_PEAK,
    W_RINGS,
)
from npuviz.targets.neuroncore.kernels.updates import (
    close_allocations,
    node_progress,
    note_completion,
    update,
    watch_accesses,
    word_of,
)


@kernel
def has_room(s, p, transfer):
    """Whether the queue set of a transfer takes one more."""
    w = s[H_QUEUES] + p[p[P_TRANSFERS] + transfer * TRANSFER_WORDS + T_QUEUE] * QUEUE_WORDS
    return s[w + W_COUNT] - s[w + W_DONE] < FIFO_TRANSFERS


@kernel
def _count_pending(s, p, x, ev, queue, before, t):
    w = s[H_QUEUES] + queue * QUEUE_WORDS
    pending = s[w + W_COUNT] - s[w + W_DONE]
    if is_recording(x):
        emit(x, ev, COUNTER, p[P_TRACK_PENDING] + queue, 0, t, pending, -1)
    if is_watched(x):
        watch_queue(x, queue, before, pending, t)


@kernel
def enqueue(s, p, x, ev, instruction, transfer, triggered, t):
    """A trigger has been issued; its elements may be served some time after it completes."""
    row = p[P_TRANSFERS] + transfer * TRANSFER_WORDS
    queue = p[row + T_QUEUE]
    w = s[H_QUEUES] + queue * QUEUE_WORDS
    f = w + W_FIFO + (s[w + W_COUNT] % FIFO_TRANSFERS) * FIFO_WORDS
    ready = triggered + p[P_DMA_START]
    s[f + F_TRIGGER] = instruction
    s[f + F_READY] = ready
    s[f + F_LEFT] = s[w + W_RINGS]
    s[f + F_START] = t
    s[w + W_COUNT] += 1
    pending = s[w + W_COUNT] - s[w + W_DONE]
    if pending > s[w + W_PEAK]:
        s[w + W_PEAK] = pending
    _count_pending(s, p, x, ev, queue, pending - 1, t)
    if is_watched(x):
        watch_accesses(p, x, p[row + T_ACCESS], p[row + T_ACCESSES], 0, t)
    per_core = s[H_ENGINES_COUNT] // s[H_CORES_COUNT]
    for ring in range(s[w + W_RINGS]):
        number = s[w + W_CORE] * per_core + (s[w + W_BASE] + ring) % per_core
        wake = s[H_WAKES] + s[H_SEQUENCERS_COUNT] + number
        if s[wake] > ready:
            s[wake] = ready


@kernel
def _finish_transfer(s, p, x, ev, queue, t):
    """All rings are done with the oldest transfer of a queue set."""
    w = s[H_QUEUES] + queue * QUEUE_WORDS
    f = w + W_FIFO + (s[w + W_DONE] % FIFO_TRANSFERS) * FIFO_WORDS
    trigger = s[f + F_TRIGGER]
    i = word_of(p, trigger)
    row = p[P_TRANSFERS] + p[i + I_TRANSFER] * TRANSFER_WORDS
    s[w + W_DONE] += 1
    s[H_TRANSFERS] += 1
    s[H_DIRTY] = 1
    note_completion(s, -1 - trigger, t)
    amount = s[w + W_RINGS]
    if p[row + T_EVENT] >= 0:
        update(s, p, x, ev, UP_EVENT_SET, p[row + T_EVENT], 1, trigger, t)
    if p[row + T_SEMAPHORE] >= 0:
        update(s, p, x, ev, UP_ADD, p[row + T_SEMAPHORE], amount, trigger, t)
    for n in range(p[row + T_REMOTES]):
        update(s, p, x, ev, UP_ADD, p[p[P_REMOTES] + p[row + T_REMOTE] + n], amount, trigger, t)
    close_allocations(s, p, x, ev, i, t)
    node_progress(s, p, x, i, t)
    _count_pending(s, p, x, ev, queue, s[w + W_COUNT] - s[w + W_DONE] + 1, t)
    if is_watched(x):
        watch_accesses(p, x, p[row + T_ACCESS], p[row + T_ACCESSES], 1, t)


@kernel
def _end_quantum(s, p, x, ev, d, t):
    queue, ring = s[d + D_QUEUE] // MAX_RINGS, s[d + D_QUEUE] % MAX_RINGS
    r = s[H_RINGS] + (queue * MAX_RINGS + ring) * RING_WORDS
    s[d + D_QUEUE] = -1
    if s[d + D_IS_MARK] == 0:
        s[r + R_LEFT] -= s[d + D_SERVED]
        if s[r + R_LEFT] == 0:
            s[r + R_PART] += 1
            s[r + R_LEFT] = -1
        return
    w = s[H_QUEUES] + queue * QUEUE_WORDS
    f = w + W_FIFO + (s[r + R_HEAD] % FIFO_TRANSFERS) * FIFO_WORDS
    s[r + R_HEAD] += 1
    s[r + R_PART] = 0
    s[r + R_LEFT] = -1
    s[f + F_LEFT] -= 1
    if s[f + F_LEFT] == 0:
        _finish_transfer(s, p, x, ev, queue, t)


@kernel
def _end_slice(s, p, x, ev, d, number, t):
    if s[d + D_SLICE] >= 0:
        if is_recording(x):
            track = p[P_TRACK_ENGINES] + number
            emit(x, ev, INTERVAL, track, KIND_TRANSFER, s[d + D_SLICE], t, s[d + D_SLICE_TRIGGER])
        s[d + D_SLICE] = -1


@kernel
def _begin_quantum(s, p, x, ev, d, number, queue, ring, t):
    r = s[H_RINGS] + (queue * MAX_RINGS + ring) * RING_WORDS
    w = s[H_QUEUES] + queue * QUEUE_WORDS
    f = w + W_FIFO + (s[r + R_HEAD] % FIFO_TRANSFERS) * FIFO_WORDS
    trigger = s[f + F_TRIGGER]
    if s[d + D_SLICE] >= 0 and (s[d + D_SLICE_TRIGGER] != trigger or s[d + D_SLICE_QUEUE] != queue):
        _end_slice(s, p, x, ev, d, number, t)
    if s[d + D_SLICE] < 0:
        s[d + D_SLICE] = t
        s[d + D_SLICE_TRIGGER] = trigger
        s[d + D_SLICE_QUEUE] = queue
    s[d + D_QUEUE] = queue * MAX_RINGS + ring
    s[d + D_TURN] = queue * MAX_RINGS + ring
    transfer = p[word_of(p, trigger) + I_TRANSFER]
    offsets = p[P_OFFSETS] + transfer * (MAX_RINGS + 1) + ring
    part = p[offsets] + s[r + R_PART]
    if part < p[offsets + 1]:
        q = p[P_PARTS] + part * PART_WORDS
        if s[r + R_LEFT] < 0:
            s[r + R_LEFT] = p[q + PART_ELEMENTS]
        served = s[r + R_LEFT]
        if served > QUANTUM:
            served = served - served + QUANTUM
        cost = (served * p[q + PART_COST] + 1023) >> 10
        s[d + D_IS_MARK] = 0
        moved = served * p[q + PART_BYTES]
        s[d + D_BYTES] += moved
        s[H_BYTES] += moved
    else:
        served = part - part
        cost = p[P_MARK_COST]
        s[d + D_IS_MARK] = 1
    s[d + D_SERVED] = served
    s[d + D_UNTIL] = t + cost
    s[d + D_BUSY] += cost


@kernel
def dma_step(s, p, x, ev, number, t):
    """One DMA engine at time `t`: end its quantum, begin the next; returns when it wakes again."""
    d = s[H_ENGINES] + number * ENGINE_WORDS
    if s[d + D_QUEUE] >= 0:
        if s[d + D_UNTIL] > t:
            return s[d + D_UNTIL]
        _end_quantum(s, p, x, ev, d, t)
    per_core = s[H_ENGINES_COUNT] // s[H_CORES_COUNT]
    count = s[H_QUEUES_COUNT]
    earliest = FAR
    # Rings after the one served last come first; only those of this engine are looked at.
    queue = s[d + D_TURN] // MAX_RINGS
    ring = s[d + D_TURN] % MAX_RINGS + 1
    base = s[s[H_QUEUES] + queue * QUEUE_WORDS + W_BASE] if count > 0 else queue
    ring += (s[d + D_NUMBER] - base - ring) % per_core
    for _ in range(count * (MAX_RINGS // per_core + 2) + 2):
        if count == 0:
            break
        w = s[H_QUEUES] + queue * QUEUE_WORDS
        if ring >= s[w + W_RINGS] or s[w + W_CORE] != s[d + D_CORE]:
            queue += 1
            if queue >= count:
                queue = queue - queue
            ring = (s[d + D_NUMBER] - s[s[H_QUEUES] + queue * QUEUE_WORDS + W_BASE]) % per_core
            continue
        r = s[H_RINGS] + (queue * MAX_RINGS + ring) * RING_WORDS
        if s[r + R_HEAD] < s[w + W_COUNT]:
            ready = s[w + W_FIFO + (s[r + R_HEAD] % FIFO_TRANSFERS) * FIFO_WORDS + F_READY]
            if ready <= t:
                _begin_quantum(s, p, x, ev, d, number, queue, ring, t)
                return s[d + D_UNTIL]
            if ready < earliest:
                earliest = ready
        ring += per_core
    _end_slice(s, p, x, ev, d, number, t)
    return earliest
