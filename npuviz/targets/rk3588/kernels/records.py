"""Word positions of the RK3588 machine's root state `s` and of its immutable program words `p`."""

# --- header of the state -------------------------------------------------------------------------
H_CYCLE = 0  # NPU cycles completed
H_STATUS = 1
H_FAULT_TASK = 2
H_LAST = 3  # time of the last event
H_CORES_COUNT = 4
H_CORES = 5  # word of core 0
H_JOB = 6  # running job, or the next one
H_JOBS = 7
H_JOB_STATE = 8
H_JOB_UNTIL = 9  # end of the driver's or a host call's time
H_JOB_START = 10
H_HOST = 11  # next host call
H_HOST_BUSY = 12
H_DRIVER_BUSY = 13
H_NODES = 14  # word of node 0: NODE_WORDS each
H_NODES_COUNT = 15
H_RECORDS = 16  # word of task 0's record
H_TASKS_COUNT = 17
H_LOG = 18
H_LOG_COUNT = 19
H_BUS_UNTIL = 20  # DDR: end of the chunk under way, FAR if idle
H_BUS_STREAM = 21  # core * STREAMS + stream that it serves, -1 if idle
H_BUS_BYTES = 22
H_BUS_TURN = 23
H_BUS_BUSY = 24
H_BUS_SINCE = 25  # start of the busy interval under way, -1 if idle
H_READ_BYTES = 26
H_WRITE_BYTES = 27
H_HANG = 28  # task whose chip would hang, -1
HEADER_WORDS = 32

STATUS_RUNNING = 0
STATUS_FINISHED = 1
STATUS_HANG = 2

JOB_WAITING = 0  # host calls before it, then the driver
JOB_HOST = 1
JOB_DRIVER = 2
JOB_RUNNING = 3

FAR = 1 << 60

# --- one core ------------------------------------------------------------------------------------
K_TASK = 0  # task under way, -1 if none
K_NEXT = 1
K_END = 2  # end of its tasks in the running job
K_PHASE = 3
K_UNTIL = 4  # end of the register phase
K_START = 5  # of the task
K_CORE_STATE = 6
K_CORE_UNTIL = 7
K_CORE_START = 8  # of the stripe
K_SINCE = 9  # of the wait
K_CAUSE = 10
K_GROUP = 11  # kernel group under way
K_ATOM = 12  # first output atomic of the next stripe
K_ATOMS = 13  # of the stripe under way
K_GROUP_START = 14
K_STRIPES = 15  # finished and not drained
K_RING = 16  # STRIPE_RING (atoms, group) pairs, oldest first
STRIPE_RING = (
    2  # Assumed: the accumulator holds two stripes. Ref: NVDLA (depth of 16 to 32 atomics, doubled).
)
K_OUT_UNTIL = 24  # DPU or PPU: end of the stripe that it drains, FAR if idle
K_OUT_START = 25
K_OUT_DRAINED = 26  # stripes drained
K_OUT_TOTAL = 27  # stripes of the task
K_OUT_BYTES = 28  # write bytes of the stripe under way
K_OUT_SINCE = 29  # start of the DPU interval under way
K_CORE_BUSY = 30
K_OUT_BUSY = 31
K_TASK_BUSY = 32
K_WAIT_DATA = 33
K_WAIT_WEIGHTS = 34
K_WAIT_OUTPUT = 35
K_PENDING = 36  # bytes handed to the writer and not written
K_STREAMS = 40  # STREAMS streams of STREAM_WORDS
STREAMS = 5
STREAM_FEATURE, STREAM_WEIGHT, STREAM_OPERAND, STREAM_WRITE, STREAM_COMMANDS = range(5)
R_TOTAL = 0  # bytes that may be asked for
R_DONE = 1
R_START = 2  # of the interval under way, -1
R_BUSY = 3
STREAM_WORDS = 4
CORE_WORDS = K_STREAMS + STREAMS * STREAM_WORDS

PHASE_IDLE = 0
PHASE_REGISTERS = 1
PHASE_RUN = 2

