"""The two pipelines of a core: the systolic array (GEMM) and the vector unit.

Ref: systolic.md section 6 for every latency.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    is_recording,
    is_watched,
    record_flow,
    record_interval,
    watch_queue,
)
from npuviz.targets.systolic.kernels.causes import record_entry, record_operands, record_tile_done
from npuviz.targets.systolic.kernels.program_records import (
    ENTRY_ROOM,
    LAYER,
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
    GEMM,
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
    QUEUE_EX,
    QUEUE_VEC,
    QUEUES_PER_CORE,
    TRACK_EX,
    TRACK_VEC,
    TRACKS_PER_CORE,
)
from npuviz.targets.systolic.kernels.sram import create_entry, entry_of, work_of

MINIMUM_ROWS = 4  # Ref: systolic.md section 6: an instruction streams at least four rows


@inlined
def is_vector_op(op):
    """Return whether an opcode runs on the vector unit."""
    return op > OP_GEMM


@inlined
def vector_latency(core, code):
    """Return the cycles of a vector instruction on core `k`."""
    op = code.op
    lat = core.latency
    step = core.vector_bytes
    size = code.vbytes
    rows = code.tile_m
    steps = (size + step - 1) // step
    tree = 1
    rest = size
    while rest > step:
        rest = (rest + step - 1) // step
        tree += rest
    tree_latency = tree * lat[LAT_ADDTREE]
    if op == OP_ADD:
        return steps * lat[LAT_ADD]
    if op == OP_MUL:
        return steps * lat[LAT_MUL]
    if op == OP_MAC:
        return steps * lat[LAT_MAC]
    if op == OP_DIV:
        return steps * lat[LAT_DIV]
    if op == OP_EXP:
        return steps * lat[LAT_EXP]
    if op == OP_GELU or op == OP_SWISH:
        return steps * lat[LAT_GELU]
    if op == OP_COMP:
        return steps
    if op == OP_ADDTREE:
        return tree_latency * rows
    if op == OP_SOFTMAX:
        return 2 * tree_latency * rows + steps * (lat[LAT_ADD] + lat[LAT_EXP] + lat[LAT_MUL])
    if op == OP_LAYERNORM:
        each = 2 * lat[LAT_ADD] + 3 * lat[LAT_MUL]
        return 2 * tree_latency + 2 * lat[LAT_SCALAR_MUL] + lat[LAT_SQRT] + steps * each * rows
    return 0


@inlined
def begin_result(machine, work, t):
    """Add one outstanding computation to the destination's entry, creating it if absent."""
    operand = work.row.dst
    if operand == 0:
        return
    entry = entry_of(machine.chip, work.core, work.slot, operand)
    if entry.left < 0:
        create_entry(machine, work, entry, t)
    else:
        entry.left += 1


@inlined
def end_result(chip, work, t):
    """Remove the outstanding computation again; the instruction is now the entry's writer."""
    operand = work.row.dst
    if operand == 0:
        return
    entry = entry_of(chip, work.core, work.slot, operand)
    entry.left -= 1
    entry.writer = work.instruction
    entry.flowed = 0
    if entry.valid < t:
        entry.valid = t


@inlined
def note_user(machine, entry, instruction, t):
    """Record the arrow from an entry's writer to its first user."""
    if entry.flowed == 0 and entry.writer >= 0:
        entry.flowed = 1
        if is_recording(machine):
            record_flow(machine, t, entry.writer, instruction)


@inlined
def use_sources(machine, work, t):
    """Record the use of the source entries; returns the cycle in which the last one became valid."""
    chip, core, slot = machine.chip, work.core, work.slot
    code, instruction = work.row, work.instruction
    filled = 0
    if code.src0 != 0:
        entry = entry_of(chip, core, slot, code.src0)
        filled = entry.valid
        note_user(machine, entry, instruction, t)
    if code.src1 != 0:
        entry = entry_of(chip, core, slot, code.src1)
        if entry.valid > filled:
            filled = entry.valid
        note_user(machine, entry, instruction, t)
    return filled


