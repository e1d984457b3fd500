"""The scalar pipeline: one instruction in order, with what each costs.

Instructions that cost nothing (immediates, register moves, arithmetic on descriptors: assumed to be part of
the instruction that uses them) run together with the next one that costs something.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
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
from npuviz.targets.wavelet.kernels.arithmetic.registers import binary, compare, converted, function_of, unary
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
from npuviz.targets.wavelet.kernels.dsd.steps import KIND_SCALAR
from npuviz.targets.wavelet.kernels.memory import load_bytes, size_of, store_bytes, wrapped
from npuviz.targets.wavelet.kernels.processor.system import system_call
from npuviz.targets.wavelet.kernels.processor.task import FRAME_WORDS, activate, block, open_frame
from npuviz.targets.wavelet.kernels.program_records import (
    FUNCTION_WORDS,
    G_CODE,
    G_FIRST,
    G_FUNCTIONS,
    G_LENGTH,
    G_NUM_FUNCTIONS,
    G_OPERATIONS,
    K_MAIN,
    K_MEMORY,
    L_REGISTERS,
    L_REGISTERS_SIZE,
    NODE_COLUMN,
    NODE_ROW,
    NODE_WORDS,
    P_BRANCH,
    P_BRANCH_TAKEN,
    P_COLUMNS,
    P_COSTS,
    P_FLOAT_WAIT,
    P_MATH,
    P_NODES,
    P_PRINT_COST,
    P_TIMER,
    P_TRACKS,
    TRACK_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    B_BUBBLE,
    B_BYTES,
    B_CLASS,
    B_COMPLETE,
    B_DEPTH,
    B_DRAIN,
    B_FLOAT,
    B_FLOAT_READY,
    B_FRAME,
    B_FUNCTION,
    B_LINE,
    B_MAP_WAIT,
    B_MEMORY,
    B_NODE,
    B_PC,
    B_PROGRAM,
    B_READY,
    B_RUN_START,
    B_STACK,
    B_TASK,
    B_THREADS,
    BAND_INSTRUCTIONS,
    FAULT_ADDRESS,
    FAULT_ASSERT,
    FAULT_FUNCTION,
    FAULT_OPCODE,
    FAULT_REGISTERS,
    FAULT_STACK,
    MAIN,
    ONE,
)
from npuviz.targets.wavelet.kernels.time.events import band_at, fault, has_fault
from npuviz.targets.wavelet.kernels.time.stops import watch_instruction

SPLIT_RUN = 64
"""Instructions without cost that may run at once: a loop of them would never end."""


@kernel
def end_scalar_run(s, p, x, ev, b, t):
    """Emit what the main track showed up to now as scalar work."""
    if is_recording(x) and s[b + B_RUN_START] < t:
        track = p[p[P_TRACKS] + s[b + B_NODE] * TRACK_WORDS + K_MAIN]
        if track >= 0:
            emit(x, ev, INTERVAL, track, KIND_SCALAR, s[b + B_RUN_START], t, s[b + B_LINE])


@kernel
def _load(s, b, r, address, kind):
    size = size_of(kind)
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    value = load_bytes(s, s[b + B_MEMORY], address, size)
    s[r] = wrapped(value, kind) if kind <= isa.T_I64 else value


@kernel
def _store(s, b, value, address, kind):
    size = size_of(kind)
    if not is_inside(s, b, address, size):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    store_bytes(s, s[b + B_MEMORY], address, size, value)


@kernel
def _copy(s, b, target, source, size):
    if not (is_inside(s, b, target, size) and is_inside(s, b, source, size)):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, target)
        return
    memory = s[b + B_MEMORY]
    for i in range(size):
        store_bytes(s, memory, target + i, ONE, load_bytes(s, memory, source + i, ONE))


@kernel
def _fill(s, b, target, value, count, kind):
    size = size_of(kind)
    if not is_inside(s, b, target, size * count):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, target)
        return
    for i in range(count):
        store_bytes(s, s[b + B_MEMORY], target + i * size, size, value)


@kernel
def _call(s, p, b, function, first, count, result):
    """Make a frame for a function and go on there."""
    g = s[b + B_PROGRAM]
    node = s[b + B_NODE]
    if function < 0 or function >= p[g + G_NUM_FUNCTIONS]:
        fault(s, node, FAULT_FUNCTION, function)
        return
    caller = s[b + B_FRAME]
    c = s[b + B_CLASS]
    own = p[p[g + G_FUNCTIONS] + s[b + B_FUNCTION] * FUNCTION_WORDS + 1]
    frame = caller + own
    row = p[g + G_FUNCTIONS] + function * FUNCTION_WORDS
    if frame + FRAME_WORDS + p[row + 1] > b + p[c + L_REGISTERS] + p[c + L_REGISTERS_SIZE]:
        fault(s, node, FAULT_REGISTERS, function)
        return
    stack = s[b + B_STACK]
    end = stack + p[row + 2]
    end += -end & 7
    if end > s[b + B_BYTES]:
        fault(s, node, FAULT_STACK, end)
        return
    back = s[b + B_PC]
    s[frame] = back
    s[frame + 1] = caller
    s[frame + 2] = caller + result if result >= 0 else -1
    s[frame + 3] = stack
    s[frame + 5] = s[b + B_LINE]
    target = open_frame(s, p, b, function, frame)
    for i in range(count):
        s[target + i] = s[caller + first + i]
    s[b + B_STACK] = end
    s[b + B_DEPTH] += 1


@kernel
def _return(s, p, x, ev, b, value, t):
    """End of a function: back to the caller, or the end of the task."""
    frame = s[b + B_FRAME] - FRAME_WORDS
    s[b + B_DEPTH] -= 1
    s[b + B_STACK] = s[frame + 3]
    if s[frame] < 0:
        end_scalar_run(s, p, x, ev, b, t + 1)
        s[b + B_TASK] = -1
        return
    if s[frame + 2] >= 0:
        s[s[frame + 2]] = value
    s[b + B_PC] = s[frame]
    s[b + B_FRAME] = s[frame + 1]
    s[b + B_FUNCTION] = s[s[frame + 1] - FRAME_WORDS + 4]


@kernel
def _float_stall(s, p, b, f, code, op, t):
    """Cycles until the operands of an instruction are there."""
    wait = s[b + B_FLOAT_READY] - t
    if wait <= 0:
        return 0
    r = s[b + B_FLOAT] - f
    reads = (op >= isa.OP_ADD and op <= isa.OP_MATH) or op == isa.OP_RET or op == isa.OP_DSD
    if reads and (p[code + isa.C_B] == r or p[code + isa.C_C] == r):
        return wait
    if (op == isa.OP_ST or op == isa.OP_STX or op == isa.OP_JZ or op == isa.OP_JNZ) and p[
        code + isa.C_A
    ] == r:
        return wait
    return 0


@inlined
def _address(s, f, base, offset):
    return offset if base < 0 else s[f + base] + offset


@kernel
def _memory_instruction(s, p, x, b, f, code, op, t):
    """OP_LD .. OP_FILL; returns cycles beyond the table's."""
    r, base, index = p[code + isa.C_A], p[code + isa.C_B], p[code + isa.C_C]
    imm, aux, kind = p[code + isa.C_IMM], p[code + isa.C_AUX], p[code + isa.C_TYPE]
    if is_watched(x) and op <= isa.OP_STX:
        address = _address(s, f, base, imm)
        if op >= isa.OP_LDX:
            address += s[f + index] * aux
        memory = p[p[P_TRACKS] + s[b + B_NODE] * TRACK_WORDS + K_MEMORY]
        test = STOP_MEMORY_READ if op == isa.OP_LD or op == isa.OP_LDX else STOP_MEMORY_WRITE
        watch_subject(x, test, memory, address, address + size_of(kind), t)
    if op == isa.OP_LD:
        _load(s, b, f + r, _address(s, f, base, imm), kind)
    elif op == isa.OP_ST:
        _store(s, b, s[f + r], _address(s, f, base, imm), kind)
    elif op == isa.OP_LDX:
        _load(s, b, f + r, _address(s, f, base, imm) + s[f + index] * aux, kind)
    elif op == isa.OP_STX:
        _store(s, b, s[f + r], _address(s, f, base, imm) + s[f + index] * aux, kind)
    elif op == isa.OP_COPY:
        _copy(s, b, s[f + r], s[f + base] + imm, aux)
        return aux // 4
    else:
        _fill(s, b, s[f + r] + imm, s[f + base], aux, kind)
        return aux * size_of(kind) // 4
    return 0