CORE_IDLE = 0
CORE_BUSY = 1
CORE_WAITING = 2
CORE_DONE = 3

N_STARTED = 0
N_LEFT = 1
NODE_WORDS = 2

# --- record of a finished task -------------------------------------------------------------------
X_START = 0
X_END = 1
X_MAC = 2  # cycles of CORE
X_OUT = 3  # cycles of DPU or PPU
X_DATA = 4  # cycles CORE waited for features, weights, output
X_WEIGHTS = 5
X_OUTPUT = 6
X_BYTES = 7
RECORD_WORDS = 8

# --- program words -------------------------------------------------------------------------------
P_TASKS = 0  # word of task 0
P_JOBS = 1  # per job: first task of core 0, 1, 2 and the end
P_HOSTS = 2
P_HOSTS_COUNT = 3
P_BUS_COST = 4  # cycles a byte, in 1/65536
P_CHUNK = 5
P_TASK_OVERHEAD = 6  # cycles between tasks
P_TASK_DRIVER = 7  # more of them where the driver starts every task
P_JOB_DRIVER = 8
P_BACKLOG = 9  # bytes the writer holds before the DPU waits
P_STRIPE = 10  # atomics of a stripe
P_TRACK_HOST = 11
P_TRACK_DRIVER = 12
P_TRACK_BUS = 13
P_MEMORY_DDR = 14
P_ACCESSES = 15
P_QUEUES_PER_CORE = 16
PROGRAM_HEADER = 24

T_KIND = 0  # interval kind of its task
T_NODE = 1
T_GROUPS = 2
T_ATOMS = 3
T_FACTOR = 4  # CORE cycles an atomic; 0: no CORE
T_ROW_ATOMS = 5  # atomics of an output row
T_STRIDE = 6  # input rows an output row goes on by
T_REACH = 7  # input rows the first output row needs
T_ROW_BYTES = 8
T_FEATURE_BYTES = 9
T_WEIGHT_BYTES = 10
T_GROUP_BYTES = 11
T_WEIGHT_ROOM = 12
T_OPERAND_BYTES = 13
T_OUT_COST = 14  # DPU or PPU cycles an atomic of a whole group, in 1/1024
T_OUT_COST_LAST = 15
T_WRITE_ATOM = 16  # bytes written for an atomic of a whole group
T_WRITE_LAST = 17
T_COMMAND_BYTES = 18
T_IS_POOLING = 19
T_HANGS = 20
T_ACCESS = 21
T_ACCESSES = 22
T_INSTRUCTION = 23
TASK_WORDS = 24

J_FIRST = 0  # first task of cores 0, 1, 2, then the end
J_HOST_END = 4  # host calls before the job end here
JOB_WORDS = 5

HOST_CYCLES = 0
HOST_NODE = 1
HOST_INSTRUCTION = 2
HOST_WORDS = 3

A_WRITE = 0
A_LOW = 1
A_HIGH = 2
ACCESS_WORDS = 3

# --- interval kinds and tracks of a core ---------------------------------------------------------
KIND_TASK_CONV, KIND_TASK_DEPTHWISE, KIND_TASK_ELEMENTWISE, KIND_TASK_POOLING = range(4)
KIND_REGISTERS = 4
KIND_GROUP = 5
KIND_STRIPE = 6
KIND_DPU = 7
KIND_PPU = 8
KIND_FEATURE = 9
KIND_WEIGHT = 10
KIND_OPERAND = 11
KIND_WRITE = 12
KIND_HOST = 13
KIND_DRIVER = 14
KIND_BUS = 15
KIND_WAIT_DATA = 16
KIND_WAIT_WEIGHTS = 17
KIND_WAIT_OUTPUT = 18
KIND_INTERRUPT = 19

TRACK_TASK, TRACK_FEATURE, TRACK_WEIGHT, TRACK_CORE, TRACK_STRIPES = range(5)
TRACK_DPU, TRACK_PPU, TRACK_OPERAND, TRACK_WRITE, TRACK_INTERRUPT = range(5, 10)
TRACKS_PER_CORE = 10

RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_HANG = 2
RESULT_EVENTS = 4
