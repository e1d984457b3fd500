"""Define the records of the immutable program words `program`: figures of the machine, programs, classes,
tracks.

A class is the nodes with the same program and the same channels. They share a layout, which says where things
lie in their blocks (records.py), and a template of a block.
"""

from npuviz.sim.parts.record_kernels import Gap, Record, Words

PROGRAM = Record(
    "program words",
    nodes="word of node 0",
    codes="word of the first CODE",
    divide="cycles of a division of integers by a constant",
    costs="word of the table of cycles per scalar instruction",
    rates="word of the RATE of DSD operation 0",
    math="word of the table of cycles per math function",
    arch="2 or 3",
    unset="1: some program has variables without a value",
    _8=Gap(2),
    seed="of latencies, 0: the nominal ones",
    _11=Gap(2),
    output="cycles from the step of an operation to its word at the ramp",
    load_use="cycles from a DSR load to its use",
    _14=Gap(1),
    drain="cycles until the pipeline of a synchronous DSD operation is empty",
    complete="cycles until its results can be read",
    branch="cycles of a branch not taken",
    branch_taken="cycles of a branch taken",
    float_wait="cycles until a float result can be read",
    stride_rule="0: documented, 1: 8 / stride",
    _21=Gap(3),
    settle="cycles that a run goes on behind its last command",
    fused="1: fmacs rounds once",
    _26=Gap(1),
    tracks="word of node 0's TRACKS",
    print_cost="cycles of a printed character",
    _29=Gap(1),
    columns="of the fabric",
    _31=Gap(2),
    window="cycles of a load window",
    _34=Gap(3),
    swap="1: some channel swaps colors",
    _38=Gap(1),
    rectangle="columns of the rectangle",
    grid="word of its places, row by row: node, -1",
    timer="cycles to read the timer",
    load_wait="cycles between a load through a register and an instruction that needs it",
    at_least=64,
)

NODE = Record(
    "node",
    column="of the fabric",
    row="of the fabric",
    layout="word of the LAYOUT of its class",
    x="column of the rectangle",
    y="row of the rectangle",
    neighbour=Words(5, "node behind each port, -1 edge, -2 a place without router"),
    seat="its seat from the start, -1 none",
)

RATE = Record(
    "rate of a DSD operation",
    group="elements per beat, nothing in the way",
    cycles="cycles per beat",
    reduce="cycles per element of a reduction",
    two="cycles per element with two sources in memory, 0 the same",
    banks="1: only for elements whose sources lie in banks that are equal modulo 4",
    flops="floating-point operations of an element",
)

PREDICATED = 1 << 20
"""Bit of the cycles of a jump over moves: it costs the same whether it is taken or not."""

CODE = Record(
    "program of a PE",
    instructions="word of INSTRUCTION 0",
    length="instructions",
    functions="word of FUNCTION 0",
    num_functions="functions",
    operations="word of OPERATION 0",
    shapes="word of SHAPE 0",
    local="word of the function of local task id 0, -1 none",
    data="word of the TASK of data task id 0",
    control="word of the TASK of control task id 0",
    fifos="word of FIFO_SETTINGS 0",
    num_fifos="FIFOs",
    stack="byte address of the first frame memory",
    bytes="of memory",
    first="listing index of its first instruction",
    teardown="word of the function for teardown of color 0, -1 none",
    empty="word of the function for empty queue 0 (8 + output), -1 none",
    half="16-bit float type",
    rotations="word of ROTATION 0",
    num_rotations="rotations",
    num_operations="operations",
    num_shapes="shapes",
    symbols="word of VARIABLE 0, by address",
    num_symbols="variables",
    cycles="word of the cycles of instruction 0, with the bit PREDICATED",
    at_least=24,
)

# isa.py has the columns of instructions and operations as the compiler writes them; a test keeps them equal.
INSTRUCTION = Record(
    "instruction",
    op="an OP_ number, with what it does to r[a] and the like",
    a="register, or as `op` says",
    b="register, or as `op` says",
    c="register, or as `op` says",
    imm="number",
    aux="number",
    type="a T_ number",
    line="of the text",
)

OPERATION = Record(
    "DSD operation, or the settings of a DSR load",
    operation="a D_ number",
    kinds=Words(4, "OPERAND_ numbers: destination, first, second source, multiplier"),
    registers=Words(4, "of these operands"),
    result="register of the bool result, -1: dropped",
    is_async="1: asynchronous",
    activate="register with the task to activate at the end, -1 none",
    unblock="register with the id to unblock at the end, -1 none",
    unblock_kind="an ID_ number",
    control="what a control word does: 0 nothing, 1 terminate, 2 activate, 3 unblock",
    control_id="register with that id, -1 none",
    control_kind="an ID_ number",
    index="register with the wavelet index, -1 none",
    ut="register with the microthread, -1 none",
    priority="0 high, 1 medium, 2 low, -1: not given",
    line="of the text",
    single_step="settings: not modelled",
    save_address="settings: 1: the DSR goes on behind what was done",
    shape="settings: XDSR and SR ids packed, -1 none",
)

FUNCTION = Record(
    "function",
    entry="its first instruction",
    registers="words of them",
    frame_bytes="of frame memory",
    node="graph node",
)

TASK = Record(
    "task of an id",
    function="that it runs, -1 none",
    arguments="their number",
    types=Words(6, "T_ numbers of them"),
)

VARIABLE = Record(
    "bytes of a variable",
    begin="its first address",
    end="the address behind it",
    is_signed="1: its elements are i16",
)

SHAPE = Record(
    "shape of an operand in memory",
    extents=Words(4, "elements of each dimension, outermost first; of a circular buffer: address, elements"),
    strides=Words(4, "elements, innermost first; each undoes the finished loops inside of it"),
)

FIFO_SETTINGS = Record(
    "description of a FIFO",
    address="in the memory",
    size="bytes",
    empty_action="what a pop of the empty FIFO does: an ACTION_ number",
    full_action="what a push to the full FIFO does",
    activate_pop="task to activate when a pop has made room, -1",
    activate_push="task to activate when a push has brought enough, -1",
    priority="of its operations",
    simd="elements at a time",
    at_least=10,
)

ROTATION = Record(
    "alternating functions of a data task",
    task="its id",
    function="that it runs",
    other="that it runs instead once, when the count is full",
    full="runs between",
    start="the count at the beginning",
)

NUM_QUEUES = 32
NUM_COLORS = 24

LAYOUT = Record(
    "layout of a class",
    template="word of the template of a block",
    size="words of a block",
    code="word of its CODE, -1 none",
    memory="place in the block",
    registers="place of the registers",
    registers_size="words of them",
    threads="place of thread 0",
    dsrs="place of DSR 0; 0: none",
    fifos="place of FIFO 0",
    cursors="place of cursor 0 of @map (an OPERAND)",
    rotation="place of the counters of rotations",
    num_channels="channels",
    channel_list="word of the places of its channels, by color",
    unset="place of a bit for each 16-bit word of variables without a value, 1: not written yet; 0: none",
    unset_begin="address of the first of these words",
    unset_count="how many they are",
    channel=Words(24, "place of each color's channel, 0 none"),
    queue=Words(NUM_QUEUES, "place of each queue, 0 none: 8 explicit, then by color"),
)

# --- tracks of a watched node: first ids

TRACKS = Record(
    "tracks of a watched node",
    main="of the main thread, -1: not watched",
    thread=Words(8, "of its microthreads"),
    link=Words(5, "of its links by port"),
    memory="memory id",
    queues="id of its first queue, in order of their numbers",
)
