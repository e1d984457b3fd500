"""Lists of requests inside a command-level DRAM channel: front, buffers by bank, pending, finished.

Per bank and buffer the oldest request for the open row and the oldest for another one are known, so
that choosing looks at banks, never at requests. Requests of one row are linked: nothing searches a bank's
requests, only its rows.
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
    CC_STAMPS,
    DC_BANK_BITS,
    DC_BANKS,
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
    NODE_ROWS,
    NODE_STAMP,
    NODE_TIME,
    Q_HIT,
    Q_HIT_LAST,
    Q_OTHER,
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


@inlined
def row_of(s, dram, node):
    """Row of a request that waits in a buffer."""
    return field_of(s, dram, int64(3), s[node_word(s, dram, node) + NODE_ADDRESS])


@inlined
def stamp_of(s, dram, c, bank, buffer, kind):
    """Word of the stamp of a bank's oldest hit (kind 0) or other (1) in a buffer."""
    return s[c + CC_STAMPS] + (2 * buffer + kind) * s[dram + DC_BANKS] + bank


@kernel
def set_hit(s, dram, c, queue, bank, buffer, node):
    """Note the oldest request for the open row; NIL for none."""
    s[queue + Q_HIT] = node
    stamp = stamp_of(s, dram, c, bank, buffer, 0)
    if node == NIL:
        s[stamp] = NEVER
        s[c + CC_HITS + buffer] &= ~(1 << bank)
    else:
        s[stamp] = s[node_word(s, dram, node) + NODE_STAMP] >> 1
        s[c + CC_HITS + buffer] |= 1 << bank


@kernel
def set_other(s, dram, c, queue, bank, buffer, node):
    """Note the oldest request for a row that is not open; NIL for none."""
    s[queue + Q_OTHER] = node
    stamp = stamp_of(s, dram, c, bank, buffer, 1)
    if node == NIL:
        s[stamp] = NEVER
        s[c + CC_OTHERS + buffer] &= ~(1 << bank)
    else:
        s[stamp] = s[node_word(s, dram, node) + NODE_STAMP] >> 1
        s[c + CC_OTHERS + buffer] |= 1 << bank


@kernel
def link_row(s, dram, c, queue, bank, buffer, before, first):
    """Let the row of request `first` (NIL: none) follow the row of `before` (NIL: be the first)."""
    if before == NIL:
        set_other(s, dram, c, queue, bank, buffer, first)
    else:
        rows = node_word(s, dram, before) + NODE_ROWS
        s[rows] = (first << 32) | (s[rows] & LOW_HALF)


@kernel
def find_row(s, dram, queue, row):
    """Oldest request for a row that is not open, and that of the row before it; (NIL, last) if none."""
    before = int64(NIL)
    first = s[queue + Q_OTHER]
    while first != NIL and row_of(s, dram, first) != row:
        before = first
        first = s[node_word(s, dram, first) + NODE_ROWS] >> 32
    return first, before


@kernel
def close_bank(s, dram, c, bank):
    """The requests for the row of a bank that has closed join those for other rows, by age."""
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        node = s[queue + Q_HIT]
        if node == NIL:
            continue
        word = node_word(s, dram, node)
        before = int64(NIL)
        following = s[queue + Q_OTHER]
        while following != NIL:
            other = node_word(s, dram, following)
            if s[other + NODE_STAMP] > s[word + NODE_STAMP]:
                break
            before = following
            following = s[other + NODE_ROWS] >> 32
        s[word + NODE_ROWS] = (following << 32) | s[queue + Q_HIT_LAST]
        link_row(s, dram, c, queue, bank, buffer, before, node)
        set_hit(s, dram, c, queue, bank, buffer, int64(NIL))


@kernel
def open_bank(s, dram, c, bank, row):
    """A row has opened: the requests for it become hits."""
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        first, before = find_row(s, dram, queue, row)
        if first != NIL:
            rows = s[node_word(s, dram, first) + NODE_ROWS]
            link_row(s, dram, c, queue, bank, buffer, before, rows >> 32)
            s[queue + Q_HIT_LAST] = rows & LOW_HALF
            set_hit(s, dram, c, queue, bank, buffer, first)


@kernel
def remove_hit(s, dram, c, bank, buffer):
    """Take the oldest request for the open row out of a buffer; returns its node."""
    queue = queue_of(s, c, bank, buffer)
    node = s[queue + Q_HIT]
    s[c + CC_HELD + buffer] -= 1
    set_hit(s, dram, c, queue, bank, buffer, next_of(s, dram, node))
    return node


@kernel
def remove_oldest(s, dram, c, bank, buffer):
    """Take the oldest request for a closed bank out of a buffer; returns its node.

    `open_bank` follows: what else waits for its row stands where it stood, though it is younger.
    """
    queue = queue_of(s, c, bank, buffer)
    node = s[queue + Q_OTHER]
    rows = s[node_word(s, dram, node) + NODE_ROWS]
    second = next_of(s, dram, node)
    if second == NIL:
        second = rows >> 32
    else:
        s[node_word(s, dram, second) + NODE_ROWS] = rows
    s[c + CC_HELD + buffer] -= 1
    set_other(s, dram, c, queue, bank, buffer, second)
    return node


@kernel
def hold(s, dram, c, bank, buffer, node, row):
    """Put a request, the newest of all, among those of its bank."""
    queue = queue_of(s, c, bank, buffer)
    link_to(s, dram, node, int64(NIL))
    if s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW] == row:
        if s[queue + Q_HIT] == NIL:
            set_hit(s, dram, c, queue, bank, buffer, node)
        else:
            link_to(s, dram, s[queue + Q_HIT_LAST], node)
        s[queue + Q_HIT_LAST] = node
        return
    first, before = find_row(s, dram, queue, row)
    if first == NIL:
        s[node_word(s, dram, node) + NODE_ROWS] = (NIL << 32) | node
        link_row(s, dram, c, queue, bank, buffer, before, node)
    else:
        rows = node_word(s, dram, first) + NODE_ROWS
        link_to(s, dram, s[rows] & LOW_HALF, node)
        s[rows] = (s[rows] >> 32 << 32) | node


@kernel
def is_in_write_buffer(s, dram, c, bank, address):
    """Whether a write to exactly this address waits in the write buffer."""
    row = field_of(s, dram, int64(3), address)
    queue = queue_of(s, c, bank, 1)
    if s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW] == row:
        node = s[queue + Q_HIT]
    else:
        node, _ = find_row(s, dram, queue, row)
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
    s[word + NODE_STAMP] = tick << 1
    hold(s, dram, c, bank, buffer, node, field_of(s, dram, int64(3), address))
    return True
