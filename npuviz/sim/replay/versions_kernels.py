"""Find which version of memory each piece of work reads: each cell has a digest of its writers, in order."""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner

READS, WRITES = 1, 2
"""Phases of a row of the order."""

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)


@_inlined
def _mix(value):
    # Ref: Steele, Lea, Flood 2014, the finaliser of SplitMix64; 63 bits, so that uncompiled Python computes
    # the same.
    value &= 0x7FFF_FFFF_FFFF_FFFF
    value = ((value ^ (value >> 30)) * 0x1CE4E5B9BF58476D) & 0x7FFF_FFFF_FFFF_FFFF
    value = ((value ^ (value >> 27)) * 0x14D049BB133111EB) & 0x7FFF_FFFF_FFFF_FFFF
    return value ^ (value >> 31)


@_entry
def number_versions(order, table, cells, turns, found):
    """Walk the order and fill `found`.

    order  (n, 3) int64: entry, phase, cycle
    table  rows of each entry, (entries + 1,), and the rows, (m, 5): is write, first cell, cells, times, cells
           between
    cells  (k, 2) int64: digest of the writers so far, and position of the last one (-1 none)
    turns  (entries,) int64: how often each entry has come so far, filled here
    found  (n, 2) int64: turn of the entry, digest of the version that it reads
    """
    first, rows = table
    for at in range(len(order)):
        entry, phase = order[at, 0], order[at, 1]
        if phase & READS:
            digest = np.int64(0)
            for row in range(first[entry], first[entry + 1]):
                if rows[row, 0] == 0:
                    for time in range(rows[row, 3]):
                        begin = rows[row, 1] + time * rows[row, 4]
                        for cell in range(begin, begin + rows[row, 2]):
                            digest = _mix(digest * 31 + cells[cell, 0] + 1)
            found[at, 0] = turns[entry]
            found[at, 1] = digest
        if phase & WRITES:
            mark = _mix(np.int64(entry) * 1000003 + turns[entry] + 1)
            for row in range(first[entry], first[entry + 1]):
                if rows[row, 0] == 1:
                    for time in range(rows[row, 3]):
                        begin = rows[row, 1] + time * rows[row, 4]
                        for cell in range(begin, begin + rows[row, 2]):
                            cells[cell, 0] = _mix(cells[cell, 0] ^ mark)
                            cells[cell, 1] = at
            turns[entry] += 1
