"""A flit-level network: nodes that send and take packets, and routers between them.

One call of `net_step` is one network cycle, after the exchange at the nodes of the same cycle
(Ref: systolic.md section 9). Cycles up to `net_next` may be left out: nothing happens in them.
Positions and tables are those of flit_state_kernels; npuviz.sim.network.flit_network writes them.
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
    FLIT_BORN,
    FLIT_NEXT,
    FLIT_PAYLOAD,
    FLIT_WORD,
    FLIT_WORDS,
    HEAD_BIT,
    IV_COUNT,
    IV_HEAD,
    IV_STATE,
    IV_TAIL,
    IV_WORDS,
    KIND_SHIFT,
    LOW,
    NET_ACTIVE,
    NET_BOUNDARY,
    NET_BUFFER,
    NET_CAPACITY,
    NET_CREDIT_SLOTS,
    NET_CREDIT_WHEEL,
    NET_CREDIT_WORDS,
    NET_CREDITS,
    NET_EJECTED,
    NET_EJECTED_WORDS,
    NET_EJECTING,
    NET_FIRST_VC,
    NET_FLYING,
    NET_INJECTED,
    NET_IV,
    NET_LAST_VC,
    NET_LATENCY,
    NET_LIVE,
    NET_MASK_WORDS,
    NET_NODE_MASKS,
    NET_NODE_TABLE,
    NET_NODE_VC,
    NET_OV,
    NET_POOL,
    NET_PORTS,
    NET_READY,
    NET_ROUTER_MASKS,
    NET_ROUTERS,
    NET_SIZES,
    NET_SLOTS,
    NET_SOURCE_LIMIT,
    NET_SOURCES,
    NET_SPEEDUP,
    NET_SPEEDUP_UNIT,
    NET_SWITCH_MASKS,
    NET_TAKEN,
    NET_VCS,
    NET_WAIT_TAIL,
    NET_WAITING,
    NET_WHEEL,
    NEVER,
    NIL,
    NODE_COUNT,
    NODE_CREDIT_COUNT,
    NODE_CREDIT_HEAD,
    NODE_EJECTING,
    NODE_HEAD,
    NODE_OUTPUT,
    NODE_READY,
    NODE_SENDING,
    NODE_TAIL,
    NODE_VC,
    NODE_WORDS,
    NV_HEAD,
    NV_PACKETS,
    NV_READY_COUNT,
    NV_READY_HEAD,
    NV_READY_TAIL,
    NV_TAIL,
    NV_WORDS,
    OV_COUNT,
    OV_OWNER,
    OV_WORDS,
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
    at = s[net + NET_NODE_TABLE] + node * NODE_WORDS
    return s[at + NODE_COUNT] + s[net + NET_SIZES + kind] <= s[net + NET_SOURCE_LIMIT]


@inlined
def net_room(s, net):
    """Flits of the pool that are free."""
    return s[net + NET_CAPACITY] - s[net + NET_LIVE]


@kernel
def net_inject(s, net, node, destination, kind, payload, cycle):
    """Put a packet into the source queue of a node in a cycle (before its `net_step`).

    The caller has asked `net_can_inject`, and made sure that the pool has room.
    """
    at = s[net + NET_NODE_TABLE] + node * NODE_WORDS
    size = s[net + NET_SIZES + kind]
    for index in range(size):
        flit = take_flit(s, net)
        place = s[net + NET_POOL] + flit * FLIT_WORDS
        word = destination | (kind << KIND_SHIFT) | (node << SOURCE_SHIFT)
        if index == 0:
            word |= HEAD_BIT
        if index == size - 1:
            word |= TAIL_BIT
        s[place + FLIT_NEXT] = NIL << 32
        s[place + FLIT_PAYLOAD] = payload
        s[place + FLIT_WORD] = word
        s[place + FLIT_BORN] = cycle
        if s[at + NODE_COUNT] == 0:
            s[at + NODE_HEAD] = flit
        else:
            set_next(s, net, s[at + NODE_TAIL], flit)
        s[at + NODE_TAIL] = flit
        s[at + NODE_COUNT] += 1
    s[net + NET_INJECTED] += 1
    set_bit(s, s[net + NET_SOURCES], node)


@inlined
def net_peek(s, net, node):
    """Payload of the packet that `net_take` would take at a node, -1 if none waits."""
    ready = s[s[net + NET_NODE_TABLE] + node * NODE_WORDS + NODE_READY]
    if ready == 0:
        return -1
    nv = s[net + NET_NODE_VC] + (node * s[net + NET_VCS] + trailing_zeros(ready)) * NV_WORDS
    return s[s[net + NET_POOL] + s[nv + NV_READY_HEAD] * FLIT_WORDS + FLIT_PAYLOAD]


@kernel
def net_take(s, net, node):
    """Take the waiting packet of the lowest VC of a node; returns its payload, -1 if none waits."""
    at = s[net + NET_NODE_TABLE] + node * NODE_WORDS
    ready = s[at + NODE_READY]
    if ready == 0:
        return -1
    vc = trailing_zeros(ready)
    nv = s[net + NET_NODE_VC] + (node * s[net + NET_VCS] + vc) * NV_WORDS
    payload = -1
    word = 0
    while word & TAIL_BIT == 0:
        flit = s[nv + NV_READY_HEAD]
        place = s[net + NET_POOL] + flit * FLIT_WORDS
        word = s[place + FLIT_WORD]
        payload = s[place + FLIT_PAYLOAD]
        s[nv + NV_READY_HEAD] = s[place + FLIT_NEXT] >> 32
        s[nv + NV_READY_COUNT] -= 1
        free_flit(s, net, flit)
    s[nv + NV_PACKETS] -= 1
    if s[nv + NV_PACKETS] == 0:
        s[at + NODE_READY] = ready ^ (int64(1) << vc)
        if s[at + NODE_READY] == 0:
            clear_bit(s, s[net + NET_READY], node)
    s[net + NET_WAITING] -= 1
    s[net + NET_TAKEN] += 1
    return payload


@kernel
def net_is_idle(s, net):
    """Whether no flit and no credit is under way (packets may wait at nodes to be taken)."""
    if s[net + NET_FLYING] + s[net + NET_CREDITS] != 0:
        return False
    for index in range(s[net + NET_NODE_MASKS]):
        if s[s[net + NET_SOURCES] + index] | s[s[net + NET_EJECTING] + index] != 0:
            return False
    busy = 0
    for index in range(s[net + NET_ROUTER_MASKS]):
        busy |= s[s[net + NET_ACTIVE] + index]
    return busy == 0


@kernel
def net_next(s, net, cycle):
    """First cycle after `cycle` whose step may change anything, NEVER if the network is idle."""
    for index in range(s[net + NET_NODE_MASKS]):
        if s[s[net + NET_SOURCES] + index] | s[s[net + NET_EJECTING] + index] != 0:
            return cycle + 1
    for index in range(s[net + NET_ROUTER_MASKS]):
        if s[s[net + NET_ACTIVE] + index] != 0:
            return cycle + 1
    if s[net + NET_FLYING] + s[net + NET_CREDITS] == 0:
        return NEVER
    now = cycle + 1
    while s[s[net + NET_WHEEL] + (now & (s[net + NET_SLOTS] - 1))] == NIL:
        slot = (now & (s[net + NET_CREDIT_SLOTS] - 1)) * s[net + NET_CREDIT_WORDS]
        if s[s[net + NET_CREDIT_WHEEL] + slot] != 0:
            break
        now += 1
    return now


@kernel
def _enter_router(s, net, entrance, flit):
    """A flit arrives at an input of a router."""
    vcs = s[net + NET_VCS]
    ports = s[net + NET_PORTS]
    router = entrance // ports
    vc = (s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_WORD] >> VC_SHIFT) & 63
    bit = (entrance - router * ports) * vcs + vc
    iv = s[net + NET_IV] + (entrance * vcs + vc) * IV_WORDS
    set_next(s, net, flit, NIL)
    tail = s[iv + IV_TAIL]
    s[iv + IV_TAIL] = flit
    s[iv + IV_COUNT] += 1
    if tail != NIL:
        set_next(s, net, tail, flit)
        return
    s[iv + IV_HEAD] = flit
    set_bit(s, s[net + NET_ACTIVE], router)
    if s[iv + IV_STATE] == VC_IDLE:
        start_packet(s, net, router, bit)
    elif s[iv + IV_STATE] == VC_ACTIVE:
        set_bit(s, s[net + NET_SWITCH_MASKS] + router * s[net + NET_MASK_WORDS], bit)


@kernel
def _enter_node(s, net, node, flit):
    """A flit arrives at a node: it joins the ejection queue of its VC."""
    vc = (s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_WORD] >> VC_SHIFT) & 63
    nv = s[net + NET_NODE_VC] + (node * s[net + NET_VCS] + vc) * NV_WORDS
    set_next(s, net, flit, NIL)
    if s[nv + NV_HEAD] == NIL:
        s[nv + NV_HEAD] = flit
        s[s[net + NET_NODE_TABLE] + node * NODE_WORDS + NODE_EJECTING] |= int64(1) << vc
        set_bit(s, s[net + NET_EJECTING], node)
    else:
        set_next(s, net, s[nv + NV_TAIL], flit)
    s[nv + NV_TAIL] = flit


@kernel
def _arrive(s, net, cycle):
    """Flits and credits that reach the other end of their link in a cycle."""
    slot = s[net + NET_WHEEL] + (cycle & (s[net + NET_SLOTS] - 1))
    flit = s[slot]
    s[slot] = NIL
    inputs = s[net + NET_ROUTERS] * s[net + NET_PORTS]
    while flit != NIL:
        word = s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_NEXT]
        s[net + NET_FLYING] -= 1
        target = word & LOW
        if target < inputs:
            _enter_router(s, net, target, flit)
        else:
            _enter_node(s, net, target - inputs, flit)
        flit = word >> 32
    slot = s[net + NET_CREDIT_WHEEL] + (cycle & (s[net + NET_CREDIT_SLOTS] - 1)) * s[net + NET_CREDIT_WORDS]
    count = s[slot]
    if count != 0:
        s[slot] = 0
        s[net + NET_CREDITS] -= count
        for index in range(1, count + 1):
            ov = s[net + NET_OV] + s[slot + index] * OV_WORDS
            s[ov + OV_COUNT] -= 1
            if s[ov + OV_COUNT] == 0 and s[ov + OV_OWNER] == OWNER_TAIL:
                s[ov + OV_OWNER] = OWNER_FREE


@kernel
def _eject(s, net, node, cycle):
    """Move a flit per VC to the boundary of a node, and give one place back."""
    at = s[net + NET_NODE_TABLE] + node * NODE_WORDS
    ring = s[net + NET_EJECTED] + node * s[net + NET_EJECTED_WORDS]
    size = s[net + NET_EJECTED_WORDS] * 8
    waiting = s[at + NODE_EJECTING]
    while waiting != 0:
        vc = trailing_zeros(waiting)
        waiting ^= int64(1) << vc
        nv = s[net + NET_NODE_VC] + (node * s[net + NET_VCS] + vc) * NV_WORDS
        if s[nv + NV_READY_COUNT] >= s[net + NET_BOUNDARY]:
            continue
        flit = s[nv + NV_HEAD]
        place = s[net + NET_POOL] + flit * FLIT_WORDS
        s[nv + NV_HEAD] = s[place + FLIT_NEXT] >> 32
        if s[nv + NV_HEAD] == NIL:
            s[at + NODE_EJECTING] &= ~(int64(1) << vc)
        s[place + FLIT_NEXT] = NIL << 32
        if s[nv + NV_READY_COUNT] == 0:
            s[nv + NV_READY_HEAD] = flit
        else:
            set_next(s, net, s[nv + NV_READY_TAIL], flit)
        s[nv + NV_READY_TAIL] = flit
        s[nv + NV_READY_COUNT] += 1
        index = (s[at + NODE_CREDIT_HEAD] + s[at + NODE_CREDIT_COUNT]) % size
        s[at + NODE_CREDIT_COUNT] += 1
        shift = (index & 7) * 8
        s[ring + (index >> 3)] = (s[ring + (index >> 3)] & ~(255 << shift)) | (vc << shift)
        if s[place + FLIT_WORD] & TAIL_BIT != 0:
            s[nv + NV_PACKETS] += 1
            s[at + NODE_READY] |= int64(1) << vc
            s[net + NET_WAITING] += 1
            s[net + NET_LATENCY] += cycle - s[place + FLIT_BORN]
            set_bit(s, s[net + NET_READY], node)
    if s[at + NODE_CREDIT_COUNT] > 0:
        index = s[at + NODE_CREDIT_HEAD]
        vc = (s[ring + (index >> 3)] >> ((index & 7) * 8)) & 63
        s[at + NODE_CREDIT_HEAD] = (index + 1) % size
        s[at + NODE_CREDIT_COUNT] -= 1
        output = s[at + NODE_OUTPUT]
        put_credit(s, net, output * s[net + NET_VCS] + vc, cycle + credit_latency(s, net, output))
    if s[at + NODE_CREDIT_COUNT] == 0 and s[at + NODE_EJECTING] == 0:
        clear_bit(s, s[net + NET_EJECTING], node)


@kernel
def _pick_vc(s, net, node, first, last, link):
    """The VC a new packet of a node takes: the next in rotation that is free and not full, or -1."""
    newest = s[s[net + NET_NODE_TABLE] + node * NODE_WORDS + NODE_VC]
    count = last - first + 1
    ovs = s[net + NET_OV] + link * s[net + NET_VCS] * OV_WORDS
    for index in range(1, count + 1):
        vc = first + (newest - first + index) % count if first <= newest <= last else first
        at = ovs + vc * OV_WORDS
        if s[at + OV_OWNER] == OWNER_FREE and s[at + OV_COUNT] < s[net + NET_BUFFER]:
            return vc
    return -1


@kernel
def _send(s, net, node, cycle):
    """Let the head of a node's source queue enter the network, if a VC has room for it."""
    at = s[net + NET_NODE_TABLE] + node * NODE_WORDS
    link = s[net + NET_ROUTERS] * s[net + NET_PORTS] + node
    flit = s[at + NODE_HEAD]
    place = s[net + NET_POOL] + flit * FLIT_WORDS
    word = s[place + FLIT_WORD]
    ovs = s[net + NET_OV] + link * s[net + NET_VCS] * OV_WORDS
    if s[at + NODE_SENDING] == 0:
        kind = (word >> KIND_SHIFT) & 3
        vc = _pick_vc(s, net, node, s[net + NET_FIRST_VC + kind], s[net + NET_LAST_VC + kind], link)
        if vc < 0:
            return
        s[at + NODE_VC] = vc
        s[ovs + vc * OV_WORDS + OV_OWNER] = OWNER_PACKET
    else:
        vc = s[at + NODE_VC]
        if s[ovs + vc * OV_WORDS + OV_COUNT] >= s[net + NET_BUFFER]:
            return
    s[at + NODE_SENDING] = 1
    if word & TAIL_BIT != 0:
        s[at + NODE_SENDING] = 0
        s[ovs + vc * OV_WORDS + OV_OWNER] = OWNER_TAIL if s[net + NET_WAIT_TAIL] == 1 else OWNER_FREE
    s[ovs + vc * OV_WORDS + OV_COUNT] += 1
    s[place + FLIT_WORD] = word | (vc << VC_SHIFT)
    s[at + NODE_HEAD] = s[place + FLIT_NEXT] >> 32
    s[at + NODE_COUNT] -= 1
    if s[at + NODE_COUNT] == 0:
        clear_bit(s, s[net + NET_SOURCES], node)
    put_on_link(s, net, link, flit, cycle)


