"""Turn the descriptors of DSD operations into cursors, which give and take elements."""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import STOP_MEMORY_WRITE
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.causes import last_thread
from npuviz.targets.wavelet.kernels.faults import (
    FAULT_ADDRESS,
    FAULT_COLOR,
    FAULT_DSR,
    FAULT_EMPTY,
    FAULT_OPERAND,
    FAULT_QUEUE,
    FAULT_SHAPE,
)
from npuviz.targets.wavelet.kernels.jitter import MORE_RAMP, UNIT_RAMP, more_cycles
from npuviz.targets.wavelet.kernels.log_numbers import LOG_NO_INDEX
from npuviz.targets.wavelet.kernels.memory import load_16, load_32, load_bytes, store_16, store_32
from npuviz.targets.wavelet.kernels.program_records import CODE, FIFO_SETTINGS, LAYOUT, OPERATION, SHAPE
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    DSR,
    FIFO,
    FLAG_ADVANCE,
    FLAG_CONTROL,
    FLAG_INDEX,
    FLAG_PAIR,
    FLAG_PAIR_ANY,
    FLAG_SAVE,
    FLAG_TRANSFORM,
    FLAG_ZERO_FIRST,
    FLAG_ZERO_SECOND,
    KIND_FIFO,
    KIND_INPUT,
    KIND_LINE,
    KIND_NOTHING,
    KIND_OUTPUT,
    KIND_RING,
    KIND_SHAPE,
    KIND_VALUE,
    MARK_ADVANCE,
    MARK_CONTROL,
    OPERAND,
    QUEUE,
    SENT_WORDS,
    TRAIL_SENT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import Word, drop_queue_head, head_entry, push_word
from npuviz.targets.wavelet.kernels.router.swap import push_swapped
from npuviz.targets.wavelet.kernels.time.events import (
    Stage,
    band_of,
    fault,
    hazard,
    leave_trail,
    wake_processor,
    wake_router,
)
from npuviz.targets.wavelet.kernels.time.stops import mark_of, watch_bytes
from npuviz.targets.wavelet.kernels.unset import note_written

MARK = 0xC000_0000
"""The two top index bits, which control_transform sets for a control word (assumed)."""


class Given(NamedTuple):
    """An operand as an operation names it."""

    kind: Any
    """isa.OPERAND_..."""
    value: Any
    """Contents of its register."""
    bytes: Any
    """Bytes of an element."""
    index: Any
    """The operation's .index, -1 if not given."""


class Element(NamedTuple):
    """An element that an operation has computed."""

    value: Any
    """Its bits."""
    index: Any
    """The operation's .index."""
    is_last: Any


@inlined
def field(word, shift, mask):
    """Return a field of a descriptor word."""
    return (word >> shift) & mask


@inlined
def dsr_of(pe, layout, number, file):
    """Return a DSR by its file and its number in the file."""
    return DSR(pe, layout.dsrs, file * 16 + number)


@kernel
def _fabric_operand(machine, pe, operand, word, given):
    wafer = machine.wafer
    layout = LAYOUT(machine.program, pe.layout)
    kind = field(word, 0, 7)
    queue = field(word, isa.SHIFT_QUEUE, isa.MASK_QUEUE)
    color = field(word, isa.SHIFT_COLOR, isa.MASK_COLOR)
    flags = 0
    if field(word, isa.SHIFT_CONTROL, 1):
        flags |= FLAG_CONTROL
    if field(word, isa.SHIFT_CONTROL_TRANSFORM, 1):
        flags |= FLAG_TRANSFORM
    if field(word, isa.SHIFT_ADVANCE_SWITCH, 1):
        flags |= FLAG_ADVANCE
    zero = field(word, isa.SHIFT_ZERO, 3)
    if zero:
        flags |= FLAG_ZERO_FIRST if zero == 1 else FLAG_ZERO_SECOND
    if field(word, isa.SHIFT_INDEX_OFFSET, 1):
        if given.index >= 0:
            flags |= FLAG_INDEX
        else:
            hazard(wafer, pe.node, LOG_NO_INDEX, color, pe.line)
    simd = field(word, isa.SHIFT_SIMD, 3)
    per_word = 1
    if simd and given.bytes == 2:
        per_word = 2
        if simd >= 2:
            flags |= FLAG_PAIR if simd == 2 else FLAG_PAIR_ANY
    operand.step = field(word, isa.SHIFT_PRIORITY, 3)
    operand.line = pe.line
    operand.flags = flags
    operand.per_word = per_word
    operand.queue = queue
    if kind == isa.KIND_FABIN:
        operand.kind = KIND_INPUT
        number = queue
        if color < 24 and layout.channel[color] and CHANNEL(pe, layout.channel[color]).queue >= 0:
            number = CHANNEL(pe, layout.channel[color]).queue
        place = layout.queue[number] if number < 32 else 0
        if place == 0 or QUEUE(pe, place).color < 0:
            fault(wafer, pe.node, FAULT_QUEUE, queue)
            return
        operand.record = word_of(wafer, pe) + place
        operand.queue = number
        operand.color = QUEUE(pe, place).color
    else:
        operand.kind = KIND_OUTPUT
        if color >= 24 and queue < 8:
            color = pe.out[queue]
        place = layout.channel[color] if color >= 0 and color < 24 else 0
        if place == 0:
            fault(wafer, pe.node, FAULT_COLOR, queue)
            return
        operand.color = color
        operand.record = word_of(wafer, pe) + place
    length = field(word, isa.SHIFT_EXTENT, isa.MASK_EXTENT)
    operand.length = length
    operand.left = length


