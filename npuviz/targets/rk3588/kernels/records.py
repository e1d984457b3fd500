"""Define the records of the RK3588 machine's root state and of its immutable program words."""

from npuviz.sim.parts.record_kernels import Record, Rows, Words

# --- header of the state -------------------------------------------------------------------------

CHIP = Record(
    "chip",
    cycle="NPU cycles completed",
    status="STATUS_ number",
    fault_task="not used",
    last="time of the last event",
    cores_count="cores",
    cores="word of core 0",
    job="running job, or the next one",
    jobs="jobs in all",
    job_state="JOB_ number",
    job_until="end of the driver's or a host call's time",
    job_start="start of the driver's or a host call's time",
    host="next host call",
    host_busy="cycles of host calls",
    driver_busy="cycles of the driver",
    nodes="word of node 0",
    nodes_count="graph nodes",
    records="word of task 0's record",
    tasks_count="tasks",
    log="word of the log: (entry, time) pairs",
    log_count="pairs in the log",
    bus_until="DDR: end of the chunk under way, FAR if idle",
    bus_stream="core * STREAMS + stream that it serves, -1 if idle",
    bus_bytes="bytes of the chunk under way",
    bus_turn="core * STREAMS + stream served last",
    bus_busy="cycles in which the bus moved bytes",
    bus_since="start of the busy interval under way, -1 if idle",
    read_bytes="bytes read from DDR",
    write_bytes="bytes written to DDR",
    hang="task whose chip would hang, -1",
    bus_cost="cycles a byte, in 1/65536",
    core_cost="cycles of CORE where the program says one, in 1/65536",
    task_overhead="cycles between tasks, with those of a driver that starts every task",
    job_driver="cycles of the driver before a job",
    backlog="bytes the writer holds before the DPU waits",
    at_least=40,
)

STATUS_RUNNING = 0
STATUS_FINISHED = 1
STATUS_HANG = 2

JOB_WAITING = 0  # host calls before it, then the driver
JOB_HOST = 1
JOB_DRIVER = 2
JOB_RUNNING = 3

FAR = 1 << 60

# --- one core ------------------------------------------------------------------------------------
STRIPE_RING = (
    2  # Assumed: the accumulator holds two stripes. Ref: NVDLA (depth of 16 to 32 atomics, doubled).
)
STREAMS = 5
STREAM_FEATURE, STREAM_WEIGHT, STREAM_OPERAND, STREAM_WRITE, STREAM_COMMANDS = range(5)

STREAM = Record(
    "stream",
    total="bytes that may be asked for",
    done="bytes moved",
    start="start of the interval under way, -1",
)

CORE = Record(
    "core",
    task="task under way, -1 if none",
    next="its next task",
    end="end of its tasks in the running job",
    phase="PHASE_ number",
    until="end of the register phase",
    start="of the task",
    core_state="CORE_ number",
    core_until="end of the stripe under way",
    core_start="of the stripe",
    since="of the wait",
    cause="KIND_WAIT_ number of the wait",
    group="kernel group under way",
    atom="first output atomic of the next stripe",
    atoms="of the stripe under way",
    group_start="start of the kernel group, -1",
    stripes="finished and not drained",
    ring=Words(8, "(atoms, group) pairs of stripes, oldest first; room for more than STRIPE_RING"),
    out_until="DPU or PPU: end of the stripe that it drains, FAR if idle",
    out_start="start of the stripe that it drains",
    out_drained="stripes drained",
    out_total="stripes of the task",
    out_bytes="write bytes of the stripe under way",
    core_busy="cycles of CORE in the task",
    out_busy="cycles of DPU or PPU in the task",
    ppu_busy="cycles of PPU",
    wait_data="cycles CORE waited for features",
    wait_weights="cycles CORE waited for weights",
    wait_output="cycles CORE waited for DPU or PPU",
    pending="bytes handed to the writer and not written",
    fetch_since="start of the time in which features or weights are on their way, -1",
    fetch_busy="cycles of CNA: such times that are over",
    dpu_since="start of the time in which DPU drains, reads operands or writes, -1",
    dpu_busy="cycles of DPU: such times that are over",
    streams=Rows(STREAM, STREAMS, "in the order of STREAM_"),
)

PHASE_IDLE = 0
PHASE_REGISTERS = 1
PHASE_RUN = 2

CORE_IDLE = 0
CORE_BUSY = 1
CORE_WAITING = 2
CORE_DONE = 3

NODE = Record(
    "node",
    started="1: its first work has started",
    left="pieces of its work to be done",
)

# --- record of a finished task -------------------------------------------------------------------

RESULT = Record(
    "record of a task",
    start="cycle",
    end="cycle, 0 before",
    mac="cycles of CORE",
    out="cycles of DPU or PPU",
    data="cycles CORE waited for features",
    weights="for weights",
    output="for DPU or PPU",
    bytes="moved by its streams",
)

# --- program words -------------------------------------------------------------------------------

PROGRAM = Record(
    "program",
    tasks="word of task 0",
    jobs="word of job 0",
    hosts="word of host call 0",
    hosts_count="host calls",
    chunk="bytes the bus moves at a time",
    stripe="atomics of a stripe",
    track_host="track",
    track_driver="track",
    track_bus="track",
    memory_ddr="memory",
    accesses="word of access 0",
    queues_per_core="queues of a core",
    at_least=24,
)

TASK = Record(
    "task",
    kind="interval kind of its task",
    node="graph node, -1",
    groups="kernel groups",
    atoms="output atomics of a group",
    factor="CORE cycles an atomic; 0: no CORE",
    row_atoms="atomics of an output row",
    stride="input rows an output row goes on by",
    reach="input rows the first output row needs",
    row_bytes="bytes of an input row",
    feature_bytes="bytes of features",
    weight_bytes="of weights",
    group_bytes="of the weights of a group",
    weight_room="bytes of weights that may be loaded ahead",
    operand_bytes="of the second operand",
    out_cost="DPU or PPU cycles an atomic of a whole group, in 1/1024",
    out_cost_last="of the last group",
    write_atom="bytes written for an atomic of a whole group",
    write_last="of the last group",
    command_bytes="bytes of register commands",
    is_pooling="1: PPU, 0: DPU",
    hangs="1: the chip would hang",
    access="its first access",
    accesses="number of its accesses",
    instruction="listing index",
)

JOB = Record(
    "job",
    first=Words(4, "first task of cores 0, 1, 2, then the end"),
    host_end="host calls before the job end here",
)

HOST_CALL = Record(
    "host call",
    cycles="how long it takes",
    node="graph node, -1",
    instruction="listing index",
)

ACCESS = Record(
    "access",
    write="1: written, 0: read",
    low="first address",
    high="address behind the last",
)

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
KIND_WAIT_BUS = 20

TRACK_TASK, TRACK_FEATURE, TRACK_WEIGHT, TRACK_CORE, TRACK_STRIPES = range(5)
TRACK_DPU, TRACK_PPU, TRACK_OPERAND, TRACK_WRITE, TRACK_INTERRUPT = range(5, 10)
TRACKS_PER_CORE = 10

RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_HANG = 2
RESULT_EVENTS = 4
