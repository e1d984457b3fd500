"""Define the records of the root state `wafer`.

The state is one flat int64 array: a header, the time wheel, the tables of nodes (places of the fabric with a
program or a route) and of their seats in the wheel, the trail of hops, then a heap. When something first
happens at a node, its block is copied to the heap and it takes the next seat; an idle node takes a word of
the first table.
"""

import numpy as np

from npuviz.sim.parts.record_kernels import Gap, Record, Rest, Rows, Same, Words

# --- header of the state -------------------------------------------------------------------------

WAFER = Record(
    "wafer",
    cycle="cycles completed",
    status="a STATUS_ number",
    fault="a FAULT_ code",
    fault_node="node of the first fault",
    fault_instruction="listing index, -1 none",
    fault_value="what it is about: an address, a color, a message",
    used="words of the state in use",
    demand="words that blocks not yet made will need",
    nodes="word of the node table: a node's block, 0 as long as nothing has happened there",
    nodes_count="nodes",
    wheel="word of the wheel, see time/wheel.py",
    wheel_groups="word of its marks per group of words",
    wheel_tops="word of its marks per group of groups",
    now="the cycle whose events ran last, or run now",
    bands="word of band 0",
    bands_count="bands",
    band_shift="a band has 1 << this seats",
    border="seats at the end of a band that have neighbours in the next one",
    aside="while bands run side by side: word of the rows kept for the log (their number first), else 0",
    trail_rows="of each band, a power of two",
    host_at="cycle at which the host has something to do, FAR if none",
    given="host commands given",
    next="next host command to start",
    done="commands done in all",
    oldest="first command that may not be done",
    active="commands under way",
    commands="word of the COMMAND_STATE of command 0",
    commands_room="commands whose states there is room for",
    closed="1: no more commands will come",
    closed_at="cycle at which the last command of a closed list was done, -1",
    final="cycle at which the run ends",
    log_first="first chunk of the log (prints, hazards, traces), 0 none",
    log_last="its last chunk",
    log_count="rows in it",
    seen="word of the table of hazards seen lately",
    hazards="hazards logged",
    events="events processed",
    wheel_end="words of 32 actors",
    wheel_tops_count="top marks of a slot",
    faults="1 from the first fault of a band on",
    seats="word of the table of seats: the block of the node that has it, -1 - node before it has one",
    seats_count="seats taken",
    sorted="seats in the order of nodes, the first ones; see time/seats.py",
    seated_at="cycle at which the last seat was taken",
    bands_filled="bands that have sorted seats",
    postponed="1: in this cycle something has to run after all others",
    alone="1: that is what runs now",
    host_by="what let the host go on last: an origin, see causes.py; 0 nobody",
    hop="cycles of a word from router to router",
    ramp="cycles between router and processor",
    turn="more cycles where it changes its direction",
    link="1/1000 cycles per word and link",
    task_start="cycles from the choice of a task to its first instruction",
    host_word="cycles per word that the host moves, per PE",
    host_setup="cycles before the host moves its first word",
    host_launch="cycles of a launch",
    _56=Gap(8),
    slots=Words(32, "per slot of the wheel: 1 if somebody wakes in it"),
)

# --- a band: seats that one thread may run while others run theirs

BAND = Record(
    "band",
    instructions="scalar instructions",
    beats="steps of DSD operations",
    elements="elements of DSD operations",
    hops="words sent over links",
    taken="words taken by processors",
    dropped="words that went nowhere",
    tasks="tasks run",
    flops="floating-point operations",
    trail="word of its trail",
    trail_count="stages written so far",
    fault="a FAULT_ code, 0 none",
    fault_node="node at which it was seen",
    fault_instruction="listing index, -1 none",
    fault_value="what the fault is about: an address, a color, a message",
    at_least=32,
)
BORDERS_OF_A_BAND, MOST_BANDS = 16, 8  # a band is at least 16 times its border: all wait for the borders
NODES_OF_A_BAND = 2048  # nodes per band; a wafer has at most MOST_BANDS bands

