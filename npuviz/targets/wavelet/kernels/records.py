"""Word positions of the root state `s` and of the host words `h`.

The state is one flat int64 array: a header, the time wheel, the tables of nodes (places of the fabric with
a program or a route) and of their seats in the wheel, the trail of hops, then a heap. When something first
happens at a node, its block is copied to the heap and it takes the next seat; an idle node takes a word of
the first table.
"""

import numpy as np

# --- header of the state -------------------------------------------------------------------------
H_CYCLE = 0
H_STATUS = 1
H_FAULT = 2  # a FAULT_ code
H_FAULT_NODE = 3
H_FAULT_INSTRUCTION = 4  # listing index, -1 none
H_FAULT_VALUE = 5
H_USED = 6  # words of the state in use
H_DEMAND = 7  # words that blocks not yet made will need
H_NODES = 8  # word of the node table
H_NODES_COUNT = 9
H_WHEEL = 10  # word of the wheel, see wheel_kernels
H_WHEEL_GROUPS = 11  # word of its marks per group of words
H_WHEEL_TOPS = 12  # word of its marks per group of groups
H_NOW = 13  # the cycle whose events ran last, or run now
H_BANDS = 14  # word of the first band
H_BANDS_COUNT = 15
H_BAND_SHIFT = 16  # a band has 1 << this seats
H_BORDER = 17  # seats at the end of a band that have neighbours in the next one
H_ASIDE = 18  # while bands run side by side: word of the rows kept for the log, else 0
H_TRAIL_ROWS = 19  # of each band, a power of two
H_HOST_AT = 20  # cycle at which the host has something to do, FAR if none
H_GIVEN = 21  # host commands given
H_NEXT = 22  # next host command to start
H_DONE = 23  # commands done in all
H_OLDEST = 24  # first command that may not be done
H_ACTIVE = 25  # commands under way
H_COMMANDS = 26  # word of the commands' state, COMMAND_WORDS each
H_COMMANDS_ROOM = 27
H_CLOSED = 28  # no more commands will come
H_CLOSED_AT = 29  # cycle at which the last command of a closed list was done, -1
H_FINAL = 30
H_LOG_FIRST = 31  # first chunk of the log (prints, hazards, traces), 0 none
H_LOG_LAST = 32
H_LOG_COUNT = 33
H_SEEN = 34  # word of the table of hazards seen lately
H_HAZARDS = 35  # hazards logged
H_EVENTS = 36  # events processed
H_WHEEL_END = 37  # words of 32 actors
H_WHEEL_TOPS_COUNT = 38
H_FAULTS = 39  # 1 from the first fault of a band on
H_SEATS = 40  # word of the table of seats: the block of the node that has it, -1 - node before it has one
H_SEATS_COUNT = 41  # seats taken
H_SORTED = 42  # seats in the order of nodes, the first ones; see seats_kernels
H_SEATED_AT = 43  # cycle at which the last seat was taken
H_BANDS_FILLED = 44  # bands that have sorted seats
H_POSTPONED = 45  # 1: in this cycle something has to run after all others
H_ALONE = 46  # 1: that is what runs now
H_SLOTS = 64  # per slot of the wheel: 1 if somebody wakes in it
HEADER_WORDS = 96

# --- a band: seats that one thread may run while others run theirs -----------------------------------
BAND_INSTRUCTIONS = 0  # scalar instructions
BAND_BEATS = 1  # steps of DSD operations
BAND_ELEMENTS = 2  # elements of DSD operations
BAND_HOPS = 3
BAND_TAKEN = 4  # words taken by processors
BAND_DROPPED = 5
BAND_TASKS = 6  # tasks run
BAND_FLOPS = 7
BAND_TRAIL = 8  # word of its trail
BAND_TRAIL_COUNT = 9  # stages written so far
BAND_FAULT = 10  # a FAULT_ code
BAND_FAULT_NODE = 11
BAND_FAULT_INSTRUCTION = 12  # listing index, -1 none
BAND_FAULT_VALUE = 13  # what the fault is about: an address, a color, a message
BAND_WORDS = 32  # four lines: nobody else writes near
BORDERS_OF_A_BAND = 16  # a band is at least so many times its border: all wait for the borders
MOST_BANDS = 8
NODES_OF_A_BAND = 2048  # a wafer has a band for so many nodes, though not more than MOST_BANDS

STATUS_RUNNING = 0
STATUS_FINISHED = 1
STATUS_FAULT = 2
STATUS_DEADLOCK = 3

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

# A plain int is a type of its own to numba as an argument: the function it is passed to is compiled once more
# for it. A numpy number is not.
ZERO = np.int64(0)
ONE = np.int64(1)
NONE = np.int64(-1)

