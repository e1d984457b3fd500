"""From an instruction to a DSD operation under way: operands, thread, settings; DSR loads; @map cursors."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import operand_bytes
from npuviz.targets.wavelet.kernels.dsd.fifo import elements_free, elements_held
from npuviz.targets.wavelet.kernels.dsd.operand import (
    dsr_of,
    field,
    has_word,
    read_fabric,
    read_fifo,
    read_memory,
    save_address,
    send_word,
    set_operand,
    write_fifo,
    write_memory,
)
from npuviz.targets.wavelet.kernels.dsd.start import claim, operand, release, set_up, thread_of
from npuviz.targets.wavelet.kernels.program_records import (
    G_OPERATIONS,
    L_CURSORS,
    L_DSRS,
    P_ARCH,
    P_LOAD_USE,
)
from npuviz.targets.wavelet.kernels.records import (
    A_DSR,
    A_FLAGS,
    A_KIND,
    A_LEFT,
    A_LENGTH,
    A_RECORD,
    A_STEP,
    B_BUBBLE,
    B_CLASS,
    B_FRAME,
    B_LEVELS,
    B_LINE,
    B_MAP_WAIT,
    B_NODE,
    B_PROGRAM,
    B_READY,
    B_STALLED,
    B_TESTED,
    B_THREADS,
    C_LIMIT_RAMP,
    D_ACTIVATE,
    D_CONTROL_ID,
    D_SETTINGS,
    D_UNBLOCK,
    D_UT,
    D_WORD,
    EACH_LEVEL,
    FAULT_DSR,
    FLAG_SAVE,
    KIND_FIFO,
    KIND_INPUT,
    KIND_NOTHING,
    KIND_OUTPUT,
    LEVEL_BITS,
    LOG_THREAD_BUSY,
    MAIN,
    NONE,
    OPERAND_WORDS,
    STALLED_OUTPUT,
    T_ACTIVATE,
    T_ASYNC,
    T_CONTROL,
    T_CONTROL_ID,
    T_CONTROL_KIND,
    T_INDEX,
    T_LINE,
    T_RESULT,
    T_START,
    T_UNBLOCK,
    T_UNBLOCK_KIND,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import visible_count
from npuviz.targets.wavelet.kernels.time.events import fault, has_fault, hazard, step_from

NUM_CURSORS = 8


@inlined
def register(s, frame, number):
    """A register of the running frame; -1 where the number says that there is none."""
    return s[frame + number] if number >= 0 else -1


@inlined
def level_of(priority):
    """Level of a priority 0 high, 1 medium, 2 low; the main thread's levels lie between."""
    return 4 - 2 * priority


@kernel
def _described(s, p, b, word):
    """The descriptor that a register word stands for: a DSR's contents, else the word itself."""
    if field(word, 0, 7) != isa.KIND_DSR:
        return word
    file = field(word, isa.SHIFT_DSR_FILE, 3)
    number = field(word, isa.SHIFT_DSR_ID, 0x1F)
    c = s[b + B_CLASS]
    if p[c + L_DSRS] == 0 or file > 2 or number > 15:
        return 0
    return s[dsr_of(p, b, c, number, file) + D_WORD]


@kernel
def _dsr_record(s, p, b, row, frame):
    """The DSR of the first fabric operand with settings, -1 if none; for `async`, `activate` and the like."""
    c = s[b + B_CLASS]
    if p[c + L_DSRS] == 0:
        return -1
    for i in range(3):
        if p[row + isa.O_DST_KIND + i] != isa.OPERAND_DSD:
            continue
        word = s[frame + p[row + isa.O_DST + i]]
        if field(word, 0, 7) == isa.KIND_DSR and field(word, isa.SHIFT_DSR_ID, 0x1F) < 16:
            dsr = dsr_of(p, b, c, field(word, isa.SHIFT_DSR_ID, 0x1F), field(word, isa.SHIFT_DSR_FILE, 3))
            kind = field(s[dsr + D_WORD], 0, 7)
            if s[dsr + D_SETTINGS] >= 0 and (kind == isa.KIND_FABIN or kind == isa.KIND_FABOUT):
                return dsr
    return -1


@kernel
def _thread_number(s, p, b, row, frame, dsr):
    """The microthread of an asynchronous operation; wavelet-fabric.md section 5."""
    if p[row + isa.O_UT] >= 0:
        return s[frame + p[row + isa.O_UT]] & 7
    if dsr >= 0 and s[dsr + D_UT] >= 0:
        return s[dsr + D_UT] & 7
    found = -1
    for i in range(3):
        if p[row + isa.O_DST_KIND + i] == isa.OPERAND_DSD:
            word = _described(s, p, b, s[frame + p[row + isa.O_DST + i]])
            kind = field(word, 0, 7)
            if kind == isa.KIND_FABIN or kind == isa.KIND_FABOUT:
                queue = field(word, isa.SHIFT_QUEUE, isa.MASK_QUEUE)
                if found < 0:
                    found = queue if queue < 8 else field(word, isa.SHIFT_COLOR, isa.MASK_COLOR) & 7
    return found if found >= 0 else 0


