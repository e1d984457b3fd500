"""Activate and block tasks of a processor, and choose and start the next one."""

import numpy as np

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.record_kernels import word_of
from npuviz.sim.parts.watch_kernels import is_recording
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.causes import record_task_start
from npuviz.targets.wavelet.kernels.dsd.operand import pop_queue
from npuviz.targets.wavelet.kernels.jitter import MORE_TASK, UNIT_TASK, more_cycles
from npuviz.targets.wavelet.kernels.log_numbers import LOG_ABSORBED, LOG_CONTROL_UNBOUND, LOG_UNBOUND_TASK
from npuviz.targets.wavelet.kernels.memory import wrapped
from npuviz.targets.wavelet.kernels.program_records import CODE, FUNCTION, LAYOUT, ROTATION, TASK
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    FLUSH_TASK,
    FLUSHES,
    FRAME,
    MARK_CONTROL,
    NONE,
    QUEUE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry
from npuviz.targets.wavelet.kernels.taps import READ_HOST, READ_WORD, is_tapped, tap_arguments
from npuviz.targets.wavelet.kernels.time.events import band_of, hazard, wake_processor

TEARDOWN_ID = 29
LAUNCH_ID = np.int64(28)
"""Task id of the host library, which gives launched functions their place in the order of ids. Ref: TID."""
LAUNCH_SHIFT = 20
"""Shift in BLOCK.launch of the first cycle at which a function may be launched, above the function; the
cycle is kept because the wheel may be too short for the wait."""
NO_TASK = -1
PICK_LOCAL = 1
PICK_DATA = 2
PICK_CONTROL = 3
PICK_TEARDOWN = 4
PICK_LAUNCH = 5
PICK_DROP = 6
PICK_FLUSH = 7
NO_WORD, BY_HOST = (ZERO, NONE, ZERO), (ZERO, np.int64(-2), ZERO)


@kernel
def activate(machine, pe, number, line):
    """Make a local task active; an id without a task, and a second activation, are logged with `line`."""
    wafer, program = machine.wafer, machine.program
    is_bound = number >= 0 and number <= 62 and pe.code >= 0
    if not is_bound or program[CODE(program, pe.code).local + number] < 0:
        hazard(wafer, pe.node, LOG_UNBOUND_TASK, number, line)
        return
    if (pe.active >> number) & 1:
        hazard(wafer, pe.node, LOG_ABSORBED, number, line)
    pe.active |= 1 << number


@kernel
def block(pe, kind, number, blocks):
    """Block or unblock a microthread, or an entry of the table of task ids."""
    if number < 0 or number > 62:
        return
    word = BLOCK.ut_blocked if kind == isa.ID_UT else BLOCK.blocked
    if blocks:
        pe[word] |= 1 << number
    else:
        pe[word] &= ~(1 << number)


@inlined
def _is_better(rank, best):
    return rank < best


@inlined
def turn_of(number, after, behind):
    """Return the rank of a task id: how many ids its turn is away, plus `behind` for lower priorities."""
    return ((number - after) & 63) + behind


@inlined
def may_start(pe):
    """Return whether `pick_task` may find a task."""
    tasks = (pe.active & ~pe.blocked) | pe.teardown | ((pe.flush >> FLUSH_TASK) & FLUSHES)
    return tasks != 0 or (pe.filled & ~pe.claimed) != 0 or pe.launch >= 0