# --- faults ----------------------------------------------------------------------------------------
FAULT_ADDRESS = np.int64(1)  # memory access outside
FAULT_ASSERT = np.int64(2)
FAULT_STACK = np.int64(3)
FAULT_REGISTERS = np.int64(4)
FAULT_OPCODE = np.int64(5)
FAULT_EDGE = np.int64(6)  # a route leaves the fabric
FAULT_UNROUTED = np.int64(7)  # a word arrives where its color is not configured
FAULT_QUEUE = np.int64(8)  # an operand names a queue that has no color
FAULT_THREAD = np.int64(9)  # two live operations on one microthread
FAULT_FIFO = np.int64(10)  # the FIFO action "fault"
FAULT_FUNCTION = np.int64(11)
FAULT_COLOR = np.int64(12)
FAULT_DSR = np.int64(13)
FAULT_SHAPE = np.int64(14)
FAULT_OPERAND = np.int64(16)

# --- hazards (log entries) ---------------------------------------------------------------------------
LOG_PRINT = np.int64(1)  # value: character codes of a line follow one by one
LOG_TRACE = np.int64(2)
LOG_CONTROL_UNBOUND = np.int64(3)
LOG_THREAD_BUSY = np.int64(4)
LOG_LENGTHS = np.int64(5)
LOG_ABSORBED = np.int64(6)
LOG_NO_INDEX = np.int64(7)
LOG_TWO_ARRIVALS = np.int64(8)
LOG_QUEUE_BUSY = np.int64(9)
LOG_NO_ADVANCE = np.int64(11)
LOG_UNBOUND_TASK = np.int64(12)
LOG_OUTPUT_BUSY = np.int64(14)
LOG_REBOUND = np.int64(15)
LOG_MIXED = np.int64(16)
LOG_BOUNDS = np.int64(17)
LOG_CHUNK_ROWS = 64
LOG_ROW = 5  # cycle, node, kind, value, instruction
ASIDE_ROW = 4  # node, kind, value, instruction
SEEN_WORDS = 1024  # a power of two
MOST_HAZARDS = 1 << 15
LAST_SHIFT = 20  # value of LOG_BOUNDS: base | (last + LAST_BIAS) << LAST_SHIFT
LAST_BIAS = 1 << 24

# --- a node's block ------------------------------------------------------------------------------------
# What an event reads comes first, line by line of 64 bytes: a wafer's blocks do not fit into the caches.
B_NODE = 0
B_CLASS = 1  # word of the class in p
B_PROGRAM = 2  # word of the program in p, -1 none
B_MEMORY = 3  # word of the state
B_BYTES = 4  # bytes of memory
B_FREE = 5  # the datapath takes the next step from this cycle on
B_HALTED = 6
B_THREADS = 7  # mask of threads with an operation: bits 0..7 microthreads, 8 main
B_STALLED = 8  # threads that wait for a word (bits 0..8), for room in an output (from STALLED_OUTPUT on)
B_UT_BLOCKED = 9
B_TESTED = 10  # threads that have to be looked at before each step: new ones, and those of SEVERAL
B_LEVELS = 11  # mask of microthreads per priority, LEVEL_BITS each: larger is served first
B_LEVEL = 12  # priority of the main thread
B_LAST = 13  # thread served last
B_TASK = 14  # kind << 16 | id of the running task, -1 none
B_READY = 15  # main thread: next instruction from this cycle on
B_STREAMS_IN = 16  # mask of colors on which the host sends
B_FLUSH = 17  # mask of queues with a flush under way (8 + output queue), of their tasks from FLUSH_TASK on
B_MAIN_MASK = 18  # queues with words, by number
B_CLAIMED = 19  # queues that a thread reads
B_ACTIVE = 20  # mask of active local tasks
B_BLOCKED = 21  # mask of blocked ids
B_LAUNCH = 22  # function to launch, -1
B_TEARDOWN = 23  # mask of colors with a pending teardown
B_SEAT = 24  # in the wheel
B_SHUT = 25  # router: channels that wait for room behind them, by place in the class's list
B_BUSY = 26  # cycles in which the datapath issued something
B_RAMP = 27  # the ramp into the router is free from this cycle on
B_SEQUENCE = 28  # words sent
B_TIMED = 29  # threads whose B_NEXT may lie ahead
B_LOAD_START = 30  # first cycle of the window whose words are counted
B_CHANNELS = 31  # router: channels with words, by place in the class's list; FRONTIER
B_NEXT = 32  # per thread: next step from this cycle on
B_HIGH = 41  # mask of ids with priority HIGH
B_NEXT_ID = 42  # whose turn it is among equals: the id after that of the task that started last
B_MAP_WAIT = 43  # cursor (operand record) that the main thread waits for, 0 none
B_DRAIN = 44  # pipeline of the last synchronous DSD operation is empty
B_COMPLETE = 89  # its results can be read
B_BUBBLE = 88  # cycles lost by branches that hide the latency of a DSR load
B_PC = 45
B_FRAME = 46  # word of the register frame
B_LINE = 47  # listing index of the instruction started last
B_LINKS = 48  # per output port LINK_WORDS
B_FUNCTION = 105  # of the running task
B_TASK_START = 125
B_DEPTH = 90
B_STACK = 91  # byte address of the next frame memory
B_FLOAT = 92  # register written by the last floating-point instruction, -1
B_FLOAT_READY = 93
B_TSC = 94  # cycle of the last reset
B_TSC_STOPPED = 95  # value while disabled, -1 while counting
B_PRNG = 96  # active generator
B_PRNG_STATE = 97  # four generators
B_LAUNCH_COMMAND = 101  # command that waits for S_UNBLOCK_COMMANDS, -1
B_LAUNCH_ARGS = 102  # place of arguments in host words
B_LAUNCH_COUNT = 103
B_RUN_START = 104  # start of what the main track shows
B_TASK_COUNT = 106
B_EVENT_ID = 107  # id of the word that started the running task
B_HISTORY = 108  # cycle at which the block was made
B_OUT = 109  # color of each output queue, -1
B_OUT_USED = 117  # WSE-2: 1 + the color that used each output queue last
B_DUE = 128  # router: per channel with words, by place in the class's list, when to look at it again
BLOCK_HEADER = 152
LINE_WORDS = 8  # of a cache line: blocks, threads, queues and channels begin on one

