"""The buffers of a command-level DRAM channel: requests by bank and row.

Per bank and buffer the oldest request for the open row and the oldest for another one are known, so
that choosing looks at banks, never at requests.
"""

from numba import int64

from npuviz.sim.dram.queue_kernels import (
    bank_of,
    field_of,
    link_to,
    next_of,
    node_word,
    push_pending,
    take_head,
)
from npuviz.sim.dram.records_kernels import (
    CC_FORWARDED,
    CC_FREE_ROW,
    CC_FRONT_COUNT,
    CC_FRONT_HEAD,
    CC_FRONT_TAIL,
    CC_HELD,
    CC_HITS,
    CC_ISSUE_AT,
    CC_OTHERS,
    CC_PEAK,
    CC_QUEUES,
    CC_ROWS,
    CC_SEEN,
    CC_STAMPS,
    DC_BANKS,
    DC_DEPTH,
    LOW_HALF,
    NEVER,
    NIL,
    NO_ENDS,
    NODE_ADDRESS,
    NODE_STAMP,
    NODE_TIME,
    Q_HITS,
    Q_OPEN,
    Q_OTHERS,
    Q_ROWS,
    Q_WORDS,
    ROW_CLASSES,
    ROW_ENDS,
    ROW_NEXT,
    ROW_STAMP,
    ROW_WORDS,
    WRITE_FLAG,
)
from npuviz.sim.parts.bits_kernels import fetch, inlined, kernel


@inlined
def queue_of(s, c, bank, buffer):
    """Word of the list of a bank's requests in the read (0) or write (1) buffer."""
    return s[c + CC_QUEUES] + (2 * bank + buffer) * Q_WORDS


@inlined
def stamps_of(s, dram, c, buffer, kind):
    """Word of the keys by bank of the oldest hits (kind 0) or others (1) in a buffer."""
    return s[c + CC_STAMPS] + (2 * buffer + kind) * s[dram + DC_BANKS]


@inlined
def row_word(s, c, record):
    """Word of a row record."""
    return s[c + CC_ROWS] + record * ROW_WORDS


# --- requests for the open row ----------------------------------------------------------------------


@kernel
def set_hit(s, dram, c, queue, bank, buffer, node, key):
    """Note the oldest request for the open row and its key; NIL for none."""
    stamp = stamps_of(s, dram, c, buffer, int64(0)) + bank
    if node == NIL:
        s[queue + Q_HITS] = NO_ENDS
        s[stamp] = NEVER
        s[c + CC_HITS + buffer] &= ~(1 << bank)
    else:
        s[queue + Q_HITS] = (node << 32) | (s[queue + Q_HITS] & LOW_HALF)
        s[stamp] = key
        s[c + CC_HITS + buffer] |= 1 << bank
        # It will be read when it is chosen.
        fetch(s, node_word(s, dram, node))


@inlined
def set_newest_hit(s, queue, node):
    """Note the newest request for the open row."""
    s[queue + Q_HITS] = (s[queue + Q_HITS] >> 32 << 32) | node


@inlined
def link_request(s, dram, before, node, key):
    """Let a request follow another one of its row."""
    link_to(s, dram, before, node)
    s[node_word(s, dram, before) + NODE_TIME] = key


@kernel
def remove_hit(s, dram, c, bank, buffer):
    """Take the oldest request for the open row out of a buffer; returns its node."""
    queue = queue_of(s, c, bank, buffer)
    node = s[queue + Q_HITS] >> 32
    s[c + CC_HELD + buffer] -= 1
    set_hit(s, dram, c, queue, bank, buffer, next_of(s, dram, node), s[node_word(s, dram, node) + NODE_TIME])
    return node


# --- rows that are not open -------------------------------------------------------------------------


@inlined
def count_of_row(s, queue, row):
    """How many records there may be of the row: 0, it has none."""
    return s[queue + Q_ROWS] >> (4 * (row % ROW_CLASSES)) & 15


