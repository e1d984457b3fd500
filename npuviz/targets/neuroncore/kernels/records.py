"""Records: the layout of the machine's state words and of its immutable program words.

The state is one flat int64 array: a header, then tables whose first words the header names; the log
of completions stands last, because it grows.
"""

from npuviz.sim.parts.record_kernels import Gap, Record, Rows, Words

# --- header of the state -------------------------------------------------------------------------

CHIP = Record(
    "chip",
    cycle="base cycles completed",
    status="STATUS_ number",
    fault="a FAULT_ code",
    fault_sequencer="sequencer concerned",
    fault_instruction="listing index, -1 none",
    fault_subject="semaphore or event concerned",
    last="time of the last event",
    sequencers_count="sequencers of all cores",
    engines_count="DMA engines, of all cores",
    cores_count="cores",
    wakes="word of the wake times: one per sequencer, then one per DMA engine",
    sequencers="word of sequencer 0",
    engines="word of DMA engine 0",
    queues="word of queue set 0",
    queues_count="queue sets",
    rings="word of ring 0 of queue set 0: MAX_RINGS rings a set",
    semaphores="word of core 0's semaphores: SEMAPHORE_WORDS each, events after semaphores",
    semaphores_count="semaphores and events of one core together",
    events_from="index of event 0 among them",
    ports="word of core 0's ports: PORTS words each",
    nodes="word of node 0: NODE_WORDS each",
    nodes_count="graph nodes",
    tiles="word of the first cycle of each allocation",
    tiles_count="allocations",
    log="word of the log of completions",
    log_count="completions in it",
    log_capacity="completions that fit",
    dirty="1: waiting sequencers must look again at this time",
    again="1: they must look again one cycle later",
    completed="instructions completed",
    transfers="transfers completed",
    bytes="bytes moved by DMA",
    macs="multiply-accumulates of completed instructions",
    dma_start="base cycles from a trigger to the first element",
    dma_cost="cycles of the DMA engines where the program says one, in 1/65536",
    ramp="cycles of a window of PE's utilization, 0: PE is never limited",
    ramp_share="utilization below which PE is limited, and what it is limited to, in 1/65536",
    at_least=40,
)

STATUS_RUNNING = 0
STATUS_FINISHED = 1
STATUS_FAULT = 2
STATUS_DEADLOCK = 3

FAULT_SEMAPHORE_OVERFLOW = 1
FAULT_SEMAPHORE_UNDERFLOW = 2
FAULT_EVENT_SET_TWICE = 3
FAULT_EVENT_CLEARED_TWICE = 4
FAULT_BRANCH = 5

FAR = 1 << 60
ONE = 65536
"""A cycle, in the units of costs that can be changed while a program runs."""
MAX_SEMAPHORE = (1 << 32) - 1  # Assumed: semaphores have 32 bits.

# --- one sequencer -------------------------------------------------------------------------------
FLIGHTS = 32

FLIGHT = Record(
    "instruction in flight",
    instruction="listing index",
    end="completion time",
)

SEQUENCER = Record(
    "sequencer",
    state="FREE, BUSY, WAITING or ENDED",
    pc="instruction it holds next",
    end="end of its program",
    first="first instruction of its program",
    current="instruction that occupies the engine",
    start="cycle at which that began",
    until="cycle at which it is free again",
    since="time at which it began to wait for the present cause",
    cause="KIND_ of the wait",
    done="completion time of the newest instruction",
    head="ring of instructions in flight",
    count="instructions in flight",
    busy="cycles occupied",
    waited="cycles waited",
    retry="time at which to look again, FAR if an update must come first",
    issued="instructions issued",
    barrier="barriers it has arrived at",
    cost="cycles where the program says one, in 1/65536",
    _17=Gap(2),
    window="first cycle of the window of its utilization",
    used="cycles of the whole array in that window, but for those of the newest instruction",
    array="cycles of the whole array of the newest instruction",
    is_limited="1: its instructions take longer until a window is well used",
    limited="cycles that this took",
    flight=Rows(FLIGHT, FLIGHTS, "instructions in flight; the oldest is `head`"),
    registers=Words(64, "values of its registers"),
)

FREE = 0  # looks at its next instruction
BUSY = 1
WAITING = 2
ENDED = 3

# --- one DMA engine ------------------------------------------------------------------------------

ENGINE = Record(
    "DMA engine",
    queue="queue set it serves now, -1 if none",
    until="end of the running quantum",
    served="elements of the running quantum",
    is_mark="1: the quantum is the semaphore write",
    slice="start of the interval under way, -1 if none",
    slice_queue="queue set of that interval",
    slice_trigger="instruction that triggered it",
    turn="queue set served last, for the round robin",
    busy="cycles of all quanta",
    core="core it belongs to",
    number="its number in the core",
    bytes="bytes moved",
)

# --- one queue set -------------------------------------------------------------------------------
FIFO_TRANSFERS = 64  # Assumed: transfers a queue set holds before its trigger waits.

TRANSFER_ENTRY = Record(
    "entry of a queue set",
    trigger="instruction",
    ready="time from which elements may be served",
    left="rings that have not finished it",
    start="time of the trigger",
    issued="end of its issue",
)

