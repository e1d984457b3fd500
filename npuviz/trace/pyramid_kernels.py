"""Compute levels of detail over sorted columns: the cost of a question depends on the pixels, not on the
rows.

After every BLOCK intervals the covered cycles so far are kept, one number per kind that the track has
("local" kinds); a question adds the rows at both ends of a pixel to a difference of two such rows,
so that answers are exact.
All column arguments are read-only arrays; written arrays come last.
"""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

BLOCK = 16
_FETCH_COLUMNS = 64

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)

_inlined = inner(forceinline=True)
"""Decorator of helpers in hot loops: at every real call an array argument costs an atomic reference count."""


@_entry
def mark_kinds(kind, begin, seen):
    """Set seen[k] for every kind among the rows from `begin` on."""
    for i in range(begin, len(kind)):
        seen[kind[i]] = True


@_entry
def extend_sums(start, end, kind, local, first_block, last_block, sums, starts):
    """Fill the rows of `sums` for the blocks first_block to last_block - 1.

    local   (kinds,) int16: column of `sums` of each kind
    sums    (blocks + 1, width) int64; row b holds the cycles covered before interval b * BLOCK
    starts  (blocks,) int64: start of the first interval of each block
    """
    for block in range(first_block, last_block):
        begin = block * BLOCK
        for column in range(sums.shape[1]):
            sums[block + 1, column] = sums[block, column]
        for i in range(begin, begin + BLOCK):
            sums[block + 1, local[kind[i]]] += end[i] - start[i]
        starts[block] = start[begin]


@_inlined
def first_ending_after(end, cycle):
    """Return the index of the first row with end > cycle."""
    low = 0
    high = len(end)
    while low < high:
        middle = (low + high) >> 1
        if end[middle] > cycle:
            high = middle
        else:
            low = middle + 1
    return low


@_inlined
def first_between(values, low, high, limit):
    """Return the first place in [low, high) of rising values whose value is at least `limit`; `high` if there
    is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low


@_inlined
def first_not_below(values, begin, limit):
    """Return the index of the first value >= limit at or after `begin`: by doubling steps, then halving."""
    count = len(values)
    step = 1
    low = begin
    high = begin
    while high < count and values[high] < limit:
        low = high + 1
        high += step
        step <<= 1
    return first_between(values, low, min(high, count), limit)


@_inlined
def first_starting_from(start, starts, begin, cycle):
    """Return the index of the first row at or after `begin` with start >= cycle, searching block starts
    first."""
    block = first_not_below(starts, begin // BLOCK + 1, cycle)
    low = max(begin, (block - 1) * BLOCK)
    high = min(block * BLOCK, len(start)) if block < len(starts) else len(start)
    return first_between(start, low, high, cycle)


@_inlined
def _covered_by_kind(start, end, kind, sums, local, first, last, totals):
    """Add the lengths of rows [first, last) to `totals`, by local kind."""
    if last - first > 2 * BLOCK:
        head = (first // BLOCK + 1) * BLOCK
        tail = (last // BLOCK) * BLOCK
        for column in range(len(totals)):
            totals[column] += sums[tail // BLOCK, column] - sums[head // BLOCK, column]
        for i in range(first, head):
            totals[local[kind[i]]] += end[i] - start[i]
        first = tail
    for i in range(first, last):
        totals[local[kind[i]]] += end[i] - start[i]


@_inlined
def dominant_kind(start, end, kind, sums, local, owner, first, last, totals):
    """Return the kind that covers most cycles of rows [first, last), of equal ones that with the lower id;
    the first row's kind if none covers any."""
    totals[:] = 0
    _covered_by_kind(start, end, kind, sums, local, first, last, totals)
    best = 0
    for column in range(1, len(totals)):
        is_tie = totals[column] == totals[best] and owner[column] < owner[best]
        if totals[column] > totals[best] or is_tie:
            best = column
    return owner[best] if totals[best] > 0 else kind[first]


@_inlined
def _last_block_before(starts, block, limit):
    """Return the last block at or after `block` that starts before `limit`; `block` itself if none does."""
    step = 1
    if block + 1 >= len(starts) or starts[block + 1] >= limit:
        return block
    block += 1
    while block + step < len(starts) and starts[block + step] < limit:
        block += step
        step <<= 1
    while step > 1:
        step >>= 1
        if block + step < len(starts) and starts[block + step] < limit:
            block += step
    return block


@_inlined
def _sum_until(start, end, kind, starts, sums, local, row, limit, now):
    """Return the first row at or after `row` with start >= limit; `now` (changed) then holds the cycles
    covered by all rows before that row, by local kind."""
    block = row // BLOCK
    ahead = _last_block_before(starts, block, limit)
    if ahead > block:
        for column in range(len(now)):
            now[column] = sums[ahead, column]
        row = ahead * BLOCK
    while row < len(start) and start[row] < limit:
        now[local[kind[row]]] += end[row] - start[row]
        row += 1
    return row


