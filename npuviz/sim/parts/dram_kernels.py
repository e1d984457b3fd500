"""Simple DRAM: per channel a first-in first-out queue with a constant latency, one request a cycle.

Header at word `dram`: D_LATENCY, D_PERIOD, D_CHANNELS, then CHANNEL_WORDS words per channel.
Because the delay is constant and order is kept, the cycle in which a request leaves is known when
it arrives: nothing has to be ticked. A detailed model keeps queues here and is ticked instead.
"""

from npuviz.sim.parts.bits_kernels import inlined

D_LATENCY = 0  # DRAM cycles from arrival to the earliest departure
D_PERIOD = 1  # picoseconds
D_CHANNELS = 2
D_HEADER = 4

CH_LAST = 0  # DRAM cycle of the newest departure
CH_READS = 1
CH_WRITES = 2
CHANNEL_WORDS = 4


@inlined
def dram_first_cycle(s, dram, time_ps):
    """Earliest DRAM cycle in which a request that arrives at `time_ps` may leave an empty channel.

    The DRAM's cycle at the very same time has passed already (clock order CORE, DRAM, NOC).
    """
    return time_ps // s[dram + D_PERIOD] + 1 + s[dram + D_LATENCY]


@inlined
def dram_accept(s, dram, channel, first_cycle, is_write):
    """Take a request; returns the DRAM cycle in which it leaves the channel."""
    ch = dram + D_HEADER + channel * CHANNEL_WORDS
    leave = s[ch + CH_LAST] + 1
    if leave < first_cycle:
        leave = first_cycle
    s[ch + CH_LAST] = leave
    if is_write:
        s[ch + CH_WRITES] += 1
    else:
        s[ch + CH_READS] += 1
    return leave
