"""Rings of words: the buffers of a router's ports and the input queues behind its ramp.

A ring that has been empty begins again at its first entry: most hold a word at a time, and keep to one line.
One that a port's sender fills in the cycle in which it becomes empty does not: which of both comes first in a
cycle decides nothing, nor where its words lie.
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel, trailing_zeros
from npuviz.targets.wavelet.kernels.program_records import (
    L_THREADS,
)
from npuviz.targets.wavelet.kernels.records import (
    B_CHANNELS,
    B_CLASS,
    B_DUE,
    B_NEXT,
    B_STALLED,
    C_BIT,
    C_HELD,
    C_LIMIT,
    C_LIMIT_RAMP,
    C_PORTS,
    C_POSITION,
    C_POSITIONS,
    C_SLOTS,
    CHANNEL_HEADER,
    ENTRY_WORDS,
    H_NOW,
    PORT_WORDS,
    Q_COUNT,
    Q_HEAD,
    Q_LAST,
    Q_LIMIT,
    Q_PEAK,
    Q_RING,
    Q_THREAD,
    R_COUNT,
    R_HEAD,
    R_LAST,
    STALLED_OUTPUT,
    T_RECORD,
    THREAD_WORDS,
)
from npuviz.targets.wavelet.kernels.time.events import step_from


@inlined
def ring_of(s, ch, port):
    """Word of a port's first entry."""
    if port == 0:
        return ch + CHANNEL_HEADER + 4 * s[ch + C_SLOTS] * ENTRY_WORDS
    return ch + CHANNEL_HEADER + (port - 1) * s[ch + C_SLOTS] * ENTRY_WORDS


@inlined
def ring_size(s, ch, port):
    """Entries of a port's ring."""
    return s[ch + C_LIMIT_RAMP] if port == 0 else s[ch + C_SLOTS]


@inlined
def opposite(port):
    """The port on the other end of a link: NORTH and SOUTH, EAST and WEST."""
    return ((port + 1) & 3) + 1


@kernel
def visible_count(s, ch, port, t):
    """Words that a sender sees in a port's ring at cycle `t`: one taken in this cycle still counts."""
    r = ch + C_PORTS + port * PORT_WORDS
    count = s[r + R_COUNT]
    return count + 1 if s[r + R_LAST] == t else count


@inlined
def is_full(s, ch, port):
    """Whether a port's ring has no room for another word, not even in the next cycle."""
    limit = s[ch + C_LIMIT_RAMP] if port == 0 else s[ch + C_LIMIT]
    return s[ch + C_PORTS + port * PORT_WORDS + R_COUNT] >= limit


@inlined
def has_room(s, ch, port, t):
    """Whether a port's ring takes another word at cycle `t`."""
    limit = s[ch + C_LIMIT_RAMP] if port == 0 else s[ch + C_LIMIT]
    return visible_count(s, ch, port, t) < limit


@inlined
def push_word(s, b, ch, port, payload, identity, ready):
    """Put a word into a port's ring of a channel of block `b`; the caller has checked the room."""
    r = ch + C_PORTS + port * PORT_WORDS
    size = ring_size(s, ch, port)
    if s[r + R_COUNT] == 0 and s[r + R_LAST] < s[H_NOW]:
        s[r + R_HEAD] = 0
    place = s[r + R_HEAD] + s[r + R_COUNT]
    if place >= size:
        place -= size
    at = ring_of(s, ch, port) + place * ENTRY_WORDS
    s[at] = payload
    s[at + 1] = identity
    s[at + 2] = ready
    s[r + R_COUNT] += 1
    due = b + B_DUE + trailing_zeros(s[ch + C_BIT])
    if s[ch + C_HELD] == 0 or s[due] > ready:
        s[due] = ready
    s[ch + C_HELD] |= 1 << port
    s[b + B_CHANNELS] |= s[ch + C_BIT]


@inlined
def drop_head(s, p, b, ch, port, t):
    """Take the head of a port's ring away at cycle `t`."""
    r = ch + C_PORTS + port * PORT_WORDS
    head = s[r + R_HEAD] + 1
    count = s[r + R_COUNT] - 1
    s[r + R_HEAD] = head if head < ring_size(s, ch, port) else 0
    s[r + R_COUNT] = count
    s[r + R_LAST] = t
    if count == 0:
        s[ch + C_HELD] &= ~(1 << port)
        if s[ch + C_HELD] == 0:
            s[b + B_CHANNELS] &= ~s[ch + C_BIT]
    if port == 0 and s[b + B_STALLED] >> STALLED_OUTPUT:
        _let_writers_go_on(s, p, b, ch, t)


@kernel
def _let_writers_go_on(s, p, b, ch, t):
    """Threads that waited for room in the output of a channel see it in the next cycle."""
    mask = s[b + B_STALLED] >> STALLED_OUTPUT
    while mask:
        k = trailing_zeros(mask)
        mask &= mask - 1
        th = b + p[s[b + B_CLASS] + L_THREADS] + k * THREAD_WORDS
        if s[th + T_RECORD] == ch:
            s[b + B_STALLED] &= ~(1 << (k + STALLED_OUTPUT))
            if s[b + B_NEXT + k] <= t:
                step_from(s, b, k, t + 1)


@inlined
def routes_now(s, ch):
    """Receive mask | transmit mask << 8 of the position in force."""
    return s[ch + C_POSITIONS + s[ch + C_POSITION]]


@kernel
def push_queue(s, b, q, payload, identity, ready):
    """Put a word into an input queue of block `b`; the caller has checked the room."""
    place = s[q + Q_HEAD] + s[q + Q_COUNT]
    if place >= s[q + Q_LIMIT]:
        place -= s[q + Q_LIMIT]
    at = q + Q_RING + place * ENTRY_WORDS
    s[at] = payload
    s[at + 1] = identity
    s[at + 2] = ready
    count = s[q + Q_COUNT] + 1
    s[q + Q_COUNT] = count
    if count > s[q + Q_PEAK]:
        s[q + Q_PEAK] = count
    reader = s[q + Q_THREAD]
    if reader >= 0 and (s[b + B_STALLED] >> reader) & 1:
        s[b + B_STALLED] &= ~(1 << reader)
        if s[b + B_NEXT + reader] < ready:
            step_from(s, b, reader, ready)


@inlined
def head_entry(s, q):
    """Word of the head entry of an input queue."""
    return q + Q_RING + s[q + Q_HEAD] * ENTRY_WORDS


@inlined
def drop_queue_head(s, q):
    """Take the head of an input queue away."""
    head = s[q + Q_HEAD] + 1
    count = s[q + Q_COUNT] - 1
    s[q + Q_HEAD] = head if count > 0 and head < s[q + Q_LIMIT] else 0
    s[q + Q_COUNT] = count


@inlined
def queue_has_room(s, q, t):
    """Whether an input queue takes another word at cycle `t`."""
    count = s[q + Q_COUNT]
    if s[q + Q_LAST] == t:
        count += 1
    return count < s[q + Q_LIMIT]
