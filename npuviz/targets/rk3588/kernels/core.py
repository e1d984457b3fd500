"""Run one core: registers, CNA streams, CORE stripe by stripe, DPU or PPU, write; one task after the
other."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import (
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    is_recording,
    is_watched,
    record_interval,
    watch_instruction,
    watch_memory,
    watch_node,
    watch_queue,
)
from npuviz.targets.rk3588.kernels.bus import close_stream, count_units
from npuviz.targets.rk3588.kernels.causes import (
    record_input_cause,
    record_output_cause,
    record_stream_cause,
    record_task_cause,
)
from npuviz.targets.rk3588.kernels.records import (
    ACCESS,
    CORE,
    CORE_BUSY,
    CORE_DONE,
    CORE_IDLE,
    CORE_WAITING,
    FAR,
    KIND_DPU,
    KIND_GROUP,
    KIND_INTERRUPT,
    KIND_PPU,
    KIND_REGISTERS,
    KIND_STRIPE,
    KIND_WAIT_DATA,
    KIND_WAIT_OUTPUT,
    KIND_WAIT_WEIGHTS,
    NODE,
    PHASE_IDLE,
    PHASE_REGISTERS,
    PHASE_RUN,
    RESULT,
    STATUS_HANG,
    STREAM_COMMANDS,
    STREAM_FEATURE,
    STREAM_OPERAND,
    STREAM_WEIGHT,
    STREAM_WRITE,
    STREAMS,
    STRIPE_RING,
    TASK,
    TRACK_CORE,
    TRACK_DPU,
    TRACK_INTERRUPT,
    TRACK_PPU,
    TRACK_STRIPES,
    TRACK_TASK,
    TRACKS_PER_CORE,
)


@inlined
def task_at(program, index):
    """Return a task by its number."""
    return TASK(program, program.tasks, index)


@kernel
def note_completion(chip, entry, t):
    """Append a completion to the log, which values depend on."""
    row = chip.log + 2 * chip.log_count
    chip[row] = entry
    chip[row + 1] = t
    chip.log_count += 1


@kernel
def node_started(machine, node_number, t):
    """Note that work of a graph node starts; test stop rows if it is the first."""
    chip = machine.chip
    if node_number >= 0 and NODE(chip, chip.nodes, node_number).started == 0:
        NODE(chip, chip.nodes, node_number).started = 1
        if is_watched(machine):
            watch_node(machine, STOP_NODE_START, node_number, t)


@kernel
def node_progress(machine, node_number, t):
    """Note that one piece of a graph node's work is done; test stop rows if it was the last."""
    chip = machine.chip
    if node_number >= 0:
        node = NODE(chip, chip.nodes, node_number)
        node.left -= 1
        if node.left == 0 and is_watched(machine):
            watch_node(machine, STOP_NODE_END, node_number, t)


@kernel
def watch_accesses(machine, task, is_write, t):
    """Test stop rows about the memory that a task reads or writes."""
    program = machine.program
    for n in range(task.accesses):
        access = ACCESS(program, program.accesses, task.access + n)
        if access.write == is_write:
            test = STOP_MEMORY_WRITE if is_write else STOP_MEMORY_READ
            watch_memory(machine, test, program.memory_ddr, (access.low, access.high), t)


@kernel
def begin_task(machine, number, core, t):
    """Begin the next task of the job, whose registers are read first."""
    program = machine.program
    index = core.next
    task = task_at(program, index)
    core.task = index
    core.next += 1
    core.phase = PHASE_REGISTERS
    core.start = t
    core.until = t + machine.chip.task_overhead
    for which in range(STREAMS):
        stream = core.streams[which]
        stream.total = 0
        stream.done = 0
        stream.start = -1
    core.streams[STREAM_COMMANDS].total = task.command_bytes
    core.core_state = CORE_IDLE
    core.group = 0
    core.atom = 0
    core.group_start = -1
    core.stripes = 0
    core.out_until = FAR
    core.out_drained = 0
    stripes = (task.atoms + program.stripe - 1) // program.stripe
    core.out_total = task.groups * stripes
    core.pending = 0
    core.core_busy = core.out_busy = 0
    core.wait_data = core.wait_weights = core.wait_output = 0
    core.cause = 0
    node_started(machine, task.node, t)
    if is_watched(machine):
        watch_instruction(machine, task.instruction, t)
        watch_accesses(machine, task, 0, t)
        tasks = number * program.queues_per_core
        left = core.end - core.next
        watch_queue(machine, tasks, left + 1, left, t)


