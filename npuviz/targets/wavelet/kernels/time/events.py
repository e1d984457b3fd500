"""Wakes, the heap of node blocks, faults and the log: what every other kernel of the machine stands on.

A node has two actors: its router and its processor. A bit in the slot of a cycle wakes an actor; it may find
nothing to do. What one node does to another takes effect a cycle later at the earliest, so that the order of
the actors of a cycle decides nothing but how often one wakes in vain. Threads may run parts side by side
(bands_kernels.py): what they share is read only, set to one value whoever comes first, or theirs by band.
"""

from npuviz.sim.parts.atomic_kernels import add_word
from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.program_records import (
    L_MEMORY,
    L_SIZE,
    L_TEMPLATE,
    NODE_CLASS,
    NODE_WORDS,
    NUM_COLORS,
    P_NODES,
)
from npuviz.targets.wavelet.kernels.records import (
    ASIDE_ROW,
    B_CLASS,
    B_DUE,
    B_HISTORY,
    B_LINE,
    B_MEMORY,
    B_NEXT,
    B_NODE,
    B_SEAT,
    B_SHUT,
    B_TIMED,
    BAND_FAULT,
    BAND_FAULT_INSTRUCTION,
    BAND_FAULT_NODE,
    BAND_FAULT_VALUE,
    BAND_TRAIL,
    BAND_TRAIL_COUNT,
    BAND_WORDS,
    COMMAND_WORDS,
    H_ASIDE,
    H_BAND_SHIFT,
    H_BANDS,
    H_BANDS_COUNT,
    H_COMMANDS,
    H_DEMAND,
    H_FAULT,
    H_FAULT_INSTRUCTION,
    H_FAULT_NODE,
    H_FAULT_VALUE,
    H_FAULTS,
    H_HAZARDS,
    H_HOST_AT,
    H_LOG_COUNT,
    H_LOG_FIRST,
    H_LOG_LAST,
    H_NODES,
    H_NOW,
    H_SEEN,
    H_STATUS,
    H_TRAIL_ROWS,
    H_USED,
    LOG_CHUNK_ROWS,
    LOG_PRINT,
    LOG_ROW,
    LOG_TRACE,
    MOST_HAZARDS,
    NONE,
    ONE,
    SEEN_WORDS,
    STATUS_FAULT,
    STATUS_RUNNING,
    X_LEFT,
)
from npuviz.targets.wavelet.kernels.time.seats import take_seat
from npuviz.targets.wavelet.kernels.time.wheel import schedule


@inlined
def wake_router(s, b, t):
    """Let the router of a block look for work at cycle `t`."""
    schedule(s, 2 * s[b + B_SEAT], t)


@kernel
def open_router(s, b, t):
    """Let the router of a block look at all its channels at cycle `t`: a setting may have changed."""
    s[b + B_SHUT] = 0
    for i in range(NUM_COLORS):
        s[b + B_DUE + i] = 0
    wake_router(s, b, t)


@inlined
def wake_processor(s, b, t):
    """Let the processor of a block look for work at cycle `t`."""
    schedule(s, 2 * s[b + B_SEAT] + 1, t)


@inlined
def step_from(s, b, number, t):
    """Let the next step of a thread be at cycle `t` at the earliest."""
    s[b + B_NEXT + number] = t
    s[b + B_TIMED] |= 1 << number


@inlined
def band_at(s, b):
    """Word of the band of a block; new seats behind the last band are counted with it."""
    number = s[b + B_SEAT] >> s[H_BAND_SHIFT]
    last = s[H_BANDS_COUNT] - 1
    return s[H_BANDS] + (number if number < last else last) * BAND_WORDS


@kernel
def fault(s, node, code, value):
    """The chip cannot go on after this cycle: something a node did."""
    fault_of(s, band_at(s, s[s[H_NODES] + node]), node, code, value)


@kernel
def fault_of(s, band, node, code, value):
    """A fault that is seen at a node, by a node of a band; the first one of a band counts."""
    if s[band + BAND_FAULT]:
        return
    s[H_FAULTS] = 1
    s[band + BAND_FAULT] = code
    s[band + BAND_FAULT_NODE] = node
    s[band + BAND_FAULT_VALUE] = value
    b = s[s[H_NODES] + node]
    s[band + BAND_FAULT_INSTRUCTION] = s[b + B_LINE] if b > 0 else -1


@inlined
def has_fault(s, b):
    """Whether the band of a block met a fault in this cycle."""
    return s[band_at(s, b) + BAND_FAULT] != 0


@inlined
def look_for_fault(s):
    """Take over the first fault of this cycle, if there was one."""
    if s[H_FAULTS] == 0:
        return
    for i in range(s[H_BANDS_COUNT]):
        band = s[H_BANDS] + i * BAND_WORDS
        if s[band + BAND_FAULT] and s[H_STATUS] == STATUS_RUNNING:
            s[H_STATUS] = STATUS_FAULT
            s[H_FAULT] = s[band + BAND_FAULT]
            s[H_FAULT_NODE] = s[band + BAND_FAULT_NODE]
            s[H_FAULT_INSTRUCTION] = s[band + BAND_FAULT_INSTRUCTION]
            s[H_FAULT_VALUE] = s[band + BAND_FAULT_VALUE]


