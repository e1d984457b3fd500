"""One cycle of one core: retire, load, store, issue, release; and the cycle of its next wake-up.

The order of the steps is the machine (Ref: systolic.md section 5; its step "EX" follows from "issue" one
cycle earlier and is done there). `core_cycle` is called only in
cycles in which something may change; a call in any other cycle changes nothing.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import (
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    is_recording,
    is_watched,
    record_count,
    record_flow,
    watch_instruction,
    watch_memory,
    watch_queue,
)
from npuviz.targets.systolic.kernels.causes import (
    record_load,
    record_operands,
    record_store,
    record_tile_done,
)
from npuviz.targets.systolic.kernels.pipelines import (
    is_vector_op,
    retire_gemm,
    retire_vector,
    start_gemm,
    start_vector,
)
from npuviz.targets.systolic.kernels.program_records import (
    CODE,
    ENTRY_ROOM,
    LAYER,
    OP_MOVIN,
    OP_MOVOUT,
    OP_MOVOUT_POOL,
    TILE,
)
from npuviz.targets.systolic.kernels.records import (
    BURST,
    CORE,
    FAR,
    FAULT_ENTRY_EXISTS,
    FAULT_QUEUE,
    FREE_BURSTS,
    MEMORIES_PER_CORE,
    MEMORY_ACC,
    MEMORY_SPAD,
    QUEUE_LD,
    QUEUE_REQUESTS,
    QUEUE_ST,
    QUEUES_PER_CORE,
    TRACK_REQUESTS,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.runtime_scheduler import poll
from npuviz.targets.systolic.kernels.scheduler import finish_tile, hand_tile, report_tile
from npuviz.targets.systolic.kernels.sram import create_entry, entry_of, fault, has_operand, is_valid, work_of


@kernel
def room_of(program, work, operand, size):
    """Return memory and range of the bytes of an operand in scratchpad or accumulator."""
    c, core, slot = work.c, work.core, work.slot
    layer_row = LAYER(program, program.layers, slot.layer)
    if operand > 0:
        index = layer_row.entry + operand - 1
        memory = c * MEMORIES_PER_CORE + MEMORY_SPAD
        base = slot.spad * core.spad_half
    else:
        index = layer_row.entry + layer_row.spad_entries - operand - 1
        memory = c * MEMORIES_PER_CORE + MEMORY_ACC
        base = slot.acc * core.acc_half
    address = base + ENTRY_ROOM(program, program.entries, index).address
    return memory, (address, address + size)


@kernel
def watch_transfer(machine, work, t):
    """Test stop rows when a MOVIN or MOVOUT begins: instruction, DRAM range, SRAM range."""
    program = machine.program
    row, index = work.row, work.instruction
    watch_instruction(machine, index, t)
    base = TILE(program, program.tiles, work.slot.tile).base[row.base] + row.offset
    end = base + (row.n0 - 1) * row.s0 + (row.n1 - 1) * row.s1 + row.len
    outside, inside = int64(STOP_MEMORY_WRITE), int64(STOP_MEMORY_READ)
    if row.op == OP_MOVIN:
        outside, inside = inside, outside
    watch_memory(machine, outside, program.dram_memory, (base, end), t)
    memory, span = room_of(program, work, row.dst, row.size)
    watch_memory(machine, inside, memory, span, t)


@kernel
def push_burst(machine, work, entry, t):
    """Append the requests of a transfer to the core's request list.

    entry  word of what it fills, 0: a store
    """
    chip, c, core = machine.chip, work.c, work.core
    count = core.burst_count
    capacity = chip.burst_capacity
    place = (core.burst_head + count) & (capacity - 1)
    burst = BURST(chip, chip.bursts, c * capacity + place)
    burst.code = work.code
    burst.tile = work.slot.tile
    burst.entry = entry
    burst.index = work.instruction
    core.burst_count = count + 1
    if core.peak_bursts < count + 1:
        core.peak_bursts = count + 1
    chip.bursts_waiting += 1
    chip[chip.sending + (c >> 6)] |= 1 << (c & 63)
    if count + 1 + FREE_BURSTS > capacity:
        chip.bursts_tight = 1
    period = chip.noc_period
    first = (t * chip.core_period + period - 1) // period
    if first <= chip.noc_last:
        first = chip.noc_last + 1
    if chip.noc_next > first:
        chip.noc_next = first
    if is_recording(machine):
        record_count(machine, c * TRACKS_PER_CORE + TRACK_REQUESTS, t, count + 1)
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_REQUESTS, count, count + 1, t)


@kernel
def start_load(machine, c, core, t):
    """Take the head of LD's queue: create its entry, and append its requests to the list."""
    chip = machine.chip
    if is_recording(machine):
        record_load(machine, c, core.load_ring[1], t)
    slot = core.slot[core.load_ring[1]]
    work = work_of(machine.program, c, core, slot, core.load_ring[0])
    count = core.loads - 1
    core.loads = count
    for index in range(2 * count):
        core.load_ring[index] = core.load_ring[index + 2]
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_LD, count + 1, count, t)
        watch_transfer(machine, work, t)
    entry = entry_of(chip, core, slot, work.row.dst)
    # One fill stands for "requests are still being made"; it goes when the burst is finished.
    create_entry(machine, work, entry, t)
    push_burst(machine, work, word_of(chip, entry), t)


