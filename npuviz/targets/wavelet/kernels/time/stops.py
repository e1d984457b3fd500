"""Stop rows that a fabric of elements has: instructions of one element, words that reach a processor.

The hit word of a row becomes 2 + the element, so that the stop can name it.
"""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import STOP_INSTRUCTION, STOP_WORDS, X_ROWS, X_STOPS, compares, hit
from npuviz.targets.wavelet.kernels.arithmetic.floats import double_of, single_of

# The numbers of npuviz.sim.stop; a test keeps them equal.
STOP_WORD = 7
WORD_ANY = 0
WORD_DATA = 1
WORD_FLOAT = 2
WORD_INDEX = 3
WORD_HALF = 4
WORD_CONTROL = 5


@kernel
def watch_instruction(x, element, depth, index, cycle):
    """Test rows about an instruction that an element starts `depth` calls deep."""
    for i in range(x[X_STOPS]):
        row = X_ROWS + i * STOP_WORDS
        if x[row] != STOP_INSTRUCTION or index < x[row + 2] or index >= x[row + 3]:
            continue
        if x[row + 1] > 0 and x[row + 1] != element + 1:
            continue
        if x[row + 4] == 0 or depth <= x[row + 4]:
            hit(x, i, 2 + element, cycle)


@kernel
def watch_word(x, element, color, data, is_control, cycle):
    """Test rows about a word that reaches the processor of an element."""
    for i in range(x[X_STOPS]):
        row = X_ROWS + i * STOP_WORDS
        if x[row] != STOP_WORD:
            continue
        if (x[row + 1] >= 0 and x[row + 1] != color) or (x[row + 2] > 0 and x[row + 2] != element + 1):
            continue
        what, comparison = x[row + 4] >> 3, x[row + 4] & 7
        bound = x[row + 3]
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
            hit(x, i, 2 + element, cycle)
