"""Cuts flat tensors to blocks, so that comparing a large one takes the memory of a block."""

from collections.abc import Iterator

BLOCK = 1 << 20
"""Elements of a block: some ten temporary arrays of float64, 8 MiB each."""


def blocks(size: int) -> Iterator[slice]:
    """Yield the parts of a flat tensor of `size` elements in order; one empty part of an empty tensor."""
    for start in range(0, max(1, size), BLOCK):
        yield slice(start, min(start + BLOCK, size))