STATUS_RUNNING, STATUS_FINISHED, STATUS_FAULT, STATUS_DEADLOCK = 0, 1, 2, 3

RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_FAULT = 2
RESULT_DEADLOCK = 3
RESULT_EVENTS = 4
RESULT_ROOM = 5  # the heap is too small
RESULT_COMMAND = 6  # the command waited for is done
RESULT_BANDS = 7  # there are more bands than the caller knows

FAR = 1 << 60
SLOTS = 32  # of the wheel
SLOT_SHIFT = 5
FAN_SHIFT = 5  # a word of the wheel has 32 actors, a mark 32 of what lies below
FAN_MASK = 31
EVERY_BIT = 0xFFFF_FFFF

# numba gives a plain int argument a separate type: the function that it is passed to is compiled once more
# for that type. A numpy number avoids this.
ZERO, ONE, NONE = np.int64(0), np.int64(1), np.int64(-1)

# --- the log of hazards and prints -------------------------------------------------------------------
LOG_CHUNK_ROWS = 64
SEEN_WORDS = 1024  # a power of two
MOST_HAZARDS = 1 << 15

LOG_ROW = Record(
    "row of the log",
    cycle="in which it happened",
    node="where",
    kind="a number of log_numbers",
    value="what it is about",
    instruction="listing index, -1 none",
)

ASIDE_ROW = Record(
    "row kept aside for the log",
    node="where",
    kind="a number of log_numbers",
    value="what it is about",
    instruction="listing index, -1 none",
)

# --- a node's block ------------------------------------------------------------------------------------
# What an event reads comes first, line by line of 64 bytes: a wafer's blocks do not fit into the caches.
LINE_WORDS = 8  # of a cache line: blocks, threads, queues and channels begin on one

STALLED_OUTPUT = 16
ENDED = 16
FLUSH_TASK = 16
FLUSHES = (1 << FLUSH_TASK) - 1
FLUSH_DONE = 32
FRONTIER = 1 << 62  # in BLOCK.channels, see time/seats.py
LEVEL_BITS = 8
TOP_LEVEL = 4
EACH_LEVEL = 0x01_01_01_01_01
GIVEN_AT = 40  # in BLOCK.levels: two bits a microthread, the priority where its operation gives none (WSE-2)

LINK = Record(
    "output port of a router",
    free="in 1/1000 cycles: when it takes the next word",
    start="run of words for the trace: first cycle",
    color="its color",
    end="the cycle behind it, 0: no run",
    load="words of the present and of the last window, 32 bits each",
    block="block of the node behind it, 0 as long as no word went there or came",
    at_least=8,
)

