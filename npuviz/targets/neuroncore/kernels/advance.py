"""The machine's main loop: from event to event until it has to stop.

At one time, completions of sequencers come first (in order of core and engine), then DMA engines,
then sequencers look at their next instruction, in the same order. Times are base-clock cycles.
"""

from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import X_CAPACITY, X_EVENTS, X_UNTIL
from npuviz.targets.neuroncore.kernels.dma import dma_step
from npuviz.targets.neuroncore.kernels.records import (
    ENDED,
    FAR,
    FREE,
    H_AGAIN,
    H_CYCLE,
    H_DIRTY,
    H_ENGINES_COUNT,
    H_LAST,
    H_LOG_CAPACITY,
    H_LOG_COUNT,
    H_SEQUENCERS,
    H_SEQUENCERS_COUNT,
    H_STATUS,
    H_WAKES,
    Q_RETRY,
    Q_STATE,
    RESULT_DEADLOCK,
    RESULT_EVENTS,
    RESULT_FAULT,
    RESULT_FINISHED,
    RESULT_GROW_LOG,
    RESULT_UNTIL,
    SEQUENCER_WORDS,
    STATUS_DEADLOCK,
    STATUS_FAULT,
    STATUS_FINISHED,
    STATUS_RUNNING,
    WAITING,
)
from npuviz.targets.neuroncore.kernels.sequencer import complete_due, issue, next_time, send_read_updates


@inlined
def next_event(s):
    """Time of the next event, FAR if there is none."""
    time = s[H_AGAIN]
    w = s[H_WAKES]
    for n in range(s[H_SEQUENCERS_COUNT] + s[H_ENGINES_COUNT]):
        if s[w + n] < time:
            time = s[w + n]
    return time


@kernel
def process(s, p, x, ev, t):
    """Everything that happens at time `t`."""
    wakes = s[H_WAKES]
    count = s[H_SEQUENCERS_COUNT]
    if s[H_AGAIN] <= t:
        s[H_AGAIN] = FAR
        s[H_DIRTY] = 1
    for n in range(count):
        if s[wakes + n] <= t:
            complete_due(s, p, x, ev, n, s[H_SEQUENCERS] + n * SEQUENCER_WORDS, t)
    for n in range(s[H_ENGINES_COUNT]):
        if s[wakes + count + n] <= t:
            s[wakes + count + n] = dma_step(s, p, x, ev, n, t)
    is_dirty = s[H_DIRTY]
    s[H_DIRTY] = 0
    for n in range(count):
        k = s[H_SEQUENCERS] + n * SEQUENCER_WORDS
        state = s[k + Q_STATE]
        if state == FREE or (state == WAITING and (is_dirty != 0 or s[k + Q_RETRY] <= t)):
            issue(s, p, x, ev, n, k, t)
        s[wakes + n] = next_time(s, k)
    for n in range(count):
        send_read_updates(s, p, x, ev, s[H_SEQUENCERS] + n * SEQUENCER_WORDS, t)
    if s[H_DIRTY] != 0:
        # What an issue changed is seen one cycle later.
        s[H_DIRTY] = 0
        s[H_AGAIN] = t + 1
    s[H_LAST] = t


@kernel
def all_ended(s):
    """Whether every sequencer has run its program."""
    for n in range(s[H_SEQUENCERS_COUNT]):
        if s[s[H_SEQUENCERS] + n * SEQUENCER_WORDS + Q_STATE] != ENDED:
            return False
    return True


@entry
def advance(state, program, transient, events, margin):
    """Run until cycle x[X_UNTIL], a hit, a fault, the end, or until a buffer needs more room.

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
    if s[H_STATUS] == STATUS_DEADLOCK:
        return RESULT_DEADLOCK
    if s[H_STATUS] != STATUS_RUNNING:
        return RESULT_FAULT
    while True:
        t = next_event(s)
        if t >= FAR:
            s[H_CYCLE] = s[H_LAST] + 1
            if all_ended(s):
                s[H_STATUS] = STATUS_FINISHED
                return RESULT_FINISHED
            s[H_STATUS] = STATUS_DEADLOCK
            return RESULT_DEADLOCK
        if t >= x[X_UNTIL]:
            s[H_CYCLE] = x[X_UNTIL]
            return RESULT_UNTIL
        if x[X_CAPACITY] > 0 and x[X_EVENTS] + margin > x[X_CAPACITY]:
            s[H_CYCLE] = t
            return RESULT_EVENTS
        if s[H_LOG_CAPACITY] - s[H_LOG_COUNT] < s[H_SEQUENCERS_COUNT] + s[H_ENGINES_COUNT]:
            return RESULT_GROW_LOG
        process(s, p, x, ev, t)
        if s[H_STATUS] == STATUS_FAULT:
            s[H_CYCLE] = t + 1
            return RESULT_FAULT