@_inlined
def _fetch(start, end, kind, starts, sums, row, low, step, first, last):
    """Touch the memory that the columns [first, last) will read after `row`; return a number without meaning.

    Each column would wait for memory in several places; touched together, they wait once.
    """
    seen = np.int64(0)
    block = row // BLOCK
    for c in range(first, last):
        ahead = _last_block_before(starts, block, np.int64(np.ceil(low + step * (c + 1))))
        if ahead < len(starts):
            place = ahead * BLOCK
            seen += start[place] + start[place + 8] + end[place] + end[place + 8]
            seen += kind[place] + sums[ahead, 0] + sums[ahead, sums.shape[1] - 1]
        block = ahead
    return seen


@_entry
def utilization(start, end, kind, starts, sums, local, owner, wanted, low, high, covered, dominant):
    """Fill the covered part and the dominant kind of every column of the window [low, high).

    local, owner  column of `sums` of each kind; kind of each column
    wanted   (kinds,) uint8: which kinds count
    covered  (columns,) float32 in 0..1, written; dominant (columns,) int16, written, -1: nothing

    The covered cycles of a column are the difference of two sums over all rows that start before an edge,
    less what the last of these rows covers after it. The returned number has no meaning.
    """
    width = len(owner)
    step = (high - low) / len(covered)
    before = np.zeros(width, np.int64)
    now = np.zeros(width, np.int64)
    amounts = np.zeros(width, np.float64)
    weights = np.zeros(width, np.float64)
    for column in range(width):
        weights[column] = 1.0 if wanted[owner[column]] != 0 else 0.0
    row = _sum_until(start, end, kind, starts, sums, local, 0, np.int64(np.ceil(low)), now)
    behind = max(end[row - 1] - low, 0.0) if row > 0 else 0.0
    behind_column = local[kind[row - 1]] if row > 0 else 0
    seen = np.int64(0)
    blocks = _last_block_before(starts, row // BLOCK, np.int64(np.ceil(high))) - row // BLOCK
    is_dense = blocks > 3 * len(covered)
    for c in range(len(covered)):
        if is_dense and c % _FETCH_COLUMNS == 0:
            last = min(c + _FETCH_COLUMNS, len(covered))
            seen ^= _fetch(start, end, kind, starts, sums, row, low, step, c, last)
        covered[c] = 0.0
        dominant[c] = -1
        right = low + step * (c + 1)
        limit = np.int64(np.ceil(right))
        if row == len(start) or start[row] >= limit:
            amount = behind
            behind = max(end[row - 1] - right, 0.0) if row > 0 else 0.0
            amount -= behind
            if amount > 0 and wanted[owner[behind_column]] != 0:
                covered[c] = min(amount / step, 1.0)
                dominant[c] = owner[behind_column]
            continue
        for column in range(width):
            before[column] = now[column]
        row = _sum_until(start, end, kind, starts, sums, local, row, limit, now)
        last_column = local[kind[row - 1]]
        now_behind = max(end[row - 1] - right, 0.0)
        for column in range(width):
            amounts[column] = now[column] - before[column]
        amounts[behind_column] += behind
        amounts[last_column] -= now_behind
        whole = 0.0
        best = 0.0
        kind_of_best = np.int16(-1)
        for column in range(width):
            # Selections instead of branches: a processor cannot predict which kind comes next.
            amount = amounts[column] * weights[column]
            whole += amount
            is_better = (amount > best) | ((amount == best) & (amount > 0) & (owner[column] < kind_of_best))
            best = amount if is_better else best
            kind_of_best = owner[column] if is_better else kind_of_best
        dominant[c] = kind_of_best
        covered[c] = min(max(whole / step, 0.0), 1.0)
        behind = now_behind
        behind_column = last_column
    return seen


@_entry
def merge_intervals(start, end, kind, starts, sums, local, owner, low, high, resolution, first, last, kinds):
    """Group the rows of the window, merging those that begin in one pixel; return the number of groups.

    Group g is rows [first[g], last[g]) with dominant kind kinds[g]; a row of at least `resolution`
    cycles is always a group of its own.
    """
    count = 0
    totals = np.zeros(sums.shape[1], np.float64)
    i = first_ending_after(end, np.floor(low))
    while i < len(start) and start[i] < high and count < len(first):
        if end[i] - start[i] >= resolution:
            j = i + 1
        else:
            pixel = np.floor((max(np.float64(start[i]), low) - low) / resolution) + 1
            border = np.int64(np.ceil(min(low + pixel * resolution, high)))
            j = max(first_starting_from(start, starts, i, border), i + 1)
            if j - i > 1 and end[j - 1] - start[j - 1] >= resolution:
                j -= 1
        first[count] = i
        last[count] = j
        kinds[count] = kind[i]
        if j - i > 1:
            kinds[count] = dominant_kind(start, end, kind, sums, local, owner, i, j, totals)
        count += 1
        i = j
    return count
