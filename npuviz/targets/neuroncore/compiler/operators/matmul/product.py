"""Multiply two matrices in HBM on PE, and call a function that finishes each tile of the result."""

from collections.abc import Callable
from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.blocks import BANK_ELEMENTS, Blocks, choose_blocks
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import (
    Depth,
    Matrix,
    bring,
    consecutive,
    operand_dtype,
    panel,
    spread_lanes,
)
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a result [M, N] in one tile: [rows, columns], or a single row as [lanes, N / lanes].

    lanes  number of partitions that a single row of N is spread over, else 0
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    lanes: int = 0

    @property
    def partitions(self) -> int:
        """Partitions of the tile."""
        return self.lanes or self.rows[1] - self.rows[0]

    def of(self, matrix: HbmView) -> HbmView:
        """Return the region's elements of a matrix [M, N]."""
        part = matrix[self.rows[0] : self.rows[1], self.columns[0] : self.columns[1]]
        return part.reshape(self.lanes, -1) if self.lanes else part

    def column(self, matrix: HbmView) -> HbmView:
        """Return the region's elements of a matrix [M, 1], one per partition."""
        part = matrix[self.rows[0] : self.rows[1]]
        return part.broadcast_to((self.lanes, 1)) if self.lanes else part


Finish = Callable[[View, View, Region], None]
"""Function that writes the tile (first) from the fp32 sums (second; in PSUM or SBUF) of a region."""


def multiply(
    b: Builder, left: Matrix, right: Matrix, out: HbmView, finish: Finish | None = None, dtype: str = ""
) -> None:
    """Emit out[M, N] = left @ right; `left` is [K, M] if K-major, else [M, K]; `right` [K, N] or [N, K].

    dtype  type that PE reads; "" for the operands' common compute type
    """
    kind = dtype or _common_dtype(b, left, right)
    one_row = left.width == 1 and right.is_k_major
    one_row = one_row and right.width * item_bytes(kind) < b.spec.sbuf_usable_bytes
    lanes = spread_lanes(right.width)
    if one_row and lanes >= NUM_PARTITIONS // 4 and right.width // lanes <= BANK_ELEMENTS:
        _Row(b, left, right, out, finish, kind).run(lanes)
    else:
        _Product(b, left, right, out, finish, kind).run()


def _common_dtype(b: Builder, left: Matrix, right: Matrix) -> str:
    kinds = {operand_dtype(b, left.view.dtype), operand_dtype(b, right.view.dtype)}
    return kinds.pop() if len(kinds) == 1 else "float32"


