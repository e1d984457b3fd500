"""The processor of a node in one cycle: who of the threads and the main thread takes the datapath."""

from npuviz.sim.parts.bits_kernels import kernel, trailing_zeros
from npuviz.targets.wavelet.dispatch_kernels import cursor_ready
from npuviz.targets.wavelet.dsd_kernels import can_step, finish_operation, step_operation
from npuviz.targets.wavelet.events_kernels import block_of, leave_trail, wake_processor
from npuviz.targets.wavelet.isa_kernels import CODE_WORDS, OP_MAP_WRITE
from npuviz.targets.wavelet.operation_start_kernels import thread_of
from npuviz.targets.wavelet.ring_kernels import push_queue, queue_has_room
from npuviz.targets.wavelet.scalar_kernels import scalar_step
from npuviz.targets.wavelet.state_kernels import (
    B_BUSY,
    B_CLASS,
    B_FLUSH,
    B_FLUSH_TASK,
    B_FREE,
    B_HALTED,
    B_LAST,
    B_LEVEL,
    B_MAIN_MASK,
    B_MAP_WAIT,
    B_PC,
    B_PROGRAM,
    B_READY,
    B_STREAMS_IN,
    B_TASK,
    B_THREADS,
    B_UT_BLOCKED,
    COMMAND_WORDS,
    FAR,
    G_CODE,
    H_COMMANDS,
    H_HOST_AT,
    L_QUEUE,
    MAIN,
    ONE,
    P_HOST_WORD,
    Q_IN_AT,
    Q_IN_COMMAND,
    Q_IN_LEFT,
    Q_IN_NEXT,
    T_LEVEL,
    T_NEXT,
    T_WAIT,
    TRAIL_TAKEN,
    WAIT_BLOCKED,
    X_LEFT,
    ZERO,
)
from npuviz.targets.wavelet.system_kernels import queue_level
from npuviz.targets.wavelet.task_kernels import NO_TASK, pick_task, start_task

RUN_MAIN = 9
"""Number of the main thread's scalar instructions among what wants the datapath."""


@kernel
def _take_from_host(s, p, h, b, node, t):
    """Words that the host sends to this processor enter its queues; returns when to look again."""
    again = FAR
    mask = s[b + B_STREAMS_IN]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        q = b + p[s[b + B_CLASS] + L_QUEUE + k]
        if s[q + Q_IN_NEXT] > t:
            if s[q + Q_IN_NEXT] < again:
                again = s[q + Q_IN_NEXT]
            continue
        if not queue_has_room(s, q, t):
            # A pop wakes this processor.
            again = t + 1
            continue
        place = s[q + Q_IN_AT]
        identity = (1 << 62) | place
        push_queue(s, q, h[place] & 0xFFFF_FFFF, identity, t + 1)
        leave_trail(s, identity, node, ZERO, TRAIL_TAKEN, ZERO, s[q], h[place] & 0xFFFF_FFFF)
        s[b + B_MAIN_MASK] |= 1 << k
        s[q + Q_IN_AT] = place + 1
        s[q + Q_IN_NEXT] = t + p[P_HOST_WORD]
        s[q + Q_IN_LEFT] -= 1
        if s[q + Q_IN_LEFT] == 0:
            s[b + B_STREAMS_IN] &= ~(1 << k)
            state = s[H_COMMANDS] + s[q + Q_IN_COMMAND] * COMMAND_WORDS
            s[state + X_LEFT] -= 1
            if s[state + X_LEFT] == 0 and s[H_HOST_AT] > t + 1:
                s[H_HOST_AT] = t + 1
        again = t + 1
    return again


@kernel
def _look_for_empty(s, p, b):
    """Queues with a flush under way that are empty now start their handler."""
    mask = s[b + B_FLUSH]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        if queue_level(s, p, b, k & 7, k >= 8) == 0:
            s[b + B_FLUSH] &= ~(1 << k)
            s[b + B_FLUSH_TASK] |= 1 << k


@kernel
def _main_ready(s, p, b, t):
    """Whether the main thread's next instruction can be tried at cycle `t`."""
    if s[b + B_MAP_WAIT] <= 0:
        return True
    code = p[s[b + B_PROGRAM] + G_CODE] + s[b + B_PC] * CODE_WORDS
    return cursor_ready(s, p, b, s[b + B_MAP_WAIT], p[code] != OP_MAP_WRITE, t)