@inlined
def bank_map(machine, core, slot, operand):
    """Return a bit map of the scratchpad banks that an operand of a resident tile lies in."""
    program = machine.program
    banks = core.banks
    if banks == 0 or operand <= 0:
        return 0
    layer_row = LAYER(program, program.layers, slot.layer)
    address = ENTRY_ROOM(program, program.entries, layer_row.entry + operand - 1).address
    first = slot.spad * core.spad_half + address
    size = entry_of(machine.chip, core, slot, operand).bytes
    last = first + (size - 1 if size > 0 else 0)
    found = 0
    for bank in range(first * banks // (2 * core.spad_half), last * banks // (2 * core.spad_half) + 1):
        found |= 1 << bank
    return found


@inlined
def conflict_cycles(machine, work, rows, is_preload):
    """Return the cycles by which bank conflicts of the scratchpad delay an instruction.

    What stays in the array is loaded while the instruction before streams; with one port and a bank in
    common, it waits. An array whose results stay reads both operands at once. Assumed: fills conflict with
    no access.
    """
    core, slot, code = work.core, work.slot, work.row
    if core.banks == 0 or core.ports > 1:
        return 0
    first = bank_map(machine, core, slot, code.src0)
    second = bank_map(machine, core, slot, code.src1)
    dataflow = core.dataflow
    if dataflow == DATAFLOW_OUTPUTS:
        return rows if first & second else 0
    stays = second if dataflow == DATAFLOW_WEIGHTS else first
    before = core.stream_banks
    core.stream_banks = first if dataflow == DATAFLOW_WEIGHTS else second
    return core.height if is_preload and stays & before else 0


@inlined
def start_gemm(machine, work, slot_index, t):
    """Let a GEMM-type instruction that is issued in cycle `t` enter the array in the next one.

    Its finish is known now. What retires in that next cycle retires before it enters.
    """
    chip, c, core, row = machine.chip, work.c, work.core, work.row
    enter = t + 1
    height = core.height
    rows = row.n
    if rows < MINIMUM_ROWS:
        rows = MINIMUM_ROWS
    is_preload = row.op == OP_GEMM_PRELOAD
    lost = conflict_cycles(machine, work, rows, is_preload)
    if lost > 0 and core.dataflow == DATAFLOW_OUTPUTS:
        rows += lost
        core.conflicts += lost
        lost = 0
    count = core.gemm_count
    ahead = count
    if count > 0 and core.gemm_finish <= enter:
        ahead -= 1
    if ahead > 0:
        offset = core.gemm_rows
        if is_preload and offset < height:
            offset = height
        if lost > 0:
            # Nothing of the exchange hides behind the rows before.
            core.conflicts += core.gemm_rows + height - offset
            offset = core.gemm_rows + height
        start = core.gemm_start + offset
        if start < enter:
            start = enter
    elif is_preload and core.dataflow != DATAFLOW_OUTPUTS:
        start = enter + 2 * height - 1
    else:
        start = enter
    finish = start + height + core.width - 2 + rows
    if core.dataflow == DATAFLOW_OUTPUTS:
        # Assumed: nothing has to be loaded first, but results leave row by row after the last sum.
        finish += height
    place = core.gemm_head + count
    if place >= height:
        place -= height
    gemm = GEMM(core, core.ring, place)
    gemm.finish = finish
    gemm.start = start
    gemm.code = work.code
    gemm.slot = slot_index
    gemm.enter = enter
    gemm.idle = core.ex_end
    gemm.filled = use_sources(machine, work, t)
    if is_recording(machine):
        record_operands(machine, work, slot_index, gemm.filled, t)
    gemm.arrived = work.slot.since
    core.gemm_start = start
    core.gemm_rows = rows
    core.gemm_count = count + 1
    core.ex_end = start + rows
    if count == 0:
        core.gemm_finish = finish
    if core.peak_gemm < count + 1:
        core.peak_gemm = count + 1
    chip.gemm_count += 1
    if is_preload:
        chip.preload_count += 1
    begin_result(machine, work, t)
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_EX, count, count + 1, t)