@kernel
def end_part(s, command, t):
    """A PE has done its part of a host command; the last one lets the host look at it in the next cycle."""
    left = s[H_COMMANDS] + command * COMMAND_WORDS + X_LEFT
    if add_word(s, left, NONE) == 1 and s[H_HOST_AT] > t + 1:
        s[H_HOST_AT] = t + 1


@kernel
def _make_block(s, p, node):
    b = s[H_USED]
    c = p[p[P_NODES] + node * NODE_WORDS + NODE_CLASS]
    size = p[c + L_SIZE]
    template = p[c + L_TEMPLATE]
    for i in range(size):
        s[b + i] = p[template + i]
    s[b] = node
    s[b + B_CLASS] = c
    s[b + B_MEMORY] = b + p[c + L_MEMORY]
    s[b + B_HISTORY] = s[H_NOW]
    take_seat(s, p, b, node)
    s[H_USED] = b + size
    s[H_DEMAND] -= size
    s[s[H_NODES] + node] = b
    return b


@inlined
def block_of(s, p, node):
    """Word of a node's block, made on first use."""
    b = s[s[H_NODES] + node]
    if b == 0:
        b = _make_block(s, p, node)
    return b


@kernel
def log(s, node, kind, value, instruction):
    """Append a row to the log: a printed character, a traced word, a hazard."""
    if s[H_ASIDE]:
        _keep_aside(s, node, kind, value, instruction)
        return
    rows = s[H_LOG_COUNT]
    place = rows % LOG_CHUNK_ROWS
    if place == 0:
        chunk = s[H_USED]
        s[H_USED] = chunk + 1 + LOG_CHUNK_ROWS * LOG_ROW
        s[chunk] = 0
        if rows == 0:
            s[H_LOG_FIRST] = chunk
        else:
            s[s[H_LOG_LAST]] = chunk
        s[H_LOG_LAST] = chunk
    at = s[H_LOG_LAST] + 1 + place * LOG_ROW
    s[at] = s[H_NOW]
    s[at + 1] = node
    s[at + 2] = kind
    s[at + 3] = value
    s[at + 4] = instruction
    s[H_LOG_COUNT] = rows + 1


@kernel
def hazard(s, node, kind, value, instruction):
    """Log what the hardware leaves to the programmer; what was logged lately is not logged again."""
    if s[H_ASIDE]:
        _keep_aside(s, node, kind, value, instruction)
        return
    key = (((node << 20) ^ instruction) << 5 | kind) ^ (value << 40)
    place = s[H_SEEN] + ((key ^ (key >> 17) ^ (key >> 34)) & (SEEN_WORDS - 1))
    if s[place] == key + 1 or s[H_HAZARDS] >= MOST_HAZARDS:
        return
    s[place] = key + 1
    s[H_HAZARDS] += 1
    log(s, node, kind, value, instruction)


@kernel
def _keep_aside(s, node, kind, value, instruction):
    """Keep a row for the log until the cycle is over: threads come here in any order."""
    at = s[H_ASIDE] + 1 + ASIDE_ROW * add_word(s, s[H_ASIDE], ONE)
    s[at] = node
    s[at + 1] = kind
    s[at + 2] = value
    s[at + 3] = instruction


@kernel
def log_aside(s, aside):
    """Log the rows kept aside, band by band, as one thread would have done. Those of a band are in order."""
    rows = s[aside]
    for number in range(s[H_BANDS_COUNT]):
        band = s[H_BANDS] + number * BAND_WORDS
        for i in range(rows):
            at = aside + 1 + i * ASIDE_ROW
            if band_at(s, s[s[H_NODES] + s[at]]) != band:
                continue
            if s[at + 1] == LOG_PRINT or s[at + 1] == LOG_TRACE:
                log(s, s[at], s[at + 1], s[at + 2], s[at + 3])
            else:
                hazard(s, s[at], s[at + 1], s[at + 2], s[at + 3])
    for i in range(1 + rows * ASIDE_ROW):
        s[aside + i] = 0


@kernel
def leave_trail(s, b, identity, port, kind, waited, color, extra):
    """Remember a stage of a word's way at a node, by its block. kind: 0 sent, 1 hop, 2 taken, 3 dropped.

    extra  the instruction that sent it (-1 unknown), else the payload with its control mark
    """
    band = band_at(s, b)
    rows = s[band + BAND_TRAIL_COUNT]
    at = s[band + BAND_TRAIL] + (rows & (s[H_TRAIL_ROWS] - 1)) * 4
    s[at] = identity
    s[at + 1] = s[H_NOW]
    s[at + 2] = s[b + B_NODE] | (port << 24) | (kind << 28) | ((waited & 0xFF_FFFF) << 32) | (color << 56)
    s[at + 3] = extra
    s[band + BAND_TRAIL_COUNT] = rows + 1
