"""Simulate DRAM by a simple model: a first-in first-out queue per channel with a constant latency.

Its words are a header at the owner's word `dram`, then a row per channel.
Because the latency is constant and order is kept, the cycle in which a request leaves is known when
it arrives: no tick has to be simulated. The command-level model keeps queues and is ticked instead.
"""

from npuviz.sim.parts.bits_kernels import inlined
from npuviz.sim.parts.record_kernels import Record

SIMPLE_DRAM = Record(
    "simple DRAM",
    latency="DRAM cycles from arrival to the earliest departure",
    period="picoseconds of a cycle",
    channels="channels",
    edge="picoseconds: the DRAM cycle that follows the newest arrival",
    first="earliest departure of a request that arrives before that edge",
    first_reply="consumer cycle that sees it",
    first_rest="by how many picoseconds that is later",
    consumer="picoseconds of the clock that takes responses (the network's)",
    quotient="DRAM period in consumer cycles",
    remainder="the rest in picoseconds",
    origin="picoseconds: time of cycle 0, as the present period counts back to it",
)

SIMPLE_CHANNEL = Record(
    "channel of the simple DRAM",
    last="DRAM cycle of the newest departure",
    reads="reads",
    writes="writes",
    reply="consumer cycle that sees the newest departure",
    rest="by how many picoseconds that is later",
)


@inlined
def dram_first_cycle(dram, time_ps):
    """Return the earliest DRAM cycle in which a request that arrives at `time_ps` may leave an empty channel.

    A DRAM cycle at exactly that time has passed already (clock order CORE, DRAM, NOC).
    """
    return (time_ps - dram.origin) // dram.period + 1 + dram.latency


@inlined
def dram_arrive(dram, time_ps):
    """Prepare for requests that arrive at `time_ps`; call it before `dram_accept` of any of them.

    Computes what all requests between two DRAM cycles have in common, so that divisions are rare.
    """
    period = dram.period
    edge = dram.edge
    if time_ps >= edge or time_ps < edge - period:
        first = dram_first_cycle(dram, time_ps)
        consumer = dram.consumer
        leave = dram.origin + first * period
        reply = (leave + consumer - 1) // consumer
        dram.edge = leave - dram.latency * period
        dram.first = first
        dram.first_reply = reply
        dram.first_rest = reply * consumer - leave


@inlined
def dram_accept(dram, channel, is_write):
    """Take a request that arrives now; return the consumer cycle from which its response can be taken."""
    channel_row = SIMPLE_CHANNEL(dram, SIMPLE_DRAM.num_words, channel)
    leave = channel_row.last + 1
    if leave <= dram.first:
        leave = dram.first
        reply = dram.first_reply
        rest = dram.first_rest
    else:
        # One DRAM period after the departure before it.
        reply = channel_row.reply + dram.quotient
        rest = channel_row.rest - dram.remainder
        if rest < 0:
            reply += 1
            rest += dram.consumer
    channel_row.last = leave
    channel_row.reply = reply
    channel_row.rest = rest
    if is_write:
        channel_row.writes += 1
    else:
        channel_row.reads += 1
    return reply
