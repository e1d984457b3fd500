"""Word positions of the immutable program words `p`: figures of the machine, programs, classes, tracks.

A class is what nodes with the same program and the same channels have in common: where things lie in their
blocks (`state_kernels.py`), and a template of a block.
"""

P_NODES = 0  # NODE_WORDS per node
P_PROGRAMS = 1
P_COSTS = 3  # cycles per scalar instruction
P_RATES = 4  # RATE_WORDS per DSD operation
P_MATH = 5
P_ARCH = 6  # 2 or 3
P_HOP = 7
P_RAMP = 8
P_TURN = 9
P_LINK = 10  # 1/1000 cycles per word and link
P_OUTPUT = 12  # cycles from the step of an operation to its word at the ramp
P_LOAD_USE = 13
P_TASK_START = 14
P_DRAIN = 15
P_COMPLETE = 16
P_BRANCH = 17  # not taken
P_BRANCH_TAKEN = 18
P_FLOAT_WAIT = 19
P_STRIDE_RULE = 20  # 0: documented, 1: 8 / stride
P_HOST_WORD = 21  # cycles per word that the host moves, per PE
P_HOST_SETUP = 22
P_HOST_LAUNCH = 23
P_SETTLE = 24
P_FUSED = 25  # fmacs rounds once
P_TRACKS = 27  # TRACK_WORDS per node: first track ids, -1 not watched
P_PRINT_COST = 28
P_COLUMNS = 30  # of the fabric
P_WINDOW = 33  # cycles of a load window
P_TIMER = 41
P_RECTANGLE = 39  # columns of the rectangle
P_GRID = 40  # node of each of its places, -1
P_SWAP = 37  # some channel swaps colors
PROGRAM_HEADER = 64

NODE_COLUMN = 0  # of the fabric
NODE_ROW = 1
NODE_CLASS = 2
NODE_X = 3  # in the rectangle
NODE_Y = 4
NODE_NEIGHBOUR = 5  # five ports, -1 edge, -2 a place without router
NODE_SEAT = 10  # from the start, -1 none
NODE_WORDS = 11

RATE_WORDS = 6
RATE_GROUP = 0  # elements per beat, nothing in the way
RATE_CYCLES = 1  # cycles per beat
RATE_REDUCE = 2  # cycles per element of a reduction
RATE_FLOPS = 5

# a program
G_CODE = 0
G_LENGTH = 1
G_FUNCTIONS = 2  # entry, registers, frame bytes, node
G_NUM_FUNCTIONS = 3
G_OPERATIONS = 4
G_SHAPES = 5
G_LOCAL = 6  # function of each local task id, -1
G_DATA = 7  # TASK_WORDS of each data task id
G_CONTROL = 8
G_FIFOS = 9
G_NUM_FIFOS = 10
G_STACK = 11
G_BYTES = 12
G_FIRST = 13  # listing index of its first instruction
G_TEARDOWN = 14  # function per color
G_EMPTY = 15  # function per queue (8 + output)
G_HALF = 16
G_ROTATIONS = 17
G_NUM_ROTATIONS = 18
G_NUM_OPERATIONS = 19
G_NUM_SHAPES = 20
G_SYMBOLS = 21  # begin and end of each variable, rising
G_NUM_SYMBOLS = 22
GROUP_WORDS = 24

FUNCTION_WORDS = 4
TASK_WORDS = 8  # function, number of arguments, then types (6)
FIFO_FIELDS = 10  # address, size, empty action, full action, activate pop, push, priority, simd

# a class: nodes with equal program and channels
L_TEMPLATE = 0
L_SIZE = 1
L_PROGRAM = 2  # word of the program, -1
L_MEMORY = 3  # place in the block
L_REGISTERS = 4
L_REGISTERS_SIZE = 5
L_THREADS = 6
L_DSRS = 7  # 0: none
L_FIFOS = 8
L_CURSORS = 9
L_ROTATION = 10
L_NUM_CHANNELS = 11
L_CHANNEL_LIST = 12  # word in p of the places of the channels, by color
L_CHANNEL = 16  # place of each color's channel, 0 none
L_QUEUE = 40  # place of each queue: 8 explicit, then by color
NUM_QUEUES = 32
NUM_COLORS = 24
CLASS_WORDS = L_QUEUE + NUM_QUEUES

# --- tracks of a watched node: first ids
K_MAIN = 0
K_THREAD = 1  # eight microthreads
K_LINK = 9  # five ports
K_MEMORY = 14
K_QUEUES = 15  # id of its first queue, in order of their numbers
TRACK_WORDS = 16
