"""Run the processor of a node for one cycle: choose which thread, or the main thread, takes the datapath."""

from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced, stay_apart, trailing_zeros
from npuviz.targets.wavelet.kernels.causes import last_thread, note_let
from npuviz.targets.wavelet.kernels.dsd.completion import complete_ended, finish_operation
from npuviz.targets.wavelet.kernels.dsd.dispatch import cursor_ready
from npuviz.targets.wavelet.kernels.dsd.start import thread_of
from npuviz.targets.wavelet.kernels.dsd.steps import can_step, step_operation
from npuviz.targets.wavelet.kernels.isa import OP_MAP_WRITE
from npuviz.targets.wavelet.kernels.processor.scalar import scalar_step
from npuviz.targets.wavelet.kernels.processor.system import queue_level
from npuviz.targets.wavelet.kernels.processor.task import (
    LAUNCH_SHIFT,
    NO_TASK,
    may_start,
    pick_task,
    start_task,
)
from npuviz.targets.wavelet.kernels.program_records import CODE, INSTRUCTION, LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    BUSY_THREAD,
    CHANNEL,
    ENDED,
    FAR,
    FLUSH_DONE,
    FLUSH_TASK,
    FLUSHES,
    KIND_INPUT,
    KIND_OUTPUT,
    LEVEL_BITS,
    MAIN,
    OPERAND,
    QUEUE,
    SEVERAL,
    STALLED_OUTPUT,
    TOP_LEVEL,
    TRAIL_TAKEN,
    WAIT_BLOCKED,
    WAIT_INPUT,
    WAIT_NONE,
    WAIT_OUTPUT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry, is_full, push_queue, queue_has_room
from npuviz.targets.wavelet.kernels.time.events import (
    Stage,
    block_of,
    end_part,
    leave_trail,
    step_from,
    wake_processor,
)

RUN_MAIN = 9
"""Number that stands for the main thread's scalar instructions in the choice of who takes the datapath."""
MICROTHREADS = (1 << MAIN) - 1


@kernel
def _take_from_host(machine, pe, t):
    """Let words that the host sends to this processor enter its queues; return when to look again."""
    wafer, program, host = machine.wafer, machine.program, machine.host
    again = FAR
    mask = pe.streams_in
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[k])
        if queue.in_next > t:
            if queue.in_next < again:
                again = queue.in_next
            continue
        if not queue_has_room(queue, t):
            continue  # pop_queue wakes this processor
        place = queue.in_at
        identity = (1 << 62) | place
        word = host[place] & 0xFFFF_FFFF
        push_queue(pe, queue, word, identity, t + 1)
        leave_trail(wafer, pe, identity, Stage(TRAIL_TAKEN, ZERO, queue.color, ZERO), word)
        pe.filled |= 1 << k
        queue.in_at = place + 1
        queue.in_next = t + wafer.host_word
        queue.in_left -= 1
        if queue.in_left == 0:
            pe.streams_in &= ~(1 << k)
            end_part(wafer, queue.in_command, t)
        again = t + 1
    return again


@kernel
def _look_for_empty(program, pe, t):
    """Let queues with a flush under way that are empty now start their handler."""
    mask = pe.flush & FLUSHES
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        if queue_level(program, pe, k & 7, k >= 8) == 0:
            pe.flush = (pe.flush & ~(1 << k)) | (1 << (k + FLUSH_TASK)) | (1 << (k + FLUSH_DONE))
            note_let(pe, t - 1, last_thread(pe))


@kernel
def _main_ready(machine, pe, t):
    """Return whether the main thread's next instruction can be tried at cycle `t`."""
    program = machine.program
    if pe.map_wait == 0:
        return True
    if pe.map_wait < 0:
        return (pe.threads >> (BUSY_THREAD - pe.map_wait)) & 1 == 0
    instruction = INSTRUCTION(program, CODE(program, pe.code).instructions, pe.pc)
    cursor = OPERAND(machine.wafer, pe.map_wait)
    return cursor_ready(machine, pe, cursor, instruction.op != OP_MAP_WRITE, t)