BLOCK = Record(
    "block of a node",
    node="its number, by rows of the fabric",
    layout="word of the LAYOUT of its class in the program words",
    code="word of its CODE in the program words, -1 none",
    memory="word of the state at which its memory begins",
    bytes="bytes of memory",
    free="the datapath takes the next step from this cycle on",
    halted="1: the program stopped this PE",
    threads="mask of threads with an operation: bits 0..7 microthreads, 8 main",
    stalled="threads that wait for a word (bits 0..8), for room in an output (from STALLED_OUTPUT on)",
    ut_blocked="mask of blocked microthreads",
    tested="threads that have to be looked at before each step: new ones, and those of SEVERAL",
    levels="mask of microthreads per priority, LEVEL_BITS each: larger is served first; see GIVEN_AT",
    level="priority of the main thread",
    last="thread served last",
    task="kind << 16 | id of the running task, -1 none",
    ready="main thread: next instruction from this cycle on",
    streams_in="mask of colors on which the host sends",
    flush="mask of queues with a flush under way (8 + output queue), of their tasks from FLUSH_TASK on, "
    "of those that were flushed from FLUSH_DONE on",
    filled="queues with words, by number",
    claimed="queues that a thread reads",
    active="mask of active local tasks",
    blocked="mask of blocked ids",
    launch="function to launch, -1",
    teardown="mask of colors with a pending teardown",
    seat="in the wheel",
    shut="router: channels that wait for room behind them, by place in the class's list",
    busy="cycles in which the datapath issued something",
    ramp="the ramp into the router is free from this cycle on",
    sequence="words sent",
    timed="threads whose next step may lie ahead; from ENDED on those whose completion has yet to act",
    load_start="first cycle of the window whose words are counted",
    channels="router: channels with words, by place in the class's list; FRONTIER",
    next=Words(9, "per thread: next step, or the act of its completion, from this cycle on"),
    high="mask of ids with priority HIGH",
    next_id="whose turn it is among equals: the id after that of the task that started last",
    map_wait=(
        "cursor (word of its OPERAND) that the main thread waits for, 0 none; BUSY_THREAD - n: it waits for "
        "the end of microthread n"
    ),
    drain="the pipeline of the last synchronous DSD operation is empty from this cycle on",
    pc="instruction that runs next, of its program",
    frame="word of the registers of the running function",
    line="listing index of the instruction started last",
    links=Rows(LINK, 5, "per output port"),
    bubble="cycles lost by branches that hide the latency of a DSR load",
    complete="its results can be read from this cycle on",
    stretch="cycles that the datapath takes for the work of a cycle",
    depth="calls that the running task is deep",
    stack="byte address of the next frame memory",
    float_register="register written by the last floating-point instruction, -1",
    float_ready="its result can be read from this cycle on",
    tsc="timer: cycle of its last reset",
    tsc_stopped="value while disabled, -1 while counting",
    prng="active generator",
    prng_state=Words(4, "of the four generators"),
    launch_command="command that waits for S_UNBLOCK_COMMANDS, -1",
    launch_args="place of arguments in host words",
    launch_count="number of those arguments",
    copied="2 * the last copy that came to it: + 1 when it was seen without work, + 2 when it was made",
    run_start="start of what the main track shows",
    function="of the running task",
    task_count="tasks started",
    event_id="id of the word that started the running task",
    history="cycle at which the block was made",
    out=Words(8, "color of each output queue, -1"),
    out_used=Words(8, "WSE-2: 1 + the color that used each output queue last"),
    task_start="cycle",
    occupied="cycles in which the main track showed work, by what is over",
    linked="cycles with a word on a link << CYCLE_BITS | low bits of the cycle behind the last one",
    due=Words(24, "router: per channel with words, by place in the class's list, when to look at it again"),
    ended="the cycle behind the last task",
    waited="cycles in which the main track showed waits, of those that are over",
    let="what last activated or unblocked something here: the cycle behind it << 4 | thread, 0 nothing yet",
    done="the last operation that ended: the cycle behind it << 4 | thread",
    torn_by="identity of the last word that asked for a teardown",
    released="the cycle behind the last release of the host",
    map_since="cycle since which the main thread waits for what `map_wait` says",
    sent=Words(64, "of the last words sent, by sequence: the cycle behind it << 4 | thread"),
)
SENT_WORDS = 64

WAIT_NONE = 0
WAIT_INPUT = 1
WAIT_OUTPUT = 2
WAIT_FIFO_EMPTY = 3
WAIT_FIFO_FULL = 4
WAIT_BLOCKED = 5  # a blocked microthread
WAIT_SLOT = 6  # the main thread, for a microthread that is busy
WAIT_TURN = 7  # for others that have the datapath

# --- a thread: one DSD operation under way ----------------------------------------------------------
MAIN = 8
BUSY_THREAD = -2
NUM_THREADS = 9

