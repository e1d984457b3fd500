"""Word positions of the machine's root state `s` and of its immutable program words `p`.

The state is one flat int64 array: a header, then tables whose first words the header names. Flat
words instead of a record type: a record's type holds its array sizes, so that every new hardware
shape would be compiled anew (13 s of processor time); words compile once for all shapes.
"""

# --- header of the state -------------------------------------------------------------------------
H_CYCLE = 0  # core cycles completed
H_STATUS = 1
H_FAULT = 2  # a FAULT_ code
H_FAULT_CORE = 3
H_FAULT_INSTRUCTION = 4
H_FINAL = 5  # cycle at which the run ends, once known, else -1
H_CORES_COUNT = 6
H_PORTS = 7  # NoC ports per core
H_CHANNELS = 8
H_CORE_PERIOD = 9  # ps
H_NOC_PERIOD = 10  # ps
H_DRAM_PERIOD = 11  # ps
H_REQUEST_BYTES = 12  # a power of two
H_REQUEST_SHIFT = 13
H_CHANNEL_MODULO = 14  # 0: use the hash as it is
H_TRUE_MODE = 15
H_CORES = 16  # word of core 0
H_CORE_WORDS = 17
H_BURSTS = 18  # word of core 0's burst ring
H_BURST_CAPACITY = 19  # bursts per core, a power of two
H_DRAM = 20
H_NOC = 21  # request network
H_REPLIES = 22  # word of the queued replies: per (core, channel) first node << 32 | last node
H_REPLY_PORTS = 23  # word of the port table: PORT_WORDS per (core, port)
H_REPLY_QUEUED = 24  # 1: several channels share a port, replies are arbitrated tick by tick
H_REPLY_WAITING = 25  # queued replies
H_TILE_DONE = 26  # word of the bit map of finished tiles
H_NOC_NEXT = 27  # next NoC cycle with work, FAR if none
H_NOC_LAST = 28  # last NoC cycle executed
H_BURSTS_WAITING = 29  # bursts in all cores' rings
H_WRITES_OUT = 30  # write requests without acknowledgement
H_LAST_ACK = 31  # ps, delivery of the latest acknowledgement granted so far
H_LAST_BUSY = 32  # last core cycle in which a core or the scheduler did something
H_LAYER = 33  # running layer, -1 if none
H_LAYER_LEFT = 34  # tiles of it not reported yet
H_LAYER_START = 35
H_LAYERS_LEFT = 36  # layers of the running launch not started yet
H_NEXT_LAYER = 37
H_LAUNCH = 38  # next launch
H_LAUNCH_AT = 39  # core cycle at which it may start
H_SCHEDULER_WAKE = 40  # core cycle at which the scheduler has something to do, FAR if none
H_HOST_UNTIL = 41  # core cycle at which the Host unit is done, -1 if idle
H_HOST_BUSY = 42
H_LAYERS_DONE = 43
H_GEMM_COUNT = 44
H_PRELOAD_COUNT = 45
H_TILES_DONE = 46
H_READS = 47
H_WRITES = 48
H_LAYERS_TOTAL = 49
H_LAUNCHES_TOTAL = 50
H_REPLY_NEXT = 51  # next NoC cycle in which a queued reply enters or may be taken, FAR if none
H_WAKE = 52  # earliest core cycle in which the scheduler or a core has something to do
H_NOC_SHIFT = 53  # a core cycle is 1 << shift NoC cycles, -1 if it is no such number
H_DRAM_KIND = 54  # 0: simple DRAM, 1: command-level
H_LOCAL_SHIFT = 55  # an address inside a channel is (address >> this) << H_REQUEST_SHIFT
# First and last node per channel: requests that wait for room (simple network, command-level DRAM), or
# responses that wait for the detailed network.
H_DOORS = 56
H_DOORS_WAITING = 57
H_NET = 58  # word of the flit-level network, 0: the simple one
H_NET_FLITS = 59  # flits of its largest packet
H_REPLY_ACTIVE = 60  # word of the masks of ports with queued replies
H_WAKES = 61  # word of the cores' wake cycles: next cycle in which each does something, FAR if it waits
H_TIMES = 62  # word of the layers' times: start and end core cycle of each, -1 while unknown
H_SCHED = 63  # word of the run-time scheduler's block, 0: the `simple` scheduler
H_SENDING = 64  # word of the masks of cores with bursts
H_BURSTS_TIGHT = 65  # 1: a core's ring may be too full for the bursts of another cycle
H_REPLY_TIMES = (
    66  # word of REPLY_WORDS per (core, channel); only where a reply's time is not that of its node
)
H_REPLY_LAST = 67  # word of the NoC cycle in which each channel's newest reply enters
HEADER_WORDS = 72

STATUS_RUNNING = 0
STATUS_FINISHED = 1
STATUS_FAULT = 2

FAULT_SPAD_FULL = 1
FAULT_ACC_FULL = 2
FAULT_ENTRY_EXISTS = 3
FAULT_HANG = 4
FAULT_QUEUE = 5

FAR = 1 << 60

