"""Operands of DSD operations: descriptors become cursors, cursors give and take elements."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.memory import load_16, load_32, load_bytes, store_16, store_32
from npuviz.targets.wavelet.kernels.program_records import (
    FIFO_FIELDS,
    G_FIFOS,
    G_NUM_FIFOS,
    G_NUM_SHAPES,
    G_OPERATIONS,
    G_SHAPES,
    L_CHANNEL,
    L_DSRS,
    L_FIFOS,
    L_QUEUE,
    P_OUTPUT,
    P_RAMP,
)
from npuviz.targets.wavelet.kernels.records import (
    A_ADDRESS,
    A_BASE,
    A_BYTES,
    A_COLOR,
    A_DSR,
    A_FLAGS,
    A_INDEX,
    A_KIND,
    A_LEFT,
    A_LENGTH,
    A_LINE,
    A_PER_WORD,
    A_QUEUE,
    A_RECORD,
    A_SHAPE,
    A_STEP,
    B_BYTES,
    B_CLASS,
    B_LINE,
    B_MAIN_MASK,
    B_MEMORY,
    B_NODE,
    B_OUT,
    B_PROGRAM,
    B_RAMP,
    B_SEQUENCE,
    B_SHUT,
    BAND_TAKEN,
    C_COLOR,
    C_QUEUE,
    D_SETTINGS,
    D_WORD,
    DSR_WORDS,
    F_FILL,
    F_READ,
    F_READ_LENGTH,
    F_WRITE_LENGTH,
    FAULT_ADDRESS,
    FAULT_COLOR,
    FAULT_DSR,
    FAULT_OPERAND,
    FAULT_QUEUE,
    FAULT_SHAPE,
    FIFO_WORDS,
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
    LOG_NO_INDEX,
    MARK_ADVANCE,
    MARK_CONTROL,
    OPERAND_WORDS,
    Q_COUNT,
    Q_LAST,
    Q_LIMIT,
    TRAIL_SENT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import drop_queue_head, head_entry, push_word
from npuviz.targets.wavelet.kernels.time.events import band_at, fault, hazard, leave_trail, wake_router

MARK = 0xC000_0000
"""Assumed: what control_transform writes into the two top index bits of a control word."""


@inlined
def field(word, shift, mask):
    """A field of a descriptor word."""
    return (word >> shift) & mask


@inlined
def dsr_of(p, b, c, number, file):
    """Word of a DSR."""
    return b + p[c + L_DSRS] + (file * 16 + number) * DSR_WORDS


@kernel
def _fabric_operand(s, p, b, a, word, element_bytes, index):
    c = s[b + B_CLASS]
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
        if index >= 0:
            flags |= FLAG_INDEX
        else:
            hazard(s, s[b + B_NODE], LOG_NO_INDEX, color, s[b + B_LINE])
    simd = field(word, isa.SHIFT_SIMD, 3)
    per_word = 1
    if simd and element_bytes == 2:
        per_word = 2
        if simd >= 2:
            flags |= FLAG_PAIR if simd == 2 else FLAG_PAIR_ANY
    s[a + A_STEP] = field(word, isa.SHIFT_PRIORITY, 3)
    s[a + A_LINE] = s[b + B_LINE]
    s[a + A_FLAGS] = flags
    s[a + A_PER_WORD] = per_word
    s[a + A_QUEUE] = queue
    if kind == isa.KIND_FABIN:
        s[a + A_KIND] = KIND_INPUT
        number = queue
        if color < 24 and p[c + L_CHANNEL + color] and s[b + p[c + L_CHANNEL + color] + C_QUEUE] >= 0:
            number = s[b + p[c + L_CHANNEL + color] + C_QUEUE]
        place = p[c + L_QUEUE + number] if number < 32 else 0
        if place == 0 or s[b + place] < 0:
            fault(s, s[b + B_NODE], FAULT_QUEUE, queue)
            return
        s[a + A_RECORD] = b + place
        s[a + A_QUEUE] = number
        s[a + A_COLOR] = s[b + place]
    else:
        s[a + A_KIND] = KIND_OUTPUT
        if color >= 24 and queue < 8:
            color = s[b + B_OUT + queue]
        place = p[c + L_CHANNEL + color] if color >= 0 and color < 24 else 0
        if place == 0:
            fault(s, s[b + B_NODE], FAULT_COLOR, queue)
            return
        s[a + A_COLOR] = color
        s[a + A_RECORD] = b + place
    length = field(word, isa.SHIFT_EXTENT, isa.MASK_EXTENT) * per_word
    s[a + A_LENGTH] = length
    s[a + A_LEFT] = length


@kernel
def set_operand(s, p, b, a, kind, value, element_bytes, index):
    """Make the cursor at `a` of an operand: kind isa.OPERAND_..., value its register.

    index  the operation's .index, -1 if not given
    """
    for i in range(OPERAND_WORDS):
        s[a + i] = 0
    s[a + A_DSR] = -1
    s[a + A_BYTES] = element_bytes
    s[a + A_LEFT] = -1
    s[a + A_LENGTH] = -1
    s[a + A_PER_WORD] = 1
    if kind == isa.OPERAND_NONE:
        s[a + A_KIND] = KIND_NOTHING
        return
    if kind == isa.OPERAND_SCALAR:
        s[a + A_KIND] = KIND_VALUE
        s[a + A_ADDRESS] = value & 0xFFFF_FFFF if element_bytes == 4 else value & 0xFFFF
        return
    if kind == isa.OPERAND_POINTER:
        s[a + A_KIND] = KIND_LINE
        s[a + A_ADDRESS] = s[a + A_BASE] = value & 0xFFFF
        return
    word = value
    c = s[b + B_CLASS]
    if field(word, 0, 7) == isa.KIND_DSR:
        file = field(word, isa.SHIFT_DSR_FILE, 3)
        number = field(word, isa.SHIFT_DSR_ID, 0x1F)
        if p[c + L_DSRS] == 0 or file > 2 or number > 15:
            fault(s, s[b + B_NODE], FAULT_DSR, number)
            return
        dsr = dsr_of(p, b, c, number, file)
        s[a + A_DSR] = dsr
        settings = s[dsr + D_SETTINGS]
        if settings >= 0:
            row = p[s[b + B_PROGRAM] + G_OPERATIONS] + settings * isa.OPERATION_WORDS
            if p[row + isa.O_SAVE_ADDRESS]:
                s[a + A_FLAGS] = FLAG_SAVE
        word = s[dsr + D_WORD]
    base = field(word, isa.SHIFT_BASE, isa.MASK_BASE)
    extent = field(word, isa.SHIFT_EXTENT, isa.MASK_EXTENT)
    stride = (field(word, isa.SHIFT_STRIDE, isa.MASK_STRIDE) ^ 0x8000) - 0x8000
    described = field(word, 0, 7)
    if described == isa.KIND_FABIN or described == isa.KIND_FABOUT:
        _fabric_operand(s, p, b, a, word, element_bytes, index)
        return
    if described == isa.KIND_FIFO:
        if base >= p[s[b + B_PROGRAM] + G_NUM_FIFOS]:
            fault(s, s[b + B_NODE], FAULT_OPERAND, base)
            return
        s[a + A_KIND] = KIND_FIFO
        s[a + A_QUEUE] = base
        s[a + A_RECORD] = b + p[c + L_FIFOS] + base * FIFO_WORDS
        return
    if described < isa.KIND_MEM1D or described > isa.KIND_CIRCBUF:
        fault(s, s[b + B_NODE], FAULT_OPERAND, word)
        return
    if field(word, isa.SHIFT_INDEX_OFFSET, 1):
        if index >= 0:
            base += 2 * index
        else:
            hazard(s, s[b + B_NODE], LOG_NO_INDEX, base, s[b + B_LINE])
    s[a + A_ADDRESS] = s[a + A_BASE] = base
    s[a + A_KIND] = KIND_LINE
    s[a + A_STEP] = stride * element_bytes
    if described == isa.KIND_MEM1D:
        s[a + A_LENGTH] = extent
        return
    g = s[b + B_PROGRAM]
    if stride < 0 or stride >= p[g + G_NUM_SHAPES]:
        fault(s, s[b + B_NODE], FAULT_SHAPE, stride)
        return
    shape = p[g + G_SHAPES] + stride * 8
    s[a + A_SHAPE] = shape
    if described == isa.KIND_MEM4D:
        s[a + A_KIND] = KIND_SHAPE
        s[a + A_LENGTH] = p[shape] * p[shape + 1] * p[shape + 2] * p[shape + 3]
    else:
        s[a + A_KIND] = KIND_RING
        s[a + A_STEP] = element_bytes
        s[a + A_LENGTH] = extent
        s[a + A_INDEX] = p[shape]
        s[a + A_INDEX + 1] = p[shape] + p[shape + 1] * element_bytes


@kernel
def step_memory(s, p, a):
    """Move a memory cursor to its next element."""
    kind = s[a + A_KIND]
    if kind == KIND_LINE:
        s[a + A_ADDRESS] += s[a + A_STEP]
    elif kind == KIND_RING:
        following = s[a + A_ADDRESS] + s[a + A_STEP]
        s[a + A_ADDRESS] = s[a + A_INDEX] if following >= s[a + A_INDEX + 1] else following
    else:
        step_shape(s, p, a)


@kernel
def step_shape(s, p, a):
    """Move a cursor over up to four dimensions: the stride of the outermost dimension that turned counts.

    A shape row has the extents outermost first, then the strides innermost first; each outer stride
    already undoes the finished inner loops (csl.md section 4.2).
    """
    shape = s[a + A_SHAPE]
    for level in range(4):
        s[a + A_INDEX + level] += 1
        if s[a + A_INDEX + level] < p[shape + 3 - level]:
            s[a + A_ADDRESS] += p[shape + 4 + level] * s[a + A_BYTES]
            return
        s[a + A_INDEX + level] = 0
    s[a + A_ADDRESS] = s[a + A_BASE]


@inlined
def is_inside(s, b, address, size):
    """Whether bytes lie in the memory of a PE."""
    return address >= 0 and address + size <= s[b + B_BYTES]


@kernel
def read_memory(s, p, b, a):
    """The next element of a memory cursor; a fault outside the memory."""
    address = s[a + A_ADDRESS]
    size = s[a + A_BYTES]
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return 0
    value = load_16(s, s[b + B_MEMORY], address) if size == 2 else load_32(s, s[b + B_MEMORY], address)
    step_memory(s, p, a)
    return value


@kernel
def write_memory(s, p, b, a, value):
    """Write the next element of a memory cursor; a fault outside the memory."""
    address = s[a + A_ADDRESS]
    size = s[a + A_BYTES]
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    if size == 2:
        store_16(s, s[b + B_MEMORY], address, value)
    else:
        store_32(s, s[b + B_MEMORY], address, value)
    step_memory(s, p, a)


@inlined
def read_line(s, b, a):
    """`read_memory` of a cursor over equal steps."""
    address = s[a + A_ADDRESS]
    size = s[a + A_BYTES]
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return 0
    s[a + A_ADDRESS] = address + s[a + A_STEP]
    return load_16(s, s[b + B_MEMORY], address) if size == 2 else load_32(s, s[b + B_MEMORY], address)


@inlined
def write_line(s, b, a, value):
    """`write_memory` of a cursor over equal steps."""
    address = s[a + A_ADDRESS]
    size = s[a + A_BYTES]
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    if size == 2:
        store_16(s, s[b + B_MEMORY], address, value)
    else:
        store_32(s, s[b + B_MEMORY], address, value)
    s[a + A_ADDRESS] = address + s[a + A_STEP]


@inlined
def has_word(s, q, t):
    """Whether the head of an input queue can be taken at cycle `t`."""
    return s[q + Q_COUNT] > 0 and s[head_entry(s, q) + 2] <= t


@kernel
def pop_queue(s, b, q, number, t):
    """Take the head of an input queue: payload | control mark. Lets the router see the free slot."""
    payload = s[head_entry(s, q)]
    count = s[q + Q_COUNT]
    drop_queue_head(s, q)
    s[q + Q_LAST] = t
    s[band_at(s, b) + BAND_TAKEN] += 1
    if count >= s[q + Q_LIMIT] - 1:
        s[b + B_SHUT] = 0
        wake_router(s, b, t + 1)
    if count == 1:
        s[b + B_MAIN_MASK] &= ~(1 << number)
    return payload


@inlined
def read_fabric(s, b, a, t):
    """Take a wavelet for a fabric cursor; a control word is marked if the operand says so."""
    payload = pop_queue(s, b, s[a + A_RECORD], s[a + A_QUEUE], t)
    if (s[a + A_FLAGS] & FLAG_TRANSFORM) and (payload & MARK_CONTROL):
        return (payload & 0xFFFF_FFFF) | MARK
    return payload & 0xFFFF_FFFF


@kernel
def send_word(s, p, b, a, value, index, is_last, t):
    """Put a wavelet of a fabric destination on its way to the router."""
    flags = s[a + A_FLAGS]
    payload = value & 0xFFFF_FFFF
    if flags & FLAG_INDEX:
        payload = (payload & 0xFFFF) | ((index & 0xFFFF) << 16)
    if flags & FLAG_CONTROL:
        payload |= MARK_CONTROL
    if (flags & FLAG_TRANSFORM) and (payload & MARK) == MARK:
        payload = (payload & ~MARK) | MARK_CONTROL
    if is_last and (flags & FLAG_ADVANCE):
        payload |= MARK_ADVANCE
    ready = t + p[P_OUTPUT]
    if ready < s[b + B_RAMP]:
        ready = s[b + B_RAMP]
    s[b + B_RAMP] = ready + 1
    ready += p[P_RAMP]
    node = s[b + B_NODE]
    sequence = s[b + B_SEQUENCE]
    s[b + B_SEQUENCE] = sequence + 1
    push_word(s, b, s[a + A_RECORD], ZERO, payload, (node << 32) | sequence, ready)
    wake_router(s, b, ready)
    leave_trail(
        s, b, (node << 32) | sequence, ZERO, TRAIL_SENT, ZERO, s[s[a + A_RECORD] + C_COLOR], s[a + A_LINE]
    )
    return (node << 32) | sequence


@inlined
def fifo_row(p, s, b, a):
    """Word of a FIFO's description."""
    return p[s[b + B_PROGRAM] + G_FIFOS] + s[a + A_QUEUE] * FIFO_FIELDS