@kernel
def _look_at_thread(machine, pe, number, t):
    """Return whether a thread can take a step: 1 yes, 0 it waits for others, c > 1: from cycle c on.

    A thread that waits is not tested again before a word or room has come.
    """
    thread = thread_of(machine.program, pe, number)
    state = can_step(machine, pe, thread, t)
    if state != 1:
        thread.why = thread.wait
    if state == -1:
        finish_operation(machine, pe, number, ZERO, (t, t + 1))
        return t + 1
    if thread.fabric != SEVERAL:
        pe.tested &= ~(1 << number)
        if state == 0:
            pe.stalled |= 1 << (number if thread.wait == WAIT_INPUT else number + STALLED_OUTPUT)
        elif state > 1:
            step_from(pe, number, state)
    return state


@inlined
def _note_wait(machine, pe, number):
    """Put a thread to sleep after a step if all it waits for is one queue or one output, which will wake
    it."""
    wafer = machine.wafer
    thread = thread_of(machine.program, pe, number)
    if thread.fabric == KIND_INPUT:
        queue = QUEUE(wafer, thread.record)
        thread.wait = WAIT_NONE
        if queue.count == 0:
            pe.stalled |= 1 << number
            thread.wait = thread.why = WAIT_INPUT
        elif head_entry(queue).ready > pe.next[number]:
            step_from(pe, number, head_entry(queue).ready)
            thread.wait = thread.why = WAIT_INPUT
    elif thread.fabric == KIND_OUTPUT and is_full(CHANNEL(wafer, thread.record), ZERO):
        pe.stalled |= 1 << (number + STALLED_OUTPUT)
        thread.wait = thread.why = WAIT_OUTPUT


@kernel
def _hold_blocked(program, pe, mask):
    """Let blocked microthreads wait for nothing but their unblocking, after which they are tested again."""
    pe.tested |= mask
    pe.stalled &= ~(mask | (mask << STALLED_OUTPUT))
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        thread = thread_of(program, pe, k)
        thread.wait = thread.why = WAIT_BLOCKED


@inlined
def _first_in_turn(pe, ready):
    """Return the thread of the highest priority that follows the one served last, and its rank: number | rank
    << 8."""
    last = pe.last
    served = (1 << (last + 1)) - 1
    best, rank = -1, -1
    level = TOP_LEVEL
    while level >= 0:
        mask = ready & (pe.levels >> (LEVEL_BITS * level)) & MICROTHREADS
        if mask:
            later = mask & ~served
            best = trailing_zeros(later) if later else trailing_zeros(mask)
            rank = rank_of(level, later != 0)
            break
        level -= 1
    if (ready >> MAIN) & 1 and rank_of(pe.level, last < MAIN) > rank:
        best, rank = MAIN, rank_of(pe.level, last < MAIN)
    return best | (rank << 8)


@inlined
def rank_of(level, has_turn):
    """Return the rank of a claim to the datapath: by priority, then those after the one that had it last."""
    return 2 * level + (1 if has_turn else 0)


