"""Set up a DSD operation before its first step: its thread, its length, its rate, the queues it claims."""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import fifo_length, is_inside
from npuviz.targets.wavelet.kernels.dsd.races import look_for_races
from npuviz.targets.wavelet.kernels.log_numbers import (
    LAST_BIAS,
    LAST_SHIFT,
    LOG_BOUNDS,
    LOG_LENGTHS,
    LOG_MIXED,
    LOG_OUTPUT_BUSY,
    LOG_QUEUE_BUSY,
)
from npuviz.targets.wavelet.kernels.memory import load_16, load_32
from npuviz.targets.wavelet.kernels.program_records import CODE, LAYOUT, RATE, VARIABLE
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    FLAG_PAIR,
    FLAG_PAIR_ANY,
    IS_PLAIN,
    IS_SIGNED,
    KIND_BITS,
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
    SEVERAL,
    STALLED_OUTPUT,
    THREAD,
    WAIT_NONE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.time.events import hazard
from npuviz.targets.wavelet.kernels.unset import look_at_operands


@inlined
def thread_of(program, pe, number):
    """Return a thread by its number."""
    return THREAD(pe, LAYOUT(program, pe.layout).threads, number)


@kernel
def _lanes(program, thread, group, cycles):
    """Return the elements per step that the strides of the memory operands allow; wavelet-fabric.md section
    2.2."""
    lanes = group
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind != KIND_LINE or operand.step == 0:
            continue
        size = operand.bytes
        stride = operand.step // size
        if stride < 0:
            stride = -stride
        if stride == 1:
            continue
        if program.stride_rule:
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
def _memory_sources(thread):
    """Return how many sources of an operation are read from memory."""
    count = 0
    for i in range(1, 4):
        kind = thread.operands[i].kind
        if kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING or kind == KIND_FIFO:
            count += 1
    return count


@kernel
def _meetings(thread):
    """Return how many of two 32-bit elements are read from banks that are equal modulo 4: 0, 1 or 2.

    Such an element lies in banks 0 and 1 or in 2 and 3 (modulo 4), the next one in the others. Sources in
    several dimensions are taken not to meet.
    """
    first = second = -1
    for i in range(1, 4):
        if thread.operands[i].kind == KIND_LINE:
            first, second = second, i
    if first < 0:
        return 0
    left, right = thread.operands[first], thread.operands[second]
    if left.bytes != 4 or right.bytes != 4:
        return 0
    count = 0
    for k in range(2):
        distance = left.base - right.base + k * (left.step - right.step)
        if (distance >> 2) & 1 == 0:
            count += 1
    return count


@kernel
def _set_rate(program, thread):
    """Set the elements per step and the cycles per step of an operation."""
    op = thread.op
    rate = RATE(program, program.rates, op)
    group, cycles = rate.group, rate.cycles
    if rate.two and _memory_sources(thread) >= 2:
        if rate.banks:
            group = 2
            cycles = 2 + _meetings(thread) * (rate.two - 1)
        else:
            cycles = rate.two
    destination = thread.operands[0]
    per_word = words = 0
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind == KIND_INPUT or operand.kind == KIND_OUTPUT:
            is_pair = operand.flags & (FLAG_PAIR | FLAG_PAIR_ANY) != 0 and not program.swap
            words = 2 if is_pair and words != 1 else 1
            if operand.per_word > per_word:
                per_word = operand.per_word
    per_word *= words
    reduces = thread.reduces != 0
    if destination.kind == KIND_LINE and destination.step == 0 and not reduces:
        for i in range(1, 3):
            operand = thread.operands[i]
            is_fixed = operand.kind == KIND_LINE and operand.step == 0
            if is_fixed and operand.address == destination.address:
                reduces = True
    if reduces:
        group = per_word if per_word else 1
        cycles = rate.reduce * group
    else:
        if per_word:
            cycles = (cycles * per_word + group - 1) // group
            group = per_word
        elif rate.group > 1:
            group = _lanes(program, thread, group, cycles)
    thread.group = group
    thread.cycles = cycles if cycles > 0 else 1