# --- one core: fixed words, then the GEMM pipeline ring, then four entry tables -------------------
K_CONFLICTS = 0  # cycles lost to accesses of the same bank
K_TURN = 1  # index of the resident tile that issued last
K_TILES = 2  # resident tiles
K_ORDER = 3  # two words: slots in order of arrival
K_NEXT_TILE = 5  # head of its own tile queue, -1 if empty
K_FINISHED = 6  # number of finished tiles not reported yet
K_FINISHED_RING = 7  # eight words, head first
K_DATAFLOW = 15  # DATAFLOW_ of the array
K_BANKS = 16  # banks of the scratchpad, 0: no limit on accesses
K_LOADS = 17  # instructions in the LD queue
K_LOAD_RING = 18  # four (code, slot) pairs, head first
K_STORES = 26
K_STORE_RING = 27  # thirty-two (code, slot) pairs, head first
K_VEC = 91  # instruction in the vector pipeline, -1 if empty
K_VEC_SLOT = 92
K_VEC_START = 93
K_VEC_FINISH = 94
K_GEMM_HEAD = 95
K_GEMM_COUNT = 96
K_GEMM_FINISH = 97  # of the head
K_GEMM_START = 98  # of the newest entry
K_GEMM_ROWS = 99  # of the newest entry
K_LAST_LAYER = 100  # of the tile issued last
K_LAST_FUSED = 101
K_LAST_ACC = 102  # accumulator half of the tile issued last
K_BURST_HEAD = 103
K_BURST_COUNT = 104
K_REQUEST = 105  # generator of the head burst: next address, -1 if none is being generated
K_REQUEST_END = 106  # end of the row
K_REQUEST_LAST = 107  # address taken last
K_REQUEST_I = 108
K_REQUEST_J = 109
K_BURST_START = 110  # core cycle of the first request of the head burst
K_LOAD_END = 111  # end of the newest LD interval
K_STORE_END = 112
K_USED = 113  # four words: bytes in use of spad half 0, 1, accumulator half 0, 1
K_PEAK_SPAD = 117
K_PEAK_ACC = 118
K_HALF_ENTRIES = 119  # four words: entries of the half that may be in use
K_EX_END = 123  # end of the newest EX occupation
K_EX_BUSY = 124
K_VEC_BUSY = 125
K_LOAD_BUSY = 126
K_STORE_BUSY = 127
K_MACS = 128  # sum of tile_m * tile_k * tile_n
K_PEAK_BURSTS = 129
K_PEAK_GEMM = 130
K_HEIGHT = 131  # array rows H
K_WIDTH = 132  # array columns W
K_SPAD_HALF = 133  # bytes
K_ACC_HALF = 134
K_VECTOR_BYTES = 135  # bytes of one vector step
K_LATENCY = 136  # ten words, LAT_ positions
K_RING = 146  # word of the GEMM ring
K_ENTRIES = 147  # four words: word of each half's entry table
K_SLOT = 151  # two slots of SLOT_WORDS words
SLOT_WORDS = 12
K_PORTS = K_SLOT + 2 * SLOT_WORDS  # accesses of a scratchpad bank per cycle
K_STREAM_BANKS = K_PORTS + 1  # bit map of banks that the newest instruction streams from
K_HEAD_WORDS = K_PORTS + 2

LAT_ADD = 0
LAT_MUL = 1
LAT_MAC = 2
LAT_DIV = 3
LAT_EXP = 4
LAT_GELU = 5
LAT_ADDTREE = 6
LAT_SQRT = 7
LAT_SCALAR_ADD = 8
LAT_SCALAR_MUL = 9

S_TILE = 0
S_PC = 1  # next instruction to issue (row of CODE)
S_END = 2
S_DONE = 3
S_SPAD = 4  # half
S_ACC = 5
S_DELTA = 6  # program-wide index of an instruction = row of CODE + delta
S_SINCE = 7
S_GEMMS = 8  # retired
S_VECTORS = 9
S_LAYER = 10

R_FINISH = 0
R_START = 1
R_CODE = 2
R_SLOT = 3
R_ENTER = 4  # cycle in which EX started it
R_IDLE = 5  # end of the EX occupation before it
R_FILLED = 6  # cycle in which its last source became valid
R_ARRIVED = 7  # cycle in which its tile arrived
RING_WORDS = 8

N_LEFT = 0  # outstanding fills and computations, -1: no such entry
N_VALID = 1  # cycle from which it is valid, once N_LEFT is 0
N_WRITER = 2  # instruction that wrote it
N_SINCE = 3  # cycle in which it was created
N_FLOWED = 4  # 1: the arrow from its MOVIN to the first user has been recorded
N_HALF = 5  # 0..3 as in K_USED
N_CORE = 6
N_BYTES = 7
ENTRY_STATE_WORDS = 8

FREE_BURSTS = 4  # bursts one core may add in one cycle, with room to spare

B_CODE = 0
B_TILE = 1
B_ENTRY = 2  # word of the entry, 0 for a store
B_INDEX = 3  # program-wide instruction index
BURST_WORDS = 4

