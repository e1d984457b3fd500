"""Turn instructions into DSD operations under way: operands, thread, settings; load DSRs; move @map
cursors."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import is_recording, is_watched
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import operand_bytes
from npuviz.targets.wavelet.kernels.causes import begin_thread, end_main_wait, record_issue
from npuviz.targets.wavelet.kernels.dsd.completion import complete_early
from npuviz.targets.wavelet.kernels.dsd.fifo import elements_free, elements_held
from npuviz.targets.wavelet.kernels.dsd.operand import (
    Element,
    Given,
    dsr_of,
    field,
    has_word,
    read_fabric,
    read_fifo,
    read_memory,
    save_address,
    send_word,
    set_operand,
    watch_target,
    write_fifo,
    write_memory,
)
from npuviz.targets.wavelet.kernels.dsd.start import claim, release, set_up, thread_of
from npuviz.targets.wavelet.kernels.faults import FAULT_DSR
from npuviz.targets.wavelet.kernels.jitter import MORE_START, UNIT_START, more_cycles
from npuviz.targets.wavelet.kernels.log_numbers import LOG_THREAD_BUSY
from npuviz.targets.wavelet.kernels.processor.task import registers_of
from npuviz.targets.wavelet.kernels.program_records import CODE, LAYOUT, OPERATION
from npuviz.targets.wavelet.kernels.records import (
    BUSY_THREAD,
    CHANNEL,
    DSR,
    EACH_LEVEL,
    FLAG_SAVE,
    GIVEN_AT,
    KIND_FIFO,
    KIND_INPUT,
    KIND_NOTHING,
    KIND_OUTPUT,
    LEVEL_BITS,
    MAIN,
    NONE,
    OPERAND,
    QUEUE,
    STALLED_OUTPUT,
    WAIT_SLOT,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import has_room
from npuviz.targets.wavelet.kernels.taps import is_tapped, tap_start
from npuviz.targets.wavelet.kernels.time.events import fault, has_fault, hazard, step_from
from npuviz.targets.wavelet.kernels.time.stops import element_of, mark_of, watch_part
from npuviz.targets.wavelet.kernels.unset import note_written

NUM_CURSORS = 8


@inlined
def register(registers, number):
    """Return a register of the running function; -1 if its number is negative."""
    return registers[number] if number >= 0 else -1


@inlined
def level_of(priority):
    """Return the level of a priority (0 high, 1 medium, 2 and more low); the main thread's levels lie
    between."""
    return 4 - 2 * priority if priority < 2 else 0


@kernel
def _described(program, pe, word):
    """Return the descriptor that a register word stands for: the contents of a DSR, else the word itself."""
    if field(word, 0, 7) != isa.KIND_DSR:
        return word
    file = field(word, isa.SHIFT_DSR_FILE, 3)
    number = field(word, isa.SHIFT_DSR_ID, 0x1F)
    layout = LAYOUT(program, pe.layout)
    if layout.dsrs == 0 or file > 2 or number > 15:
        return 0
    return dsr_of(pe, layout, number, file).word


@kernel
def _dsr_at(machine, pe, operation, registers):
    """Return the word of the DSR of the first fabric operand with settings (`async` and the like), -1 if
    none."""
    layout = LAYOUT(machine.program, pe.layout)
    if layout.dsrs == 0:
        return -1
    for i in range(3):
        if operation.kinds[i] != isa.OPERAND_DSD:
            continue
        word = registers[operation.registers[i]]
        number = field(word, isa.SHIFT_DSR_ID, 0x1F)
        file = field(word, isa.SHIFT_DSR_FILE, 3)
        if field(word, 0, 7) == isa.KIND_DSR and number < 16 and file < 3:
            dsr = dsr_of(pe, layout, number, file)
            kind = field(dsr.word, 0, 7)
            if dsr.settings >= 0 and (kind == isa.KIND_FABIN or kind == isa.KIND_FABOUT):
                return word_of(machine.wafer, dsr)
    return -1


@kernel
def _thread_number(machine, pe, operation, registers, dsr):
    """Return the microthread of an asynchronous operation; wavelet-fabric.md section 5.

    dsr  word of its DSR with settings, as `_dsr_at` returns it
    """
    wafer = machine.wafer
    if operation.ut >= 0:
        return registers[operation.ut] & 7
    if dsr >= 0 and DSR(wafer, dsr).ut >= 0:
        return DSR(wafer, dsr).ut & 7
    found = -1
    for i in range(3):
        if operation.kinds[i] == isa.OPERAND_DSD:
            word = _described(machine.program, pe, registers[operation.registers[i]])
            kind = field(word, 0, 7)
            if kind == isa.KIND_FABIN or kind == isa.KIND_FABOUT:
                queue = field(word, isa.SHIFT_QUEUE, isa.MASK_QUEUE)
                if found < 0:
                    found = queue if queue < 8 else field(word, isa.SHIFT_COLOR, isa.MASK_COLOR) & 7
    return found if found >= 0 else 0


@kernel
def _num_loads(operation, registers):
    count = 0
    for i in range(3):
        kind = operation.kinds[i]
        if kind != isa.OPERAND_DSD and kind != isa.OPERAND_POINTER:
            continue
        word = registers[operation.registers[i]]
        if kind == isa.OPERAND_DSD and field(word, 0, 7) == isa.KIND_DSR:
            continue
        is_new = True
        for k in range(i):
            same = operation.kinds[k] == kind and registers[operation.registers[k]] == word
            is_new = is_new and not same
        if is_new:
            count += 1
    return count


@kernel
def _settings(machine, pe, thread, operation, dsr_at):
    """Set the completion of an operation: from its settings, or from those of the DSR with its fabric
    descriptor.

    The DSR got its settings when it was loaded; repeating them in the operation has no effect.
    """
    program = machine.program
    registers = registers_of(machine.wafer, pe)
    thread.activate = register(registers, operation.activate)
    thread.unblock = register(registers, operation.unblock)
    thread.unblock_kind = operation.unblock_kind
    thread.control = operation.control
    thread.control_id = register(registers, operation.control_id)
    thread.control_kind = operation.control_kind
    thread.index = register(registers, operation.index)
    if dsr_at >= 0:
        dsr = DSR(machine.wafer, dsr_at)
        given = OPERATION(program, CODE(program, pe.code).operations, dsr.settings)
        thread.activate = dsr.activate
        thread.unblock = dsr.unblock
        thread.unblock_kind = given.unblock_kind
        thread.control = given.control
        thread.control_id = dsr.control_id
        thread.control_kind = given.control_kind


@kernel
def _set_level(program, pe, thread, operation, number):
    level = 2 * ((pe.levels >> (GIVEN_AT + 2 * (number & 7))) & 3) if program.arch == 2 else 4
    for i in range(3):
        operand = thread.operands[i]
        kind = operand.kind
        if program.arch != 2 and (kind == KIND_INPUT or kind == KIND_OUTPUT):
            level = level_of(operand.step)
    if operation.priority >= 0:
        level = level_of(operation.priority)
    if number < MAIN:
        others = pe.levels & ~(EACH_LEVEL << number)
        pe.levels = others | (1 << (number + LEVEL_BITS * level))


@kernel
def start_operation(machine, pe, operation, t):
    """Start an operation (OP_DSD) at cycle `t`. While its microthread is busy, only note the wait and return
    False."""
    wafer, program = machine.wafer, machine.program
    registers = registers_of(wafer, pe)
    dsr = _dsr_at(machine, pe, operation, registers)
    is_async = operation.is_async != 0
    if dsr >= 0:
        given = OPERATION(program, CODE(program, pe.code).operations, DSR(wafer, dsr).settings)
        is_async = is_async or given.is_async != 0
    number = _thread_number(machine, pe, operation, registers, dsr) if is_async else MAIN
    if (pe.threads >> number) & 1:
        if pe.map_wait >= 0:
            hazard(wafer, pe.node, LOG_THREAD_BUSY, number, pe.line)
            pe.map_wait = BUSY_THREAD - number
            pe.map_since = t
        return False
    waited = pe.map_wait < 0
    pe.map_wait = 0
    complete_early(machine, pe, number)
    thread = thread_of(program, pe, number)
    op = operation.operation
    _settings(machine, pe, thread, operation, dsr)
    for i in range(4):
        kind = operation.kinds[i]
        value = registers[operation.registers[i]] if kind != isa.OPERAND_NONE else 0
        size = operand_bytes(op, i)
        if i == 1 and kind == isa.OPERAND_SCALAR and operation.kinds[0] == isa.OPERAND_POINTER:
            reduced = operation.kinds[2]
            if reduced != isa.OPERAND_NONE and reduced != isa.OPERAND_SCALAR:
                size = operand_bytes(op, 0)  # the start of a reduction
        if i == 2 and op == isa.D_FADDHS and operation.kinds[0] == isa.OPERAND_POINTER:
            size = 2  # what is added
        set_operand(machine, pe, thread.operands[i], Given(kind, value, size, thread.index))
    if has_fault(wafer, pe):
        return True
    thread.line = pe.line
    thread.start = t
    if waited:
        end_main_wait(machine, pe, WAIT_SLOT, t, word_of(wafer, thread))
    thread.is_async = 1 if is_async else 0
    thread.result = pe.frame + operation.result if operation.result >= 0 else -1
    _set_level(program, pe, thread, operation, number)
    set_up(machine, pe, thread, op, number)
    loads = _num_loads(operation, registers)
    dispatch = t + 1
    if loads:
        # One load per cycle; the last one is usable `load_use` cycles later, less branches just before.
        wait = program.load_use - 1 - pe.bubble
        dispatch = t + loads + (wait if wait > 0 else 0)
    pe.bubble = 0
    if is_async:
        dispatch += more_cycles(machine, pe.node, UNIT_START + number, MORE_START)
    step_from(pe, number, dispatch)
    begin_thread(thread, t, dispatch)
    if is_async and is_recording(machine):
        record_issue(machine, pe, number, t)
    pe.stalled &= ~((1 << number) | (1 << (number + STALLED_OUTPUT)))
    pe.threads |= 1 << number
    if is_watched(machine):
        watch_part(machine, element_of(program, pe.node), number, mark_of(pe.line), t)
        if is_tapped(machine):
            tap_start(machine, pe, thread, operation)
    if is_async:
        if thread.result >= 0:
            wafer[thread.result] = 1
        pe.ready = dispatch + 1
    else:
        pe.ready = dispatch
    return True


@kernel
def load_dsr(machine, pe, instruction, word):
    """Load a DSR (OP_DSR_LOAD) with a descriptor and the settings of its row, whose ids are read from
    registers now.

    If the row is DSR_BASE, the DSR keeps what it has, but for its base address, which becomes `word`.
    """
    wafer, program = machine.wafer, machine.program
    file, number, settings = instruction.a, instruction.b, instruction.imm
    layout = LAYOUT(program, pe.layout)
    if layout.dsrs == 0 or number > 15:
        fault(wafer, pe.node, FAULT_DSR, number)
        return
    registers = registers_of(wafer, pe)
    dsr = dsr_of(pe, layout, number, file)
    if settings == isa.DSR_BASE:
        kind = field(dsr.word, 0, 7)
        if kind != isa.KIND_MEM1D and kind != isa.KIND_MEM4D:
            fault(wafer, pe.node, FAULT_DSR, number)
            return
        place = isa.MASK_BASE << isa.SHIFT_BASE
        dsr.word = (dsr.word & ~place) | ((word << isa.SHIFT_BASE) & place)
        return
    dsr.word = word
    dsr.settings = settings
    dsr.activate = dsr.unblock = dsr.control_id = dsr.ut = -1
    if settings >= 0:
        operation = OPERATION(program, CODE(program, pe.code).operations, settings)
        dsr.activate = register(registers, operation.activate)
        dsr.unblock = register(registers, operation.unblock)
        dsr.control_id = register(registers, operation.control_id)
        dsr.ut = register(registers, operation.ut)


@inlined
def cursor_of(program, pe, number):
    """Return a cursor of @map."""
    return OPERAND(pe, LAYOUT(program, pe.layout).cursors, number & (NUM_CURSORS - 1))


@kernel
def open_cursor(machine, pe, number, word, size):
    """Open a cursor of @map (OP_MAP_OPEN)."""
    operand = cursor_of(machine.program, pe, number)
    set_operand(machine, pe, operand, Given(isa.OPERAND_DSD, word, size, NONE))
    if has_fault(machine.wafer, pe):
        operand.kind = KIND_NOTHING
        return
    operand.left = operand.length
    if operand.kind == KIND_INPUT:
        claim(machine, pe, operand, MAIN)
    if operand.dsr >= 0:
        operand.flags |= FLAG_SAVE


@kernel
def cursors_go_on(machine, pe, count):
    """Return whether all of the first cursors have elements left (OP_MAP_TEST); else close them."""
    wafer, program = machine.wafer, machine.program
    for i in range(count):
        if cursor_of(program, pe, i).left == 0:
            for k in range(count):
                operand = cursor_of(program, pe, k)
                if operand.kind == KIND_INPUT:
                    release(wafer, pe, operand)
                save_address(wafer, operand)
                operand.kind = KIND_NOTHING
            return False
    return True


@kernel
def cursor_ready(machine, pe, operand, reads, t):
    """Return whether an element can be read from or written to a cursor at cycle `t`."""
    wafer = machine.wafer
    kind = operand.kind
    if kind == KIND_INPUT:
        return has_word(QUEUE(wafer, operand.record), t)
    if kind == KIND_OUTPUT:
        return has_room(CHANNEL(wafer, operand.record), ZERO, t)
    if kind == KIND_FIFO:
        return elements_held(wafer, operand) > 0 if reads else elements_free(machine, pe, operand) > 0
    return True


@kernel
def read_cursor(machine, pe, operand, t):
    """Read an element of a cursor that is ready (OP_MAP_READ)."""
    kind = operand.kind
    operand.left -= 1
    if kind == KIND_INPUT:
        return read_fabric(machine.wafer, pe, operand, t)
    if kind == KIND_FIFO:
        return read_fifo(machine, pe, operand)
    if kind == KIND_NOTHING:
        return 0
    return read_memory(machine, pe, operand)


@kernel
def write_cursor(machine, pe, operand, value, t):
    """Write an element of a cursor that is ready (OP_MAP_WRITE)."""
    kind = operand.kind
    operand.left -= 1
    if is_watched(machine):
        watch_target(machine, pe, operand, pe.line, t)
    if kind == KIND_OUTPUT:
        send_word(machine, pe, operand, Element(value, ZERO, operand.left == 0), t)
        # The word may have taken the room of a thread with the same color.
        pe.tested |= pe.threads
    elif kind == KIND_FIFO:
        write_fifo(machine, pe, operand, value)
    elif kind != KIND_NOTHING:
        if machine.program.unset:
            note_written(machine, pe, operand.address, operand.address + operand.bytes)
        write_memory(machine, pe, operand, value)