@kernel
def processor_step(machine, seat, t):
    """Run cycle `t` of the processor with a seat."""
    wafer, program = machine.wafer, machine.program
    stay_apart()
    b = wafer[wafer.seats + seat]
    if b < 0:
        b = block_of(wafer, program, -1 - b)
    pe = BLOCK(wafer, b)
    if pe.halted or pe.code < 0:
        return
    wake = FAR
    if pe.streams_in:
        wake = _take_from_host(machine, pe, t)
    if pe.flush & FLUSHES:
        _look_for_empty(program, pe, t)
    threads = pe.threads
    blocked = threads & pe.ut_blocked & MICROTHREADS
    if blocked:
        _hold_blocked(program, pe, blocked)
    ready = threads & ~blocked & ~(pe.stalled | (pe.stalled >> STALLED_OUTPUT))
    mask = ready & pe.timed
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        again = pe.next[k]
        if again <= t:
            pe.timed &= ~(1 << k)
        else:
            ready &= ~(1 << k)
            if again < wake:
                wake = again
    mask = ready & pe.tested
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        again = _look_at_thread(machine, pe, k, t)
        if again != 1:
            ready &= ~(1 << k)
            if again > 1 and again < wake:
                wake = again
    if pe.task < 0 and pe.ready <= t and may_start(pe):
        pick = pick_task(machine, pe, t)
        if pick != NO_TASK:
            start_task(machine, pe, pick, t)
        else:
            again = _next_arrival(program, pe, t)
            if again < wake:
                wake = again
    if pe.timed >> ENDED:
        # A task that may start has started by now: a further activation counts again.
        again = complete_ended(machine, pe, t)
        _start_next(machine, pe, t)
        if again < wake:
            wake = again
    main = False
    if pe.task >= 0 and (pe.threads >> MAIN) & 1 == 0:
        if pe.ready > t:
            if pe.ready < wake:
                wake = pe.ready
        else:
            main = _main_ready(machine, pe, t)
    elif pe.task < 0 and pe.ready > t and pe.ready < wake:
        wake = pe.ready
    if pe.free > t:
        if ready or main:
            wake = pe.free
        if wake < FAR:
            wake_processor(wafer, pe, wake)
        return
    best, rank = -1, -1
    if ready:
        found = _first_in_turn(pe, ready)
        best, rank = found & 0xFF, found >> 8
        if main or ready & (ready - 1):
            wake = t + 1
    if main and rank_of(pe.level, True) > rank:
        best = RUN_MAIN
    if best == RUN_MAIN:
        again = _run_main(machine, pe, threads, t)
    elif best >= 0:
        again = _run_thread(machine, pe, best, t)
    else:
        again = FAR
    if again < wake:
        wake = again
    if wake < FAR:
        wake_processor(wafer, pe, wake)


@kernel
def _start_next(machine, pe, t):
    """Start a task if none runs and one can."""
    if pe.task < 0 and pe.ready <= t and may_start(pe):
        pick = pick_task(machine, pe, t)
        if pick != NO_TASK:
            start_task(machine, pe, pick, t)


@spliced
def _run_main(machine, pe, threads, t):
    """Give the main thread the datapath; return when to look again."""
    pe.last = -1
    scalar_step(machine, pe, t)
    pe.free = t + pe.stretch
    pe.busy += 1
    if pe.map_wait != 0:
        return FAR
    # An operation that has started may take its first step a cycle before the next instruction.
    again = pe.ready
    return again - 1 if pe.threads != threads and again > t + 1 else again


@spliced
def _run_thread(machine, pe, number, t):
    """Give a thread the datapath for a step; return when to look again."""
    pe.last = number
    cycles = step_operation(machine, pe, number, t)
    pe.free = t + cycles * pe.stretch
    pe.busy += cycles
    if (pe.threads >> number) & 1 and (pe.tested >> number) & 1 == 0:
        _note_wait(machine, pe, number)
    _start_next(machine, pe, t)
    # A step may have made room, data or a task for others.
    return t + (cycles if cycles > 0 else 1)


@kernel
def _next_arrival(program, pe, t):
    """Return the earliest cycle at which a word still on the ramp, or a launch, can be looked at."""
    from_queue = FAR
    if pe.launch >= 0 and pe.launch >> LAUNCH_SHIFT > t:
        from_queue = pe.launch >> LAUNCH_SHIFT
    mask = pe.filled & ~pe.claimed
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[k])
        ready = head_entry(queue).ready
        if queue.count > 0 and ready > t and ready < from_queue:
            from_queue = ready
    return from_queue
