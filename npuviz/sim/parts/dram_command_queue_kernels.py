"""Lists of requests inside a command-level DRAM channel: front, buffers by bank, pending, finished.

Per bank and buffer the oldest request for the open row and the oldest for another one are known, so
that choosing looks at banks, never at requests.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel, fetch
from npuviz.sim.parts.dram_command_state_kernels import (
    BANK_ROW,
    BANK_WORDS,
    CC_BANKS,
    CC_DONE_HEAD,
    CC_DONE_TAIL,
    CC_FORWARDED,
    CC_FRONT_COUNT,
    CC_FRONT_HEAD,
    CC_FRONT_TAIL,
    CC_HELD,
    CC_HITS,
    CC_OTHERS,
    CC_PEAK,
    CC_PENDING_HEAD,
    CC_PENDING_LAST,
    CC_PENDING_TAIL,
    CC_QUEUES,
    CC_SEEN,
    DC_BANK_BITS,
    DC_DEPTH,
    DC_FIELDS,
    DC_GROUP_BITS,
    DC_IS_MIXED,
    DC_POOL,
    DC_STRIDE,
    FIELD_ADDED,
    FIELD_MASK,
    FIELD_SHIFT,
    FIELD_WORDS,
    LOW_HALF,
    NEVER,
    NIL,
    NODE_ADDRESS,
    NODE_STAMP,
    NODE_TIME,
    Q_HEAD,
    Q_HIT,
    Q_HIT_BEFORE,
    Q_HIT_STAMP,
    Q_OTHER,
    Q_OTHER_STAMP,
    Q_TAIL,
    Q_WORDS,
    WRITE_FLAG,
)


@inlined
def node_word(s, dram, node):
    """Word of a node."""
    return s[dram + DC_POOL] + node * s[dram + DC_STRIDE]


@inlined
def next_of(s, dram, node):
    """The node behind another one in its list."""
    return s[node_word(s, dram, node)] >> 32


@inlined
def link_to(s, dram, node, following):
    """Set the node behind another one, keeping the payload."""
    word = node_word(s, dram, node)
    s[word] = (following << 32) | (s[word] & LOW_HALF)


@kernel
def append(s, dram, head, tail, node):
    """Append a node to the list whose first and last node are in words `head` and `tail`."""
    link_to(s, dram, node, int64(NIL))
    if s[tail] == NIL:
        s[head] = node
    else:
        link_to(s, dram, s[tail], node)
    s[tail] = node


@kernel
def take_head(s, dram, head, tail):
    """Remove and return the first node of a list that is not empty."""
    node = s[head]
    following = next_of(s, dram, node)
    s[head] = following
    if following == NIL:
        s[tail] = NIL
    return node


@kernel
def field_of(s, dram, index, address):
    """Field 0 rank, 1 group, 2 bank, 3 row of a byte address inside the channel."""
    word = dram + DC_FIELDS + index * FIELD_WORDS
    value = (address >> s[word + FIELD_SHIFT]) & s[word + FIELD_MASK]
    if s[dram + DC_IS_MIXED] == 1:
        for part in range(2):
            at = word + FIELD_ADDED + 3 * part
            value ^= ((address >> s[at]) & s[at + 1]) << s[at + 2]
    return value


@kernel
def bank_of(s, dram, address):
    """Number of the bank inside the channel, all ranks counted."""
    rank = field_of(s, dram, int64(0), address)
    group = field_of(s, dram, int64(1), address)
    bank = field_of(s, dram, int64(2), address)
    return (((rank << s[dram + DC_GROUP_BITS]) | group) << s[dram + DC_BANK_BITS]) | bank


@inlined
def queue_of(s, c, bank, buffer):
    """Word of the list of a bank's requests in the read (0) or write (1) buffer."""
    return s[c + CC_QUEUES] + (2 * bank + buffer) * Q_WORDS


@kernel
def push_pending(s, dram, c, node, tick):
    """Append a read whose data come in `tick` at the earliest; one responds per tick, in order."""
    last = s[c + CC_PENDING_LAST] + 1
    if last < tick:
        last = tick
    s[c + CC_PENDING_LAST] = last
    s[node_word(s, dram, node) + NODE_TIME] = last
    append(s, dram, c + CC_PENDING_HEAD, c + CC_PENDING_TAIL, node)


@kernel
def respond(s, dram, c, node, tick):
    """Put a response into the list that the owner takes."""
    s[node_word(s, dram, node) + NODE_TIME] = tick
    append(s, dram, c + CC_DONE_HEAD, c + CC_DONE_TAIL, node)


@kernel
def set_hit(s, dram, c, queue, bank, buffer, node, before):
    """Note the oldest request for the open row, and the one before it in the list; NIL for none."""
    s[queue + Q_HIT] = node
    s[queue + Q_HIT_BEFORE] = before
    if node == NIL:
        s[queue + Q_HIT_STAMP] = NEVER
        s[c + CC_HITS + buffer] &= ~(1 << bank)
    else:
        s[queue + Q_HIT_STAMP] = s[node_word(s, dram, node) + NODE_STAMP] >> 1
        s[c + CC_HITS + buffer] |= 1 << bank