@kernel
def pick_task(machine, pe, t):
    """Return the task to run next: pick | what << 8, or -1.

    Higher priority goes first, then the first id after that of the task that started last. Assumed; "the
    lowest id first" starves game-of-life (EX).

    Words that belong to no task now stay in their queues. A control word starts the task of the id that it
    names: a control task, or the data task of its own queue, since kinds share one table. If there is no such
    task, the word is a pick of its own, so that it is dropped.
    """
    program = machine.program
    if pe.code < 0:
        return NO_TASK
    code = CODE(program, pe.code)
    best = 1 << 40
    found = NO_TASK
    high = pe.high
    blocked = pe.blocked
    ready = pe.active & ~blocked
    after = pe.next_id
    if ready:
        top = ready & high
        wanted = top if top else ready
        later = wanted >> after
        number = after + trailing_zeros(later) if later else trailing_zeros(wanted)
        best = turn_of(number, after, 0 if top else 64)
        found = PICK_LOCAL | (number << 8)
    layout = LAYOUT(program, pe.layout)
    mask = pe.filled & ~pe.claimed
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        queue = QUEUE(pe, layout.queue[k])
        if queue.count == 0:
            continue
        head = head_entry(queue)
        if head.ready > t:
            continue
        number = queue.id
        if number < 0 or (blocked >> number) & 1:
            continue
        pick = PICK_DATA
        has_task = TASK(program, code.data, number).function >= 0
        if head.payload & MARK_CONTROL:
            target = (head.payload >> 16) & 63
            if TASK(program, code.control, target).function >= 0:
                if target < 63 and (blocked >> target) & 1:
                    continue
                number = target
                pick = PICK_CONTROL
            elif not has_task or target != number:
                pick = PICK_DROP
        elif not has_task:
            continue
        rank = turn_of(number, after, 0 if number < 63 and (high >> number) & 1 else 64)
        if _is_better(rank, best):
            best = rank
            found = pick | (k << 8)
    is_launched = pe.launch >= 0 and pe.launch >> LAUNCH_SHIFT <= t
    if is_launched and _is_better(turn_of(LAUNCH_ID, after, 64), best):
        best = turn_of(LAUNCH_ID, after, 64)
        found = PICK_LAUNCH
    if pe.teardown and _is_better(turn_of(TEARDOWN_ID, after, 64), best):
        color = trailing_zeros(pe.teardown)
        has_handler = program[code.teardown + color] >= 0 or program[code.local + TEARDOWN_ID] >= 0
        if has_handler and not (blocked >> TEARDOWN_ID) & 1:
            best = turn_of(TEARDOWN_ID, after, 64)
            found = PICK_TEARDOWN | (color << 8)
    flushes = (pe.flush >> FLUSH_TASK) & FLUSHES
    if flushes and _is_better(turn_of(TEARDOWN_ID, after, 64), best):
        found = PICK_FLUSH | (trailing_zeros(flushes) << 8)
    return found


@inlined
def frame_of(wafer, pe):
    """Return the frame of the running function."""
    return FRAME(wafer, pe.frame - FRAME.num_words)


@inlined
def registers_of(wafer, pe):
    """Return the registers of the running function."""
    return frame_of(wafer, pe).registers


@kernel
def open_frame(machine, pe, function, frame):
    """Make the frame of a function the running one; its registers are 0."""
    program = machine.program
    called = FUNCTION(program, CODE(program, pe.code).functions, function)
    for i in range(called.registers):
        frame.registers[i] = 0
    frame.function = function
    pe.function = function
    pe.pc = called.entry
    pe.frame = word_of(machine.wafer, frame) + FRAME.num_words


@kernel
def _begin(machine, pe, function, task, t):
    """Begin a task; return the registers of its function."""
    wafer, program = machine.wafer, machine.program
    code = CODE(program, pe.code)
    frame = FRAME(pe, LAYOUT(program, pe.layout).registers)
    open_frame(machine, pe, function, frame)
    frame.pc = -1
    frame.caller = 0
    frame.result = -1
    frame.stack = code.stack
    frame.call = -1
    pe.stack = code.stack + FUNCTION(program, code.functions, function).frame_bytes
    pe.stack += -pe.stack & 7
    pe.depth = 1
    kind = task >> 16
    number = TEARDOWN_ID if kind == isa.ID_COLOR or kind == isa.ID_OUTPUT_QUEUE else task & 63
    pe.next_id = (number + 1) & 63
    pe.task = task
    pe.task_start = t
    pe.run_start = t
    pe.ready = t + wafer.task_start + more_cycles(machine, pe.node, UNIT_TASK, MORE_TASK)
    pe.task_count += 1
    pe.line = code.first + pe.pc
    band_of(wafer, pe).tasks += 1
    wake_processor(wafer, pe, pe.ready)
    return frame.registers


@kernel
def _rotated(program, pe, number, function):
    """Return the function that a data task starts with: the alternate one when the counter of its rotation is
    full."""
    code = CODE(program, pe.code)
    for i in range(code.num_rotations):
        rotation = ROTATION(program, code.rotations, i)
        if rotation.task == number:
            count = LAYOUT(program, pe.layout).rotation + i
            if pe[count] == rotation.full:
                pe[count] = 0
                return rotation.other
            pe[count] += 1
            return rotation.function
    return function


