"""Define the requests inside a command-level DRAM channel, and its lists: front, pending and finished.

The buffers are in `buffer_kernels`.
"""

from numba import int64

from npuviz.sim.dram.records_kernels import CHANNEL, LIST, LOW_HALF, NIL, REQUEST_NODE
from npuviz.sim.parts.bits_kernels import fetch, inlined, kernel


@inlined
def request_of(dram, node):
    """Return the request of a node."""
    device = dram.device
    return REQUEST_NODE(dram.words, device.pool + node * device.stride)


@inlined
def fetch_request(dram, node):
    """Prefetch the request of a node into the cache."""
    device = dram.device
    fetch(dram.words, device.pool + node * device.stride)


@inlined
def next_of(dram, node):
    """Return the node after another one in its list."""
    return request_of(dram, node).link >> 32


@inlined
def link_to(dram, node, following):
    """Set the node after another one in its list, and keep the payload."""
    request = request_of(dram, node)
    request.link = (following << 32) | (request.link & LOW_HALF)


@kernel
def append(dram, nodes, node):
    """Append a node to a list."""
    link_to(dram, node, int64(NIL))
    if nodes.tail == NIL:
        nodes.head = node
    else:
        link_to(dram, nodes.tail, node)
    nodes.tail = node


@kernel
def take_head(dram, nodes):
    """Remove and return the first node of a list that is not empty."""
    node = nodes.head
    following = next_of(dram, node)
    nodes.head = following
    if following == NIL:
        nodes.tail = NIL
    return node


@kernel
def field_of(device, index, address):
    """Return a field of a byte address inside the channel: 0 rank, 1 group, 2 bank, 3 row."""
    field = device.address_fields[index]
    value = (address >> field.shift) & field.mask
    if device.is_mixed == 1:
        for part in range(2):
            shift = field.added[3 * part]
            mask = field.added[3 * part + 1]
            value ^= ((address >> shift) & mask) << field.added[3 * part + 2]
    return value


@kernel
def bank_of(device, address):
    """Return the number of an address's bank inside the channel, counted over all ranks."""
    rank = field_of(device, int64(0), address)
    group = field_of(device, int64(1), address)
    bank = field_of(device, int64(2), address)
    return (((rank << device.group_bits) | group) << device.bank_bits) | bank


@kernel
def push_pending(dram, channel, node, tick):
    """Append a read whose data arrive in `tick` or later; one read responds per tick, in order."""
    last = channel.pending_last + 1
    if last < tick:
        last = tick
    channel.pending_last = last
    request_of(dram, node).time = last
    append(dram, LIST(channel, CHANNEL.pending_head), node)


@kernel
def respond(dram, channel, node, tick):
    """Append a response to the list that the owner takes from."""
    request_of(dram, node).time = tick
    append(dram, LIST(channel, CHANNEL.done_head), node)