@kernel
def link_row(s, dram, c, queue, bank, buffer, before, record):
    """Let a row record (NIL: none) follow record `before` (NIL: be the first of its bank)."""
    if before != NIL:
        word = row_word(s, c, before) + ROW_NEXT
        s[word] = (s[word] >> 32 << 32) | record
        return
    s[queue + Q_OTHERS] = (record << 32) | (s[queue + Q_OTHERS] & LOW_HALF)
    stamp = stamps_of(s, dram, c, buffer, int64(1)) + bank
    if record == NIL:
        s[stamp] = NEVER
        s[c + CC_OTHERS + buffer] &= ~(1 << bank)
    else:
        s[stamp] = s[row_word(s, c, record) + ROW_STAMP]
        s[c + CC_OTHERS + buffer] |= 1 << bank


@inlined
def seek_row(s, c, queue, row, key):
    """First record of a row or with at least a key, and the one before it; (NIL, last) if there is none."""
    before = int64(NIL)
    record = s[queue + Q_OTHERS] >> 32
    while record != NIL:
        word = row_word(s, c, record)
        following = s[word + ROW_NEXT]
        if following >> 32 == row or s[word + ROW_STAMP] >= key:
            break
        before = record
        record = following & LOW_HALF
    return record, before


@inlined
def find_row(s, c, queue, row):
    """Record of a row that is not open, and the one before it; (NIL, last) if there is none."""
    if count_of_row(s, queue, row) == 0:
        return int64(NIL), s[queue + Q_OTHERS] & LOW_HALF
    return seek_row(s, c, queue, row, int64(NEVER))


@kernel
def add_row(s, dram, c, queue, bank, buffer, row, ends, key, before, following):
    """Make the record of a row, between records `before` and `following` of its bank (NIL: none).

    ends  first request << 32 | last one; key  of the first one
    """
    record = s[c + CC_FREE_ROW]
    word = row_word(s, c, record)
    s[c + CC_FREE_ROW] = s[word + ROW_NEXT]
    s[word + ROW_NEXT] = (row << 32) | following
    s[word + ROW_ENDS] = ends
    s[word + ROW_STAMP] = key
    link_row(s, dram, c, queue, bank, buffer, before, record)
    if following == NIL:
        s[queue + Q_OTHERS] = (s[queue + Q_OTHERS] >> 32 << 32) | record
    if count_of_row(s, queue, row) < 15:
        s[queue + Q_ROWS] += 1 << (4 * (row % ROW_CLASSES))


@kernel
def drop_row(s, dram, c, queue, bank, buffer, before, record):
    """Take a row record out of its bank's list, and free it."""
    word = row_word(s, c, record) + ROW_NEXT
    row, following = s[word] >> 32, s[word] & LOW_HALF
    link_row(s, dram, c, queue, bank, buffer, before, following)
    if following == NIL:
        s[queue + Q_OTHERS] = (s[queue + Q_OTHERS] >> 32 << 32) | before
    if s[queue + Q_OTHERS] == NO_ENDS:
        s[queue + Q_ROWS] = 0
    elif count_of_row(s, queue, row) < 15:
        s[queue + Q_ROWS] -= 1 << (4 * (row % ROW_CLASSES))
    s[word] = s[c + CC_FREE_ROW]
    s[c + CC_FREE_ROW] = record


@kernel
def count_oldest_other(s, dram, c, bank, buffer):
    """Note that the oldest request for a row that is not open is counted."""
    record = s[queue_of(s, c, bank, buffer) + Q_OTHERS] >> 32
    s[row_word(s, c, record) + ROW_STAMP] |= 1
    s[stamps_of(s, dram, c, buffer, int64(1)) + bank] |= 1
    # Its row will be opened.
    fetch(s, node_word(s, dram, s[row_word(s, c, record) + ROW_ENDS] >> 32))


@kernel
def close_row(s, dram, c, bank):
    """A bank closes: what waits for its row joins those for other rows, by age."""
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        row, ends = s[queue + Q_OPEN], s[queue + Q_HITS]
        s[queue + Q_OPEN] = -1
        if ends == NO_ENDS:
            continue
        key = s[stamps_of(s, dram, c, buffer, int64(0)) + bank]
        following, before = seek_row(s, c, queue, int64(-1), key)
        add_row(s, dram, c, queue, bank, buffer, row, ends, key, before, following)
        set_hit(s, dram, c, queue, bank, buffer, int64(NIL), int64(NEVER))


