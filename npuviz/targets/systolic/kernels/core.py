"""One core for one cycle: retire, load, store, issue, release; and when to look again.

The order of the steps is the machine (Ref: systolic.md section 5; its step "EX" follows from "issue" one
cycle earlier and is done there). `core_cycle` is called only in
cycles in which something may change; a call in any other cycle changes nothing.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    COUNTER,
    FLOW,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    emit,
    is_recording,
    is_watched,
    watch_queue,
    watch_subject,
)
from npuviz.targets.systolic.kernels.pipelines import (
    is_vector_op,
    retire_gemm,
    retire_vector,
    start_gemm,
    start_vector,
)
from npuviz.targets.systolic.kernels.program_records import (
    C_BASE,
    C_DST,
    C_LEN,
    C_N0,
    C_N1,
    C_OFFSET,
    C_OP,
    C_S0,
    C_S1,
    C_SIZE,
    C_SRC0,
    C_SRC1,
    CODE_WORDS,
    E_ADDRESS,
    ENTRY_WORDS,
    L_ENTRY,
    L_SPAD_ENTRIES,
    LAYER_WORDS,
    OP_MOVIN,
    OP_MOVOUT,
    OP_MOVOUT_POOL,
    T_BASE,
    TILE_WORDS,
)
from npuviz.targets.systolic.kernels.records import (
    B_CODE,
    B_ENTRY,
    B_INDEX,
    B_TILE,
    BURST_WORDS,
    FAR,
    FAULT_ENTRY_EXISTS,
    FAULT_QUEUE,
    FREE_BURSTS,
    H_BURST_CAPACITY,
    H_BURSTS,
    H_BURSTS_TIGHT,
    H_BURSTS_WAITING,
    H_CORE_PERIOD,
    H_CORE_WORDS,
    H_CORES,
    H_NOC_LAST,
    H_NOC_NEXT,
    H_NOC_PERIOD,
    H_SCHED,
    H_SENDING,
    H_WAKES,
    K_ACC_HALF,
    K_BURST_COUNT,
    K_BURST_HEAD,
    K_FINISHED,
    K_GEMM_COUNT,
    K_GEMM_FINISH,
    K_HEIGHT,
    K_LOAD_RING,
    K_LOADS,
    K_NEXT_TILE,
    K_ORDER,
    K_PEAK_BURSTS,
    K_SLOT,
    K_SPAD_HALF,
    K_STORE_RING,
    K_STORES,
    K_TILES,
    K_TURN,
    K_VEC,
    K_VEC_FINISH,
    MEMORIES_PER_CORE,
    MEMORY_ACC,
    MEMORY_SPAD,
    N_BYTES,
    N_LEFT,
    N_VALID,
    N_WRITER,
    P_CODE,
    P_DRAM_MEMORY,
    P_ENTRIES,
    P_LAYERS,
    P_TILES,
    QUEUE_LD,
    QUEUE_REQUESTS,
    QUEUE_ST,
    QUEUES_PER_CORE,
    S_ACC,
    S_DELTA,
    S_DONE,
    S_END,
    S_LAYER,
    S_PC,
    S_SPAD,
    S_TILE,
    SLOT_WORDS,
    TRACK_REQUESTS,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.runtime_scheduler import poll
from npuviz.targets.systolic.kernels.scheduler import finish_tile, hand_tile, report_tile
from npuviz.targets.systolic.kernels.sram import create_entry, entry_of, fault, has_operand, is_valid


@kernel
def watch_operand(s, p, x, c, k, slot, operand, size, test, t):
    """Test memory stop rows against the bytes of an operand in scratchpad or accumulator."""
    layer = p[P_LAYERS] + s[slot + S_LAYER] * LAYER_WORDS
    if operand > 0:
        index = p[layer + L_ENTRY] + operand - 1
        memory = c * MEMORIES_PER_CORE + MEMORY_SPAD
        base = s[slot + S_SPAD] * s[k + K_SPAD_HALF]
    else:
        index = p[layer + L_ENTRY] + p[layer + L_SPAD_ENTRIES] - operand - 1
        memory = c * MEMORIES_PER_CORE + MEMORY_ACC
        base = s[slot + S_ACC] * s[k + K_ACC_HALF]
    address = base + p[p[P_ENTRIES] + index * ENTRY_WORDS + E_ADDRESS]
    watch_subject(x, test, memory, address, address + size, t)


@kernel
def watch_transfer(s, p, x, c, k, slot, code, t):
    """Test stop rows when a MOVIN or MOVOUT begins: instruction, DRAM range, SRAM range."""
    row = p[P_CODE] + code * CODE_WORDS
    index = code + s[slot + S_DELTA]
    watch_subject(x, int64(STOP_INSTRUCTION), int64(0), index, index + 1, t)
    base = p[p[P_TILES] + s[slot + S_TILE] * TILE_WORDS + T_BASE + p[row + C_BASE]] + p[row + C_OFFSET]
    end = base + (p[row + C_N0] - 1) * p[row + C_S0] + (p[row + C_N1] - 1) * p[row + C_S1] + p[row + C_LEN]
    dram = p[P_DRAM_MEMORY]
    if p[row + C_OP] == OP_MOVIN:
        watch_subject(x, int64(STOP_MEMORY_READ), dram, base, end, t)
        watch_operand(s, p, x, c, k, slot, p[row + C_DST], p[row + C_SIZE], int64(STOP_MEMORY_WRITE), t)
    else:
        watch_subject(x, int64(STOP_MEMORY_WRITE), dram, base, end, t)
        watch_operand(s, p, x, c, k, slot, p[row + C_DST], p[row + C_SIZE], int64(STOP_MEMORY_READ), t)


@kernel
def push_burst(s, x, ev, c, k, code, tile, entry, index, t):
    """Append the requests of a transfer to the core's request list."""
    count = s[k + K_BURST_COUNT]
    capacity = s[H_BURST_CAPACITY]
    place = (s[k + K_BURST_HEAD] + count) & (capacity - 1)
    burst = s[H_BURSTS] + (c * capacity + place) * BURST_WORDS
    s[burst + B_CODE] = code
    s[burst + B_TILE] = tile
    s[burst + B_ENTRY] = entry
    s[burst + B_INDEX] = index
    s[k + K_BURST_COUNT] = count + 1
    if s[k + K_PEAK_BURSTS] < count + 1:
        s[k + K_PEAK_BURSTS] = count + 1
    s[H_BURSTS_WAITING] += 1
    s[s[H_SENDING] + (c >> 6)] |= 1 << (c & 63)
    if count + 1 + FREE_BURSTS > capacity:
        s[H_BURSTS_TIGHT] = 1
    period = s[H_NOC_PERIOD]
    first = (t * s[H_CORE_PERIOD] + period - 1) // period
    if first <= s[H_NOC_LAST]:
        first = s[H_NOC_LAST] + 1
    if s[H_NOC_NEXT] > first:
        s[H_NOC_NEXT] = first
    if is_recording(x):
        emit(x, ev, int64(COUNTER), c * TRACKS_PER_CORE + TRACK_REQUESTS, int64(0), t, count + 1, int64(-1))
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_REQUESTS, count, count + 1, t)


