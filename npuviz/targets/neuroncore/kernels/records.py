"""Word positions of the machine's root state `s` and of its immutable program words `p`.

The state is one flat int64 array: a header, then tables whose first words the header names; the log
of completions stands last, because it grows.
"""

# --- header of the state -------------------------------------------------------------------------
H_CYCLE = 0  # base cycles completed
H_STATUS = 1
H_FAULT = 2  # a FAULT_ code
H_FAULT_SEQUENCER = 3
H_FAULT_INSTRUCTION = 4
H_FAULT_SUBJECT = 5  # semaphore or event concerned
H_LAST = 6  # time of the last event
H_SEQUENCERS_COUNT = 7
H_ENGINES_COUNT = 8  # DMA engines, of all cores
H_CORES_COUNT = 9
H_WAKES = 10  # word of the wake times: one per sequencer, then one per DMA engine
H_SEQUENCERS = 11
H_ENGINES = 12
H_QUEUES = 13  # word of queue set 0
H_QUEUES_COUNT = 14
H_RINGS = 15  # word of ring 0 of queue set 0: MAX_RINGS rings a set
H_SEMAPHORES = 16  # word of core 0's semaphores: SEMAPHORE_WORDS each, events after semaphores
H_SEMAPHORES_COUNT = 17  # semaphores and events of one core together
H_EVENTS_FROM = 18  # index of event 0 among them
H_PORTS = 19  # word of core 0's ports: PORTS words each
H_NODES = 20  # word of node 0: NODE_WORDS each
H_NODES_COUNT = 21
H_TILES = 22  # word of the first cycle of each allocation
H_TILES_COUNT = 23
H_LOG = 24  # word of the log of completions
H_LOG_COUNT = 25
H_LOG_CAPACITY = 26
H_DIRTY = 27  # 1: waiting sequencers must look again at this time
H_AGAIN = 28  # 1: they must look again one cycle later
H_COMPLETED = 29  # instructions completed
H_TRANSFERS = 30  # transfers completed
H_BYTES = 31  # bytes moved by DMA
H_MACS = 32
HEADER_WORDS = 40

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
MAX_SEMAPHORE = (1 << 32) - 1  # Assumed: semaphores have 32 bits.

# --- one sequencer -------------------------------------------------------------------------------
Q_STATE = 0
Q_PC = 1  # instruction it holds next
Q_END = 2  # end of its program
Q_FIRST = 3
Q_CURRENT = 4  # instruction that occupies the engine
Q_START = 5
Q_UNTIL = 6
Q_SINCE = 7  # time at which it began to wait for the present cause
Q_CAUSE = 8  # KIND_ of the wait
Q_DONE = 9  # completion time of the newest instruction
Q_HEAD = 10  # ring of instructions in flight
Q_COUNT = 11
Q_BUSY = 12  # cycles occupied
Q_WAITED = 13  # cycles waited
Q_RETRY = 14  # time at which to look again, FAR if an update must come first
Q_ISSUED = 15
Q_BARRIER = 16  # barriers it has arrived at
Q_FLIGHT = 20  # FLIGHTS pairs (instruction, completion time)
FLIGHTS = 32
Q_REGISTERS = Q_FLIGHT + 2 * FLIGHTS
SEQUENCER_WORDS = Q_REGISTERS + 64

FREE = 0  # looks at its next instruction
BUSY = 1
WAITING = 2
ENDED = 3

# --- one DMA engine ------------------------------------------------------------------------------
D_QUEUE = 0  # queue set it serves now, -1 if none
D_UNTIL = 1
D_SERVED = 2  # elements of the running quantum
D_IS_MARK = 3  # 1: the quantum is the semaphore write
D_SLICE = 4  # start of the interval under way, -1 if none
D_SLICE_QUEUE = 5
D_SLICE_TRIGGER = 6
D_TURN = 7  # queue set served last, for the round robin
D_BUSY = 8
D_CORE = 9
D_NUMBER = 10  # its number in the core
D_BYTES = 11
ENGINE_WORDS = 12

# --- one queue set -------------------------------------------------------------------------------
W_CORE = 0
W_RINGS = 1
W_COUNT = 2  # transfers enqueued so far
W_DONE = 3  # transfers finished so far
W_PEAK = 4
W_BASE = 5  # DMA engine of its ring 0; further rings go on from there
W_FIFO = 8  # FIFO_TRANSFERS entries of FIFO_WORDS, by number % FIFO_TRANSFERS
FIFO_TRANSFERS = 64  # Assumed: transfers a queue set holds before its trigger waits.
F_TRIGGER = 0  # instruction
F_READY = 1  # time from which elements may be served
F_LEFT = 2  # rings that have not finished it
F_START = 3  # time of the trigger
FIFO_WORDS = 4
QUEUE_WORDS = W_FIFO + FIFO_TRANSFERS * FIFO_WORDS

