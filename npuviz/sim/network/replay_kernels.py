"""A flit-level network fed with a list of packets: what tests and measurements run."""

from numba import int64

from npuviz.sim.network.flit_kernels import net_can_inject, net_inject, net_next, net_step, net_take
from npuviz.sim.network.records_kernels import NET
from npuviz.sim.parts.bits_kernels import entry, pointer_to

PACKET_WORDS = 5
PACKET_TIME = 0  # earliest cycle
PACKET_SOURCE = 1
PACKET_DESTINATION = 2
PACKET_KIND = 3
PACKET_NEXT = 4  # next packet of the same source, -1 for none


@entry
def replay(state, at, packets, heads, first, until, period, delivered, skips):
    """Run network cycles from `first` to before `until`; returns (packets delivered, steps made).

    state      (words,) int64           changed  with a network at word `at`
    packets    (count * PACKET_WORDS,)  read     payloads are their numbers
    heads      (nodes,) int64           changed  next packet of each source, -1 for none
    period     int                               node n takes packets in every period-th cycle (+ 7 n)
    delivered  (count * 3,) int64       changed  cycle, node, packet of each packet that was taken
    skips      int                               1: leave out cycles as `net_next` allows
    """
    s = pointer_to(state)
    net = NET(s, at)
    taken = 0
    steps = 0
    due = int64(first)
    for cycle in range(first, until):
        for node in range(net.nodes):
            packet = heads[node]
            if packet >= 0 and packets[packet * PACKET_WORDS + PACKET_TIME] <= cycle:
                kind = packets[packet * PACKET_WORDS + PACKET_KIND]
                if net_can_inject(s, net, node, kind):
                    target = packets[packet * PACKET_WORDS + PACKET_DESTINATION]
                    net_inject(s, net, node, target, kind, packet, int64(cycle))
                    heads[node] = packets[packet * PACKET_WORDS + PACKET_NEXT]
                    due = int64(cycle)
            if (cycle + 7 * node) % period == 0:
                payload = net_take(s, net, node)
                if payload >= 0:
                    delivered[taken * 3] = cycle
                    delivered[taken * 3 + 1] = node
                    delivered[taken * 3 + 2] = payload
                    taken += 1
                    due = int64(cycle)
        if skips == 0 or due <= cycle:
            net_step(s, net, int64(cycle))
            steps += 1
            due = net_next(s, net, int64(cycle))
    return taken, steps
