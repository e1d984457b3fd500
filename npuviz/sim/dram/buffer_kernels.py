"""Keep the requests in the buffers of a command-level DRAM channel, by bank and row.

For each bank and buffer, the oldest request for the open row and the oldest for another row are kept, so
that choosing a request looks at banks, never at requests.
"""

from typing import Any, NamedTuple

from numba import int64

from npuviz.sim.dram.queue_kernels import (
    bank_of,
    fetch_request,
    field_of,
    link_to,
    next_of,
    push_pending,
    request_of,
    take_head,
)
from npuviz.sim.dram.records_kernels import (
    CHANNEL,
    LIST,
    LOW_HALF,
    NEVER,
    NIL,
    NO_ENDS,
    QUEUE,
    ROW_CLASSES,
    ROW_RECORD,
    WRITE_FLAG,
)
from npuviz.sim.parts.bits_kernels import inlined, kernel


class Waiting(NamedTuple):
    """A bank's requests in the read (0) or write (1) buffer of a channel."""

    channel: Any
    """Row CHANNEL."""
    queue: Any
    """Row QUEUE."""
    bank: Any
    buffer: Any


@inlined
def waiting_for(words, channel, bank, buffer):
    """Return the requests that wait for a bank in a buffer."""
    return Waiting(channel, QUEUE(words, channel.queues, 2 * bank + buffer), bank, buffer)


@inlined
def stamps_of(device, channel, buffer, kind):
    """Return the first word of the keys, bank by bank, of the oldest hits (kind 0) or other requests (1) in a
    buffer."""
    return channel.stamps + (2 * buffer + kind) * device.banks


@inlined
def record_at(s, channel, record):
    """Return a row record by its number."""
    return ROW_RECORD(s, channel.rows, record)


# --- requests for the open row ----------------------------------------------------------------------


@kernel
def set_hit(dram, waiting, node, key):
    """Set the oldest request for the open row and its key; NIL for none."""
    words = dram.words
    channel, queue, bank, buffer = waiting
    stamp = stamps_of(dram.device, channel, buffer, int64(0)) + bank
    if node == NIL:
        queue.hits = NO_ENDS
        words[stamp] = NEVER
        channel.hits[buffer] &= ~(1 << bank)
    else:
        queue.hits = (node << 32) | (queue.hits & LOW_HALF)
        words[stamp] = key
        channel.hits[buffer] |= 1 << bank
        # The request is read when it is chosen.
        fetch_request(dram, node)


@inlined
def set_newest_hit(queue, node):
    """Set the newest request for the open row."""
    queue.hits = (queue.hits >> 32 << 32) | node


@inlined
def link_request(dram, before, node, key):
    """Append a request with its key to another one for the same row."""
    link_to(dram, before, node)
    request_of(dram, before).time = key


@kernel
def remove_hit(dram, channel, bank, buffer):
    """Take the oldest request for the open row out of a buffer; return its node."""
    waiting = waiting_for(dram.words, channel, bank, buffer)
    node = waiting.queue.hits >> 32
    channel.held[buffer] -= 1
    key = request_of(dram, node).time
    set_hit(dram, waiting, next_of(dram, node), key)
    return node


# --- rows that are not open -------------------------------------------------------------------------


@inlined
def count_of_row(queue, row):
    """Return how many rows equal to this one modulo ROW_CLASSES have records (15: or more); 0: this has
    none."""
    return queue.rows >> (4 * (row % ROW_CLASSES)) & 15


@kernel
def link_row(dram, waiting, before, record):
    """Link a row record (NIL: none) after record `before` (NIL: make it the first of its bank)."""
    words = dram.words
    channel, queue, bank, buffer = waiting
    if before != NIL:
        row_record = record_at(words, channel, before)
        row_record.next = (row_record.next >> 32 << 32) | record
        return
    queue.others = (record << 32) | (queue.others & LOW_HALF)
    stamp = stamps_of(dram.device, channel, buffer, int64(1)) + bank
    if record == NIL:
        words[stamp] = NEVER
        channel.others[buffer] &= ~(1 << bank)
    else:
        words[stamp] = record_at(words, channel, record).stamp
        channel.others[buffer] |= 1 << bank


@inlined
def seek_row(s, channel, queue, row, key):
    """Return the first record of a row or with at least a key, and the one before it; (NIL, last) if there is
    none."""
    before = int64(NIL)
    record = queue.others >> 32
    while record != NIL:
        row_record = record_at(s, channel, record)
        following = row_record.next
        if following >> 32 == row or row_record.stamp >= key:
            break
        before = record
        record = following & LOW_HALF
    return record, before


@inlined
def find_row(s, channel, queue, row):
    """Return the record of a row that is not open, and the one before it; (NIL, last) if there is none."""
    if count_of_row(queue, row) == 0:
        return int64(NIL), queue.others & LOW_HALF
    return seek_row(s, channel, queue, row, int64(NEVER))


@kernel
def add_row(dram, waiting, entry, before, following):
    """Create the record of a row between records `before` and `following` of its bank (NIL: none).

    entry  the row, first request << 32 | last one, key of the first one
    """
    channel, queue = waiting.channel, waiting.queue
    row, ends, key = entry
    record = channel.free_row
    row_record = record_at(dram.words, channel, record)
    channel.free_row = row_record.next
    row_record.next = (row << 32) | following
    row_record.ends = ends
    row_record.stamp = key
    link_row(dram, waiting, before, record)
    if following == NIL:
        queue.others = (queue.others >> 32 << 32) | record
    if count_of_row(queue, row) < 15:
        queue.rows += 1 << (4 * (row % ROW_CLASSES))


