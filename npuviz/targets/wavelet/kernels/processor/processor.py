"""The processor of a node in one cycle: who of the threads and the main thread takes the datapath."""

from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced, stay_apart, trailing_zeros
from npuviz.targets.wavelet.kernels.dsd.dispatch import cursor_ready
from npuviz.targets.wavelet.kernels.dsd.start import thread_of
from npuviz.targets.wavelet.kernels.dsd.steps import can_step, finish_operation, step_operation
from npuviz.targets.wavelet.kernels.isa import CODE_WORDS, OP_MAP_WRITE
from npuviz.targets.wavelet.kernels.processor.scalar import scalar_step
from npuviz.targets.wavelet.kernels.processor.system import queue_level
from npuviz.targets.wavelet.kernels.processor.task import NO_TASK, may_start, pick_task, start_task
from npuviz.targets.wavelet.kernels.program_records import (
    G_CODE,
    L_QUEUE,
    P_HOST_WORD,
)
from npuviz.targets.wavelet.kernels.records import (
    B_BUSY,
    B_CLAIMED,
    B_CLASS,
    B_FLUSH,
    B_FREE,
    B_HALTED,
    B_LAST,
    B_LEVEL,
    B_LEVELS,
    B_MAIN_MASK,
    B_MAP_WAIT,
    B_NEXT,
    B_PC,
    B_PROGRAM,
    B_READY,
    B_STALLED,
    B_STREAMS_IN,
    B_TASK,
    B_TESTED,
    B_THREADS,
    B_TIMED,
    B_UT_BLOCKED,
    C_LIMIT_RAMP,
    C_PORTS,
    FAR,
    FLUSH_TASK,
    FLUSHES,
    H_SEATS,
    KIND_INPUT,
    KIND_OUTPUT,
    LEVEL_BITS,
    MAIN,
    ONE,
    Q_COUNT,
    Q_IN_AT,
    Q_IN_COMMAND,
    Q_IN_LEFT,
    Q_IN_NEXT,
    R_COUNT,
    SEVERAL,
    STALLED_OUTPUT,
    T_FABRIC,
    T_RECORD,
    T_WAIT,
    TOP_LEVEL,
    TRAIL_TAKEN,
    WAIT_BLOCKED,
    WAIT_INPUT,
    WAIT_NONE,
    WAIT_OUTPUT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry, push_queue, queue_has_room
from npuviz.targets.wavelet.kernels.time.events import (
    block_of,
    end_part,
    leave_trail,
    step_from,
    wake_processor,
)

RUN_MAIN = 9
"""Number of the main thread's scalar instructions among what wants the datapath."""
MICROTHREADS = (1 << MAIN) - 1


@kernel
def _take_from_host(s, p, h, b, t):
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
        push_queue(s, b, q, h[place] & 0xFFFF_FFFF, identity, t + 1)
        leave_trail(s, b, identity, ZERO, TRAIL_TAKEN, ZERO, s[q], h[place] & 0xFFFF_FFFF)
        s[b + B_MAIN_MASK] |= 1 << k
        s[q + Q_IN_AT] = place + 1
        s[q + Q_IN_NEXT] = t + p[P_HOST_WORD]
        s[q + Q_IN_LEFT] -= 1
        if s[q + Q_IN_LEFT] == 0:
            s[b + B_STREAMS_IN] &= ~(1 << k)
            end_part(s, s[q + Q_IN_COMMAND], t)
        again = t + 1
    return again


@kernel
def _look_for_empty(s, p, b):
    """Queues with a flush under way that are empty now start their handler."""
    mask = s[b + B_FLUSH] & FLUSHES
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        if queue_level(s, p, b, k & 7, k >= 8) == 0:
            s[b + B_FLUSH] = (s[b + B_FLUSH] & ~(1 << k)) | (1 << (k + FLUSH_TASK))


@kernel
def _main_ready(s, p, b, t):
    """Whether the main thread's next instruction can be tried at cycle `t`."""
    if s[b + B_MAP_WAIT] <= 0:
        return True
    code = p[s[b + B_PROGRAM] + G_CODE] + s[b + B_PC] * CODE_WORDS
    return cursor_ready(s, p, b, s[b + B_MAP_WAIT], p[code] != OP_MAP_WRITE, t)


@kernel
def _look_at_thread(s, p, x, ev, b, number, t):
    """Find out whether a thread can take a step: 1 yes, 0 it waits for others, c > 1: from cycle c on.

    A thread that waits is not looked at again before a word or room has come.
    """
    th = thread_of(s, p, b, number)
    state = can_step(s, p, b, th, t)
    if state == -1:
        finish_operation(s, p, x, ev, b, number, ZERO, t, ONE)
        return t + 1
    if s[th + T_FABRIC] != SEVERAL:
        s[b + B_TESTED] &= ~(1 << number)
        if state == 0:
            s[b + B_STALLED] |= 1 << (number if s[th + T_WAIT] == WAIT_INPUT else number + STALLED_OUTPUT)
        elif state > 1:
            step_from(s, b, number, state)
    return state


@inlined
def _note_wait(s, p, b, number):
    """What a thread waits for after a step, if that is one queue or one output: it is woken when it comes."""
    th = thread_of(s, p, b, number)
    at = s[th + T_RECORD]
    if s[th + T_FABRIC] == KIND_INPUT:
        s[th + T_WAIT] = WAIT_NONE
        if s[at + Q_COUNT] == 0:
            s[b + B_STALLED] |= 1 << number
            s[th + T_WAIT] = WAIT_INPUT
        elif s[head_entry(s, at) + 2] > s[b + B_NEXT + number]:
            step_from(s, b, number, s[head_entry(s, at) + 2])
            s[th + T_WAIT] = WAIT_INPUT
    elif s[th + T_FABRIC] == KIND_OUTPUT and s[at + C_PORTS + R_COUNT] >= s[at + C_LIMIT_RAMP]:
        s[b + B_STALLED] |= 1 << (number + STALLED_OUTPUT)
        s[th + T_WAIT] = WAIT_OUTPUT


@kernel
def _hold_blocked(s, p, b, mask):
    """Microthreads that are blocked wait for nothing else; they are looked at when they may go on."""
    s[b + B_TESTED] |= mask
    s[b + B_STALLED] &= ~(mask | (mask << STALLED_OUTPUT))
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        s[thread_of(s, p, b, k) + T_WAIT] = WAIT_BLOCKED


@inlined
def _first_in_turn(s, b, ready):
    """The thread of the highest priority, after the one served last, and its rank: number | rank << 8."""
    last = s[b + B_LAST]
    served = (1 << (last + 1)) - 1
    best, rank = -1, -1
    level = TOP_LEVEL
    while level >= 0:
        mask = ready & (s[b + B_LEVELS] >> (LEVEL_BITS * level)) & MICROTHREADS
        if mask:
            later = mask & ~served
            best = trailing_zeros(later) if later else trailing_zeros(mask)
            rank = rank_of(level, later != 0)
            break
        level -= 1
    if (ready >> MAIN) & 1 and rank_of(s[b + B_LEVEL], last < MAIN) > rank:
        best, rank = MAIN, rank_of(s[b + B_LEVEL], last < MAIN)
    return best | (rank << 8)


@inlined
def rank_of(level, has_turn):
    """Order of those that want the datapath: by priority, then behind the one that had it last."""
    return 2 * level + (1 if has_turn else 0)


@kernel
def processor_step(s, p, h, x, ev, seat, t):
    """Cycle `t` of the processor with a seat."""
    stay_apart()
    b = s[s[H_SEATS] + seat]
    if b < 0:
        b = block_of(s, p, -1 - b)
    if s[b + B_HALTED] or s[b + B_PROGRAM] < 0:
        return
    wake = FAR
    if s[b + B_STREAMS_IN]:
        wake = _take_from_host(s, p, h, b, t)
    if s[b + B_FLUSH] & FLUSHES:
        _look_for_empty(s, p, b)
    threads = s[b + B_THREADS]
    blocked = threads & s[b + B_UT_BLOCKED] & MICROTHREADS
    if blocked:
        _hold_blocked(s, p, b, blocked)
    ready = threads & ~blocked & ~(s[b + B_STALLED] | (s[b + B_STALLED] >> STALLED_OUTPUT))
    mask = ready & s[b + B_TIMED]
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        again = s[b + B_NEXT + k]
        if again <= t:
            s[b + B_TIMED] &= ~(1 << k)
        else:
            ready &= ~(1 << k)
            if again < wake:
                wake = again
    mask = ready & s[b + B_TESTED]
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        again = _look_at_thread(s, p, x, ev, b, k, t)
        if again != 1:
            ready &= ~(1 << k)
            if again > 1 and again < wake:
                wake = again
    if s[b + B_TASK] < 0 and s[b + B_READY] <= t and may_start(s, b):
        pick = pick_task(s, p, b, t)
        if pick != NO_TASK:
            start_task(s, p, h, b, pick, t)
        else:
            again = _next_arrival(s, p, b, t)
            if again < wake:
                wake = again
    main = False
    if s[b + B_TASK] >= 0 and (s[b + B_THREADS] >> MAIN) & 1 == 0:
        if s[b + B_READY] > t:
            if s[b + B_READY] < wake:
                wake = s[b + B_READY]
        else:
            main = _main_ready(s, p, b, t)
    elif s[b + B_TASK] < 0 and s[b + B_READY] > t and s[b + B_READY] < wake:
        wake = s[b + B_READY]
    if s[b + B_FREE] > t:
        if ready or main:
            wake = s[b + B_FREE]
        if wake < FAR:
            wake_processor(s, b, wake)
        return
    best, rank = -1, -1
    if ready:
        found = _first_in_turn(s, b, ready)
        best, rank = found & 0xFF, found >> 8
        if main or ready & (ready - 1):
            wake = t + 1
    if main and rank_of(s[b + B_LEVEL], True) > rank:
        best = RUN_MAIN
    if best == RUN_MAIN:
        again = _run_main(s, p, x, ev, b, threads, t)
    elif best >= 0:
        again = _run_thread(s, p, h, x, ev, b, best, t)
    else:
        again = FAR
    if again < wake:
        wake = again
    if wake < FAR:
        wake_processor(s, b, wake)


@spliced
def _run_main(s, p, x, ev, b, threads, t):
    """The main thread has the datapath; returns when to look again."""
    s[b + B_LAST] = -1
    scalar_step(s, p, x, ev, b, t)
    s[b + B_FREE] = t + 1
    s[b + B_BUSY] += 1
    if s[b + B_MAP_WAIT] > 0:
        return FAR
    # An operation that started may take its first step a cycle before the next instruction.
    again = s[b + B_READY]
    return again - 1 if s[b + B_THREADS] != threads and again > t + 1 else again


@spliced
def _run_thread(s, p, h, x, ev, b, number, t):
    """A thread has the datapath for a step; returns when to look again."""
    s[b + B_LAST] = number
    cycles = step_operation(s, p, x, ev, b, number, t)
    s[b + B_FREE] = t + cycles
    s[b + B_BUSY] += cycles
    if (s[b + B_THREADS] >> number) & 1 and (s[b + B_TESTED] >> number) & 1 == 0:
        _note_wait(s, p, b, number)
    if s[b + B_TASK] < 0 and s[b + B_READY] <= t and may_start(s, b):
        pick = pick_task(s, p, b, t)
        if pick != NO_TASK:
            start_task(s, p, h, b, pick, t)
    # A step may have made room, data or a task for others.
    return t + (cycles if cycles > 0 else 1)


@kernel
def _next_arrival(s, p, b, t):
    """Earliest cycle at which a word of an input queue can be looked at, of those still on the ramp."""
    from_queue = FAR
    mask = s[b + B_MAIN_MASK] & ~s[b + B_CLAIMED]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        q = b + p[s[b + B_CLASS] + L_QUEUE + k]
        entry = head_entry(s, q)
        if s[q + Q_COUNT] > 0 and s[entry + 2] > t and s[entry + 2] < from_queue:
            from_queue = s[entry + 2]
    return from_queue
