"""Runs a list of requests through command-level DRAM by itself."""

from npuviz.sim.dram.command_kernels import dram_can_accept, dram_cycle, dram_offer, dram_take
from npuviz.sim.dram.queue_kernels import request_of
from npuviz.sim.dram.records_kernels import NEVER, NIL, WRITE_FLAG, dram_at
from npuviz.sim.parts.bits_kernels import entry, pointer_to


@entry
def replay(state, first, requests, responses, last_tick):
    """Offer requests in order, each when its tick has come and its channel takes it.

    state      (words,) int64  changed  with the DRAM's header at word `first`, and node `i` for request i
    requests   (n * 4,) int64  read     4 each: earliest tick, channel, byte address inside it,
                                       1 for a write; ticks not falling
    responses  (n,) int64      changed  tick in which each responded
    Returns the number of responses when all are there or `last_tick` is reached.
    """
    count = len(responses)
    words, wanted, found = pointer_to(state), pointer_to(requests), pointer_to(responses)
    dram = dram_at(words, first)
    device = dram.device
    sent = 0
    done = 0
    tick = 0
    while done < count and tick <= last_tick:
        # Requests that arrive before this tick; a full front list holds up those behind it.
        while sent < count and wanted[sent * 4] <= tick:
            channel = wanted[sent * 4 + 1]
            if not dram_can_accept(dram, channel):
                break
            request_of(dram, sent).link = WRITE_FLAG | sent if wanted[sent * 4 + 3] == 1 else sent
            dram_offer(dram, channel, sent, wanted[sent * 4 + 2], tick)
            sent += 1
        if device.next == tick:
            dram_cycle(dram, tick)
            for channel in range(device.channels):
                node = dram_take(dram, channel)
                while node != NIL:
                    found[node] = request_of(dram, node).time
                    done += 1
                    node = dram_take(dram, channel)
        following = device.next
        if sent < count:
            # A request that is held up gets in one tick after another.
            arrival = wanted[sent * 4]
            if arrival <= tick:
                arrival = tick + 1
            if arrival < following:
                following = arrival
        if following >= NEVER - 1:
            break
        tick = following
    return done
