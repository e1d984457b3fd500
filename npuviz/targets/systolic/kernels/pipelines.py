"""The two pipelines of a core: the systolic array (GEMM) and the vector unit.

Ref: systolic.md section 6 for every latency.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import FLOW, INTERVAL, emit, is_recording, is_watched, watch_queue
from npuviz.targets.systolic.kernels.program_records import (
    C_DST,
    C_N,
    C_OP,
    C_SIZE,
    C_SRC0,
    C_SRC1,
    C_TILE_K,
    C_TILE_M,
    C_TILE_N,
    C_VBYTES,
    CODE_WORDS,
    E_ADDRESS,
    ENTRY_WORDS,
    L_ENTRY,
    LAYER_WORDS,
    OP_ADD,
    OP_ADDTREE,
    OP_COMP,
    OP_DIV,
    OP_EXP,
    OP_GELU,
    OP_GEMM,
    OP_GEMM_PRELOAD,
    OP_LAYERNORM,
    OP_MAC,
    OP_MUL,
    OP_SOFTMAX,
    OP_SWISH,
)
from npuviz.targets.systolic.kernels.records import (
    DATAFLOW_OUTPUTS,
    DATAFLOW_WEIGHTS,
    H_GEMM_COUNT,
    H_PRELOAD_COUNT,
    K_BANKS,
    K_CONFLICTS,
    K_DATAFLOW,
    K_EX_BUSY,
    K_EX_END,
    K_GEMM_COUNT,
    K_GEMM_FINISH,
    K_GEMM_HEAD,
    K_GEMM_ROWS,
    K_GEMM_START,
    K_HEIGHT,
    K_LATENCY,
    K_MACS,
    K_PEAK_GEMM,
    K_PORTS,
    K_RING,
    K_SLOT,
    K_SPAD_HALF,
    K_STREAM_BANKS,
    K_VEC,
    K_VEC_BUSY,
    K_VEC_FINISH,
    K_VEC_SLOT,
    K_VEC_START,
    K_VECTOR_BYTES,
    K_WIDTH,
    KIND_LOAD_WEIGHTS,
    KIND_WAIT_BANDWIDTH,
    KIND_WAIT_DEPENDENCY,
    KIND_WAIT_EMPTY,
    LAT_ADD,
    LAT_ADDTREE,
    LAT_DIV,
    LAT_EXP,
    LAT_GELU,
    LAT_MAC,
    LAT_MUL,
    LAT_SCALAR_MUL,
    LAT_SQRT,
    N_BYTES,
    N_FLOWED,
    N_LEFT,
    N_VALID,
    N_WRITER,
    P_CODE,
    P_ENTRIES,
    P_LAYERS,
    QUEUE_EX,
    QUEUE_VEC,
    QUEUES_PER_CORE,
    R_ARRIVED,
    R_CODE,
    R_ENTER,
    R_FILLED,
    R_FINISH,
    R_IDLE,
    R_SLOT,
    R_START,
    RING_WORDS,
    S_ACC,
    S_DELTA,
    S_DONE,
    S_END,
    S_GEMMS,
    S_LAYER,
    S_SINCE,
    S_SPAD,
    S_VECTORS,
    SLOT_WORDS,
    TRACK_EX,
    TRACK_VEC,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.sram import create_entry, entry_of

MINIMUM_ROWS = 4  # Ref: systolic.md section 6: an instruction streams at least four rows


@inlined
def is_vector_op(op):
    """Whether an opcode runs on the vector unit."""
    return op > OP_GEMM


@inlined
def vector_latency(s, p, k, row):
    """Cycles of a vector instruction on core `k`."""
    op = p[row + C_OP]
    lat = k + K_LATENCY
    step = s[k + K_VECTOR_BYTES]
    size = p[row + C_VBYTES]
    rows = p[row + C_TILE_M]
    steps = (size + step - 1) // step
    tree = 1
    rest = size
    while rest > step:
        rest = (rest + step - 1) // step
        tree += rest
    tree_latency = tree * s[lat + LAT_ADDTREE]
    if op == OP_ADD:
        return steps * s[lat + LAT_ADD]
    if op == OP_MUL:
        return steps * s[lat + LAT_MUL]
    if op == OP_MAC:
        return steps * s[lat + LAT_MAC]
    if op == OP_DIV:
        return steps * s[lat + LAT_DIV]
    if op == OP_EXP:
        return steps * s[lat + LAT_EXP]
    if op == OP_GELU or op == OP_SWISH:
        return steps * s[lat + LAT_GELU]
    if op == OP_COMP:
        return steps
    if op == OP_ADDTREE:
        return tree_latency * rows
    if op == OP_SOFTMAX:
        return 2 * tree_latency * rows + steps * (s[lat + LAT_ADD] + s[lat + LAT_EXP] + s[lat + LAT_MUL])
    if op == OP_LAYERNORM:
        each = 2 * s[lat + LAT_ADD] + 3 * s[lat + LAT_MUL]
        return 2 * tree_latency + 2 * s[lat + LAT_SCALAR_MUL] + s[lat + LAT_SQRT] + steps * each * rows
    return 0


@inlined
def begin_result(s, p, x, ev, c, k, slot, row, instruction, t):
    """Add one outstanding computation to the destination's entry, creating it if absent."""
    operand = p[row + C_DST]
    if operand == 0:
        return
    entry = entry_of(s, k, slot, operand)
    if s[entry + N_LEFT] < 0:
        half = s[slot + S_SPAD] if operand > 0 else 2 + s[slot + S_ACC]
        create_entry(s, x, ev, c, k, half, entry, p[row + C_SIZE], instruction, t)
    else:
        s[entry + N_LEFT] += 1


