"""Requests inside a command-level DRAM channel: their fields, and the lists of front, pending, finished.

The buffers are in `dram_command_row_kernels`.
"""

from numba import int64

from npuviz.sim.dram.records_kernels import (
    CC_DONE_HEAD,
    CC_DONE_TAIL,
    CC_PENDING_HEAD,
    CC_PENDING_LAST,
    CC_PENDING_TAIL,
    DC_BANK_BITS,
    DC_FIELDS,
    DC_GROUP_BITS,
    DC_IS_MIXED,
    DC_POOL,
    DC_STRIDE,
    FIELD_ADDED,
    FIELD_MASK,
    FIELD_SHIFT,
    FIELD_WORDS,
    LOW_HALF,
    NIL,
    NODE_TIME,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel


@inlined
def node_word(s, dram, node):
    """Word of a node."""
    return s[dram + DC_POOL] + node * s[dram + DC_STRIDE]


@inlined
def next_of(s, dram, node):
    """The node behind another one in its list."""
    return s[node_word(s, dram, node)] >> 32


@inlined
def link_to(s, dram, node, following):
    """Set the node behind another one, keeping the payload."""
    word = node_word(s, dram, node)
    s[word] = (following << 32) | (s[word] & LOW_HALF)


@kernel
def append(s, dram, head, tail, node):
    """Append a node to the list whose first and last node are in words `head` and `tail`."""
    link_to(s, dram, node, int64(NIL))
    if s[tail] == NIL:
        s[head] = node
    else:
        link_to(s, dram, s[tail], node)
    s[tail] = node


@kernel
def take_head(s, dram, head, tail):
    """Remove and return the first node of a list that is not empty."""
    node = s[head]
    following = next_of(s, dram, node)
    s[head] = following
    if following == NIL:
        s[tail] = NIL
    return node


@kernel
def field_of(s, dram, index, address):
    """Field 0 rank, 1 group, 2 bank, 3 row of a byte address inside the channel."""
    word = dram + DC_FIELDS + index * FIELD_WORDS
    value = (address >> s[word + FIELD_SHIFT]) & s[word + FIELD_MASK]
    if s[dram + DC_IS_MIXED] == 1:
        for part in range(2):
            at = word + FIELD_ADDED + 3 * part
            value ^= ((address >> s[at]) & s[at + 1]) << s[at + 2]
    return value


@kernel
def bank_of(s, dram, address):
    """Number of the bank inside the channel, all ranks counted."""
    rank = field_of(s, dram, int64(0), address)
    group = field_of(s, dram, int64(1), address)
    bank = field_of(s, dram, int64(2), address)
    return (((rank << s[dram + DC_GROUP_BITS]) | group) << s[dram + DC_BANK_BITS]) | bank


@kernel
def push_pending(s, dram, c, node, tick):
    """Append a read whose data come in `tick` at the earliest; one responds per tick, in order."""
    last = s[c + CC_PENDING_LAST] + 1
    if last < tick:
        last = tick
    s[c + CC_PENDING_LAST] = last
    s[node_word(s, dram, node) + NODE_TIME] = last
    append(s, dram, c + CC_PENDING_HEAD, c + CC_PENDING_TAIL, node)


@kernel
def respond(s, dram, c, node, tick):
    """Put a response into the list that the owner takes."""
    s[node_word(s, dram, node) + NODE_TIME] = tick
    append(s, dram, c + CC_DONE_HEAD, c + CC_DONE_TAIL, node)
