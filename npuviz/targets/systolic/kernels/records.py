"""Records of the machine's state and of the header of its program words: a header, then tables whose first
words the header names."""

from npuviz.sim.parts.record_kernels import Gap, Record, Rows, Words

# --- header of the state -------------------------------------------------------------------------

CHIP = Record(
    "chip",
    cycle="core cycles completed",
    status="STATUS_ number",
    fault="a FAULT_ code",
    fault_core="core concerned",
    fault_instruction="listing index",
    final="cycle at which the run ends, once known, else -1",
    cores_count="cores",
    ports="NoC ports per core",
    channels="DRAM channels",
    core_period="ps",
    noc_period="ps",
    dram_period="ps",
    request_bytes="a power of two",
    request_shift="its logarithm",
    channel_modulo="0: use the hash as it is",
    true_mode="1: true mode, 0: parity",
    cores="word of core 0",
    core_words="words of a core",
    bursts="word of core 0's burst ring",
    burst_capacity="bursts per core, a power of two",
    dram="word of the DRAM",
    noc="request network",
    replies="word of the queued replies: per (core, channel) first node << 32 | last node",
    reply_ports="word of the port table: PORT_WORDS per (core, port)",
    reply_queued="1: several channels share a port, replies are arbitrated tick by tick",
    reply_waiting="queued replies",
    tile_done="word of the bit map of finished tiles",
    noc_next="next NoC cycle with work, FAR if none",
    noc_last="last NoC cycle executed",
    bursts_waiting="bursts in all cores' rings",
    writes_out="write requests without acknowledgement",
    last_ack="ps, delivery of the latest acknowledgement granted so far",
    last_busy="last core cycle in which a core or the scheduler did something",
    layer="running layer, -1 if none",
    layer_left="tiles of it not reported yet",
    layer_start="cycle at which it started",
    layers_left="layers of the running launch not started yet",
    next_layer="next layer of the launch",
    launch="next launch",
    launch_at="core cycle at which it may start",
    scheduler_wake="core cycle at which the scheduler has something to do, FAR if none",
    host_until="core cycle at which the Host unit is done, -1 if idle",
    host_busy="cycles of Host",
    layers_done="layers finished",
    gemm_count="GEMM instructions",
    preload_count="GEMM_PRELOAD instructions",
    tiles_done="tiles finished",
    reads="read requests",
    writes="write requests",
    layers_total="layers of all launches",
    launches_total="launches",
    reply_next="next NoC cycle in which a queued reply enters or may be taken, FAR if none",
    wake="earliest core cycle in which the scheduler or a core has something to do",
    noc_shift="a core cycle is 1 << shift NoC cycles, -1 if it is no such number",
    dram_kind="0: simple DRAM, 1: command-level",
    local_shift="an address inside a channel is (address >> this) << request_shift",
    doors=Words(
        1,
        "First and last node per channel: requests that wait for room (simple network, command-level "
        "DRAM), or responses that wait for the detailed network.",
    ),
    doors_waiting="doors with replies",
    net="word of the flit-level network, 0: the simple one",
    net_flits="flits of its largest packet",
    reply_active="word of the masks of ports with queued replies",
    wakes="word of the cores' wake cycles: next cycle in which each does something, FAR if it waits",
    times="word of the layers' times: start and end core cycle of each, -1 while unknown",
    traffic="word of the layers' TRAFFIC",
    sched="word of the run-time scheduler's block, 0: the `simple` scheduler",
    sending="word of the masks of cores with bursts",
    bursts_tight="1: a core's ring may be too full for the bursts of another cycle",
    reply_times=(
        "word of REPLY_WORDS per (core, channel); only where a reply's time is not that of its node"
    ),
    reply_last="word of the NoC cycle in which each channel's newest reply enters",
    dram_origin="ps: time of the DRAM's cycle 0, as its present period counts back to it",
    at_least=72,
)

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

CORE_BITS = 10  # of a core's number in what a store carries; the layer has the others of 31
MOST_CORES = 1 << CORE_BITS
MOST_LAYERS = 1 << (31 - CORE_BITS)