@kernel
def _num_loads(s, p, row, frame):
    count = 0
    for i in range(3):
        kind = p[row + isa.O_DST_KIND + i]
        if kind != isa.OPERAND_DSD and kind != isa.OPERAND_POINTER:
            continue
        word = s[frame + p[row + isa.O_DST + i]]
        if kind == isa.OPERAND_DSD and field(word, 0, 7) == isa.KIND_DSR:
            continue
        is_new = True
        for k in range(i):
            same = p[row + isa.O_DST_KIND + k] == kind and s[frame + p[row + isa.O_DST + k]] == word
            is_new = is_new and not same
        if is_new:
            count += 1
    return count


@kernel
def _settings(s, p, b, th, row, frame, dsr):
    """Completion settings of an operation: its own, else those of the DSR load."""
    s[th + T_ACTIVATE] = register(s, frame, p[row + isa.O_ACTIVATE])
    s[th + T_UNBLOCK] = register(s, frame, p[row + isa.O_UNBLOCK])
    s[th + T_UNBLOCK_KIND] = p[row + isa.O_UNBLOCK_KIND]
    s[th + T_CONTROL] = p[row + isa.O_CONTROL]
    s[th + T_CONTROL_ID] = register(s, frame, p[row + isa.O_CONTROL_ID])
    s[th + T_CONTROL_KIND] = p[row + isa.O_CONTROL_KIND]
    s[th + T_INDEX] = register(s, frame, p[row + isa.O_INDEX])
    if dsr >= 0:
        given = p[s[b + B_PROGRAM] + G_OPERATIONS] + s[dsr + D_SETTINGS] * isa.OPERATION_WORDS
        if s[th + T_ACTIVATE] < 0 and s[th + T_UNBLOCK] < 0:
            s[th + T_ACTIVATE] = s[dsr + D_ACTIVATE]
            s[th + T_UNBLOCK] = s[dsr + D_UNBLOCK]
            s[th + T_UNBLOCK_KIND] = p[given + isa.O_UNBLOCK_KIND]
        if s[th + T_CONTROL] == 0:
            s[th + T_CONTROL] = p[given + isa.O_CONTROL]
            s[th + T_CONTROL_ID] = s[dsr + D_CONTROL_ID]
            s[th + T_CONTROL_KIND] = p[given + isa.O_CONTROL_KIND]


@kernel
def _set_level(s, p, b, th, row, number):
    level = 0 if p[P_ARCH] == 2 else 4
    for i in range(3):
        a = operand(th, i)
        kind = s[a + A_KIND]
        if p[P_ARCH] != 2 and (kind == KIND_INPUT or kind == KIND_OUTPUT):
            level = level_of(s[a + A_STEP])
    if p[row + isa.O_PRIORITY] >= 0:
        level = level_of(p[row + isa.O_PRIORITY])
    if number < MAIN:
        others = s[b + B_LEVELS] & ~(EACH_LEVEL << number)
        s[b + B_LEVELS] = others | (1 << (number + LEVEL_BITS * level))


@kernel
def start_operation(s, p, b, row, t):
    """OP_DSD at cycle `t`. Returns False, having changed nothing, while its microthread is busy."""
    frame = s[b + B_FRAME]
    dsr = _dsr_record(s, p, b, row, frame)
    is_async = p[row + isa.O_ASYNC] != 0
    if dsr >= 0:
        given = p[s[b + B_PROGRAM] + G_OPERATIONS] + s[dsr + D_SETTINGS] * isa.OPERATION_WORDS
        is_async = is_async or p[given + isa.O_ASYNC] != 0
    number = _thread_number(s, p, b, row, frame, dsr) if is_async else MAIN
    if (s[b + B_THREADS] >> number) & 1:
        if s[b + B_MAP_WAIT] != -2:
            hazard(s, s[b + B_NODE], LOG_THREAD_BUSY, number, s[b + B_LINE])
            s[b + B_MAP_WAIT] = -2
        return False
    s[b + B_MAP_WAIT] = 0
    th = thread_of(s, p, b, number)
    op = p[row]
    _settings(s, p, b, th, row, frame, dsr)
    for i in range(4):
        kind = p[row + isa.O_DST_KIND + i]
        value = s[frame + p[row + isa.O_DST + i]] if kind != isa.OPERAND_NONE else 0
        size = operand_bytes(op, i)
        if i == 1 and kind == isa.OPERAND_SCALAR and p[row + isa.O_DST_KIND] == isa.OPERAND_POINTER:
            size = operand_bytes(op, 0)  # the start of a reduction
        set_operand(s, p, b, operand(th, i), kind, value, size, s[th + T_INDEX])
    if has_fault(s, b):
        return True
    s[th + T_LINE] = s[b + B_LINE]
    s[th + T_START] = t
    s[th + T_ASYNC] = 1 if is_async else 0
    s[th + T_RESULT] = frame + p[row + isa.O_RESULT] if p[row + isa.O_RESULT] >= 0 else -1
    _set_level(s, p, b, th, row, number)
    set_up(s, p, b, th, op, number)
    loads = _num_loads(s, p, row, frame)
    dispatch = t + 1
    if loads:
        # A load a cycle; the last one is usable P_LOAD_USE cycles later, less what branches cost just before.
        wait = p[P_LOAD_USE] - 1 - s[b + B_BUBBLE]
        dispatch = t + loads + (wait if wait > 0 else 0)
    s[b + B_BUBBLE] = 0
    step_from(s, b, number, dispatch)
    s[b + B_STALLED] &= ~((1 << number) | (1 << (number + STALLED_OUTPUT)))
    s[b + B_THREADS] |= 1 << number
    if is_async:
        if s[th + T_RESULT] >= 0:
            s[s[th + T_RESULT]] = 1
        s[b + B_READY] = dispatch + 1
    else:
        s[b + B_READY] = dispatch
    return True


