"""Simulate a flit-level network: nodes that send and take packets, and routers between them.

One call of `net_step` is one network cycle, after the exchange at the nodes of the same cycle
(Ref: systolic.md section 9). Cycles before `net_next` may be left out: nothing happens in them.
Records are those of records_kernels; npuviz.sim.network.flit_network writes them.
"""

from numba import int64

from npuviz.sim.network.link_kernels import (
    credit_latency,
    free_flit,
    put_credit,
    put_on_link,
    set_next,
    take_flit,
)
from npuviz.sim.network.records_kernels import (
    FLIT,
    HEAD_BIT,
    INPUT_VC,
    KIND_SHIFT,
    LOW,
    NEVER,
    NIL,
    NODE,
    NODE_QUEUES,
    OUTPUT_VC,
    OWNER_FREE,
    OWNER_PACKET,
    OWNER_TAIL,
    SOURCE_SHIFT,
    TAIL_BIT,
    VC_ACTIVE,
    VC_IDLE,
    VC_SHIFT,
)
from npuviz.sim.network.router_kernels import clear_bit, router_cycle, set_bit, start_packet
from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros


@inlined
def net_can_inject(network, node, kind):
    """Whether the source queue of a node has room for a packet of a kind."""
    net = network.net
    node_row = NODE(network.words, net.node_table, node)
    return node_row.count + net.sizes[kind] <= net.source_limit


@inlined
def net_room(network):
    """Return the number of free flits in the pool."""
    net = network.net
    return net.capacity - net.live


@kernel
def net_inject(network, node, packet, cycle):
    """Put a packet into the source queue of a node in a cycle, before `net_step` of that cycle.

    packet  its destination, kind and payload
    The caller must have checked `net_can_inject`, and that the pool has room.
    """
    words, net = network.words, network.net
    destination, kind, payload = packet
    node_row = NODE(words, net.node_table, node)
    size = net.sizes[kind]
    for index in range(size):
        flit = take_flit(network)
        flit_row = FLIT(words, net.pool, flit)
        word = destination | (kind << KIND_SHIFT) | (node << SOURCE_SHIFT)
        if index == 0:
            word |= HEAD_BIT
        if index == size - 1:
            word |= TAIL_BIT
        flit_row.next = NIL << 32
        flit_row.payload = payload
        flit_row.word = word
        flit_row.born = cycle
        if node_row.count == 0:
            node_row.head = flit
        else:
            set_next(network, node_row.tail, flit)
        node_row.tail = flit
        node_row.count += 1
    net.injected += 1
    set_bit(words, net.sources, node)


@kernel
def net_take(network, node):
    """Take the waiting packet of the lowest VC of a node; return its payload, -1 if none waits."""
    words, net = network.words, network.net
    node_row = NODE(words, net.node_table, node)
    ready = node_row.ready
    if ready == 0:
        return -1
    vc = trailing_zeros(ready)
    queues = NODE_QUEUES(words, net.node_queues, node * net.vcs + vc)
    payload = -1
    word = 0
    while word & TAIL_BIT == 0:
        flit = queues.ready_head
        flit_row = FLIT(words, net.pool, flit)
        word = flit_row.word
        payload = flit_row.payload
        queues.ready_head = flit_row.next >> 32
        queues.ready_count -= 1
        free_flit(network, flit)
    queues.packets -= 1
    if queues.packets == 0:
        node_row.ready = ready ^ (int64(1) << vc)
        if node_row.ready == 0:
            clear_bit(words, net.ready, node)
    net.waiting -= 1
    net.taken += 1
    return payload


@kernel
def net_next(network, cycle):
    """Return the first cycle after `cycle` whose step may change anything, NEVER if the network is idle."""
    words, net = network.words, network.net
    for index in range(net.node_masks):
        if words[net.sources + index] | words[net.ejecting + index] != 0:
            return cycle + 1
    for index in range(net.router_masks):
        if words[net.active + index] != 0:
            return cycle + 1
    if net.flying + net.credits == 0:
        return NEVER
    now = cycle + 1
    while words[net.wheel + (now & (net.slots - 1))] == NIL:
        slot = (now & (net.credit_slots - 1)) * net.credit_words
        if words[net.credit_wheel + slot] != 0:
            break
        now += 1
    return now