@kernel
def _arguments(task, registers, payload, is_control):
    """Write the arguments of a task into its first registers: the payload split evenly, low part first."""
    count = task.arguments
    if is_control:
        if count >= 2:
            registers[0] = (payload >> 16) & 63
            registers[1] = wrapped(payload & 0xFFFF, task.types[1])
        elif count == 1:
            registers[0] = wrapped(payload & 0xFFFF, task.types[0])
        return
    width = 32 // count if count > 1 else 32
    for i in range(count):
        kind = task.types[i]
        part = (payload >> (width * i)) & ((1 << width) - 1)
        if kind == isa.T_F16 or kind == isa.T_BF16 or kind == isa.T_CB16:
            registers[i] = part & 0xFFFF
        else:
            registers[i] = wrapped(part, kind)


@kernel
def start_task(machine, pe, pick, t):
    """Start the task that `pick_task` chose."""
    wafer, program = machine.wafer, machine.program
    code = CODE(program, pe.code)
    what = pick & 0xFF
    number = pick >> 8
    if what == PICK_LOCAL:
        pe.active &= ~(1 << number)
        if is_recording(machine):
            record_task_start(machine, pe, pe.ready, NO_WORD, t)
        _begin(machine, pe, program[code.local + number], (isa.ID_LOCAL << 16) | number, t)
    elif what == PICK_LAUNCH:
        function = pe.launch & ((1 << LAUNCH_SHIFT) - 1)
        pe.launch = -1
        if is_recording(machine):
            record_task_start(machine, pe, pe.ready, BY_HOST, t)
        registers = _begin(machine, pe, function, LAUNCH_ID, t)
        for i in range(pe.launch_count):
            registers[i] = machine.host[pe.launch_args + i]
        if is_tapped(machine):
            tap_arguments(machine, pe, READ_HOST, (pe.launch_args, ZERO), pe.launch_count)
    elif what == PICK_TEARDOWN:
        pe.teardown &= ~(1 << number)
        if is_recording(machine):
            record_task_start(machine, pe, pe.ready, (ZERO, pe.torn_by, t), t)
        function = program[code.teardown + number]
        if function < 0:
            function = program[code.local + TEARDOWN_ID]
        _begin(machine, pe, function, (isa.ID_COLOR << 16) | number, t)
    elif what == PICK_FLUSH:
        pe.flush &= ~(1 << (number + FLUSH_TASK))
        function = program[code.empty + number]
        if function < 0:
            function = program[code.local + TEARDOWN_ID]
        if function >= 0:
            if is_recording(machine):
                record_task_start(machine, pe, pe.ready, NO_WORD, t)
            _begin(machine, pe, function, (isa.ID_OUTPUT_QUEUE << 16) | number, t)
        else:
            wake_processor(wafer, pe, t + 1)
    else:
        queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[number])
        identity, arrival = head_entry(queue).identity, head_entry(queue).ready
        marks = head_entry(queue).payload
        payload = pop_queue(wafer, pe, queue, number, t)
        if what == PICK_DROP:
            hazard(wafer, pe.node, LOG_CONTROL_UNBOUND, (payload >> 16) & 63, NONE)
            wake_processor(wafer, pe, t + 1)
            return
        is_control = what == PICK_CONTROL
        task_id = (payload >> 16) & 63 if is_control else queue.id
        task = TASK(program, code.control if is_control else code.data, task_id)
        function = task.function
        if what == PICK_DATA:
            function = _rotated(program, pe, task_id, function)
        kind = isa.ID_CONTROL if is_control else isa.ID_DATA
        if is_recording(machine):
            record_task_start(machine, pe, pe.ready, (marks, identity, arrival), t)
        registers = _begin(machine, pe, function, (kind << 16) | task_id, t)
        pe.event_id = identity
        _arguments(task, registers, payload & 0xFFFF_FFFF, is_control)
        if is_tapped(machine):
            tap_arguments(machine, pe, READ_WORD, (identity, payload & 0xFFFF_FFFF), task.arguments)