@inlined
def count_wait(machine, c, core, gemm, instruction):
    """Count and record why the array was idle until the instruction of a ring entry entered.

    An instruction waits as soon as its tile is there; before that the array has nothing to wait with.
    """
    track = c * TRACKS_PER_CORE + TRACK_EX
    begin, enter = gemm.idle, gemm.enter
    for kind, known, waiting in (
        (KIND_WAIT_EMPTY, gemm.arrived, int64(-1)),
        (KIND_WAIT_BANDWIDTH, gemm.filled, instruction),
        (KIND_WAIT_DEPENDENCY, enter, instruction),
    ):
        end = known if known < enter else enter
        if end > begin:
            core.ex_waited += end - begin
            if is_recording(machine):
                record_interval(machine, track, kind, (begin, end), waiting)
            begin = end


@inlined
def rows_of(core, gemm):
    """Return the cycles for which the rows of a ring entry stream into the array."""
    drain = core.height + core.width - 2
    if core.dataflow == DATAFLOW_OUTPUTS:
        drain += core.height
    return gemm.finish - gemm.start - drain


@inlined
def retire_gemm(machine, c, core, t):
    """Remove the finished head from the array."""
    head = core.gemm_head
    gemm = GEMM(core, core.ring, head)
    slot = core.slot[gemm.slot]
    work = work_of(machine.program, c, core, slot, gemm.code)
    row, instruction = work.row, work.instruction
    end_result(machine.chip, work, t)
    slot.gemms += 1
    core.macs += row.tile_m * row.tile_k * row.tile_n
    start, idle = gemm.start, gemm.idle
    end = start + rows_of(core, gemm)
    if gemm.enter > idle:
        count_wait(machine, c, core, gemm, instruction)
        idle = gemm.enter
        if is_recording(machine):
            record_entry(machine, c * TRACKS_PER_CORE + TRACK_EX, gemm.slot, idle)
    core.ex_busy += end - idle
    if is_recording(machine):
        track = c * TRACKS_PER_CORE + TRACK_EX
        if start > idle:
            record_interval(machine, track, int64(KIND_LOAD_WEIGHTS), (idle, start), instruction)
        record_interval(machine, track, row.op, (start, end), instruction)
    if work.code + 1 == slot.end:
        slot.done = 1
        if is_recording(machine):
            record_tile_done(machine, c, instruction, t)
    count = core.gemm_count - 1
    core.gemm_count = count
    head += 1
    if head >= core.height:
        head = 0
    core.gemm_head = head
    if count > 0:
        core.gemm_finish = GEMM(core, core.ring, head).finish
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_EX, count + 1, count, t)


@inlined
def start_vector(machine, work, slot_index, t):
    """Let a vector instruction that is issued in cycle `t` start in the next one; its finish is then
    known."""
    core, row = work.core, work.row
    enter = t + 1
    # Ref: systolic.md section 5: it is retired in a later cycle than it starts, even with latency 0.
    latency = max(1, vector_latency(core, row))
    core.vec = work.code
    core.vec_slot = slot_index
    core.vec_start = enter
    core.vec_finish = enter + latency
    core.vec_busy += latency
    filled = use_sources(machine, work, t)
    if is_recording(machine):
        record_operands(machine, work, slot_index, filled, t)
    begin_result(machine, work, t)
    if is_watched(machine):
        watch_queue(machine, work.c * QUEUES_PER_CORE + QUEUE_VEC, int64(0), int64(1), t)


@kernel
def retire_vector(machine, c, core, t):
    """Remove the finished instruction from the vector unit."""
    slot = core.slot[core.vec_slot]
    work = work_of(machine.program, c, core, slot, core.vec)
    end_result(machine.chip, work, t)
    slot.vectors += 1
    if is_recording(machine) and core.vec_finish > core.vec_start:
        track = c * TRACKS_PER_CORE + TRACK_VEC
        record_interval(machine, track, work.row.op, (core.vec_start, core.vec_finish), work.instruction)
        record_entry(machine, track, core.vec_slot, core.vec_start)
    if work.code + 1 == slot.end:
        slot.done = 1
        if is_recording(machine):
            record_tile_done(machine, c, work.instruction, t)
    core.vec = -1
    if is_watched(machine):
        watch_queue(machine, c * QUEUES_PER_CORE + QUEUE_VEC, int64(1), int64(0), t)
