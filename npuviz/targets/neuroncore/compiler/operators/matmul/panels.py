"""Load operands of PE: parts of matrices with the contraction dimension K on partitions.

PE sums over partitions, so both operands need K there. A K-major matrix [K, X] in HBM is loaded as it
is; a matrix [X, K] is loaded by rows, and transposed by PE, 128 x 128 at a time. K larger than a column
of the array is cut into chunks, in one of two ways:

consecutive  chunk j holds rows 128 j .. 128 j + 127: long runs along the other axis
spread       partition p holds rows p J .. p J + J - 1: one long run per partition, for narrow matrices
"""

from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks, even_blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

FLOATS = ("float32", "bfloat16", "float16")
PIECE_BYTES = 1 << 14
"""Most bytes that one load brings to a partition."""
_TURNED_PER_BANK = 4
"""128 x 128 blocks of fp32 that a PSUM bank of 2 KiB holds side by side."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in HBM; `view` is [K, X] if is_k_major, else [X, K]."""

    view: HbmView
    is_k_major: bool

    @property
    def depth(self) -> int:
        """K."""
        return self.view.shape[0 if self.is_k_major else 1]

    @property
    def width(self) -> int:
        """X: M of the stationary operand, N of the moving one."""
        return self.view.shape[1 if self.is_k_major else 0]


@dataclass(frozen=True, slots=True)
class Depth:
    """A range of K, in chunks of `lanes` partitions; the last has fewer if the chunks are consecutive."""

    first: int
    end: int
    lanes: int
    is_spread: bool

    @property
    def chunks(self) -> int:
        """Number of chunks, which are the matmuls that PE accumulates."""
        return -(-(self.end - self.first) // self.lanes)

    def height(self, chunk: int) -> int:
        """Return the partitions of a chunk."""
        return min(self.lanes, self.end - self.first - chunk * self.lanes)


def spread_lanes(count: int) -> int:
    """Return the largest divisor of `count` that is at most the number of partitions."""
    return max(lanes for lanes in range(1, min(count, NUM_PARTITIONS) + 1) if count % lanes == 0)


def consecutive(first: int, end: int) -> Depth:
    """Return a range of K in chunks of 128 consecutive rows."""
    return Depth(first, end, min(NUM_PARTITIONS, end - first), False)


def operand_dtype(b: Builder, dtype: str) -> str:
    """Return the type in which PE reads a float tensor: the compute type for float32."""
    return b.hbm.compute_dtype if dtype == "float32" else dtype


def bring(b: Builder, source: HbmView, dtype: str, is_kept: bool) -> View:
    """Bring elements to SBUF: a fetched view, shared by the cache, or loaded to a new tile."""
    if is_kept:
        return b.dma.fetch(source, dtype)
    tile = b.tiles.sbuf(source.shape[0], source.shape[1:], dtype)
    b.dma.load(tile, source)
    return tile


def panel(
    b: Builder, matrix: Matrix, depth: Depth, columns: tuple[int, int], dtype: str, is_kept: bool
) -> list[View]:
    """Load the chunks [K of the chunk, X of `columns`] of a matrix, as `dtype`."""
    if matrix.is_k_major:
        return _as_stored(b, matrix.view, depth, columns, dtype, is_kept)
    return _turned(b, matrix.view, depth, columns, dtype, is_kept)


def _as_stored(
    b: Builder, view: HbmView, depth: Depth, columns: tuple[int, int], dtype: str, is_kept: bool
) -> list[View]:
    part = view[depth.first : depth.end, columns[0] : columns[1]]
    width = columns[1] - columns[0]
    lanes = depth.lanes
    whole = (depth.end - depth.first) // lanes
    if depth.is_spread:
        source = part.reshape(lanes, depth.chunks, width)
    else:
        source = part[: whole * lanes].reshape(whole, lanes, width).permute(1, 0, 2)
    found: list[View] = []
    # In pieces, so that PE can start on the first, and the tiles fit into smaller gaps.
    for first, end in even_blocks(whole, max(1, PIECE_BYTES // (width * item_bytes(dtype)))):
        tile = bring(b, source[:, first:end], dtype, is_kept)
        found += [tile[:, chunk] for chunk in range(end - first)]
    if depth.end - depth.first > whole * lanes:
        found.append(bring(b, part[whole * lanes :], dtype, is_kept))
    return found


def _turned(
    b: Builder, view: HbmView, depth: Depth, columns: tuple[int, int], dtype: str, is_kept: bool
) -> list[View]:
    tile = b.tiles.sbuf(depth.lanes, (depth.chunks, columns[1] - columns[0]), dtype)
    for x0, x1 in blocks(columns[1] - columns[0], NUM_PARTITIONS):
        for c0, c1 in _pieces(depth, item_bytes(dtype)):
            with b.tiles.scope():
                k0, k1 = depth.first + c0 * depth.lanes, min(depth.end, depth.first + c1 * depth.lanes)
                part = Depth(k0, k1, depth.lanes, depth.is_spread)
                rows = bring(b, view[columns[0] + x0 : columns[0] + x1, k0:k1], dtype, is_kept)
                for first, end in _groups(part):
                    with b.tiles.scope():
                        high = part.height(first)
                        bank = b.tiles.psum(high, (end - first, x1 - x0))
                        for chunk in range(first, end):
                            b.isa.transpose(bank[:, chunk - first], _rows_of(rows, part, chunk))
                        b.isa.copy(tile[:high, c0 + first : c0 + end, x0:x1], bank)
    return [tile[: depth.height(chunk), chunk] for chunk in range(depth.chunks)]


def _pieces(depth: Depth, item: int) -> list[tuple[int, int]]:
    """Return the ranges of chunks whose rows are loaded together."""
    if depth.is_spread:
        return [(0, depth.chunks)]
    return even_blocks(depth.chunks, max(1, PIECE_BYTES // (depth.lanes * item)))


def turned_bytes(depth: Depth, item: int) -> int:
    """Return the bytes of a partition that rows take while they are transposed."""
    chunks = max(end - first for first, end in _pieces(depth, item))
    return min(depth.end - depth.first, chunks * depth.lanes) * item


def _rows_of(rows: View, depth: Depth, chunk: int) -> View:
    if depth.is_spread:
        return rows[:, chunk :: depth.chunks]
    return rows[:, chunk * depth.lanes : chunk * depth.lanes + depth.height(chunk)]


def _groups(depth: Depth) -> list[tuple[int, int]]:
    """Return the ranges of chunks of equal height that share a PSUM bank."""
    whole = depth.chunks if depth.height(depth.chunks - 1) == depth.lanes else depth.chunks - 1
    found = blocks(whole, _TURNED_PER_BANK)
    return found if whole == depth.chunks else [*found, (whole, depth.chunks)]
