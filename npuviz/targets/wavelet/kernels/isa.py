"""Number the instruction set that CSL is lowered to: shared by the compiler, the machine and the kernels.

The vendor's instruction encoding is not public; this set is npuviz's own. A scalar instruction stands for one
instruction of the scalar pipeline, so that costs can be counted; see isa.py for the meaning.
"""

CODE_WORDS = 8
"""Words of an instruction: (op, a, b, c, imm, aux, type, line)."""

# columns
C_OP = 0
C_A = 1
C_B = 2
C_C = 3
C_IMM = 4
C_AUX = 5
C_TYPE = 6
C_LINE = 7

# ---- value types (column C_TYPE); registers hold 64-bit words: integers extended by their sign,
# floats as their raw bits, zero extended
T_U8 = 0
T_I8 = 1
T_U16 = 2
T_I16 = 3
T_U32 = 4
T_I32 = 5
T_U64 = 6
T_I64 = 7
T_F16 = 8
T_F32 = 9
T_BF16 = 10
T_CB16 = 11
T_WORD = 12  # a DSD: 8 bytes in memory

# ---- scalar instructions
OP_NOP = 0
OP_LI = 1  # r[a] = imm
OP_MOV = 2  # r[a] = r[b]
OP_LEA = 3  # r[a] = frame memory base + imm
OP_LD = 4  # r[a] = memory[(b < 0 ? 0 : r[b]) + imm]
OP_ST = 5  # memory[(b < 0 ? 0 : r[b]) + imm] = r[a]
OP_LDX = 6  # r[a] = memory[(b < 0 ? 0 : r[b]) + r[c] * aux + imm]
OP_STX = 7  # memory[(b < 0 ? 0 : r[b]) + r[c] * aux + imm] = r[a]
OP_COPY = 8  # aux bytes from r[b] + imm to r[a]
OP_FILL = 9  # aux elements of type at r[a] + imm = r[b]
OP_JMP = 10  # pc = imm
OP_JZ = 11  # if r[a] == 0: pc = imm
OP_JNZ = 12  # if r[a] != 0: pc = imm
OP_CALL = 13  # function imm; c arguments r[b], r[b+1], ... become its r[0], ...; result to r[a] (-1: none);
# aux = 1: the call of a @map, which costs nothing
OP_CALLI = 14  # function r[aux] (a function value is its index); else as CALL
OP_RET = 15  # end of function or task; r[a] is the result (-1: none)
OP_ASSERT = 16  # if r[a] == 0: fault; imm is a message index
OP_SELECT = 17  # r[a] = r[aux] != 0 ? r[b] : r[c]
OP_ADD = 20  # r[a] = r[b] op r[c], wrapped to type; for 20..31: c < 0 means imm is the second operand
OP_SUB = 21
OP_MUL = 22
OP_DIV = 23
OP_REM = 24
OP_AND = 25
OP_OR = 26
OP_XOR = 27
OP_SHL = 28
OP_SHR = 29
OP_MIN = 30
OP_MAX = 31
OP_NEG = 32  # r[a] = op r[b]
OP_NOT = 33  # logical: 1 if r[b] == 0
OP_INV = 34  # bitwise
OP_ABS = 35
OP_EQ = 40  # r[a] = r[b] op r[c] ? 1 : 0, compared as type; c < 0 means imm
OP_NE = 41
OP_LT = 42
OP_LE = 43
OP_GT = 44
OP_GE = 45
OP_CVT = 50  # r[a] = r[b] converted from type to the type aux; float to integer truncates
OP_WRAP = 51  # r[a] = r[b] wrapped to imm bits, aux = 1: signed
OP_MATH = 52  # r[a] = function imm of r[b] (and r[c]) as type
# ---- descriptors
OP_DSD_SET = 60  # r[a] = r[b] with field imm (F_...) replaced by r[c]
OP_DSD_MOVE = 61  # r[a] = r[b] with the base address moved by r[c] * imm bytes
OP_DSD = 62  # DSD operation; imm = row of the operation table (OPERATION_WORDS)
OP_DSR_LOAD = 63  # DSR (a = file, b = id) = r[c]; imm = row of the settings table, or DSR_BASE
OP_MAP_OPEN = 64  # cursor a of the @map = r[b] (a DSD, or a DSR word); type = its elements
OP_MAP_TEST = 65  # if any of the first a cursors is exhausted: close them, pc = imm
OP_MAP_READ = 66  # r[a] = next element of cursor b; waits for the fabric
OP_MAP_WRITE = 67  # next element of cursor b = r[a]; waits for the fabric
# ---- tasks and system
OP_ACTIVATE = 70  # local task id r[a]
OP_BLOCK = 71  # what r[a] names; aux = ID_...
OP_UNBLOCK = 72
OP_SYS = 73  # r[a] = system function imm (S_...) of r[b], r[c], r[aux] (-1: absent)