@kernel
def start_store(machine, c, core, t):
    """Take the head of ST's queue if its entry is valid. The tile does not wait for the writes."""
    slot = core.slot[core.store_ring[1]]
    work = work_of(machine.program, c, core, slot, core.store_ring[0])
    entry = entry_of(machine.chip, core, slot, work.row.dst)
    if not is_valid(entry, t):
        return
    if is_recording(machine):
        record_store(machine, c, entry.writer, core.store_ring[1], t)
    count = core.stores - 1
    core.stores = count
    for index in range(2 * count):
        core.store_ring[index] = core.store_ring[index + 2]
    if is_recording(machine):
        record_flow(machine, t, entry.writer, work.instruction)
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_ST, count + 1, count, t)
        watch_transfer(machine, work, t)
    push_burst(machine, work, int64(0), t)
    if work.code + 1 == slot.end:
        slot.done = 1
        if is_recording(machine):
            record_tile_done(machine, c, entry.writer, t)


@inlined
def has_room(core, op):
    """Return whether the pipeline of a compute instruction takes another one."""
    return core.vec < 0 if is_vector_op(op) else core.gemm_count < core.height


@inlined
def can_start(machine, core, slot, code, t):
    """Return whether a compute instruction has its sources and room in its pipeline."""
    chip, program = machine.chip, machine.program
    row = CODE(program, program.code, code)
    if not has_room(core, row.op):
        return False
    return has_operand(chip, core, slot, row.src0, t) and has_operand(chip, core, slot, row.src1, t)


@inlined
def watch_compute(machine, work, t):
    """Test stop rows when a compute instruction is issued: instruction, operands."""
    program = machine.program
    row, index = work.row, work.instruction
    watch_instruction(machine, index, t)
    for word in (CODE.src0, CODE.src1):
        if row[word] != 0:
            size = entry_of(machine.chip, work.core, work.slot, row[word]).bytes
            memory, span = room_of(program, work, row[word], size)
            watch_memory(machine, int64(STOP_MEMORY_READ), memory, span, t)
    if row.dst != 0:
        memory, span = room_of(program, work, row.dst, row.size)
        watch_memory(machine, int64(STOP_MEMORY_WRITE), memory, span, t)


@inlined
def issue_one(machine, c, core, slot_index, t):
    """Issue the head of a tile's program to its queue if possible; returns whether it was issued."""
    chip = machine.chip
    slot = core.slot[slot_index]
    code = slot.pc
    work = work_of(machine.program, c, core, slot, code)
    row, op = work.row, work.row.op
    if op == OP_MOVIN:
        if entry_of(chip, core, slot, row.dst).left >= 0:
            fault(chip, c, int64(FAULT_ENTRY_EXISTS), work.instruction)
            return False
        if not has_operand(chip, core, slot, row.src0, t):
            return False
        count = core.loads
        ring = core.load_ring
        core.loads = count + 1
        queue = QUEUE_LD
    elif op == OP_MOVOUT or op == OP_MOVOUT_POOL:
        if not is_valid(entry_of(chip, core, slot, row.dst), t):
            return False
        if not has_operand(chip, core, slot, row.src0, t):
            return False
        count = core.stores
        if count == 32:
            fault(chip, c, int64(FAULT_QUEUE), work.instruction)
            return False
        ring = core.store_ring
        core.stores = count + 1
        queue = QUEUE_ST
    else:
        if not can_start(machine, core, slot, code, t):
            return False
        slot.pc = code + 1
        if is_watched(machine):
            watch_compute(machine, work, t)
        # The slot between issue and pipeline is empty again after one cycle, because an instruction
        # is issued only when it can start, and nothing in between can prevent it.
        if is_vector_op(op):
            start_vector(machine, work, slot_index, t)
        else:
            start_gemm(machine, work, slot_index, t)
        return True
    if row.src0 != 0 and is_recording(machine):
        filled = entry_of(chip, core, slot, row.src0).valid
        record_operands(machine, work, slot_index, filled, t)
    ring[2 * count] = code
    ring[2 * count + 1] = slot_index
    slot.pc = code + 1
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + queue, count, count + 1, t)
    return True