@kernel
def open_row(s, dram, c, bank, buffer):
    """Open the row of the oldest request for a closed bank in a buffer, and take that request out.

    The others for the row, in both buffers, become hits. Returns the request's node.
    """
    word = row_word(s, c, s[queue_of(s, c, bank, buffer) + Q_OTHERS] >> 32)
    node = s[word + ROW_ENDS] >> 32
    row = s[word + ROW_NEXT] >> 32
    s[c + CC_HELD + buffer] -= 1
    for index in range(2):
        queue = queue_of(s, c, bank, index)
        s[queue + Q_OPEN] = row
        record, before = find_row(s, c, queue, row)
        if record != NIL:
            word = row_word(s, c, record)
            ends, first, key = s[word + ROW_ENDS], s[word + ROW_ENDS] >> 32, s[word + ROW_STAMP]
            drop_row(s, dram, c, queue, bank, index, before, record)
            set_newest_hit(s, queue, ends & LOW_HALF)
            if index == buffer:
                first, key = next_of(s, dram, node), s[node_word(s, dram, node) + NODE_TIME]
            set_hit(s, dram, c, queue, bank, index, first, key)
    return node


# --- taking requests in -----------------------------------------------------------------------------


@kernel
def hold(s, dram, c, bank, buffer, node, row, tick):
    """Put a request, the newest of all, among those of its bank.

    Behind an older one that waits for the same it changes nothing of what may be issued when.
    """
    queue = queue_of(s, c, bank, buffer)
    key = tick << 1
    s[node_word(s, dram, node) + NODE_STAMP] = key
    link_to(s, dram, node, int64(NIL))
    if s[queue + Q_OPEN] == row:
        if s[queue + Q_HITS] == NO_ENDS:
            set_hit(s, dram, c, queue, bank, buffer, node, key)
            s[c + CC_ISSUE_AT] = 0
        else:
            link_request(s, dram, s[queue + Q_HITS] & LOW_HALF, node, key)
        set_newest_hit(s, queue, node)
        return
    record, before = find_row(s, c, queue, row)
    if record == NIL:
        add_row(s, dram, c, queue, bank, buffer, row, (node << 32) | node, key, before, int64(NIL))
        if before == NIL:
            s[c + CC_ISSUE_AT] = 0
    else:
        word = row_word(s, c, record) + ROW_ENDS
        link_request(s, dram, s[word] & LOW_HALF, node, key)
        s[word] = (s[word] >> 32 << 32) | node


@kernel
def is_in_write_buffer(s, dram, c, bank, row, address):
    """Whether a write to exactly this address waits in the write buffer."""
    queue = queue_of(s, c, bank, int64(1))
    node = s[queue + Q_HITS] >> 32
    if s[queue + Q_OPEN] != row:
        record, _ = find_row(s, c, queue, row)
        node = int64(NIL)
        if record != NIL:
            node = s[row_word(s, c, record) + ROW_ENDS] >> 32
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
    buffer = (s[word] & WRITE_FLAG) >> 31
    is_full = s[c + CC_HELD + buffer] > s[dram + DC_DEPTH]
    may_forward = buffer == 0 and s[c + CC_HELD + 1] > 0
    if is_full and not may_forward:
        return False
    address = s[word + NODE_ADDRESS]
    bank = bank_of(s, dram, address)
    row = field_of(s, dram, int64(3), address)
    is_forwarded = may_forward and is_in_write_buffer(s, dram, c, bank, row, address)
    if is_full and not is_forwarded:
        return False
    take_head(s, dram, c + CC_FRONT_HEAD, c + CC_FRONT_TAIL)
    if s[c + CC_FRONT_HEAD] != NIL:
        # A request at the front has waited longer than near caches keep it.
        fetch(s, node_word(s, dram, s[c + CC_FRONT_HEAD]))
    s[c + CC_FRONT_COUNT] -= 1
    s[c + CC_SEEN + buffer] += 1
    if is_forwarded:
        push_pending(s, dram, c, node, tick)
        s[c + CC_FORWARDED] += 1
        return True
    s[c + CC_HELD + buffer] += 1
    if s[c + CC_PEAK + buffer] < s[c + CC_HELD + buffer]:
        s[c + CC_PEAK + buffer] = s[c + CC_HELD + buffer]
    hold(s, dram, c, bank, buffer, node, row, tick)
    return True
