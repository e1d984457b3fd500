"""Record what a run reads and writes as event rows, so that the origin of values can be followed.

A run is tapped when its only stop row is one of STOP_TAP, which never hits. Each piece of work begins with a
row that says what it is; the rows of what it touches follow it at once. What addresses, branches and
activations depend on is not recorded.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import is_watched, record_row, stop_row
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside, target_of
from npuviz.targets.wavelet.kernels.memory import load_16, load_32
from npuviz.targets.wavelet.kernels.program_records import CODE, FIFO_SETTINGS, LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    FIFO,
    KIND_FIFO,
    KIND_INPUT,
    KIND_LINE,
    KIND_NOTHING,
    KIND_OUTPUT,
    KIND_RING,
    KIND_SHAPE,
    KIND_VALUE,
    ONE,
    QUEUE,
    THREAD,
)
from npuviz.targets.wavelet.kernels.router.ring import entry_behind, head_entry

STOP_TAP = 32
"""Test of a stop row that never hits; the numbers of npuviz.sim.stop are lower."""
TAP = 9
"""Type of an event row: TAP << 56 | what << 48 | node, cycle, and two words that depend on what it is."""

# Rows of work: then its place (registers of the running function, or a host command), and its instruction.
WORK_SCALAR, WORK_ELEMENT, WORK_TASK, WORK_ARGUMENT, WORK_HOST_IN, WORK_HOST_OUT = 0, 1, 2, 3, 4, 5
NUM_WORKS = 6
# Rows of what work touches: then where that begins, and how much it is.
READ_MEMORY, WRITE_MEMORY, READ_WORD, WRITE_WORD = 8, 9, 10, 11
READ_REGISTER, WRITE_REGISTER, READ_CELL, WRITE_CELL, READ_HOST = 12, 13, 14, 15, 16

VALUE_SHIFT = 24
"""Shift of 32 bits of the value read, above the count, in the last word of a row about a word or memory."""
LOW_HALF, HIGH_HALF = 2, 3
"""Count of a row about half a word; ONE is the whole word."""

# Cells of a thread: scalar operands have the numbers of their operands, others those below.
CELL_SUM = 4
CELL_LOW, CELL_HIGH = 8, 4
"""Cells for the halves of a word that was taken: add the number of the operand."""
CELL_PACKED = 12
"""Cell for an element that waits for the second one of its word."""


@inlined
def is_tapped(machine):
    """Return whether this run records what it touches."""
    return is_watched(machine) and stop_row(machine, 0).test == STOP_TAP


@inlined
def tap_work(machine, node, what, place, line):
    """Record that a piece of work begins."""
    record_row(machine, (TAP << 56) | (what << 48) | node, machine.wafer.now, place, line)


@inlined
def touch(machine, node, what, begin, count):
    """Record that the work under way touches something."""
    record_row(machine, (TAP << 56) | (what << 48) | node, machine.wafer.now, begin, count)


@inlined
def with_value(count, value):
    """Return the last word of a row of a read: how much is touched, and the value read."""
    return count | ((value & 0xFFFF_FFFF) << VALUE_SHIFT)


@kernel
def touch_read(machine, pe, address, size):
    """Record that the work under way reads memory."""
    value = 0
    if is_inside(pe, address, size):
        value = load_16(machine.wafer, pe.memory, address)
        if size > 2:
            value = load_32(machine.wafer, pe.memory, address)
    touch(machine, pe.node, READ_MEMORY, address, with_value(size, value))


@inlined
def cell_of(node, number, place):
    """Return the number of a cell of a thread."""
    return (node << 8) | (number << 4) | place


@inlined
def number_of(machine, pe, thread):
    """Return the number of a thread of a PE."""
    first = THREAD(pe, LAYOUT(machine.program, pe.layout).threads, 0)
    return (word_of(machine.wafer, thread) - word_of(machine.wafer, first)) // THREAD.num_words


@inlined
def next_word(pe):
    """Return the identity of the word that a PE sends next."""
    return (pe.node << 32) | pe.sequence


@kernel
def touch_source(machine, pe, operand):
    """Record a read of the next element of a memory, a FIFO or a queue."""
    kind = operand.kind
    if kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
        touch_read(machine, pe, operand.address, operand.bytes)
    elif kind == KIND_INPUT:
        entry = head_entry(QUEUE(machine.wafer, operand.record))
        touch(machine, pe.node, READ_WORD, entry.identity, with_value(ONE, entry.payload))
    elif kind == KIND_FIFO:
        settings = FIFO_SETTINGS(machine.program, CODE(machine.program, pe.code).fifos, operand.queue)
        at = settings.address + FIFO(machine.wafer, operand.record).read
        touch_read(machine, pe, at, operand.bytes)


@kernel
def touch_target(machine, pe, operand):
    """Record a write of the next element of a memory or a FIFO, or of the next word."""
    at = target_of(machine, pe, operand)
    if at >= 0:
        touch(machine, pe.node, WRITE_MEMORY, at, operand.bytes)
    elif operand.kind == KIND_OUTPUT:
        touch(machine, pe.node, WRITE_WORD, next_word(pe), ONE)


@kernel
def tap_start(machine, pe, thread, operation):
    """Record that an operation starts and copies its scalar operands."""
    node, number = pe.node, number_of(machine, pe, thread)
    for i in range(1, 4):
        if operation.kinds[i] != isa.OPERAND_SCALAR:
            continue
        tap_work(machine, node, WORK_ARGUMENT, pe.frame, thread.line)
        touch(machine, node, READ_REGISTER, pe.frame + operation.registers[i], ONE)
        touch(machine, node, WRITE_CELL, cell_of(node, number, i), ONE)
        if i == 1 and thread.reduces:
            touch(machine, node, WRITE_CELL, cell_of(node, number, CELL_SUM), ONE)
    if thread.op == isa.D_ADDC16:
        tap_work(machine, node, WORK_ARGUMENT, pe.frame, thread.line)
        touch(machine, node, WRITE_CELL, cell_of(node, number, CELL_SUM), ONE)


@kernel
def tap_plain(machine, pe, thread, count):
    """Record the elements of a step of a plain operation."""
    node, number = pe.node, number_of(machine, pe, thread)
    for k in range(count):
        tap_work(machine, node, WORK_ELEMENT, number, thread.line)
        for i in range(1, 4):
            operand = thread.operands[i]
            kind = operand.kind
            if kind == KIND_LINE:
                touch_read(machine, pe, operand.address + k * operand.step, operand.bytes)
            elif kind == KIND_INPUT:
                entry = entry_behind(QUEUE(machine.wafer, operand.record), k)
                touch(machine, node, READ_WORD, entry.identity, with_value(ONE, entry.payload))
            elif kind == KIND_VALUE:
                touch(machine, node, READ_CELL, cell_of(node, number, i), ONE)
        target = thread.operands[0]
        if target.kind == KIND_LINE:
            touch(machine, node, WRITE_MEMORY, target.address + k * target.step, target.bytes)
        elif target.kind == KIND_OUTPUT:
            touch(machine, node, WRITE_WORD, next_word(pe) + k, ONE)


@kernel
def _tap_source(machine, pe, operand, cell):
    """Record a read of a source by an element of an operation that is not plain; `cell` is that of the
    operand."""
    kind = operand.kind
    if kind == KIND_VALUE:
        touch(machine, pe.node, READ_CELL, cell, ONE)
    elif kind == KIND_INPUT and operand.per_word == 2:
        # The next element is the low half, until that was read.
        half = CELL_LOW if operand.index[0] == 0 else CELL_HIGH
        touch(machine, pe.node, READ_CELL, cell + half, ONE)
    elif kind != KIND_NOTHING:
        touch_source(machine, pe, operand)


@kernel
def tap_element(machine, pe, thread, is_written, is_last):
    """Record the next element of an operation that is not plain."""
    node, number = pe.node, number_of(machine, pe, thread)
    base = cell_of(node, number, 0)
    begin = 2 if thread.reduces else 1
    for i in range(begin, 4):
        operand = thread.operands[i]
        if operand.kind == KIND_INPUT and operand.per_word == 2 and operand.index[0] == 0:
            entry = head_entry(QUEUE(machine.wafer, operand.record))
            identity, payload = entry.identity, entry.payload
            tap_work(machine, node, WORK_ELEMENT, number, thread.line)
            touch(machine, node, READ_WORD, identity, with_value(LOW_HALF, payload & 0xFFFF))
            touch(machine, node, WRITE_CELL, base + i + CELL_LOW, ONE)
            tap_work(machine, node, WORK_ELEMENT, number, thread.line)
            touch(machine, node, READ_WORD, identity, with_value(HIGH_HALF, (payload >> 16) & 0xFFFF))
            touch(machine, node, WRITE_CELL, base + i + CELL_HIGH, ONE)
    tap_work(machine, node, WORK_ELEMENT, number, thread.line)
    for i in range(begin, 4):
        _tap_source(machine, pe, thread.operands[i], base + i)
    if thread.reduces or thread.op == isa.D_ADDC16:
        touch(machine, node, READ_CELL, base + CELL_SUM, ONE)
        touch(machine, node, WRITE_CELL, base + CELL_SUM, ONE)
    target = thread.operands[0]
    if not is_written:
        return
    if target.kind != KIND_OUTPUT or target.per_word != 2:
        touch_target(machine, pe, target)
        return
    is_second = target.index[0] != 0
    if is_second:
        touch(machine, node, WRITE_WORD, next_word(pe), HIGH_HALF)
    else:
        touch(machine, node, WRITE_CELL, base + CELL_PACKED, ONE)
    if is_second or is_last:
        tap_work(machine, node, WORK_ELEMENT, number, thread.line)
        touch(machine, node, READ_CELL, base + CELL_PACKED, ONE)
        touch(machine, node, WRITE_WORD, next_word(pe), LOW_HALF)


@kernel
def tap_arguments(machine, pe, what, source, count):
    """Record that a task begins with arguments: from a word (READ_WORD), or from the host, one word each
    (READ_HOST).

    source  identity and payload of the word, or where the words of the host begin, and 0
    """
    begin, value = source
    if what == READ_WORD and count != 2:
        tap_work(machine, pe.node, WORK_TASK, pe.frame, pe.line)
        touch(machine, pe.node, what, begin, with_value(ONE, value))
        if count > 0:
            touch(machine, pe.node, WRITE_REGISTER, pe.frame, count)
        return
    for i in range(count):
        tap_work(machine, pe.node, WORK_TASK, pe.frame, pe.line)
        if what == READ_WORD:
            half = (value >> (16 * i)) & 0xFFFF
            touch(machine, pe.node, what, begin, with_value(LOW_HALF + i, half))
        else:
            touch(machine, pe.node, what, begin + i, ONE)
        touch(machine, pe.node, WRITE_REGISTER, pe.frame + i, ONE)


@kernel
def tap_scalar(machine, pe, op):
    """Record that a scalar instruction begins; those that may have to wait are recorded when they act."""
    if op != isa.OP_DSD and op != isa.OP_MAP_READ and op != isa.OP_MAP_WRITE:
        tap_work(machine, pe.node, WORK_SCALAR, pe.frame, pe.line)


@kernel
def tap_cursor(machine, pe, operand, reads):
    """Record that an element of a cursor of @map is read or written."""
    tap_work(machine, pe.node, WORK_SCALAR, pe.frame, pe.line)
    if reads:
        touch_source(machine, pe, operand)
    else:
        touch_target(machine, pe, operand)


@kernel
def tap_call(machine, pe, frame, first, count):
    """Record that the arguments of a call go from the caller's registers to those of the function, now
    open."""
    for i in range(count):
        tap_work(machine, pe.node, WORK_ARGUMENT, pe.frame, frame.call)
        touch(machine, pe.node, READ_REGISTER, frame.caller + first + i, ONE)
        touch(machine, pe.node, WRITE_REGISTER, pe.frame + i, ONE)