@kernel
def _descriptor_instruction(s, p, b, f, code, op):
    """OP_DSD_SET, OP_DSD_MOVE."""
    imm, kind = p[code + isa.C_IMM], 0
    word = s[f + p[code + isa.C_B]]
    value = s[f + p[code + isa.C_C]]
    if op == isa.OP_DSD_MOVE:
        kind = isa.F_BASE
        value = ((word >> isa.SHIFT_BASE) & isa.MASK_BASE) + value * imm
    else:
        kind = imm
    shift, mask = field_place(kind)
    s[f + p[code + isa.C_A]] = (word & ~(mask << shift)) | ((value & mask) << shift)


@kernel
def field_place(field):
    """(shift, mask) of a descriptor field; as FIELDS of isa.py, which a test compares."""
    if field == isa.F_BASE:
        return isa.SHIFT_BASE, isa.MASK_BASE
    if field == isa.F_EXTENT:
        return isa.SHIFT_EXTENT, isa.MASK_EXTENT
    if field == isa.F_STRIDE:
        return isa.SHIFT_STRIDE, isa.MASK_STRIDE
    if field == isa.F_QUEUE:
        return isa.SHIFT_QUEUE, isa.MASK_QUEUE
    if field == isa.F_COLOR:
        return isa.SHIFT_COLOR, isa.MASK_COLOR
    if field == isa.F_KIND:
        return isa.SHIFT_KIND, isa.MASK_KIND
    if field == isa.F_SIMD:
        return isa.SHIFT_SIMD, 3
    if field == isa.F_PRIORITY:
        return isa.SHIFT_PRIORITY, 3
    if field == isa.F_ZERO:
        return isa.SHIFT_ZERO, 3
    if field == isa.F_DSR_FILE:
        return isa.SHIFT_DSR_FILE, 3
    if field == isa.F_DSR_ID:
        return isa.SHIFT_DSR_ID, 0x1F
    if field == isa.F_INDEX_OFFSET:
        return isa.SHIFT_INDEX_OFFSET, 1
    if field == isa.F_CONTROL:
        return isa.SHIFT_CONTROL, 1
    if field == isa.F_CONTROL_TRANSFORM:
        return isa.SHIFT_CONTROL_TRANSFORM, 1
    return isa.SHIFT_ADVANCE_SWITCH, 1


