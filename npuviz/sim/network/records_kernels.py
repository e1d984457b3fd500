"""Define the records of a flit-level network inside a machine's root state.

A network is a header at word `net`, tables whose words the header names, and a pool of flits that the
owner of the state places (last, so that it can grow). Routers all have the same number of ports.
An *input VC* is (router * ports + input) * vcs + vc, an *output VC* likewise; behind the output VCs of
the routers come those of the nodes: outputs * vcs + node * vcs + vc is a node's link into its router.
"""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined
from npuviz.sim.parts.record_kernels import Gap, Record, Words

NET = Record(
    "flit-level network",
    nodes="nodes",
    routers="routers",
    ports="inputs, and as many outputs, per router",
    vcs="VCs of a link",
    topology="TOPOLOGY_ code: how a route is found",
    radix="k",
    dimensions="n",
    concentration="nodes per router",
    router_columns="flattened butterfly: routers in x",
    node_columns="flattened butterfly: nodes of a router in x",
    node_rows="flattened butterfly: nodes of a router in y",
    buffer="flits per input VC",
    source_limit="flits in a node's source queue",
    boundary="flits per VC that wait at a node to be taken",
    switch_iterations="of iSLIP",
    routing_delay="0: look-ahead, 1: a stage of its own",
    vc_iterations="of iSLIP between input and output VCs",
    credit_delay="cycles from the arrival of a credit at a router until it counts",
    speedup="router cycles per network cycle: numerator",
    speedup_unit="its denominator",
    input_speedup="inputs of the switch per input of a router",
    _21=Gap(1),
    wait_tail="1: an output VC is free again when the credit of its tail has come back",
    sizes=Words(4, "flits of a packet of each kind"),
    first_vc=Words(4, "first VC that a kind may use"),
    last_vc=Words(4, "last VC that a kind may use"),
    mask_words="words of a mask with a bit per input VC of a router",
    slots="slots of the flit wheel, a power of two",
    credit_slots="slots of the credit wheel, a power of two",
    credit_words="words of a slot of the credit wheel: count, then output VCs",
    _39=Gap(1),
    links="word of the links: of the outputs of routers, then of nodes into their routers",
    back="word of the table by input: output (or outputs + node) whose link leads into it",
    input_vcs="word of the input VCs",
    output_vcs="word of the output VCs",
    switch_grant="word of the switch's iSLIP pointers, per output",
    switch_accept="word of the others, per expanded input",
    switch_offset="word of the VCs first in rotation, per expanded input",
    vc_grant="word of the VC allocator's iSLIP pointers, per output VC",
    vc_accept="word of the others, per input VC",
    route_masks="word of the masks by router of input VCs to be routed",
    alloc_masks="word of those that wait for an output VC",
    switch_masks="word of those that wait for the switch",
    active="word of the mask of routers with work",
    node_table="word of the nodes",
    node_queues="word of the queues by node and VC",
    ejected="word of the VCs by node whose ejection credit is due, a byte each",
    ejected_words="words of a node in it",
    sources="word of the mask of nodes with flits to send",
    ejecting="word of the mask of nodes with flits on the way out",
    ready="word of the mask of nodes at which a packet waits to be taken",
    node_masks="words of these masks",
    wheel="word of the flit wheel: head of a list of flits per slot",
    credit_wheel="word of the credit wheel",
    scratch="word of words that mean nothing between two steps",
    pool="word of flit 0",
    capacity="flits of the pool",
    departure="word of the cycles by output in which the newest flit leaves the router",
    credit_last="two words per input: cycle in which its newest credit leaves, and its stamp",
    router_masks="words of the mask of routers",
    alloc_scratch="word of the VC allocator's scratch",
    winners="word of the winners of the switch",
    _71=Gap(1),
    fresh="flits of the pool never used yet start here",
    free="head of the free list, NIL if empty",
    live="flits in use",
    waiting="packets that wait at nodes to be taken",
    flying="flits on links",
    credits="credits on links",
    injected="packets",
    taken="packets",
    latency="sum over packets: cycles from entering the source queue to the boundary of the node",
    hops="flits sent over links between routers",
    at_least=84,
)

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

LINK = Record(
    "link",
    to="input it leads to, or inputs + node",
    latency="cycles of flits, and of credits the other way",
    flits="flits since the start",
    recent="epoch << 32 | flits of the epoch before << 16 | flits of the epoch",
)
EPOCH_SHIFT = 9  # an epoch is 512 network cycles

INPUT_VC = Record(
    "input VC",
    head="oldest flit, NIL if there is none",
    tail="newest flit",
    count="flits",
    state="VC_ number",
    route="output << 16 | first VC << 8 | last VC",
    out="output VC (of the whole network) it owns",
)

VC_IDLE = 0
VC_ROUTING = 1
VC_WAITING = 2
VC_ACTIVE = 3

OUTPUT_VC = Record(
    "output VC",
    count="flits sent and not credited",
    owner="OWNER_ number: free, owned, or tail sent and its credit awaited",
)
OWNER_FREE = 0
OWNER_PACKET = 1
OWNER_TAIL = 2

NODE = Record(
    "node",
    head="source queue: oldest flit",
    tail="its newest flit",
    count="its flits",
    vc="VC used last, -1 before the first",
    ejecting="mask of VCs with flits in the ejection queue",
    ready="mask of VCs with a whole packet at the boundary",
    credit_head="ring of ejection credits: the oldest",
    credit_count="how many it holds",
    output="output of a router that leads here",
    sending="1: the head of a packet has left and its tail has not",
)

NODE_QUEUES = Record(
    "queues of a VC at a node",
    head="ejection queue: oldest flit, NIL if there is none",
    tail="its newest flit",
    ready_head="boundary queue: oldest flit",
    ready_tail="its newest flit",
    ready_count="its flits",
    packets="whole packets in it",
)

FLIT = Record(
    "flit",
    next="next << 32 | where it arrives",
    payload="what the owner sends with its packet",
    word="fields: see KIND_SHIFT and those behind it",
    born="network cycle in which its packet entered the source queue",
)

# Fields of the `word` of a flit.
KIND_SHIFT = 20
VC_SHIFT = 24
PHASE_BIT = 1 << 32
HEAD_BIT = 1 << 33
TAIL_BIT = 1 << 34
SOURCE_SHIFT = 36
NODE_FIELD = 0xF_FFFF

# --- what kernels hand down -------------------------------------------------------------------------


class Network(NamedTuple):
    """A flit-level network and the array of words that holds it."""

    words: Any
    """The owner's state."""
    net: Any
    """Row NET."""


@inlined
def network_at(words, first):
    """Return the network whose header is at word `first`."""
    return Network(words, NET(words, first))