@inlined
def issue(machine, c, core, t):
    """Issue at most one instruction, looking first at the tile that issued last."""
    tiles = core.tiles
    if tiles == 0:
        return False
    turn = core.turn
    if turn >= tiles:
        turn %= tiles
    for offset in range(tiles):
        index = turn + offset
        if index >= tiles:
            index -= tiles
        slot_index = core.order[index]
        slot = core.slot[slot_index]
        if slot.pc < slot.end and issue_one(machine, c, core, slot_index, t):
            core.turn = index
            return True
    return False


@inlined
def release_tile(core):
    """Release the first resident tile that is done."""
    for index in range(core.tiles):
        slot = core.slot[core.order[index]]
        if slot.done == 1 and slot.pc == slot.end:
            finish_tile(core, slot.tile)
            if index == 0:
                core.order[0] = core.order[1]
            core.tiles -= 1
            return


@inlined
def known_time(entry, t):
    """Return the cycle after `t` at which an entry is known to become valid, FAR if it is not known."""
    if entry.left == 0 and entry.valid > t:
        return entry.valid
    return FAR


@inlined
def source_time(machine, core, slot, code, t):
    """Return the earliest known validity after `t` among the operands an instruction waits for."""
    chip, program = machine.chip, machine.program
    row = CODE(program, program.code, code)
    earliest = FAR
    if row.src0 != 0:
        earliest = known_time(entry_of(chip, core, slot, row.src0), t)
    if row.src1 != 0:
        other = known_time(entry_of(chip, core, slot, row.src1), t)
        if other < earliest:
            earliest = other
    return earliest


@inlined
def issue_time(machine, core, slot, t):
    """Return the earliest cycle after `t` in which the head of a tile's program may be issued, as far as
    known."""
    program = machine.program
    code = slot.pc
    row = CODE(program, program.code, code)
    op = row.op
    if op == OP_MOVIN or op == OP_MOVOUT or op == OP_MOVOUT_POOL:
        if op != OP_MOVIN:
            entry = entry_of(machine.chip, core, slot, row.dst)
            if not is_valid(entry, t + 1):
                return known_time(entry, t)
        if has_operand(machine.chip, core, slot, row.src0, t + 1):
            return t + 1
        return source_time(machine, core, slot, code, t)
    if not has_room(core, op):
        return FAR  # it waits for a retirement, which is an event of its own
    return t + 1 if can_start(machine, core, slot, code, t + 1) else source_time(machine, core, slot, code, t)


@inlined
def next_wake(machine, core, t):
    """Return the next cycle in which this core may do something, as far as its state tells."""
    program = machine.program
    if core.loads > 0 or core.finished > 0 or (core.tiles < 2 and core.next_tile >= 0):
        return t + 1
    wake = FAR
    if core.gemm_count > 0:
        wake = core.gemm_finish
    if core.vec >= 0 and core.vec_finish < wake:
        wake = core.vec_finish
    if core.stores > 0:
        slot = core.slot[core.store_ring[1]]
        entry = entry_of(machine.chip, core, slot, CODE(program, program.code, core.store_ring[0]).dst)
        if is_valid(entry, t + 1):
            return t + 1
        time = known_time(entry, t)
        if time < wake:
            wake = time
    for index in range(core.tiles):
        slot = core.slot[core.order[index]]
        if slot.pc < slot.end:
            time = issue_time(machine, core, slot, t)
            if time < wake:
                wake = time
        elif slot.done == 1:
            return t + 1
    return wake if wake > t else t + 1


@kernel
def core_cycle(machine, c, t):
    """Run cycle `t` of core `c`, from the report of a finished tile to the next wake-up."""
    chip = machine.chip
    core = CORE(chip, chip.cores + c * chip.core_words)
    if core.finished > 0:
        report_tile(machine, c, core, t)
    if core.tiles < 2:
        if core.next_tile >= 0:
            hand_tile(machine, c, core, t)
        elif chip.sched > 0:
            poll(machine, c, t)
    if core.gemm_count > 0 and core.gemm_finish <= t:
        retire_gemm(machine, c, core, t)
    if core.vec >= 0 and core.vec_finish <= t:
        retire_vector(machine, c, core, t)
    if core.loads > 0:
        start_load(machine, c, core, t)
    if core.stores > 0:
        start_store(machine, c, core, t)
    issue(machine, c, core, t)
    release_tile(core)
    chip[chip.wakes + c] = next_wake(machine, core, t)