@kernel
def drop_row(dram, waiting, before, record):
    """Take a row record out of its bank's list and free it."""
    channel, queue = waiting.channel, waiting.queue
    row_record = record_at(dram.words, channel, record)
    row, following = row_record.next >> 32, row_record.next & LOW_HALF
    link_row(dram, waiting, before, following)
    if following == NIL:
        queue.others = (queue.others >> 32 << 32) | before
    if queue.others == NO_ENDS:
        queue.rows = 0
    elif count_of_row(queue, row) < 15:
        queue.rows -= 1 << (4 * (row % ROW_CLASSES))
    row_record.next = channel.free_row
    channel.free_row = record


@kernel
def count_oldest_other(dram, channel, bank, buffer):
    """Mark the oldest request for a row that is not open as counted (hit, miss or conflict)."""
    words = dram.words
    row_record = record_at(words, channel, waiting_for(words, channel, bank, buffer).queue.others >> 32)
    row_record.stamp |= 1
    words[stamps_of(dram.device, channel, buffer, int64(1)) + bank] |= 1
    # Its row will be opened.
    fetch_request(dram, row_record.ends >> 32)


@kernel
def close_row(dram, channel, bank):
    """Close a bank: requests for its open row join those for other rows, sorted by age."""
    words = dram.words
    for buffer in range(2):
        waiting = waiting_for(words, channel, bank, buffer)
        queue = waiting.queue
        row, ends = queue.open, queue.hits
        queue.open = -1
        if ends == NO_ENDS:
            continue
        key = words[stamps_of(dram.device, channel, buffer, int64(0)) + bank]
        following, before = seek_row(words, channel, queue, int64(-1), key)
        add_row(dram, waiting, (row, ends, key), before, following)
        set_hit(dram, waiting, int64(NIL), int64(NEVER))


@kernel
def open_row(dram, channel, bank, buffer):
    """Open the row of the oldest request for a closed bank in a buffer, and take that request out.

    The others for the row, in both buffers, become hits. Returns the request's node.
    """
    words = dram.words
    row_record = record_at(words, channel, waiting_for(words, channel, bank, buffer).queue.others >> 32)
    node = row_record.ends >> 32
    row = row_record.next >> 32
    channel.held[buffer] -= 1
    for index in range(2):
        waiting = waiting_for(words, channel, bank, index)
        queue = waiting.queue
        queue.open = row
        record, before = find_row(words, channel, queue, row)
        if record != NIL:
            row_record = record_at(words, channel, record)
            ends, first, key = row_record.ends, row_record.ends >> 32, row_record.stamp
            drop_row(dram, waiting, before, record)
            set_newest_hit(queue, ends & LOW_HALF)
            if index == buffer:
                first, key = next_of(dram, node), request_of(dram, node).time
            set_hit(dram, waiting, first, key)
    return node


# --- taking requests in -----------------------------------------------------------------------------


@kernel
def hold(dram, waiting, node, row, tick):
    """Add a request, the newest of all, to those of its bank.

    Behind an older request for the same row it does not change when a command may be issued.
    """
    words = dram.words
    channel, queue = waiting.channel, waiting.queue
    key = tick << 1
    request_of(dram, node).stamp = key
    link_to(dram, node, int64(NIL))
    if queue.open == row:
        if queue.hits == NO_ENDS:
            set_hit(dram, waiting, node, key)
            channel.issue_at = 0
        else:
            link_request(dram, queue.hits & LOW_HALF, node, key)
        set_newest_hit(queue, node)
        return
    record, before = find_row(words, channel, queue, row)
    if record == NIL:
        add_row(dram, waiting, (row, (node << 32) | node, key), before, int64(NIL))
        if before == NIL:
            channel.issue_at = 0
    else:
        row_record = record_at(words, channel, record)
        link_request(dram, row_record.ends & LOW_HALF, node, key)
        row_record.ends = (row_record.ends >> 32 << 32) | node


@kernel
def is_in_write_buffer(dram, channel, bank, row, address):
    """Whether the write buffer holds a write to exactly this address."""
    words = dram.words
    queue = waiting_for(words, channel, bank, int64(1)).queue
    node = queue.hits >> 32
    if queue.open != row:
        record, _ = find_row(words, channel, queue, row)
        node = int64(NIL)
        if record != NIL:
            node = record_at(words, channel, record).ends >> 32
    while node != NIL:
        request = request_of(dram, node)
        if request.address == address:
            return True
        node = request.link >> 32
    return False


@kernel
def take_front(dram, channel, tick):
    """Offer the first request of the front list to the buffers; return whether one took it."""
    device = dram.device
    node = channel.front_head
    request = request_of(dram, node)
    buffer = (request.link & WRITE_FLAG) >> 31
    is_full = channel.held[buffer] > device.depth
    may_forward = buffer == 0 and channel.held[1] > 0
    if is_full and not may_forward:
        return False
    address = request.address
    bank = bank_of(device, address)
    row = field_of(device, int64(3), address)
    is_forwarded = may_forward and is_in_write_buffer(dram, channel, bank, row, address)
    if is_full and not is_forwarded:
        return False
    take_head(dram, LIST(channel, CHANNEL.front_head))
    if channel.front_head != NIL:
        # A request at the front has waited so long that it may have left the near caches.
        fetch_request(dram, channel.front_head)
    channel.front_count -= 1
    channel.seen[buffer] += 1
    if is_forwarded:
        push_pending(dram, channel, node, tick)
        channel.forwarded += 1
        return True
    channel.held[buffer] += 1
    if channel.peak[buffer] < channel.held[buffer]:
        channel.peak[buffer] = channel.held[buffer]
    hold(dram, waiting_for(dram.words, channel, bank, buffer), node, row, tick)
    return True
