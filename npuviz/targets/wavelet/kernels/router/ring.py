"""Keep words in rings: the buffers of a router's ports and the input queues behind its ramp.

A ring that has been empty starts again at its first entry: most rings hold one word at a time, and so stay on
one cache line. A ring that its sender fills in the very cycle in which it becomes empty does not start again:
the order of both within the cycle must not decide where words lie.
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
    """A word under way."""

    payload: Any
    """The 32 bits with their marks."""
    identity: Any
    ready: Any
    """First cycle at which the word may leave the ring."""


@inlined
def entry_of(channel, port, place):
    """Return a word in a port's ring."""
    before = 4 * channel.slots if port == 0 else (port - 1) * channel.slots
    return ENTRY(channel, CHANNEL.num_words, before + place)


@inlined
def head_of(channel, port):
    """Return the word at the head of a port's ring."""
    return entry_of(channel, port, channel.ports[port].head)


@inlined
def ring_size(channel, port):
    """Return entries of a port's ring."""
    return channel.limit_ramp if port == 0 else channel.slots


@inlined
def opposite(port):
    """Return the port on the other end of a link: NORTH and SOUTH, EAST and WEST."""
    return ((port + 1) & 3) + 1


@kernel
def visible_count(channel, port, t):
    """Return how many words a sender sees in a port's ring at cycle `t`: one taken in this cycle still
    counts."""
    ring = channel.ports[port]
    count = ring.count
    return count + 1 if ring.last == t else count


@inlined
def is_full(channel, port):
    """Return whether a port's ring has no room for another word, not even in the next cycle."""
    limit = channel.limit_ramp if port == 0 else channel.limit
    return channel.ports[port].count >= limit


@inlined
def room_for(channel, port, t):
    """Return how many words a port's ring takes at cycle `t`."""
    limit = channel.limit_ramp if port == 0 else channel.limit
    return limit - visible_count(channel, port, t)


@inlined
def has_room(channel, port, t):
    """Return whether a port's ring takes another word at cycle `t`."""
    return room_for(channel, port, t) > 0


@inlined
def push_word(wafer, pe, channel, port, word):
    """Put a word into a port's ring of a channel of a block; the caller has checked the room.

    A step that packs two elements into a word may need room for one word more than was checked: a fault.
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
    """Remove the head of a port's ring at cycle `t`."""
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
    """Let threads that waited for room in the output of a channel continue in the next cycle."""
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
    """Return receive mask | transmit mask << 8 of the present switch position."""
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
    """Return the word at the head of an input queue."""
    return ENTRY(queue, QUEUE.ring, queue.head)


@inlined
def entry_behind(queue, count):
    """Return the word `count` places behind the head of an input queue, less than the queue's length."""
    place = queue.head + count
    return ENTRY(queue, QUEUE.ring, place - queue.limit if place >= queue.limit else place)


@inlined
def drop_queue_head(queue):
    """Remove the head of an input queue."""
    head = queue.head + 1
    count = queue.count - 1
    queue.head = head if count > 0 and head < queue.limit else 0
    queue.count = count


@inlined
def queue_has_room(queue, t):
    """Return whether an input queue takes another word at cycle `t`."""
    count = queue.count
    if queue.last == t:
        count += 1
    return count < queue.room