# Replies of a (core, channel) pair.
Y_READY = 0  # NoC cycle of the newest reply's grant (one channel per port), or in which it is ready
Y_PENDING = 1  # first node that has not entered the network yet
REPLY_WORDS = 2

# A port of a core, where several channels share it.
PORT_TURN = 0  # channel that is looked at first
PORT_CHANNELS = 1  # mask of channels with queued replies for it
PORT_RIPE = 2  # those of them whose first reply is known to be ready
PORT_NEXT = 3  # no reply of it enters the network or may be taken before this NoC cycle
PORT_WORDS = 4

# --- program words ---------------------------------------------------------------------------------
P_CODE = 0  # words of the tables, in the order of tables_kernels
P_TILES = 1
P_LAYERS = 2
P_ENTRIES = 3
P_LAUNCHES = 4
P_NEXT = 5  # next tile of the same layer on the same core, per tile
P_HEADS = 6  # first tile per (layer, core)
P_HASH = 7  # three tables of 128 words: channel hash of bits 0..6, 7..13, 14..20
P_CORE_OF = 8  # core of each tile
P_DRAM_MEMORY = 9  # memory id of the DRAM
P_EDGES_AT = 12  # first edge per layer, and the end
P_EDGES = 13  # consumer layers, in creation order
P_PARTITION = 14  # PARTITION_WORDS per core, then the cores of each partition
PROGRAM_HEADER = 16

PARTITION_ID = 0
PARTITION_PLACE = 1  # of the core in its partition
PARTITION_SIZE = 2
PARTITION_MEMBERS = 3  # offset of the partition's cores from P_PARTITION
PARTITION_WORDS = 4

DATAFLOW_WEIGHTS = 0  # weights stay in the array, rows of activations stream
DATAFLOW_OUTPUTS = 1  # results stay, both operands stream along the reduction
DATAFLOW_INPUTS = 2  # activations stay, columns of weights stream

# --- block of the run-time scheduler (requests_kernels) ----------------------------------------------
Q_KIND = 0  # a SCHED_ number
Q_COUNT = 1  # requests in the queue
Q_TURN = 2  # place in the queue that offered last (time_multiplex)
Q_STARTED = 3  # layers started in the whole run
Q_DEALT = 4  # tiles dealt round robin in the whole run
Q_QUEUED = 5  # tiles in all queues
Q_READY = 6  # ready layers of all requests in the queue
Q_POLLED = 7  # core cycle up to which questions are counted
Q_QUEUE = 8  # word of the queue: request numbers in order of arrival
Q_REQUESTS = 9  # word of the request table
Q_LAYERS = 10  # word of the layer table
Q_NEXT = 11  # word of the next tile per tile
Q_TAILS = 12  # word of the last tile of each core's own queue
Q_OWN = 13  # word of the number of tiles in each core's own queue
Q_LANES = 14  # word of the layers shown on the operator tracks, -1: free
Q_NUM_LANES = 15
Q_HOST_LAYER = 16
SCHED_WORDS = 24

SCHED_MULTIPLEX = 1
SCHED_PARTITION = 2
SCHED_SPATIAL = 3

W_READY_HEAD = 0  # first ready layer, -1: none
W_READY_TAIL = 1
W_LEFT = 2  # layers that have not ended
W_TILE_HEAD = 3  # spatial_split: first tile that no core has drawn
W_TILE_TAIL = 4
REQUEST_WORDS = 5

V_LEFT = 0  # tiles not reported
V_MISSING = 1  # layers it still waits for
V_NEXT = 2  # next ready layer
V_LANE = 3
V_REQUEST = 4
RUN_LAYER_WORDS = 5

# Results of `advance`.
RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_FAULT = 2
RESULT_BREAK = 3
RESULT_EVENTS = 4
RESULT_GROW_POOL = 5
RESULT_GROW_BURSTS = 6
RESULT_GROW_FLITS = 7

# --- tracks, kinds, queues, memories: numbers shared with the description ----------------------------
TRACK_LD = 0
TRACK_EX = 1
TRACK_VEC = 2
TRACK_ST = 3
TRACK_REQUESTS = 4
TRACK_SPAD = 5
TRACK_ACC = 6
TRACKS_PER_CORE = 7
# after the cores: TRACK_OPERATORS, TRACK_HOST relative to cores * TRACKS_PER_CORE
TRACK_OPERATORS = 0
TRACK_HOST = 1

KIND_LOAD_WEIGHTS = 20
KIND_WAIT_EMPTY = 21
KIND_WAIT_BANDWIDTH = 22
KIND_WAIT_DEPENDENCY = 23
KIND_OPERATOR = 24
# kinds 1..18 are the opcodes

QUEUE_LD = 0
QUEUE_EX = 1  # instructions in the array
QUEUE_VEC = 2  # instruction in the vector unit
QUEUE_ST = 3
QUEUE_REQUESTS = 4
QUEUES_PER_CORE = 5

MEMORY_SPAD = 0
MEMORY_ACC = 1
MEMORIES_PER_CORE = 2