@kernel
def read_fifo(s, p, b, a):
    """Pop an element of a FIFO; the caller has checked that there is one."""
    f = s[a + A_RECORD]
    row = fifo_row(p, s, b, a)
    size = s[a + A_BYTES]
    value = load_bytes(s, s[b + B_MEMORY], p[row] + s[f + F_READ], size)
    s[f + F_READ] = (s[f + F_READ] + size) % p[row + 1]
    s[f + F_FILL] -= size
    return value


@kernel
def write_fifo(s, p, b, a, value):
    """Push an element to a FIFO; the caller has checked the room."""
    f = s[a + A_RECORD]
    row = fifo_row(p, s, b, a)
    size = s[a + A_BYTES]
    at = p[row] + (s[f + F_READ] + s[f + F_FILL]) % p[row + 1]
    if size == 2:
        store_16(s, s[b + B_MEMORY], at, value)
    else:
        store_32(s, s[b + B_MEMORY], at, value)
    s[f + F_FILL] += size


@inlined
def fifo_length(s, a, is_source):
    """Length that was set for a FIFO operand, 0 if none."""
    return s[s[a + A_RECORD] + (F_READ_LENGTH if is_source else F_WRITE_LENGTH)]


@kernel
def save_address(s, a):
    """Let the DSR of a memory operand go on behind what was done, if it was loaded with save_address.

    A circular buffer's head is kept in any case.
    """
    dsr = s[a + A_DSR]
    if dsr < 0 or ((s[a + A_FLAGS] & FLAG_SAVE) == 0 and s[a + A_KIND] != KIND_RING):
        return
    word = s[dsr + D_WORD]
    mask = isa.MASK_BASE << isa.SHIFT_BASE
    s[dsr + D_WORD] = (word & ~mask) | ((s[a + A_ADDRESS] & isa.MASK_BASE) << isa.SHIFT_BASE)
