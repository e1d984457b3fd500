"""Walks the steps of a run with vector clocks: which accesses of the same bytes nothing has ordered.

Cells stand for bytes that every access touches together or not at all. `clocks` (steps, threads) comes as
zeros; place t of a row is how many steps of thread t are certainly over when the step begins. Steps of a
thread begin in their order and end in their order; that one is over when the next begins has to be said.
"""

# pyright: reportMissingParameterType=false

from typing import Any

import numba as nb

from npuviz.base.kernels import entries

READERS = 4
"""Readers of a cell that are remembered; of more the oldest is forgotten."""
EARLY_READ, EARLY_OVERWRITE, UNORDERED_WRITES, UNWRITTEN, FOREIGN = range(5)

SEATLESS = -2

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_INLINE: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
_inlined = nb.njit(nogil=True, **_INLINE)


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
    thread, place, clocks, writer, _, _, used, origin = state
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
    thread, place, clocks, writer, readers, given, used, _ = state
    before = writer[cell]
    if before >= 0:
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


@_entry
def walk(steps, orders, accesses, cells, found):
    """Fill `found` (kind, step, other, cell); returns how many rows.

    steps     thread (-1: only orders others; -2: after nothing but what is said, a thread is found for it and
              written there), place in the thread (from 1), step before in the thread (-1), clocks,
              steps of each thread so far (zeros), and how many of the last threads are for steps of none
    orders    first row of each step (n + 1,), earlier steps
    accesses  first row of each step (n + 1,), (m, 7): write, dense, first cell, banks, cells between banks,
              cells of a bank
    cells     last writer, readers (cells, READERS), given, used by step, and what tells who may read what:
              operator of each step (-1: any), first row of each operator (n + 1,), operators it may read of
    """
    thread, place, previous, clocks, last, seats = steps
    order_first, earlier = orders
    first, rows = accesses
    writer, readers, given, used, origin = cells
    state = (thread, place, clocks, writer, readers, given, used, origin)
    count = 0
    for step in range(len(thread)):
        mine = clocks[step]
        if previous[step] >= 0:
            mine[:] = clocks[previous[step]]
        for row in range(order_first[step], order_first[step + 1]):
            before = earlier[row]
            other = clocks[before]
            for t in range(len(mine)):
                mine[t] = max(mine[t], other[t])
            if thread[before] >= 0:
                mine[thread[before]] = max(mine[thread[before]], place[before])
        if thread[step] == SEATLESS:
            _seat(step, (thread, place), last, mine, seats)
        for is_write in range(2):
            for row in range(first[step], first[step + 1]):
                if rows[row, 0] != is_write:
                    continue
                missing, place_missing = 0, 0
                # Cells side by side mostly have one writer and the same readers, which are looked at once.
                seen = -1
                for bank in range(rows[row, 3]):
                    start = rows[row, 2] + bank * rows[row, 4]
                    for cell in range(start, start + rows[row, 5]):
                        if is_write:
                            count, seen = _write(state, found, count, step, (cell, rows[row, 1], seen))
                            continue
                        before = writer[cell]
                        if before < 0:
                            if not given[cell]:
                                missing, place_missing = missing + 1, cell
                        elif before != seen:
                            count = _read_after(state, found, count, step, cell)
                            seen = before
                        _remember(state, step, cell)
                # Of what is read with gaps, the gaps may be what nobody has written.
                if missing and (rows[row, 1] or missing == rows[row, 3] * rows[row, 5]):
                    count = _note(found, count, (UNWRITTEN, step, -1, place_missing))
    return count
