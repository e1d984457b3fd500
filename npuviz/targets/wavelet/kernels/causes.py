"""Record the waits of threads as the trace shows them, and what ended each wait as an origin (origins.py).

The state keeps what is needed for this in every run; origins are looked up only in recorded runs.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import (
    END_OF_RUN,
    is_recording,
    record_interval,
)
from npuviz.targets.wavelet.kernels.origins import (
    KIND_HOST,
    KIND_WAIT,
    of_pe,
    origin,
    record_origin,
    record_room,
    record_word,
    track_of,
)
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    FIFO,
    KIND_FIFO,
    KIND_INPUT,
    MAIN,
    OPERAND,
    QUEUE,
    THREAD,
    WAIT_BLOCKED,
    WAIT_FIFO_EMPTY,
    WAIT_FIFO_FULL,
    WAIT_INPUT,
    WAIT_NONE,
    WAIT_OUTPUT,
    WAIT_SLOT,
    WAIT_TURN,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry

KIND_SCALAR = 1
KIND_OPERATION = 10
"""First interval kind of DSD operations: add the number of the operation."""
KIND_ISSUE, KIND_ACTIVATION, KIND_TASK_END = 141, 142, 143
SHORT_WORK = 8
"""Cycles: shorter work between two waits of one cause is part of one wait, "takes words as they come"."""
LONG_TURN = 8
"""Cycles: a shorter gap in which other threads have the datapath is no wait."""


@inlined
def last_thread(pe):
    """Return the thread that has the datapath now or had it last."""
    return pe.last if pe.last >= 0 else int64(MAIN)


@kernel
def _latest_input(wafer, thread):
    """Return the word of the QUEUE whose head arrived last among an operation's inputs, 0 without one."""
    found, latest = int64(0), int64(-1)
    for i in range(1, 4):
        operand = thread.operands[i]
        if operand.kind == KIND_INPUT:
            queue = QUEUE(wafer, operand.record)
            if queue.count > 0 and head_entry(queue).ready > latest:
                found, latest = operand.record, head_entry(queue).ready
    return found


@kernel
def _partner(wafer, pe, thread):
    """Return the thread that last pushed to or popped from the FIFO of an operation, as an origin."""
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind == KIND_FIFO:
            return of_pe(pe, FIFO(wafer, operand.record).by)
    return int64(-1)


@kernel
def _record_resumption(machine, pe, number, thread, t):
    """Record what ended the wait of a thread that continues at `t`."""
    wafer = machine.wafer
    track = track_of(machine.program, pe.node, number)
    reason = thread.why
    if reason == WAIT_INPUT:
        at = _latest_input(wafer, thread)
        if at:
            head = head_entry(QUEUE(wafer, at))
            record_word(machine, track, (head.payload, head.identity), t)
    elif reason == WAIT_OUTPUT:
        record_room(machine, pe, track, thread.operands[0].record, t)
    elif reason == WAIT_BLOCKED:
        record_origin(machine, track, KIND_WAIT + WAIT_BLOCKED, t, of_pe(pe, pe.let))
    elif reason == WAIT_FIFO_EMPTY or reason == WAIT_FIFO_FULL:
        record_origin(machine, track, KIND_WAIT + reason, t, _partner(wafer, pe, thread))


@kernel
def _show(machine, pe, number, thread, until):
    """Record and count what a thread's track shows up to a cycle: its last wait, and its work since then."""
    work = until - thread.resumed
    if thread.paused > 0:
        if number == MAIN:
            pe.waited += thread.resumed - thread.paused
        else:
            thread.waited += thread.resumed - thread.paused
    if work > 0:
        if number == MAIN:
            pe.occupied += work
        else:
            thread.occupied += work
    if is_recording(machine):
        track = track_of(machine.program, pe.node, number)
        if track >= 0:
            if thread.paused > 0:
                kind = KIND_WAIT + thread.reason
                record_interval(machine, track, kind, (thread.paused, thread.resumed), thread.line)
            if work > 0:
                kind = KIND_OPERATION + thread.op
                record_interval(machine, track, kind, (thread.resumed, until), thread.line)


@kernel
def note_gap(machine, pe, number, thread, t):
    """Note the wait of a thread that takes a step at `t`, later than its own pace would allow."""
    reason = thread.why
    gap = t - thread.expected
    if reason == WAIT_NONE and gap < LONG_TURN:
        return
    if is_recording(machine):
        _record_resumption(machine, pe, number, thread, t)
    if reason == WAIT_NONE:
        reason = WAIT_TURN
    thread.why = WAIT_NONE
    goes_on = thread.paused > 0 and thread.reason == reason and reason != WAIT_TURN
    if not goes_on or thread.expected - thread.resumed >= SHORT_WORK:
        _show(machine, pe, number, thread, thread.expected)
        thread.paused = thread.expected
        thread.reason = reason
    thread.resumed = t


@inlined
def begin_thread(thread, t, expected):
    """Note that an operation begins at `t`; its first step is possible at `expected`."""
    thread.expected = expected
    thread.why = WAIT_NONE
    thread.resumed = t
    thread.paused = 0