@kernel
def _count(wafer, pe, thread):
    """Return the number of elements of an operation: of its first source that has a length, else of its
    destination.

    A shorter destination in memory ends the operation, and nothing behind it is written; so does the length
    that was set for a FIFO. If a control word may end the operation, it waits for that word.
    """
    length = -1
    for i in range(1, 4):
        operand = thread.operands[i]
        kind = operand.kind
        if kind == KIND_FIFO:
            if length < 0 and fifo_length(wafer, operand, ONE) > 0:
                length = fifo_length(wafer, operand, ONE)
        elif operand.length >= 0:
            if length < 0:
                length = operand.length
            elif length != operand.length:
                hazard(wafer, pe.node, LOG_LENGTHS, operand.length, pe.line)
    operand = thread.operands[0]
    if length < 0:
        length = fifo_length(wafer, operand, ZERO) if operand.kind == KIND_FIFO else operand.length
    elif operand.length >= 0 and operand.length != length:
        hazard(wafer, pe.node, LOG_LENGTHS, operand.length, pe.line)
        if operand.length < length and operand.kind != KIND_OUTPUT and thread.control == 0:
            length = operand.length
    elif operand.kind == KIND_FIFO and thread.control == 0:
        given = fifo_length(wafer, operand, ZERO)
        length = given if given > 0 and given < length else length
    return length if length >= 0 else 1


@kernel
def test_always(program, pe, number):
    """Let a thread be tested before each step, whatever it waits for."""
    thread_of(program, pe, number).fabric = SEVERAL
    pe.tested |= 1 << number
    pe.stalled &= ~((1 << number) | (1 << (number + STALLED_OUTPUT)))


@kernel
def claim(machine, pe, operand, number):
    """Let the queue of an input operand feed a thread.

    If two threads claim one queue, an arriving word does not tell which thread it is for: both are tested in
    every event.
    """
    wafer, program = machine.wafer, machine.program
    other = QUEUE(wafer, operand.record).thread
    if other >= 0 and other != number:
        test_always(program, pe, number)
        test_always(program, pe, other)
    QUEUE(wafer, operand.record).thread = number
    pe.claimed |= 1 << operand.queue


@inlined
def release(wafer, pe, operand):
    """Let the queue of an input operand feed tasks again."""
    QUEUE(wafer, operand.record).thread = -1
    pe.claimed &= ~(1 << operand.queue)


@kernel
def claim_queues(machine, pe, thread, number):
    """Let the input queues of an operation feed it instead of tasks."""
    wafer = machine.wafer
    for i in range(1, 4):
        operand = thread.operands[i]
        if operand.kind == KIND_INPUT:
            queue = QUEUE(wafer, operand.record)
            if queue.thread >= 0 and queue.thread != number:
                hazard(wafer, pe.node, LOG_QUEUE_BUSY, operand.queue, pe.line)
            claim(machine, pe, operand, number)


@kernel
def _note_kinds(program, pe, thread, number):
    """Note the kinds of an operation's operands, and which fabric operand it has to wait for."""
    kinds = 0
    fabric = 0
    is_plain = thread.reduces == 0 and thread.op != isa.D_DFILT and thread.op != isa.D_ADDC16
    for i in range(4):
        operand = thread.operands[i]
        kind = operand.kind
        kinds |= kind << (KIND_BITS * i)
        if kind == KIND_FIFO or kind == KIND_SHAPE or kind == KIND_RING:
            is_plain = False
        if kind == KIND_INPUT or (kind == KIND_OUTPUT and i == 0) or kind == KIND_FIFO:
            is_single = operand.per_word == 1
            is_plain = is_plain and is_single and (kind != KIND_INPUT or thread.control == 0)
            fabric = kind if fabric == 0 and kind != KIND_FIFO and is_single else SEVERAL
            thread.record = operand.record
    is_signed = _is_signed(program, pe, thread)
    thread.kinds = kinds | (IS_SIGNED if is_signed else IS_PLAIN if is_plain else 0)
    thread.fabric = fabric
    # Whether the operation can start has not been tested yet.
    pe.tested |= 1 << number


