"""A flit-level network: nodes that send and take packets, and routers between them.

One call of `net_step` is one network cycle, after the exchange at the nodes of the same cycle
(Ref: systolic.md section 9). Cycles up to `net_next` may be left out: nothing happens in them.
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
def net_can_inject(s, net, node, kind):
    """Whether the source queue of a node has room for a packet of a kind."""
    node_row = NODE(s, net.node_table, node)
    return node_row.count + net.sizes[kind] <= net.source_limit


@inlined
def net_room(net):
    """Flits of the pool that are free."""
    return net.capacity - net.live


@kernel
def net_inject(s, net, node, destination, kind, payload, cycle):
    """Put a packet into the source queue of a node in a cycle (before its `net_step`).

    The caller has asked `net_can_inject`, and made sure that the pool has room.
    """
    node_row = NODE(s, net.node_table, node)
    size = net.sizes[kind]
    for index in range(size):
        flit = take_flit(s, net)
        flit_row = FLIT(s, net.pool, flit)
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
            set_next(s, net, node_row.tail, flit)
        node_row.tail = flit
        node_row.count += 1
    net.injected += 1
    set_bit(s, net.sources, node)


@kernel
def net_take(s, net, node):
    """Take the waiting packet of the lowest VC of a node; returns its payload, -1 if none waits."""
    node_row = NODE(s, net.node_table, node)
    ready = node_row.ready
    if ready == 0:
        return -1
    vc = trailing_zeros(ready)
    queues = NODE_QUEUES(s, net.node_queues, node * net.vcs + vc)
    payload = -1
    word = 0
    while word & TAIL_BIT == 0:
        flit = queues.ready_head
        flit_row = FLIT(s, net.pool, flit)
        word = flit_row.word
        payload = flit_row.payload
        queues.ready_head = flit_row.next >> 32
        queues.ready_count -= 1
        free_flit(s, net, flit)
    queues.packets -= 1
    if queues.packets == 0:
        node_row.ready = ready ^ (int64(1) << vc)
        if node_row.ready == 0:
            clear_bit(s, net.ready, node)
    net.waiting -= 1
    net.taken += 1
    return payload


@kernel
def net_next(s, net, cycle):
    """First cycle after `cycle` whose step may change anything, NEVER if the network is idle."""
    for index in range(net.node_masks):
        if s[net.sources + index] | s[net.ejecting + index] != 0:
            return cycle + 1
    for index in range(net.router_masks):
        if s[net.active + index] != 0:
            return cycle + 1
    if net.flying + net.credits == 0:
        return NEVER
    now = cycle + 1
    while s[net.wheel + (now & (net.slots - 1))] == NIL:
        slot = (now & (net.credit_slots - 1)) * net.credit_words
        if s[net.credit_wheel + slot] != 0:
            break
        now += 1
    return now


@kernel
def _enter_router(s, net, entrance, flit):
    """A flit arrives at an input of a router."""
    vcs = net.vcs
    ports = net.ports
    router = entrance // ports
    vc = (FLIT(s, net.pool, flit).word >> VC_SHIFT) & 63
    bit = (entrance - router * ports) * vcs + vc
    input_vc = INPUT_VC(s, net.input_vcs, entrance * vcs + vc)
    set_next(s, net, flit, NIL)
    tail = input_vc.tail
    input_vc.tail = flit
    input_vc.count += 1
    if tail != NIL:
        set_next(s, net, tail, flit)
        return
    input_vc.head = flit
    set_bit(s, net.active, router)
    if input_vc.state == VC_IDLE:
        start_packet(s, net, router, bit)
    elif input_vc.state == VC_ACTIVE:
        set_bit(s, net.switch_masks + router * net.mask_words, bit)


@kernel
def _enter_node(s, net, node, flit):
    """A flit arrives at a node: it joins the ejection queue of its VC."""
    vc = (FLIT(s, net.pool, flit).word >> VC_SHIFT) & 63
    queues = NODE_QUEUES(s, net.node_queues, node * net.vcs + vc)
    set_next(s, net, flit, NIL)
    if queues.head == NIL:
        queues.head = flit
        NODE(s, net.node_table, node).ejecting |= int64(1) << vc
        set_bit(s, net.ejecting, node)
    else:
        set_next(s, net, queues.tail, flit)
    queues.tail = flit


@kernel
def _arrive(s, net, cycle):
    """Flits and credits that reach the other end of their link in a cycle."""
    slot = net.wheel + (cycle & (net.slots - 1))
    flit = s[slot]
    s[slot] = NIL
    inputs = net.routers * net.ports
    while flit != NIL:
        word = FLIT(s, net.pool, flit).next
        net.flying -= 1
        target = word & LOW
        if target < inputs:
            _enter_router(s, net, target, flit)
        else:
            _enter_node(s, net, target - inputs, flit)
        flit = word >> 32
    slot = net.credit_wheel + (cycle & (net.credit_slots - 1)) * net.credit_words
    count = s[slot]
    if count != 0:
        s[slot] = 0
        net.credits -= count
        for index in range(1, count + 1):
            output_vc = OUTPUT_VC(s, net.output_vcs, s[slot + index])
            output_vc.count -= 1
            if output_vc.count == 0 and output_vc.owner == OWNER_TAIL:
                output_vc.owner = OWNER_FREE


@kernel
def _eject(s, net, node, cycle):
    """Move a flit per VC to the boundary of a node, and give one place back."""
    node_row = NODE(s, net.node_table, node)
    ring = net.ejected + node * net.ejected_words
    size = net.ejected_words * 8
    waiting = node_row.ejecting
    while waiting != 0:
        vc = trailing_zeros(waiting)
        waiting ^= int64(1) << vc
        queues = NODE_QUEUES(s, net.node_queues, node * net.vcs + vc)
        if queues.ready_count >= net.boundary:
            continue
        flit = queues.head
        flit_row = FLIT(s, net.pool, flit)
        queues.head = flit_row.next >> 32
        if queues.head == NIL:
            node_row.ejecting &= ~(int64(1) << vc)
        flit_row.next = NIL << 32
        if queues.ready_count == 0:
            queues.ready_head = flit
        else:
            set_next(s, net, queues.ready_tail, flit)
        queues.ready_tail = flit
        queues.ready_count += 1
        index = (node_row.credit_head + node_row.credit_count) % size
        node_row.credit_count += 1
        shift = (index & 7) * 8
        s[ring + (index >> 3)] = (s[ring + (index >> 3)] & ~(255 << shift)) | (vc << shift)
        if flit_row.word & TAIL_BIT != 0:
            queues.packets += 1
            node_row.ready |= int64(1) << vc
            net.waiting += 1
            net.latency += cycle - flit_row.born
            set_bit(s, net.ready, node)
    if node_row.credit_count > 0:
        index = node_row.credit_head
        vc = (s[ring + (index >> 3)] >> ((index & 7) * 8)) & 63
        node_row.credit_head = (index + 1) % size
        node_row.credit_count -= 1
        output = node_row.output
        put_credit(s, net, output * net.vcs + vc, cycle + credit_latency(s, net, output))
    if node_row.credit_count == 0 and node_row.ejecting == 0:
        clear_bit(s, net.ejecting, node)


@kernel
def _pick_vc(s, net, node, first, last, link):
    """The VC a new packet of a node takes: the next in rotation that is free and not full, or -1."""
    newest = NODE(s, net.node_table, node).vc
    count = last - first + 1
    ovs = net.output_vcs + link * net.vcs * OUTPUT_VC.num_words
    for index in range(1, count + 1):
        vc = first + (newest - first + index) % count if first <= newest <= last else first
        output_vc = OUTPUT_VC(s, ovs, vc)
        if output_vc.owner == OWNER_FREE and output_vc.count < net.buffer:
            return vc
    return -1


@kernel
def _send(s, net, node, cycle):
    """Let the head of a node's source queue enter the network, if a VC has room for it."""
    node_row = NODE(s, net.node_table, node)
    link = net.routers * net.ports + node
    flit = node_row.head
    flit_row = FLIT(s, net.pool, flit)
    word = flit_row.word
    ovs = net.output_vcs + link * net.vcs * OUTPUT_VC.num_words
    if node_row.sending == 0:
        kind = (word >> KIND_SHIFT) & 3
        vc = _pick_vc(s, net, node, net.first_vc[kind], net.last_vc[kind], link)
        if vc < 0:
            return
        node_row.vc = vc
        OUTPUT_VC(s, ovs, vc).owner = OWNER_PACKET
    else:
        vc = node_row.vc
        if OUTPUT_VC(s, ovs, vc).count >= net.buffer:
            return
    node_row.sending = 1
    if word & TAIL_BIT != 0:
        node_row.sending = 0
        OUTPUT_VC(s, ovs, vc).owner = OWNER_TAIL if net.wait_tail == 1 else OWNER_FREE
    OUTPUT_VC(s, ovs, vc).count += 1
    flit_row.word = word | (vc << VC_SHIFT)
    node_row.head = flit_row.next >> 32
    node_row.count -= 1
    if node_row.count == 0:
        clear_bit(s, net.sources, node)
    put_on_link(s, net, link, flit, cycle)


@kernel
def _turn_routers(s, net, cycle):
    """The routers' cycles of a network cycle: one, or as many as the internal speedup gives."""
    speedup = net.speedup
    unit = net.speedup_unit
    turns = 1 if speedup == unit else (cycle + 1) * speedup // unit - cycle * speedup // unit
    for turn in range(turns):
        for index in range(net.router_masks):
            active = s[net.active + index]
            while active != 0:
                low = trailing_zeros(active)
                active ^= int64(1) << low
                router = (index << 6) + low
                if not router_cycle(s, net, router, cycle, turns - 1 - turn):
                    clear_bit(s, net.active, router)


@kernel
def net_step(s, net, cycle):
    """One cycle of the network; cycles rise, and those before `net_next` may be left out."""
    _arrive(s, net, cycle)
    for index in range(net.node_masks):
        nodes = s[net.ejecting + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _eject(s, net, (index << 6) + low, cycle)
        nodes = s[net.sources + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _send(s, net, (index << 6) + low, cycle)
    _turn_routers(s, net, cycle)
