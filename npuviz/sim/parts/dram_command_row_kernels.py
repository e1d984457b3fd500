"""The buffers of a command-level DRAM channel: requests by bank and row.

Per bank and buffer the oldest request for the open row and the oldest for another one are known, so
that choosing looks at banks, never at requests.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import fetch, inlined, kernel
from npuviz.sim.parts.dram_command_queue_kernels import (
    bank_of,
    field_of,
    link_to,
    next_of,
    node_word,
    push_pending,
    take_head,
)
from npuviz.sim.parts.dram_command_state_kernels import (
    BANK_ROW,
    BANK_WORDS,
    CC_BANKS,
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
    NODE_ADDRESS,
    NODE_STAMP,
    Q_HIT,
    Q_HIT_LAST,
    Q_OTHER,
    Q_WORDS,
    ROW_ENDS,
    ROW_NEXT,
    ROW_STAMP,
    ROW_WORDS,
    WRITE_FLAG,
)


@inlined
def queue_of(s, c, bank, buffer):
    """Word of the list of a bank's requests in the read (0) or write (1) buffer."""
    return s[c + CC_QUEUES] + (2 * bank + buffer) * Q_WORDS


@inlined
def open_row_of(s, c, bank):
    """Row that is open in a bank, -1 if it is closed."""
    return s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW]


@inlined
def stamps_of(s, dram, c, buffer, kind):
    """Word of the stamps by bank of the oldest hits (kind 0) or others (1) in a buffer."""
    return s[c + CC_STAMPS] + (2 * buffer + kind) * s[dram + DC_BANKS]


@inlined
def row_word(s, c, record):
    """Word of a row record."""
    return s[c + CC_ROWS] + record * ROW_WORDS


@kernel
def set_hit(s, dram, c, queue, bank, buffer, node):
    """Note the oldest request for the open row; NIL for none."""
    s[queue + Q_HIT] = node
    stamp = stamps_of(s, dram, c, buffer, 0) + bank
    if node == NIL:
        s[stamp] = NEVER
        s[c + CC_HITS + buffer] &= ~(1 << bank)
    else:
        word = node_word(s, dram, node)
        s[stamp] = s[word + NODE_STAMP] >> 1
        s[c + CC_HITS + buffer] |= 1 << bank
        if s[word] >> 32 != NIL:
            # The hit after this one: its stamp will be asked for.
            fetch(s, node_word(s, dram, s[word] >> 32))


@kernel
def link_row(s, dram, c, queue, bank, buffer, before, record):
    """Let a row record (NIL: none) follow record `before` (NIL: be the first of its bank)."""
    if before != NIL:
        word = row_word(s, c, before) + ROW_NEXT
        s[word] = (s[word] >> 32 << 32) | record
        return
    s[queue + Q_OTHER] = record
    stamp = stamps_of(s, dram, c, buffer, 1) + bank
    if record == NIL:
        s[stamp] = NEVER
        s[c + CC_OTHERS + buffer] &= ~(1 << bank)
    else:
        s[stamp] = s[row_word(s, c, record) + ROW_STAMP]
        s[c + CC_OTHERS + buffer] |= 1 << bank


@inlined
def find_row(s, c, queue, row):
    """Record of a row that is not open, and the one before it; (NIL, last) if there is none."""
    before = int64(NIL)
    record = s[queue + Q_OTHER]
    while record != NIL:
        following = s[row_word(s, c, record) + ROW_NEXT]
        if following >> 32 == row:
            break
        before = record
        record = following & LOW_HALF
    return record, before


@kernel
def new_row(s, c, row, first, last, stamp, following):
    """Make the record of a row, before record `following`; returns it."""
    record = s[c + CC_FREE_ROW]
    word = row_word(s, c, record)
    s[c + CC_FREE_ROW] = s[word + ROW_NEXT]
    s[word + ROW_NEXT] = (row << 32) | following
    s[word + ROW_ENDS] = (first << 32) | last
    s[word + ROW_STAMP] = stamp
    return record


@kernel
def drop_row(s, dram, c, queue, bank, buffer, before, record):
    """Take a row record out of its bank's list, and free it."""
    word = row_word(s, c, record) + ROW_NEXT
    link_row(s, dram, c, queue, bank, buffer, before, s[word] & LOW_HALF)
    s[word] = s[c + CC_FREE_ROW]
    s[c + CC_FREE_ROW] = record