TRAFFIC = Record(
    "traffic of a layer",
    reads="read requests, of bursts that have entered the network as a whole",
    writes="write requests likewise",
    drained="core cycle in which the last of its writes known so far is acknowledged",
)

SLOT = Record(
    "resident tile",
    tile="tile in it, -1 if none",
    pc="next instruction to issue (row of CODE)",
    end="instruction behind its last",
    done="instructions finished",
    spad="half",
    acc="accumulator half",
    delta="program-wide index of an instruction = row of CODE + delta",
    since="cycle at which it came",
    gemms="retired",
    vectors="vector instructions left",
    layer="layer of the tile",
    at_least=12,
)

CORE = Record(
    "core",
    conflicts="cycles lost to accesses of the same bank",
    turn="index of the resident tile that issued last",
    tiles="resident tiles",
    order=Words(2, "slots in order of arrival"),
    next_tile="head of its own tile queue, -1 if empty",
    finished="number of finished tiles not reported yet",
    finished_ring=Words(8, "finished tiles, head first"),
    dataflow="DATAFLOW_ of the array",
    banks="banks of the scratchpad, 0: no limit on accesses",
    loads="instructions in the LD queue",
    load_ring=Words(8, "four (code, slot) pairs, head first"),
    stores="entries of it",
    store_ring=Words(64, "thirty-two (code, slot) pairs, head first"),
    vec="instruction in the vector pipeline, -1 if empty",
    vec_slot="slot of the vector instruction under way",
    vec_start="its start",
    vec_finish="its end",
    gemm_head="oldest entry of the ring of GEMM instructions",
    gemm_count="entries of it",
    gemm_finish="of the head",
    gemm_start="of the newest entry",
    gemm_rows="of the newest entry",
    last_layer="of the tile issued last",
    last_fused="fused layer of the tile issued last",
    last_acc="accumulator half of the tile issued last",
    burst_head="oldest burst",
    burst_count="bursts waiting",
    request="generator of the head burst: next address, -1 if none is being generated",
    request_end="end of the row",
    request_last="address taken last",
    requested="requests of the head burst so far",
    request_i="outer position in the burst under way",
    request_j="inner position in it",
    burst_start="core cycle of the first request of the head burst",
    load_end="end of the newest LD interval",
    load_shown="instruction of that interval",
    store_end="end of the store under way",
    used=Words(4, "bytes in use of spad half 0, 1, accumulator half 0, 1"),
    peak_spad="most bytes used in the scratchpad",
    peak_acc="most bytes used in the accumulator",
    half_entries=Words(4, "entries of the half that may be in use"),
    ex_end="end of the newest EX occupation",
    ex_busy="cycles in which EX was occupied, by what has left the array",
    ex_waited="cycles in which EX waited before that",
    vec_busy="cycles of VEC",
    load_busy="cycles of LD",
    store_busy="cycles of ST",
    macs="sum of tile_m * tile_k * tile_n",
    peak_bursts="most bursts waiting",
    peak_gemm="most GEMM instructions in the array",
    height="array rows H",
    width="array columns W",
    spad_half="bytes",
    acc_half="bytes of an accumulator half",
    vector_bytes="bytes of one vector step",
    latency=Words(10, "cycles, at LAT_ positions"),
    ring="word of the GEMM ring",
    entries=Words(4, "word of each half's entry table"),
    slot=Rows(SLOT, 2, "the two tiles in it"),
    ports="accesses of a scratchpad bank per cycle",
    stream_banks="bit map of banks that the newest instruction streams from",
)

GEMM = Record(
    "instruction in the array",
    finish="cycle at which it leaves the array",
    start="cycle at which it entered",
    code="listing index",
    slot="slot of its tile",
    enter="cycle in which EX started it",
    idle="end of the EX occupation before it",
    filled="cycle in which its last source became valid",
    arrived="cycle in which its tile arrived",
)

