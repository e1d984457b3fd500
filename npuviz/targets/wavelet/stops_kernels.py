"""Stop rows that a fabric of elements has: instructions of one element, words that reach a processor."""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import STOP_INSTRUCTION, STOP_WORDS, X_HITS, X_ROWS, X_STOPS, X_UNTIL
from npuviz.targets.wavelet.float_kernels import double_of, single_of

# The numbers of npuviz.sim.stop; a test keeps them equal.
STOP_WORD = 7
WORD_ANY = 0
WORD_DATA = 1
WORD_FLOAT = 2
WORD_INDEX = 3
WORD_HALF = 4
WORD_CONTROL = 5


@kernel
def _hit(x, index, element, cycle):
    # The hit word tells which element it was; others are 1.
    x[X_ROWS + x[X_STOPS] * STOP_WORDS + index] = 2 + element
    x[X_HITS] += 1
    if x[X_UNTIL] > cycle + 1:
        x[X_UNTIL] = cycle + 1


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
            _hit(x, i, element, cycle)


@kernel
def _holds(comparison, value, bound):
    if comparison == 0:
        return value >= bound
    if comparison == 1:
        return value > bound
    if comparison == 2:
        return value <= bound
    if comparison == 3:
        return value < bound
    if comparison == 4:
        return value == bound
    return value != bound


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
            matches = _holds(comparison, data, bound)
        elif what == WORD_FLOAT:
            matches = _holds(comparison, single_of(data), double_of(bound))
        elif what == WORD_INDEX:
            matches = _holds(comparison, (data >> 16) & 0xFFFF, bound)
        elif what == WORD_HALF:
            matches = _holds(comparison, data & 0xFFFF, bound)
        elif what == WORD_CONTROL:
            matches = is_control
        if matches:
            _hit(x, i, element, cycle)