@inlined
def oldest_other(s, c, bank, buffer):
    """The oldest request for a row that is not open, where there is one."""
    return s[row_word(s, c, s[queue_of(s, c, bank, buffer) + Q_OTHER]) + ROW_ENDS] >> 32


@kernel
def close_row(s, dram, c, bank):
    """A bank closes: what waits for its row joins those for other rows, by age."""
    word = s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW
    row = s[word]
    s[word] = -1
    for buffer in range(2):
        queue = queue_of(s, c, bank, buffer)
        if s[queue + Q_HIT] == NIL:
            continue
        stamp = s[stamps_of(s, dram, c, buffer, 0) + bank]
        before = int64(NIL)
        following = s[queue + Q_OTHER]
        while following != NIL and s[row_word(s, c, following) + ROW_STAMP] < stamp:
            before = following
            following = s[row_word(s, c, following) + ROW_NEXT] & LOW_HALF
        record = new_row(s, c, row, s[queue + Q_HIT], s[queue + Q_HIT_LAST], stamp, following)
        link_row(s, dram, c, queue, bank, buffer, before, record)
        set_hit(s, dram, c, queue, bank, buffer, int64(NIL))


@kernel
def open_row(s, dram, c, bank, buffer):
    """Open the row of the oldest request for a closed bank in a buffer, and take that request out.

    The others for the row, in both buffers, become hits. Returns the request's node.
    """
    node = oldest_other(s, c, bank, buffer)
    row = s[row_word(s, c, s[queue_of(s, c, bank, buffer) + Q_OTHER]) + ROW_NEXT] >> 32
    s[s[c + CC_BANKS] + bank * BANK_WORDS + BANK_ROW] = row
    s[c + CC_HELD + buffer] -= 1
    for index in range(2):
        queue = queue_of(s, c, bank, index)
        record, before = find_row(s, c, queue, row)
        if record != NIL:
            ends = s[row_word(s, c, record) + ROW_ENDS]
            drop_row(s, dram, c, queue, bank, index, before, record)
            s[queue + Q_HIT_LAST] = ends & LOW_HALF
            first = next_of(s, dram, node) if index == buffer else ends >> 32
            set_hit(s, dram, c, queue, bank, index, first)
    return node


@kernel
def remove_hit(s, dram, c, bank, buffer):
    """Take the oldest request for the open row out of a buffer; returns its node."""
    queue = queue_of(s, c, bank, buffer)
    node = s[queue + Q_HIT]
    s[c + CC_HELD + buffer] -= 1
    set_hit(s, dram, c, queue, bank, buffer, next_of(s, dram, node))
    return node


@kernel
def hold(s, dram, c, bank, buffer, node, row, tick):
    """Put a request, the newest of all, among those of its bank.

    Behind an older one that waits for the same it changes nothing of what may be issued when.
    """
    queue = queue_of(s, c, bank, buffer)
    s[node_word(s, dram, node) + NODE_STAMP] = tick << 1
    link_to(s, dram, node, int64(NIL))
    if open_row_of(s, c, bank) == row:
        if s[queue + Q_HIT] == NIL:
            set_hit(s, dram, c, queue, bank, buffer, node)
            s[c + CC_ISSUE_AT] = 0
        else:
            link_to(s, dram, s[queue + Q_HIT_LAST], node)
        s[queue + Q_HIT_LAST] = node
        return
    record, before = find_row(s, c, queue, row)
    if record == NIL:
        record = new_row(s, c, row, node, node, tick, int64(NIL))
        link_row(s, dram, c, queue, bank, buffer, before, record)
        if before == NIL:
            s[c + CC_ISSUE_AT] = 0
    else:
        word = row_word(s, c, record) + ROW_ENDS
        link_to(s, dram, s[word] & LOW_HALF, node)
        s[word] = (s[word] >> 32 << 32) | node


@kernel
def is_in_write_buffer(s, dram, c, bank, row, address):
    """Whether a write to exactly this address waits in the write buffer."""
    queue = queue_of(s, c, bank, 1)
    node = s[queue + Q_HIT]
    if open_row_of(s, c, bank) != row:
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
