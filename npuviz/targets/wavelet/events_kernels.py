"""The time wheel, the heap of node blocks, and the log: what every other kernel of the machine stands on.

A node has two actors: its router (2 n) and its processor (2 n + 1). A bit in the slot of a cycle wakes an
actor; it may find nothing to do. What one node does to another takes effect a cycle later at the earliest,
so that the order of the actors of a cycle decides nothing.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.state_kernels import (
    B_CLASS,
    B_DUE,
    B_HISTORY,
    B_LINE,
    B_MEMORY,
    B_NEXT,
    B_NODE,
    B_SHUT,
    B_TIMED,
    H_DEMAND,
    H_FAULT,
    H_FAULT_INSTRUCTION,
    H_FAULT_NODE,
    H_FAULT_VALUE,
    H_HAZARDS,
    H_LOG_COUNT,
    H_LOG_FIRST,
    H_LOG_LAST,
    H_NODES,
    H_NOW,
    H_SEEN,
    H_STATUS,
    H_TRAIL,
    H_TRAIL_COUNT,
    H_TRAIL_ROWS,
    H_USED,
    H_WHEEL,
    H_WHEEL_MASK,
    H_WHEEL_SUMMARY,
    H_WHEEL_WORDS,
    L_MEMORY,
    L_SIZE,
    L_TEMPLATE,
    LOG_CHUNK_ROWS,
    LOG_ROW,
    MOST_HAZARDS,
    NODE_CLASS,
    NODE_WORDS,
    NUM_COLORS,
    P_NODES,
    SEEN_WORDS,
    SLOTS,
    STATUS_FAULT,
    STATUS_RUNNING,
)


@kernel
def schedule(s, actor, t):
    """Wake an actor at cycle `t`, later than now; far ones look again when the wheel has turned."""
    now = s[H_NOW]
    if t > now + SLOTS - 1:
        t = now + SLOTS - 1
    elif t <= now:
        t = now + 1
    slot = t & (SLOTS - 1)
    base = s[H_WHEEL] + slot * (s[H_WHEEL_WORDS] + s[H_WHEEL_SUMMARY])
    word = actor >> 5
    s[base + s[H_WHEEL_SUMMARY] + word] |= 1 << (actor & 31)
    s[base + (word >> 5)] |= 1 << (word & 31)
    s[H_WHEEL_MASK] |= 1 << slot


@inlined
def wake_router(s, node, t):
    """Let the router of a node look for work at cycle `t`."""
    schedule(s, 2 * node, t)


@kernel
def open_router(s, b, t):
    """Let the router of a block look at all its channels at cycle `t`: a setting may have changed."""
    s[b + B_SHUT] = 0
    for i in range(NUM_COLORS):
        s[b + B_DUE + i] = 0
    wake_router(s, s[b + B_NODE], t)


@inlined
def wake_processor(s, node, t):
    """Let the processor of a node look for work at cycle `t`."""
    schedule(s, 2 * node + 1, t)


@inlined
def step_from(s, b, number, t):
    """Let the next step of a thread be at cycle `t` at the earliest."""
    s[b + B_NEXT + number] = t
    s[b + B_TIMED] |= 1 << number


@inlined
def next_event(s):
    """Cycle of the next wake after now, -1 if there is none."""
    mask = s[H_WHEEL_MASK]
    if mask == 0:
        return -1
    first = (s[H_NOW] + 1) & (SLOTS - 1)
    turned = ((mask >> first) | (mask << (SLOTS - first))) & ((1 << SLOTS) - 1)
    return s[H_NOW] + 1 + trailing_zeros(turned)


@kernel
def fault(s, node, code, value):
    """The chip cannot go on; the first fault counts."""
    if s[H_STATUS] != STATUS_RUNNING:
        return
    s[H_STATUS] = STATUS_FAULT
    s[H_FAULT] = code
    s[H_FAULT_NODE] = node
    s[H_FAULT_VALUE] = value
    b = s[s[H_NODES] + node] if node >= 0 else 0
    s[H_FAULT_INSTRUCTION] = s[b + B_LINE] if b > 0 else -1


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
    count = s[H_LOG_COUNT]
    place = count % LOG_CHUNK_ROWS
    if place == 0:
        chunk = s[H_USED]
        s[H_USED] = chunk + 1 + LOG_CHUNK_ROWS * LOG_ROW
        s[chunk] = 0
        if count == 0:
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
    s[H_LOG_COUNT] = count + 1


@kernel
def hazard(s, node, kind, value, instruction):
    """Log what the hardware leaves to the programmer; what was logged lately is not logged again."""
    key = (((node << 20) ^ instruction) << 5 | kind) ^ (value << 40)
    place = s[H_SEEN] + ((key ^ (key >> 17) ^ (key >> 34)) & (SEEN_WORDS - 1))
    if s[place] == key + 1 or s[H_HAZARDS] >= MOST_HAZARDS:
        return
    s[place] = key + 1
    s[H_HAZARDS] += 1
    log(s, node, kind, value, instruction)


@kernel
def leave_trail(s, identity, node, port, kind, waited, color, extra):
    """Remember a stage of a word's way. kind: 0 sent, 1 hop, 2 taken, 3 dropped.

    extra  the instruction that sent it (-1 unknown), else the payload with its control mark
    """
    count = s[H_TRAIL_COUNT]
    at = s[H_TRAIL] + (count & (s[H_TRAIL_ROWS] - 1)) * 4
    s[at] = identity
    s[at + 1] = s[H_NOW]
    s[at + 2] = node | (port << 24) | (kind << 28) | ((waited & 0xFF_FFFF) << 32) | (color << 56)
    s[at + 3] = extra
    s[H_TRAIL_COUNT] = count + 1
