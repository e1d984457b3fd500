"""Look up and record which thread let another one continue.

An *origin* is the cycle after the work << 28 | node << 4 | thread; 0: no thread, -1: not known.

Words and full buffers come from other nodes, which bands run side by side change in any order. Rows about
them are recorded with a note of what to look up, and are completed at the end of the cycle, when all nodes
are done.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import NOBODY, of_track, record_cause, record_row
from npuviz.targets.wavelet.kernels.program_records import LAYOUT, TRACKS
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    CHANNEL,
    HELD_SHIFT,
    MAIN,
    MARK_BUSY,
    QUEUE,
    SENT_WORDS,
    WAIT_INPUT,
    WAIT_OUTPUT,
)
from npuviz.targets.wavelet.kernels.router.ring import opposite, routes_now

KIND_WAIT = 130
"""First interval kind of waits: add the WAIT_ number."""
KIND_HOST = 140
KIND_LINK_BUSY, KIND_BUFFERS = 144, 145
MOST_HOPS = 32
"""Most full buffers, one behind the other, that are followed to their cause."""
NODE_MASK = (1 << 24) - 1
TYPE_SHIFT = 56
TRACK_MASK = (1 << 32) - 1
LATER_WORD, LATER_ROOM = 0x70, 0x71
"""Types of rows that are replaced at the end of their cycle: track, then identity and payload of a word, or
node and CHANNEL of a full buffer, and the cycle."""


@inlined
def origin(done, node, thread):
    """Return the origin for what a thread of a node did until before cycle `done`."""
    return (done << 28) | (node << 4) | thread


@inlined
def of_pe(pe, mark):
    """Return the origin for `mark`, a cycle << 4 | thread of a block; -1 if it is 0."""
    return origin(mark >> 4, pe.node, mark & 15) if mark else int64(-1)


@kernel
def origin_of_word(wafer, identity):
    """Return the origin of a word: the thread that sent it."""
    if identity >> 62:
        return wafer.host_by
    node = identity >> 32
    pe = BLOCK(wafer, wafer[wafer.nodes + node])
    number = identity & 0xFFFF_FFFF
    if pe.sequence - number > SENT_WORDS:
        return int64(-1)
    sent = pe.sent[number & (SENT_WORDS - 1)]
    return origin(sent >> 4, node, sent & 15)


@kernel
def track_of(program, node, thread):
    """Return the track of a thread of a node, -1 if it is not watched."""
    tracks = TRACKS(program, program.tracks, node)
    return tracks.main if thread == MAIN else tracks.thread[thread]


@kernel
def record_origin(machine, track, kind, t, by):
    """Record that a track can continue from `t` on because of an origin, if both are known and watched."""
    if track == -1 or by < 0:
        return
    if by == 0:
        record_cause(machine, track, kind, (t, t), int64(NOBODY))
        return
    source = track_of(machine.program, (by >> 4) & NODE_MASK, by & 15)
    done = by >> 28
    if source >= 0:
        record_cause(machine, track, kind, (done if done < t else t, t), int64(of_track(source)))


@kernel
def _record_origin_of_word(machine, track, word, t):
    """Record that a track can continue from `t` on because of a word: (payload with marks, identity)."""
    marks, identity = word
    by = origin_of_word(machine.wafer, identity)
    kind = KIND_WAIT + WAIT_INPUT
    if identity >> 62:
        kind = KIND_HOST
    elif by > 0 and 2 * (marks >> HELD_SHIFT) > t - (by >> 28):
        kind = KIND_LINK_BUSY if marks & MARK_BUSY else KIND_BUFFERS
    record_origin(machine, track, kind, t, by)


@kernel
def _origin_of_room(machine, pe, record, t):
    """Return the origin of room for a word on a CHANNEL: behind full buffers, the reader of a full queue.

    0 if no queue is full: links were busy. -1 if more than MOST_HOPS buffers are full.
    """
    wafer, program = machine.wafer, machine.program
    channel = CHANNEL(wafer, record)
    for hop in range(MOST_HOPS):
        outputs = (routes_now(channel) >> 8) & 0x1F
        if outputs & 1 and channel.queue >= 0:
            queue = QUEUE(pe, LAYOUT(program, pe.layout).queue[channel.queue])
            if queue.count >= queue.room - 1:
                reader = queue.thread if queue.thread >= 0 else int64(MAIN)
                done = queue.last + 1 if queue.last + 1 + hop < t else t - hop
                return origin(done, pe.node, reader)
        is_behind = False
        for port in range(1, 5):
            at = channel.ports[port].target
            if (outputs >> port) & 1 and at and pe.links[port].block:
                ring = CHANNEL(wafer, at).ports[opposite(port)]
                if ring.count >= CHANNEL(wafer, at).limit - 1:
                    is_behind = True
                    channel = CHANNEL(wafer, at)
                    pe = BLOCK(wafer, pe.links[port].block)
                    break
        if not is_behind:
            return int64(0)
    return int64(-1)


@inlined
def record_word(machine, track, word, t):
    """Note that a track can continue from `t` on because of a word: (payload with marks, identity)."""
    if track >= 0:
        record_row(machine, (LATER_WORD << TYPE_SHIFT) | track, word[1], word[0], t)


@inlined
def record_room(machine, pe, track, record, t):
    """Note that a track can continue from `t` on because a CHANNEL of its block has room."""
    if track >= 0:
        record_row(machine, (LATER_ROOM << TYPE_SHIFT) | track, pe.node, record, t)


@kernel
def look_up_origins(machine, first):
    """Replace the rows from `first` on that note what to look up by causes; drop those without a cause."""
    wafer, call, events = machine.wafer, machine.call, machine.events
    end = call.recorded
    if end > call.capacity:
        return
    call.recorded = first
    for row in range(first, end):
        base = 4 * row
        what, second, third, fourth = events[base], events[base + 1], events[base + 2], events[base + 3]
        kind = what >> TYPE_SHIFT
        if kind == LATER_WORD:
            _record_origin_of_word(machine, what & TRACK_MASK, (third, second), fourth)
        elif kind == LATER_ROOM:
            pe = BLOCK(wafer, wafer[wafer.nodes + second])
            by = _origin_of_room(machine, pe, third, fourth)
            record_origin(machine, what & TRACK_MASK, KIND_WAIT + WAIT_OUTPUT, fourth, by)
        else:
            record_row(machine, what, second, third, fourth)
