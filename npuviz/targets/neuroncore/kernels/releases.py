"""Find what ended a sequencer's wait, for the trace; only while a trace is recorded."""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import NOBODY, of_track, record_cause
from npuviz.targets.neuroncore.kernels.records import (
    FIFO_TRANSFERS,
    FLIGHTS,
    KIND_WAIT_PORT,
    KIND_WAIT_QUEUE,
    KIND_WAIT_SEMAPHORE,
    LOG_WORDS,
    QUEUE,
    SEMAPHORE,
    SEQUENCER,
    TRANSFER,
    WAIT,
)
from npuviz.targets.neuroncore.kernels.updates import instruction_at

_ENGINES = 5
"""Sequencers of a core."""


@kernel
def _is_recent(chip, instruction, t):
    """Return whether an instruction or its transfer completed at `t`, or it started a cycle before."""
    place = chip.log_count - 1
    while place >= 0:
        row = chip.log + place * LOG_WORDS
        if chip[row + 1] < t:
            break
        if chip[row] == instruction or chip[row] == -1 - instruction:
            return True
        place -= 1
    for number in range(chip.sequencers_count):
        other = SEQUENCER(chip, chip.sequencers, number)
        if other.current == instruction and other.start == t - 1:
            return True
    return False


@kernel
def _semaphore_source(machine, instruction, t):
    """Return the instruction whose update ended a wait for semaphores at `t`."""
    chip, program = machine.chip, machine.program
    first = program.waits + instruction.wait * WAIT.num_words
    found = int64(NOBODY)
    for n in range(instruction.waits):
        updater = SEMAPHORE(chip, chip.semaphores, WAIT(program, first, n).semaphore).updater
        if updater >= 0 and (instruction.waits == 1 or _is_recent(chip, updater, t)):
            found = updater
    return found


@kernel
def _port_source(machine, number, sequencer, instruction, t):
    """Return the instruction that held a port, or a place in the pipeline, until `t`."""
    chip, program = machine.chip, machine.program
    popped = sequencer.flight[(sequencer.head + FLIGHTS - 1) % FLIGHTS]
    if sequencer.count == FLIGHTS - 1 and popped.end == t:
        return popped.instruction
    base = number // _ENGINES * _ENGINES
    for n in range(base, min(base + _ENGINES, chip.sequencers_count)):
        other = SEQUENCER(chip, chip.sequencers, n)
        newest = other.head + other.count + FLIGHTS - 1
        if n == number or other.issued == 0:
            continue
        # If a sequencer issued in this very cycle, the holder is the instruction before its newest.
        is_next = other.start == t
        if not is_next and other.until != t:
            continue
        holder = other.flight[(newest - (1 if is_next else 0)) % FLIGHTS].instruction
        if holder >= 0 and instruction_at(program, holder).ports & instruction.ports:
            return holder
    return int64(NOBODY)


@kernel
def _barrier_source(chip, number, sequencer):
    """Return the track of the sequencer that arrived last at the barrier."""
    found, latest = number, int64(-1)
    for other in range(number % _ENGINES, chip.sequencers_count - 1, _ENGINES):
        row = SEQUENCER(chip, chip.sequencers, other)
        since = row.since if row.barrier == sequencer.barrier else int64(-1)
        if other != number and since > latest:
            found, latest = other, since
    return found


@kernel
def record_release(machine, number, sequencer, t):
    """Record what ended the wait of a sequencer for its next instruction at `t`."""
    chip, program = machine.chip, machine.program
    instruction = instruction_at(program, sequencer.pc)
    cause = sequencer.cause
    source = int64(NOBODY)
    if cause == KIND_WAIT_SEMAPHORE:
        source = _semaphore_source(machine, instruction, t)
    elif cause == KIND_WAIT_PORT:
        source = _port_source(machine, number, sequencer, instruction, t)
    elif cause == KIND_WAIT_QUEUE:
        transfer = TRANSFER(program, program.transfers, instruction.transfer)
        queue = QUEUE(chip, chip.queues, transfer.queue)
        if queue.done > 0:
            source = queue.fifo[(queue.done - 1) % FIFO_TRANSFERS].trigger
    else:
        other = _barrier_source(chip, number, sequencer)
        if other != number:
            source = int64(of_track(other))
    if source != NOBODY:
        record_cause(machine, number, cause, (int64(-1), t), source)