@kernel
def load_dsr(s, p, b, file, number, word, settings):
    """OP_DSR_LOAD: a DSR takes a descriptor and the settings of its row, with ids as they are now."""
    c = s[b + B_CLASS]
    if p[c + L_DSRS] == 0 or number > 15:
        fault(s, s[b + B_NODE], FAULT_DSR, number)
        return
    frame = s[b + B_FRAME]
    dsr = dsr_of(p, b, c, number, file)
    s[dsr + D_WORD] = word
    s[dsr + D_SETTINGS] = settings
    s[dsr + D_ACTIVATE] = s[dsr + D_UNBLOCK] = s[dsr + D_CONTROL_ID] = s[dsr + D_UT] = -1
    if settings >= 0:
        row = p[s[b + B_PROGRAM] + G_OPERATIONS] + settings * isa.OPERATION_WORDS
        s[dsr + D_ACTIVATE] = register(s, frame, p[row + isa.O_ACTIVATE])
        s[dsr + D_UNBLOCK] = register(s, frame, p[row + isa.O_UNBLOCK])
        s[dsr + D_CONTROL_ID] = register(s, frame, p[row + isa.O_CONTROL_ID])
        s[dsr + D_UT] = register(s, frame, p[row + isa.O_UT])


@inlined
def cursor_of(s, p, b, number):
    """Word of a cursor of @map."""
    return b + p[s[b + B_CLASS] + L_CURSORS] + (number & (NUM_CURSORS - 1)) * OPERAND_WORDS


@kernel
def open_cursor(s, p, b, number, word, size):
    """OP_MAP_OPEN."""
    a = cursor_of(s, p, b, number)
    set_operand(s, p, b, a, isa.OPERAND_DSD, word, size, NONE)
    s[a + A_LEFT] = s[a + A_LENGTH]
    if s[a + A_KIND] == KIND_INPUT:
        claim(s, p, b, a, MAIN)
    if s[a + A_DSR] >= 0:
        s[a + A_FLAGS] |= FLAG_SAVE


@kernel
def cursors_go_on(s, p, b, count):
    """OP_MAP_TEST: whether all of the first cursors have elements left; else they are closed."""
    for i in range(count):
        if s[cursor_of(s, p, b, i) + A_LEFT] == 0:
            for k in range(count):
                a = cursor_of(s, p, b, k)
                if s[a + A_KIND] == KIND_INPUT:
                    release(s, b, a)
                save_address(s, a)
                s[a + A_KIND] = KIND_NOTHING
            return False
    return True


@kernel
def cursor_ready(s, p, b, a, reads, t):
    """Whether an element can be read from or written to a cursor at cycle `t`."""
    kind = s[a + A_KIND]
    if kind == KIND_INPUT:
        return has_word(s, s[a + A_RECORD], t)
    if kind == KIND_OUTPUT:
        return visible_count(s, s[a + A_RECORD], ZERO, t) < s[s[a + A_RECORD] + C_LIMIT_RAMP]
    if kind == KIND_FIFO:
        return elements_held(s, a) > 0 if reads else elements_free(s, p, b, a) > 0
    return True


@kernel
def read_cursor(s, p, b, a, t):
    """OP_MAP_READ of a cursor that is ready."""
    kind = s[a + A_KIND]
    s[a + A_LEFT] -= 1
    if kind == KIND_INPUT:
        return read_fabric(s, b, a, t)
    if kind == KIND_FIFO:
        return read_fifo(s, p, b, a)
    if kind == KIND_NOTHING:
        return 0
    return read_memory(s, p, b, a)


@kernel
def write_cursor(s, p, b, a, value, t):
    """OP_MAP_WRITE to a cursor that is ready."""
    kind = s[a + A_KIND]
    s[a + A_LEFT] -= 1
    if kind == KIND_OUTPUT:
        send_word(s, p, b, a, value, ZERO, s[a + A_LEFT] == 0, t)
        # It may have taken the room of a thread with the same color.
        s[b + B_TESTED] |= s[b + B_THREADS]
    elif kind == KIND_FIFO:
        write_fifo(s, p, b, a, value)
    elif kind != KIND_NOTHING:
        write_memory(s, p, b, a, value)
