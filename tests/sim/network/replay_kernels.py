"""A flit-level network fed with a list of packets."""

from numba import int64

from npuviz.sim.network.flit_kernels import net_can_inject, net_inject, net_next, net_step, net_take
from npuviz.sim.network.records_kernels import network_at
from npuviz.sim.parts.bits_kernels import entry, pointer_to
from npuviz.sim.parts.record_kernels import Record

PACKET = Record(
    "packet to be sent",
    time="earliest cycle",
    source="node that sends it",
    destination="node that takes it",
    kind="a kind of the network",
    next="next packet of the same source, -1: none",
    taken="cycle in which it was taken, -1: it was not",
    taker="node that took it",
)


@entry
def replay(state, first, packets, heads, cycles):
    """Run cycles of the network whose header is at word `first`; returns (packets taken, steps made).

    state    (words,) int64                     changed
    packets  (count * PACKET.num_words,) int64  changed  payloads are their numbers
    heads    (nodes,) int64                     changed  next packet of each source, -1 for none
    cycles   begin, end (exclusive); node n takes a packet in every third-th of them (+ 7 n); 1: leave out
             cycles as `net_next` allows
    """
    words = pointer_to(state)
    rows = pointer_to(packets)
    network = network_at(words, first)
    begin, end, period, skips = cycles
    taken = 0
    steps = 0
    due = int64(begin)
    for cycle in range(begin, end):
        for node in range(network.net.nodes):
            number = heads[node]
            if number >= 0 and PACKET(rows, 0, number).time <= cycle:
                packet = PACKET(rows, 0, number)
                if net_can_inject(network, node, packet.kind):
                    net_inject(network, node, (packet.destination, packet.kind, number), int64(cycle))
                    heads[node] = packet.next
                    due = int64(cycle)
            if (cycle + 7 * node) % period == 0:
                number = net_take(network, node)
                if number >= 0:
                    packet = PACKET(rows, 0, number)
                    packet.taken, packet.taker = cycle, node
                    taken += 1
                    due = int64(cycle)
        if skips == 0 or due <= cycle:
            net_step(network, int64(cycle))
            steps += 1
            due = net_next(network, int64(cycle))
    return taken, steps
