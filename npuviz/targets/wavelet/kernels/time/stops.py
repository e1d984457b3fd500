"""Stop rows that a fabric of elements has: instructions of one element, words that reach a processor.

The hit word of a row becomes 2 + the element, so that the stop can name it.
"""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import STOP_INSTRUCTION, compares, hit, stop_row
from npuviz.targets.wavelet.kernels.arithmetic.floats import double_of, single_of
from npuviz.targets.wavelet.kernels.records import MARK_CONTROL

# The numbers of npuviz.sim.stop; a test keeps them equal.
STOP_WORD = 7
WORD_ANY = 0
WORD_DATA = 1
WORD_FLOAT = 2
WORD_INDEX = 3
WORD_HALF = 4
WORD_CONTROL = 5


@kernel
def watch_instruction(machine, element, depth, index, cycle):
    """Test rows about an instruction that an element starts `depth` calls deep."""
    for i in range(machine.call.stops):
        row = stop_row(machine, i)
        if row.test != STOP_INSTRUCTION or index < row.low or index >= row.high:
            continue
        if row.subject > 0 and row.subject != element + 1:
            continue
        if row.comparison == 0 or depth <= row.comparison:
            hit(machine, i, 2 + element, cycle)


@kernel
def watch_word(machine, element, color, payload, cycle):
    """Test rows about a word that reaches the processor of an element."""
    data, is_control = payload & 0xFFFF_FFFF, (payload & MARK_CONTROL) != 0
    for i in range(machine.call.stops):
        row = stop_row(machine, i)
        if row.test != STOP_WORD:
            continue
        if (row.subject >= 0 and row.subject != color) or (row.low > 0 and row.low != element + 1):
            continue
        what, comparison = row.comparison >> 3, row.comparison & 7
        bound = row.high
        matches = True
        if what == WORD_DATA:
            matches = compares(data, bound, comparison)
        elif what == WORD_FLOAT:
            matches = compares(single_of(data), double_of(bound), comparison)
        elif what == WORD_INDEX:
            matches = compares((data >> 16) & 0xFFFF, bound, comparison)
        elif what == WORD_HALF:
            matches = compares(data & 0xFFFF, bound, comparison)
        elif what == WORD_CONTROL:
            matches = is_control
        if matches:
            hit(machine, i, 2 + element, cycle)