@kernel
def _enter_router(network, entrance, flit):
    """Let a flit arrive at an input of a router."""
    words, net = network.words, network.net
    vcs = net.vcs
    ports = net.ports
    router = entrance // ports
    vc = (FLIT(words, net.pool, flit).word >> VC_SHIFT) & 63
    bit = (entrance - router * ports) * vcs + vc
    input_vc = INPUT_VC(words, net.input_vcs, entrance * vcs + vc)
    set_next(network, flit, NIL)
    tail = input_vc.tail
    input_vc.tail = flit
    input_vc.count += 1
    if tail != NIL:
        set_next(network, tail, flit)
        return
    input_vc.head = flit
    set_bit(words, net.active, router)
    if input_vc.state == VC_IDLE:
        start_packet(network, router, bit)
    elif input_vc.state == VC_ACTIVE:
        set_bit(words, net.switch_masks + router * net.mask_words, bit)


@kernel
def _enter_node(network, node, flit):
    """Let a flit arrive at a node: append it to the ejection queue of its VC."""
    words, net = network.words, network.net
    vc = (FLIT(words, net.pool, flit).word >> VC_SHIFT) & 63
    queues = NODE_QUEUES(words, net.node_queues, node * net.vcs + vc)
    set_next(network, flit, NIL)
    if queues.head == NIL:
        queues.head = flit
        NODE(words, net.node_table, node).ejecting |= int64(1) << vc
        set_bit(words, net.ejecting, node)
    else:
        set_next(network, queues.tail, flit)
    queues.tail = flit


@kernel
def _arrive(network, cycle):
    """Let the flits and credits arrive that reach the other end of their link in this cycle."""
    words, net = network.words, network.net
    slot = net.wheel + (cycle & (net.slots - 1))
    flit = words[slot]
    words[slot] = NIL
    inputs = net.routers * net.ports
    while flit != NIL:
        word = FLIT(words, net.pool, flit).next
        net.flying -= 1
        target = word & LOW
        if target < inputs:
            _enter_router(network, target, flit)
        else:
            _enter_node(network, target - inputs, flit)
        flit = word >> 32
    slot = net.credit_wheel + (cycle & (net.credit_slots - 1)) * net.credit_words
    count = words[slot]
    if count != 0:
        words[slot] = 0
        net.credits -= count
        for index in range(1, count + 1):
            output_vc = OUTPUT_VC(words, net.output_vcs, words[slot + index])
            output_vc.count -= 1
            if output_vc.count == 0 and output_vc.owner == OWNER_TAIL:
                output_vc.owner = OWNER_FREE


@kernel
def _eject(network, node, cycle):
    """Move a flit per VC to the boundary of a node, and return one credit."""
    words, net = network.words, network.net
    node_row = NODE(words, net.node_table, node)
    ring = net.ejected + node * net.ejected_words
    size = net.ejected_words * 8
    waiting = node_row.ejecting
    while waiting != 0:
        vc = trailing_zeros(waiting)
        waiting ^= int64(1) << vc
        queues = NODE_QUEUES(words, net.node_queues, node * net.vcs + vc)
        if queues.ready_count >= net.boundary:
            continue
        flit = queues.head
        flit_row = FLIT(words, net.pool, flit)
        queues.head = flit_row.next >> 32
        if queues.head == NIL:
            node_row.ejecting &= ~(int64(1) << vc)
        flit_row.next = NIL << 32
        if queues.ready_count == 0:
            queues.ready_head = flit
        else:
            set_next(network, queues.ready_tail, flit)
        queues.ready_tail = flit
        queues.ready_count += 1
        index = (node_row.credit_head + node_row.credit_count) % size
        node_row.credit_count += 1
        shift = (index & 7) * 8
        words[ring + (index >> 3)] = (words[ring + (index >> 3)] & ~(255 << shift)) | (vc << shift)
        if flit_row.word & TAIL_BIT != 0:
            queues.packets += 1
            node_row.ready |= int64(1) << vc
            net.waiting += 1
            net.latency += cycle - flit_row.born
            set_bit(words, net.ready, node)
    if node_row.credit_count > 0:
        index = node_row.credit_head
        vc = (words[ring + (index >> 3)] >> ((index & 7) * 8)) & 63
        node_row.credit_head = (index + 1) % size
        node_row.credit_count -= 1
        output = node_row.output
        put_credit(network, output * net.vcs + vc, cycle + credit_latency(network, output))
    if node_row.credit_count == 0 and node_row.ejecting == 0:
        clear_bit(words, net.ejecting, node)