@kernel
def set_other(s, dram, c, queue, bank, buffer, node):
    """Note the oldest request for a row that is not open; NIL for none."""
    s[queue + Q_OTHER] = node
    if node == NIL:
        s[queue + Q_OTHER_STAMP] = NEVER
        s[c + CC_OTHERS + buffer] &= ~(1 << bank)
    else:
        s[queue + Q_OTHER_STAMP] = s[node_word(s, dram, node) + NODE_STAMP] >> 1
        s[c + CC_OTHERS + buffer] |= 1 << bank


@kernel
def close_bank(s, dram, c, bank):
    """All requests of a bank that has closed are for a row that is not open."""
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        if s[queue + Q_HEAD] != NIL:
            set_hit(s, dram, c, queue, bank, buffer, int64(NIL), int64(NIL))
            set_other(s, dram, c, queue, bank, buffer, s[queue + Q_HEAD])


@kernel
def sort_bank(s, dram, c, bank):
    """Find the oldest requests for the open row and for others anew, after a bank has opened."""
    row = s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW]
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        if s[queue + Q_HEAD] == NIL:
            continue
        hit = int64(NIL)
        hit_before = int64(NIL)
        other = int64(NIL)
        before = int64(NIL)
        node = s[queue + Q_HEAD]
        while node != NIL and (hit == NIL or other == NIL):
            if s[node_word(s, dram, node) + NODE_TIME] == row:
                if hit == NIL:
                    hit = node
                    hit_before = before
            elif other == NIL:
                other = node
            before = node
            node = next_of(s, dram, node)
        set_hit(s, dram, c, queue, bank, buffer, hit, hit_before)
        set_other(s, dram, c, queue, bank, buffer, other)


@kernel
def remove_hit(s, dram, c, bank, buffer):
    """Take the oldest request for the open row out of a buffer; returns its node."""
    queue = queue_of(s, c, bank, buffer)
    node = s[queue + Q_HIT]
    before = s[queue + Q_HIT_BEFORE]
    following = next_of(s, dram, node)
    if before == NIL:
        s[queue + Q_HEAD] = following
    else:
        link_to(s, dram, before, following)
    if following == NIL:
        s[queue + Q_TAIL] = before
    s[c + CC_HELD + buffer] -= 1
    row = s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW]
    while following != NIL and s[node_word(s, dram, following) + NODE_TIME] != row:
        before = following
        following = next_of(s, dram, following)
    set_hit(s, dram, c, queue, bank, buffer, following, before)
    return node


@kernel
def remove_oldest(s, dram, c, bank, buffer):
    """Take the oldest request for a closed bank out of a buffer; returns its node. `sort_bank` follows."""
    queue = queue_of(s, c, bank, buffer)
    node = take_head(s, dram, queue + Q_HEAD, queue + Q_TAIL)
    s[c + CC_HELD + buffer] -= 1
    if s[queue + Q_HEAD] == NIL:
        set_other(s, dram, c, queue, bank, buffer, int64(NIL))
    return node


@kernel
def is_in_write_buffer(s, dram, c, bank, address):
    """Whether a write to exactly this address waits in the write buffer."""
    node = s[queue_of(s, c, bank, 1) + Q_HEAD]
    while node != NIL:
        word = node_word(s, dram, node)
        if s[word + NODE_ADDRESS] == address:
            return True
        node = s[word] >> 32
    return False


@kernel
def take_front(s, dram, c, tick):
    """Offer the head of the front list to the buffers; tells whether they took it."""
    node = s[c + CC_FRONT_HEAD]
    word = node_word(s, dram, node)
    address = s[word + NODE_ADDRESS]
    buffer = (s[word] & WRITE_FLAG) >> 31
    bank = bank_of(s, dram, address)
    if buffer == 0 and s[c + CC_HELD + 1] > 0 and is_in_write_buffer(s, dram, c, bank, address):
        take_head(s, dram, c + CC_FRONT_HEAD, c + CC_FRONT_TAIL)
        push_pending(s, dram, c, node, tick)
        s[c + CC_FORWARDED] += 1
        s[c + CC_SEEN] += 1
        s[c + CC_FRONT_COUNT] -= 1
        return True
    if s[c + CC_HELD + buffer] > s[dram + DC_DEPTH]:
        return False
    take_head(s, dram, c + CC_FRONT_HEAD, c + CC_FRONT_TAIL)
    if s[c + CC_FRONT_HEAD] != NIL:
        # A request at the front has waited longer than near caches keep it.
        fetch(s, node_word(s, dram, s[c + CC_FRONT_HEAD]))
    s[c + CC_FRONT_COUNT] -= 1
    s[c + CC_SEEN + buffer] += 1
    s[c + CC_HELD + buffer] += 1
    if s[c + CC_PEAK + buffer] < s[c + CC_HELD + buffer]:
        s[c + CC_PEAK + buffer] = s[c + CC_HELD + buffer]
    row = field_of(s, dram, int64(3), address)
    s[word + NODE_TIME] = row
    s[word + NODE_STAMP] = tick << 1
    queue = queue_of(s, c, bank, buffer)
    before = s[queue + Q_TAIL]
    append(s, dram, queue + Q_HEAD, queue + Q_TAIL, node)
    if s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW] == row:
        if s[queue + Q_HIT] == NIL:
            set_hit(s, dram, c, queue, bank, buffer, node, before)
    elif s[queue + Q_OTHER] == NIL:
        set_other(s, dram, c, queue, bank, buffer, node)
    return True