# ---- kinds of ids (aux of BLOCK and UNBLOCK, settings)
ID_NONE = 0
ID_LOCAL = 1
ID_DATA = 2
ID_CONTROL = 3
ID_COLOR = 4
ID_INPUT_QUEUE = 5
ID_OUTPUT_QUEUE = 6
ID_UT = 7

# ---- math functions of OP_MATH
M_SQRT = 0
M_EXP = 1
M_LOG = 2
M_SIN = 3
M_COS = 4
M_TANH = 5
M_POW = 6
M_RSQRT = 7
M_FLOOR = 8
M_CEIL = 9
M_SIGMOID = 10
M_INVERSE = 11
M_CLZ = 12
M_CTZ = 13
M_POPCOUNT = 14
M_LDEXP = 15

# ---- system functions of OP_SYS
S_TSC_ENABLE = 0
S_TSC_DISABLE = 1
S_TSC_RESET = 2
S_TSC_READ = 3  # writes three u16 at address r[b]
S_PERF_READ = 4  # counter r[c], as TSC_READ
S_RANDOM16 = 5
S_UNBLOCK_COMMANDS = 6  # the host command stream of this PE
S_X = 7  # coordinates in the rectangle
S_Y = 8
S_FABRIC_X = 9
S_FABRIC_Y = 10
S_PRINT = 11  # one character r[b] into the print buffer; newline flushes with cycle and PE
S_TRACE = 12  # appends word r[b] of kind r[c] to the trace buffer
S_TEARDOWN_EXIT = 13  # color r[b]
S_TEARDOWN_PENDING = 14  # mask of colors
S_ROUTE_SET = 15  # color r[b]: receive mask r[c], transmit mask r[aux], position 0
S_ROUTE_TOGGLE = 16
S_SWITCH_SET = 17  # color r[b]: position r[c] (1..3), packed routes r[aux] (rx | tx << 8 | 1 << 16 valid)
S_SWITCH_POSITION = 18  # color r[b]: current position r[c]
S_SWITCH_MODE = 19  # color r[b]: ring | pop << 1 in r[c]
S_SWITCH_CLEAR = 20  # color r[b]: positions 1..3 invalid
S_FILTER_SET = 21  # filter of color r[b]: field r[c] = r[aux]
S_QUEUE_FLUSH = 22  # queue r[b], kind r[c]
S_QUEUE_FLUSH_EXIT = 23
S_QUEUE_STATUS = 24  # queue r[b], kind r[c]: words in it | full << 8 | empty << 9
S_QUEUE_BIND = 25  # queue r[b], kind r[c], color r[aux]
S_PRIORITY_TASK = 26  # task id r[b], priority r[c]
S_PRIORITY_MAIN = 27  # level r[b]
S_CONFIG_GET = 28  # word address r[b]
S_CONFIG_SET = 29  # word address r[b] = r[c]
S_FIFO_READ_LENGTH = 30  # FIFO r[b]: length r[c] in elements
S_FIFO_WRITE_LENGTH = 31
S_PRNG = 32  # active generator r[b]; r[c] >= 0: seed
S_CONTROL_MASK = 33
S_STOP = 34  # the PE halts
S_ROUTE_ADD = 35  # color r[b]: receive mask r[c], transmit mask r[aux] join those of position 0
S_ROUTE_REMOVE = 36
S_FILTER_COLOR = 37  # the color whose filter has id r[b]: filters count by color
S_QUEUE_STATES = 38  # kind r[b]: mask of empty queues | full ones << 8
S_FLUSHED = 39  # kind r[b]: mask of queues that were flushed, until S_QUEUE_FLUSH_EXIT
S_FILTER_GET = 40  # filter of color r[b]: field r[c]

# ---- descriptors: one 64-bit word each
KIND_NONE = 0
DSR_BASE = -2  # imm of OP_DSR_LOAD: r[c] is only the base address of what the DSR describes
KIND_MEM1D = 1
KIND_MEM4D = 2
KIND_CIRCBUF = 3
KIND_FABIN = 4
KIND_FABOUT = 5
KIND_FIFO = 6
KIND_DSR = 7

# fields: (shift, bits), in this order in FIELDS of isa.py
F_KIND = 0
F_BASE = 1  # byte address (memory); FIFO index
F_EXTENT = 2  # elements or wavelets
F_STRIDE = 3  # elements, signed (mem1d); row of the shape table (mem4d, circbuf)
F_QUEUE = 4  # 15: none
F_COLOR = 5  # 31: none
F_INDEX_OFFSET = 6  # wavelet_index_offset
F_CONTROL = 7
F_CONTROL_TRANSFORM = 8
F_SIMD = 9  # 0 none, 1 simd_32, 2 simd_64, 3 simd_32_or_64
F_PRIORITY = 10  # 0 high, 1 medium, 2 low
F_ADVANCE_SWITCH = 11
F_ZERO = 12  # 0 none, 1 first source, 2 second source
F_DSR_FILE = 13  # 0 dest, 1 src0, 2 src1
F_DSR_ID = 14