@kernel
def _open_streams(core, task):
    core.streams[STREAM_FEATURE].total = task.feature_bytes
    weights = task.weight_bytes
    if weights > task.weight_room:
        weights = task.weight_room
    core.streams[STREAM_WEIGHT].total = weights
    core.streams[STREAM_OPERAND].total = task.operand_bytes


@kernel
def _end_wait(machine, number, core, task, t):
    if core.core_state == CORE_WAITING and core.since < t:
        waited = t - core.since
        if core.cause == KIND_WAIT_DATA:
            core.wait_data += waited
        elif core.cause == KIND_WAIT_WEIGHTS:
            core.wait_weights += waited
        else:
            core.wait_output += waited
        if is_recording(machine) and task.factor > 0:
            track = number * TRACKS_PER_CORE + TRACK_STRIPES
            record_interval(machine, track, core.cause, (core.since, t), task.instruction)
        if is_recording(machine):
            record_input_cause(machine, number, core, task, t)
    core.since = t


@kernel
def _end_stripe(machine, number, core, task, t):
    """End a stripe of CORE: it waits in the accumulator for the DPU."""
    core.ring[2 * core.stripes] = core.atoms
    core.ring[2 * core.stripes + 1] = core.group
    core.stripes += 1
    core.core_state = CORE_IDLE
    core.atom += core.atoms
    is_shown = is_recording(machine) and task.factor > 0
    first = number * TRACKS_PER_CORE
    if is_shown:
        record_interval(machine, first + TRACK_STRIPES, KIND_STRIPE, (core.core_start, t), task.instruction)
    if is_watched(machine):
        queue = number * machine.program.queues_per_core + 1
        watch_queue(machine, queue, core.stripes - 1, core.stripes, t)
    if core.atom >= task.atoms:
        if is_shown:
            record_interval(machine, first + TRACK_CORE, KIND_GROUP, (core.group_start, t), task.instruction)
        core.atom = 0
        core.group += 1
        core.group_start = -1
        room = core.group * task.group_bytes + task.weight_room
        if room > task.weight_bytes:
            room = task.weight_bytes
        core.streams[STREAM_WEIGHT].total = room
        if is_shown:
            record_stream_cause(machine, number, STREAM_WEIGHT, TRACK_STRIPES, t)
        if core.group == task.groups:
            core.core_state = CORE_DONE


@kernel
def _missing(core, task, atoms):
    """Return the KIND_WAIT_ for what the next stripe lacks, 0 if nothing."""
    if core.stripes >= STRIPE_RING:
        return KIND_WAIT_OUTPUT
    row = (core.atom + atoms - 1) // task.row_atoms
    needed = (row * task.stride + task.reach) * task.row_bytes
    if needed > task.feature_bytes:
        needed = task.feature_bytes
    if core.streams[STREAM_FEATURE].done < needed:
        return KIND_WAIT_DATA
    needed = (core.group + 1) * task.group_bytes
    if needed > task.weight_bytes:
        needed = task.weight_bytes
    if core.streams[STREAM_WEIGHT].done < needed:
        return KIND_WAIT_WEIGHTS
    return 0


@kernel
def _start_stripe(machine, number, core, task, t):
    program = machine.program
    atoms = task.atoms - core.atom
    if atoms > program.stripe:
        atoms = program.stripe
    cause = _missing(core, task, atoms)
    if cause != 0:
        if core.core_state != CORE_WAITING or cause != core.cause:
            _end_wait(machine, number, core, task, t)
            core.core_state = CORE_WAITING
            core.since = t
            core.cause = cause
        return
    _end_wait(machine, number, core, task, t)
    core.core_state = CORE_BUSY
    core.atoms = atoms
    core.core_start = t
    cycles = (atoms * task.factor * machine.chip.core_cost + 65535) >> 16
    core.core_busy += cycles
    core.core_until = t + (cycles if cycles > 0 else 1)
    if core.group_start < 0:
        core.group_start = t


@kernel
def _end_output(machine, number, core, task, t):
    """End a stripe in DPU or PPU: its bytes go to the writer."""
    if is_recording(machine):
        is_pooling = task.is_pooling != 0
        track = number * TRACKS_PER_CORE + (TRACK_PPU if is_pooling else TRACK_DPU)
        kind = KIND_PPU if is_pooling else KIND_DPU
        record_interval(machine, track, kind, (core.out_start, t), task.instruction)
        record_stream_cause(machine, number, STREAM_WRITE, track - number * TRACKS_PER_CORE, t)
    if task.is_pooling != 0:
        core.ppu_busy += t - core.out_start
    core.out_until = FAR
    count_units(machine, core, t)
    core.out_drained += 1
    core.streams[STREAM_WRITE].total += core.out_bytes
    core.pending += core.out_bytes


