"""Move flits over the links of a flit-level network one way and credits the other, each due in a known cycle.

What is on a link lies in a wheel of slots, one for each coming cycle: nothing is moved from stage to stage.
A link takes one flit a cycle; with internal speedup, further flits wait behind the newest one.
"""

from npuviz.sim.network.records_kernels import EPOCH_SHIFT, FLIT, LINK, NIL
from npuviz.sim.parts.bits_kernels import inlined, kernel


@inlined
def take_flit(network):
    """Take a flit from the pool; the caller must have checked that one is free."""
    net = network.net
    flit = net.free
    if flit != NIL:
        net.free = FLIT(network.words, net.pool, flit).next >> 32
    else:
        flit = net.fresh
        net.fresh = flit + 1
    net.live += 1
    return flit


@inlined
def free_flit(network, flit):
    """Return a flit to the pool."""
    net = network.net
    FLIT(network.words, net.pool, flit).next = net.free << 32
    net.free = flit
    net.live -= 1


@inlined
def set_next(network, flit, following):
    """Set the flit after another one in its list."""
    FLIT(network.words, network.net.pool, flit).next = following << 32


@kernel
def put_on_link(network, link, flit, leaves):
    """Put a flit on a link in a cycle: it arrives `latency + 1` cycles later."""
    words, net = network.words, network.net
    link_row = LINK(words, net.links, link)
    slot = net.wheel + ((leaves + link_row.latency + 1) & (net.slots - 1))
    FLIT(words, net.pool, flit).next = (words[slot] << 32) | link_row.to
    words[slot] = flit
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
def send_flit(network, output, flit, cycle, left):
    """Let a flit cross the switch and leave by an output of a router.

    It crosses in the router's next cycle: in the same network cycle if `left` > 0, else in the next.
    """
    words, net = network.words, network.net
    leaves = cycle if left > 0 else cycle + 1
    newest = net.departure + output
    if leaves <= words[newest]:
        leaves = words[newest] + 1
    words[newest] = leaves
    put_on_link(network, output, flit, leaves)
    net.hops += 1


@kernel
def put_credit(network, target, arrives):
    """Send a credit for an output VC, which arrives in a cycle."""
    words, net = network.words, network.net
    slot = net.credit_wheel + (arrives & (net.credit_slots - 1)) * net.credit_words
    count = words[slot]
    words[slot + 1 + count] = target
    words[slot] = count + 1
    net.credits += 1


@inlined
def credit_latency(network, link):
    """Return the cycles from sending a credit back over a link until it counts."""
    net = network.net
    latency = LINK(network.words, net.links, link).latency + 1
    if link < net.routers * net.ports:
        latency += net.credit_delay
    return latency


@kernel
def send_credit(network, entrance, vc, cycle, left):
    """Send back a credit for the buffer place of a flit that has left input `entrance`.

    A link takes the credits of one router cycle per network cycle; those of further router cycles wait.
    """
    words, net = network.words, network.net
    leaves = cycle
    if net.speedup != net.speedup_unit:
        newest = net.credit_last + 2 * entrance
        stamp = (cycle << 16) | left
        if words[newest + 1] == stamp:
            leaves = words[newest]
        elif leaves <= words[newest]:
            leaves = words[newest] + 1
        words[newest] = leaves
        words[newest + 1] = stamp
    link = words[net.back + entrance]
    put_credit(network, link * net.vcs + vc, leaves + credit_latency(network, link))
