"""Simulate a simple interconnect: a crossbar with one FIFO per (source, destination), no back-pressure.

A header, then the tables it points to. Each destination takes one packet a cycle, the
sources in rotation. A packet is a node of a pool: word 0 = next << 32 | payload, word 1 (only where
`stride` is 2) the cycle in which it is ready. The owner of the state keeps enough nodes free.

FIFO rule (Ref: systolic.md section 9): a packet that enters in cycle c is ready in c + latency if
its FIFO is empty, else one cycle after the newest packet of the FIFO. With latency 1 a packet is
thus ready as soon as it is at the head of its FIFO in a later cycle, and no ready cycle is kept.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import fetch, inlined, trailing_zeros
from npuviz.sim.parts.record_kernels import Record

NOC = Record(
    "simple network",
    latency="NoC cycles",
    period="picoseconds of a cycle",
    sources="sources",
    destinations="destinations",
    fifos="word of the FIFO table: per (destination, source) first node << 32 | last node",
    masks="word of the masks: `mask_words` per destination, a bit per source with packets",
    mask_words="words of a mask",
    turns="word of the rotation pointers, one per destination",
    pool="word of node 0",
    stride="words per node",
    capacity="nodes",
    live="nodes in use",
    free="head of the free list of the nodes that are not near, NONE if empty",
    fresh="nodes never used yet start here",
    waiting="packets in FIFOs",
    active="word of the active masks: a bit per destination with packets",
    ready="word of the ready cycle of each FIFO's newest packet (latency other than 1)",
    near="nodes below this number lie so close together that caches hold them all",
    near_free="head of their free list",
    at_least=24,
)

NONE = 0x7FFF_FFFF
LOW_MASK = 0xFFFF_FFFF
EMPTY = NONE << 32 | NONE  # a FIFO without packets


@inlined
def take_free(s, noc, free):
    """Take the first node of the free list whose head is word `free` of the header."""
    node = noc[free]
    noc[free] = s[noc.pool + node * noc.stride] >> 32
    return node


@inlined
def allocate_node(s, noc):
    """Take a node of the pool; the caller must have checked that one is free.

    Once all near nodes have been used, they are reserved for `bring_near` as long as other nodes are left.
    """
    fresh = noc.fresh
    if noc.free != NONE:
        node = take_free(s, noc, int64(NOC.free))
    elif noc.near_free != NONE and (fresh < noc.near or fresh >= noc.capacity):
        node = take_free(s, noc, int64(NOC.near_free))
    else:
        node = fresh
        noc.fresh = node + 1
    noc.live += 1
    return node


@inlined
def free_node(s, noc, node):
    """Return a node to the pool."""
    free = NOC.near_free if node < noc.near else NOC.free
    s[noc.pool + node * noc.stride] = noc[free] << 32
    noc[free] = node
    noc.live -= 1


@inlined
def bring_near(s, noc, node):
    """Move a packet that will be read often to a near node, if one is free; return its node.

    Only its payload is moved.
    """
    if node < noc.near or noc.near_free == NONE:
        return node
    near = take_free(s, noc, int64(NOC.near_free))
    pool = noc.pool
    stride = noc.stride
    s[pool + near * stride] = s[pool + node * stride] & LOW_MASK
    noc.live += 1
    free_node(s, noc, node)
    return near


@inlined
def noc_push(s, noc, way, payload, cycle):
    """Let a packet enter the network in `cycle`; return its node. way  (source, destination)"""
    source, destination = way
    pool = noc.pool
    stride = noc.stride
    index = destination * noc.sources + source
    fifo = noc.fifos + index
    node = allocate_node(s, noc)
    s[pool + node * stride] = (NONE << 32) | payload
    tail = s[fifo] & LOW_MASK
    latency = noc.latency
    if tail == NONE:
        s[fifo] = (node << 32) | node
        mask = noc.masks + destination * noc.mask_words + (source >> 6)
        s[mask] |= 1 << (source & 63)
        s[noc.active + (destination >> 6)] |= 1 << (destination & 63)
        ready = cycle + latency
    else:
        word = pool + tail * stride
        s[word] = (node << 32) | (s[word] & LOW_MASK)
        s[fifo] = (s[fifo] >> 32 << 32) | node
        ready = cycle + latency
        if latency != 1:
            ready = s[noc.ready + index] + 1
    if latency != 1:
        s[noc.ready + index] = ready
        s[pool + node * stride + 1] = ready
    noc.waiting += 1
    return node


@inlined
def _next_source(s, mask, words, start):
    """Return the first set bit of a mask at or after `start`, in rotation; -1 if there is none."""
    first = start >> 6
    word = s[mask + first] >> (start & 63) << (start & 63)
    if word != 0:
        return (first << 6) + trailing_zeros(word)
    for offset in range(1, words + 1):
        index = first + offset
        if index >= words:
            index -= words
        word = s[mask + index]
        if word != 0:
            return (index << 6) + trailing_zeros(word)
    return -1


@inlined
def _pick_ready(s, noc, destination, cycle):
    """Return the source whose first packet is granted, or -1. Checks ready cycles if these are kept."""
    words = noc.mask_words
    mask = noc.masks + destination * words
    start = s[noc.turns + destination]
    source = _next_source(s, mask, words, start)
    if noc.latency == 1 or source < 0:
        return source
    first = source
    pool = noc.pool
    stride = noc.stride
    base = noc.fifos + destination * noc.sources
    while True:
        head = s[base + source] >> 32
        if s[pool + head * stride + 1] <= cycle:
            return source
        start = source + 1
        if start >= noc.sources:
            start = 0
        source = _next_source(s, mask, words, start)
        if source == first:
            return -1


@inlined
def noc_grant(s, noc, destination, cycle):
    """Let `destination` take one packet in `cycle`; return its node, which the caller frees, or -1."""
    source = _pick_ready(s, noc, destination, cycle)
    if source < 0:
        return -1
    sources = noc.sources
    fifos = noc.fifos + destination * sources
    pool = noc.pool
    stride = noc.stride
    words = noc.mask_words
    mask = noc.masks + destination * words
    node = s[fifos + source] >> 32
    following = s[pool + node * stride] >> 32
    turn = source + 1
    if turn >= sources:
        turn = 0
    s[noc.turns + destination] = turn
    if following == NONE:
        s[fifos + source] = EMPTY
        s[mask + (source >> 6)] &= ~(1 << (source & 63))
    else:
        s[fifos + source] = (following << 32) | (s[fifos + source] & LOW_MASK)
    # A packet waits so long that its node leaves the caches: the node of the next turn is prefetched now.
    source = _next_source(s, mask, words, turn)
    if source < 0:
        s[noc.active + (destination >> 6)] &= ~(1 << (destination & 63))
    else:
        fetch(s, pool + (s[fifos + source] >> 32) * stride)
    noc.waiting -= 1
    return node
