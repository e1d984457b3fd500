"""DSD operations under way: set-up, steps of a few elements, completion. One step takes the datapath.

An operation belongs to a thread: a microthread, or the main thread, which waits for its end.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced
from npuviz.sim.parts.watch_kernels import (
    INTERVAL,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    emit,
    is_recording,
    is_watched,
    watch_subject,
)
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import element
from npuviz.targets.wavelet.kernels.dsd.fifo import (
    FIFO_ENDS,
    FIFO_GOES_ON,
    elements_free,
    elements_held,
    fifo_ready,
    note_pop,
    note_push,
)
from npuviz.targets.wavelet.kernels.dsd.operand import (
    is_inside,
    pop_queue,
    read_fabric,
    read_fifo,
    read_line,
    read_memory,
    save_address,
    send_word,
    write_fifo,
    write_line,
    write_memory,
)
from npuviz.targets.wavelet.kernels.dsd.start import operand, release, thread_of
from npuviz.targets.wavelet.kernels.memory import store_16, store_32
from npuviz.targets.wavelet.kernels.processor.task import activate, block
from npuviz.targets.wavelet.kernels.program_records import (
    G_HALF,
    K_MAIN,
    K_MEMORY,
    K_THREAD,
    P_COMPLETE,
    P_DRAIN,
    P_FUSED,
    P_RATES,
    P_TRACKS,
    RATE_FLOPS,
    RATE_WORDS,
    TRACK_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    A_ADDRESS,
    A_BASE,
    A_BYTES,
    A_FLAGS,
    A_INDEX,
    A_KIND,
    A_PER_WORD,
    A_QUEUE,
    A_RECORD,
    A_STEP,
    B_COMPLETE,
    B_DRAIN,
    B_MEMORY,
    B_NODE,
    B_PROGRAM,
    B_READY,
    B_RUN_START,
    B_THREADS,
    BAND_BEATS,
    BAND_ELEMENTS,
    BAND_FLOPS,
    C_LIMIT_RAMP,
    C_PORTS,
    FLAG_INDEX,
    FLAG_PAIR,
    FLAG_TRANSFORM,
    FLAG_ZERO_FIRST,
    FLAG_ZERO_SECOND,
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
    MAIN,
    MARK_CONTROL,
    ONE,
    Q_COUNT,
    Q_THREAD,
    R_COUNT,
    T_ACTIVATE,
    T_CONTROL,
    T_CONTROL_ID,
    T_CONTROL_KIND,
    T_CYCLES,
    T_FINISHED,
    T_GROUP,
    T_HALF,
    T_INDEX,
    T_KINDS,
    T_LEFT,
    T_LINE,
    T_OP,
    T_REDUCES,
    T_RESULT,
    T_START,
    T_TOTAL,
    T_UNBLOCK,
    T_UNBLOCK_KIND,
    T_VALUE,
    T_WAIT,
    WAIT_INPUT,
    WAIT_NONE,
    WAIT_OUTPUT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry, visible_count
from npuviz.targets.wavelet.kernels.time.events import band_at, has_fault, step_from

KIND_MASK = (1 << KIND_BITS) - 1
KIND_SCALAR = 1
KIND_OPERATION = 10
"""Interval kinds of DSD operations: this plus the operation."""


@kernel
def can_step(s, p, b, th, t):
    """Whether a thread can take a step at cycle `t`: 1 yes, 0 waits for others, -1 ends, c > 1: from c on."""
    later = 0
    for i in range(4):
        a = operand(th, i)
        kind = s[a + A_KIND]
        if kind == KIND_INPUT:
            q = s[a + A_RECORD]
            needed = 2 if s[a + A_FLAGS] & FLAG_PAIR and s[th + T_LEFT] >= 4 else 1
            if s[q + Q_COUNT] < needed:
                s[th + T_WAIT] = WAIT_INPUT
                return 0
            ready = s[head_entry(s, q) + 2]
            if ready > t:
                s[th + T_WAIT] = WAIT_INPUT
                if ready > later:
                    later = ready
        elif kind == KIND_OUTPUT and i == 0:
            ch = s[a + A_RECORD]
            if visible_count(s, ch, ZERO, t) >= s[ch + C_LIMIT_RAMP]:
                s[th + T_WAIT] = WAIT_OUTPUT
                if s[ch + C_PORTS + R_COUNT] >= s[ch + C_LIMIT_RAMP]:
                    return 0
                # The word that left in this cycle makes room in the next one.
                later = t + 1
        elif kind == KIND_FIFO:
            state = fifo_ready(s, p, b, th, a, i)
            if state == FIFO_ENDS:
                return -1
            if state != FIFO_GOES_ON:
                return 0
    if later:
        return later
    s[th + T_WAIT] = WAIT_NONE
    return 1


@kernel
def _read(s, p, b, a, t):
    kind = s[a + A_KIND]
    if kind == KIND_VALUE:
        return s[a + A_ADDRESS]
    if kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
        return read_memory(s, p, b, a)
    if kind == KIND_FIFO:
        value = read_fifo(s, p, b, a)
        note_pop(s, p, b, a)
        return value
    if kind == KIND_INPUT:
        if s[a + A_PER_WORD] == 1:
            return read_fabric(s, b, a, t)
        # Two values a wavelet, the low half first; the word waits in A_BASE for its second half.
        s[a + A_INDEX] ^= 1
        if s[a + A_INDEX]:
            s[a + A_BASE] = read_fabric(s, b, a, t)
            return s[a + A_BASE] & 0xFFFF
        return (s[a + A_BASE] >> 16) & 0xFFFF
    return 0


@kernel
def _write(s, p, b, th, a, value, is_last, t):
    kind = s[a + A_KIND]
    if kind == KIND_OUTPUT:
        if s[a + A_PER_WORD] == 2:
            s[a + A_INDEX] ^= 1
            if s[a + A_INDEX]:
                s[a + A_BASE] = value & 0xFFFF
                if not is_last:
                    return
                value = s[a + A_BASE]
            else:
                value = s[a + A_BASE] | ((value & 0xFFFF) << 16)
        send_word(s, p, b, a, value, s[th + T_INDEX], is_last, t)
    elif kind == KIND_FIFO:
        write_fifo(s, p, b, a, value)
        note_push(s, p, b, a)
    elif kind != KIND_NOTHING:
        write_memory(s, p, b, a, value)


@kernel
def _meets_control(s, b, th, t):
    """Let a control word at an input act: 0 there is none, 1 it was consumed, 2 it ends the operation."""
    for i in range(1, 4):
        a = operand(th, i)
        if s[a + A_KIND] != KIND_INPUT:
            continue
        q = s[a + A_RECORD]
        if (s[head_entry(s, q)] & MARK_CONTROL) == 0 or s[a + A_FLAGS] & FLAG_TRANSFORM:
            continue
        if s[th + T_OP] == isa.D_DFILT:
            pop_queue(s, b, q, s[a + A_QUEUE], t)
            s[th + T_LEFT] -= 1
            return 2 if s[th + T_LEFT] <= 0 else 1
        if s[th + T_CONTROL] != 0:
            pop_queue(s, b, q, s[a + A_QUEUE], t)
            return 2
    return 0


@kernel
def _elements(s, p, b, th, count, t):
    """Compute and store `count` elements one after the other."""
    op, half = s[th + T_OP], s[th + T_HALF]
    d, first, second, third = operand(th, 0), operand(th, 1), operand(th, 2), operand(th, 3)
    is_fused = p[P_FUSED]
    has_second = s[second + A_KIND] != KIND_NOTHING
    factor = s[third + A_ADDRESS]
    third_reads = s[third + A_KIND] != KIND_NOTHING and s[third + A_KIND] != KIND_VALUE
    reduces = s[th + T_REDUCES] != 0
    for i in range(count):
        left = s[th + T_VALUE] if reduces else _read(s, p, b, first, t)
        right = _read(s, p, b, second, t) if has_second else 0
        if third_reads:
            factor = _read(s, p, b, third, t)
        if op == isa.D_ADDC16:
            total = left + right + s[th + T_VALUE]
            s[th + T_VALUE] = (total >> 16) & 1
            value = total & 0xFFFF
        elif reduces and op == isa.D_FADDHS:
            value = element(op, right, left, ZERO, half, is_fused)
        else:
            value = element(op, left, right, factor, half, is_fused)
        if reduces:
            s[th + T_VALUE] = value
            if i == count - 1:
                _write(s, p, b, th, d, value, i + 1 == s[th + T_LEFT], t)
        elif s[d + A_KIND] == KIND_LINE:
            write_memory(s, p, b, d, value)
        else:
            _write(s, p, b, th, d, value, i + 1 == s[th + T_LEFT], t)


@kernel
def _clear_source(s, b, th):
    """Clear the memory of a source as the `zero` field of a fabric destination asks."""
    flags = s[operand(th, 0) + A_FLAGS]
    a = operand(th, 1)
    if flags & FLAG_ZERO_SECOND and s[operand(th, 2) + A_KIND] != KIND_NOTHING:
        a = operand(th, 2)
    if s[a + A_KIND] != KIND_LINE:
        return
    address = s[a + A_BASE]
    for _ in range(s[th + T_TOTAL] - s[th + T_LEFT]):
        if is_inside(s, b, address, s[a + A_BYTES]):
            if s[a + A_BYTES] == 2:
                store_16(s, s[b + B_MEMORY], address, ZERO)
            else:
                store_32(s, s[b + B_MEMORY], address, ZERO)
        address += s[a + A_STEP]


@kernel
def finish_operation(s, p, x, ev, b, number, by_control, t, cycles):
    """The end of an operation: settings of its completion act, its thread is free."""
    th = thread_of(s, p, b, number)
    for i in range(4):
        a = operand(th, i)
        kind = s[a + A_KIND]
        if kind == KIND_INPUT and s[s[a + A_RECORD] + Q_THREAD] == number:
            release(s, b, a)
        elif kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
            save_address(s, a)
    clears = s[operand(th, 0) + A_FLAGS] & (FLAG_ZERO_FIRST | FLAG_ZERO_SECOND)
    if clears and s[operand(th, 0) + A_KIND] == KIND_OUTPUT:
        _clear_source(s, b, th)
    s[b + B_THREADS] &= ~(1 << number)
    if by_control and s[th + T_CONTROL] == 2:
        activate(s, p, b, s[th + T_CONTROL_ID], s[th + T_LINE])
    elif by_control and s[th + T_CONTROL] == 3:
        block(s, b, s[th + T_CONTROL_KIND], s[th + T_CONTROL_ID], ZERO)
    else:
        if s[th + T_ACTIVATE] >= 0:
            activate(s, p, b, s[th + T_ACTIVATE], s[th + T_LINE])
        if s[th + T_UNBLOCK] >= 0:
            block(s, b, s[th + T_UNBLOCK_KIND], s[th + T_UNBLOCK], ZERO)
    end = t + cycles
    # The trace ends with the cycle in which the last step was issued.
    shown = t + 1
    if is_recording(x) and s[th + T_START] < shown:
        tracks = p[P_TRACKS] + s[b + B_NODE] * TRACK_WORDS
        track = p[tracks + (K_MAIN if number == MAIN else K_THREAD + number)]
        kind = KIND_OPERATION + s[th + T_OP]
        if track >= 0:
            emit(x, ev, INTERVAL, track, kind, s[th + T_START], shown, s[th + T_LINE])
    if number == MAIN:
        s[b + B_READY] = end
        s[b + B_COMPLETE] = end + p[P_COMPLETE]
        s[b + B_DRAIN] = end + p[P_DRAIN]
        s[b + B_RUN_START] = shown
        if s[th + T_RESULT] >= 0:
            s[s[th + T_RESULT]] = s[th + T_FINISHED]


@kernel
def _watch_memory(s, p, x, b, th, count, t):
    """Test stop rows about the memory that a step reads and writes."""
    memory = p[p[P_TRACKS] + s[b + B_NODE] * TRACK_WORDS + K_MEMORY]
    if memory < 0:
        return
    for i in range(4):
        a = operand(th, i)
        kind = s[a + A_KIND]
        if kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
            low = s[a + A_ADDRESS]
            high = low
            if kind == KIND_LINE:
                high = low + (count - 1) * s[a + A_STEP]
            if high < low:
                low, high = high, low
            test = STOP_MEMORY_WRITE if i == 0 else STOP_MEMORY_READ
            watch_subject(x, test, memory, low, high + s[a + A_BYTES], t)


@kernel
def _special_step(s, p, x, ev, b, th, number, t):
    """A step that computes nothing: a control word, or a word that DFILT drops.

    Returns its cycles, 0 if there is something to compute.
    """
    control = _meets_control(s, b, th, t)
    if control == 2:
        finish_operation(s, p, x, ev, b, number, ONE, t, ONE)
    elif control == 0:
        if s[th + T_OP] != isa.D_DFILT:
            return 0
        a = operand(th, 1) if s[operand(th, 1) + A_KIND] == KIND_INPUT else operand(th, 2)
        pop_queue(s, b, s[a + A_RECORD], s[a + A_QUEUE], t)
    step_from(s, b, number, t + 1)
    return 1


@kernel
def _fifo_count(s, p, b, th, count):
    """Elements of a step that its FIFOs have or take, `count` at most."""
    for i in range(4):
        a = operand(th, i)
        if s[a + A_KIND] == KIND_FIFO:
            limit = elements_free(s, p, b, a) if i == 0 else elements_held(s, a)
            if limit < count:
                count = limit
    return count


@inlined
def _kind_of(kinds, number):
    return (kinds >> (KIND_BITS * number)) & KIND_MASK


@inlined
def _plain_read(s, p, b, a, kind, t):
    if kind == KIND_LINE:
        return read_line(s, b, a)
    if kind == KIND_INPUT:
        return read_fabric(s, b, a, t)
    return s[a + A_ADDRESS]


@inlined
def _plain_elements(s, p, b, th, count, t):
    """`_elements` of a plain operation: memory in lines, constants, single words of the fabric."""
    op, kinds = s[th + T_OP], s[th + T_KINDS]
    half = p[s[b + B_PROGRAM] + G_HALF]
    d, first, second, third = operand(th, 0), operand(th, 1), operand(th, 2), operand(th, 3)
    to, kind_1, kind_2, kind_3 = (
        _kind_of(kinds, 0),
        _kind_of(kinds, 1),
        _kind_of(kinds, 2),
        _kind_of(kinds, 3),
    )
    moves = op == isa.D_MOV32 or op == isa.D_FMOVS
    right = factor = 0
    for i in range(count):
        value = _plain_read(s, p, b, first, kind_1, t)
        if kind_2 != KIND_NOTHING:
            right = _plain_read(s, p, b, second, kind_2, t)
        if kind_3 != KIND_NOTHING:
            factor = _plain_read(s, p, b, third, kind_3, t)
        if not moves:
            value = element(op, value, right, factor, half, p[P_FUSED])
        if to == KIND_LINE:
            write_line(s, b, d, value)
        elif to == KIND_OUTPUT:
            # What few operations need is not read for the others: it lies on another line.
            index = s[th + T_INDEX] if s[d + A_FLAGS] & FLAG_INDEX else ZERO
            send_word(s, p, b, d, value, index, i + 1 == s[th + T_LEFT], t)


@spliced
def step_operation(s, p, x, ev, b, number, t):
    """A step of an operation that can take one; returns the cycles of the datapath it takes."""
    th = thread_of(s, p, b, number)
    band = band_at(s, b)
    s[band + BAND_BEATS] += 1
    if s[th + T_LEFT] <= 0:
        finish_operation(s, p, x, ev, b, number, ZERO, t, ZERO)
        return 0
    is_plain = (s[th + T_KINDS] & IS_PLAIN) != 0
    if not is_plain:
        done = _special_step(s, p, x, ev, b, th, number, t)
        if done:
            return done
    count = s[th + T_GROUP]
    if count > s[th + T_LEFT]:
        count = s[th + T_LEFT]
    if not is_plain:
        count = _fifo_count(s, p, b, th, count)
    if is_watched(x):
        _watch_memory(s, p, x, b, th, count, t)
    if is_plain:
        _plain_elements(s, p, b, th, count, t)
    else:
        _elements(s, p, b, th, count, t)
    cycles = s[th + T_CYCLES]
    s[th + T_LEFT] -= count
    s[band + BAND_ELEMENTS] += count
    s[band + BAND_FLOPS] += count * p[p[P_RATES] + s[th + T_OP] * RATE_WORDS + RATE_FLOPS]
    step_from(s, b, number, t + cycles)
    if s[th + T_LEFT] <= 0 and not has_fault(s, b):
        finish_operation(s, p, x, ev, b, number, ZERO, t, cycles)
    return cycles


@kernel
def end_by_fifo(s, p, x, ev, b, number, t):
    """An operation that met an empty or full FIFO ends here."""
    finish_operation(s, p, x, ev, b, number, ZERO, t, ONE)
