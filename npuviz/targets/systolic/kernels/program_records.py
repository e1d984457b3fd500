"""Word positions of the program tables that the systolic compiler writes and the kernel reads.

All tables are int64, with rows of the records that are named behind their lengths. They are immutable
once the program is built.

CODE      (instructions of all tile templates, CODE): tiles of equal shape share a template.
TILES     (tiles, TILE): in the order in which the compiler made them, layer by layer.
LAYERS    (layers, LAYER): in the order in which the scheduler starts them.
LAUNCHES  (launches, LAUNCH): groups of layers that may start only at a given time.

SRAM entries. A tile owns one half of the scratchpad and one half of the accumulator. What lies in a
half is a set of entries; per layer they are numbered densely. An operand word names one:
0 = none, k + 1 = scratchpad entry k, -(k + 1) = accumulator entry k.

Requests of MOVIN and MOVOUT. Byte address of a row (i, j): tile base + OFFSET + i * S0 + j * S1 with
0 <= i < N0, 0 <= j < N1. In MODE_COVER a row is every aligned block of `req_size` bytes that overlaps
[row, row + LEN); in MODE_STEP it is the ceil(LEN / req_size) blocks at row rounded down + k * req_size.
Rows are taken in rising (i, j) order; a block equal to the one just taken is dropped.

Picked rows. A move whose SRC0 names an entry waits for it, and moves the rows at the byte offset that the
entry holds as its number N. Times do not depend on values: requests go to the address that OFFSET assumes,
of which TILE_K bytes stand for that offset.
"""

from npuviz.sim.parts.record_kernels import Record, Words

# Opcodes (word OP).
OP_MOVIN = 1
OP_MOVOUT = 2
OP_MOVOUT_POOL = 3
OP_GEMM_PRELOAD = 4
OP_GEMM = 5
OP_ADD = 6
OP_MUL = 7
OP_MAC = 8
OP_DIV = 9
OP_EXP = 10
OP_GELU = 11
OP_SWISH = 12
OP_COMP = 13
OP_ADDTREE = 14
OP_SOFTMAX = 15
OP_LAYERNORM = 16
OP_IM2COL = 17
OP_HOST = 18

CODE = Record(
    "instruction",
    op="CODE words.",
    n="rows streamed by a GEMM-type instruction; moves of picked rows: which number of src0 they use",
    src0="first operand; moves: the entry with the offsets of picked rows, 0 where rows are known",
    src1="second operand",
    dst="MOVIN: the entry it fills; MOVOUT: the entry it drains; compute: destination",
    tile_m="rows of the product",
    tile_k="inner size of the product; moves of picked rows: the bytes of `offset` that stand for the pick",
    tile_n="columns of the product",
    vbytes="bytes of a vector operation ('v' of the latency rules); tile_m is C_TILE_M",
    base="which base address of the tile: 0..7",
    offset="added to it, bytes",
    n0="outer repetitions",
    s0="bytes between them",
    n1="inner repetitions",
    s1="bytes between them",
    len="bytes of one",
    mode="MODE_ number: how they become requests",
    size="bytes the destination entry takes of its half (capacity check, memory map)",
    tensor="tensor id that MOVIN reads or MOVOUT writes; compute: tensor the result belongs to, -1",
    aux="free for the compiler (values engine)",
)

MODE_COVER = 0
MODE_STEP = 1

TILE = Record(
    "tile",
    layer="TILES words.",
    code="first row of its template in CODE",
    count="instructions in the template (0 for a skip tile)",
    core="preset core index, -1: dealt round robin",
    accumulate="1: continues the accumulation of the tile before it",
    skip="1: no work, finishes at once",
    fused="number of the fused operation inside attention, 0 elsewhere",
    first="program-wide index of its first instruction",
    base=Words(8, "base byte addresses"),
    coord=Words(6, "free for the compiler: up to 6 block coordinates"),
)

LAYER = Record(
    "layer",
    first_tile="LAYERS words.",
    num_tiles="number of tiles",
    node="graph node id, -1 if none",
    host_cycles="> 0: runs on the Host unit for so many cycles; has no tiles",
    entry="first row of ENTRIES of this layer",
    spad_entries="entries of a scratchpad half",
    acc_entries="entries of an accumulator half",
    instruction="Host layers: index of their one instruction (after all tile instructions); else -1",
)

ENTRY_ROOM = Record(
    "room of an entry",
    address=(
        "ENTRIES words: scratchpad entries of a layer, then its accumulator entries. byte address "
        "inside the half"
    ),
    size="largest number of bytes it holds",
)

LAUNCH = Record(
    "launch",
    first_layer="LAUNCHES words.",
    num_layers="number of layers",
    earliest="core cycle (tick index) at which it may start at the earliest",
    delay="core ticks to wait after the tick in which the launch before it ended",
    partition="partition_cpu: the partition that runs it",
)
