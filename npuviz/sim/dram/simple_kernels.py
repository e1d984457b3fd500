"""Simple DRAM: per channel a first-in first-out queue with a constant latency, one request a cycle.

Header at word `dram`: D_LATENCY, D_PERIOD, D_CHANNELS, then CHANNEL_WORDS words per channel.
Because the delay is constant and order is kept, the cycle in which a request leaves is known when
it arrives: nothing has to be ticked. A detailed model keeps queues here and is ticked instead.
"""

from npuviz.sim.parts.bits_kernels import inlined

D_LATENCY = 0  # DRAM cycles from arrival to the earliest departure
D_PERIOD = 1  # picoseconds
D_CHANNELS = 2
D_EDGE = 3  # picoseconds: the DRAM cycle that follows the newest arrival
D_FIRST = 4  # earliest departure of a request that arrives before that edge
D_FIRST_REPLY = 5  # consumer cycle that sees it, and by how many picoseconds it is later
D_FIRST_REST = 6
D_CONSUMER = 7  # picoseconds of the clock that takes responses (the network's)
D_QUOTIENT = 8  # DRAM period in consumer cycles, and the rest in picoseconds
D_REMAINDER = 9
D_HEADER = 10

CH_LAST = 0  # DRAM cycle of the newest departure
CH_READS = 1
CH_WRITES = 2
CH_REPLY = 3  # consumer cycle that sees the newest departure, and by how many picoseconds it is later
CH_REST = 4
CHANNEL_WORDS = 5


@inlined
def dram_first_cycle(s, dram, time_ps):
    """Earliest DRAM cycle in which a request that arrives at `time_ps` may leave an empty channel.

    The DRAM's cycle at the very same time has passed already (clock order CORE, DRAM, NOC).
    """
    return time_ps // s[dram + D_PERIOD] + 1 + s[dram + D_LATENCY]


@inlined
def dram_arrive(s, dram, time_ps):
    """Tell that requests arrive at `time_ps`, before any `dram_accept` of them.

    Keeps what all requests between two DRAM cycles have in common, so that divisions are rare.
    """
    period = s[dram + D_PERIOD]
    edge = s[dram + D_EDGE]
    if time_ps >= edge or time_ps < edge - period:
        first = dram_first_cycle(s, dram, time_ps)
        consumer = s[dram + D_CONSUMER]
        reply = (first * period + consumer - 1) // consumer
        s[dram + D_EDGE] = (first - s[dram + D_LATENCY]) * period
        s[dram + D_FIRST] = first
        s[dram + D_FIRST_REPLY] = reply
        s[dram + D_FIRST_REST] = reply * consumer - first * period


@inlined
def dram_accept(s, dram, channel, is_write):
    """Take a request that arrives now; returns the consumer cycle from which its response can be taken."""
    ch = dram + D_HEADER + channel * CHANNEL_WORDS
    leave = s[ch + CH_LAST] + 1
    if leave <= s[dram + D_FIRST]:
        leave = s[dram + D_FIRST]
        reply = s[dram + D_FIRST_REPLY]
        rest = s[dram + D_FIRST_REST]
    else:
        # One DRAM period after the departure before it.
        reply = s[ch + CH_REPLY] + s[dram + D_QUOTIENT]
        rest = s[ch + CH_REST] - s[dram + D_REMAINDER]
        if rest < 0:
            reply += 1
            rest += s[dram + D_CONSUMER]
    s[ch + CH_LAST] = leave
    s[ch + CH_REPLY] = reply
    s[ch + CH_REST] = rest
    if is_write:
        s[ch + CH_WRITES] += 1
    else:
        s[ch + CH_READS] += 1
    return reply
