"""Run the scalar pipeline: one instruction at a time, in order, with the cycles of each.

Instructions that cost nothing (immediates, register moves, arithmetic on descriptors: assumed to be part of
the instruction that uses them) run together with the next one that costs something.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import (
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    is_watched,
)
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.registers import binary, compare, converted, function_of, unary
from npuviz.targets.wavelet.kernels.arithmetic.wraps import note_wrapped
from npuviz.targets.wavelet.kernels.causes import end_main_wait, end_scalar_run, main_wait_of, note_let
from npuviz.targets.wavelet.kernels.dsd.dispatch import (
    cursor_of,
    cursor_ready,
    cursors_go_on,
    load_dsr,
    open_cursor,
    read_cursor,
    start_operation,
    write_cursor,
)
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside
from npuviz.targets.wavelet.kernels.dsd.races import look_at_scalar
from npuviz.targets.wavelet.kernels.faults import (
    FAULT_ADDRESS,
    FAULT_ARGUMENTS,
    FAULT_ASSERT,
    FAULT_FUNCTION,
    FAULT_OPCODE,
    FAULT_REGISTERS,
    FAULT_STACK,
)
from npuviz.targets.wavelet.kernels.memory import load_bytes, size_of, store_bytes, wrapped
from npuviz.targets.wavelet.kernels.processor.configuration import is_register, read_register, write_register
from npuviz.targets.wavelet.kernels.processor.descriptors import descriptor_instruction
from npuviz.targets.wavelet.kernels.processor.division import division
from npuviz.targets.wavelet.kernels.processor.system import system_call
from npuviz.targets.wavelet.kernels.processor.task import activate, block, frame_of, open_frame, registers_of
from npuviz.targets.wavelet.kernels.program_records import (
    CODE,
    FUNCTION,
    INSTRUCTION,
    LAYOUT,
    OPERATION,
    PREDICATED,
)
from npuviz.targets.wavelet.kernels.records import FRAME, MAIN, ONE, ZERO
from npuviz.targets.wavelet.kernels.taps import (
    READ_MEMORY,
    READ_REGISTER,
    WRITE_MEMORY,
    WRITE_REGISTER,
    is_tapped,
    tap_call,
    tap_cursor,
    tap_scalar,
    touch,
    touch_read,
)
from npuviz.targets.wavelet.kernels.time.events import band_of, fault, has_fault
from npuviz.targets.wavelet.kernels.time.stops import element_of, mark_of, watch_bytes, watch_instruction
from npuviz.targets.wavelet.kernels.unset import look_for_unwritten, note_written

SPLIT_RUN = 64
"""Most instructions without cost that run at once: a loop of them would never end."""


@kernel
def _load(machine, pe, registers, instruction, address):
    wafer, kind = machine.wafer, instruction.type
    size = size_of(kind)
    if not is_inside(pe, address, size):
        if size == 2 and is_register(machine.program, address):
            registers[instruction.a] = wrapped(read_register(machine, pe, address >> 1, wafer.now), kind)
            return
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if pe.threads:
        look_at_scalar(machine, pe, address, size, ZERO)
    if machine.program.unset:
        look_for_unwritten(machine, pe, address, address + size)
    value = load_bytes(wafer, pe.memory, address, size)
    registers[instruction.a] = wrapped(value, kind) if kind <= isa.T_I64 else value


@kernel
def _store(machine, pe, value, address, kind):
    wafer = machine.wafer
    size = size_of(kind)
    if not is_inside(pe, address, size):
        if size == 2 and is_register(machine.program, address):
            write_register(machine, pe, address >> 1, value & 0xFFFF, wafer.now)
            return
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if pe.threads:
        look_at_scalar(machine, pe, address, size, ONE)
    if machine.program.unset:
        note_written(machine, pe, address, address + size)
    store_bytes(wafer, pe.memory, address, size, value)


@kernel
def _copy(machine, pe, target, source, size):
    if not (is_inside(pe, target, size) and is_inside(pe, source, size)):
        fault(machine.wafer, pe.node, FAULT_ADDRESS, target)
        return
    if pe.threads:
        look_at_scalar(machine, pe, source, size, ZERO)
        look_at_scalar(machine, pe, target, size, ONE)
    if machine.program.unset:
        look_for_unwritten(machine, pe, source, source + size)
        note_written(machine, pe, target, target + size)
    wafer, memory = machine.wafer, pe.memory
    for i in range(size):
        store_bytes(wafer, memory, target + i, ONE, load_bytes(wafer, memory, source + i, ONE))


@kernel
def _fill(machine, pe, target, value, instruction):
    wafer = machine.wafer
    size, count = size_of(instruction.type), instruction.aux
    if not is_inside(pe, target, size * count):
        fault(wafer, pe.node, FAULT_ADDRESS, target)
        return
    if pe.threads:
        look_at_scalar(machine, pe, target, size * count, ONE)
    if machine.program.unset:
        note_written(machine, pe, target, target + size * count)
    for i in range(count):
        store_bytes(wafer, pe.memory, target + i * size, size, value)


@kernel
def _call(machine, pe, function, instruction):
    """Make a frame for a function and continue at its entry."""
    wafer, program = machine.wafer, machine.program
    result, first, count = instruction.a, instruction.b, instruction.c
    code = CODE(program, pe.code)
    if function < 0 or function >= code.num_functions:
        fault(wafer, pe.node, FAULT_FUNCTION, function)
        return
    layout = LAYOUT(program, pe.layout)
    caller = FUNCTION(program, code.functions, pe.function)
    called = FUNCTION(program, code.functions, function)
    if count > called.registers:
        fault(wafer, pe.node, FAULT_ARGUMENTS, function)
        return
    at = pe.frame + caller.registers
    room = word_of(wafer, pe) + layout.registers + layout.registers_size
    if at + FRAME.num_words + called.registers > room:
        fault(wafer, pe.node, FAULT_REGISTERS, function)
        return
    end = pe.stack + called.frame_bytes
    end += -end & 7
    if end > pe.bytes:
        fault(wafer, pe.node, FAULT_STACK, end)
        return
    given = registers_of(wafer, pe)
    frame = FRAME(wafer, at)
    frame.pc = pe.pc
    frame.caller = pe.frame
    frame.result = pe.frame + result if result >= 0 else -1
    frame.stack = pe.stack
    frame.call = pe.line
    open_frame(machine, pe, function, frame)
    for i in range(count):
        frame.registers[i] = given[first + i]
    if is_tapped(machine):
        tap_call(machine, pe, frame, first, count)
    pe.stack = end
    pe.depth += 1


@kernel
def _return(machine, pe, value, t):
    """End a function: return to the caller, or end the task."""
    wafer = machine.wafer
    frame = frame_of(wafer, pe)
    pe.depth -= 1
    pe.stack = frame.stack
    if frame.pc < 0:
        end_scalar_run(machine, pe, t + 1)
        pe.task = -1
        pe.ended = t + 1
        return
    if frame.result >= 0:
        if is_tapped(machine):
            touch(machine, pe.node, WRITE_REGISTER, frame.result, ONE)
        wafer[frame.result] = value
    pe.pc = frame.pc
    pe.frame = frame.caller
    pe.function = frame_of(wafer, pe).function


@kernel
def _float_stall(pe, instruction, op, t):
    """Return the cycles until the operands of an instruction are there."""
    wait = pe.float_ready - t
    if wait <= 0:
        return 0
    r = pe.float_register - pe.frame
    reads = (op >= isa.OP_ADD and op <= isa.OP_MATH) or op == isa.OP_RET or op == isa.OP_DSD
    if reads and (instruction.b == r or instruction.c == r):
        return wait
    if (op == isa.OP_JZ or op == isa.OP_JNZ) and instruction.a == r:
        return wait
    is_address = op >= isa.OP_LD and op <= isa.OP_STX and instruction.b == r
    is_index = (op == isa.OP_LDX or op == isa.OP_STX) and instruction.c == r
    return wait if is_address or is_index else 0


@inlined
def _address(registers, base, offset):
    return offset if base < 0 else registers[base] + offset


@kernel
def _memory_instruction(machine, pe, registers, instruction, t):
    """Run OP_LD .. OP_FILL; return the cycles beyond those of the table."""
    op, r, base, index = instruction.op, instruction.a, instruction.b, instruction.c
    imm, aux, kind = instruction.imm, instruction.aux, instruction.type
    if is_watched(machine):
        address = _address(registers, base, imm)
        size = size_of(kind)
        if op == isa.OP_LDX or op == isa.OP_STX:
            address += registers[index] * aux
        elif op == isa.OP_COPY:
            address, size = registers[r], aux
        elif op == isa.OP_FILL:
            address, size = registers[r] + imm, size * aux
        test = STOP_MEMORY_READ if op == isa.OP_LD or op == isa.OP_LDX else STOP_MEMORY_WRITE
        watch_bytes(machine, pe.node, test, (address, address + size, mark_of(pe.line)), t)
        if is_tapped(machine):
            if op == isa.OP_COPY:
                touch(machine, pe.node, READ_MEMORY, registers[base] + imm, size)
            if test == STOP_MEMORY_READ:
                touch_read(machine, pe, address, size)
            else:
                touch(machine, pe.node, WRITE_MEMORY, address, size)
    if op == isa.OP_LD:
        _load(machine, pe, registers, instruction, _address(registers, base, imm))
    elif op == isa.OP_ST:
        _store(machine, pe, registers[r], _address(registers, base, imm), kind)
    elif op == isa.OP_LDX:
        address = _address(registers, base, imm) + registers[index] * aux
        _load(machine, pe, registers, instruction, address)
    elif op == isa.OP_STX:
        address = _address(registers, base, imm) + registers[index] * aux
        _store(machine, pe, registers[r], address, kind)
    elif op == isa.OP_COPY:
        _copy(machine, pe, registers[r], registers[base] + imm, aux)
        return aux // 4
    else:
        _fill(machine, pe, registers[r] + imm, registers[base], instruction)
        return aux * size_of(kind) // 4
    return 0


@kernel
def _compute(machine, pe, registers, instruction, t):
    """Run arithmetic, comparisons and conversions; return the cycles beyond those of the table."""
    program = machine.program
    op, a, second = instruction.op, instruction.a, instruction.c
    left = registers[instruction.b] if instruction.b >= 0 else 0
    imm, aux, kind = instruction.imm, instruction.aux, instruction.type
    if op <= isa.OP_MAX:
        right = registers[second] if second >= 0 else imm
        if op <= isa.OP_MUL and (kind == isa.T_I16 or kind == isa.T_I32):
            note_wrapped(machine.wafer, pe, op | (kind << 8), left, right)
        registers[a] = binary(op, kind, left, right)
        if op == isa.OP_DIV or op == isa.OP_REM:
            return division(program, instruction)
    elif op <= isa.OP_ABS:
        registers[a] = unary(op, kind, left)
    elif op <= isa.OP_GE:
        registers[a] = compare(op, kind, left, registers[second] if second >= 0 else imm)
    elif op == isa.OP_CVT:
        registers[a] = converted(left, kind, aux)
    elif op == isa.OP_WRAP:
        value = left & ((1 << imm) - 1) if imm < 64 else left
        registers[a] = (value ^ (1 << (imm - 1))) - (1 << (imm - 1)) if aux and imm < 64 else value
    else:
        registers[a] = function_of(imm, kind, left, registers[second] if second >= 0 else 0)
        return program[program.math + imm] - program[program.costs + op]
    if kind >= isa.T_F16 and op <= isa.OP_ABS:
        pe.float_register = pe.frame + a
        pe.float_ready = t + program.float_wait
    return 0


@kernel
def _skip(pe, registers, instruction):
    """Run a jump over moves that are predicated."""
    is_zero = registers[instruction.a] == 0
    if instruction.op == isa.OP_JMP or is_zero == (instruction.op == isa.OP_JZ):
        pe.pc = instruction.imm


@kernel
def _flow_instruction(machine, pe, registers, instruction, t):
    """Run a jump, call or return; return the cycles beyond those of the table."""
    program = machine.program
    op, r, imm = instruction.op, instruction.a, instruction.imm
    code = CODE(program, pe.code)
    if op == isa.OP_JMP:
        pe.pc = imm
        # The hardware runs the loop of @map: its jumps cost nothing.
        if INSTRUCTION(program, code.instructions, imm).op == isa.OP_MAP_TEST:
            return 0
        pe.bubble += program.branch_taken - 1
        return program.branch_taken
    if op == isa.OP_JZ or op == isa.OP_JNZ:
        if (registers[r] == 0) == (op == isa.OP_JZ):
            pe.pc = imm
            pe.bubble += program.branch_taken - 1
            return program.branch_taken
        pe.bubble += program.branch - 1
        return program.branch
    if op == isa.OP_CALL:
        _call(machine, pe, imm, instruction)
        if instruction.aux:
            return -program[program.costs + op]
    elif op == isa.OP_CALLI:
        _call(machine, pe, registers[instruction.aux], instruction)
    else:
        _return(machine, pe, registers[r] if r >= 0 else 0, t)
    return 0


@kernel
def _map_instruction(machine, pe, registers, instruction, t):
    """Run an instruction on cursors of @map. While one has to wait, only note the cursor and return -1."""
    op, r, base = instruction.op, instruction.a, instruction.b
    if op == isa.OP_MAP_OPEN:
        open_cursor(machine, pe, r, registers[base], size_of(instruction.type))
    elif op == isa.OP_MAP_TEST:
        if not cursors_go_on(machine, pe, r):
            pe.pc = instruction.imm
    else:
        operand = cursor_of(machine.program, pe, base)
        if not cursor_ready(machine, pe, operand, op == isa.OP_MAP_READ, t):
            if pe.map_wait == 0:
                pe.map_since = t
            pe.map_wait = word_of(machine.wafer, operand)
            return -1
        if pe.map_wait > 0:
            end_main_wait(machine, pe, main_wait_of(operand), t, pe.map_wait)
        if is_tapped(machine):
            tap_cursor(machine, pe, operand, op == isa.OP_MAP_READ)
        if op == isa.OP_MAP_READ:
            registers[r] = read_cursor(machine, pe, operand, t)
            kind = instruction.type
            if kind <= isa.T_I64:
                registers[r] = wrapped(registers[r], kind)
        else:
            write_cursor(machine, pe, operand, registers[r], t)
    pe.map_wait = 0
    return 0


@kernel
def _task_instruction(machine, pe, registers, instruction, t):
    """Run OP_ACTIVATE, OP_BLOCK, OP_UNBLOCK or OP_SYS."""
    op = instruction.op
    if op == isa.OP_ACTIVATE:
        activate(machine, pe, registers[instruction.a], pe.line)
        note_let(pe, t, MAIN)
    elif op == isa.OP_SYS:
        r = instruction.a
        first, second, third = instruction.b, instruction.c, instruction.aux
        number = instruction.imm
        left = registers[first] if first >= 0 else 0
        right = registers[second] if second >= 0 else 0
        other = registers[third] if third >= 0 else 0
        if number == isa.S_PRNG:
            other = 1 if second >= 0 else -1
        value = system_call(machine, pe, number, (left, right, other), t)
        if r >= 0:
            registers[r] = value
    else:
        block(pe, instruction.aux, registers[instruction.a], op == isa.OP_BLOCK)
        if op == isa.OP_UNBLOCK:
            note_let(pe, t, MAIN)


@kernel
def _execute(machine, pe, instruction, op, t):
    """Run one instruction; return its cycles, -1 if it has to wait for the fabric."""
    wafer, program = machine.wafer, machine.program
    registers = registers_of(wafer, pe)
    cycles = program[CODE(program, pe.code).cycles + pe.line - CODE(program, pe.code).first]
    if op >= isa.OP_LD and op <= isa.OP_FILL:
        if op == isa.OP_LDX or (op == isa.OP_LD and instruction.b >= 0):
            pe.float_register = pe.frame + instruction.a
            pe.float_ready = t + cycles + program.load_wait
        return cycles + _memory_instruction(machine, pe, registers, instruction, t)
    if op >= isa.OP_ADD and op <= isa.OP_MATH:
        return cycles + _compute(machine, pe, registers, instruction, t)
    if op >= isa.OP_JMP and op <= isa.OP_RET:
        if cycles >= PREDICATED:
            _skip(pe, registers, instruction)
            return cycles - PREDICATED
        return cycles + _flow_instruction(machine, pe, registers, instruction, t)
    if op == isa.OP_LI:
        registers[instruction.a] = instruction.imm
    elif op == isa.OP_MOV:
        registers[instruction.a] = registers[instruction.b]
    elif op == isa.OP_LEA:
        registers[instruction.a] = frame_of(wafer, pe).stack + instruction.imm
    elif op == isa.OP_ASSERT:
        if registers[instruction.a] == 0:
            fault(wafer, pe.node, FAULT_ASSERT, instruction.imm)
    elif op == isa.OP_SELECT:
        chosen = instruction.b if registers[instruction.aux] != 0 else instruction.c
        if is_tapped(machine):
            touch(machine, pe.node, READ_REGISTER, pe.frame + chosen, ONE)
        registers[instruction.a] = registers[chosen]
    elif op == isa.OP_DSD_SET or op == isa.OP_DSD_MOVE:
        descriptor_instruction(registers, instruction, op)
    elif op == isa.OP_DSR_LOAD:
        word = registers[instruction.c]
        load_dsr(machine, pe, instruction, word)
    elif op >= isa.OP_MAP_OPEN and op <= isa.OP_MAP_WRITE:
        if _map_instruction(machine, pe, registers, instruction, t) < 0:
            return -1
    elif op >= isa.OP_ACTIVATE and op <= isa.OP_SYS:
        _task_instruction(machine, pe, registers, instruction, t)
        if op == isa.OP_SYS and instruction.imm == isa.S_TSC_READ:
            return program.timer
        if op == isa.OP_SYS and instruction.imm == isa.S_PRINT:
            return program.print_cost
    elif op != isa.OP_NOP:
        fault(wafer, pe.node, FAULT_OPCODE, op)
    return cycles


@kernel
def scalar_step(machine, pe, t):
    """Run the next instruction of the main thread at cycle `t`, with those before it that cost nothing."""
    wafer, program = machine.wafer, machine.program
    code = CODE(program, pe.code)
    for _ in range(SPLIT_RUN):
        pc = pe.pc
        if pc < 0 or pc >= code.length:
            fault(wafer, pe.node, FAULT_OPCODE, pc)
            return
        instruction = INSTRUCTION(program, code.instructions, pc)
        op = instruction.op
        if op == isa.OP_SYS and instruction.imm == isa.S_TSC_READ and pe.drain > t:
            pe.ready = pe.drain
            return
        if op >= isa.OP_LD and op <= isa.OP_FILL and pe.complete > t:
            pe.ready = pe.complete
            return
        if pe.float_ready > t:
            stall = _float_stall(pe, instruction, op, t)
            if stall:
                pe.ready = t + stall
                return
        if pe.map_wait == 0:
            band_of(wafer, pe).instructions += 1
            pe.line = code.first + pc
            if is_watched(machine):
                watch_instruction(machine, element_of(program, pe.node), pe.depth, pe.line, t)
                if is_tapped(machine):
                    tap_scalar(machine, pe, op)
        if op == isa.OP_DSD:
            operation = OPERATION(program, code.operations, instruction.imm)
            if start_operation(machine, pe, operation, t):
                pe.pc = pc + 1
                if (pe.threads >> MAIN) & 1:
                    end_scalar_run(machine, pe, t)
            else:
                pe.ready = t + 1
            return
        pe.pc = pc + 1
        cycles = _execute(machine, pe, instruction, op, t)
        if cycles < 0:
            pe.pc = pc
            return
        if cycles > 0 or has_fault(wafer, pe) or pe.task < 0:
            if op < isa.OP_JMP or op > isa.OP_JNZ:
                left = pe.bubble - cycles
                pe.bubble = left if left > 0 else 0
            pe.ready = t + cycles * pe.stretch
            return
    pe.ready = t + 1
