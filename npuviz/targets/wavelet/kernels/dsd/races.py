"""Find threads of one PE that touch the same memory while nothing orders them.

When an operation starts, or a scalar instruction touches memory, it is compared with what operations under
way on other threads have left to read or to write. Only operands in one dimension are compared; two with
different strides only if one of them leaves no gaps.
"""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.log_numbers import (
    LOG_EARLY_READ,
    LOG_EARLY_WRITE,
    LOG_TWO_WRITES,
    RACE_SHIFT,
)
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import KIND_LINE, MAIN, ONE, THREAD, ZERO
from npuviz.targets.wavelet.kernels.time.events import hazard


class Row(NamedTuple):
    """Elements in memory at equal distances: address of the first, bytes from one to the next, how many,
    bytes of each."""

    first: Any
    step: Any
    count: Any
    size: Any


@kernel
def meet(row, against):
    """Return whether two rows of elements share a byte."""
    first, step, count, size = row
    other, stride, number, width = against
    if count <= 0 or number <= 0:
        return False
    if step == 0:
        count = 1
    if step < 0:
        first, step = first + (count - 1) * step, -step
    if stride == 0:
        number = 1
    if stride < 0:
        other, stride = other + (number - 1) * stride, -stride
    end, behind = first + (count - 1) * step + size, other + (number - 1) * stride + width
    if end <= other or behind <= first:
        return False
    if count == 1 or step == size:
        # Does an element of the other row begin before the end and end behind the begin of this one?
        gap = first - width + 1 - other
        k = 0 if gap <= 0 or number == 1 else (gap + stride - 1) // stride
        return k < number and other + k * stride < end and other + k * stride + width > first
    if number == 1 or stride == width:
        gap = other - size + 1 - first
        k = 0 if gap <= 0 else (gap + step - 1) // step
        return k < count and first + k * step < behind and first + k * step + size > other
    if step != stride:
        return False
    apart = (other - first) % step
    return apart < size or step - apart < width


@kernel
def _meets_operand(thread, i, row):
    """Return whether a row of elements shares a byte with the rest of a memory operand under way."""
    operand = thread.operands[i]
    if operand.kind != KIND_LINE:
        return False
    left = 1 if operand.length < 0 else thread.left
    return meet(row, Row(operand.address, operand.step, left, operand.bytes))


@inlined
def _found(operand, line):
    """Return the value of a log row: the base address of the shared memory, and the instruction of the other
    thread."""
    return operand.base | ((line + 1) << RACE_SHIFT)


@kernel
def _look_at_row(wafer, pe, live, row, writes):
    """Log hazards if a row that is read or written shares bytes with the rest of an operation on another
    thread."""
    if _meets_operand(live, ZERO, row):
        kind = LOG_TWO_WRITES if writes else LOG_EARLY_READ
        hazard(wafer, pe.node, kind, _found(live.operands[0], live.line), pe.line)
    if writes:
        for j in range(1, 4):
            if _meets_operand(live, j, row):
                hazard(wafer, pe.node, LOG_EARLY_WRITE, _found(live.operands[j], live.line), pe.line)


@kernel
def look_for_races(machine, pe, thread, number):
    """Check an operation that starts on a thread against the rest of those on the other threads."""
    wafer, program = machine.wafer, machine.program
    mask = pe.threads & ~(1 << number)
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        live = THREAD(pe, LAYOUT(program, pe.layout).threads, k)
        for i in range(4):
            operand = thread.operands[i]
            if operand.kind != KIND_LINE:
                continue
            count = 1 if operand.length < 0 else thread.total
            row = Row(operand.base, operand.step, count, operand.bytes)
            _look_at_row(wafer, pe, live, row, i == 0)


@kernel
def look_at_scalar(machine, pe, address, size, writes):
    """Check a scalar memory access against the rest of operations on microthreads."""
    wafer, program = machine.wafer, machine.program
    row = Row(address, ZERO, ONE, size)
    mask = pe.threads & ((1 << MAIN) - 1)
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        live = THREAD(pe, LAYOUT(program, pe.layout).threads, k)
        _look_at_row(wafer, pe, live, row, writes)
