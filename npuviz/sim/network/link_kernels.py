"""Links of a flit-level network: flits one way, credits the other, each due in a known cycle.

What is on a link lies in a wheel of slots, one per cycle to come: nothing is moved from stage to stage.
A link takes a flit a cycle; a router cycle beyond that (internal speedup) waits behind the newest one.
"""

from npuviz.sim.network.records_kernels import EPOCH_SHIFT, FLIT, LINK, NIL
from npuviz.sim.parts.bits_kernels import inlined, kernel


@inlined
def take_flit(s, net):
    """A flit of the pool; the owner of the state has made sure that one is free."""
    flit = net.free
    if flit != NIL:
        net.free = FLIT(s, net.pool, flit).next >> 32
    else:
        flit = net.fresh
        net.fresh = flit + 1
    net.live += 1
    return flit


@inlined
def free_flit(s, net, flit):
    """Return a flit to the pool."""
    FLIT(s, net.pool, flit).next = net.free << 32
    net.free = flit
    net.live -= 1


@inlined
def set_next(s, net, flit, following):
    """Chain a flit."""
    FLIT(s, net.pool, flit).next = following << 32


@kernel
def put_on_link(s, net, link, flit, leaves):
    """A flit leaves over a link in a cycle: it arrives `latency + 1` cycles later."""
    link_row = LINK(s, net.links, link)
    slot = net.wheel + ((leaves + link_row.latency + 1) & (net.slots - 1))
    FLIT(s, net.pool, flit).next = (s[slot] << 32) | link_row.to
    s[slot] = flit
    net.flying += 1
    link_row.flits += 1
    recent = link_row.recent
    epoch = leaves >> EPOCH_SHIFT
    behind = epoch - (recent >> 32)
    if behind == 0:
        link_row.recent = recent + 1
    else:
        before = (recent & 0xFFFF) << 16 if behind == 1 else 0
        link_row.recent = (epoch << 32) | before | 1


@kernel
def send_flit(s, net, output, flit, cycle, left):
    """Let a flit cross the switch and leave by an output of a router.

    It crosses in the router's next cycle: in the same network cycle if `left` > 0, else in the next.
    """
    leaves = cycle if left > 0 else cycle + 1
    newest = net.departure + output
    if leaves <= s[newest]:
        leaves = s[newest] + 1
    s[newest] = leaves
    put_on_link(s, net, output, flit, leaves)
    net.hops += 1


@kernel
def put_credit(s, net, target, arrives):
    """A credit for an output VC is on its way."""
    slot = net.credit_wheel + (arrives & (net.credit_slots - 1)) * net.credit_words
    count = s[slot]
    s[slot + 1 + count] = target
    s[slot] = count + 1
    net.credits += 1


@inlined
def credit_latency(s, net, link):
    """Cycles from sending a credit back over a link until it counts."""
    latency = LINK(s, net.links, link).latency + 1
    if link < net.routers * net.ports:
        latency += net.credit_delay
    return latency


@kernel
def send_credit(s, net, entrance, vc, cycle, left):
    """Give the place of a flit that has left input `entrance` back.

    A link takes the credits of one router cycle at a time; those of more than one a cycle wait.
    """
    leaves = cycle
    if net.speedup != net.speedup_unit:
        newest = net.credit_last + 2 * entrance
        stamp = (cycle << 16) | left
        if s[newest + 1] == stamp:
            leaves = s[newest]
        elif leaves <= s[newest]:
            leaves = s[newest] + 1
        s[newest] = leaves
        s[newest + 1] = stamp
    link = s[net.back + entrance]
    put_credit(s, net, link * net.vcs + vc, leaves + credit_latency(s, net, link))
