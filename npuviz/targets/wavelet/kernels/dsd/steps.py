"""Take steps of DSD operations under way, each of a few elements. One step occupies the datapath.

An operation belongs to a thread: a microthread, or the main thread, which waits for its end.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, spliced
from npuviz.sim.parts.watch_kernels import (
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    is_watched,
)
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import element
from npuviz.targets.wavelet.kernels.arithmetic.wraps import note_wrapped_word
from npuviz.targets.wavelet.kernels.causes import note_gap
from npuviz.targets.wavelet.kernels.dsd.completion import finish_operation, shorten_lag
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
    Element,
    pop_queue,
    read_fabric,
    read_fifo,
    read_line,
    read_memory,
    send_word,
    watch_target,
    write_fifo,
    write_line,
    write_memory,
)
from npuviz.targets.wavelet.kernels.dsd.start import thread_of
from npuviz.targets.wavelet.kernels.faults import FAULT_SOURCE
from npuviz.targets.wavelet.kernels.program_records import CODE, RATE
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    FLAG_INDEX,
    FLAG_PAIR,
    FLAG_PAIR_ANY,
    FLAG_TRANSFORM,
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
    MARK_CONTROL,
    ONE,
    QUEUE,
    WAIT_INPUT,
    WAIT_NONE,
    WAIT_OUTPUT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import entry_behind, head_entry, room_for
from npuviz.targets.wavelet.kernels.router.swap import swap_has_room
from npuviz.targets.wavelet.kernels.taps import (
    is_tapped,
    tap_element,
    tap_plain,
)
from npuviz.targets.wavelet.kernels.time.events import band_of, fault, has_fault, step_from
from npuviz.targets.wavelet.kernels.time.stops import mark_of, watch_bytes

KIND_MASK = (1 << KIND_BITS) - 1
KIND_SCALAR = 1
_PAIRS = FLAG_PAIR | FLAG_PAIR_ANY


@inlined
def _words_needed(thread, operand):
    """Return how many fabric words an operand needs for a step."""
    return 2 if operand.flags & FLAG_PAIR and thread.left > 2 else 1


@kernel
def can_step(machine, pe, thread, t):
    """Return whether a thread can take a step at cycle `t`: 1 yes, 0 it waits, -1 it ends, c > 1: from cycle
    c on."""
    wafer = machine.wafer
    later = 0
    if thread.left <= 0:
        # Nothing to wait for: an operation of length 0.
        thread.wait = WAIT_NONE
        return 1
    for i in range(4):
        operand = thread.operands[i]
        kind = operand.kind
        if kind == KIND_INPUT:
            queue = QUEUE(wafer, operand.record)
            needed = _words_needed(thread, operand)
            if queue.count < needed:
                thread.wait = WAIT_INPUT
                return 0
            ready = entry_behind(queue, needed - 1).ready
            if ready > t:
                thread.wait = WAIT_INPUT
                if ready > later:
                    later = ready
        elif kind == KIND_OUTPUT and i == 0:
            channel = CHANNEL(wafer, operand.record)
            needed = _words_needed(thread, operand) if channel.limit_ramp > 1 else 1
            if room_for(channel, ZERO, t) < needed:
                thread.wait = WAIT_OUTPUT
                if channel.ports[0].count + needed > channel.limit_ramp:
                    return 0
                # A word that left in this cycle makes room in the next one.
                later = t + 1
            elif machine.program.swap and not swap_has_room(machine.program, pe, channel, t):
                thread.wait = WAIT_OUTPUT
                later = t + 1
        elif kind == KIND_FIFO:
            state = fifo_ready(machine, pe, thread, operand, i)
            if state == FIFO_ENDS:
                return -1
            if state != FIFO_GOES_ON:
                return 0
    if later:
        return later
    thread.wait = WAIT_NONE
    return 1


@kernel
def _read(machine, pe, operand, t):
    wafer = machine.wafer
    kind = operand.kind
    if kind == KIND_VALUE:
        return operand.address
    if kind == KIND_LINE or kind == KIND_SHAPE or kind == KIND_RING:
        return read_memory(machine, pe, operand)
    if kind == KIND_FIFO:
        value = read_fifo(machine, pe, operand)
        note_pop(machine, pe, operand)
        return value
    if kind == KIND_INPUT:
        if operand.per_word == 1:
            return read_fabric(wafer, pe, operand, t)
        # Two values a wavelet, the low half first; the word waits in `base` for its second half.
        operand.index[0] ^= 1
        if operand.index[0]:
            operand.base = read_fabric(wafer, pe, operand, t)
            return operand.base & 0xFFFF
        return (operand.base >> 16) & 0xFFFF
    return 0


@kernel
def _write(machine, pe, operand, element, t):
    kind, value = operand.kind, element.value
    if kind == KIND_OUTPUT:
        if operand.per_word == 2:
            operand.index[0] ^= 1
            if operand.index[0]:
                operand.base = value & 0xFFFF
                if not element.is_last:
                    return
                value = operand.base
            else:
                value = operand.base | ((value & 0xFFFF) << 16)
        send_word(machine, pe, operand, Element(value, element.index, element.is_last), t)
    elif kind == KIND_FIFO:
        write_fifo(machine, pe, operand, value)
        note_push(machine, pe, operand)
    elif kind != KIND_NOTHING:
        write_memory(machine, pe, operand, value)


@kernel
def _meets_control(wafer, pe, thread, t):
    """Let a control word at an input act; return 0: there is none, 1: it was consumed, 2: it ends the
    operation.

    A word that ends an operation by its `on_control` stays in the queue. Ref: a public program that reads it
    with the next operation.
    """
    for i in range(1, 4):
        operand = thread.operands[i]
        if operand.kind != KIND_INPUT:
            continue
        queue = QUEUE(wafer, operand.record)
        if (head_entry(queue).payload & MARK_CONTROL) == 0 or operand.flags & FLAG_TRANSFORM:
            continue
        if thread.op == isa.D_DFILT:
            pop_queue(wafer, pe, queue, operand.queue, t)
            thread.left -= 1
            return 2 if thread.left <= 0 else 1
        if thread.control != 0:
            return 2
    return 0


@kernel
def _elements(machine, pe, thread, count, t):
    """Compute and store `count` elements one after the other."""
    op, half = thread.op, CODE(machine.program, pe.code).half
    operands = thread.operands
    destination, first, second, third = operands[0], operands[1], operands[2], operands[3]
    is_fused = machine.program.fused
    has_second = second.kind != KIND_NOTHING
    factor = third.address
    third_reads = third.kind != KIND_NOTHING and third.kind != KIND_VALUE
    reduces = thread.reduces != 0
    is_seen = is_watched(machine) and destination.kind != KIND_LINE
    tells = is_tapped(machine)
    is_signed = (thread.kinds & IS_SIGNED) != 0
    for i in range(count):
        if tells:
            is_written = not reduces or i == count - 1
            tap_element(machine, pe, thread, is_written, i + 1 == thread.left)
        left = thread.value if reduces else _read(machine, pe, first, t)
        right = _read(machine, pe, second, t) if has_second else 0
        if third_reads:
            factor = _read(machine, pe, third, t)
        if op == isa.D_ADDC16:
            total = left + right + thread.value
            thread.value = (total >> 16) & 1
            value = total & 0xFFFF
        elif reduces and op == isa.D_FADDHS:
            value = element(op, (right, left, ZERO), half, is_fused)
        else:
            value = element(op, (left, right, factor), half, is_fused)
        if is_signed:
            note_wrapped_word(machine.wafer, pe, thread, left, right)
        if is_seen:
            watch_target(machine, pe, destination, thread.line, t)
        if reduces:
            thread.value = value
            if i == count - 1:
                _write(machine, pe, destination, Element(value, thread.index, i + 1 == thread.left), t)
        elif destination.kind == KIND_LINE:
            write_memory(machine, pe, destination, value)
        else:
            _write(machine, pe, destination, Element(value, thread.index, i + 1 == thread.left), t)


@kernel
def _watch_memory(machine, pe, thread, count, t):
    """Test stop rows about memory that a step reads, and about lines it writes; `_elements` tests other
    writes."""
    mark = mark_of(thread.line)
    for i in range(4):
        operand = thread.operands[i]
        kind = operand.kind
        test = STOP_MEMORY_WRITE if i == 0 else STOP_MEMORY_READ
        if kind == KIND_LINE:
            low = operand.address
            for k in range(count):
                at = low + k * operand.step
                watch_bytes(machine, pe.node, test, (at, at + operand.bytes, mark), t)
        elif i > 0 and (kind == KIND_SHAPE or kind == KIND_RING):
            at = operand.address
            watch_bytes(machine, pe.node, test, (at, at + operand.bytes, mark), t)


@kernel
def _special_step(machine, pe, thread, number, t):
    """Take a step that computes nothing: for a control word, or a word that DFILT drops.

    Returns its cycles, 0 if there is something to compute.
    """
    wafer = machine.wafer
    control = _meets_control(wafer, pe, thread, t)
    if control == 0 and thread.op != isa.D_DFILT:
        return 0
    step_from(pe, number, t + 1)
    if control == 2:
        finish_operation(machine, pe, number, ONE, (t, t + 1))
    elif control == 0:
        operand = thread.operands[1]
        if operand.kind != KIND_INPUT:
            operand = thread.operands[2]
        if operand.kind != KIND_INPUT:
            fault(wafer, pe.node, FAULT_SOURCE, thread.op)
            return 1
        pop_queue(wafer, pe, QUEUE(wafer, operand.record), operand.queue, t)
    return 1


@kernel
def _fifo_count(machine, pe, thread, count):
    """Return the elements of a step, at most `count`, that its FIFOs hold or have room for."""
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind == KIND_FIFO:
            limit = elements_free(machine, pe, operand) if i == 0 else elements_held(machine.wafer, operand)
            if limit < count:
                count = limit
    return count


@kernel
def _pair_count(machine, thread, count, t):
    """Return the elements of a step of two words per operand, at most `count`: of one word if a second is
    missing."""
    wafer = machine.wafer
    for i in range(4):
        operand = thread.operands[i]
        if operand.kind == KIND_INPUT:
            queue = QUEUE(wafer, operand.record)
            second = entry_behind(queue, ONE)
            if queue.count < 2 or second.ready > t or second.payload & MARK_CONTROL:
                return min(count, operand.per_word)
        elif operand.kind == KIND_OUTPUT and room_for(CHANNEL(wafer, operand.record), ZERO, t) < 2:
            return min(count, operand.per_word)
    return count


@inlined
def _kind_of(kinds, number):
    return (kinds >> (KIND_BITS * number)) & KIND_MASK


@inlined
def _plain_read(wafer, pe, operand, kind, t):
    if kind == KIND_LINE:
        return read_line(wafer, pe, operand)
    if kind == KIND_INPUT:
        return read_fabric(wafer, pe, operand, t)
    return operand.address


@inlined
def _plain_elements(machine, pe, thread, count, t):
    """Compute and store elements of a plain operation: memory in lines, constants, single words of the
    fabric."""
    wafer, program = machine.wafer, machine.program
    op, kinds = thread.op, thread.kinds
    half = CODE(program, pe.code).half
    operands = thread.operands
    destination, first, second, third = operands[0], operands[1], operands[2], operands[3]
    to, kind_1 = _kind_of(kinds, 0), _kind_of(kinds, 1)
    kind_2, kind_3 = _kind_of(kinds, 2), _kind_of(kinds, 3)
    moves = op == isa.D_MOV32 or op == isa.D_FMOVS
    right = factor = 0
    for i in range(count):
        value = _plain_read(wafer, pe, first, kind_1, t)
        if kind_2 != KIND_NOTHING:
            right = _plain_read(wafer, pe, second, kind_2, t)
        if kind_3 != KIND_NOTHING:
            factor = _plain_read(wafer, pe, third, kind_3, t)
        if not moves:
            value = element(op, (value, right, factor), half, program.fused)
        if to == KIND_LINE:
            write_line(wafer, pe, destination, value)
        elif to == KIND_OUTPUT:
            # Fields that few operations need are read only for these: they lie on another cache line.
            index = thread.index if destination.flags & FLAG_INDEX else ZERO
            send_word(machine, pe, destination, Element(value, index, i + 1 == thread.left), t)


@spliced
def step_operation(machine, pe, number, t):
    """Take a step of an operation that can take one; return the cycles of the datapath that it takes."""
    wafer, program = machine.wafer, machine.program
    thread = thread_of(program, pe, number)
    band = band_of(wafer, pe)
    band.beats += 1
    if t > thread.expected:
        shorten_lag(thread, t)
        note_gap(machine, pe, number, thread, t)
    thread.expected = t + 1
    if thread.left <= 0:
        finish_operation(machine, pe, number, ZERO, (t, t))
        return 0
    is_plain = (thread.kinds & IS_PLAIN) != 0
    if not is_plain:
        done = _special_step(machine, pe, thread, number, t)
        if done:
            return done
    count = thread.group
    if count > thread.left:
        count = thread.left
    if not is_plain:
        count = _fifo_count(machine, pe, thread, count)
        operands = thread.operands
        if (operands[0].flags | operands[1].flags | operands[2].flags) & _PAIRS:
            count = _pair_count(machine, thread, count, t)
    if is_watched(machine):
        _watch_memory(machine, pe, thread, count, t)
        if is_plain and is_tapped(machine):
            tap_plain(machine, pe, thread, count)
    if is_plain:
        _plain_elements(machine, pe, thread, count, t)
    else:
        _elements(machine, pe, thread, count, t)
    cycles = thread.cycles
    thread.left -= count
    band.elements += count
    band.flops += count * RATE(program, program.rates, thread.op).flops
    step_from(pe, number, t + cycles)
    thread.expected = t + cycles
    if thread.left <= 0 and not has_fault(wafer, pe):
        finish_operation(machine, pe, number, ZERO, (t, t + cycles))
    return cycles
