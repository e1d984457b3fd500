"""Find reads of variables without an initial value that no write has reached yet, by 16-bit words.

Only classes whose program has such variables keep a bit for each word between the first and the last of them
(LAYOUT.unset); a write clears it, and a read of a word whose bit is set is a hazard.
"""

from npuviz.sim.parts.bits_kernels import kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.log_numbers import LOG_UNWRITTEN
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import KIND_LINE
from npuviz.targets.wavelet.kernels.time.events import hazard

WORD_BITS = 64


@kernel
def _mask(low, high):
    """Return a mask of bits `low` to before `high` of a word, 0 <= low < high <= 64."""
    count = high - low
    return -1 if count == WORD_BITS else ((1 << count) - 1) << low


@kernel
def note_written(machine, pe, first, behind):
    """Note that the bytes from `first` to before `behind` of a PE's memory are written."""
    layout = LAYOUT(machine.program, pe.layout)
    if layout.unset == 0:
        return
    low = max((first - layout.unset_begin) >> 1, 0)
    high = min((behind - layout.unset_begin + 1) >> 1, layout.unset_count)
    while low < high:
        word = low // WORD_BITS
        end = min((word + 1) * WORD_BITS, high)
        pe[layout.unset + word] &= ~_mask(low - word * WORD_BITS, end - word * WORD_BITS)
        low = end


@kernel
def first_unset(machine, pe, first, behind):
    """Return the address of the first unset word among bytes of a PE's memory, -1 if there is none."""
    layout = LAYOUT(machine.program, pe.layout)
    if layout.unset == 0:
        return -1
    low = max((first - layout.unset_begin) >> 1, 0)
    high = min((behind - layout.unset_begin + 1) >> 1, layout.unset_count)
    while low < high:
        word = low // WORD_BITS
        end = min((word + 1) * WORD_BITS, high)
        found = pe[layout.unset + word] & _mask(low - word * WORD_BITS, end - word * WORD_BITS)
        if found != 0:
            return layout.unset_begin + 2 * (word * WORD_BITS + trailing_zeros(found))
        low = end
    return -1


@kernel
def look_for_unwritten(machine, pe, first, behind):
    """Log a hazard if some of the bytes that are read have never been written."""
    address = first_unset(machine, pe, first, behind)
    if address >= 0:
        hazard(machine.wafer, pe.node, LOG_UNWRITTEN, address, pe.line)


@kernel
def look_at_operands(machine, pe, thread, count):
    """Check when an operation starts that its sources have been written, and note what it writes.

    Sources in one dimension are checked, unless a control word may end the operation early.
    """
    # More elements than bytes lie outside the memory: a table from a file may ask for any number.
    most = min(count, pe.bytes)
    for i in range(1, 4):
        operand = thread.operands[i]
        if operand.kind != KIND_LINE or thread.control != 0:
            continue
        address, step, size = operand.base, operand.step, operand.bytes
        length = 1 if operand.length < 0 or step == 0 else most
        if step == size:
            look_for_unwritten(machine, pe, address, address + length * size)
            continue
        for k in range(length):
            at = first_unset(machine, pe, address + k * step, address + k * step + size)
            if at >= 0:
                hazard(machine.wafer, pe.node, LOG_UNWRITTEN, at, pe.line)
                break
    operand = thread.operands[0]
    if operand.kind != KIND_LINE:
        return
    address, step, size = operand.base, operand.step, operand.bytes
    length = 1 if operand.length < 0 or step == 0 else most
    if step == size:
        note_written(machine, pe, address, address + length * size)
        return
    for k in range(length):
        note_written(machine, pe, address + k * step, address + k * step + size)
