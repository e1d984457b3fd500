"""Attention as one layer: scores, softmax and their product with the values stay on the core.

The keys are taken in parts; a running maximum and sum correct what earlier parts gave (flash attention).
All query heads that share a head of keys are rows of one product. Ref: systolic.md F7, F8: every tensor at
its own place, every key part read, output rows where they belong.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.attention import (
    AttentionSizes,
    AttentionTiling,
    choose_attention_tiling,
)
from npuviz.targets.systolic.compiler.tiling.dataflow import array_steps, cut
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, WEIGHTS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.matrix import MatrixProduct
from npuviz.targets.systolic.values.plan import Apply, Block

QUERY, KEY, VALUE, OUT, MASK = range(5)
"""Positions of the operands' base addresses in a tile."""


@dataclass(frozen=True, slots=True)
class HeadsOperand:
    """A tensor seen as batch x heads x rows x features, features contiguous.

    offset  bytes from the tensor's start to its first element
    batch, head, row  byte strides; 0 repeats
    """

    tensor: int
    batch: int
    head: int
    row: int
    offset: int = 0


@dataclass(frozen=True)
class AttentionProblem:
    """One attention: softmax(scale * Q K^T + mask) V, head by head.

    mask    added to the scores, None: none
    causal  a query of row i sees the keys up to i + causal; None: all keys
    """

    sizes: AttentionSizes
    query: HeadsOperand
    key: HeadsOperand
    value: HeadsOperand
    out: HeadsOperand
    scale: float
    mask: HeadsOperand | None = None
    causal: int | None = None


@dataclass(frozen=True, slots=True)
class _Tile:
    """One tile: query rows from `row` on, keys from `key` on."""

    row: int
    rows: int
    key: int
    keys: int
    is_first: bool
    is_last: bool


def write_attention(lowering: Lowering, node: Node, problem: AttentionProblem) -> None:
    """Write the layer of an attention. Raises CannotLower before it opens the layer."""
    tiling = choose_attention_tiling(lowering.resources, problem.sizes)
    if tiling is None:
        raise CannotLower("not even one query row with one block of keys fits the halves of a core")
    _Writer(lowering, node, problem, tiling).write()