@kernel
def start_load(s, p, x, ev, c, k, t):
    """LD takes the head of its queue: its entry comes into being, its requests join the list."""
    code = s[k + K_LOAD_RING]
    slot = k + K_SLOT + s[k + K_LOAD_RING + 1] * SLOT_WORDS
    count = s[k + K_LOADS] - 1
    s[k + K_LOADS] = count
    for index in range(2 * count):
        s[k + K_LOAD_RING + index] = s[k + K_LOAD_RING + index + 2]
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_LD, count + 1, count, t)
        watch_transfer(s, p, x, c, k, slot, code, t)
    row = p[P_CODE] + code * CODE_WORDS
    operand = p[row + C_DST]
    entry = entry_of(s, k, slot, operand)
    half = s[slot + S_SPAD] if operand > 0 else 2 + s[slot + S_ACC]
    instruction = code + s[slot + S_DELTA]
    # One fill stands for "requests are still being made"; it goes when the burst is finished.
    create_entry(s, x, ev, c, k, half, entry, p[row + C_SIZE], instruction, t)
    push_burst(s, x, ev, c, k, code, s[slot + S_TILE], entry, instruction, t)


@kernel
def start_store(s, p, x, ev, c, k, t):
    """ST takes the head of its queue, if its entry is valid. Writes are not awaited by the tile."""
    code = s[k + K_STORE_RING]
    slot = k + K_SLOT + s[k + K_STORE_RING + 1] * SLOT_WORDS
    entry = entry_of(s, k, slot, p[p[P_CODE] + code * CODE_WORDS + C_DST])
    if not is_valid(s, entry, t):
        return
    count = s[k + K_STORES] - 1
    s[k + K_STORES] = count
    for index in range(2 * count):
        s[k + K_STORE_RING + index] = s[k + K_STORE_RING + index + 2]
    instruction = code + s[slot + S_DELTA]
    if is_recording(x):
        emit(x, ev, int64(FLOW), int64(0), int64(0), t, s[entry + N_WRITER], instruction)
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + QUEUE_ST, count + 1, count, t)
        watch_transfer(s, p, x, c, k, slot, code, t)
    push_burst(s, x, ev, c, k, code, s[slot + S_TILE], int64(0), instruction, t)
    if code + 1 == s[slot + S_END]:
        s[slot + S_DONE] = 1