@kernel
def _compute(s, p, b, f, code, op, t):
    """Arithmetic, comparisons, conversions; returns cycles beyond the table's."""
    r, second = f + p[code + isa.C_A], p[code + isa.C_C]
    left = s[f + p[code + isa.C_B]] if p[code + isa.C_B] >= 0 else 0
    imm, aux, kind = p[code + isa.C_IMM], p[code + isa.C_AUX], p[code + isa.C_TYPE]
    if op <= isa.OP_MAX:
        s[r] = binary(op, kind, left, s[f + second] if second >= 0 else imm)
    elif op <= isa.OP_ABS:
        s[r] = unary(op, kind, left)
    elif op <= isa.OP_GE:
        s[r] = compare(op, kind, left, s[f + second] if second >= 0 else imm)
    elif op == isa.OP_CVT:
        s[r] = converted(left, kind, aux)
    elif op == isa.OP_WRAP:
        value = left & ((1 << imm) - 1) if imm < 64 else left
        s[r] = (value ^ (1 << (imm - 1))) - (1 << (imm - 1)) if aux and imm < 64 else value
    else:
        s[r] = function_of(imm, kind, left, s[f + second] if second >= 0 else 0)
        return p[p[P_MATH] + imm] - p[p[P_COSTS] + op]
    if kind >= isa.T_F16 and op <= isa.OP_ABS:
        s[b + B_FLOAT] = r
        s[b + B_FLOAT_READY] = t + p[P_FLOAT_WAIT]
    return 0


