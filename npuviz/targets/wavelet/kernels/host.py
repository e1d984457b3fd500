"""The host: commands start in order, move data or launch functions, and are done.

Transfers reach the memory and the queues of a PE directly; what the columns beside the program would cost
is a figure per word (assumed).
"""

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside
from npuviz.targets.wavelet.kernels.host_commands import (
    HOST_COPY_IN,
    HOST_COPY_OUT,
    HOST_LAUNCH,
    HOST_STREAM_IN,
    HOST_STREAM_OUT,
)
from npuviz.targets.wavelet.kernels.memory import load_16, load_32, store_16, store_32
from npuviz.targets.wavelet.kernels.program_records import (
    GROUP_WORDS,
    L_CHANNEL,
    L_PROGRAM,
    L_QUEUE,
    NODE_CLASS,
    NODE_WORDS,
    P_GRID,
    P_HOST_LAUNCH,
    P_HOST_SETUP,
    P_HOST_WORD,
    P_NODES,
    P_PROGRAMS,
    P_RECTANGLE,
)
from npuviz.targets.wavelet.kernels.records import (
    B_CLASS,
    B_LAUNCH,
    B_LAUNCH_ARGS,
    B_LAUNCH_COMMAND,
    B_LAUNCH_COUNT,
    B_MEMORY,
    B_NODE,
    B_PROGRAM,
    B_STREAMS_IN,
    C_OUT_AT,
    C_OUT_COMMAND,
    C_OUT_LEFT,
    C_OUT_NEXT,
    C_QUEUE,
    COMMAND_FIELDS,
    COMMAND_WORDS,
    FAR,
    FAULT_ADDRESS,
    FAULT_COLOR,
    H_ACTIVE,
    H_CLOSED,
    H_CLOSED_AT,
    H_COMMANDS,
    H_DONE,
    H_GIVEN,
    H_HOST_AT,
    H_NEXT,
    H_OLDEST,
    M_ARGS,
    M_COLOR,
    M_DATA,
    M_HEIGHT,
    M_IS_16BIT,
    M_KIND,
    M_NONBLOCK,
    M_SYMBOLS,
    M_WIDTH,
    M_WORDS,
    M_X,
    M_Y,
    Q_IN_AT,
    Q_IN_COMMAND,
    Q_IN_LEFT,
    Q_IN_NEXT,
    SYMBOL_WORDS,
    X_END,
    X_LEFT,
    X_START,
    X_STATE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.time.events import block_of, fault, open_router, wake_processor


@kernel
def node_at(p, x, y):
    """Node of a place of the rectangle, -1 if there is nothing."""
    width = p[P_RECTANGLE]
    return p[p[P_GRID] + y * width + x]


@kernel
def _program_of(p, node):
    """Word of the program of a node, -1 for none."""
    return p[p[p[P_NODES] + node * NODE_WORDS + NODE_CLASS] + L_PROGRAM]


@kernel
def _symbol(p, h, m, program):
    """Row of a command's symbol for a program: (address, is pointer, function)."""
    return h[m + M_SYMBOLS] + (program - p[P_PROGRAMS]) // GROUP_WORDS * SYMBOL_WORDS


@kernel
def _copy_words(s, p, h, m, b, place):
    """Copy the words of one PE between host words and its memory; a fault outside the memory."""
    row = _symbol(p, h, m, s[b + B_PROGRAM])
    address = h[row]
    memory = s[b + B_MEMORY]
    if address < 0:
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address)
        return
    if h[row + 1]:
        address = load_16(s, memory, address)
    size = 2 if h[m + M_IS_16BIT] else 4
    count = h[m + M_WORDS]
    if not is_inside(s, b, address, size * count):
        fault(s, s[b + B_NODE], FAULT_ADDRESS, address + size * count)
        return
    is_in = h[m + M_KIND] == HOST_COPY_IN
    for i in range(count):
        at = address + i * size
        if is_in:
            if size == 2:
                store_16(s, memory, at, h[place + i])
            else:
                store_32(s, memory, at, h[place + i])
        else:
            h[place + i] = load_16(s, memory, at) if size == 2 else load_32(s, memory, at)


@kernel
def _start_on(s, p, h, m, index, node, number, t):
    """What a command that starts does to one PE; returns 1 if the PE has a part in its end."""
    program = _program_of(p, node)
    if program < 0:
        return 0
    kind = h[m + M_KIND]
    function = h[_symbol(p, h, m, program) + 2] if kind == HOST_LAUNCH else ZERO
    if function < 0:
        return 0
    b = block_of(s, p, node)
    c = s[b + B_CLASS]
    if kind == HOST_LAUNCH:
        s[b + B_LAUNCH] = function
        s[b + B_LAUNCH_COMMAND] = index
        s[b + B_LAUNCH_ARGS] = h[m + M_DATA]
        s[b + B_LAUNCH_COUNT] = h[m + M_ARGS]
        wake_processor(s, b, t + p[P_HOST_LAUNCH])
        return 1
    color = h[m + M_COLOR]
    place = p[c + L_CHANNEL + color]
    count = h[m + M_WORDS]
    if place == 0 or count == 0:
        if place == 0 and count > 0:
            fault(s, node, FAULT_COLOR, color)
        return 0
    ch = b + place
    if kind == HOST_STREAM_IN:
        queue = s[ch + C_QUEUE]
        if queue < 0:
            fault(s, node, FAULT_COLOR, color)
            return 0
        q = b + p[c + L_QUEUE + queue]
        s[q + Q_IN_LEFT] = count
        s[q + Q_IN_AT] = h[m + M_DATA] + number * count
        s[q + Q_IN_COMMAND] = index
        s[q + Q_IN_NEXT] = t + p[P_HOST_SETUP]
        s[b + B_STREAMS_IN] |= 1 << queue
        wake_processor(s, b, t + p[P_HOST_SETUP])
    else:
        s[ch + C_OUT_LEFT] = count
        s[ch + C_OUT_AT] = h[m + M_DATA] + number * count
        s[ch + C_OUT_COMMAND] = index
        s[ch + C_OUT_NEXT] = t + p[P_HOST_SETUP]
        open_router(s, b, t + p[P_HOST_SETUP])
    return 1


