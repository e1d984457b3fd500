"""Walk the steps of a run with vector clocks and find accesses of the same bytes that nothing orders.

Cells are ranges of bytes that each access touches as a whole or not at all. `clocks` (steps, threads) comes
as zeros; element t of a row is how many steps of thread t are certainly over when the step begins. Steps of a
thread begin in order and end in order; that one has ended when the next begins needs a row of `orders`.

A cell holds the number of its history: its last writer and its readers since. Many cells share one, so that
a step checks each history once and only gives the cells the number of the next history.
"""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

READERS = 4
"""Readers that a history remembers; if there are more, the oldest is forgotten."""
EARLY_READ, EARLY_OVERWRITE, UNORDERED_WRITES, UNWRITTEN, FOREIGN = range(5)
WRITER, HAS_VALUE, READER, NUM_COLUMNS = 0, 1, 2, 2 + READERS
"""Columns of a history: the step that wrote last, whether the cell has a value, and the steps that have read
it since; -1 for none."""
BLANK, GIVEN = 0, 1
"""Histories of cells that no step has written: without a value, and with one given from outside."""
KNOWN = 64
"""Number of histories whose successor a step remembers."""

SEATLESS = -2
STEP, MEMORY, WRITE, DENSE, BANK, BANKS, LOW, HIGH = range(8)
"""Columns of an access: bytes low..high-1 of some banks of a memory; DENSE is one of the three codes
below."""
SPARSE, DENSE_BYTES, EXACT_END = range(3)
"""Which bytes of the range are touched: some; all; some, and certainly the last one."""

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)


@_inlined
def _note(found, count, made):
    """Record a finding, unless one of the last eight rows is the same; return the number of rows."""
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
    """Whether the operator of a step does not use the result of the operator that wrote before."""
    node, first, sources = origin
    reader, writer = node[step], node[before]
    if reader < 0 or writer < 0 or reader == writer:
        return False
    is_used = False
    for row in range(first[reader], first[reader + 1]):
        is_used = is_used or sources[row] == writer
    return not is_used


@_inlined
def _read_after(state, log, step, cell, before):
    """Check a read of what another step wrote last; return the number of findings."""
    found, count = log
    thread, place, clocks, _, used, origin, _ = state
    used[before] = True
    if clocks[step, thread[before]] < place[before]:
        return _note(found, count, (EARLY_READ, step, before, cell))
    if _is_foreign(origin, step, before):
        return _note(found, count, (FOREIGN, step, before, cell))
    return count


@_inlined
def _seat_of_reader(thread, history, step):
    """Return the column for a reader in a history: that of a reader of the same thread, a free one, or the
    oldest."""
    oldest = READER
    for column in range(READER, NUM_COLUMNS):
        other = history[column]
        if other < 0 or other == step or thread[other] == thread[step]:
            return column
        if other < history[oldest]:
            oldest = column
    return oldest


@_inlined
def _read(state, table, log, step, cell):
    """Let a step read a cell; return the numbers of findings and histories, and the cell's next history."""
    thread, now = state[0], state[3][cell]
    histories, num = table
    count = log[1]
    before = histories[now, WRITER]
    if before >= 0:
        count = _read_after(state, log, step, cell, before)
    column = _seat_of_reader(thread, histories[now], step)
    if histories[now, column] == step:
        return count, num, now
    for each in range(NUM_COLUMNS):
        histories[num, each] = histories[now, each]
    histories[num, column] = step
    return count, num + 1, num


@_inlined
def _write_over(state, history, log, step, target):
    """Let a step overwrite a cell with this history; return the number of findings."""
    found, count = log
    cell, is_dense = target
    thread, place, clocks, _, used, _, over = state
    before = history[WRITER]
    if before >= 0:
        over[before] = step
        owner = thread[before]
        if owner != thread[step] and clocks[step, owner] < place[before]:
            count = _note(found, count, (UNORDERED_WRITES, step, before, cell))
        if not is_dense:
            used[before] = True
    for column in range(READER, NUM_COLUMNS):
        reader = history[column]
        if reader < 0 or reader == step:
            continue
        owner = thread[reader]
        if owner == thread[step] or clocks[step, owner] >= place[reader]:
            continue
        kind = EARLY_OVERWRITE if history[HAS_VALUE] else EARLY_READ
        first, second = (step, reader) if history[HAS_VALUE] else (reader, step)
        count = _note(found, count, (kind, first, second, cell))
    return count


@_inlined
def _seat(step, threads, last, mine, seats):
    """Choose a thread for a step that belongs to none: one whose steps are all over when the step begins."""
    thread, place = threads
    chosen = len(last) - seats
    for t in range(len(last) - seats, len(last)):
        if mine[t] >= last[t]:
            chosen = t
            break
        if mine[t] - last[t] > mine[chosen] - last[chosen]:
            chosen = t
    # Without a free thread, the step counts as after all steps of the chosen one: hazards between them are
    # missed.
    mine[chosen] = max(mine[chosen], last[chosen])
    last[chosen] += 1
    thread[step] = chosen
    place[step] = last[chosen]