@inlined
def end_result(s, p, k, slot, row, instruction, t):
    """Remove the outstanding computation again; the instruction is now the entry's writer."""
    operand = p[row + C_DST]
    if operand == 0:
        return
    entry = entry_of(s, k, slot, operand)
    s[entry + N_LEFT] -= 1
    s[entry + N_WRITER] = instruction
    s[entry + N_FLOWED] = 0
    if s[entry + N_VALID] < t:
        s[entry + N_VALID] = t


@inlined
def record_flow(s, x, ev, entry, instruction, t):
    """Record the arrow from an entry's writer to its first user."""
    if s[entry + N_FLOWED] == 0 and s[entry + N_WRITER] >= 0:
        s[entry + N_FLOWED] = 1
        if is_recording(x):
            emit(x, ev, int64(FLOW), int64(0), int64(0), t, s[entry + N_WRITER], instruction)


@inlined
def use_sources(s, p, x, ev, k, slot, row, instruction, t):
    """Record who is used; returns the cycle in which the last source became valid."""
    filled = 0
    if p[row + C_SRC0] != 0:
        entry = entry_of(s, k, slot, p[row + C_SRC0])
        filled = s[entry + N_VALID]
        record_flow(s, x, ev, entry, instruction, t)
    if p[row + C_SRC1] != 0:
        entry = entry_of(s, k, slot, p[row + C_SRC1])
        if s[entry + N_VALID] > filled:
            filled = s[entry + N_VALID]
        record_flow(s, x, ev, entry, instruction, t)
    return filled


@inlined
def bank_map(s, p, k, slot, operand):
    """Bit map of the scratchpad banks that an operand of a resident tile lies in."""
    banks = s[k + K_BANKS]
    if banks == 0 or operand <= 0:
        return 0
    layer = p[P_LAYERS] + s[slot + S_LAYER] * LAYER_WORDS
    address = p[p[P_ENTRIES] + (p[layer + L_ENTRY] + operand - 1) * ENTRY_WORDS + E_ADDRESS]
    first = s[slot + S_SPAD] * s[k + K_SPAD_HALF] + address
    size = s[entry_of(s, k, slot, operand) + N_BYTES]
    last = first + (size - 1 if size > 0 else 0)
    found = 0
    for bank in range(
        first * banks // (2 * s[k + K_SPAD_HALF]), last * banks // (2 * s[k + K_SPAD_HALF]) + 1
    ):
        found |= 1 << bank
    return found