# --- an operand under way; a cursor of @map is one, too
OPERAND = Record(
    "operand under way",
    kind="a KIND_ number",
    address="of the next element; the value itself of a scalar",
    line=Same("address", "of a fabric operand: listing index of its operation"),
    step="bytes from element to element; of a fabric operand: its priority",
    bytes="of an element",
    flags="FLAG_ bits",
    per_word="elements per wavelet",
    record="word of its QUEUE, CHANNEL or FIFO",
    queue="number of its queue or FIFO",
    color="of a fabric operand",
    shape="word of its shape in the program words",
    left="elements that it has, -1 no limit",
    index=Words(4, "four counters of mem4d; start and end of a circular buffer"),
    dsr="word of its DSR, -1",
    base="address of the first element",
    length="elements it was made with, -1 no limit",
    at_least=24,
)

THREAD = Record(
    "thread",
    op="a D_ number",
    left="elements left",
    group="elements per beat",
    cycles="cycles per beat",
    wait="a WAIT_ number",
    fabric="what it waits for: 0 nothing, KIND_INPUT, KIND_OUTPUT, SEVERAL",
    record="word of that queue or channel",
    kinds="kinds of its operands, KIND_BITS each; IS_PLAIN and IS_SIGNED beside them",
    value="accumulator of a reduction, carry",
    control="what a control word does: 0 nothing, 1 terminate, 2 activate, 3 unblock",
    reduces="1: a reduction",
    index="wavelet index of an output, -1",
    lag="cycles from its last step to what its completion does",
    line="listing index",
    total="elements in all",
    activate="task to activate at the end, -1",
    unblock="id to unblock at the end, -1",
    unblock_kind="an ID_ number",
    control_id="id that a control word activates or unblocks, -1",
    control_kind="an ID_ number",
    result="register word of the bool result, -1",
    start="cycle",
    is_async="1: asynchronous",
    occupied="of a microthread: cycles of its operations that are over",
    finished="result of the operation: 1 ended, 0 suspended by a FIFO test",
    expected="its next step can be at this cycle, if it has to wait for nothing",
    why="a WAIT_ number: what it has waited for since its last step",
    resumed="since when it goes on without a wait worth showing",
    paused="start of the wait before that, 0 none; it is recorded when nothing can be added to it",
    reason="a WAIT_ number: what that was for",
    ended="the cycle behind the last operation",
    waited="of a microthread: cycles of its waits that are over",
    operands=Rows(OPERAND, 4, "destination, first, second source, multiplier"),
)

KIND_NOTHING = 0
KIND_LINE = 1
KIND_SHAPE = 2
KIND_RING = 3
KIND_INPUT = 4
KIND_OUTPUT = 5
KIND_FIFO = 6
KIND_VALUE = 7
KIND_BITS = 4
# Beside the kinds: memory in lines, constants, single words of the fabric, no control words.
IS_PLAIN = 1 << 16
IS_SIGNED = 1 << 17  # a sum or a difference of elements of i16 variables
SEVERAL = 255

# flags of a fabric operand
FLAG_CONTROL = 1
FLAG_TRANSFORM = 2
FLAG_ADVANCE = 4
FLAG_INDEX = 8
FLAG_ZERO_FIRST = 16
FLAG_ZERO_SECOND = 32
FLAG_SAVE = 64
FLAG_PAIR_ANY = 128
FLAG_PAIR = 256

# --- words in rings ----------------------------------------------------------------------------------
ENTRY = Record(
    "word in a ring",
    payload="payload | MARK_ bits",
    identity="of the word, for the trail",
    ready="cycle from which it can be taken",
)

MARK_CONTROL = 1 << 32
MARK_ADVANCE = 1 << 33
MARK_BUSY = 1 << 34  # a link that it wanted was busy
HELD_SHIFT = 36  # above this: cycles that routers held it
MARKED = MARK_ADVANCE - 1  # payload and control mark

# --- an input queue ---------------------------------------------------------------------------------
QUEUE = Record(
    "input queue",
    color="-1: not bound",
    head="entry of its head",
    count="words in it",
    limit="words there are places for, those on the ramp included",
    last="cycle of the last pop",
    thread="thread that reads it, -1",
    peak="most words so far",
    id="data task id",
    length="words of the queue itself",
    priority="of its data task",
    in_left="stream from the host: words left",
    in_at="place of the next word in host words (32-bit words)",
    in_command="its command",
    in_next="cycle of the next word",
    room="words it takes, at most `limit`",
    _15=Gap(1),
    ring=Rest("an ENTRY per word"),
)

