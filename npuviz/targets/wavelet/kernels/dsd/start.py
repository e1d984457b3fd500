"""A DSD operation before its first step: its thread, its length, its rate, the queues it claims."""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import fifo_length
from npuviz.targets.wavelet.kernels.program_records import (
    G_HALF,
    G_NUM_SYMBOLS,
    G_SYMBOLS,
    L_CHANNEL,
    L_THREADS,
    P_ARCH,
    P_RATES,
    P_STRIDE_RULE,
    RATE_CYCLES,
    RATE_GROUP,
    RATE_REDUCE,
    RATE_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    A_ADDRESS,
    A_BASE,
    A_BYTES,
    A_COLOR,
    A_KIND,
    A_LENGTH,
    A_PER_WORD,
    A_QUEUE,
    A_RECORD,
    A_STEP,
    B_CLAIMED,
    B_CLASS,
    B_LINE,
    B_NODE,
    B_OUT_USED,
    B_PROGRAM,
    B_STALLED,
    B_TESTED,
    B_THREADS,
    C_PORTS,
    IS_PLAIN,
    KIND_BITS,
    KIND_FIFO,
    KIND_INPUT,
    KIND_LINE,
    KIND_NOTHING,
    KIND_OUTPUT,
    KIND_RING,
    KIND_SHAPE,
    KIND_VALUE,
    LAST_BIAS,
    LAST_SHIFT,
    LOG_BOUNDS,
    LOG_LENGTHS,
    LOG_MIXED,
    LOG_OUTPUT_BUSY,
    LOG_QUEUE_BUSY,
    ONE,
    OPERAND_WORDS,
    Q_THREAD,
    R_COUNT,
    SEVERAL,
    STALLED_OUTPUT,
    T_CONTROL,
    T_CYCLES,
    T_FABRIC,
    T_FINISHED,
    T_GROUP,
    T_HALF,
    T_KINDS,
    T_LEFT,
    T_OP,
    T_OPERANDS,
    T_RECORD,
    T_REDUCES,
    T_TOTAL,
    T_VALUE,
    T_WAIT,
    THREAD_WORDS,
    WAIT_NONE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.time.events import hazard


@inlined
def thread_of(s, p, b, number):
    """Word of a thread's record."""
    return b + p[s[b + B_CLASS] + L_THREADS] + number * THREAD_WORDS


@inlined
def operand(th, number):
    """Word of an operand: 0 destination, 1, 2, 3 sources."""
    return th + T_OPERANDS + number * OPERAND_WORDS


@kernel
def _lanes(s, p, th, group, cycles):
    """Elements per step that the strides of the memory operands allow; wavelet-fabric.md section 2.2."""
    lanes = group
    for i in range(4):
        a = operand(th, i)
        if s[a + A_KIND] != KIND_LINE or s[a + A_STEP] == 0:
            continue
        size = s[a + A_BYTES]
        stride = s[a + A_STEP] // size
        if stride < 0:
            stride = -stride
        if stride == 1:
            continue
        if p[P_STRIDE_RULE]:
            limit = (16 // size) // stride * cycles
        else:
            rest = stride % 8
            limit = group
            if rest == 0:
                limit = cycles
            elif rest == 1 or rest == 7 or rest == 4:
                limit = 2 * cycles
        if limit < 1:
            limit = 1
        if limit < lanes:
            lanes = limit
    return lanes


@kernel
def _set_rate(s, p, th):
    """Elements per step and cycles per step of an operation."""
    op = s[th + T_OP]
    row = p[P_RATES] + op * RATE_WORDS
    group, cycles = p[row + RATE_GROUP], p[row + RATE_CYCLES]
    destination = operand(th, 0)
    per_word = 0
    for i in range(4):
        a = operand(th, i)
        is_fabric = s[a + A_KIND] == KIND_INPUT or s[a + A_KIND] == KIND_OUTPUT
        if is_fabric and s[a + A_PER_WORD] > per_word:
            per_word = s[a + A_PER_WORD]
    reduces = s[th + T_REDUCES] != 0
    if s[destination + A_KIND] == KIND_LINE and s[destination + A_STEP] == 0 and not reduces:
        for i in range(1, 3):
            a = operand(th, i)
            is_fixed = s[a + A_KIND] == KIND_LINE and s[a + A_STEP] == 0
            if is_fixed and s[a + A_ADDRESS] == s[destination + A_ADDRESS]:
                reduces = True
    if reduces:
        group = per_word if per_word else 1
        cycles = p[row + RATE_REDUCE] * group
    else:
        group_now = _lanes(s, p, th, group, cycles)
        if per_word:
            cycles = (cycles * per_word + group - 1) // group
            group = per_word
        else:
            group = group_now
    s[th + T_GROUP] = group
    s[th + T_CYCLES] = cycles if cycles > 0 else 1


@kernel
def _count(s, p, b, th):
    """Elements of an operation: of its first source that has a length, else of its destination."""
    length = -1
    for i in range(1, 4):
        a = operand(th, i)
        kind = s[a + A_KIND]
        if kind == KIND_FIFO:
            if length < 0 and fifo_length(s, a, ONE) > 0:
                length = fifo_length(s, a, ONE)
        elif s[a + A_LENGTH] >= 0:
            if length < 0:
                length = s[a + A_LENGTH]
            elif length != s[a + A_LENGTH]:
                hazard(s, s[b + B_NODE], LOG_LENGTHS, s[a + A_LENGTH], s[b + B_LINE])
    a = operand(th, 0)
    if length < 0:
        length = fifo_length(s, a, ZERO) if s[a + A_KIND] == KIND_FIFO else s[a + A_LENGTH]
    elif s[a + A_LENGTH] >= 0 and s[a + A_LENGTH] != length:
        hazard(s, s[b + B_NODE], LOG_LENGTHS, s[a + A_LENGTH], s[b + B_LINE])
    return length if length >= 0 else 1


@kernel
def test_always(s, p, b, number):
    """Let a thread be looked at before each step, whatever it waits for."""
    s[thread_of(s, p, b, number) + T_FABRIC] = SEVERAL
    s[b + B_TESTED] |= 1 << number
    s[b + B_STALLED] &= ~((1 << number) | (1 << (number + STALLED_OUTPUT)))


@kernel
def claim(s, p, b, a, number):
    """Let the queue of an input operand feed a thread.

    Of two threads on one queue no arrival tells which is meant: both are looked at in every event.
    """
    other = s[s[a + A_RECORD] + Q_THREAD]
    if other >= 0 and other != number:
        test_always(s, p, b, number)
        test_always(s, p, b, other)
    s[s[a + A_RECORD] + Q_THREAD] = number
    s[b + B_CLAIMED] |= 1 << s[a + A_QUEUE]


@inlined
def release(s, b, a):
    """Let the queue of an input operand feed tasks again."""
    s[s[a + A_RECORD] + Q_THREAD] = -1
    s[b + B_CLAIMED] &= ~(1 << s[a + A_QUEUE])


@kernel
def claim_queues(s, p, b, th, number):
    """Let the input queues of an operation feed it instead of tasks."""
    for i in range(1, 4):
        a = operand(th, i)
        if s[a + A_KIND] == KIND_INPUT:
            q = s[a + A_RECORD]
            if s[q + Q_THREAD] >= 0 and s[q + Q_THREAD] != number:
                hazard(s, s[b + B_NODE], LOG_QUEUE_BUSY, s[a + A_QUEUE], s[b + B_LINE])
            claim(s, p, b, a, number)


@kernel
def _note_kinds(s, b, th, number):
    """What kinds of operands an operation has, and what of the fabric it has to wait for."""
    kinds = 0
    fabric = 0
    is_plain = s[th + T_REDUCES] == 0 and s[th + T_OP] != isa.D_DFILT and s[th + T_OP] != isa.D_ADDC16
    for i in range(4):
        a = operand(th, i)
        kind = s[a + A_KIND]
        kinds |= kind << (KIND_BITS * i)
        if kind == KIND_FIFO or kind == KIND_SHAPE or kind == KIND_RING:
            is_plain = False
        if kind == KIND_INPUT or (kind == KIND_OUTPUT and i == 0) or kind == KIND_FIFO:
            is_single = s[a + A_PER_WORD] == 1
            is_plain = is_plain and is_single and (kind != KIND_INPUT or s[th + T_CONTROL] == 0)
            fabric = kind if fabric == 0 and kind != KIND_FIFO and is_single else SEVERAL
            s[th + T_RECORD] = s[a + A_RECORD]
    s[th + T_KINDS] = kinds | (IS_PLAIN if is_plain else 0)
    s[th + T_FABRIC] = fabric
    # Nobody has looked yet whether it can start.
    s[b + B_TESTED] |= 1 << number


@kernel
def _look_for_output(s, p, b, th, number):
    """Two live operations on one output queue or color, and a queue that holds words of another color."""
    a = operand(th, 0)
    if s[a + A_KIND] != KIND_OUTPUT:
        return
    queue = s[a + A_QUEUE]
    mask = s[b + B_THREADS]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        other = operand(thread_of(s, p, b, k), 0)
        if k == number or s[other + A_KIND] != KIND_OUTPUT:
            continue
        if s[other + A_RECORD] == s[a + A_RECORD] or (queue < 8 and s[other + A_QUEUE] == queue):
            test_always(s, p, b, number)
            test_always(s, p, b, k)
            hazard(s, s[b + B_NODE], LOG_OUTPUT_BUSY, s[a + A_COLOR] | (queue << 8), s[b + B_LINE])
    if queue < 8 and p[P_ARCH] == 2:
        last = s[b + B_OUT_USED + queue] - 1
        if last >= 0 and last != s[a + A_COLOR]:
            place = p[s[b + B_CLASS] + L_CHANNEL + last]
            if s[b + place + C_PORTS + R_COUNT] > 0:
                hazard(s, s[b + B_NODE], LOG_MIXED, s[a + A_COLOR] | (queue << 8), s[b + B_LINE])
        s[b + B_OUT_USED + queue] = 1 + s[a + A_COLOR]


@kernel
def _look_for_bounds(s, p, b, th, count):
    """Memory operands that begin in a variable and go beyond it; memory outside variables is not judged."""
    g = s[b + B_PROGRAM]
    rows = p[g + G_SYMBOLS]
    for i in range(4):
        a = operand(th, i)
        if s[a + A_KIND] != KIND_LINE or s[a + A_LENGTH] < 0:
            continue
        base = s[a + A_BASE]
        low, high = 0, p[g + G_NUM_SYMBOLS]
        while low < high:
            middle = (low + high) >> 1
            if p[rows + 2 * middle] <= base:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            continue
        row = rows + 2 * (low - 1)
        last = base + (count - 1) * s[a + A_STEP]
        if base < p[row + 1] and (last < p[row] or last + s[a + A_BYTES] > p[row + 1]):
            value = base | ((last + LAST_BIAS) << LAST_SHIFT)
            hazard(s, s[b + B_NODE], LOG_BOUNDS, value, s[b + B_LINE])


@kernel
def set_up(s, p, b, th, op, number):
    """Complete a thread whose operands are set: length, rate, queues. Returns its number of elements."""
    s[th + T_OP] = op
    s[th + T_HALF] = p[s[b + B_PROGRAM] + G_HALF]
    destination, first = operand(th, 0), operand(th, 1)
    s[th + T_REDUCES] = 0
    s[th + T_VALUE] = 0
    if s[destination + A_KIND] == KIND_LINE and s[destination + A_LENGTH] < 0:
        kind = s[operand(th, 2) + A_KIND]
        if s[first + A_KIND] == KIND_VALUE and kind != KIND_NOTHING and kind != KIND_VALUE:
            s[th + T_REDUCES] = 1
            s[th + T_VALUE] = s[first + A_ADDRESS]
    count = _count(s, p, b, th)
    s[th + T_TOTAL] = count
    s[th + T_LEFT] = count
    s[th + T_FINISHED] = 1
    s[th + T_WAIT] = WAIT_NONE
    _set_rate(s, p, th)
    _note_kinds(s, b, th, number)
    claim_queues(s, p, b, th, number)
    _look_for_output(s, p, b, th, number)
    # A control word may end the operation before its length says so.
    if count > 0 and s[th + T_CONTROL] == 0:
        _look_for_bounds(s, p, b, th, count)
    return count