STALLED_OUTPUT = 16
FLUSH_TASK = 16
FLUSHES = (1 << FLUSH_TASK) - 1
FRONTIER = 1 << 62  # in B_CHANNELS, see seats_kernels
LEVEL_BITS = 8
TOP_LEVEL = 4
EACH_LEVEL = 0x01_01_01_01_01

# --- an output port of a router
LINK_FREE = 0  # in 1/1000 cycles
LINK_START = 1  # run of words: start, color, end
LINK_COLOR = 2
LINK_END = 3
LINK_LOAD = 4  # words of the present and of the last window, 32 bits each
LINK_BLOCK = 5  # of the node behind it, 0 as long as no word went there or came
LINK_WORDS = 8

WAIT_NONE = 0
WAIT_INPUT = 1
WAIT_OUTPUT = 2
WAIT_FIFO_EMPTY = 3
WAIT_FIFO_FULL = 4
WAIT_BLOCKED = 5  # a blocked microthread

# --- a thread: one DSD operation under way ----------------------------------------------------------
T_OP = 0
T_LEFT = 1  # elements left
T_GROUP = 2  # elements per beat
T_CYCLES = 3  # cycles per beat
T_WAIT = 4  # WAIT_
T_FABRIC = 5  # what it waits for: 0 nothing, KIND_INPUT, KIND_OUTPUT, SEVERAL
T_RECORD = 6  # word of that queue or channel
T_KINDS = 7  # kinds of its operands, KIND_BITS each; IS_PLAIN beside them
T_VALUE = 8  # accumulator of a reduction, carry
T_CONTROL = 9
T_REDUCES = 10
T_INDEX = 11
T_HALF = 12  # 16-bit float type of the program
T_LINE = 13  # listing index
T_TOTAL = 14
T_ACTIVATE = 15
T_UNBLOCK = 16
T_UNBLOCK_KIND = 17
T_CONTROL_ID = 18
T_CONTROL_KIND = 19
T_RESULT = 20  # register word of the bool result, -1
T_START = 21
T_ASYNC = 22
T_FINISHED = 24  # result of the operation: 1 ended, 0 suspended by a FIFO test
T_OPERANDS = 32  # destination, first, second source, multiplier
OPERAND_WORDS = 24
THREAD_WORDS = T_OPERANDS + 4 * OPERAND_WORDS
MAIN = 8
NUM_THREADS = 9

# --- an operand under way
A_KIND = 0
A_ADDRESS = 1  # of the next element; the value itself of a scalar
A_LINE = 1  # of a fabric operand: listing index of its operation
A_STEP = 2  # bytes
A_BYTES = 3  # of an element
A_FLAGS = 4
A_PER_WORD = 5  # elements per wavelet
A_RECORD = 6  # word of the queue (fabric input) or channel (output), FIFO
A_QUEUE = 7
A_COLOR = 8
A_SHAPE = 9  # word of its shape in p
A_LEFT = 10  # elements that it has, -1 no limit
A_INDEX = 11  # four counters of mem4d; start and end of a circular buffer
A_DSR = 15  # word of its DSR, -1
A_BASE = 16  # address of the first element
A_LENGTH = 17

