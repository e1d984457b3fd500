"""Word positions of a flit-level network inside a machine's root state.

A network is a header at word `net`, tables whose words the header names, and a pool of flits that the
owner of the state places (last, so that it can grow). Routers all have the same number of ports.
An *input VC* is (router * ports + input) * vcs + vc, an *output VC* likewise; behind the output VCs of
the routers come those of the nodes: outputs * vcs + node * vcs + vc is a node's link into its router.
"""

# --- header: sizes and rules, never changed by a run ------------------------------------------------
NET_NODES = 0
NET_ROUTERS = 1
NET_PORTS = 2  # inputs, and as many outputs, per router
NET_VCS = 3
NET_TOPOLOGY = 4  # TOPOLOGY_ code: how a route is found
NET_RADIX = 5  # k
NET_DIMENSIONS = 6  # n
NET_CONCENTRATION = 7  # nodes per router
NET_ROUTER_COLUMNS = 8  # flattened butterfly: routers in x, and nodes per router in x and y
NET_NODE_COLUMNS = 9
NET_NODE_ROWS = 10
NET_BUFFER = 11  # flits per input VC
NET_SOURCE_LIMIT = 12  # flits in a node's source queue
NET_BOUNDARY = 13  # flits per VC that wait at a node to be taken
NET_SWITCH_ITERATIONS = 14  # of iSLIP
NET_VC_ITERATIONS = 16
NET_ROUTING_DELAY = 15  # 0: look-ahead, 1: a stage of its own
NET_CREDIT_DELAY = 17  # cycles from the arrival of a credit at a router until it counts
NET_SPEEDUP = 18  # router cycles per network cycle: numerator, denominator
NET_SPEEDUP_UNIT = 19
NET_INPUT_SPEEDUP = 20
NET_WAIT_TAIL = 22  # 1: an output VC is free again when the credit of its tail has come back
NET_SIZES = 23  # four words: flits of a packet of each kind
NET_FIRST_VC = 27  # four words each: VCs a kind may use, first and last
NET_LAST_VC = 31
NET_MASK_WORDS = 35  # words of a mask with a bit per input VC of a router
NET_SLOTS = 36  # slots of the flit wheel, a power of two
NET_CREDIT_SLOTS = 37
NET_CREDIT_WORDS = 38  # words of a slot of the credit wheel: count, then output VCs
# --- header: words of tables ---------------------------------------------------------------------------
NET_LINKS = 40  # LINK_WORDS per output of a router, then per node (its link into the router)
NET_BACK = 41  # output (or outputs + node) whose link leads into an input
NET_IV = 42  # IV_WORDS per input VC
NET_OV = 43  # OV_WORDS per output VC
NET_SWITCH_GRANT = 44  # iSLIP pointers of the switch: per output, per expanded input
NET_SWITCH_ACCEPT = 45
NET_SWITCH_OFFSET = 46  # VC first in rotation, per expanded input
NET_VC_GRANT = 47  # iSLIP pointers of the VC allocator: per output VC, per input VC
NET_VC_ACCEPT = 48
NET_ROUTE_MASKS = 49  # masks of input VCs per router: to be routed, waiting for an output VC,
NET_ALLOC_MASKS = 50  # waiting for the switch
NET_SWITCH_MASKS = 51
NET_ACTIVE = 52  # mask of routers with work
NET_NODE_TABLE = 53  # NODE_WORDS per node
NET_NODE_VC = 54  # NV_WORDS per node and VC
NET_EJECTED = 55  # per node: VCs whose ejection credit is due, a byte each
NET_EJECTED_WORDS = 56
NET_SOURCES = 57  # masks of nodes: with flits to send, with flits on the way out
NET_EJECTING = 58
NET_READY = 59  # mask of nodes at which a packet waits to be taken
NET_NODE_MASKS = 60  # words of these masks
NET_WHEEL = 61  # head of a list of flits per slot
NET_CREDIT_WHEEL = 62
NET_SCRATCH = 63  # words that mean nothing between two steps
NET_POOL = 64
NET_CAPACITY = 65  # flits of the pool
NET_DEPARTURE = 66  # per output: cycle in which its newest flit leaves the router
NET_CREDIT_LAST = 67  # two words per input: cycle in which its newest credit leaves, and its stamp
NET_ROUTER_MASKS = 68  # words of the mask of routers
NET_ALLOC_SCRATCH = 69  # scratch of the VC allocator, and the winners of the switch
NET_WINNERS = 70
# --- header: what changes --------------------------------------------------------------------------------
NET_FRESH = 72  # flits of the pool never used yet start here
NET_FREE = 73  # head of the free list, NIL if empty
NET_LIVE = 74  # flits in use
NET_WAITING = 75  # packets that wait at nodes to be taken
NET_FLYING = 76  # flits on links
NET_CREDITS = 77  # credits on links
NET_INJECTED = 78  # packets
NET_TAKEN = 79
NET_LATENCY = 80  # sum over packets: cycles from entering the source queue to the boundary of the node
NET_HOPS = 81  # flits sent over links between routers
NET_HEADER = 84