@kernel
def _turn_routers(s, net, cycle):
    """The routers' cycles of a network cycle: one, or as many as the internal speedup gives."""
    speedup = s[net + NET_SPEEDUP]
    unit = s[net + NET_SPEEDUP_UNIT]
    turns = 1 if speedup == unit else (cycle + 1) * speedup // unit - cycle * speedup // unit
    for turn in range(turns):
        for index in range(s[net + NET_ROUTER_MASKS]):
            active = s[s[net + NET_ACTIVE] + index]
            while active != 0:
                low = trailing_zeros(active)
                active ^= int64(1) << low
                router = (index << 6) + low
                if not router_cycle(s, net, router, cycle, turns - 1 - turn):
                    clear_bit(s, s[net + NET_ACTIVE], router)


@kernel
def net_step(s, net, cycle):
    """One cycle of the network; cycles rise, and those before `net_next` may be left out."""
    _arrive(s, net, cycle)
    for index in range(s[net + NET_NODE_MASKS]):
        nodes = s[s[net + NET_EJECTING] + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _eject(s, net, (index << 6) + low, cycle)
        nodes = s[s[net + NET_SOURCES] + index]
        while nodes != 0:
            low = trailing_zeros(nodes)
            nodes ^= int64(1) << low
            _send(s, net, (index << 6) + low, cycle)
    _turn_routers(s, net, cycle)
