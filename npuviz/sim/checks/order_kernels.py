"""Walks the steps of a run with vector clocks: which accesses of the same bytes nothing has ordered.

Cells stand for bytes that every access touches together or not at all. `clocks` (steps, threads) comes as
zeros; place t of a row is how many steps of thread t are certainly over when the step begins. Steps of a
thread begin in their order and end in their order; that one is over when the next begins has to be said.
"""

# pyright: reportMissingParameterType=false

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

READERS = 4
"""Readers of a cell that are remembered; of more the oldest is forgotten."""
EARLY_READ, EARLY_OVERWRITE, UNORDERED_WRITES, UNWRITTEN, FOREIGN = range(5)

SEATLESS = -2
STEP, MEMORY, WRITE, DENSE, BANK, BANKS, LOW, HIGH = range(8)
"""Columns of an access: bytes low..high-1 of so many banks of a memory; DENSE is one of the next three."""
SPARSE, DENSE_BYTES, EXACT_END = range(3)
"""Which of the bytes are touched: some, all, some and the last one."""

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)


@_inlined
def _note(found, count, made):
    """One row for a kind, a step and another; returns the new number of rows."""
    kind, step, other, cell = made
    for row in range(count - 1, max(count - 9, -1), -1):
        if found[row, 0] == kind and found[row, 1] == step and found[row, 2] == other:
            return count
    if count < len(found):
        found[count, 0] = kind
        found[count, 1] = step
        found[count, 2] = other
        found[count, 3] = cell
        return count + 1
    return count


@_inlined
def _is_foreign(origin, step, before):
    """Whether the operator of a step uses nothing of the one that wrote before."""
    node, first, sources = origin
    reader, writer = node[step], node[before]
    if reader < 0 or writer < 0 or reader == writer:
        return False
    is_used = False
    for row in range(first[reader], first[reader + 1]):
        is_used = is_used or sources[row] == writer
    return not is_used


@_inlined
def _read_after(state, found, count, step, cell):
    """A step reads what another wrote last."""
    thread, place, clocks, writer, _, _, used, origin, _ = state
    before = writer[cell]
    used[before] = True
    if clocks[step, thread[before]] < place[before]:
        return _note(found, count, (EARLY_READ, step, before, cell))
    if _is_foreign(origin, step, before):
        return _note(found, count, (FOREIGN, step, before, cell))
    return count


@_inlined
def _remember(state, step, cell):
    """A step is among the readers of a cell, in the place of one of its thread or of the oldest."""
    thread, readers = state[0], state[4]
    oldest = 0
    for k in range(READERS):
        other = readers[cell, k]
        if other < 0 or other == step or thread[other] == thread[step]:
            oldest = k
            break
        if other < readers[cell, oldest]:
            oldest = k
    readers[cell, oldest] = step


@_inlined
def _write(state, found, count, step, target):
    cell, is_dense, ordered = target
    thread, place, clocks, writer, readers, given, used, _, over = state
    before = writer[cell]
    if before >= 0:
        over[before] = step
        owner = thread[before]
        if owner != thread[step] and clocks[step, owner] < place[before]:
            count = _note(found, count, (UNORDERED_WRITES, step, before, cell))
        if not is_dense:
            used[before] = True
    for k in range(READERS):
        reader = readers[cell, k]
        readers[cell, k] = -1
        if reader < 0 or reader == step or reader == ordered:
            continue
        owner = thread[reader]
        if owner == thread[step] or clocks[step, owner] >= place[reader]:
            ordered = reader
            continue
        has_value = before >= 0 or given[cell]
        kind = EARLY_OVERWRITE if has_value else EARLY_READ
        first, second = (step, reader) if has_value else (reader, step)
        count = _note(found, count, (kind, first, second, cell))
    writer[cell] = step
    return count, ordered


@_inlined
def _seat(step, threads, last, mine, seats):
    """A thread for a step that belongs to none: one whose steps are all over when it begins."""
    thread, place = threads
    chosen = len(last) - seats
    for t in range(len(last) - seats, len(last)):
        if mine[t] >= last[t]:
            chosen = t
            break
        if mine[t] - last[t] > mine[chosen] - last[chosen]:
            chosen = t
    # Without a free one it counts as after those of a thread: what that hides is not found.
    mine[chosen] = max(mine[chosen], last[chosen])
    last[chosen] += 1
    thread[step] = chosen
    place[step] = last[chosen]


