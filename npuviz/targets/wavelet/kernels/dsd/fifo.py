"""FIFOs in PE memory: what happens when one is empty or full, and the tasks that pops and pushes activate.

Ref: wavelet-fabric.md section 7.4 (DSD).
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.dsd.operand import fifo_row
from npuviz.targets.wavelet.kernels.processor.task import activate
from npuviz.targets.wavelet.kernels.records import (
    A_BYTES,
    A_QUEUE,
    A_RECORD,
    B_LINE,
    B_NODE,
    F_FILL,
    F_NEED,
    F_NEED_POP,
    F_READ_LENGTH,
    F_WAS_EMPTY,
    F_WAS_FULL,
    F_WRITE_LENGTH,
    FAULT_FIFO,
    T_ASYNC,
    T_FINISHED,
    T_GROUP,
    T_LEFT,
    T_WAIT,
    WAIT_FIFO_EMPTY,
    WAIT_FIFO_FULL,
)
from npuviz.targets.wavelet.kernels.time.events import fault

FIFO_GOES_ON = 1
FIFO_WAITS = 0
FIFO_ENDS = -1

ACTION_TEST = 0
ACTION_TERMINATE = 1
ACTION_SUSPEND = 2
ACTION_FAULT = 3


@inlined
def elements_free(s, p, b, a):
    """Elements that a FIFO can still take."""
    return (p[fifo_row(p, s, b, a) + 1] - s[s[a + A_RECORD] + F_FILL]) // s[a + A_BYTES]


@inlined
def elements_held(s, a):
    """Elements in a FIFO."""
    return s[s[a + A_RECORD] + F_FILL] // s[a + A_BYTES]


@kernel
def fifo_ready(s, p, b, th, a, place):
    """Whether a FIFO operand lets its operation take a step: it goes on, waits, or ends.

    place  0: the operand is the destination
    """
    f = s[a + A_RECORD]
    row = fifo_row(p, s, b, a)
    group = s[th + T_GROUP]
    if place == 0:
        if elements_free(s, p, b, a) > 0:
            return FIFO_GOES_ON
        s[f + F_WAS_FULL] = 1
        s[f + F_NEED] = group * s[a + A_BYTES]
        action = p[row + 3]
        s[th + T_WAIT] = WAIT_FIFO_FULL
    else:
        if elements_held(s, a) > 0:
            return FIFO_GOES_ON
        s[f + F_WAS_EMPTY] = 1
        s[f + F_NEED_POP] = group * s[a + A_BYTES]
        action = p[row + 2]
        s[th + T_WAIT] = WAIT_FIFO_EMPTY
    if action == ACTION_FAULT:
        fault(s, s[b + B_NODE], FAULT_FIFO, s[a + A_QUEUE])
        return FIFO_WAITS
    if action == ACTION_SUSPEND or (action == ACTION_TEST and s[th + T_ASYNC]):
        return FIFO_WAITS
    s[th + T_FINISHED] = 0 if action == ACTION_TEST else 1
    s[f + (F_WRITE_LENGTH if place == 0 else F_READ_LENGTH)] = s[th + T_LEFT]
    return FIFO_ENDS


@kernel
def note_pop(s, p, b, a):
    """After a pop: if it made enough room for the push that met a full FIFO, activate `activate_pop`."""
    f = s[a + A_RECORD]
    row = fifo_row(p, s, b, a)
    if s[f + F_WAS_FULL] and p[row + 1] - s[f + F_FILL] >= s[f + F_NEED]:
        s[f + F_WAS_FULL] = 0
        if p[row + 4] >= 0:
            activate(s, p, b, p[row + 4], s[b + B_LINE])


@kernel
def note_push(s, p, b, a):
    """After a push: if there is enough for the pop that met an empty FIFO, activate `activate_push`."""
    f = s[a + A_RECORD]
    row = fifo_row(p, s, b, a)
    if s[f + F_WAS_EMPTY] and s[f + F_FILL] >= s[f + F_NEED_POP]:
        s[f + F_WAS_EMPTY] = 0
        if p[row + 5] >= 0:
            activate(s, p, b, p[row + 5], s[b + B_LINE])
