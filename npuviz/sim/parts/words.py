"""Allocate large arrays of zero words whose pages exist only once they are touched,
in large pages if possible."""

import mmap

import numpy as np

LARGE = 1 << 22
"""Bytes from which large pages pay off: a cycle of a large machine touches more pages than the TLB holds."""
PAGE = 1 << 21


def zero_words(count: int) -> np.ndarray:
    """Return (count,) int64 zeros, owned by the caller.
    Large machines run up to 1.5 times as fast on large pages."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    size = 8 * count
    if advice is None or size < LARGE:
        return np.zeros(count, np.int64)
    try:
        # A private mapping, because shared pages of zeros are never large.
        pages = mmap.mmap(-1, size + PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(advice)
    except OSError:
        return np.zeros(count, np.int64)
    words = np.frombuffer(pages, np.int64)
    first = (-words.ctypes.data % PAGE) // 8
    return words[first : first + count]