@kernel
def _flow_instruction(s, p, x, ev, b, f, code, op, t):
    """Jumps, calls, returns; returns cycles beyond the table's."""
    r, imm = p[code + isa.C_A], p[code + isa.C_IMM]
    g = s[b + B_PROGRAM]
    if op == isa.OP_JMP:
        s[b + B_PC] = imm
        # The loop of @map is the hardware's.
        if p[p[g + G_CODE] + imm * isa.CODE_WORDS] == isa.OP_MAP_TEST:
            return 0
        s[b + B_BUBBLE] += p[P_BRANCH_TAKEN] - 1
        return p[P_BRANCH_TAKEN]
    if op == isa.OP_JZ or op == isa.OP_JNZ:
        if (s[f + r] == 0) == (op == isa.OP_JZ):
            s[b + B_PC] = imm
            s[b + B_BUBBLE] += p[P_BRANCH_TAKEN] - 1
            return p[P_BRANCH_TAKEN]
        s[b + B_BUBBLE] += p[P_BRANCH] - 1
        return p[P_BRANCH]
    if op == isa.OP_CALL:
        _call(s, p, b, imm, p[code + isa.C_B], p[code + isa.C_C], r)
    elif op == isa.OP_CALLI:
        _call(s, p, b, s[f + p[code + isa.C_AUX]], p[code + isa.C_B], p[code + isa.C_C], r)
    else:
        _return(s, p, x, ev, b, s[f + r] if r >= 0 else 0, t)
    return 0


@kernel
def _map_instruction(s, p, b, f, code, op, t):
    """Cursors of @map. Returns -1, having done nothing but noted the cursor, while one has to wait."""
    r, base = p[code + isa.C_A], p[code + isa.C_B]
    if op == isa.OP_MAP_OPEN:
        open_cursor(s, p, b, r, s[f + base], size_of(p[code + isa.C_TYPE]))
    elif op == isa.OP_MAP_TEST:
        if not cursors_go_on(s, p, b, r):
            s[b + B_PC] = p[code + isa.C_IMM]
    else:
        a = cursor_of(s, p, b, base)
        if not cursor_ready(s, p, b, a, op == isa.OP_MAP_READ, t):
            s[b + B_MAP_WAIT] = a
            return -1
        if op == isa.OP_MAP_READ:
            s[f + r] = read_cursor(s, p, b, a, t)
            kind = p[code + isa.C_TYPE]
            if kind <= isa.T_I64:
                s[f + r] = wrapped(s[f + r], kind)
        else:
            write_cursor(s, p, b, a, s[f + r], t)
    s[b + B_MAP_WAIT] = 0
    return 0


@kernel
def _task_instruction(s, p, b, f, code, op, t):
    """OP_ACTIVATE, OP_BLOCK, OP_UNBLOCK, OP_SYS."""
    if op == isa.OP_ACTIVATE:
        activate(s, p, b, s[f + p[code + isa.C_A]], s[b + B_LINE])
    elif op == isa.OP_SYS:
        r = p[code + isa.C_A]
        first, second, third = p[code + isa.C_B], p[code + isa.C_C], p[code + isa.C_AUX]
        number = p[code + isa.C_IMM]
        left = s[f + first] if first >= 0 else 0
        right = s[f + second] if second >= 0 else 0
        other = s[f + third] if third >= 0 else 0
        if number == isa.S_PRNG:
            other = 1 if second >= 0 else -1
        value = system_call(s, p, b, number, left, right, other, t)
        if r >= 0:
            s[f + r] = value
    else:
        block(s, b, p[code + isa.C_AUX], s[f + p[code + isa.C_A]], op == isa.OP_BLOCK)


