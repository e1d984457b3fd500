"""Compute levels of detail of counters: the smallest and largest value of every COUNTER_BLOCK rows."""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.trace.pyramid_kernels import first_ending_after, first_not_below

COUNTER_BLOCK = 64

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)


@_entry
def extend_extremes(value, first_block, last_block, lowest, highest):
    """Fill smallest and largest value of the blocks first_block to last_block - 1, of COUNTER_BLOCK rows
    each."""
    for block in range(first_block, last_block):
        begin = block * COUNTER_BLOCK
        small = value[begin]
        large = value[begin]
        for i in range(begin + 1, begin + COUNTER_BLOCK):
            small = min(small, value[i])
            large = max(large, value[i])
        lowest[block] = small
        highest[block] = large


@_entry
def sample_counter(cycle, value, lowest, highest, low, high, small, large, last):
    """Fill smallest, largest and last value of every column of the window; 0 before the first row.

    small, large, last  (points,) int64, written
    """
    points = len(small)
    step = (high - low) / points
    i = first_ending_after(cycle, np.floor(low))
    held = value[i - 1] if i > 0 else np.int64(0)
    for c in range(points):
        while i < len(cycle) and cycle[i] <= low + step * c:
            held = value[i]
            i += 1
        right = np.int64(np.ceil(low + step * (c + 1)))
        j = first_not_below(cycle, i, right)
        bottom = held
        top = held
        while i < j:
            if i % COUNTER_BLOCK == 0 and i + COUNTER_BLOCK <= j:
                bottom = min(bottom, lowest[i // COUNTER_BLOCK])
                top = max(top, highest[i // COUNTER_BLOCK])
                i += COUNTER_BLOCK
            else:
                bottom = min(bottom, value[i])
                top = max(top, value[i])
                i += 1
            held = value[i - 1]
        small[c] = bottom
        large[c] = top
        last[c] = held