QUEUE = Record(
    "queue set",
    core="core it belongs to",
    rings="DMA rings it has",
    count="transfers enqueued so far",
    done="transfers finished so far",
    peak="most transfers pending at once",
    base="DMA engine of its ring 0; further rings go on from there",
    _6=Gap(2),
    fifo=Rows(TRANSFER_ENTRY, FIFO_TRANSFERS, "transfers, by number % FIFO_TRANSFERS"),
)

# --- one ring ------------------------------------------------------------------------------------

RING = Record(
    "ring",
    head="number of the transfer it works on",
    part="part of it, relative to its first part on this ring",
    left="elements left of the part, -1: not begun",
)
MAX_RINGS = 16

# --- one semaphore or event ----------------------------------------------------------------------

SEMAPHORE = Record(
    "semaphore",
    value="count; an event is 0 or 1",
    updater="instruction that changed it last, -1 if none has",
)

LOG_WORDS = 2  # completion: instruction, or -1 - trigger of a transfer; its time

PORTS = 16  # exclusive resources of a core: word = time until which it is taken

NODE = Record(
    "node",
    started="1: its first work has started",
    left="completions to come",
)

# --- program words `p` ---------------------------------------------------------------------------

PROGRAM = Record(
    "program",
    instructions="word of instruction 0",
    waits="word of wait 0",
    updates="word of update 0",
    transfers="word of transfer 0",
    offsets="per transfer: first part of each ring, MAX_RINGS + 1 words",
    parts="word of part 0",
    remotes="word of the list of remote semaphores",
    accesses="word of access 0",
    opened="list of allocations, by the instruction that first writes them",
    closed="list of allocations, by the instruction that uses them last",
    allocations="word of allocation 0",
    _12=Gap(1),
    mark_overlaps="1: it begins while the element before it is moving",
    mark_cost="cycles of the semaphore write of a ring",
    track_engines="first track of the DMA engines",
    track_pending="first track of the queue sets' counters",
    track_of_semaphore="word of a table: global semaphore -> track, -1 if not shown",
    branch_max="not used",
    at_least=24,
)

INSTRUCTION = Record(
    "instruction",
    opcode="see isa",
    issue="base cycles it occupies its engine",
    latency="base cycles from start to completion",
    ports="bit mask of the ports it takes",
    wait="first wait, and their number",
    waits="number of waits",
    update="first update, and their number",
    updates="number of updates",
    transfer="-1 if it triggers none",
    node="graph node, -1",
    opened="first entry of the list, and their number",
    opens="number of them",
    closed="first entry of the list, and their number",
    closes="number of them",
    access="first access, and their number",
    accesses="number of accesses",
    target="of a branch",
    op0="first register operand",
    op1="second register operand",
    cmd="what the instruction does with them",
    value="integer immediate",
    flags="FLAG_ bits",
    macs="multiply-accumulates",
    array="base cycles in which the whole array of PE would do this",
    kind="name of its intervals in the trace",
)

WAIT = Record(
    "wait",
    semaphore="global index: core * semaphores of a core + semaphore",
    condition="comparison, see isa",
    value="what the semaphore is compared with",
    producer="instruction whose update makes it true, -1 if unknown",
)

UPDATE = Record(
    "update",
    kind="UP_ number",
    when="WHEN_ number",
    semaphore="global index",
    value="amount",
)

TRANSFER = Record(
    "transfer",
    queue="queue set",
    semaphore="global index, -1 if none",
    event="global index, -1 if none",
    remote="first remote semaphore, and their number",
    remotes="number of remote semaphores",
    _5=Gap(1),
    bytes="of the whole transfer",
    access="first access, and their number",
    accesses="number of accesses",
    at_least=10,
)

PART = Record(
    "part",
    elements="elements of it",
    cost="base cycles an element, in 1/1024",
    bytes="of an element",
)

ACCESS = Record(
    "access",
    memory="memory id",
    write="1: written, 0: read",
    partition="first partition",
    partitions="their number",
    low="byte in the partition (HBM: in the memory)",
    high="byte behind the last",
    pitch="bytes of a partition",
)

LIFE = Record(
    "life of an allocation",
    memory="memory id",
    bank="bank of it",
    first="instruction that opened it",
)

# --- constants of the instruction set (isa.py; a test keeps them equal) ---------------------------
OP_END = 1
OP_REG_MOVE = 2
OP_REG_ALU = 3
OP_BRANCH = 4
OP_CORE_BARRIER = 5
FLAG_REGISTER = 64
UP_INC = 1
UP_DEC = 2
UP_ADD = 3
UP_SUB = 4
UP_WRITE = 5
UP_EVENT_SET = 6
UP_EVENT_CLEAR = 7
WHEN_COMPLETE = 0
WHEN_READ = 1

KIND_WAIT_SEMAPHORE = 64
KIND_WAIT_PORT = 65
KIND_WAIT_QUEUE = 66
KIND_WAIT_BARRIER = 67
KIND_TRANSFER = 70
KIND_DMA_START = 71
KIND_PIPELINE = 72

QUANTUM = 8  # Assumed: elements a ring may move before the next ring has its turn.

RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_FAULT = 2
RESULT_EVENTS = 4
RESULT_GROW_LOG = 5
RESULT_DEADLOCK = 6
