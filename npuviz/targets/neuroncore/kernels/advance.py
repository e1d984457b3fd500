"""The machine's main loop: from event to event until it has to stop.

At one time, completions of sequencers come first (in order of core and engine), then DMA engines,
then sequencers look at their next instruction, in the same order. Times are base-clock cycles.
"""

# A call may change any word of a row, which the type checker does not see.
# pyright: reportUnnecessaryComparison=false

from numba import int64

from npuviz.sim.parts.bits_kernels import entry, inlined, kernel, pointer_to
from npuviz.sim.parts.watch_kernels import CALL, END_OF_RUN, Machine, is_full, is_recording, record_cause
from npuviz.targets.neuroncore.kernels.dma import dma_step
from npuviz.targets.neuroncore.kernels.records import (
    CHIP,
    ENDED,
    FAR,
    FREE,
    KIND_PIPELINE,
    LOG_WORDS,
    PROGRAM,
    RESULT_DEADLOCK,
    RESULT_EVENTS,
    RESULT_FAULT,
    RESULT_FINISHED,
    RESULT_GROW_LOG,
    RESULT_UNTIL,
    SEQUENCER,
    STATUS_DEADLOCK,
    STATUS_FAULT,
    STATUS_FINISHED,
    STATUS_RUNNING,
    WAITING,
)
from npuviz.targets.neuroncore.kernels.sequencer import complete_due, issue, next_time, send_read_updates


@inlined
def next_event(chip):
    """Return the time of the next event, FAR if there is none."""
    time = chip.again
    w = chip.wakes
    for n in range(chip.sequencers_count + chip.engines_count):
        if chip[w + n] < time:
            time = chip[w + n]
    return time


@kernel
def process(machine, t):
    """Process everything that happens at time `t`."""
    chip = machine.chip
    wakes = chip.wakes
    count = chip.sequencers_count
    if chip.again <= t:
        chip.again = FAR
        chip.dirty = 1
    for n in range(count):
        if chip[wakes + n] <= t:
            complete_due(machine, n, SEQUENCER(chip, chip.sequencers, n), t)
    for n in range(chip.engines_count):
        if chip[wakes + count + n] <= t:
            chip[wakes + count + n] = dma_step(machine, n, t)
    is_dirty = chip.dirty
    chip.dirty = 0
    for n in range(count):
        sequencer = SEQUENCER(chip, chip.sequencers, n)
        state = sequencer.state
        if state == FREE or (state == WAITING and (is_dirty != 0 or sequencer.retry <= t)):
            issue(machine, n, sequencer, t)
        chip[wakes + n] = next_time(sequencer)
    for n in range(count):
        send_read_updates(machine, SEQUENCER(chip, chip.sequencers, n), t)
    if chip.dirty != 0:
        # Changes made by an issue are seen one cycle later.
        chip.dirty = 0
        chip.again = t + 1
    chip.last = t


@kernel
def all_ended(chip):
    """Return whether every sequencer has run its program."""
    for n in range(chip.sequencers_count):
        if SEQUENCER(chip, chip.sequencers, n).state != ENDED:
            return False
    return True


@kernel
def record_end(machine):
    """Record the last logged completion as the cause of the end of the run."""
    chip = machine.chip
    if chip.log_count > 0:
        last = chip[chip.log + (chip.log_count - 1) * LOG_WORDS]
        span = (int64(-1), chip.last)
        record_cause(machine, END_OF_RUN, KIND_PIPELINE, span, last if last >= 0 else -1 - last)


@entry
def advance(state, words, transient, events, margin):
    """Run until cycle `until` of the call, a hit, a fault, the end, or until a buffer needs more room.

    state      (words,) int64    changed   root state
    program    (words,) int64    read      program words
    transient  (words,) int64    changed   stop rows, hits, number of event rows
    events     (rows * 4,) int64 changed   event rows
    margin                       int       event rows one cycle may need
    Returns a RESULT_ code. The state is that of cycle `cycle` of the chip: all earlier events happened.
    """
    chip, program = CHIP(state), PROGRAM(words)
    call = CALL(transient)
    machine = Machine(chip, program, call, pointer_to(events))
    if chip.status == STATUS_FINISHED:
        return RESULT_FINISHED
    if chip.status == STATUS_DEADLOCK:
        return RESULT_DEADLOCK
    if chip.status != STATUS_RUNNING:
        return RESULT_FAULT
    while True:
        t = next_event(chip)
        if t >= FAR:
            chip.cycle = chip.last + 1
            if all_ended(chip):
                if is_recording(machine):
                    record_end(machine)
                chip.status = STATUS_FINISHED
                return RESULT_FINISHED
            chip.status = STATUS_DEADLOCK
            return RESULT_DEADLOCK
        if t >= call.until:
            chip.cycle = call.until
            return RESULT_UNTIL
        if is_full(machine, margin):
            chip.cycle = t
            return RESULT_EVENTS
        if chip.log_capacity - chip.log_count < chip.sequencers_count + chip.engines_count:
            return RESULT_GROW_LOG
        process(machine, t)
        if chip.status == STATUS_FAULT:
            chip.cycle = t + 1
            return RESULT_FAULT


advance.takes("wwwwn")