@kernel
def _start(s, p, h, index, t):
    m = index * COMMAND_FIELDS + 8
    state = s[H_COMMANDS] + index * COMMAND_WORDS
    kind = h[m + M_KIND]
    width, height = h[m + M_WIDTH], h[m + M_HEIGHT]
    s[state + X_STATE] = 1
    s[state + X_START] = t
    s[state + X_END] = -1
    s[state + X_LEFT] = 0
    s[H_ACTIVE] += 1
    if kind == HOST_COPY_IN or kind == HOST_COPY_OUT:
        # A row of PEs is fed from its end, word after word (assumed).
        s[state + X_END] = t + p[P_HOST_SETUP] + h[m + M_WORDS] * width * p[P_HOST_WORD]
        return
    for y in range(height):
        for x in range(width):
            node = node_at(p, h[m + M_X] + x, h[m + M_Y] + y)
            if node >= 0:
                s[state + X_LEFT] += _start_on(s, p, h, m, index, node, y * width + x, t)
    if kind == HOST_LAUNCH and s[state + X_LEFT] == 0:
        s[state + X_END] = t + p[P_HOST_LAUNCH]


@kernel
def _finish(s, p, h, index, t):
    m = index * COMMAND_FIELDS + 8
    kind = h[m + M_KIND]
    width, height = h[m + M_WIDTH], h[m + M_HEIGHT]
    if kind == HOST_COPY_IN or kind == HOST_COPY_OUT:
        for y in range(height):
            for x in range(width):
                node = node_at(p, h[m + M_X] + x, h[m + M_Y] + y)
                if node >= 0 and _program_of(p, node) >= 0:
                    b = block_of(s, p, node)
                    _copy_words(s, p, h, m, b, h[m + M_DATA] + (y * width + x) * h[m + M_WORDS])
    state = s[H_COMMANDS] + index * COMMAND_WORDS
    s[state + X_STATE] = 2
    s[state + X_END] = t
    s[H_ACTIVE] -= 1
    s[H_DONE] += 1


@kernel
def _may_start(s, h, index):
    """Whether a command may start beside those under way: only streams of different colors overlap, and
    only behind streams that gave the host back. Commands run in order otherwise."""
    m = index * COMMAND_FIELDS + 8
    kind = h[m + M_KIND]
    is_stream = kind == HOST_STREAM_IN or kind == HOST_STREAM_OUT
    for other in range(s[H_OLDEST], index):
        if s[s[H_COMMANDS] + other * COMMAND_WORDS + X_STATE] != 1:
            continue
        n = other * COMMAND_FIELDS + 8
        other_streams = h[n + M_KIND] == HOST_STREAM_IN or h[n + M_KIND] == HOST_STREAM_OUT
        if h[n + M_NONBLOCK] == 0 or not (is_stream and other_streams):
            return False
        if is_stream and other_streams and h[n + M_COLOR] == h[m + M_COLOR]:
            return False
    return True


@kernel
def host_step(s, p, h, t):
    """Cycle `t` of the host: end what is done, start what may start.

    A command that waited for another starts the cycle after its end, as it does when a host asks for it
    only then: a recorded run takes the same cycles.
    """
    s[H_HOST_AT] = FAR
    done = s[H_DONE]
    for index in range(s[H_OLDEST], s[H_NEXT]):
        state = s[H_COMMANDS] + index * COMMAND_WORDS
        if s[state + X_STATE] == 1 and s[state + X_LEFT] == 0 and s[state + X_END] <= t:
            _finish(s, p, h, index, t)
    while s[H_OLDEST] < s[H_NEXT] and s[s[H_COMMANDS] + s[H_OLDEST] * COMMAND_WORDS + X_STATE] == 2:
        s[H_OLDEST] += 1
    if s[H_DONE] != done:
        if s[H_NEXT] < s[H_GIVEN]:
            s[H_HOST_AT] = t + 1
    else:
        while s[H_NEXT] < s[H_GIVEN] and _may_start(s, h, s[H_NEXT]):
            _start(s, p, h, s[H_NEXT], t)
            s[H_NEXT] += 1
    for index in range(s[H_OLDEST], s[H_NEXT]):
        state = s[H_COMMANDS] + index * COMMAND_WORDS
        if s[state + X_STATE] == 1 and s[state + X_LEFT] == 0:
            end = s[state + X_END]
            if end <= t:
                end = t + 1
            if end < s[H_HOST_AT]:
                s[H_HOST_AT] = end
    if s[H_CLOSED] and s[H_DONE] == s[H_GIVEN] and s[H_CLOSED_AT] < 0:
        s[H_CLOSED_AT] = t + 1