SHIFT_KIND = 0
SHIFT_BASE = 3
SHIFT_QUEUE = 3  # fabric: in place of the base address
SHIFT_COLOR = 7
SHIFT_DSR_FILE = 3
SHIFT_DSR_ID = 7
SHIFT_EXTENT = 19
SHIFT_STRIDE = 37
SHIFT_INDEX_OFFSET = 53
SHIFT_CONTROL = 54
SHIFT_CONTROL_TRANSFORM = 55
SHIFT_SIMD = 56
SHIFT_PRIORITY = 58
SHIFT_ADVANCE_SWITCH = 60
SHIFT_ZERO = 61  # two bits: 61, 62
MASK_KIND = 0x7
MASK_BASE = 0xFFFF
MASK_QUEUE = 0xF
MASK_COLOR = 0x1F
MASK_EXTENT = 0x3FFFF
MASK_STRIDE = 0xFFFF

# ---- rows of the operation table: one per @fmacs(...) in the text
OPERATION_WORDS = 24
O_OPERATION = 0  # D_...
O_DST_KIND = 1  # operand kinds below
O_A_KIND = 2  # first source
O_B_KIND = 3  # second source
O_C_KIND = 4  # third (multiplier)
O_DST = 5  # registers
O_A = 6
O_B = 7
O_C = 8
O_RESULT = 9  # register of the bool result, -1: dropped
O_ASYNC = 10
O_ACTIVATE = 11  # register with the id, -1: none
O_UNBLOCK = 12  # register, -1: none
O_UNBLOCK_KIND = 13  # ID_...
O_CONTROL = 14  # on_control: 0 none, 1 terminate, 2 activate, 3 unblock
O_CONTROL_ID = 15  # register
O_CONTROL_KIND = 16  # ID_...
O_INDEX = 17  # register, -1: none
O_UT = 18  # register, -1: none
O_PRIORITY = 19  # -1: not given
O_LINE = 20
O_SINGLE_STEP = 21  # settings rows of OP_DSR_LOAD use the same words
O_SAVE_ADDRESS = 22
O_SHAPE = 23  # OP_DSR_LOAD: XDSR and SR ids packed, -1: none

OPERAND_NONE = 0
OPERAND_DSD = 1  # the register holds a descriptor word (a DSR, FIFO too: see its kind)
OPERAND_SCALAR = 2
OPERAND_POINTER = 3  # the register holds the address of a scalar

# ---- DSD operations
D_MOV16 = 0
D_MOV32 = 1
D_FMOVH = 2
D_FMOVS = 3
D_ADD16 = 4
D_ADDC16 = 5
D_SUB16 = 6
D_AND16 = 7
D_OR16 = 8
D_XOR16 = 9
D_SAR16 = 10
D_SLL16 = 11
D_SLR16 = 12
D_FADDH = 13
D_FADDS = 14
D_FSUBH = 15
D_FSUBS = 16
D_FMULH = 17
D_FMULS = 18
D_FMAXH = 19
D_FMAXS = 20
D_FADDHS = 21
D_FMACH = 22
D_FMACS = 23
D_FMACHS = 24
D_FNEGH = 25
D_FNEGS = 26
D_FABSH = 27
D_FABSS = 28
D_FH2S = 29
D_FS2H = 30
D_XP162FH = 31
D_XP162FS = 32
D_FH2XP16 = 33
D_FS2XP16 = 34
D_CLZ = 35
D_CTZ = 36
D_POPCNT = 37
D_FNORMH = 38
D_FNORMS = 39
D_FSCALEH = 40
D_FSCALES = 41
D_DFILT = 42
NUM_OPERATIONS = 43

# ---- router
PORT_RAMP = 0
PORT_NORTH = 1
PORT_EAST = 2
PORT_SOUTH = 3
PORT_WEST = 4
NUM_PORTS = 5
"""Masks of ports are 1 << port."""

POP_NEVER = 0
POP_ALWAYS = 1
POP_ON_ADVANCE = 2
POP_ON_ADVANCE_NOP = 3

FILTER_COUNTER = 0
FILTER_SPARSE_COUNTER = 1
FILTER_RANGE = 2

CMD_NOP = 0
CMD_ADVANCE = 1
CMD_RESET = 2
CMD_TEARDOWN = 3