@inlined
def has_room(s, k, op):
    """Whether the pipeline of a compute instruction takes another one."""
    return s[k + K_VEC] < 0 if is_vector_op(op) else s[k + K_GEMM_COUNT] < s[k + K_HEIGHT]


@inlined
def can_start(s, p, k, slot, code, t):
    """Whether a compute instruction has its sources and room in its pipeline."""
    row = p[P_CODE] + code * CODE_WORDS
    if not has_room(s, k, p[row + C_OP]):
        return False
    return has_operand(s, k, slot, p[row + C_SRC0], t) and has_operand(s, k, slot, p[row + C_SRC1], t)


@inlined
def watch_compute(s, p, x, c, k, slot, code, t):
    """Test stop rows when a compute instruction is issued: instruction, operands."""
    row = p[P_CODE] + code * CODE_WORDS
    index = code + s[slot + S_DELTA]
    watch_subject(x, int64(STOP_INSTRUCTION), int64(0), index, index + 1, t)
    for word in (C_SRC0, C_SRC1):
        if p[row + word] != 0:
            size = s[entry_of(s, k, slot, p[row + word]) + N_BYTES]
            watch_operand(s, p, x, c, k, slot, p[row + word], size, int64(STOP_MEMORY_READ), t)
    if p[row + C_DST] != 0:
        watch_operand(s, p, x, c, k, slot, p[row + C_DST], p[row + C_SIZE], int64(STOP_MEMORY_WRITE), t)


@inlined
def issue_one(s, p, x, ev, c, k, slot, slot_index, t):
    """Issue the head of a tile's program to its queue if it can; tells whether it did."""
    code = s[slot + S_PC]
    row = p[P_CODE] + code * CODE_WORDS
    op = p[row + C_OP]
    if op == OP_MOVIN:
        if s[entry_of(s, k, slot, p[row + C_DST]) + N_LEFT] >= 0:
            fault(s, c, int64(FAULT_ENTRY_EXISTS), code + s[slot + S_DELTA])
            return False
        count = s[k + K_LOADS]
        ring = k + K_LOAD_RING + 2 * count
        s[k + K_LOADS] = count + 1
        queue = QUEUE_LD
    elif op == OP_MOVOUT or op == OP_MOVOUT_POOL:
        if not is_valid(s, entry_of(s, k, slot, p[row + C_DST]), t):
            return False
        count = s[k + K_STORES]
        if count == 32:
            fault(s, c, int64(FAULT_QUEUE), code + s[slot + S_DELTA])
            return False
        ring = k + K_STORE_RING + 2 * count
        s[k + K_STORES] = count + 1
        queue = QUEUE_ST
    else:
        if not can_start(s, p, k, slot, code, t):
            return False
        s[slot + S_PC] = code + 1
        if is_watched(x):
            watch_compute(s, p, x, c, k, slot, code, t)
        # The slot between issue and pipeline is empty again after one cycle, because an instruction
        # is issued only when it can start, and nothing in between can prevent it.
        if is_vector_op(op):
            start_vector(s, p, x, ev, c, k, slot, slot_index, code, t)
        else:
            start_gemm(s, p, x, ev, c, k, slot, slot_index, code, t)
        return True
    s[ring] = code
    s[ring + 1] = slot_index
    s[slot + S_PC] = code + 1
    if is_watched(x):
        watch_queue(x, c * QUEUES_PER_CORE + queue, count, count + 1, t)
    return True


@inlined
def issue(s, p, x, ev, c, k, t):
    """Issue at most one instruction, looking first at the tile that issued last."""
    tiles = s[k + K_TILES]
    if tiles == 0:
        return False
    turn = s[k + K_TURN]
    if turn >= tiles:
        turn %= tiles
    for offset in range(tiles):
        index = turn + offset
        if index >= tiles:
            index -= tiles
        slot_index = s[k + K_ORDER + index]
        slot = k + K_SLOT + slot_index * SLOT_WORDS
        if s[slot + S_PC] < s[slot + S_END] and issue_one(s, p, x, ev, c, k, slot, slot_index, t):
            s[k + K_TURN] = index
            return True
    return False