@_inlined
def _begin(steps, orders, step, order):
    """The clock of a step, from the step before in its thread and from who it waited for; the next order."""
    thread, place, clocks, last, previous, seats = steps
    mine, own = clocks[step], thread[step]
    if own >= 0:
        before = previous[own]
        if before >= 0:
            # A slice that is set takes numba three seconds to compile, most of them for its error text.
            for t in range(len(mine)):
                mine[t] = clocks[before, t]
        previous[own] = step
        last[own] += 1
        place[step] = last[own]
    while order < len(orders) and orders[order, 1] == step:
        before = orders[order, 0]
        other = clocks[before]
        for t in range(len(mine)):
            mine[t] = max(mine[t], other[t])
        if thread[before] >= 0:
            mine[thread[before]] = max(mine[thread[before]], place[before])
        order += 1
    if own == SEATLESS:
        _seat(step, (thread, place), last, mine, seats)
    return order


@_inlined
def _touch(state, found, count, access):
    """A step reads or writes the cells of one access; returns the new number of findings."""
    writer, given = state[3], state[5]
    step, is_write, density, first, banks, pitch, width = access
    missing, place_missing = 0, 0
    # Cells side by side mostly have one writer and the same readers, which are looked at once.
    seen = -1
    for bank in range(banks):
        start = first + bank * pitch
        for cell in range(start, start + width):
            if is_write:
                count, seen = _write(state, found, count, step, (cell, density == DENSE_BYTES, seen))
                continue
            before = writer[cell]
            if before < 0:
                if not given[cell]:
                    missing, place_missing = missing + 1, cell
            elif before != seen:
                count = _read_after(state, found, count, step, cell)
                seen = before
            _remember(state, step, cell)
    # Of what is read with gaps, the gaps may be what nobody has written; its last byte is no gap.
    end = first + (banks - 1) * pitch + width - 1
    is_exact = density == EXACT_END and writer[end] < 0 and not given[end]
    if missing and (density == DENSE_BYTES or missing == banks * width or is_exact):
        count = _note(found, count, (UNWRITTEN, step, -1, place_missing))
    return count


@_inlined
def _mark(at, row, given):
    """Mark the cells of a row as given."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            given[cell] = True


@_inlined
def _finish(at, row, writer, used):
    """What is read after the end has been used."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            if writer[cell] >= 0:
                used[writer[cell]] = True


@_inlined
def _first_missing(at, row, writer, given):
    """The first cell of a row that nobody has written, or -1."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            if writer[cell] < 0 and not given[cell]:
                return cell
    return -1


@_entry
def walk(steps, orders, accesses, cells, results):
    """Fill `found` (kind, step, other, cell); returns how many rows.

    steps     thread (-1: only orders others; -2: after nothing but what is said, a thread is found for it and
              written there), place in the thread (from 1, filled here), clocks, steps of each thread so far
              (zeros), the last of them (-1), and how many of the last threads are for steps of none
    orders    (k, 2), sorted by the second: a step, and a later one that waited for it
    accesses  rows of accesses sorted by step, of what is given, of what is kept, of results; their cells
              (n, 4): first cell, banks, cells between banks, cells of a bank; how many rows are accesses,
              given, kept
    cells     last writer, readers (cells, READERS), given, used by step (both filled here), what tells who
              may read what: operator of each step (-1: any), first row of each operator (n + 1,), operators
              it may read of; and by step who overwrote some of it last (-1: nobody; filled here)
    results   found, and by row of results its first cell that nobody has written
    """
    thread, place, clocks = steps[0], steps[1], steps[2]
    rows, at, num_accesses, num_given, num_kept = accesses
    writer, readers, given, used, origin, over = cells
    found, missing = results
    state = (thread, place, clocks, writer, readers, given, used, origin, over)
    kept = num_accesses + num_given
    for row in range(num_accesses, kept):
        _mark(at, row, given)
    count, order, first = 0, 0, 0
    for step in range(len(thread)):
        order = _begin(steps, orders, step, order)
        end = first
        while end < num_accesses and rows[end, STEP] == step:
            end += 1
        for is_write in range(2):
            for row in range(first, end):
                if rows[row, WRITE] == is_write:
                    access = (
                        step,
                        is_write,
                        rows[row, DENSE],
                        at[row, 0],
                        at[row, 1],
                        at[row, 2],
                        at[row, 3],
                    )
                    count = _touch(state, found, count, access)
        first = end
    for row in range(kept, kept + num_kept):
        _finish(at, row, writer, used)
    for row in range(len(missing)):
        missing[row] = _first_missing(at, kept + num_kept + row, writer, given)
    return count
