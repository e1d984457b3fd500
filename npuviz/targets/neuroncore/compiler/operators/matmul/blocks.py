"""How a large product is cut so that PE, not DMA, is the bottleneck.

A block of the stationary operand stays on chip for its whole K; the moving one streams past in rows of
about 4 KiB, the size at which a DMA engine is near its peak (Ref: DMA-B). Where K does not fit at once
its parts are summed in SBUF in fp32.
"""

from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.operators.matmul.panels import Depth, consecutive, spread_lanes
from npuviz.targets.neuroncore.compiler.operators.windows import blocks, even_blocks
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

ROW_BYTES = 4096
"""Run that a DMA element should have. Ref: DMA-B, saturated from 4 KiB on."""
BANK_ELEMENTS = 512
"""fp32 elements of a PSUM bank, and of a moving operand."""
_NARROW_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Blocks:
    """Half-open ranges of M, N and K.

    is_resident  the stationary block of a range of M is kept for all of K
    keep_left, keep_right  operands are small enough for the cache of fetched views
    """

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    depths: tuple[Depth, ...]
    is_resident: bool
    keep_left: bool
    keep_right: bool


def choose_blocks(sizes: tuple[int, int, int], item: int, sbuf_bytes: int) -> Blocks:
    """Blocks of a product of (M, K, N) with elements of `item` bytes.

    sbuf_bytes  of a partition that programs may use
    """
    m, k, n = sizes
    width = min(n, max(BANK_ELEMENTS, ROW_BYTES // item))
    right_limit = sbuf_bytes // 6
    chunks = max(1, right_limit // (width * item))
    keep_right = -(-k // NUM_PARTITIONS) * n * item <= sbuf_bytes // 4
    if keep_right:
        chunks = max(chunks, sbuf_bytes // 4 // (width * item))
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
    """Ranges of at most `most` * 128, all but the last a multiple of 128."""
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
