"""Tasks of a processor: activation, blocking, and the choice of the next one."""

import numpy as np

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.dsd.operand import pop_queue
from npuviz.targets.wavelet.kernels.memory import wrapped
from npuviz.targets.wavelet.kernels.program_records import (
    FUNCTION_WORDS,
    G_CONTROL,
    G_DATA,
    G_EMPTY,
    G_FIRST,
    G_FUNCTIONS,
    G_LOCAL,
    G_NUM_ROTATIONS,
    G_ROTATIONS,
    G_STACK,
    G_TEARDOWN,
    L_QUEUE,
    L_REGISTERS,
    L_ROTATION,
    P_TASK_START,
    TASK_WORDS,
)
from npuviz.targets.wavelet.kernels.records import (
    B_ACTIVE,
    B_BLOCKED,
    B_CLAIMED,
    B_CLASS,
    B_DEPTH,
    B_EVENT_ID,
    B_FLUSH,
    B_FRAME,
    B_FUNCTION,
    B_HIGH,
    B_LAUNCH,
    B_LAUNCH_ARGS,
    B_LAUNCH_COUNT,
    B_LINE,
    B_MAIN_MASK,
    B_NEXT_ID,
    B_NODE,
    B_PC,
    B_PROGRAM,
    B_READY,
    B_RUN_START,
    B_STACK,
    B_TASK,
    B_TASK_COUNT,
    B_TASK_START,
    B_TEARDOWN,
    B_UT_BLOCKED,
    BAND_TASKS,
    FLUSH_TASK,
    LOG_ABSORBED,
    LOG_CONTROL_UNBOUND,
    LOG_UNBOUND_TASK,
    MARK_CONTROL,
    NONE,
    Q_COUNT,
    Q_ID,
)
from npuviz.targets.wavelet.kernels.router.ring import head_entry
from npuviz.targets.wavelet.kernels.time.events import band_at, hazard, wake_processor

TEARDOWN_ID = 29
LAUNCH_ID = np.int64(28)
"""Place of launched functions in the order of ids; the host library has it. Ref: TID."""
NO_TASK = -1
PICK_LOCAL = 1
PICK_DATA = 2
PICK_CONTROL = 3
PICK_TEARDOWN = 4
PICK_LAUNCH = 5
PICK_DROP = 6
PICK_FLUSH = 7
FRAME_WORDS = 6
"""Words in front of a frame's registers: return pc, caller's frame, word for the result, caller's stack,
function, instruction of the call."""


@kernel
def activate(s, p, b, number, line):
    """Make a local task active; an id without a task, and a second activation, are logged with `line`."""
    g = s[b + B_PROGRAM]
    if number < 0 or number > 62 or g < 0 or p[p[g + G_LOCAL] + number] < 0:
        hazard(s, s[b + B_NODE], LOG_UNBOUND_TASK, number, line)
        return
    if (s[b + B_ACTIVE] >> number) & 1:
        hazard(s, s[b + B_NODE], LOG_ABSORBED, number, line)
    s[b + B_ACTIVE] |= 1 << number


@kernel
def block(s, b, kind, number, blocks):
    """Block or unblock what an id names: a microthread, or an entry of the table of task ids."""
    word = B_UT_BLOCKED if kind == isa.ID_UT else B_BLOCKED
    if number < 0 or number > 62:
        return
    if blocks:
        s[b + word] |= 1 << number
    else:
        s[b + word] &= ~(1 << number)


@inlined
def _is_better(rank, best):
    return rank < best


@inlined
def turn_of(number, after, behind):
    """Rank of a task id: how long its turn is away, behind those of higher priority."""
    return ((number - after) & 63) + behind


@inlined
def may_start(s, b):
    """Whether it is worth while to ask `pick_task`."""
    tasks = (s[b + B_ACTIVE] & ~s[b + B_BLOCKED]) | s[b + B_TEARDOWN] | (s[b + B_FLUSH] >> FLUSH_TASK)
    return tasks != 0 or (s[b + B_MAIN_MASK] & ~s[b + B_CLAIMED]) != 0 or s[b + B_LAUNCH] >= 0