@kernel
def end_thread(machine, pe, number, thread, until):
    """Note that an operation has ended before cycle `until`, and show the rest of its track."""
    _show(machine, pe, number, thread, until)
    thread.paused = 0
    thread.ended = until
    pe.done = (until << 4) | number


@kernel
def record_issue(machine, pe, number, t):
    """Record that the main thread gave a microthread an operation at `t`."""
    track = track_of(machine.program, pe.node, number)
    record_origin(machine, track, KIND_ISSUE, t, origin(t, pe.node, int64(MAIN)))


@kernel
def end_scalar_run(machine, pe, t):
    """Count and record the scalar work of the main track up to cycle `t`."""
    if pe.run_start < t:
        pe.occupied += t - pe.run_start
    if is_recording(machine) and pe.run_start < t:
        track = track_of(machine.program, pe.node, int64(MAIN))
        if track >= 0:
            record_interval(machine, track, KIND_SCALAR, (pe.run_start, t), pe.line)


@kernel
def end_main_wait(machine, pe, reason, t, what):
    """Record that the main thread continues at `t` in the middle of a task.

    reason  a WAIT_ number
    what    word of the OPERAND or, if its microthread was busy, of the THREAD that it waited for
    """
    since = pe.map_since
    if since >= t:
        return
    end_scalar_run(machine, pe, since)
    begin = since if since > pe.run_start else pe.run_start
    pe.run_start = t
    pe.waited += t - begin
    if is_recording(machine) and begin < t:
        _record_main_wait(machine, pe, reason, (begin, t), what)


@kernel
def _record_main_wait(machine, pe, reason, span, what):
    wafer = machine.wafer
    track = track_of(machine.program, pe.node, int64(MAIN))
    if track < 0:
        return
    record_interval(machine, track, KIND_WAIT + reason, span, pe.line)
    t = span[1]
    if reason == WAIT_SLOT:
        thread = THREAD(wafer, what)
        number = (what - word_of(wafer, pe) - LAYOUT(machine.program, pe.layout).threads) // THREAD.num_words
        record_origin(machine, track, KIND_WAIT + reason, t, origin(thread.ended, pe.node, number))
        return
    operand = OPERAND(wafer, what)
    if reason == WAIT_INPUT:
        head = head_entry(QUEUE(wafer, operand.record))
        record_word(machine, track, (head.payload, head.identity), t)
    elif reason == WAIT_OUTPUT:
        record_room(machine, pe, track, operand.record, t)
    else:
        record_origin(machine, track, KIND_WAIT + reason, t, of_pe(pe, FIFO(wafer, operand.record).by))


@inlined
def main_wait_of(operand):
    """Return the WAIT_ number of an @map that waits for a cursor: memory never waits, FIFOs are refused."""
    return WAIT_INPUT if operand.kind == KIND_INPUT else WAIT_OUTPUT


@inlined
def note_let(pe, t, thread):
    """Note that a thread activates or unblocks something in its step at `t`."""
    pe.let = ((t + 1) << 4) | thread


@kernel
def record_task_start(machine, pe, possible, word, t):
    """Record what let a task start at `t` on a main thread that had nothing to do.

    possible  first cycle at which the processor could have started a task
    word      payload with marks, identity and cycle of arrival of the word that starts it; identity -1: none,
              -2: the host
    """
    if t <= pe.ended:
        return
    track = track_of(machine.program, pe.node, int64(MAIN))
    marks, identity, arrival = word
    let = (pe.let >> 4) - 1
    if pe.ended > 0 and possible >= t:
        record_origin(machine, track, KIND_TASK_END, t, origin(pe.ended, pe.node, int64(MAIN)))
    elif identity == -2:
        record_origin(machine, track, KIND_HOST, t, machine.wafer.host_by)
    elif identity >= 0 and arrival >= let:
        record_word(machine, track, (marks, identity), t)
    elif pe.let == 0:
        record_origin(machine, track, KIND_HOST, t, int64(0))
    else:
        record_origin(machine, track, KIND_ACTIVATION, t, origin(let + 1, pe.node, pe.let & 15))


@kernel
def last_end(pe):
    """Return what ended last on the threads of a block, as an origin."""
    if pe.code < 0:
        return int64(0)
    if pe.done >> 4 > pe.ended:
        return origin(pe.done >> 4, pe.node, pe.done & 15)
    return origin(pe.ended, pe.node, int64(MAIN))


@kernel
def record_end(machine, latest):
    """Record what the run ended with: the latest end on the wafer, or what last let the host continue.

    latest  the latest end on the wafer, as an origin
    """
    wafer = machine.wafer
    by, kind = wafer.host_by, KIND_HOST
    if wafer.closed_at < 0 or (latest >> 28) > wafer.closed_at:
        by, kind = latest, KIND_TASK_END
    record_origin(machine, int64(END_OF_RUN), kind, wafer.final - 1, by)