@kernel
def _look_for_output(machine, pe, thread, number):
    """Log a hazard for two operations under way on one output queue or color, and for a queue with words of
    another color."""
    wafer, program = machine.wafer, machine.program
    operand = thread.operands[0]
    if operand.kind != KIND_OUTPUT:
        return
    queue = operand.queue
    mask = pe.threads
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        other = thread_of(program, pe, k).operands[0]
        if k == number or other.kind != KIND_OUTPUT:
            continue
        if other.record == operand.record or (queue < 8 and other.queue == queue):
            test_always(program, pe, number)
            test_always(program, pe, k)
            hazard(wafer, pe.node, LOG_OUTPUT_BUSY, operand.color | (queue << 8), pe.line)
    if queue < 8 and program.arch == 2:
        last = pe.out_used[queue] - 1
        if last >= 0 and last != operand.color:
            place = LAYOUT(program, pe.layout).channel[last]
            if CHANNEL(pe, place).ports[0].count > 0:
                hazard(wafer, pe.node, LOG_MIXED, operand.color | (queue << 8), pe.line)
        pe.out_used[queue] = 1 + operand.color


@kernel
def _variable_before(program, pe, address):
    """Return the number of the last variable that begins at an address or before it, -1 if none does."""
    code = CODE(program, pe.code)
    low, high = 0, code.num_symbols
    while low < high:
        middle = (low + high) >> 1
        if VARIABLE(program, code.symbols, middle).begin <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def _is_signed(program, pe, thread):
    """Return whether an operation adds or subtracts elements of i16 variables, and writes one."""
    if (thread.op != isa.D_ADD16 and thread.op != isa.D_SUB16) or thread.operands[0].kind != KIND_LINE:
        return False
    for i in range(3):
        operand = thread.operands[i]
        if operand.kind != KIND_LINE:
            continue
        number = _variable_before(program, pe, operand.base)
        if number < 0:
            return False
        variable = VARIABLE(program, CODE(program, pe.code).symbols, number)
        if operand.base >= variable.end or variable.is_signed == 0:
            return False
    return True


@kernel
def _look_for_bounds(machine, pe, thread, count):
    """Log a hazard for memory operands that begin in a variable and exceed it; others are not checked."""
    program = machine.program
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind != KIND_LINE or operand.length < 0:
            continue
        base = operand.base
        number = _variable_before(program, pe, base)
        if number < 0:
            continue
        variable = VARIABLE(program, CODE(program, pe.code).symbols, number)
        last = base + (count - 1) * operand.step
        is_outside = last < variable.begin or last + operand.bytes > variable.end
        if base < variable.end and is_outside:
            value = base | ((last + LAST_BIAS) << LAST_SHIFT)
            hazard(machine.wafer, pe.node, LOG_BOUNDS, value, pe.line)


@kernel
def set_up(machine, pe, thread, op, number):
    """Complete a thread whose operands are set: length, rate, queues. Returns its number of elements."""
    program = machine.program
    thread.op = op
    destination = thread.operands[0]
    first = thread.operands[1]
    thread.reduces = 0
    thread.value = 0
    if destination.kind == KIND_LINE and destination.length < 0:
        kind = thread.operands[2].kind
        if first.kind == KIND_VALUE and kind != KIND_NOTHING and kind != KIND_VALUE:
            thread.reduces = 1
            thread.value = first.address
        elif first.kind == KIND_FIFO and is_inside(pe, destination.address, destination.bytes):
            # The value that stays if the FIFO runs empty.
            thread.value = load_16(machine.wafer, pe.memory, destination.address)
            if destination.bytes == 4:
                thread.value = load_32(machine.wafer, pe.memory, destination.address)
    count = _count(machine.wafer, pe, thread)
    thread.total = count
    thread.left = count
    thread.lag = program.complete if count > 0 else 0
    thread.finished = 1
    thread.wait = WAIT_NONE
    _set_rate(program, thread)
    _note_kinds(program, pe, thread, number)
    claim_queues(machine, pe, thread, number)
    _look_for_output(machine, pe, thread, number)
    # A control word may end the operation before its length says so.
    if count > 0 and thread.control == 0:
        _look_for_bounds(machine, pe, thread, count)
    if count > 0 and program.unset:
        look_at_operands(machine, pe, thread, count)
    if pe.threads & ~(1 << number):
        look_for_races(machine, pe, thread, number)
    return count