class _Product:
    """Emits the general product in blocks."""

    def __init__(
        self, b: Builder, left: Matrix, right: Matrix, out: HbmView, finish: Finish | None, dtype: str
    ) -> None:
        self.b, self.left, self.right, self.out, self.dtype = b, left, right, out, dtype
        self.finish = finish
        sizes = (left.width, left.depth, right.width)
        is_turned = (not left.is_k_major, not right.is_k_major)
        self.blocks: Blocks = choose_blocks(sizes, item_bytes(dtype), b.spec.sbuf_usable_bytes, is_turned)

    def run(self) -> None:
        """Emit the whole product."""
        plan = self.blocks
        for rows in plan.rows:
            with self.b.tiles.scope():
                kept = self._resident(rows) if plan.is_resident else {}
                for columns in plan.columns:
                    with self.b.tiles.scope():
                        self._columns(kept, rows, columns)

    def _resident(self, rows: tuple[int, int]) -> dict[int, list[View]]:
        """Load the stationary operand for all of K: {first of each range of K: its chunks}."""
        depths = self.blocks.depths
        if any(depth.is_spread for depth in depths):
            return {depth.first: self._stationary(depth, rows) for depth in depths}
        chunks = iter(self._stationary(consecutive(0, self.left.depth), rows))
        return {depth.first: [next(chunks) for _ in range(depth.chunks)] for depth in depths}

    def _stationary(self, depth: Depth, rows: tuple[int, int]) -> list[View]:
        return panel(self.b, self.left, depth, rows, self.dtype, self.blocks.keep_left)

    def _columns(self, kept: dict[int, list[View]], rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Emit a block of rows and columns: sum over the ranges of K, finish, store."""
        b, depths = self.b, self.blocks.depths
        parts = blocks(rows[1] - rows[0], NUM_PARTITIONS)
        width = columns[1] - columns[0]
        sums: list[View] = []
        if len(depths) > 1:
            total = b.tiles.sbuf(NUM_PARTITIONS, (len(parts), width), "float32")
            sums = [total[: p1 - p0, index] for index, (p0, p1) in enumerate(parts)]
        for order, depth in enumerate(depths):
            with b.tiles.scope():
                stationary = kept.get(depth.first) or self._stationary(depth, rows)
                moving = panel(b, self.right, depth, columns, self.dtype, self.blocks.keep_right)
                is_last = order == len(depths) - 1
                for index, part in enumerate(parts):
                    region = Region((rows[0] + part[0], rows[0] + part[1]), columns)
                    target = sums[index] if sums else None
                    self._row_part((stationary, moving), part, region, (target, order == 0, is_last))

    def _row_part(
        self,
        operands: tuple[list[View], list[View]],
        part: tuple[int, int],
        region: Region,
        summing: tuple[View | None, bool, bool],
    ) -> None:
        """Emit up to 128 rows for one range of K: an accumulation per PSUM bank, each then evacuated."""
        b = self.b
        stationary, moving = operands
        total, is_first, is_last = summing
        width = region.columns[1] - region.columns[0]
        height = part[1] - part[0]
        with b.tiles.scope():
            tile = b.tiles.sbuf(height, (width,), self.out.dtype) if is_last else None
            for n0, n1 in blocks(width, BANK_ELEMENTS):
                with b.tiles.scope():
                    bank = b.tiles.psum(height, (n1 - n0,))
                    for chunk, (fixed, stream) in enumerate(zip(stationary, moving, strict=True)):
                        b.isa.matmul(
                            bank, fixed[:, part[0] : part[1]], stream[:, n0:n1], accumulate=chunk > 0
                        )
                    where = Region(region.rows, (region.columns[0] + n0, region.columns[0] + n1))
                    part_sum = None if total is None else total[:, n0:n1]
                    self._evacuate(bank, part_sum, None if tile is None else tile[:, n0:n1], is_first, where)
            if tile is not None:
                b.dma.store(region.of(self.out), tile)

    def _evacuate(
        self, bank: View, total: View | None, target: View | None, is_first: bool, region: Region
    ) -> None:
        """Evacuate a bank: to `total`, the sums over ranges of K, or, finished, to `target`, which is
        stored.
        """
        b = self.b
        if target is None:
            assert total is not None
            if is_first:
                b.isa.copy(total, bank)
            else:
                b.isa.tensor_tensor(total, bank, total, Alu.ADD)
        elif total is None:
            _finish(b, self.finish, target, bank, region)
        elif self.finish is None:
            b.isa.tensor_tensor(target, bank, total, Alu.ADD)
        else:
            b.isa.tensor_tensor(total, bank, total, Alu.ADD)
            self.finish(target, total, region)


def _finish(b: Builder, finish: Finish | None, target: View, source: View, region: Region) -> None:
    if finish is None:
        b.isa.copy(target, source)
    else:
        finish(target, source, region)


class _Row:
    """Emits one row times a matrix: the matrix is stationary, so PE takes 64 cycles for 128 x 128 elements.

    Output n = p * N / lanes + t lies in partition p, column t of the bank.
    """

    def __init__(
        self, b: Builder, left: Matrix, right: Matrix, out: HbmView, finish: Finish | None, dtype: str
    ) -> None:
        self.b, self.left, self.right, self.out, self.dtype = b, left, right, out, dtype
        self.finish = finish

    def run(self, lanes: int) -> None:
        """Emit the whole product."""
        b, k, n = self.b, self.right.depth, self.right.width
        item = item_bytes(self.dtype)
        high = spread_lanes(k)
        is_spread = high > NUM_PARTITIONS // 2 or k <= NUM_PARTITIONS
        depth = Depth(0, k, high if is_spread else NUM_PARTITIONS, is_spread)
        row = self.left.view.reshape(k)
        region = Region((0, 1), (0, n), lanes)
        groups = n // lanes
        with b.tiles.scope():
            source = self._row_chunks(row, depth)
            bank = b.tiles.psum(lanes, (groups,))
            per_chunk = n * item
            step = max(1, b.spec.sbuf_usable_bytes // 6 // per_chunk)
            is_kept = per_chunk * depth.chunks <= b.spec.sbuf_usable_bytes // 4
            for first, end in blocks(depth.chunks, step):
                with b.tiles.scope():
                    weights = self._weights(depth, (first, end), is_kept)
                    for chunk in range(first, end):
                        fixed = weights[chunk - first]
                        for group in range(groups):
                            b.isa.matmul(
                                bank[:, group : group + 1],
                                fixed[:, group::groups],
                                source[chunk],
                                accumulate=chunk > 0,
                            )
            tile = b.tiles.sbuf(lanes, (groups,), self.out.dtype)
            _finish(b, self.finish, tile, bank, region)
            b.dma.store(region.of(self.out), tile)

    def _row_chunks(self, row: HbmView, depth: Depth) -> list[View]:
        """Load the row with K on partitions, one column per chunk."""
        if depth.is_spread:
            tile = self.b.dma.fetch(row.reshape(depth.lanes, depth.chunks), self.dtype)
            return [tile[:, chunk : chunk + 1] for chunk in range(depth.chunks)]
        return panel(self.b, Matrix(row.reshape(-1, 1), True), depth, (0, 1), self.dtype, True)

    def _weights(self, depth: Depth, chunks: tuple[int, int], is_kept: bool) -> list[View]:
        view, n = self.right.view, self.right.width
        if depth.is_spread:
            part = view.reshape(depth.lanes, depth.chunks, n)[:, chunks[0] : chunks[1]]
            tile = bring(self.b, part, self.dtype, is_kept)
            return [tile[:, chunk] for chunk in range(chunks[1] - chunks[0])]
        first, end = chunks[0] * depth.lanes, min(depth.end, chunks[1] * depth.lanes)
        part = Depth(first, end, depth.lanes, False)
        return panel(self.b, self.right, part, (0, n), self.dtype, is_kept)
