"""End a DSD operation, and activate or unblock what its completion names.

An operation ends with its last step. Its thread and its queues are free then; its completion acts when the
results are there, `lag` cycles after that step. The lag is that of a result (`complete`), less the cycles in
which the operation waited for words, because its earlier elements moved through the pipe meanwhile (assumed).
Both extremes are measured (FAB): the task of an operation that waits for its words, and the results of one
that does not wait.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.watch_kernels import STOP_MEMORY_WRITE, is_watched
from npuviz.targets.wavelet.kernels.causes import end_thread
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside, save_address
from npuviz.targets.wavelet.kernels.dsd.start import release, thread_of
from npuviz.targets.wavelet.kernels.memory import store_16, store_32
from npuviz.targets.wavelet.kernels.processor.task import activate, block
from npuviz.targets.wavelet.kernels.records import (
    ENDED,
    FAR,
    FLAG_ZERO_FIRST,
    FLAG_ZERO_SECOND,
    KIND_INPUT,
    KIND_LINE,
    KIND_NOTHING,
    KIND_OUTPUT,
    KIND_RING,
    KIND_SHAPE,
    MAIN,
    QUEUE,
    WAIT_INPUT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.taps import WORK_ELEMENT, WRITE_MEMORY, is_tapped, tap_work, touch
from npuviz.targets.wavelet.kernels.time.stops import mark_of, watch_bytes


@inlined
def shorten_lag(thread, t):
    """Shorten the lag of a thread by what it waited for words before its step at `t`."""
    if thread.why == WAIT_INPUT and thread.lag > 0:
        waited = t - thread.expected
        thread.lag -= waited if waited < thread.lag else thread.lag


@kernel
def _clear_source(machine, pe, thread, t):
    """Clear the memory of a source as the `zero` field of a fabric destination asks."""
    wafer = machine.wafer
    flags = thread.operands[0].flags
    operand = thread.operands[1]
    if flags & FLAG_ZERO_SECOND and thread.operands[2].kind != KIND_NOTHING:
        operand = thread.operands[2]
    if operand.kind != KIND_LINE:
        return
    address = operand.base
    for _ in range(thread.total - thread.left):
        if is_inside(pe, address, operand.bytes):
            if is_watched(machine):
                touched = (address, address + operand.bytes, mark_of(thread.line))
                watch_bytes(machine, pe.node, STOP_MEMORY_WRITE, touched, t)
                if is_tapped(machine):
                    tap_work(machine, pe.node, WORK_ELEMENT, ZERO, thread.line)
                    touch(machine, pe.node, WRITE_MEMORY, address, operand.bytes)
            if operand.bytes == 2:
                store_16(wafer, pe.memory, address, ZERO)
            else:
                store_32(wafer, pe.memory, address, ZERO)
        address += operand.step


@inlined
def _take_control(thread):
    """Replace the completion settings of an operation that a control word has ended by those of
    `on_control`."""
    if thread.control == 2:
        thread.activate, thread.unblock = thread.control_id, -1
    elif thread.control == 3:
        thread.activate, thread.unblock = -1, thread.control_id
        thread.unblock_kind = thread.control_kind


@kernel
def finish_operation(machine, pe, number, by_control, span):
    """End an operation: free its thread, and let its completion act now or later.

    span  (cycle of the last step, cycle at which it ends)
    """
    wafer, program = machine.wafer, machine.program
    t, end = span
    thread = thread_of(program, pe, number)
    for i in range(4):
        operand = thread.operands[i]
        kind = operand.kind
        if kind == KIND_INPUT and QUEUE(wafer, operand.record).thread == number:
            release(wafer, pe, operand)
        elif kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
            save_address(wafer, operand)
    clears = thread.operands[0].flags & (FLAG_ZERO_FIRST | FLAG_ZERO_SECOND)
    if clears and thread.operands[0].kind == KIND_OUTPUT:
        _clear_source(machine, pe, thread, t)
    pe.threads &= ~(1 << number)
    if by_control:
        _take_control(thread)
    # In the trace the operation ends with the cycle in which its last step was issued.
    shown = t + 1
    if thread.start < shown:
        end_thread(machine, pe, number, thread, shown)
    if thread.activate >= 0 or thread.unblock >= 0:
        acts = thread.expected - 1 + thread.lag
        if number != MAIN and acts > t:
            pe.next[number] = acts
            pe.timed |= 1 << (number + ENDED)
        else:
            _complete(machine, pe, number, thread)
    if number == MAIN:
        pe.ready = end
        pe.complete = end + program.complete
        pe.drain = end + program.drain
        pe.run_start = shown
        if thread.result >= 0:
            wafer[thread.result] = thread.finished


@kernel
def _complete(machine, pe, number, thread):
    """Activate and unblock what an operation that has ended names."""
    if thread.activate >= 0:
        activate(machine, pe, thread.activate, thread.line)
    if thread.unblock >= 0:
        block(pe, thread.unblock_kind, thread.unblock, ZERO)
    pe.let = (thread.ended << 4) | number


@kernel
def complete_ended(machine, pe, t):
    """Let completions act whose cycle has come; return when to look again."""
    again = FAR
    mask = pe.timed >> ENDED
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        if pe.next[k] > t:
            again = min(again, pe.next[k])
            continue
        pe.timed &= ~(1 << (k + ENDED))
        _complete(machine, pe, k, thread_of(machine.program, pe, k))
        # The completion may have unblocked a microthread.
        again = t + 1
    return again


@kernel
def complete_early(machine, pe, number):
    """Let the completion of a microthread that gets its next operation act before its cycle has come."""
    if (pe.timed >> (number + ENDED)) & 1:
        pe.timed &= ~(1 << (number + ENDED))
        _complete(machine, pe, number, thread_of(machine.program, pe, number))