@kernel
def pick_task(s, p, b, t):
    """The task to run next: pick | what << 8, or -1. Higher priority first, then in turn: the first id after
    that of the task that started last. Assumed; "the lowest id first" starves game-of-life (EX).

    Words that are no task's business now stay in their queues. A control word for an id without a task
    is a pick of its own, so that it is dropped.
    """
    g = s[b + B_PROGRAM]
    if g < 0:
        return NO_TASK
    best = 1 << 40
    found = NO_TASK
    high = s[b + B_HIGH]
    blocked = s[b + B_BLOCKED]
    ready = s[b + B_ACTIVE] & ~blocked
    after = s[b + B_NEXT_ID]
    if ready:
        top = ready & high
        wanted = top if top else ready
        later = wanted >> after
        number = after + trailing_zeros(later) if later else trailing_zeros(wanted)
        best = turn_of(number, after, 0 if top else 64)
        found = PICK_LOCAL | (number << 8)
    c = s[b + B_CLASS]
    mask = s[b + B_MAIN_MASK] & ~s[b + B_CLAIMED]
    while mask:
        k = trailing_zeros(mask)
        mask &= ~(1 << k)
        q = b + p[c + L_QUEUE + k]
        if s[q + Q_COUNT] == 0:
            continue
        entry = head_entry(s, q)
        if s[entry + 2] > t:
            continue
        number = s[q + Q_ID]
        if number < 0 or (blocked >> number) & 1:
            continue
        pick = PICK_DATA
        if s[entry] & MARK_CONTROL:
            target = (s[entry] >> 16) & 63
            if p[p[g + G_CONTROL] + target * TASK_WORDS] >= 0:
                if target < 63 and (blocked >> target) & 1:
                    continue
                number = target
                pick = PICK_CONTROL
            elif p[p[g + G_DATA] + number * TASK_WORDS] < 0:
                pick = PICK_DROP
        elif p[p[g + G_DATA] + number * TASK_WORDS] < 0:
            continue
        rank = turn_of(number, after, 0 if number < 63 and (high >> number) & 1 else 64)
        if _is_better(rank, best):
            best = rank
            found = pick | (k << 8)
    if s[b + B_LAUNCH] >= 0 and _is_better(turn_of(LAUNCH_ID, after, 64), best):
        best = turn_of(LAUNCH_ID, after, 64)
        found = PICK_LAUNCH
    if s[b + B_TEARDOWN] and _is_better(turn_of(TEARDOWN_ID, after, 64), best):
        color = trailing_zeros(s[b + B_TEARDOWN])
        has_handler = p[p[g + G_TEARDOWN] + color] >= 0 or p[p[g + G_LOCAL] + TEARDOWN_ID] >= 0
        if has_handler and not (blocked >> TEARDOWN_ID) & 1:
            best = turn_of(TEARDOWN_ID, after, 64)
            found = PICK_TEARDOWN | (color << 8)
    flushes = s[b + B_FLUSH] >> FLUSH_TASK
    if flushes and _is_better(turn_of(TEARDOWN_ID, after, 64), best):
        found = PICK_FLUSH | (trailing_zeros(flushes) << 8)
    return found


@kernel
def open_frame(s, p, b, function, frame):
    """Make the frame of a function at word `frame`; registers are 0. Returns its first register's word."""
    row = p[s[b + B_PROGRAM] + G_FUNCTIONS] + function * FUNCTION_WORDS
    first = frame + FRAME_WORDS
    for i in range(p[row + 1]):
        s[first + i] = 0
    s[frame + 4] = function
    s[b + B_FUNCTION] = function
    s[b + B_PC] = p[row]
    s[b + B_FRAME] = first
    return first


@kernel
def _begin(s, p, b, function, task, t):
    g = s[b + B_PROGRAM]
    frame = b + p[s[b + B_CLASS] + L_REGISTERS]
    first = open_frame(s, p, b, function, frame)
    s[frame] = -1
    s[frame + 1] = 0
    s[frame + 2] = -1
    s[frame + 3] = p[g + G_STACK]
    s[frame + 5] = -1
    s[b + B_STACK] = p[g + G_STACK] + p[p[g + G_FUNCTIONS] + function * FUNCTION_WORDS + 2]
    s[b + B_STACK] += -s[b + B_STACK] & 7
    s[b + B_DEPTH] = 1
    kind = task >> 16
    number = TEARDOWN_ID if kind == isa.ID_COLOR or kind == isa.ID_OUTPUT_QUEUE else task & 63
    s[b + B_NEXT_ID] = (number + 1) & 63
    s[b + B_TASK] = task
    s[b + B_TASK_START] = t
    s[b + B_RUN_START] = t
    s[b + B_READY] = t + p[P_TASK_START]
    s[b + B_TASK_COUNT] += 1
    s[b + B_LINE] = p[g + G_FIRST] + s[b + B_PC]
    s[band_at(s, b) + BAND_TASKS] += 1
    wake_processor(s, b, s[b + B_READY])
    return first


