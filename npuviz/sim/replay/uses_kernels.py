"""Find who made what each piece of work reads: each cell remembers its writes, back to the last one that
covered all of its bytes."""

# pyright: reportMissingParameterType=false

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.sim.replay.versions_kernels import READS, WRITES

DENSE, SPARSE, ADDING = range(3)
"""Kinds of rows: all bytes of the range are touched; only some are; or what is written is added to what was
there."""
PRODUCER, WROTE, BEFORE, DEPTH = range(4)
"""Columns of a remembered write: its place, its row, the write before it in the cell (-1 none), and the
length of the chain down to it."""
FULL = -1
"""Result of `number_uses` when there is no room for another write."""
_COMPACT = 32
"""A chain of writes is compacted, dropping overwritten ones, each time that it has grown by this many."""

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)
_called = inner()


@_inlined
def _is_hidden(writes, kinds, patterns, newest, write):
    """Whether a later write in the chain covers exactly the same bytes."""
    later = newest
    while later != write:
        row = writes[later, WROTE]
        if kinds[row] != ADDING and patterns[row] == patterns[writes[write, WROTE]]:
            return True
        later = writes[later, BEFORE]
    return False


@_called
def _compacted(writes, used, kinds, patterns, newest):
    """Copy a chain without its hidden writes after the `used` ones; return (its newest write, new number of
    writes)."""
    first, last, write = -1, -1, newest
    while write >= 0:
        if not _is_hidden(writes, kinds, patterns, newest, write):
            if used >= len(writes):
                return FULL, used
            writes[used, PRODUCER] = writes[write, PRODUCER]
            writes[used, WROTE] = writes[write, WROTE]
            writes[used, BEFORE] = -1
            if last >= 0:
                writes[last, BEFORE] = used
            else:
                first = used
            last = used
            used += 1
        write = writes[write, BEFORE]
    depth, write = 0, first
    while write >= 0:
        depth += 1
        write = writes[write, BEFORE]
    write = first
    while write >= 0:
        writes[write, DEPTH] = depth
        depth -= 1
        write = writes[write, BEFORE]
    return first, used


@_inlined
def _push(writes, used, producer, row, before):
    writes[used, PRODUCER] = producer
    writes[used, WROTE] = row
    writes[used, BEFORE] = before
    writes[used, DEPTH] = writes[before, DEPTH] + 1 if before >= 0 else 1


@_called
def _write(state, row, at, used):
    """Let the cells of a row remember a write; return the number of writes, FULL if there is no room."""
    held, writes, _, kinds, patterns, rows = state
    was, made = -2, -1
    for time in range(rows[row, 3]):
        begin = rows[row, 1] + time * rows[row, 4]
        for cell in range(begin, begin + rows[row, 2]):
            before = held[cell] if kinds[row] != DENSE else -1
            if before != was:  # neighbours mostly have the same chain
                was = before
                if before >= 0 and writes[before, DEPTH] % _COMPACT == 0:
                    before, used = _compacted(writes, used, kinds, patterns, before)
                    if before == FULL:
                        return FULL
                if used >= len(writes):
                    return FULL
                _push(writes, used, at, row, before)
                made = used
                used += 1
            held[cell] = made
    return used


@_inlined
def _note(found, count, use):
    """Record a use, or only count it if there is no room; return the number of uses."""
    if count < len(found):
        producer, consumer, row, is_sure = use
        found[count, 0] = producer
        found[count, 1] = consumer
        found[count, 2] = row
        found[count, 3] = is_sure
    return count + 1


@_called
def _read(state, row, at, found, count):
    """Record whom a row that is read uses; return the new number of uses."""
    held, writes, seen, kinds, patterns, rows = state
    is_nobody_noted = False
    was = -2
    for time in range(rows[row, 3]):
        begin = rows[row, 1] + time * rows[row, 4]
        for cell in range(begin, begin + rows[row, 2]):
            newest = held[cell]
            if newest == was:
                continue
            was = newest
            is_covered, write = False, newest
            while write >= 0:
                producer, wrote = writes[write, PRODUCER], writes[write, WROTE]
                if seen[producer] != at + 1 and not _is_hidden(writes, kinds, patterns, newest, write):
                    seen[producer] = at + 1
                    is_sure = kinds[wrote] == DENSE and kinds[row] == DENSE
                    count = _note(found, count, (producer, at, row, is_sure))
                is_covered = is_covered or kinds[wrote] == DENSE
                write = writes[write, BEFORE]
            if not is_covered and not is_nobody_noted:
                is_nobody_noted = newest < 0
                count = _note(found, count, (-1, at, row, newest < 0))
    return count


@_entry
def number_uses(order, table, traits, memory, found):
    """Walk the order and record each use; return their number, of which `found` holds the first, or FULL.

    order   (n, 3) int64: entry, phase, cycle
    table   rows of each entry, (entries + 1,), and the rows, (m, 5): is write, first cell, cells, times,
            cells between
    traits  by row: DENSE, SPARSE or ADDING, and a number that is equal for rows of exactly the same bytes
    memory  (cells,) int64 of -1: the last write of each cell; (k, 4) int64: room for the writes that are
            remembered; (n,) int64 of 0: by producer, 1 + the consumer that it was last recorded for
    found   (k, 4) int64: places of producer (-1 none) and consumer, the first row through which it uses that
            (every row of which nobody had written all), and whether that is sure: no gaps on either side
    """
    first, rows = table
    held, writes, seen = memory
    state = (held, writes, seen, traits[0], traits[1], rows)
    count, used = 0, 0
    for at in range(len(order)):
        entry, phase = order[at, 0], order[at, 1]
        if phase & READS:
            for row in range(first[entry], first[entry + 1]):
                if rows[row, 0] == 0:
                    count = _read(state, row, at, found, count)
        if phase & WRITES:
            for row in range(first[entry], first[entry + 1]):
                if rows[row, 0] == 1:
                    used = _write(state, row, at, used)
                    if used == FULL:
                        return FULL
    return count


@_entry
def follow_uses(rows, reached):
    """Mark every place that uses, directly or through others, what a marked place made.

    rows     (k, 4) int64: producer (-1 none), consumer, and more; by consumer, each after its producer
    reached  (n,) bool
    """
    for use in range(len(rows)):
        producer = rows[use, 0]
        if producer >= 0 and reached[producer]:
            reached[rows[use, 1]] = True