# --- a channel: one color in a router -----------------------------------------------------------------
PORT = Record(
    "port of a channel",
    head="entry of its head",
    count="words in it",
    last="cycle of the last pop",
    target="channel of the same color behind this output, 0 as long as nothing was sent",
)

FILTER = Record(
    "filter in front of a processor",
    count_data="1: data words are counted",
    count_control="1: control words are counted",
    counter="words counted",
    limit1="count at which the counter begins again",
    limit2="the next limit1, 0: none",
    max_counter="words pass up to this count",
    filter_control="1: control words pass at this count only",
    min_idx="lowest index that passes",
    max_idx="highest index that passes",
    off="1: everything passes",
)

CHANNEL = Record(
    "channel",
    color="0..23",
    position="its switch position",
    positions=Words(4, "receive | transmit << 8 | 1 << 16 valid"),
    held="ports with words",
    served="cycle in which it was served last",
    filter_kind="isa.FILTER_ number + 1, 0 none",
    routed="1: a router configuration exists",
    closed="1: teardown",
    queue="number of the input queue behind RAMP, -1",
    slots="entries per port ring",
    limit="words a port ring may hold",
    limit_ramp="words the ring of the ramp may hold",
    bit="its bit in BLOCK.channels",
    ports=Rows(PORT, 5, "by port"),
    filters=Rows(FILTER, 1, "one, of that kind"),
    is_ring="1: the first position follows the last",
    pop="POP_ number: when a control word loses its first command",
    swap="mask of the axes on which colors of a pair are swapped",
    out_left="stream to the host: words left",
    out_at="place of the next word in host words",
    out_command="its command",
    out_next="cycle of the next word",
    out_word="identity of the last word",
    at_least=56,
)
# Then four rings of `slots` entries, and the one of RAMP with `limit_ramp`.

# --- a FIFO
FIFO = Record(
    "FIFO",
    read="byte position",
    fill="bytes in it",
    by="who pushed or popped last: the cycle behind it << 4 | thread",
    read_length="elements of the next operation that reads, 0: not set",
    write_length="of the next one that writes",
    was_full="1: a push met it full",
    was_empty="1: a pop met it empty",
    need="bytes the stalled push needs",
    need_pop="bytes the stalled pop needs",
)

DSR = Record(
    "DSR",
    word="descriptor",
    settings="row of its settings, -1 none; a snapshot of them follows",
    activate="task to activate, -1",
    unblock="id to unblock, -1",
    control_id="id for control words, -1",
    ut="microthread, -1",
)

# --- stages of a word in the trail
TRAIL_SENT = np.int64(0)
TRAIL_HOP = np.int64(1)
TRAIL_TAKEN = np.int64(2)
TRAIL_DROPPED = np.int64(3)

STAGE = Record(
    "stage of a word's way",
    identity="of the word",
    cycle="in which it happened",
    place="node | port << 24 | TRAIL_ number << 28 | cycles waited << 32 | color << 56",
    extra="TRAIL_SENT: the instruction that sent it, -1 unknown; else the payload with its control mark",
)

# --- the frame of a running function
FRAME = Record(
    "frame",
    pc="where the caller goes on, -1: the task ends",
    caller="word of the caller's registers",
    result="register word of the result, -1",
    stack="byte address of its frame memory",
    function="its function",
    call="instruction of the call, -1",
    registers=Rest("of the function"),
)

# --- what became of a host command (host_commands.py)
COMMAND_STATE = Record(
    "state of a command",
    state="0 given, 1 under way, 2 done",
    left="PEs left",
    start="cycle",
    end="cycle at which it is done, -1 unknown",
    first="place in its region of the first PE that a copy waits for",
    beyond="place behind the last one",
)