TOPOLOGY_FLY = 0
TOPOLOGY_MESH = 1
TOPOLOGY_TORUS = 2
TOPOLOGY_FLATFLY = 3

READ_REQUEST = 0
WRITE_REQUEST = 1
READ_REPLY = 2
WRITE_REPLY = 3

NIL = 0x7FFF_FFFF
NEVER = 1 << 60
LOW = 0xFFFF_FFFF

# A link: what it leads to, its latency, and how much it is used.
LINK_TO = 0  # input, or inputs + node
LINK_LATENCY = 1  # cycles of flits, and of credits the other way
LINK_FLITS = 2  # since the start
LINK_RECENT = 3  # epoch << 32 | flits of the epoch before << 16 | flits of the epoch
LINK_WORDS = 4
EPOCH_SHIFT = 9  # an epoch is 512 network cycles

IV_HEAD = 0  # flits in order, NIL if there are none
IV_TAIL = 1
IV_COUNT = 2
IV_STATE = 3
IV_ROUTE = 4  # output << 16 | first VC << 8 | last VC
IV_OUT = 5  # output VC (of the whole network) it owns
IV_WORDS = 6

VC_IDLE = 0
VC_ROUTING = 1
VC_WAITING = 2
VC_ACTIVE = 3

OV_COUNT = 0  # flits sent and not credited
OV_OWNER = 1  # FREE, owned, or tail sent and its credit awaited
OV_WORDS = 2
OWNER_FREE = 0
OWNER_PACKET = 1
OWNER_TAIL = 2

NODE_HEAD = 0  # source queue
NODE_TAIL = 1
NODE_COUNT = 2
NODE_VC = 3  # VC used last, -1 before the first
NODE_EJECTING = 4  # mask of VCs with flits in the ejection queue
NODE_READY = 5  # mask of VCs with a whole packet at the boundary
NODE_CREDIT_HEAD = 6  # ring of ejection credits
NODE_CREDIT_COUNT = 7
NODE_OUTPUT = 8  # output of a router that leads here
NODE_SENDING = 9  # 1: the head of a packet has left and its tail has not
NODE_WORDS = 10

NV_HEAD = 0  # ejection queue
NV_TAIL = 1
NV_READY_HEAD = 2  # boundary queue
NV_READY_TAIL = 3
NV_READY_COUNT = 4  # flits
NV_PACKETS = 5  # whole packets
NV_WORDS = 6

FLIT_NEXT = 0  # next << 32 | where it arrives
FLIT_PAYLOAD = 1
FLIT_WORD = 2
FLIT_BORN = 3  # network cycle in which its packet entered the source queue
FLIT_WORDS = 4

# Fields of FLIT_WORD.
KIND_SHIFT = 20
VC_SHIFT = 24
PHASE_BIT = 1 << 32
HEAD_BIT = 1 << 33
TAIL_BIT = 1 << 34
SOURCE_SHIFT = 36
NODE_FIELD = 0xF_FFFF