class _Writer:
    """Writes the tiles of one attention."""

    def __init__(
        self, lowering: Lowering, node: Node, problem: AttentionProblem, tiling: AttentionTiling
    ) -> None:
        self.lowering = lowering
        self.node = node
        self.problem = problem
        self.sizes = problem.sizes
        self.tiling = tiling
        self.resources = lowering.resources
        self.root = lowering.storage(problem.out.tensor).root

    def write(self) -> None:
        problem, builder = self.problem, self.lowering.builder
        builder.begin_layer(self.node.name or self.node.op_type, self.node.id)
        self._place_entries()
        tiles = self._tiles()
        group = 0
        for batch in range(self.sizes.batch):
            for head in range(self.sizes.kv_heads):
                for chain in tiles:
                    for tile in chain:
                        self._add(tile, batch, head, group % self.resources.num_cores)
                    group += 1
        builder.end_layer()
        read = [problem.query, problem.key, problem.value, *([problem.mask] if problem.mask else [])]
        self.lowering.add_layer(self.node, [operand.tensor for operand in read], [problem.out.tensor])

    def _tiles(self) -> list[list[_Tile]]:
        """Cut into chains of tiles, one per part of the queries; parts of the keys that no query sees are
        left out."""
        found: list[list[_Tile]] = []
        for row, rows in cut(self.sizes.queries, self.tiling.queries):
            seen = self.sizes.keys
            if self.problem.causal is not None:
                seen = max(1, min(seen, row + rows + self.problem.causal))
            parts = [part for part in cut(self.sizes.keys, self.tiling.keys) if part[0] < seen]
            last = len(parts) - 1
            found.append(
                [_Tile(row, rows, *part, index == 0, index == last) for index, part in enumerate(parts)]
            )
        return found

    def _place_entries(self) -> None:
        """Fix the place of all entries, with the sizes of a whole tile."""
        builder, resources, sizes, item = self.lowering.builder, self.resources, self.sizes, self.sizes.item
        spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
        acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)
        rows, keys = sizes.group * self.tiling.queries, self.tiling.keys
        self.query = spad.entry("query", rows * sizes.features * item)
        self.key = spad.entry("key", keys * sizes.features * item)
        self.value = spad.entry("value", keys * sizes.value_features * item)
        self.mask = spad.entry("mask", rows * keys * sizes.mask_item) if self.problem.mask else 0
        self.scores = acc.entry("scores", rows * keys * ACC_BYTES)
        self.result = acc.entry("result", rows * sizes.value_features * ACC_BYTES)
        names = ("maximum", "sum", "work", "correction")
        self.maximum, self.sum, self.work, self.correction = (
            acc.entry(name, rows * ACC_BYTES) for name in names
        )

    def _add(self, tile: _Tile, batch: int, head: int, core: int) -> None:
        builder = self.lowering.builder
        causal = self.problem.causal
        # Only where the diagonal crosses a tile does its place matter to its program.
        crossed = causal is not None and tile.key + tile.keys > tile.row + causal + 1
        key = (tile.rows, tile.keys, tile.is_first, tile.is_last, tile.key - tile.row if crossed else None)
        template = builder.template(key, partial(self._template, tile, crossed))
        query_head = head * self.sizes.group
        bases = [
            self._base(self.problem.query, batch, query_head, tile.row),
            self._base(self.problem.key, batch, head, tile.key),
            self._base(self.problem.value, batch, head, tile.key),
            self._base(self.problem.out, batch, query_head, tile.row),
        ]
        if self.problem.mask:
            bases.append(self._base(self.problem.mask, batch, query_head, tile.row))
            bases[MASK] += tile.key * self.sizes.mask_item
        coord = (batch, head, tile.row, tile.key)
        builder.add_tile(template, bases, core=core, accumulate=not tile.is_first, coord=coord)

    def _base(self, operand: HeadsOperand, batch: int, head: int, row: int) -> int:
        place = operand.offset + batch * operand.batch + head * operand.head + row * operand.row
        return self.lowering.storage(operand.tensor).address + place

    def _template(self, tile: _Tile, crossed: bool, template: Template) -> None:
        sizes, problem = self.sizes, self.problem
        rows, item = sizes.group * tile.rows, sizes.item
        self._load_heads(template, self.query, QUERY, problem.query, tile.rows, sizes.features, item)
        self._load(template, self.key, KEY, problem.key, tile.keys, sizes.features)
        if problem.mask:
            self._load_heads(template, self.mask, MASK, problem.mask, tile.rows, tile.keys, sizes.mask_item)
        self._load(template, self.value, VALUE, problem.value, tile.keys, sizes.value_features)
        self._multiply(template, (self.query, self.key), self.scores, (rows, tile.keys, sizes.features), True)
        self._soften(template, tile, crossed, rows)
        shape = (rows, sizes.value_features, tile.keys)
        self._multiply(template, (self.scores, self.value), self.result, shape, tile.is_first)
        if tile.is_last:
            self._finish(template, tile, rows)

    def _load_heads(
        self,
        template: Template,
        word: int,
        base: int,
        operand: HeadsOperand,
        rows: int,
        width: int,
        item: int,
    ) -> None:
        """Load `rows` rows of every head of the group."""
        group = self.sizes.group
        place = Rows(base, 0, width * item, n0=group, s0=operand.head, n1=rows, s1=operand.row)
        aux = self.lowering.shape((group * rows, width))
        root = self.lowering.storage(operand.tensor).root
        template.movin(word, place, size=group * rows * width * item, tensor=root, aux=aux)

    def _load(
        self, template: Template, word: int, base: int, operand: HeadsOperand, rows: int, width: int
    ) -> None:
        item = self.sizes.item
        place = Rows(base, 0, width * item, n0=rows, s0=operand.row)
        root = self.lowering.storage(operand.tensor).root
        aux = self.lowering.shape((rows, width))
        template.movin(word, place, size=rows * width * item, tensor=root, aux=aux)

    def _multiply(
        self,
        template: Template,
        sources: tuple[int, int],
        destination: int,
        shape: tuple[int, int, int],
        starts: bool,
    ) -> None:
        """Multiply rows by columns over depth; adds to what the destination holds unless it `starts`."""
        rows, columns, depth = shape
        resources = self.resources
        step = resources.depth_step(depth)
        is_scores = destination == self.scores
        product = MatrixProduct(
            shape=(rows, columns),
            depth=depth,
            step=step,
            left=(sources[0],),
            right=(sources[1],),
            blocks={destination: Block(0, rows, 0, columns)},
            right_by_depth=not is_scores,
            continues=not starts,
        )
        aux = self.lowering.product(product)
        block = rows if resources.dataflow == WEIGHTS else resources.row_block
        pieces = [[size for _, size in cut(*pair)] for pair in (
            (rows, block), (columns, resources.column_block), (depth, step)
        )]  # fmt: skip
        for each in array_steps(resources, *pieces):
            template.gemm(
                sources,
                destination,
                rows=each.streamed,
                tile=each.tile,
                size=rows * columns * ACC_BYTES,
                preload=each.preload,
                tensor=self.root,
                aux=aux,
            )

    def _soften(self, template: Template, tile: _Tile, crossed: bool, rows: int) -> None:
        """Scale and mask the scores, take their exponents, and correct the results of earlier parts."""
        vector = partial(self._vector, template, rows)
        keys, scores = tile.keys, self.scores
        if self.problem.scale != 1.0:
            factor = np.float32(self.problem.scale)
            vector(tk.OP_MUL, (scores,), scores, keys, ("scale", float(factor)), lambda a, _: a * factor)
        if self.problem.mask:
            vector(tk.OP_ADD, (scores, self.mask), scores, keys, "add", np.add)
        if crossed:
            first = self.problem.causal or 0
            shift = tile.key - tile.row - first
            hide = partial(_hide, shift, tile.rows)
            vector(tk.OP_COMP, (scores,), scores, keys, ("causal", shift, tile.rows), hide)
        maximum = self.maximum if tile.is_first else self.work
        vector(tk.OP_ADDTREE, (scores,), maximum, keys, "row max", _row_max, True)
        if not tile.is_first:
            work, old, again = self.work, self.maximum, self.correction
            vector(tk.OP_COMP, (work, old), work, 1, "maximum", np.maximum)
            vector(tk.OP_ADD, (old, work), again, 1, "subtract", np.subtract)
            vector(tk.OP_EXP, (again,), again, 1, "exp", _exp)
            vector(tk.OP_COMP, (work,), old, 1, "copy", _copy)
            vector(tk.OP_MUL, (self.sum, again), self.sum, 1, "multiply", np.multiply)
            width = self.sizes.value_features
            vector(tk.OP_MUL, (self.result, again), self.result, width, "multiply", np.multiply)
        vector(tk.OP_ADD, (scores, self.maximum), scores, keys, "subtract", np.subtract)
        vector(tk.OP_EXP, (scores,), scores, keys, "exp", _exp)
        total = self.sum if tile.is_first else self.work
        vector(tk.OP_ADDTREE, (scores,), total, keys, "row sum", _row_sum, True)
        if not tile.is_first:
            vector(tk.OP_ADD, (self.sum, self.work), self.sum, 1, "add", np.add)

    def _finish(self, template: Template, tile: _Tile, rows: int) -> None:
        """Divide by the sums, and store the result."""
        vector = partial(self._vector, template, rows)
        width, out = self.sizes.value_features, self.problem.out
        vector(tk.OP_DIV, (self.sum,), self.work, 1, "reciprocal", _reciprocal)
        vector(tk.OP_MUL, (self.result, self.work), self.result, width, "multiply", np.multiply)
        length = width * self.lowering.storage(out.tensor).item_bytes
        place = Rows(OUT, 0, length, n0=self.sizes.group, s0=out.head, n1=tile.rows, s1=out.row)
        template.movout(self.result, place, tensor=self.root)

    def _vector(
        self,
        template: Template,
        rows: int,
        opcode: int,
        sources: tuple[int, ...],
        destination: int,
        width: int,
        key: Hashable,
        apply: Apply,
        reduces: bool = False,
    ) -> None:
        """Write a vector instruction over `rows` rows of `width` elements; `reduces` to one a row."""
        aux = self.lowering.function(key, apply)
        worked = width if reduces else rows * width
        wide = self.sizes.value_features if destination == self.result else self.tiling.keys
        size = rows * ACC_BYTES * (wide if destination in (self.scores, self.result) else 1)
        pair = (sources[0], sources[1] if len(sources) > 1 else 0)
        template.vector(
            opcode,
            pair,
            destination,
            vbytes=worked * ACC_BYTES,
            tile_m=rows if reduces else 1,
            size=size,
            tensor=self.root,
            aux=aux,
        )


def _hide(shift: int, rows: int, scores: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Set the scores of keys behind the diagonal to -inf; rows of several heads follow each other."""
    row = np.arange(scores.shape[0])[:, None] % rows
    hidden = np.arange(scores.shape[1])[None, :] + shift > row
    return np.where(hidden, np.float32(-np.inf), scores)


def _row_max(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.max(axis=1, keepdims=True)


def _row_sum(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.sum(axis=1, keepdims=True)


def _exp(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.exp(a)


def _copy(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.copy()


def _reciprocal(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.float32(1) / a