KIND_NOTHING = 0
KIND_LINE = 1
KIND_SHAPE = 2
KIND_RING = 3
KIND_INPUT = 4
KIND_OUTPUT = 5
KIND_FIFO = 6
KIND_VALUE = 7
KIND_BITS = 4
IS_PLAIN = (
    1 << 16
)  # beside the kinds: memory in lines, constants, single words of the fabric, no control words
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

# --- an input queue ---------------------------------------------------------------------------------
Q_COLOR = 0  # -1: not bound
Q_HEAD = 1
Q_COUNT = 2
Q_LIMIT = 3  # words it may hold, those on the ramp included
Q_LAST = 4  # cycle of the last pop
Q_THREAD = 5  # thread that reads it, -1
Q_PEAK = 6
Q_ID = 7  # data task id
Q_LENGTH = 8  # words of the queue itself
Q_PRIORITY = 9
Q_IN_LEFT = 10  # stream from the host: words left
Q_IN_AT = 11  # place of the next word in host words (32-bit words)
Q_IN_COMMAND = 12
Q_IN_NEXT = 13  # cycle
Q_RING = 16
ENTRY_WORDS = 3  # payload | control << 32 | marks, id, ready

# --- a channel: one color in a router -----------------------------------------------------------------
C_COLOR = 0
C_POSITION = 1
C_POSITIONS = 2  # four words: receive | transmit << 8 | 1 << 16 valid
C_HELD = 6  # ports with words
C_SERVED = 7  # cycle in which it was served last
C_FILTER = 8  # kind + 1, 0 none
C_ROUTED = 9  # a router configuration exists
C_CLOSED = 10  # teardown
C_QUEUE = 11  # number of the input queue behind RAMP, -1
C_SLOTS = 12  # entries per port ring
C_LIMIT = 13  # words a port ring may hold
C_LIMIT_RAMP = 14
C_BIT = 15  # its bit in B_CHANNELS
C_PORTS = 16  # five ports of PORT_WORDS
C_FILTER_FIELDS = (
    36  # count_data, count_control, counter, limit1, limit2, max, filter_control, min_idx, max_idx, off
)
C_RING = 46
C_POP = 47
C_SWAP = 48
C_OUT_LEFT = 49  # stream to the host: words left
C_OUT_AT = 50
C_OUT_COMMAND = 51
C_OUT_NEXT = 52
PORT_WORDS = 4
R_HEAD = 0
R_COUNT = 1
R_LAST = 2  # cycle of the last pop
R_TARGET = 3  # channel of the same color behind this output, 0 as long as nothing was sent
CHANNEL_HEADER = 56
# then 5 rings of C_SLOTS entries; the RAMP ring has C_LIMIT_RAMP entries and comes last

MARK_CONTROL = 1 << 32
MARK_ADVANCE = 1 << 33

# --- a FIFO
F_READ = 0  # byte position
F_FILL = 1  # bytes in it
F_READ_LENGTH = 2
F_WRITE_LENGTH = 3
F_WAS_FULL = 4
F_WAS_EMPTY = 5
F_NEED = 6  # bytes the stalled push needs
F_NEED_POP = 7
FIFO_WORDS = 8

# --- a DSR
D_WORD = 0
D_SETTINGS = 1  # -1 none; a snapshot of the settings follows in the values below
D_ACTIVATE = 2
D_UNBLOCK = 3
D_CONTROL_ID = 4
D_UT = 5
DSR_WORDS = 6

# --- stages of a word in the trail
TRAIL_SENT = np.int64(0)
TRAIL_HOP = np.int64(1)
TRAIL_TAKEN = np.int64(2)
TRAIL_DROPPED = np.int64(3)

# --- a cursor of @map uses an operand record

# --- a host command: words of `h`, append-only
M_KIND = 0
M_X = 1
M_Y = 2
M_WIDTH = 3
M_HEIGHT = 4
M_WORDS = 5
M_DATA = 6  # place of its data in host words, in 32-bit words; results alike
M_IS_16BIT = 7
M_NONBLOCK = 8
M_COLOR = 9
M_SYMBOLS = 10  # place of a row of (address, is pointer, function) per program
M_ARGS = 11
COMMAND_FIELDS = 16
SYMBOL_WORDS = 3

# a command's state
X_STATE = 0  # 0 given, 1 under way, 2 done
X_LEFT = 1  # PEs left
X_START = 2
X_END = 3
COMMAND_WORDS = 4