@kernel
def set_operand(machine, pe, operand, given):
    """Set the cursor of an operand to its beginning."""
    wafer, program = machine.wafer, machine.program
    kind, value, element_bytes = given.kind, given.value, given.bytes
    for i in range(OPERAND.num_words):
        operand[i] = 0
    operand.dsr = -1
    operand.bytes = element_bytes
    operand.left = -1
    operand.length = -1
    operand.per_word = 1
    if kind == isa.OPERAND_NONE:
        operand.kind = KIND_NOTHING
        return
    if kind == isa.OPERAND_SCALAR:
        operand.kind = KIND_VALUE
        operand.address = value & 0xFFFF_FFFF if element_bytes == 4 else value & 0xFFFF
        return
    if kind == isa.OPERAND_POINTER:
        operand.kind = KIND_LINE
        operand.address = operand.base = value & 0xFFFF
        return
    word = value
    layout = LAYOUT(program, pe.layout)
    if field(word, 0, 7) == isa.KIND_DSR:
        file = field(word, isa.SHIFT_DSR_FILE, 3)
        number = field(word, isa.SHIFT_DSR_ID, 0x1F)
        if layout.dsrs == 0 or file > 2 or number > 15:
            fault(wafer, pe.node, FAULT_DSR, number)
            return
        dsr = dsr_of(pe, layout, number, file)
        operand.dsr = word_of(wafer, dsr)
        operations = CODE(program, pe.code).operations
        if dsr.settings >= 0 and OPERATION(program, operations, dsr.settings).save_address:
            operand.flags = FLAG_SAVE
        word = dsr.word
    base = field(word, isa.SHIFT_BASE, isa.MASK_BASE)
    extent = field(word, isa.SHIFT_EXTENT, isa.MASK_EXTENT)
    stride = (field(word, isa.SHIFT_STRIDE, isa.MASK_STRIDE) ^ 0x8000) - 0x8000
    described = field(word, 0, 7)
    if described == isa.KIND_FABIN or described == isa.KIND_FABOUT:
        _fabric_operand(machine, pe, operand, word, given)
        return
    if described == isa.KIND_FIFO:
        if base >= CODE(program, pe.code).num_fifos:
            fault(wafer, pe.node, FAULT_OPERAND, base)
            return
        operand.kind = KIND_FIFO
        operand.queue = base
        operand.record = word_of(wafer, pe) + layout.fifos + base * FIFO.num_words
        return
    if described < isa.KIND_MEM1D or described > isa.KIND_CIRCBUF:
        fault(wafer, pe.node, FAULT_OPERAND, word)
        return
    if field(word, isa.SHIFT_INDEX_OFFSET, 1):
        if given.index >= 0:
            base += 2 * given.index
        else:
            hazard(wafer, pe.node, LOG_NO_INDEX, base, pe.line)
    operand.address = operand.base = base
    operand.kind = KIND_LINE
    operand.step = stride * element_bytes
    if described == isa.KIND_MEM1D:
        operand.length = extent
        return
    code = CODE(program, pe.code)
    if stride < 0 or stride >= code.num_shapes:
        fault(wafer, pe.node, FAULT_SHAPE, stride)
        return
    shape = SHAPE(program, code.shapes, stride)
    operand.shape = word_of(program, shape)
    extents = shape.extents
    if described == isa.KIND_MEM4D:
        operand.kind = KIND_SHAPE
        operand.length = extents[0] * extents[1] * extents[2] * extents[3]
    else:
        operand.kind = KIND_RING
        operand.step = element_bytes
        operand.length = extent
        operand.index[0] = extents[0]
        operand.index[1] = extents[0] + extents[1] * element_bytes


