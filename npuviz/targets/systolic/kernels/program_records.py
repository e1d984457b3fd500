"""Word positions of the program tables that the systolic compiler writes and the kernel reads.

All tables are int64. They are immutable once the program is built.

CODE      (instructions of all tile templates, CODE_WORDS): tiles of equal shape share a template.
TILES     (tiles, TILE_WORDS): in the order in which the compiler made them, layer by layer.
LAYERS    (layers, LAYER_WORDS): in the order in which the scheduler starts them.
LAUNCHES  (launches, LAUNCH_WORDS): groups of layers that may start only at a given time.

SRAM entries. A tile owns one half of the scratchpad and one half of the accumulator. What lies in a
half is a set of entries; per layer they are numbered densely. An operand word names one:
0 = none, k + 1 = scratchpad entry k, -(k + 1) = accumulator entry k.

Requests of MOVIN and MOVOUT. Byte address of a row (i, j): tile base + OFFSET + i * S0 + j * S1 with
0 <= i < N0, 0 <= j < N1. In MODE_COVER a row is every aligned block of `req_size` bytes that overlaps
[row, row + LEN); in MODE_STEP it is the ceil(LEN / req_size) blocks at row rounded down + k * req_size.
Rows are taken in rising (i, j) order; a block equal to the one just taken is dropped.
"""

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

# CODE words.
C_OP = 0
C_N = 1  # rows streamed by a GEMM-type instruction
C_SRC0 = 2
C_SRC1 = 3
C_DST = 4  # MOVIN: the entry it fills; MOVOUT: the entry it drains; compute: destination
C_TILE_M = 5
C_TILE_K = 6
C_TILE_N = 7
C_VBYTES = 8  # bytes of a vector operation ("v" of the latency rules); tile_m is C_TILE_M
C_BASE = 9  # which base address of the tile: 0..7
C_OFFSET = 10
C_N0 = 11
C_S0 = 12
C_N1 = 13
C_S1 = 14
C_LEN = 15
C_MODE = 16
C_SIZE = 17  # bytes the destination entry takes of its half (capacity check, memory map)
C_TENSOR = 18  # tensor id that MOVIN reads or MOVOUT writes; compute: tensor the result belongs to, -1
C_AUX = 19  # free for the compiler (values engine)
CODE_WORDS = 20

MODE_COVER = 0
MODE_STEP = 1

# TILES words.
T_LAYER = 0
T_CODE = 1  # first row of its template in CODE
T_COUNT = 2  # instructions in the template (0 for a skip tile)
T_CORE = 3  # preset core index, -1: dealt round robin
T_ACCUMULATE = 4  # 1: continues the accumulation of the tile before it
T_SKIP = 5  # 1: no work, finishes at once
T_FUSED = 6  # number of the fused operation inside attention, 0 elsewhere
T_FIRST = 7  # program-wide index of its first instruction
T_BASE = 8  # eight base byte addresses
T_COORD = 16  # free for the compiler: up to 6 block coordinates
TILE_WORDS = 22

# LAYERS words.
L_FIRST_TILE = 0
L_NUM_TILES = 1
L_NODE = 2  # graph node id, -1 if none
L_HOST_CYCLES = 3  # > 0: runs on the Host unit for so many cycles; has no tiles
L_ENTRY = 4  # first row of ENTRIES of this layer
L_SPAD_ENTRIES = 5
L_ACC_ENTRIES = 6
L_INSTRUCTION = 7  # Host layers: index of their one instruction (after all tile instructions); else -1
LAYER_WORDS = 8

# ENTRIES words: scratchpad entries of a layer, then its accumulator entries.
E_ADDRESS = 0  # byte address inside the half
E_SIZE = 1  # largest number of bytes it holds
ENTRY_WORDS = 2

# LAUNCHES words.
A_FIRST_LAYER = 0
A_NUM_LAYERS = 1
A_EARLIEST = 2  # core cycle (tick index) at which it may start at the earliest
A_DELAY = 3  # core ticks to wait after the tick in which the launch before it ended
A_PARTITION = 4  # partition_cpu: the partition that runs it
LAUNCH_WORDS = 5