@kernel
def _rotated(s, p, b, number, function):
    """The function a data task starts with: the alternate one when the counter of its rotation is full."""
    g = s[b + B_PROGRAM]
    for i in range(p[g + G_NUM_ROTATIONS]):
        row = p[g + G_ROTATIONS] + i * 5
        if p[row] == number:
            at = b + p[s[b + B_CLASS] + L_ROTATION] + i
            if s[at] == p[row + 3]:
                s[at] = 0
                return p[row + 2]
            s[at] += 1
            return p[row + 1]
    return function


@kernel
def _arguments(s, p, row, first, payload, is_control):
    """Write the arguments of a task into its first registers: the payload split evenly, low part first."""
    count = p[row + 1]
    if is_control:
        if count >= 2:
            s[first] = (payload >> 16) & 63
            s[first + 1] = wrapped(payload & 0xFFFF, p[row + 3])
        elif count == 1:
            s[first] = wrapped(payload & 0xFFFF, p[row + 2])
        return
    width = 32 // count if count > 1 else 32
    for i in range(count):
        kind = p[row + 2 + i]
        part = (payload >> (width * i)) & ((1 << width) - 1)
        if kind == isa.T_F16 or kind == isa.T_BF16 or kind == isa.T_CB16:
            s[first + i] = part & 0xFFFF
        else:
            s[first + i] = wrapped(part, kind)


@kernel
def start_task(s, p, h, b, pick, t):
    """Start what `pick_task` chose."""
    g = s[b + B_PROGRAM]
    what = pick & 0xFF
    number = pick >> 8
    if what == PICK_LOCAL:
        s[b + B_ACTIVE] &= ~(1 << number)
        _begin(s, p, b, p[p[g + G_LOCAL] + number], (isa.ID_LOCAL << 16) | number, t)
    elif what == PICK_LAUNCH:
        function = s[b + B_LAUNCH]
        s[b + B_LAUNCH] = -1
        first = _begin(s, p, b, function, LAUNCH_ID, t)
        for i in range(s[b + B_LAUNCH_COUNT]):
            s[first + i] = h[s[b + B_LAUNCH_ARGS] + i]
    elif what == PICK_TEARDOWN:
        s[b + B_TEARDOWN] &= ~(1 << number)
        function = p[p[g + G_TEARDOWN] + number]
        if function < 0:
            function = p[p[g + G_LOCAL] + TEARDOWN_ID]
        _begin(s, p, b, function, (isa.ID_COLOR << 16) | number, t)
    elif what == PICK_FLUSH:
        s[b + B_FLUSH] &= ~(1 << (number + FLUSH_TASK))
        function = p[p[g + G_EMPTY] + number]
        if function < 0:
            function = p[p[g + G_LOCAL] + TEARDOWN_ID]
        if function >= 0:
            _begin(s, p, b, function, (isa.ID_OUTPUT_QUEUE << 16) | number, t)
    else:
        q = b + p[s[b + B_CLASS] + L_QUEUE + number]
        identity = s[head_entry(s, q) + 1]
        payload = pop_queue(s, b, q, number, t)
        if what == PICK_DROP:
            hazard(s, s[b + B_NODE], LOG_CONTROL_UNBOUND, (payload >> 16) & 63, NONE)
            wake_processor(s, b, t + 1)
            return
        task = s[q + Q_ID]
        table = p[g + G_DATA]
        if what == PICK_CONTROL:
            task = (payload >> 16) & 63
            table = p[g + G_CONTROL]
        row = table + task * TASK_WORDS
        function = p[row]
        if what == PICK_DATA:
            function = _rotated(s, p, b, task, function)
        kind = isa.ID_CONTROL if what == PICK_CONTROL else isa.ID_DATA
        first = _begin(s, p, b, function, (kind << 16) | task, t)
        s[b + B_EVENT_ID] = identity
        _arguments(s, p, row, first, payload & 0xFFFF_FFFF, what == PICK_CONTROL)
