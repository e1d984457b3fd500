"""Rings of words: the buffers of a router's ports and the input queues behind its ramp.

A ring that has been empty begins again at its first entry: most hold a word at a time, and keep to one line.
One that a port's sender fills in the cycle in which it becomes empty does not: which of both comes first in a
cycle decides nothing, nor where its words lie.
"""

from typing import Any, NamedTuple

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.sim.parts.record_kernels import word_of
from npuviz.targets.wavelet.kernels.faults import FAULT_ROOM
from npuviz.targets.wavelet.kernels.program_records import LAYOUT
from npuviz.targets.wavelet.kernels.records import (
    CHANNEL,
    ENTRY,
    QUEUE,
    STALLED_OUTPUT,
    THREAD,
)
from npuviz.targets.wavelet.kernels.time.events import fault, step_from


class Word(NamedTuple):
    """A word on its way."""

    payload: Any
    """With its marks."""
    identity: Any
    ready: Any
    """Cycle from which it may go on."""


@inlined
def entry_of(channel, port, place):
    """A word in a port's ring."""
    before = 4 * channel.slots if port == 0 else (port - 1) * channel.slots
    return ENTRY(channel, CHANNEL.num_words, before + place)


@inlined
def head_of(channel, port):
    """The word at the head of a port's ring."""
    return entry_of(channel, port, channel.ports[port].head)


@inlined
def ring_size(channel, port):
    """Entries of a port's ring."""
    return channel.limit_ramp if port == 0 else channel.slots


@inlined
def opposite(port):
    """The port on the other end of a link: NORTH and SOUTH, EAST and WEST."""
    return ((port + 1) & 3) + 1


@kernel
def visible_count(channel, port, t):
    """Words that a sender sees in a port's ring at cycle `t`: one taken in this cycle still counts."""
    ring = channel.ports[port]
    count = ring.count
    return count + 1 if ring.last == t else count


@inlined
def is_full(channel, port):
    """Whether a port's ring has no room for another word, not even in the next cycle."""
    limit = channel.limit_ramp if port == 0 else channel.limit
    return channel.ports[port].count >= limit


@inlined
def room_for(channel, port, t):
    """Words that a port's ring takes at cycle `t`."""
    limit = channel.limit_ramp if port == 0 else channel.limit
    return limit - visible_count(channel, port, t)


@inlined
def has_room(channel, port, t):
    """Whether a port's ring takes another word at cycle `t`."""
    return room_for(channel, port, t) > 0


@inlined
def push_word(wafer, pe, channel, port, word):
    """Put a word into a port's ring of a channel of a block; the caller has checked the room.

    An operation that packs two elements into a word may have one word more than was looked for: a fault.
    """
    ring = channel.ports[port]
    size = ring_size(channel, port)
    if ring.count >= size:
        fault(wafer, pe.node, FAULT_ROOM, channel.color)
        return
    if ring.count == 0 and ring.last < wafer.now:
        ring.head = 0
    place = ring.head + ring.count
    if place >= size:
        place -= size
    entry = entry_of(channel, port, place)
    entry.payload, entry.identity, entry.ready = word
    ring.count += 1
    place = trailing_zeros(channel.bit)
    if channel.held == 0 or pe.due[place] > word.ready:
        pe.due[place] = word.ready
    channel.held |= 1 << port
    pe.channels |= channel.bit


@inlined
def drop_head(machine, pe, channel, port, t):
    """Take the head of a port's ring away at cycle `t`."""
    ring = channel.ports[port]
    head = ring.head + 1
    count = ring.count - 1
    ring.head = head if head < ring_size(channel, port) else 0
    ring.count = count
    ring.last = t
    if count == 0:
        channel.held &= ~(1 << port)
        if channel.held == 0:
            pe.channels &= ~channel.bit
    if port == 0 and pe.stalled >> STALLED_OUTPUT:
        _let_writers_go_on(machine.program, pe, word_of(machine.wafer, channel), t)


@kernel
def _let_writers_go_on(program, pe, ch, t):
    """Threads that waited for room in the output of a channel see it in the next cycle."""
    mask = pe.stalled >> STALLED_OUTPUT
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        thread = THREAD(pe, LAYOUT(program, pe.layout).threads, k)
        if thread.record == ch:
            pe.stalled &= ~(1 << (k + STALLED_OUTPUT))
            if pe.next[k] <= t:
                step_from(pe, k, t + 1)


@inlined
def routes_now(channel):
    """Receive mask | transmit mask << 8 of the position in force."""
    return channel.positions[channel.position]


@kernel
def push_queue(pe, queue, payload, identity, ready):
    """Put a word into an input queue of a block; the caller has checked the room."""
    place = queue.head + queue.count
    if place >= queue.limit:
        place -= queue.limit
    entry = ENTRY(queue, QUEUE.ring, place)
    entry.payload = payload
    entry.identity = identity
    entry.ready = ready
    count = queue.count + 1
    queue.count = count
    if count > queue.peak:
        queue.peak = count
    reader = queue.thread
    if reader >= 0 and (pe.stalled >> reader) & 1:
        pe.stalled &= ~(1 << reader)
        if pe.next[reader] < ready:
            step_from(pe, reader, ready)


@inlined
def head_entry(queue):
    """The word at the head of an input queue."""
    return ENTRY(queue, QUEUE.ring, queue.head)


@inlined
def entry_behind(queue, count):
    """The word so many places behind the head of an input queue, which has fewer than its length."""
    place = queue.head + count
    return ENTRY(queue, QUEUE.ring, place - queue.limit if place >= queue.limit else place)


@inlined
def drop_queue_head(queue):
    """Take the head of an input queue away."""
    head = queue.head + 1
    count = queue.count - 1
    queue.head = head if count > 0 and head < queue.limit else 0
    queue.count = count


@inlined
def queue_has_room(queue, t):
    """Whether an input queue takes another word at cycle `t`."""
    count = queue.count
    if queue.last == t:
        count += 1
    return count < queue.room