@kernel
def processor_step(s, p, h, x, ev, node, t):
    """Cycle `t` of a node's processor."""
    b = block_of(s, p, node)
    if s[b + B_HALTED] or s[b + B_PROGRAM] < 0:
        return
    wake = FAR
    if s[b + B_STREAMS_IN]:
        wake = _take_from_host(s, p, h, b, node, t)
    if s[b + B_FLUSH]:
        _look_for_empty(s, p, b)
    best = -1
    best_rank = -1
    last = s[b + B_LAST]
    mask = threads = s[b + B_THREADS]
    is_free = s[b + B_FREE] <= t
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        th = thread_of(s, p, b, k)
        if k < MAIN and (s[b + B_UT_BLOCKED] >> k) & 1:
            s[th + T_WAIT] = WAIT_BLOCKED
            continue
        if s[th + T_NEXT] > t:
            if s[th + T_NEXT] < wake:
                wake = s[th + T_NEXT]
            continue
        state = can_step(s, p, b, th, t)
        if state == -1:
            finish_operation(s, p, x, ev, b, k, ZERO, t, ONE)
            wake = t + 1
        elif state == 1:
            level = s[th + T_LEVEL] if k < MAIN else s[b + B_LEVEL]
            rank = level * 16 + (15 if k > last else 0)
            if rank > best_rank:
                if best >= 0:
                    wake = t + 1
                best, best_rank = k, rank
            else:
                wake = t + 1
        elif state > 1 and state < wake:
            wake = state
    if s[b + B_TASK] < 0 and s[b + B_READY] <= t:
        pick = pick_task(s, p, b, t)
        if pick != NO_TASK:
            start_task(s, p, h, b, pick, t)
        else:
            again = _next_arrival(s, p, b, t)
            if again < wake:
                wake = again
    if s[b + B_TASK] >= 0 and (s[b + B_THREADS] >> MAIN) & 1 == 0:
        if s[b + B_READY] > t:
            if s[b + B_READY] < wake:
                wake = s[b + B_READY]
        elif _main_ready(s, p, b, t):
            rank = s[b + B_LEVEL] * 16 + (15 if last < RUN_MAIN else 0)
            if best >= 0:
                wake = t + 1
            if rank > best_rank:
                best = RUN_MAIN
    elif s[b + B_TASK] < 0 and s[b + B_READY] > t and s[b + B_READY] < wake:
        wake = s[b + B_READY]
    if best >= 0:
        if not is_free:
            wake_processor(s, node, s[b + B_FREE])
            return
        s[b + B_LAST] = best if best < RUN_MAIN else -1
        if best == RUN_MAIN:
            scalar_step(s, p, x, ev, b, t)
            s[b + B_FREE] = t + 1
            s[b + B_BUSY] += 1
            again = s[b + B_READY]
            if s[b + B_THREADS] != threads and again > t + 1:
                # An operation started: its first step may come a cycle before.
                again -= 1
            if s[b + B_MAP_WAIT] <= 0 and again < wake:
                wake = again
        else:
            cycles = step_operation(s, p, x, ev, b, best, t)
            s[b + B_FREE] = t + cycles
            s[b + B_BUSY] += cycles
            # A step may have made room, data or a task for others.
            if wake > t + cycles:
                wake = t + (cycles if cycles > 0 else 1)
            if s[b + B_TASK] < 0 and s[b + B_READY] <= t:
                pick = pick_task(s, p, b, t)
                if pick != NO_TASK:
                    start_task(s, p, h, b, pick, t)
    if wake < FAR:
        wake_processor(s, node, wake)


@kernel
def _next_arrival(s, p, b, t):
    """Earliest cycle at which a word of an input queue can be looked at, of those still on the ramp."""
    from_queue = FAR
    mask = s[b + B_MAIN_MASK]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        q = b + p[s[b + B_CLASS] + L_QUEUE + k]
        entry = q + 16 + s[q + 1] * 3
        if s[q + 2] > 0 and s[entry + 2] > t and s[entry + 2] < from_queue:
            from_queue = s[entry + 2]
    return from_queue
