"""Compute routes: the output, the range of VCs and the ring half that a packet takes at a router.

Ref: BOOK routefunc.cpp, networks/. All are deterministic: a torus packet with two equally short ways
takes one by the parity of source and destination (BookSim draws a random number).
"""

from npuviz.sim.network.records_kernels import (
    FLIT,
    KIND_SHIFT,
    NODE_FIELD,
    PHASE_BIT,
    SOURCE_SHIFT,
    TOPOLOGY_FLATFLY,
    TOPOLOGY_FLY,
    TOPOLOGY_MESH,
)
from npuviz.sim.parts.bits_kernels import kernel


@kernel
def _fly_output(net, router, destination):
    """Return the output by destination tag: at stage i of n the i-th digit from the top, in base k."""
    radix = net.radix
    stages = net.dimensions
    per_stage = 1
    for _ in range(stages - 1):
        per_stage *= radix
    for _ in range(stages - 1 - router // per_stage):
        destination = destination // radix
    return destination % radix


@kernel
def _mesh_output(net, router, destination):
    """Return the output by dimension order, lowest first: outputs are up and down of each dimension, then the
    node."""
    radix = net.radix
    dimensions = net.dimensions
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
def _torus_output(net, router, destination, port, word):
    """Find the output by dimension order over the shorter way; return output * 2 + half of the ring's VCs.

    The half is fixed when a packet turns into a dimension: it depends on whether the packet passes the
    dateline between k - 1 and 0 (upwards), or does not (downwards), which keeps rings free of deadlock.
    """
    radix = net.radix
    dimensions = net.dimensions
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
def flatfly_place(net, node):
    """Return router * concentration + port of a node of a flattened butterfly (nodes are numbered by
    rows)."""
    columns = net.node_columns
    rows = net.node_rows
    width = net.router_columns * columns
    x = node % width
    y = node // width
    router = y // rows * net.router_columns + x // columns
    return router * net.concentration + columns * (y % rows) + x % columns


@kernel
def _flatfly_output(net, router, destination):
    """Return the output by dimension order over direct links: nodes first, then the other routers per
    dimension."""
    radix = net.radix
    concentration = net.concentration
    place = flatfly_place(net, destination)
    target = place // concentration
    if target == router:
        return place % concentration
    output = concentration - 1
    for _ in range(net.dimensions):
        here = router % radix
        there = target % radix
        if here != there:
            return output + there if there > here else output + there + 1
        router = router // radix
        target = target // radix
        output += radix - 1
    return -1


@kernel
def find_route(network, router, port, flit):
    """Return the route of a head flit that came in by `port`: output << 16 | first VC << 8 | last VC.

    Stores the ring half of a torus in the flit.
    """
    net = network.net
    flit_row = FLIT(network.words, net.pool, flit)
    word = flit_row.word
    destination = word & NODE_FIELD
    kind = (word >> KIND_SHIFT) & 3
    first = net.first_vc[kind]
    last = net.last_vc[kind]
    topology = net.topology
    if topology == TOPOLOGY_FLY:
        output = _fly_output(net, router, destination)
    elif topology == TOPOLOGY_MESH:
        output = _mesh_output(net, router, destination)
    elif topology == TOPOLOGY_FLATFLY:
        output = _flatfly_output(net, router, destination)
    else:
        found = _torus_output(net, router, destination, port, word)
        output = found >> 1
        flit_row.word = (word & ~PHASE_BIT) | (PHASE_BIT if found & 1 != 0 else 0)
        if output != net.ports - 1:
            half = (last - first + 1) >> 1
            if found & 1 == 0:
                last -= half
            else:
                first += half
    return (output << 16) | (first << 8) | last