@inlined
def conflict_cycles(s, p, k, slot, row, rows, is_preload):
    """Cycles by which an instruction comes later because its accesses meet in a scratchpad bank.

    What stays in the array is loaded while the instruction before streams; with one port and a bank in
    common, it waits. An array whose results stay reads both operands at once. Assumed: fills meet nobody.
    """
    if s[k + K_BANKS] == 0 or s[k + K_PORTS] > 1:
        return 0
    first = bank_map(s, p, k, slot, p[row + C_SRC0])
    second = bank_map(s, p, k, slot, p[row + C_SRC1])
    dataflow = s[k + K_DATAFLOW]
    if dataflow == DATAFLOW_OUTPUTS:
        return rows if first & second else 0
    stays = second if dataflow == DATAFLOW_WEIGHTS else first
    before = s[k + K_STREAM_BANKS]
    s[k + K_STREAM_BANKS] = first if dataflow == DATAFLOW_WEIGHTS else second
    return s[k + K_HEIGHT] if is_preload and stays & before else 0


@inlined
def start_gemm(s, p, x, ev, c, k, slot, slot_index, code, t):
    """Let a GEMM-type instruction that is issued in cycle `t` enter the array in the next one.

    Its finish is known now. What retires in that next cycle retires before it enters.
    """
    enter = t + 1
    row = p[P_CODE] + code * CODE_WORDS
    height = s[k + K_HEIGHT]
    rows = p[row + C_N]
    if rows < MINIMUM_ROWS:
        rows = MINIMUM_ROWS
    is_preload = p[row + C_OP] == OP_GEMM_PRELOAD
    lost = conflict_cycles(s, p, k, slot, row, rows, is_preload)
    if lost > 0 and s[k + K_DATAFLOW] == DATAFLOW_OUTPUTS:
        rows += lost
        s[k + K_CONFLICTS] += lost
        lost = 0
    count = s[k + K_GEMM_COUNT]
    ahead = count
    if count > 0 and s[k + K_GEMM_FINISH] <= enter:
        ahead -= 1
    if ahead > 0:
        offset = s[k + K_GEMM_ROWS]
        if is_preload and offset < height:
            offset = height
        if lost > 0:
            # Nothing of the exchange hides behind the rows before.
            s[k + K_CONFLICTS] += s[k + K_GEMM_ROWS] + height - offset
            offset = s[k + K_GEMM_ROWS] + height
        start = s[k + K_GEMM_START] + offset
        if start < enter:
            start = enter
    elif is_preload and s[k + K_DATAFLOW] != DATAFLOW_OUTPUTS:
        start = enter + 2 * height - 1
    else:
        start = enter
    finish = start + height + s[k + K_WIDTH] - 2 + rows
    if s[k + K_DATAFLOW] == DATAFLOW_OUTPUTS:
        # Assumed: nothing has to be loaded first, but results leave row by row after the last sum.
        finish += height
    instruction = code + s[slot + S_DELTA]
    place = s[k + K_GEMM_HEAD] + count
    if place >= height:
        place -= height
    ring = k + s[k + K_RING] + place * RING_WORDS
    s[ring + R_FINISH] = finish
    s[ring + R_START] = start
    s[ring + R_CODE] = code
    s[ring + R_SLOT] = slot_index
    s[ring + R_ENTER] = enter
    s[ring + R_IDLE] = s[k + K_EX_END]
    s[ring + R_FILLED] = use_sources(s, p, x, ev, k, slot, row, instruction, t)
    s[ring + R_ARRIVED] = s[slot + S_SINCE]
    s[k + K_GEMM_START] = start
    s[k + K_GEMM_ROWS] = rows
    s[k + K_GEMM_COUNT] = count + 1
    s[k + K_EX_END] = start + rows
    s[k + K_EX_BUSY] += rows
    if count == 0:
        s[k + K_GEMM_FINISH] = finish
    if s[k + K_PEAK_GEMM] < count + 1:
        s[k + K_PEAK_GEMM] = count + 1
    s[H_GEMM_COUNT] += 1
    if is_preload:
        s[H_PRELOAD_COUNT] += 1
    begin_result(s, p, x, ev, c, k, slot, row, instruction, t)
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_EX, count, count + 1, t)


