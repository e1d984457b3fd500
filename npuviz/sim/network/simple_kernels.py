"""Simple interconnect: a crossbar with one FIFO per (source, destination), no back-pressure.

Header at word `noc`, then the tables it points to. Each destination takes one packet a cycle, the
sources in rotation. A packet is a node of a pool: word 0 = next << 32 | payload, word 1 (only where
NOC_STRIDE is 2) the cycle in which it is ready. The owner of the state keeps enough nodes free.

FIFO rule (Ref: systolic.md section 9): a packet that enters in cycle c is ready in c + latency if
its FIFO is empty, else one cycle after the newest packet of the FIFO. With latency 1 a packet is
thus ready as soon as it is at the head of its FIFO in a later cycle, and no ready time is kept.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import fetch, inlined, trailing_zeros

NOC_LATENCY = 0  # NoC cycles
NOC_PERIOD = 1  # picoseconds
NOC_SOURCES = 2
NOC_DESTINATIONS = 3
NOC_FIFOS = 4  # word of the FIFO table: per (destination, source) first node << 32 | last node
NOC_MASKS = 5  # word of the masks: NOC_MASK_WORDS per destination, a bit per source with packets
NOC_MASK_WORDS = 6
NOC_TURNS = 7  # word of the rotation pointers, one per destination
NOC_POOL = 8  # word of node 0
NOC_STRIDE = 9  # words per node
NOC_CAPACITY = 10  # nodes
NOC_LIVE = 11  # nodes in use
NOC_FREE = 12  # head of the free list of nodes from NOC_NEAR on, NONE if empty
NOC_FRESH = 13  # nodes never used yet start here
NOC_WAITING = 14  # packets in FIFOs
NOC_ACTIVE = 15  # word of the active masks: a bit per destination with packets
NOC_READY = 16  # word of the ready cycle of each FIFO's newest packet (latency other than 1)
NOC_NEAR = 17  # nodes below this number lie so close together that caches hold them all
NOC_NEAR_FREE = 18  # head of their free list
NOC_HEADER = 24

NONE = 0x7FFF_FFFF
LOW_MASK = 0xFFFF_FFFF
EMPTY = NONE << 32 | NONE  # a FIFO without packets


@inlined
def take_free(s, noc, free):
    """Take the first node of the free list whose head is word `free` of the header."""
    node = s[noc + free]
    s[noc + free] = s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] >> 32
    return node


@inlined
def allocate_node(s, noc):
    """Take a node of the pool. The caller has made sure that one is free.

    Once all near nodes have been used, they are kept for `bring_near`, if others are left.
    """
    fresh = s[noc + NOC_FRESH]
    if s[noc + NOC_FREE] != NONE:
        node = take_free(s, noc, int64(NOC_FREE))
    elif s[noc + NOC_NEAR_FREE] != NONE and (fresh < s[noc + NOC_NEAR] or fresh >= s[noc + NOC_CAPACITY]):
        node = take_free(s, noc, int64(NOC_NEAR_FREE))
    else:
        node = fresh
        s[noc + NOC_FRESH] = node + 1
    s[noc + NOC_LIVE] += 1
    return node


@inlined
def free_node(s, noc, node):
    """Return a node to the pool."""
    free = noc + (NOC_NEAR_FREE if node < s[noc + NOC_NEAR] else NOC_FREE)
    s[s[noc + NOC_POOL] + node * s[noc + NOC_STRIDE]] = s[free] << 32
    s[free] = node
    s[noc + NOC_LIVE] -= 1


@inlined
def bring_near(s, noc, node):
    """Move a packet that will be looked at often to a near node, if one is free; returns its node.

    Only its payload moves.
    """
    if node < s[noc + NOC_NEAR] or s[noc + NOC_NEAR_FREE] == NONE:
        return node
    near = take_free(s, noc, int64(NOC_NEAR_FREE))
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    s[pool + near * stride] = s[pool + node * stride] & LOW_MASK
    s[noc + NOC_LIVE] += 1
    free_node(s, noc, node)
    return near


@inlined
def noc_push(s, noc, source, destination, payload, cycle):
    """Let a packet enter the network in `cycle`; returns its node."""
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    index = destination * s[noc + NOC_SOURCES] + source
    fifo = s[noc + NOC_FIFOS] + index
    node = allocate_node(s, noc)
    s[pool + node * stride] = (NONE << 32) | payload
    tail = s[fifo] & LOW_MASK
    latency = s[noc + NOC_LATENCY]
    if tail == NONE:
        s[fifo] = (node << 32) | node
        mask = s[noc + NOC_MASKS] + destination * s[noc + NOC_MASK_WORDS] + (source >> 6)
        s[mask] |= 1 << (source & 63)
        s[s[noc + NOC_ACTIVE] + (destination >> 6)] |= 1 << (destination & 63)
        ready = cycle + latency
    else:
        word = pool + tail * stride
        s[word] = (node << 32) | (s[word] & LOW_MASK)
        s[fifo] = (s[fifo] >> 32 << 32) | node
        ready = cycle + latency
        if latency != 1:
            ready = s[s[noc + NOC_READY] + index] + 1
    if latency != 1:
        s[s[noc + NOC_READY] + index] = ready
        s[pool + node * stride + 1] = ready
    s[noc + NOC_WAITING] += 1
    return node


@inlined
def _next_source(s, mask, words, start):
    """First set bit of a mask at or after `start`, in rotation; -1 if there is none."""
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
    """The source whose head packet is granted, or -1. Looks at ready times where they are kept."""
    words = s[noc + NOC_MASK_WORDS]
    mask = s[noc + NOC_MASKS] + destination * words
    start = s[s[noc + NOC_TURNS] + destination]
    source = _next_source(s, mask, words, start)
    if s[noc + NOC_LATENCY] == 1 or source < 0:
        return source
    first = source
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    base = s[noc + NOC_FIFOS] + destination * s[noc + NOC_SOURCES]
    while True:
        head = s[base + source] >> 32
        if s[pool + head * stride + 1] <= cycle:
            return source
        start = source + 1
        if start >= s[noc + NOC_SOURCES]:
            start = 0
        source = _next_source(s, mask, words, start)
        if source == first:
            return -1


@inlined
def noc_grant(s, noc, destination, cycle):
    """Let `destination` take one packet in `cycle`; returns its node (to be freed), or -1."""
    source = _pick_ready(s, noc, destination, cycle)
    if source < 0:
        return -1
    sources = s[noc + NOC_SOURCES]
    fifos = s[noc + NOC_FIFOS] + destination * sources
    pool = s[noc + NOC_POOL]
    stride = s[noc + NOC_STRIDE]
    words = s[noc + NOC_MASK_WORDS]
    mask = s[noc + NOC_MASKS] + destination * words
    node = s[fifos + source] >> 32
    following = s[pool + node * stride] >> 32
    turn = source + 1
    if turn >= sources:
        turn = 0
    s[s[noc + NOC_TURNS] + destination] = turn
    if following == NONE:
        s[fifos + source] = EMPTY
        s[mask + (source >> 6)] &= ~(1 << (source & 63))
    else:
        s[fifos + source] = (following << 32) | (s[fifos + source] & LOW_MASK)
    # A packet waits longer than caches keep its node: that of the next turn is asked for now.
    source = _next_source(s, mask, words, turn)
    if source < 0:
        s[s[noc + NOC_ACTIVE] + (destination >> 6)] &= ~(1 << (destination & 63))
    else:
        fetch(s, pool + (s[fifos + source] >> 32) * stride)
    s[noc + NOC_WAITING] -= 1
    return node