@kernel
def step_memory(program, operand):
    """Move a memory cursor to its next element."""
    kind = operand.kind
    if kind == KIND_LINE:
        operand.address += operand.step
    elif kind == KIND_RING:
        following = operand.address + operand.step
        operand.address = operand.index[0] if following >= operand.index[1] else following
    else:
        step_shape(program, operand)


@kernel
def step_shape(program, operand):
    """Move a cursor over up to four dimensions by the stride of the outermost dimension that advances.

    Each outer stride already undoes the finished inner loops (csl.md section 4.2).
    """
    shape = SHAPE(program, operand.shape)
    for level in range(4):
        operand.index[level] += 1
        if operand.index[level] < shape.extents[3 - level]:
            operand.address += shape.strides[level] * operand.bytes
            return
        operand.index[level] = 0
    operand.address = operand.base


@inlined
def is_inside(pe, address, size):
    """Return whether bytes lie in the memory of a PE."""
    # Not `address + size`: an address may be any word, and the sum would be negative.
    return address >= 0 and address <= pe.bytes - size


@kernel
def read_memory(machine, pe, operand):
    """Read the next element of a memory cursor; a fault outside the memory."""
    wafer = machine.wafer
    address = operand.address
    size = operand.bytes
    if not is_inside(pe, address, size):
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return 0
    value = load_16(wafer, pe.memory, address) if size == 2 else load_32(wafer, pe.memory, address)
    step_memory(machine.program, operand)
    return value


@kernel
def write_memory(machine, pe, operand, value):
    """Write the next element of a memory cursor; a fault outside the memory."""
    wafer = machine.wafer
    address = operand.address
    size = operand.bytes
    if not is_inside(pe, address, size):
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if size == 2:
        store_16(wafer, pe.memory, address, value)
    else:
        store_32(wafer, pe.memory, address, value)
    # Writes of an operation in one dimension are noted when it starts.
    if machine.program.unset and operand.kind != KIND_LINE:
        note_written(machine, pe, address, address + size)
    step_memory(machine.program, operand)


@inlined
def read_line(wafer, pe, operand):
    """Read the next element of a cursor with equal steps, as `read_memory` does."""
    address = operand.address
    size = operand.bytes
    if not is_inside(pe, address, size):
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return 0
    operand.address = address + operand.step
    return load_16(wafer, pe.memory, address) if size == 2 else load_32(wafer, pe.memory, address)


@inlined
def write_line(wafer, pe, operand, value):
    """Write the next element of a cursor with equal steps, as `write_memory` does."""
    address = operand.address
    size = operand.bytes
    if not is_inside(pe, address, size):
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if size == 2:
        store_16(wafer, pe.memory, address, value)
    else:
        store_32(wafer, pe.memory, address, value)
    operand.address = address + operand.step


@inlined
def has_word(queue, t):
    """Return whether the head of an input queue can be taken at cycle `t`."""
    return queue.count > 0 and head_entry(queue).ready <= t


@kernel
def pop_queue(wafer, pe, queue, number, t):
    """Take the head of an input queue and let the router see the free slot. Returns payload | control
    mark."""
    count = queue.count
    if count <= 0:
        # Two operands of an operation read the same queue, which holds one word.
        fault(wafer, pe.node, FAULT_EMPTY, number)
        return 0
    payload = head_entry(queue).payload
    drop_queue_head(queue)
    queue.last = t
    band_of(wafer, pe).taken += 1
    if count >= queue.room - 1:
        pe.shut = 0
        wake_router(wafer, pe, t + 1)
        if queue.in_left:
            wake_processor(wafer, pe, t + 1)
    if count == 1:
        pe.filled &= ~(1 << number)
    return payload


@inlined
def read_fabric(wafer, pe, operand, t):
    """Take a wavelet for a fabric cursor; a control word is marked if the operand says so."""
    payload = pop_queue(wafer, pe, QUEUE(wafer, operand.record), operand.queue, t)
    if (operand.flags & FLAG_TRANSFORM) and (payload & MARK_CONTROL):
        return (payload & 0xFFFF_FFFF) | MARK
    return payload & 0xFFFF_FFFF