@inlined
def release_tile(s, k):
    """Let the first resident tile that is done leave."""
    for index in range(s[k + K_TILES]):
        slot = k + K_SLOT + s[k + K_ORDER + index] * SLOT_WORDS
        if s[slot + S_DONE] == 1 and s[slot + S_PC] == s[slot + S_END]:
            finish_tile(s, k, s[slot + S_TILE])
            if index == 0:
                s[k + K_ORDER] = s[k + K_ORDER + 1]
            s[k + K_TILES] -= 1
            return


@inlined
def known_time(s, entry, t):
    """Cycle after `t` at which an entry is known to become valid, FAR if it is not known."""
    if s[entry + N_LEFT] == 0 and s[entry + N_VALID] > t:
        return s[entry + N_VALID]
    return FAR


@inlined
def source_time(s, p, k, slot, code, t):
    """Earliest known validity after `t` among the operands an instruction waits for."""
    row = p[P_CODE] + code * CODE_WORDS
    earliest = FAR
    if p[row + C_SRC0] != 0:
        earliest = known_time(s, entry_of(s, k, slot, p[row + C_SRC0]), t)
    if p[row + C_SRC1] != 0:
        other = known_time(s, entry_of(s, k, slot, p[row + C_SRC1]), t)
        if other < earliest:
            earliest = other
    return earliest


@inlined
def issue_time(s, p, k, slot, t):
    """Earliest cycle after `t` in which the head of a tile's program may be issued, as far as known."""
    code = s[slot + S_PC]
    row = p[P_CODE] + code * CODE_WORDS
    op = p[row + C_OP]
    if op == OP_MOVIN:
        return t + 1
    if op == OP_MOVOUT or op == OP_MOVOUT_POOL:
        entry = entry_of(s, k, slot, p[row + C_DST])
        return t + 1 if is_valid(s, entry, t + 1) else known_time(s, entry, t)
    if not has_room(s, k, op):
        return FAR  # it waits for a retirement, which is an event of its own
    return t + 1 if can_start(s, p, k, slot, code, t + 1) else source_time(s, p, k, slot, code, t)


@inlined
def next_wake(s, p, k, t):
    """The next cycle in which this core may do something, as far as it can know itself."""
    if s[k + K_LOADS] > 0 or s[k + K_FINISHED] > 0 or (s[k + K_TILES] < 2 and s[k + K_NEXT_TILE] >= 0):
        return t + 1
    wake = FAR
    if s[k + K_GEMM_COUNT] > 0:
        wake = s[k + K_GEMM_FINISH]
    if s[k + K_VEC] >= 0 and s[k + K_VEC_FINISH] < wake:
        wake = s[k + K_VEC_FINISH]
    if s[k + K_STORES] > 0:
        slot = k + K_SLOT + s[k + K_STORE_RING + 1] * SLOT_WORDS
        entry = entry_of(s, k, slot, p[p[P_CODE] + s[k + K_STORE_RING] * CODE_WORDS + C_DST])
        if is_valid(s, entry, t + 1):
            return t + 1
        time = known_time(s, entry, t)
        if time < wake:
            wake = time
    for index in range(s[k + K_TILES]):
        slot = k + K_SLOT + s[k + K_ORDER + index] * SLOT_WORDS
        if s[slot + S_PC] < s[slot + S_END]:
            time = issue_time(s, p, k, slot, t)
            if time < wake:
                wake = time
        elif s[slot + S_DONE] == 1:
            return t + 1
    return wake if wake > t else t + 1


@kernel
def core_cycle(s, p, x, ev, c, t):
    """Cycle `t` of core `c`, from the report of a finished tile to the next wake-up."""
    k = s[H_CORES] + c * s[H_CORE_WORDS]
    if s[k + K_FINISHED] > 0:
        report_tile(s, p, x, ev, c, k, t)
    if s[k + K_TILES] < 2:
        if s[k + K_NEXT_TILE] >= 0:
            hand_tile(s, p, x, ev, c, k, t)
        elif s[H_SCHED] > 0:
            poll(s, p, x, c, t)
    if s[k + K_GEMM_COUNT] > 0 and s[k + K_GEMM_FINISH] <= t:
        retire_gemm(s, p, x, ev, c, k, t)
    if s[k + K_VEC] >= 0 and s[k + K_VEC_FINISH] <= t:
        retire_vector(s, p, x, ev, c, k, t)
    if s[k + K_LOADS] > 0:
        start_load(s, p, x, ev, c, k, t)
    if s[k + K_STORES] > 0:
        start_store(s, p, x, ev, c, k, t)
    issue(s, p, x, ev, c, k, t)
    release_tile(s, k)
    s[s[H_WAKES] + c] = next_wake(s, p, k, t)
