"""Sort raw event rows by the table that they belong to, with one counting sort per page.

The key of a row is where it goes: 0..T-1 an interval or counter track, T the flows, T+1+m the lifetimes
of memory m, T+1+M with M memories the causes; SKIP drops the row.
"""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

SKIP = -1

_INTERVAL = 1
_COUNTER = 2
_FLOW = 3
_LIFETIME = 4
_CAUSE = 5
_KIND_SHIFT = 48

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)

_inlined = inner(forceinline=True)
"""Decorator of helpers in hot loops: at every real call an array argument costs an atomic reference count."""


@_inlined
def _key_of(row, is_counter, num_kinds, num_memories, floor):
    """Return the key of a row (its first three words); SKIP for one that happened before `floor`; -2 for an
    invalid row."""
    head, first, second = row
    what = head >> 56
    owner = (head >> 32) & 0xFFFFFF
    num_tracks = len(is_counter)
    if what == _INTERVAL:
        if (
            owner >= num_tracks
            or is_counter[owner] != 0
            or second < first
            or (head & 0xFFFFFFFF) >= num_kinds
        ):
            return -2
        return SKIP if second <= floor else owner
    if what == _COUNTER:
        if owner >= num_tracks or is_counter[owner] == 0:
            return -2
        return SKIP if first < floor else owner
    if what == _FLOW:
        return SKIP if first < floor else num_tracks
    if what == _LIFETIME:
        if owner >= num_memories or second < first:
            return -2
        return SKIP if second <= floor else num_tracks + 1 + owner
    if what == _CAUSE:
        track = np.int32(head & 0xFFFFFFFF)
        if track < -1 or track >= num_tracks or second >> _KIND_SHIFT >= num_kinds:
            return -2
        return SKIP if first < floor else num_tracks + 1 + num_memories
    return -2


@_entry
def count_tracks(rows, counts):
    """Add to counts[t] the number of intervals and counter values of track t."""
    for i in range(len(rows)):
        head = rows[i, 0]
        owner = (head >> 32) & 0xFFFFFF
        if head >> 56 <= _COUNTER and owner < len(counts):
            counts[owner] += 1


@_entry
def assign_keys(rows, is_counter, num_kinds, num_memories, floor, last, keys, counts):
    """Give every row its key and count the rows of each; return -1, or the index of a bad row.

    last    (T,) int64, changed: cycle before which the next row of a track may not begin
    keys    (n,) int32, written; counts (T + 1 + memories,) int64, written
    """
    num_tracks = len(is_counter)
    counts[:] = 0
    for i in range(len(rows)):
        first = rows[i, 1]
        second = rows[i, 2]
        key = _key_of((rows[i, 0], first, second), is_counter, num_kinds, num_memories, floor)
        if key >= 0:
            if key < num_tracks:
                if first < last[key]:
                    return i
                last[key] = first if is_counter[key] != 0 else second
            counts[key] += 1
        elif key != SKIP:
            return i
        keys[i] = key
    return -1


@_entry
def scatter(rows, keys, places, first, second, third, code):
    """Copy the words of the rows, stably ordered by key; `places` (changed) is where each key begins."""
    for i in range(len(rows)):
        key = keys[i]
        if key < 0:
            continue
        place = places[key]
        places[key] = place + 1
        first[place] = rows[i, 1]
        second[place] = rows[i, 2]
        third[place] = rows[i, 3]
        code[place] = np.int32(rows[i, 0] & 0xFFFFFFFF)
