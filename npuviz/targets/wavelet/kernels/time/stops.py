"""Test the stop rows of a fabric of elements: instructions and parts of an element, its memory, words it
gets.

The hit word of a row tells what made it hit: 2 + the element in its low bits, and above them 1 + an
instruction, 1 + a command of the host under MARK_HOST, or a word under MARK_WORD: its 32 bits, its color and
whether it is a control word.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    STOP_INSTRUCTION,
    compares,
    hit,
    may_watch,
    may_watch_bytes,
    stop_row,
)
from npuviz.targets.wavelet.kernels.arithmetic.floats import double_of, single_of
from npuviz.targets.wavelet.kernels.program_records import NODE, TRACKS
from npuviz.targets.wavelet.kernels.records import MARK_CONTROL

ELEMENT_BITS = 24
COLOR_SHIFT = ELEMENT_BITS + 32
CONTROL_SHIFT = COLOR_SHIFT + 5
MARK_HOST = 1 << 61
MARK_WORD = 1 << 62

# The numbers of npuviz.sim.stop; a test keeps them equal.
STOP_WORD = 7
STOP_PART = 8
PART_ROUTER = 16
PART_HOST = 17
WORD_ANY = 0
WORD_DATA = 1
WORD_FLOAT = 2
WORD_INDEX = 3
WORD_HALF = 4
WORD_CONTROL = 5


@kernel
def watch_instruction(machine, element, depth, index, cycle):
    """Test rows about an instruction that an element starts `depth` calls deep."""
    if not may_watch(machine, STOP_INSTRUCTION, index):
        return
    for i in range(machine.call.stops):
        row = stop_row(machine, i)
        if row.test != STOP_INSTRUCTION or index < row.low or index >= row.high:
            continue
        if row.subject > 0 and row.subject != element + 1:
            continue
        if row.comparison == 0 or depth <= row.comparison:
            hit(machine, i, (2 + element) | ((index + 1) << ELEMENT_BITS), cycle)


@inlined
def element_of(program, node):
    """Return the number of the element of a node: row * columns + column of the whole grid."""
    place = NODE(program, program.nodes, node)
    return place.row * program.columns + place.column


@kernel
def watch_part(machine, element, part, mark, cycle):
    """Test rows about a part of an element that begins something; `mark` is what the hit word adds to the
    element."""
    if not may_watch(machine, STOP_PART, element + 1):
        return
    for i in range(machine.call.stops):
        row = stop_row(machine, i)
        if row.test == STOP_PART and row.subject == element + 1 and row.low == part:
            hit(machine, i, (2 + element) | mark, cycle)


@kernel
def watch_bytes(machine, node, test, touched, cycle):
    """Test rows about bytes of a node's memory.

    touched  first byte, the byte behind the last, and what the hit word says about who touches them
    """
    low, high, mark = touched
    program = machine.program
    memory = TRACKS(program, program.tracks, node).memory
    if memory < 0 or not may_watch_bytes(machine, test, memory, (low, high)):
        return
    for i in range(machine.call.stops):
        row = stop_row(machine, i)
        if row.test == test and row.subject == memory and low < row.high and high > row.low:
            hit(machine, i, (2 + element_of(program, node)) | mark, cycle)


@inlined
def mark_of(instruction):
    """Return the part of a hit word that names an instruction."""
    return (instruction + 1) << ELEMENT_BITS


@kernel
def watch_word(machine, element, color, payload, cycle):
    """Test rows about a word that reaches the processor of an element."""
    if not may_watch(machine, STOP_WORD, color):
        return
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
            mark = (2 + element) | (data << ELEMENT_BITS) | (color << COLOR_SHIFT) | MARK_WORD
            hit(machine, i, mark | ((1 if is_control else 0) << CONTROL_SHIFT), cycle)
