"""Routing functions: the output, the range of VCs and the ring half a packet takes at a router.

Ref: BOOK routefunc.cpp, networks/. All are deterministic: a torus packet with two equally short ways
goes by the parity of source and destination (BookSim draws a random number).
"""

from npuviz.sim.network.records_kernels import (
    FLIT_WORD,
    FLIT_WORDS,
    KIND_SHIFT,
    NET_CONCENTRATION,
    NET_DIMENSIONS,
    NET_FIRST_VC,
    NET_LAST_VC,
    NET_NODE_COLUMNS,
    NET_NODE_ROWS,
    NET_POOL,
    NET_PORTS,
    NET_RADIX,
    NET_ROUTER_COLUMNS,
    NET_TOPOLOGY,
    NODE_FIELD,
    PHASE_BIT,
    SOURCE_SHIFT,
    TOPOLOGY_FLATFLY,
    TOPOLOGY_FLY,
    TOPOLOGY_MESH,
)
from npuviz.sim.parts.bits_kernels import kernel


@kernel
def _fly_output(s, net, router, destination):
    """Destination tag: at stage i of n the i-th digit from the top, in base k."""
    radix = s[net + NET_RADIX]
    stages = s[net + NET_DIMENSIONS]
    per_stage = 1
    for _ in range(stages - 1):
        per_stage *= radix
    for _ in range(stages - 1 - router // per_stage):
        destination = destination // radix
    return destination % radix


@kernel
def _mesh_output(s, net, router, destination):
    """Dimension order, lowest first: outputs are up and down of each dimension, then the node."""
    radix = s[net + NET_RADIX]
    dimensions = s[net + NET_DIMENSIONS]
    for dimension in range(dimensions):
        here = router % radix
        there = destination % radix
        if here < there:
            return 2 * dimension
        if here > there:
            return 2 * dimension + 1
        router = router // radix
        destination = destination // radix
    return 2 * dimensions


@kernel
def _torus_output(s, net, router, destination, port, word):
    """Dimension order over the shorter way; returns output * 2 + half of the ring's VCs.

    The half is fixed when a packet turns into a dimension: it tells whether the packet passes the
    dateline between k - 1 and 0 (upwards), or does not (downwards), which keeps rings free of deadlock.
    """
    radix = s[net + NET_RADIX]
    dimensions = s[net + NET_DIMENSIONS]
    phase = 1 if word & PHASE_BIT != 0 else 0
    parity = (destination + (word >> SOURCE_SHIFT)) & 1
    for dimension in range(dimensions):
        here = router % radix
        there = destination % radix
        if here != there:
            if port >> 1 == dimension:
                return (port ^ 1) * 2 + phase
            twice = 2 * ((there - here + radix) % radix)
            phase = 1 if here > there else 0
            if twice < radix or (twice == radix and parity == 1):
                return 2 * dimension * 2 + phase
            return (2 * dimension + 1) * 2 + phase
        router = router // radix
        destination = destination // radix
    return 2 * dimensions * 2 + phase


@kernel
def flatfly_place(s, net, node):
    """Router * concentration + port of a node of a flattened butterfly (nodes are numbered by rows)."""
    columns = s[net + NET_NODE_COLUMNS]
    rows = s[net + NET_NODE_ROWS]
    width = s[net + NET_ROUTER_COLUMNS] * columns
    x = node % width
    y = node // width
    router = y // rows * s[net + NET_ROUTER_COLUMNS] + x // columns
    return router * s[net + NET_CONCENTRATION] + columns * (y % rows) + x % columns


@kernel
def _flatfly_output(s, net, router, destination):
    """Dimension order over direct links: nodes first, then per dimension the other routers in order."""
    radix = s[net + NET_RADIX]
    concentration = s[net + NET_CONCENTRATION]
    place = flatfly_place(s, net, destination)
    target = place // concentration
    if target == router:
        return place % concentration
    output = concentration - 1
    for _ in range(s[net + NET_DIMENSIONS]):
        here = router % radix
        there = target % radix
        if here != there:
            return output + there if there > here else output + there + 1
        router = router // radix
        target = target // radix
        output += radix - 1
    return -1


@kernel
def find_route(s, net, router, port, flit):
    """Route of a head flit that came in by `port`: output << 16 | first VC << 8 | last VC.

    Keeps the ring half of a torus in the flit.
    """
    at = s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_WORD
    word = s[at]
    destination = word & NODE_FIELD
    kind = (word >> KIND_SHIFT) & 3
    first = s[net + NET_FIRST_VC + kind]
    last = s[net + NET_LAST_VC + kind]
    topology = s[net + NET_TOPOLOGY]
    if topology == TOPOLOGY_FLY:
        output = _fly_output(s, net, router, destination)
    elif topology == TOPOLOGY_MESH:
        output = _mesh_output(s, net, router, destination)
    elif topology == TOPOLOGY_FLATFLY:
        output = _flatfly_output(s, net, router, destination)
    else:
        found = _torus_output(s, net, router, destination, port, word)
        output = found >> 1
        s[at] = (word & ~PHASE_BIT) | (PHASE_BIT if found & 1 != 0 else 0)
        if output != s[net + NET_PORTS] - 1:
            half = (last - first + 1) >> 1
            if found & 1 == 0:
                last -= half
            else:
                first += half
    return (output << 16) | (first << 8) | last
