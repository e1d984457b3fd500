"""Write event rows and hits of stop rows from a running kernel."""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.record_kernels import Record, Rest, Words

NUM_TESTS = 9
"""Number of tests of stop rows that have a filter, as numbered in npuviz.sim.stop; 0 is no test."""
FILTER_BITS = 64

CALL = Record(
    "call of a machine",
    recorded="event rows in use",
    capacity="event rows there may be, 0: recording is off",
    until="core cycle at which to stop",
    stops="stop rows",
    hits="stop rows that hit in this call",
    filters=Words(NUM_TESTS, "for each test, what its rows watch: bit s & 63 for subject or instruction s"),
    low="no row about memory begins before here",
    high="none ends behind here",
    own=Words(3, "what else this machine has to know"),
    rows=Rest("stop rows, then one hit word for each"),
)

STOP = Record(
    "stop row",
    test="what it watches, a STOP_",
    subject="which one",
    low="from here",
    high="to before here",
    comparison="code of a comparison",
    breakpoint="which breakpoint it belongs to",
)

# Their positions, for Python, where a name costs more than a number.
X_EVENTS, X_CAPACITY, X_UNTIL = CALL.recorded, CALL.capacity, CALL.until
X_STOPS, X_HITS, X_ROWS = CALL.stops, CALL.hits, CALL.rows
STOP_WORDS = STOP.num_words

HIT = 1  # the hit word of a row that hit; a machine of elements writes 2 + the element

# The numbers of npuviz.trace.schema and npuviz.sim.stop; a test keeps them equal.
INTERVAL = 1
COUNTER = 2
FLOW = 3
LIFETIME = 4
CAUSE = 5
KIND_SHIFT = 48
NOT_TOLD = (1 << KIND_SHIFT) - 1
END_OF_RUN = 0xFFFFFFFF
STOP_INSTRUCTION = 1
STOP_QUEUE = 2
STOP_MEMORY_READ = 3
STOP_MEMORY_WRITE = 4
STOP_NODE_START = 5
STOP_NODE_END = 6

NOBODY = -1  # no instruction


class Machine(NamedTuple):
    """Everything that a call of `advance` works on, which kernels pass to each other.

    A target that passes more has a class of its own; the functions here use its fields `call` and `events`.
    """

    chip: Any
    """Row of the root state."""
    program: Any
    """Row of the program words, which never change."""
    call: Any
    """Row CALL."""
    events: Any
    """Pointer to the event rows."""


@inlined
def record_row(machine, first, second, third, fourth):
    """Append one event row; the caller has checked that recording is on."""
    call, events = machine.call, machine.events
    row = call.recorded
    call.recorded = row + 1
    if row >= call.capacity:
        return  # the margin was too small: the row is counted, so that KernelCall.finish can report it
    base = row * 4
    events[base] = first
    events[base + 1] = second
    events[base + 2] = third
    events[base + 3] = fourth


@inlined
def record_interval(machine, track, kind, span, instruction):
    """Record that an interval of a kind lasts from span[0] to before span[1] on a track."""
    record_row(machine, (INTERVAL << 56) | (track << 32) | kind, span[0], span[1], instruction)


@inlined
def record_count(machine, track, cycle, value):
    """Record a new value of the counter of a track."""
    record_row(machine, (COUNTER << 56) | (track << 32), cycle, value, NOBODY)


@inlined
def record_flow(machine, cycle, producer, consumer):
    """Record that one instruction uses what another one has made."""
    record_row(machine, FLOW << 56, cycle, producer, consumer)


@inlined
def record_lifetime(machine, memory, bank, span, instruction):
    """Record that an instruction's bytes lie in a bank of a memory from span[0] to before span[1]."""
    record_row(machine, (LIFETIME << 56) | (memory << 32) | bank, span[0], span[1], instruction)


@inlined
def record_cause(machine, track, kind, span, source):
    """Record that a track can go on from span[1], because a source was done at span[0] (-1: when its work
    ended).

    source  an instruction, `of_track(t)` for the work of track t until then, or NOBODY
    """
    behind = NOT_TOLD if span[0] < 0 else span[1] - span[0]
    record_row(machine, (CAUSE << 56) | track, span[1], (kind << KIND_SHIFT) | behind, source)


@inlined
def of_track(track):
    """Return the source of a cause that stands for the work of a track."""
    return -2 - track


@inlined
def is_recording(machine):
    """Whether events are recorded."""
    return machine.call.capacity > 0


@inlined
def is_full(machine, margin):
    """Whether events are recorded and there is no room for `margin` more of them."""
    call = machine.call
    return call.capacity > 0 and call.recorded + margin > call.capacity


@inlined
def is_watched(machine):
    """Whether there are stop rows."""
    return machine.call.stops > 0


@inlined
def may_watch(machine, test, subject):
    """Whether a row of a test may be about a subject; for STOP_INSTRUCTION, about an instruction."""
    return (machine.call.filters[test] >> (subject & (FILTER_BITS - 1))) & 1 != 0


@inlined
def may_watch_bytes(machine, test, memory, span):
    """Whether a row of a test may be about bytes from span[0] to before span[1] of a memory."""
    call = machine.call
    return may_watch(machine, test, memory) and span[0] < call.high and span[1] > call.low


@inlined
def stop_row(machine, index):
    """Return a stop row by its number."""
    return STOP(machine.call, CALL.rows, index)


@kernel
def hit(machine, index, mark, cycle):
    """Record that a row hits in `cycle`: set its hit word to `mark`, and stop after that cycle."""
    call = machine.call
    call[CALL.rows + call.stops * STOP.num_words + index] = mark
    call.hits += 1
    if call.until > cycle + 1:
        call.until = cycle + 1


@kernel
def watch_instruction(machine, index, cycle):
    """Test the rows about instructions for one that starts."""
    if not may_watch(machine, STOP_INSTRUCTION, index):
        return
    for number in range(machine.call.stops):
        row = stop_row(machine, number)
        if row.test == STOP_INSTRUCTION and row.low <= index < row.high:
            hit(machine, number, HIT, cycle)


@kernel
def watch_node(machine, test, node, cycle):
    """Test the rows about a graph node that starts (STOP_NODE_START) or ends (STOP_NODE_END)."""
    if not may_watch(machine, test, node):
        return
    for number in range(machine.call.stops):
        row = stop_row(machine, number)
        if row.test == test and row.subject == node:
            hit(machine, number, HIT, cycle)


@kernel
def watch_memory(machine, test, memory, span, cycle):
    """Test the rows about bytes from span[0] to before span[1] that are read or written."""
    if not may_watch_bytes(machine, test, memory, span):
        return
    for number in range(machine.call.stops):
        row = stop_row(machine, number)
        if row.test == test and row.subject == memory and span[0] < row.high and span[1] > row.low:
            hit(machine, number, HIT, cycle)


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
def watch_queue(machine, queue, before, after, cycle):
    """Test the rows about a queue: a row hits when its comparison becomes true."""
    if not may_watch(machine, STOP_QUEUE, queue):
        return
    for index in range(machine.call.stops):
        row = stop_row(machine, index)
        if row.test != STOP_QUEUE or row.subject != queue:
            continue
        if compares(after, row.low, row.comparison) and not compares(before, row.low, row.comparison):
            hit(machine, index, HIT, cycle)
