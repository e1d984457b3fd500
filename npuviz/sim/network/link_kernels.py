"""Links of a flit-level network: flits one way, credits the other, each due in a known cycle.

What is on a link lies in a wheel of slots, one per cycle to come: nothing is moved from stage to stage.
A link takes a flit a cycle; a router cycle beyond that (internal speedup) waits behind the newest one.
"""

from npuviz.sim.network.records_kernels import (
    EPOCH_SHIFT,
    FLIT_NEXT,
    FLIT_WORDS,
    LINK_FLITS,
    LINK_LATENCY,
    LINK_RECENT,
    LINK_TO,
    LINK_WORDS,
    NET_BACK,
    NET_CREDIT_DELAY,
    NET_CREDIT_LAST,
    NET_CREDIT_SLOTS,
    NET_CREDIT_WHEEL,
    NET_CREDIT_WORDS,
    NET_CREDITS,
    NET_DEPARTURE,
    NET_FLYING,
    NET_FREE,
    NET_FRESH,
    NET_HOPS,
    NET_LINKS,
    NET_LIVE,
    NET_POOL,
    NET_PORTS,
    NET_ROUTERS,
    NET_SLOTS,
    NET_SPEEDUP,
    NET_SPEEDUP_UNIT,
    NET_VCS,
    NET_WHEEL,
    NIL,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel


@inlined
def take_flit(s, net):
    """A flit of the pool; the owner of the state has made sure that one is free."""
    flit = s[net + NET_FREE]
    if flit != NIL:
        s[net + NET_FREE] = s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_NEXT] >> 32
    else:
        flit = s[net + NET_FRESH]
        s[net + NET_FRESH] = flit + 1
    s[net + NET_LIVE] += 1
    return flit


@inlined
def free_flit(s, net, flit):
    """Return a flit to the pool."""
    s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_NEXT] = s[net + NET_FREE] << 32
    s[net + NET_FREE] = flit
    s[net + NET_LIVE] -= 1


@inlined
def set_next(s, net, flit, following):
    """Chain a flit."""
    s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_NEXT] = following << 32


@kernel
def put_on_link(s, net, link, flit, leaves):
    """A flit leaves over a link in a cycle: it arrives `latency + 1` cycles later."""
    at = s[net + NET_LINKS] + link * LINK_WORDS
    slot = s[net + NET_WHEEL] + ((leaves + s[at + LINK_LATENCY] + 1) & (s[net + NET_SLOTS] - 1))
    s[s[net + NET_POOL] + flit * FLIT_WORDS + FLIT_NEXT] = (s[slot] << 32) | s[at + LINK_TO]
    s[slot] = flit
    s[net + NET_FLYING] += 1
    s[at + LINK_FLITS] += 1
    recent = s[at + LINK_RECENT]
    epoch = leaves >> EPOCH_SHIFT
    behind = epoch - (recent >> 32)
    if behind == 0:
        s[at + LINK_RECENT] = recent + 1
    else:
        before = (recent & 0xFFFF) << 16 if behind == 1 else 0
        s[at + LINK_RECENT] = (epoch << 32) | before | 1


@kernel
def send_flit(s, net, output, flit, cycle, left):
    """Let a flit cross the switch and leave by an output of a router.

    It crosses in the router's next cycle: in the same network cycle if `left` > 0, else in the next.
    """
    leaves = cycle if left > 0 else cycle + 1
    newest = s[net + NET_DEPARTURE] + output
    if leaves <= s[newest]:
        leaves = s[newest] + 1
    s[newest] = leaves
    put_on_link(s, net, output, flit, leaves)
    s[net + NET_HOPS] += 1


@kernel
def put_credit(s, net, target, arrives):
    """A credit for an output VC is on its way."""
    slot = s[net + NET_CREDIT_WHEEL] + (arrives & (s[net + NET_CREDIT_SLOTS] - 1)) * s[net + NET_CREDIT_WORDS]
    count = s[slot]
    s[slot + 1 + count] = target
    s[slot] = count + 1
    s[net + NET_CREDITS] += 1


@inlined
def credit_latency(s, net, link):
    """Cycles from sending a credit back over a link until it counts."""
    latency = s[s[net + NET_LINKS] + link * LINK_WORDS + LINK_LATENCY] + 1
    if link < s[net + NET_ROUTERS] * s[net + NET_PORTS]:
        latency += s[net + NET_CREDIT_DELAY]
    return latency


@kernel
def send_credit(s, net, entrance, vc, cycle, left):
    """Give the place of a flit that has left input `entrance` back.

    A link takes the credits of one router cycle at a time; those of more than one a cycle wait.
    """
    leaves = cycle
    if s[net + NET_SPEEDUP] != s[net + NET_SPEEDUP_UNIT]:
        newest = s[net + NET_CREDIT_LAST] + 2 * entrance
        stamp = (cycle << 16) | left
        if s[newest + 1] == stamp:
            leaves = s[newest]
        elif leaves <= s[newest]:
            leaves = s[newest] + 1
        s[newest] = leaves
        s[newest + 1] = stamp
    link = s[s[net + NET_BACK] + entrance]
    put_credit(s, net, link * s[net + NET_VCS] + vc, leaves + credit_latency(s, net, link))