@kernel
def _pick_vc(network, node, first, last, link):
    """Return the VC for a new packet of a node: the next one in rotation that is free and not full, or -1. If
    the node's last packet used a VC outside first..last, only VC `first` is tried."""
    words, net = network.words, network.net
    newest = NODE(words, net.node_table, node).vc
    count = last - first + 1
    ovs = net.output_vcs + link * net.vcs * OUTPUT_VC.num_words
    for index in range(1, count + 1):
        vc = first + (newest - first + index) % count if first <= newest <= last else first
        output_vc = OUTPUT_VC(words, ovs, vc)
        if output_vc.owner == OWNER_FREE and output_vc.count < net.buffer:
            return vc
    return -1


@kernel
def _send(network, node, cycle):
    """Send the first flit of a node's source queue into the network, if a VC has room for it."""
    words, net = network.words, network.net
    node_row = NODE(words, net.node_table, node)
    link = net.routers * net.ports + node
    flit = node_row.head
    flit_row = FLIT(words, net.pool, flit)
    word = flit_row.word
    ovs = net.output_vcs + link * net.vcs * OUTPUT_VC.num_words
    if node_row.sending == 0:
        kind = (word >> KIND_SHIFT) & 3
        vc = _pick_vc(network, node, net.first_vc[kind], net.last_vc[kind], link)
        if vc < 0:
            return
        node_row.vc = vc
        OUTPUT_VC(words, ovs, vc).owner = OWNER_PACKET
    else:
        vc = node_row.vc
        if OUTPUT_VC(words, ovs, vc).count >= net.buffer:
            return
    node_row.sending = 1
    if word & TAIL_BIT != 0:
        node_row.sending = 0
        OUTPUT_VC(words, ovs, vc).owner = OWNER_TAIL if net.wait_tail == 1 else OWNER_FREE
    OUTPUT_VC(words, ovs, vc).count += 1
    flit_row.word = word | (vc << VC_SHIFT)
    node_row.head = flit_row.next >> 32
    node_row.count -= 1
    if node_row.count == 0:
        clear_bit(words, net.sources, node)
    put_on_link(network, link, flit, cycle)


@kernel
def _turn_routers(network, cycle):
    """Run the router cycles of a network cycle: one, or as many as the internal speedup gives."""
    words, net = network.words, network.net
    speedup = net.speedup
    unit = net.speedup_unit
    turns = 1 if speedup == unit else (cycle + 1) * speedup // unit - cycle * speedup // unit
    for turn in range(turns):
        for index in range(net.router_masks):
            active = words[net.active + index]
            while active != 0:
                low = trailing_zeros(active)
                active ^= int64(1) << low
                router = (index << 6) + low
                if not router_cycle(network, router, cycle, turns - 1 - turn):
                    clear_bit(words, net.active, router)


@kernel
def net_step(network, cycle):
    """Run one cycle of the network; cycles must rise, and those before `net_next` may be left out."""
    words, net = network.words, network.net
    _arrive(network, cycle)
    for index in range(net.node_masks):
        nodes = words[net.ejecting + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _eject(network, (index << 6) + low, cycle)
        nodes = words[net.sources + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _send(network, (index << 6) + low, cycle)
    _turn_routers(network, cycle)
