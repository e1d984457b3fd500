"""Divide a large product into blocks so that PE, not DMA, is the bottleneck.

A block of the stationary operand stays on chip for its whole K. The moving operand is streamed in rows
of about 4 KiB, the size at which a DMA engine is near its peak (Ref: DMA-B). If K does not fit at once,
the sums of its parts are added in SBUF in fp32.
"""

from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.operators.matmul.panels import (
    Depth,
    consecutive,
    spread_lanes,
    turned_bytes,
)
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks, even_blocks
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

ROW_BYTES = 4096
"""Wanted bytes of a DMA element. Ref: DMA-B, saturated from 4 KiB on."""
BANK_ELEMENTS = 512
"""fp32 elements of a PSUM bank, and of a moving operand."""
_NARROW_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Blocks:
    """Half-open ranges of M, N and K.

    is_resident  the stationary block of a range of M is kept for all of K
    keep_left, keep_right  whether the operand is small enough for the cache of fetched views
    """

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    depths: tuple[Depth, ...]
    is_resident: bool
    keep_left: bool
    keep_right: bool

    def sbuf_bytes(self, item: int, is_turned: tuple[bool, bool]) -> int:
        """Return the bytes of a partition that are in use at once, without the tile of the result."""
        rows, columns = (max(end - first for first, end in ranges) for ranges in (self.rows, self.columns))
        deepest = max(depth.chunks for depth in self.depths)
        kept = sum(depth.chunks for depth in self.depths) if self.is_resident else deepest
        stationary = kept * rows * item
        sums = -(-rows // NUM_PARTITIONS) * columns * 4 if len(self.depths) > 1 else 0
        piece = max(turned_bytes(depth, item) for depth in self.depths)
        while_turning = stationary + piece * is_turned[0] + sums * (not self.is_resident)
        return max(while_turning, stationary + deepest * columns * item + piece * is_turned[1] + sums)


def choose_blocks(
    sizes: tuple[int, int, int], item: int, sbuf_bytes: int, is_turned: tuple[bool, bool] = (False, False)
) -> Blocks:
    """Choose the blocks of a product of (M, K, N) with elements of `item` bytes.

    sbuf_bytes  bytes of a partition that programs may use
    is_turned   whether the left, and the right, operand must be transposed
    """
    _, k, n = sizes
    width = min(n, max(BANK_ELEMENTS, ROW_BYTES // item))
    right_limit = sbuf_bytes // 6
    chunks = max(1, right_limit // (width * item))
    keep_right = -(-k // NUM_PARTITIONS) * n * item <= sbuf_bytes // 4
    if keep_right:
        chunks = max(chunks, sbuf_bytes // 4 // (width * item))
    plan = _blocks(sizes, item, sbuf_bytes, chunks, keep_right)
    # The limits above assume 128 lanes and wide rows. A spread depth may have half the lanes, and so twice
    # the chunks; with few columns, K may be so deep that 128 rows alone are too large.
    while chunks > 1 and plan.sbuf_bytes(item, is_turned) > sbuf_bytes:
        chunks = min(chunks, -(-k // NUM_PARTITIONS)) // 2
        plan = _blocks(sizes, item, sbuf_bytes, chunks, keep_right)
    return plan


def _blocks(sizes: tuple[int, int, int], item: int, sbuf_bytes: int, chunks: int, keep_right: bool) -> Blocks:
    """Make the blocks, with ranges of K of at most `chunks` * 128."""
    m, k, n = sizes
    width = min(n, max(BANK_ELEMENTS, ROW_BYTES // item))
    depths = tuple(
        _depth(first, end, m == 1 or (n == width and width * item < _NARROW_BYTES))
        for first, end in even_chunks(k, chunks)
    )
    lanes = min(depth.lanes for depth in depths)
    per_row = -(-k // lanes) * item
    resident = sbuf_bytes * 3 // 8 // per_row // NUM_PARTITIONS * NUM_PARTITIONS
    is_resident = resident >= min(m, NUM_PARTITIONS)
    if not is_resident:
        deepest = max(depth.chunks for depth in depths)
        resident = max(1, (sbuf_bytes // 3) // (deepest * item) // NUM_PARTITIONS) * NUM_PARTITIONS
    if len(depths) > 1:
        sums = max(1, (sbuf_bytes // 5) // (width * 4))
        resident = min(resident, sums * NUM_PARTITIONS)
    return Blocks(
        tuple(blocks(m, max(NUM_PARTITIONS, resident))),
        tuple(blocks(n, width)),
        depths,
        is_resident,
        keep_left=-(-m // NUM_PARTITIONS) * k * item <= sbuf_bytes // 4,
        keep_right=keep_right,
    )


def even_chunks(count: int, most: int) -> list[tuple[int, int]]:
    """Divide `count` into ranges of at most `most` * 128, all but the last a multiple of 128."""
    units = -(-count // NUM_PARTITIONS)
    return [
        (first * NUM_PARTITIONS, min(count, end * NUM_PARTITIONS)) for first, end in even_blocks(units, most)
    ]


def _depth(first: int, end: int, is_narrow: bool) -> Depth:
    count = end - first
    lanes = spread_lanes(count)
    if is_narrow and count > NUM_PARTITIONS and lanes > NUM_PARTITIONS // 2:
        return Depth(first, end, lanes, True)
    return consecutive(first, end)