# --- one ring ------------------------------------------------------------------------------------
R_HEAD = 0  # number of the transfer it works on
R_PART = 1  # part of it, relative to its first part on this ring
R_LEFT = 2  # elements left of the part, -1: not begun
RING_WORDS = 3
MAX_RINGS = 16

# --- one semaphore or event ----------------------------------------------------------------------
S_VALUE = 0
S_UPDATER = 1  # instruction that changed it last, -1 if none has
SEMAPHORE_WORDS = 2

LOG_WORDS = 2  # completion: instruction, or -1 - trigger of a transfer; its time

PORTS = 16  # exclusive resources of a core: word = time until which it is taken

N_STARTED = 0
N_LEFT = 1  # completions to come
NODE_WORDS = 2

# --- program words `p` ---------------------------------------------------------------------------
P_INSTRUCTIONS = 0  # word of instruction 0
P_WAITS = 1
P_UPDATES = 2
P_TRANSFERS = 3
P_OFFSETS = 4  # per transfer: first part of each ring, MAX_RINGS + 1 words
P_PARTS = 5
P_REMOTES = 6
P_ACCESSES = 7
P_OPENED = 8  # list of allocations, by the instruction that first writes them
P_CLOSED = 9  # list of allocations, by the instruction that uses them last
P_ALLOCATIONS = 10
P_DMA_START = 11  # base cycles from a trigger to the first element
P_MARK_COST = 13  # cycles of the semaphore write of a ring
P_TRACK_ENGINES = 14  # first track of the DMA engines
P_TRACK_PENDING = 15  # first track of the queue sets' counters
P_TRACK_OF_SEMAPHORE = 16  # word of a table: global semaphore -> track, -1 if not shown
P_BRANCH_MAX = 17
PROGRAM_HEADER = 24

I_OPCODE = 0
I_ISSUE = 1  # base cycles it occupies its engine
I_LATENCY = 2  # base cycles from start to completion
I_PORTS = 3  # bit mask
I_WAIT = 4  # first wait, and their number
I_WAITS = 5
I_UPDATE = 6
I_UPDATES = 7
I_TRANSFER = 8  # -1 if it triggers none
I_NODE = 9
I_OPENED = 10  # first entry of the list, and their number
I_OPENS = 11
I_CLOSED = 12
I_CLOSES = 13
I_ACCESS = 14
I_ACCESSES = 15
I_TARGET = 16  # of a branch
I_OP0 = 17
I_OP1 = 18
I_CMD = 19
I_VALUE = 20  # integer immediate
I_FLAGS = 21
I_MACS = 22
I_KIND = 23
INSTRUCTION_WORDS = 24

WAIT_SEMAPHORE = 0  # global index: core * semaphores of a core + semaphore
WAIT_CONDITION = 1
WAIT_VALUE = 2
WAIT_PRODUCER = 3  # instruction whose update makes it true, -1 if unknown
WAIT_WORDS = 4

UPDATE_KIND = 0
UPDATE_WHEN = 1
UPDATE_SEMAPHORE = 2
UPDATE_VALUE = 3
UPDATE_WORDS = 4

T_QUEUE = 0
T_SEMAPHORE = 1  # global index, -1 if none
T_EVENT = 2  # global index, -1 if none
T_REMOTE = 3  # first remote semaphore, and their number
T_REMOTES = 4
T_BYTES = 6
T_ACCESS = 7
T_ACCESSES = 8
TRANSFER_WORDS = 10

PART_ELEMENTS = 0
PART_COST = 1  # base cycles an element, in 1/1024
PART_BYTES = 2  # of an element
PART_WORDS = 3

A_MEMORY = 0
A_WRITE = 1
A_PARTITION = 2
A_PARTITIONS = 3
A_LOW = 4  # byte in the partition (HBM: in the memory)
A_HIGH = 5
A_PITCH = 6  # bytes of a partition
ACCESS_WORDS = 7

L_MEMORY = 0
L_BANK = 1
L_FIRST = 2  # instruction that opened it
LIFE_WORDS = 3

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

QUANTUM = 8  # Assumed: elements a ring may move before the next ring has its turn.

RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_FAULT = 2
RESULT_EVENTS = 4
RESULT_GROW_LOG = 5
RESULT_DEADLOCK = 6