@kernel
def send_word(machine, pe, operand, element, t):
    """Send a wavelet of a fabric destination to the router."""
    wafer, program = machine.wafer, machine.program
    flags = operand.flags
    payload = element.value & 0xFFFF_FFFF
    if flags & FLAG_INDEX:
        payload = (payload & 0xFFFF) | ((element.index & 0xFFFF) << 16)
    if flags & FLAG_CONTROL:
        payload |= MARK_CONTROL
    if (flags & FLAG_TRANSFORM) and (payload & MARK) == MARK:
        payload = (payload & ~MARK) | MARK_CONTROL
    if element.is_last and (flags & FLAG_ADVANCE):
        payload |= MARK_ADVANCE
    ready = t + program.output
    if ready < pe.ramp:
        ready = pe.ramp
    pe.ramp = ready + 1
    ready += wafer.ramp + more_cycles(machine, pe.node, UNIT_RAMP, MORE_RAMP)
    identity = (pe.node << 32) | pe.sequence
    pe.sent[pe.sequence & (SENT_WORDS - 1)] = ((t + 1) << 4) | last_thread(pe)
    pe.sequence += 1
    channel = CHANNEL(wafer, operand.record)
    word = Word(payload, identity, ready)
    if program.swap:
        push_swapped(machine, pe, channel, word)
    else:
        push_word(wafer, pe, channel, ZERO, word)
    wake_router(wafer, pe, ready)
    leave_trail(wafer, pe, identity, Stage(TRAIL_SENT, ZERO, channel.color, ZERO), operand.line)


@inlined
def settings_of(program, pe, operand):
    """Return the description of the FIFO of an operand."""
    return FIFO_SETTINGS(program, CODE(program, pe.code).fifos, operand.queue)


@kernel
def read_fifo(machine, pe, operand):
    """Pop an element of a FIFO; the caller has checked that there is one. A fault outside the memory."""
    wafer = machine.wafer
    fifo = FIFO(wafer, operand.record)
    settings = settings_of(machine.program, pe, operand)
    size = operand.bytes
    at = settings.address + fifo.read
    if settings.size == 0 or not is_inside(pe, at, size):
        fault(wafer, pe.node, FAULT_ADDRESS, at)
        return 0
    value = load_bytes(wafer, pe.memory, at, size)
    fifo.read = (fifo.read + size) % settings.size
    fifo.fill -= size
    return value


@kernel
def target_of(machine, pe, operand):
    """Return the address of the element that is written next to a memory or a FIFO, -1 for other operands."""
    if operand.kind == KIND_FIFO:
        fifo = FIFO(machine.wafer, operand.record)
        settings = settings_of(machine.program, pe, operand)
        return settings.address + (fifo.read + fifo.fill) % settings.size if settings.size else -1
    is_memory = operand.kind == KIND_LINE or operand.kind == KIND_SHAPE or operand.kind == KIND_RING
    return operand.address if is_memory else -1


@kernel
def watch_target(machine, pe, operand, instruction, t):
    """Test stop rows about the element that is written next."""
    at = target_of(machine, pe, operand)
    if at >= 0:
        watch_bytes(machine, pe.node, STOP_MEMORY_WRITE, (at, at + operand.bytes, mark_of(instruction)), t)


@kernel
def write_fifo(machine, pe, operand, value):
    """Push an element to a FIFO; the caller has checked the room. A fault outside the memory."""
    wafer = machine.wafer
    fifo = FIFO(wafer, operand.record)
    settings = settings_of(machine.program, pe, operand)
    size = operand.bytes
    at = settings.address + (fifo.read + fifo.fill) % settings.size if settings.size else -1
    if not is_inside(pe, at, size):
        fault(wafer, pe.node, FAULT_ADDRESS, at)
        return
    if size == 2:
        store_16(wafer, pe.memory, at, value)
    else:
        store_32(wafer, pe.memory, at, value)
    fifo.fill += size


@inlined
def fifo_length(wafer, operand, is_source):
    """Return the length that was set for a FIFO operand, 0 if none."""
    fifo = FIFO(wafer, operand.record)
    return fifo.read_length if is_source else fifo.write_length


@kernel
def save_address(wafer, operand):
    """Move the DSR of a memory operand behind the elements done, if it was loaded with save_address.

    The position in a circular buffer is kept in any case.
    """
    if operand.dsr < 0 or ((operand.flags & FLAG_SAVE) == 0 and operand.kind != KIND_RING):
        return
    dsr = DSR(wafer, operand.dsr)
    mask = isa.MASK_BASE << isa.SHIFT_BASE
    dsr.word = (dsr.word & ~mask) | ((operand.address & isa.MASK_BASE) << isa.SHIFT_BASE)
