"""What leaves a kernel while it runs: event rows, and hits of stop rows."""

from npuviz.sim.parts.bits_kernels import inlined, kernel

# --- transient words, new for every call of `advance` ---------------------------------------------
X_EVENTS = 0  # event rows in use
X_CAPACITY = 1  # event rows, 0: recording is off
X_UNTIL = 2  # core cycle at which to stop
X_STOPS = 3  # number of stop rows
X_HITS = 4  # stop rows that hit in this call
X_ROWS = 8  # stop rows of STOP_WORDS words, then one hit word per row
STOP_WORDS = 6
HIT = 1  # the hit word of a row that hit; a machine of elements writes 2 + the element

# The numbers of npuviz.trace.schema and npuviz.sim.stop; a test keeps them equal.
INTERVAL = 1
COUNTER = 2
FLOW = 3
LIFETIME = 4
STOP_INSTRUCTION = 1
STOP_QUEUE = 2
STOP_MEMORY_READ = 3
STOP_MEMORY_WRITE = 4
STOP_NODE_START = 5
STOP_NODE_END = 6


@inlined
def emit(x, ev, kind, track, code, first, second, instruction):
    """Append one event row; the caller has checked that recording is on."""
    row = x[X_EVENTS]
    x[X_EVENTS] = row + 1
    if row >= x[X_CAPACITY]:
        return  # the margin was too small: counted, so that the engine can tell
    base = row * 4
    ev[base] = (kind << 56) | (track << 32) | code
    ev[base + 1] = first
    ev[base + 2] = second
    ev[base + 3] = instruction


@inlined
def is_recording(x):
    """Whether events are wanted."""
    return x[X_CAPACITY] > 0


@inlined
def is_watched(x):
    """Whether there are stop rows."""
    return x[X_STOPS] > 0


@kernel
def hit(x, index, mark, cycle):
    """Note that a row hits in `cycle`; its hit word becomes `mark`."""
    x[X_ROWS + x[X_STOPS] * STOP_WORDS + index] = mark
    x[X_HITS] += 1
    if x[X_UNTIL] > cycle + 1:
        x[X_UNTIL] = cycle + 1


@kernel
def watch_subject(x, test, subject, low, high, cycle):
    """Test rows about `subject` whose range overlaps [low, high): instructions, memory, nodes."""
    for index in range(x[X_STOPS]):
        row = X_ROWS + index * STOP_WORDS
        if x[row] != test:
            continue
        if test != STOP_INSTRUCTION and x[row + 1] != subject:
            continue
        if test == STOP_NODE_START or test == STOP_NODE_END or (low < x[row + 3] and high > x[row + 2]):
            hit(x, index, HIT, cycle)


@kernel
def compares(value, bound, comparison):
    """Whether a comparison of npuviz.sim.stop (CMP_) holds."""
    if comparison == 0:
        return value >= bound
    if comparison == 1:
        return value > bound
    if comparison == 2:
        return value <= bound
    if comparison == 3:
        return value < bound
    if comparison == 4:
        return value == bound
    return value != bound


@kernel
def watch_queue(x, queue, before, after, cycle):
    """Test rows about a queue: a row hits when its comparison becomes true."""
    for index in range(x[X_STOPS]):
        row = X_ROWS + index * STOP_WORDS
        if x[row] != STOP_QUEUE or x[row + 1] != queue:
            continue
        if compares(after, x[row + 2], x[row + 4]) and not compares(before, x[row + 2], x[row + 4]):
            hit(x, index, HIT, cycle)