@_inlined
def _begin(steps, orders, step, order):
    """Compute the clock of a step from the step before it in its thread and those that it waited for; return
    the next row of `orders`."""
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
def _read_all(state, table, known, log, access):
    """Let a step read the cells of one access; return the numbers of findings and of histories."""
    found, count = log
    history_of = state[3]
    histories, num = table
    step, density, first, banks, pitch, width = access
    keys, values = known
    missing, place_missing = 0, 0
    for bank in range(banks):
        start = first + bank * pitch
        for cell in range(start, start + width):
            now = history_of[cell]
            if not histories[now, HAS_VALUE]:
                missing, place_missing = missing + 1, cell
            slot = now % KNOWN
            if keys[slot] != now:
                keys[slot] = now
                count, num, values[slot] = _read(state, (histories, num), (found, count), step, cell)
            history_of[cell] = values[slot]
    # A read with gaps may skip the cells without a value; but the last byte of an EXACT_END access is read.
    end = first + (banks - 1) * pitch + width - 1
    is_exact = density == EXACT_END and not histories[history_of[end], HAS_VALUE]
    if missing and (density == DENSE_BYTES or missing == banks * width or is_exact):
        count = _note(found, count, (UNWRITTEN, step, -1, place_missing))
    return count, num


@_inlined
def _write_all(state, table, known, log, access):
    """Let a step write the cells of one access; return the numbers of findings and of histories."""
    found, count = log
    history_of = state[3]
    histories, num = table
    step, density, first, banks, pitch, width = access
    keys = known[0]
    _fill(histories[num], step, 1)
    for bank in range(banks):
        start = first + bank * pitch
        for cell in range(start, start + width):
            now = history_of[cell]
            slot = now % KNOWN
            if keys[slot] != now:
                keys[slot] = now
                target = cell, density == DENSE_BYTES
                count = _write_over(state, histories[now], (found, count), step, target)
            history_of[cell] = num
    return count, num + 1


@_inlined
def _fill(history, writer, has_value):
    """Set a history to a writer and no readers."""
    history[WRITER] = writer
    history[HAS_VALUE] = has_value
    for column in range(READER, NUM_COLUMNS):
        history[column] = -1


@_inlined
def _mark(at, row, history_of):
    """Give the cells of a row the history GIVEN."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            history_of[cell] = GIVEN


@_inlined
def _finish(at, row, history_of, histories, used):
    """Mark the writers of cells that are read after the end of the run as used."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            writer = histories[history_of[cell], WRITER]
            if writer >= 0:
                used[writer] = True


@_inlined
def _first_missing(at, row, history_of, histories):
    """Return the first cell of a row that has no value, or -1."""
    for bank in range(at[row, 1]):
        start = at[row, 0] + bank * at[row, 2]
        for cell in range(start, start + at[row, 3]):
            if not histories[history_of[cell], HAS_VALUE]:
                return cell
    return -1


@_inlined
def _with_room(histories, num, more):
    """Return histories with room for `more` rows after the first `num`: the same array, or a copy more than
    twice as long."""
    if num + more <= len(histories):
        return histories
    larger = np.empty((2 * len(histories) + more, NUM_COLUMNS), np.int32)
    for row in range(num):
        for column in range(NUM_COLUMNS):
            larger[row, column] = histories[row, column]
    return larger


@_inlined
def _forget(keys):
    """Forget all remembered histories."""
    # Assigning to a slice takes numba three seconds to compile, most of them for its error text.
    for slot in range(KNOWN):
        keys[slot] = -1


@_entry
def walk(steps, orders, accesses, cells, results):
    """Walk all steps and fill `found` with rows (kind, step, other, cell); return the number of rows.

    steps     thread (-1: only orders others; -2: ordered by `orders` alone, a thread is chosen for it and
              written there), place in the thread (from 1, filled here), clocks, steps of each thread so far
              (zeros), the last of them (-1), and how many of the last threads are for steps with -2
    orders    (k, 2), sorted by the second: a step, and a later one that waited for it
    accesses  rows of accesses sorted by step, of given, kept and result ranges; their cells
              (n, 4): first cell, banks, cells between banks, cells of a bank; how many rows are accesses,
              given, kept
    cells     history of each (BLANK; filled here), whether steps' writes are used (filled here), sources:
              operator of each step (-1: any), first row of each operator (n + 1,), operators it may read of;
              and for each step the last one that overwrote some of its bytes (-1: none; filled here)
    results   found, and for each result row its first cell without a value (-1: none; filled here)
    """
    thread, place, clocks = steps[0], steps[1], steps[2]
    rows, at, num_accesses, num_given, num_kept = accesses
    history_of, used, origin, over = cells
    found, missing = results
    state = (thread, place, clocks, history_of, used, origin, over)
    known = (np.empty(KNOWN, np.int64), np.empty(KNOWN, np.int64))
    histories = np.empty((1 << 12, NUM_COLUMNS), np.int32)
    _fill(histories[BLANK], -1, 0)
    _fill(histories[GIVEN], -1, 1)
    count, order, first, num = 0, 0, 0, GIVEN + 1
    kept = num_accesses + num_given
    for row in range(num_accesses, kept):
        _mark(at, row, history_of)
    for step in range(len(thread)):
        order = _begin(steps, orders, step, order)
        end = first
        while end < num_accesses and rows[end, STEP] == step:
            end += 1
        for is_write in range(2):
            for row in range(first, end):
                if rows[row, WRITE] != is_write:
                    continue
                access = (step, rows[row, DENSE], at[row, 0], at[row, 1], at[row, 2], at[row, 3])
                _forget(known[0])
                histories = _with_room(histories, num, at[row, 1] * at[row, 3] + 1)
                table = (histories, num)
                if is_write:
                    count, num = _write_all(state, table, known, (found, count), access)
                else:
                    count, num = _read_all(state, table, known, (found, count), access)
        first = end
    for row in range(kept, kept + num_kept):
        _finish(at, row, history_of, histories, used)
    for row in range(len(missing)):
        missing[row] = _first_missing(at, kept + num_kept + row, history_of, histories)
    return count