@kernel
def _execute(s, p, x, ev, b, code, op, t):
    """One instruction; returns its cycles, -1 if it has to wait for the fabric."""
    f = s[b + B_FRAME]
    cycles = p[p[P_COSTS] + op]
    if op >= isa.OP_LD and op <= isa.OP_FILL:
        return cycles + _memory_instruction(s, p, x, b, f, code, op, t)
    if op >= isa.OP_ADD and op <= isa.OP_MATH:
        return cycles + _compute(s, p, b, f, code, op, t)
    if op >= isa.OP_JMP and op <= isa.OP_RET:
        return cycles + _flow_instruction(s, p, x, ev, b, f, code, op, t)
    if op == isa.OP_LI:
        s[f + p[code + isa.C_A]] = p[code + isa.C_IMM]
    elif op == isa.OP_MOV:
        s[f + p[code + isa.C_A]] = s[f + p[code + isa.C_B]]
    elif op == isa.OP_LEA:
        s[f + p[code + isa.C_A]] = s[f - FRAME_WORDS + 3] + p[code + isa.C_IMM]
    elif op == isa.OP_ASSERT:
        if s[f + p[code + isa.C_A]] == 0:
            fault(s, s[b + B_NODE], FAULT_ASSERT, p[code + isa.C_IMM])
    elif op == isa.OP_SELECT:
        chosen = isa.C_B if s[f + p[code + isa.C_AUX]] != 0 else isa.C_C
        s[f + p[code + isa.C_A]] = s[f + p[code + chosen]]
    elif op == isa.OP_DSD_SET or op == isa.OP_DSD_MOVE:
        _descriptor_instruction(s, p, b, f, code, op)
    elif op == isa.OP_DSR_LOAD:
        load_dsr(s, p, b, p[code + isa.C_A], p[code + isa.C_B], s[f + p[code + isa.C_C]], p[code + isa.C_IMM])
    elif op >= isa.OP_MAP_OPEN and op <= isa.OP_MAP_WRITE:
        if _map_instruction(s, p, b, f, code, op, t) < 0:
            return -1
    elif op >= isa.OP_ACTIVATE and op <= isa.OP_SYS:
        _task_instruction(s, p, b, f, code, op, t)
        if op == isa.OP_SYS and p[code + isa.C_IMM] == isa.S_TSC_READ:
            return p[P_TIMER]
        if op == isa.OP_SYS and p[code + isa.C_IMM] == isa.S_PRINT:
            return p[P_PRINT_COST]
    elif op != isa.OP_NOP:
        fault(s, s[b + B_NODE], FAULT_OPCODE, op)
    return cycles


@kernel
def scalar_step(s, p, x, ev, b, t):
    """The next instruction of the main thread at cycle `t`, with those before it that cost nothing."""
    g = s[b + B_PROGRAM]
    node = s[b + B_NODE]
    for _ in range(SPLIT_RUN):
        pc = s[b + B_PC]
        code = p[g + G_CODE] + pc * isa.CODE_WORDS
        if pc < 0 or pc >= p[g + G_LENGTH]:
            fault(s, node, FAULT_OPCODE, pc)
            return
        op = p[code]
        if op == isa.OP_SYS and p[code + isa.C_IMM] == isa.S_TSC_READ and s[b + B_DRAIN] > t:
            s[b + B_READY] = s[b + B_DRAIN]
            return
        if op >= isa.OP_LD and op <= isa.OP_FILL and s[b + B_COMPLETE] > t:
            s[b + B_READY] = s[b + B_COMPLETE]
            return
        if s[b + B_FLOAT_READY] > t:
            stall = _float_stall(s, p, b, s[b + B_FRAME], code, op, t)
            if stall:
                s[b + B_READY] = t + stall
                return
        if s[b + B_MAP_WAIT] == 0:
            s[band_at(s, b) + BAND_INSTRUCTIONS] += 1
            s[b + B_LINE] = p[g + G_FIRST] + pc
            if is_watched(x):
                row = p[P_NODES] + node * NODE_WORDS
                element = p[row + NODE_ROW] * p[P_COLUMNS] + p[row + NODE_COLUMN]
                watch_instruction(x, element, s[b + B_DEPTH], s[b + B_LINE], t)
        if op == isa.OP_DSD:
            row = p[g + G_OPERATIONS] + p[code + isa.C_IMM] * isa.OPERATION_WORDS
            if start_operation(s, p, b, row, t):
                s[b + B_PC] = pc + 1
                if (s[b + B_THREADS] >> MAIN) & 1:
                    end_scalar_run(s, p, x, ev, b, t)
            else:
                s[b + B_READY] = t + 1
            return
        s[b + B_PC] = pc + 1
        cycles = _execute(s, p, x, ev, b, code, op, t)
        if cycles < 0:
            s[b + B_PC] = pc
            return
        if cycles > 0 or has_fault(s, b) or s[b + B_TASK] < 0:
            if op < isa.OP_JMP or op > isa.OP_JNZ:
                left = s[b + B_BUBBLE] - cycles
                s[b + B_BUBBLE] = left if left > 0 else 0
            s[b + B_READY] = t + cycles
            return
    s[b + B_READY] = t + 1