@inlined
def record_idle(x, ev, c, s, ring, idle_until):
    """Record why the array stood still before the instruction of a ring entry."""
    track = c * TRACKS_PER_CORE + TRACK_EX
    begin = s[ring + R_IDLE]
    for kind, known in (
        (KIND_WAIT_EMPTY, s[ring + R_ARRIVED]),
        (KIND_WAIT_BANDWIDTH, s[ring + R_FILLED]),
        (KIND_WAIT_DEPENDENCY, idle_until),
    ):
        end = known if known < idle_until else idle_until
        if end > begin:
            emit(x, ev, int64(INTERVAL), track, kind, begin, end, int64(-1))
            begin = end


@inlined
def retire_gemm(s, p, x, ev, c, k, t):
    """Take the finished head off the array."""
    head = s[k + K_GEMM_HEAD]
    ring = k + s[k + K_RING] + head * RING_WORDS
    code = s[ring + R_CODE]
    row = p[P_CODE] + code * CODE_WORDS
    slot = k + K_SLOT + s[ring + R_SLOT] * SLOT_WORDS
    instruction = code + s[slot + S_DELTA]
    end_result(s, p, k, slot, row, instruction, t)
    s[slot + S_GEMMS] += 1
    s[k + K_MACS] += p[row + C_TILE_M] * p[row + C_TILE_K] * p[row + C_TILE_N]
    if is_recording(x):
        start = s[ring + R_START]
        enter = s[ring + R_ENTER]
        idle = s[ring + R_IDLE]
        track = c * TRACKS_PER_CORE + TRACK_EX
        if start > idle:
            if enter > idle:
                record_idle(x, ev, c, s, ring, enter)
                idle = enter
            if start > idle:
                emit(x, ev, int64(INTERVAL), track, int64(KIND_LOAD_WEIGHTS), idle, start, instruction)
        rows = p[row + C_N]
        if rows < MINIMUM_ROWS:
            rows = MINIMUM_ROWS
        emit(x, ev, int64(INTERVAL), track, p[row + C_OP], start, start + rows, instruction)
    if code + 1 == s[slot + S_END]:
        s[slot + S_DONE] = 1
    count = s[k + K_GEMM_COUNT] - 1
    s[k + K_GEMM_COUNT] = count
    head += 1
    if head >= s[k + K_HEIGHT]:
        head = 0
    s[k + K_GEMM_HEAD] = head
    if count > 0:
        s[k + K_GEMM_FINISH] = s[k + s[k + K_RING] + head * RING_WORDS + R_FINISH]
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_EX, count + 1, count, t)


@inlined
def start_vector(s, p, x, ev, c, k, slot, slot_index, code, t):
    """Let a vector instruction that is issued in cycle `t` start in the next one; its finish is known."""
    enter = t + 1
    row = p[P_CODE] + code * CODE_WORDS
    # Ref: systolic.md section 5: it is retired in a later cycle than it starts, even with latency 0.
    latency = max(1, vector_latency(s, p, k, row))
    instruction = code + s[slot + S_DELTA]
    s[k + K_VEC] = code
    s[k + K_VEC_SLOT] = slot_index
    s[k + K_VEC_START] = enter
    s[k + K_VEC_FINISH] = enter + latency
    s[k + K_VEC_BUSY] += latency
    use_sources(s, p, x, ev, k, slot, row, instruction, t)
    begin_result(s, p, x, ev, c, k, slot, row, instruction, t)
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_VEC, int64(0), int64(1), t)


@kernel
def retire_vector(s, p, x, ev, c, k, t):
    """Take the finished instruction out of the vector unit."""
    code = s[k + K_VEC]
    row = p[P_CODE] + code * CODE_WORDS
    slot = k + K_SLOT + s[k + K_VEC_SLOT] * SLOT_WORDS
    instruction = code + s[slot + S_DELTA]
    end_result(s, p, k, slot, row, instruction, t)
    s[slot + S_VECTORS] += 1
    if is_recording(x) and s[k + K_VEC_FINISH] > s[k + K_VEC_START]:
        track = c * TRACKS_PER_CORE + TRACK_VEC
        emit(
            x, ev, int64(INTERVAL), track, p[row + C_OP], s[k + K_VEC_START], s[k + K_VEC_FINISH], instruction
        )
    if code + 1 == s[slot + S_END]:
        s[slot + S_DONE] = 1
    s[k + K_VEC] = -1
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_VEC, int64(1), int64(0), t)
