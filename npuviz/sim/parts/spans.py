"""Find where ranges of addresses overlap, and copy the bytes in them."""

import numpy as np


def shared(address: int, size: int, other: int, other_size: int) -> tuple[slice, slice]:
    """Return the overlap of two ranges as slices of the first and of the other; empty if there is none."""
    low = max(address, other)
    high = max(low, min(address + size, other + other_size))
    return slice(low - address, high - address), slice(low - other, high - other)


def overlay(made: np.ndarray, address: int, start: int, data: np.ndarray) -> None:
    """Copy the part of `data`, which begins at address `start`, that lies in `made`,
    which begins at `address`."""
    here, there = shared(address, len(made), start, len(data))
    made[here] = data[there]