ENTRY = Record(
    "entry",
    left="outstanding fills and computations, -1: no such entry",
    valid="cycle from which it is valid, once `left` is 0",
    writer="instruction that wrote it",
    since="cycle in which it was created",
    sender="instruction in whose LD interval its requests entered the network, -1: not a load",
    flowed="1: the arrow from its MOVIN to the first user has been recorded",
    half="0 to 3, as in `used` of a core",
    core="core it belongs to",
    bytes="size",
)

FREE_BURSTS = 4  # bursts one core may add in one cycle, with room to spare

BURST = Record(
    "burst",
    code="program row of the transfer",
    tile="tile it belongs to",
    entry="word of the entry, 0 for a store",
    index="program-wide instruction index",
)

REPLY = Record(
    "replies",
    ready=(
        "Replies of a (core, channel) pair. NoC cycle of the newest reply's grant (one channel per "
        "port), or in which it is ready"
    ),
    pending="first node that has not entered the network yet",
)

PORT = Record(
    "port",
    turn="A port of a core, where several channels share it. channel that is looked at first",
    channels="mask of channels with queued replies for it",
    ripe="those of them whose first reply is known to be ready",
    next="no reply of it enters the network or may be taken before this NoC cycle",
)

# --- program words ---------------------------------------------------------------------------------

PROGRAM = Record(
    "program",
    code="words of the tables, in the order of tables_kernels",
    tiles="word of tile 0",
    layers="word of layer 0",
    entries="word of the rooms of entries",
    launches="word of launch 0",
    next="next tile of the same layer on the same core, per tile",
    heads="first tile per (layer, core)",
    hash="three tables of 128 words: channel hash of bits 0..6, 7..13, 14..20",
    core_of="core of each tile",
    dram_memory="memory id of the DRAM",
    _10=Gap(2),
    edges_at="first edge per layer, and the end",
    edges="consumer layers, in creation order",
    partition="PARTITION_WORDS per core, then the cores of each partition",
    at_least=16,
)

PARTITION = Record(
    "partition",
    id="its number",
    place="of the core in its partition",
    size="cores in it",
    members="where its cores stand, counted from word `partition` of the program",
)

DATAFLOW_WEIGHTS = 0  # weights stay in the array, rows of activations stream
DATAFLOW_OUTPUTS = 1  # results stay, both operands stream along the reduction
DATAFLOW_INPUTS = 2  # activations stay, columns of weights stream

# --- block of the run-time scheduler (runtime_scheduler) ---------------------------------------------

SCHEDULER = Record(
    "scheduler",
    kind="a SCHED_ number",
    count="requests in the queue",
    turn="place in the queue that offered last (time_multiplex)",
    started="layers started in the whole run",
    dealt="tiles dealt round robin in the whole run",
    queued="tiles in all queues",
    ready="ready layers of all requests in the queue",
    polled="core cycle up to which questions are counted",
    queue="word of the queue: request numbers in order of arrival",
    requests="word of the request table",
    layers="word of the layer table",
    next="word of the next tile per tile",
    tails="word of the last tile of each core's own queue",
    own="word of the number of tiles in each core's own queue",
    lanes="word of the layers shown on the operator tracks, -1: free",
    num_lanes="lanes",
    host_layer="layer on the host, -1",
    at_least=24,
)

SCHED_MULTIPLEX = 1
SCHED_PARTITION = 2
SCHED_SPATIAL = 3

REQUEST = Record(
    "request",
    ready_head="first ready layer, -1: none",
    ready_tail="newest of them",
    left="layers that have not ended",
    tile_head="spatial_split: first tile that no core has drawn",
    tile_tail="newest of them",
)

RUN_LAYER = Record(
    "layer of a request",
    left="tiles not reported",
    missing="layers it still waits for",
    next="next ready layer",
    lane="lane it runs in",
    request="request it belongs to",
)

# Results of `advance`.
RESULT_UNTIL = 0
RESULT_FINISHED = 1
RESULT_FAULT = 2
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
KIND_MEMORY = 25
KIND_RESULT = 26
KIND_ISSUE = 27
KIND_TILE = 28
KIND_REQUESTS = 29
KIND_LAUNCH = 30
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