@kernel
def _start_output(machine, number, core, task, t):
    if core.pending > machine.chip.backlog:
        return
    stream = core.streams[STREAM_OPERAND]
    needed = task.operand_bytes * (core.out_drained + 1) // core.out_total
    if stream.done < needed:
        return
    if is_recording(machine):
        record_output_cause(machine, number, core, task, t)
    atoms, group = core.ring[0], core.ring[1]
    core.stripes -= 1
    for n in range(2 * core.stripes):
        core.ring[n] = core.ring[n + 2]
    if is_watched(machine):
        queue = number * machine.program.queues_per_core + 1
        watch_queue(machine, queue, core.stripes + 1, core.stripes, t)
    is_last = group == task.groups - 1
    cost = atoms * (task.out_cost_last if is_last else task.out_cost)
    cycles = (cost + 1023) >> 10
    if cycles < 1:
        cycles = 1
    core.out_bytes = atoms * (task.write_last if is_last else task.write_atom)
    core.out_start = t
    core.out_until = t + cycles
    core.out_busy += cycles
    count_units(machine, core, t)


@kernel
def _is_complete(core):
    if core.core_state != CORE_DONE or core.out_drained < core.out_total:
        return False
    for which in range(STREAMS):
        stream = core.streams[which]
        if stream.done < stream.total:
            return False
    return True


@kernel
def _end_task(machine, number, core, task, t):
    chip = machine.chip
    index = core.task
    record = RESULT(chip, chip.records, index)
    record.start = core.start
    record.end = t
    if is_recording(machine):
        record_task_cause(machine, number, task, t)
    record.mac = core.core_busy
    record.out = core.out_busy
    record.data = core.wait_data
    record.weights = core.wait_weights
    record.output = core.wait_output
    total = 0
    for which in range(STREAMS):
        close_stream(machine, number, which, t)
        total += core.streams[which].done
    record.bytes = total
    if is_recording(machine):
        track = number * TRACKS_PER_CORE + TRACK_TASK
        record_interval(machine, track, task.kind, (core.until, t), task.instruction)
        track = number * TRACKS_PER_CORE + TRACK_INTERRUPT
        record_interval(machine, track, KIND_INTERRUPT, (t, t + 1), task.instruction)
    note_completion(chip, index, t)
    node_progress(machine, task.node, t)
    if is_watched(machine):
        watch_accesses(machine, task, 1, t)
    core.phase = PHASE_IDLE
    core.task = -1


@kernel
def core_step(machine, number, t):
    """Run everything that a core does at time `t`."""
    chip, program = machine.chip, machine.program
    core = CORE(chip, chip.cores, number)
    if core.phase == PHASE_REGISTERS and core.until <= t:
        task = task_at(program, core.task)
        if core.streams[STREAM_COMMANDS].done < task.command_bytes:
            return
        # Words may arrive later than the overhead ends: the task starts when both are over.
        core.until = t
        if is_recording(machine) and core.start < t:
            track = number * TRACKS_PER_CORE + TRACK_TASK
            record_interval(machine, track, KIND_REGISTERS, (core.start, t), task.instruction)
        if task.hangs != 0:
            chip.status = STATUS_HANG
            chip.hang = core.task
            return
        core.phase = PHASE_RUN
        core.since = t
        _open_streams(core, task)
        if is_recording(machine):
            for which in (STREAM_FEATURE, STREAM_WEIGHT, STREAM_OPERAND):
                record_stream_cause(machine, number, which, TRACK_TASK, t)
    if core.phase == PHASE_RUN:
        task = task_at(program, core.task)
        if core.core_state == CORE_BUSY and core.core_until <= t:
            _end_stripe(machine, number, core, task, t)
        if core.out_until <= t:
            _end_output(machine, number, core, task, t)
        if core.out_until == FAR and core.stripes > 0:
            _start_output(machine, number, core, task, t)
        if core.core_state == CORE_IDLE or core.core_state == CORE_WAITING:
            _start_stripe(machine, number, core, task, t)
        if _is_complete(core):
            _end_task(machine, number, core, task, t)
    if core.phase == PHASE_IDLE and core.next < core.end:
        begin_task(machine, number, core, t)


@inlined
def core_wake(core):
    """Return when a core has something to do by itself."""
    time = FAR
    if core.phase == PHASE_REGISTERS:
        time = core.until
    elif core.phase == PHASE_RUN:
        if core.core_state == CORE_BUSY:
            time = core.core_until
        if core.out_until < time:
            time = core.out_until
    return time
