"""Writes the tiles of a convolution."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.formulas import Step
from npuviz.targets.systolic.compiler.operators.zero_points import load_zeros, place_zeros, zero_addresses
from npuviz.targets.systolic.compiler.template import Template
from npuviz.targets.systolic.compiler.tiling.choices import assign
from npuviz.targets.systolic.compiler.tiling.dataflow import array_steps
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, ceil_div
from npuviz.targets.systolic.compiler.tiling.resources import WEIGHTS as WEIGHTS_STAY
from npuviz.targets.systolic.compiler.tiling.window import WindowProblem, WindowTiling
from npuviz.targets.systolic.compiler.windows import (
    Cut,
    box_rows,
    cut_axis,
    distinct_columns,
    spatial_strides,
    tile_indices,
)
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.plan import Apply, Block
from npuviz.targets.systolic.values.window import WindowProduct, WindowView

WINDOW, WEIGHTS, OUT, RESIDUAL, VECTORS = 0, 1, 2, 3, 4
"""Positions of the operands' base addresses in a tile; those of vectors follow each other."""

Span = tuple[int, int]
"""(start, length)"""


@dataclass(frozen=True)
class ChannelVector:
    """A tensor with one element per output channel that a vector instruction applies to the result."""

    tensor: int
    opcode: int
    name: str
    apply: Apply


@dataclass(frozen=True)
class ConvProblem:
    """A convolution with its tiling; tensor ids, -1 where absent.

    vectors  applied in order before residual and epilogue: bias, scales
    groups  1 for a depthwise one, whose channels the vector unit handles independently
    zeros   tensors of the zero points of source and weights that are known at run time only
    """

    source: int
    weights: int
    vectors: tuple[ChannelVector, ...]
    residual: int
    output: int
    batch: int
    groups: int
    shape: WindowProblem
    tiling: WindowTiling
    assignment: str
    epilogue: tuple[Step, ...]
    dtype: str = "float32"
    source_zero: int = 0
    weight_zero: int = 0
    zeros: tuple[int, int] = (-1, -1)


def write_convolution(lowering: Lowering, node: Node, problem: ConvProblem) -> None:
    """Write the layer of a convolution."""
    builder = lowering.builder
    (height, width), tiling = (problem.shape.height.out, problem.shape.width.out), problem.tiling
    builder.require_tiles(ceil_div(height, tiling.rows) * ceil_div(width, tiling.columns), node.name)
    writer = _Writer(lowering, problem)
    builder.begin_layer(node.name or node.op_type, node.id)
    writer.place_entries()
    writer.add_tiles()
    builder.end_layer()
    vectors = (vector.tensor for vector in problem.vectors)
    inputs = (problem.source, problem.weights, *vectors, problem.residual, *problem.zeros)
    lowering.add_layer(node, inputs, (problem.output,))


def spans(size: int, step: int) -> list[Span]:
    """Return (start, length) of consecutive parts of at most `step`."""
    return [(start, min(step, size - start)) for start in range(0, size, step)]


@dataclass(frozen=True, slots=True)
class _Part:
    """One tile's ranges: output rows and columns, output channels, input channels."""

    row: Cut
    column: Cut
    outputs: int
    inputs: int
    is_last: bool

    @property
    def pixels(self) -> int:
        return self.row.count * self.column.count


class _Writer:
    def __init__(self, lowering: Lowering, problem: ConvProblem) -> None:
        self.lowering = lowering
        self.problem = problem
        self.resources = lowering.resources
        shape, tiling = problem.shape, problem.tiling
        self.rows = cut_axis(shape.height, tiling.rows)
        self.columns = cut_axis(shape.width, tiling.columns)
        self.outputs = spans(shape.outputs, tiling.outputs)
        self.inputs = spans(shape.inputs, tiling.inputs) if shape.is_array else [(0, 0)]
        self.strides = {
            index: spatial_strides(lowering, index)
            for index in (problem.source, problem.output, problem.residual)
            if index >= 0
        }
        weight = lowering.storage(problem.weights).strides()
        self.weight_strides = weight if len(weight) == 4 else (weight[0], weight[1], 0, weight[2])
        self.kernel = (shape.height.kernel, shape.width.kernel)
        self.positions = [(s, r) for s in range(self.kernel[0]) for r in range(self.kernel[1])]
        self.zero_base = VECTORS + len(problem.vectors)
        self._check_expressible()

    def _check_expressible(self) -> None:
        """Make every box once, to raise for inexpressible ones before the layer is opened."""
        for row in self.rows.kinds:
            for column in self.columns.kinds:
                for _, outputs in self.outputs:
                    part = _Part(row, column, outputs, self.inputs[0][1] or outputs, True)
                    self._window_box(part)
                    self._out_box(part, 0, outputs, self.problem.output, OUT)
                    if self.problem.residual >= 0:
                        self._out_box(part, 0, outputs, self.problem.residual, RESIDUAL)

    # Entries -----------------------------------------------------------------------------------

    def place_entries(self) -> None:
        """Fix the place of all entries, with the sizes of the largest tile."""
        lowering, problem, builder = self.lowering, self.problem, self.lowering.builder
        request = self.resources.request_bytes
        spad = Half(builder.scratchpad_entry, request, self.resources.spad_half)
        acc = Half(builder.accumulator_entry, request, self.resources.acc_half)
        item, weight_item = problem.shape.item, problem.shape.weight_item
        rows, columns = self.rows.longest, self.columns.longest
        depth = problem.tiling.inputs
        pixels = self.rows.most * self.columns.most
        self.window = spad.entry("window", rows * columns * depth * item)
        blocks = self._blocks(problem.tiling.outputs)
        if problem.shape.is_array:
            self.weights = {
                (j, p): spad.entry(("weights", j, p), m * depth * weight_item)
                for j, (_, m) in enumerate(blocks)
                for p in range(len(self.positions))
            }
        else:
            size = len(self.positions) * problem.tiling.outputs * weight_item
            self.weights = {(0, 0): spad.entry("weights", size)}
        self.zeros = place_zeros(spad, problem.zeros)
        self.vectors: list[list[int]] = [[] for _ in problem.vectors]
        self.residuals: list[int] = []
        self.results: list[int] = []
        for j, (_, m) in enumerate(blocks):
            self.results.append(acc.entry(("out", j), pixels * m * ACC_BYTES))
            for place, vector in enumerate(problem.vectors):
                item_bytes = lowering.storage(vector.tensor).item_bytes
                self.vectors[place].append(spad.entry(("vector", place, j), m * item_bytes))
            if problem.residual >= 0:
                self.residuals.append(spad.entry(("residual", j), pixels * m * item))

    def _blocks(self, outputs: int) -> list[Span]:
        """Cut the output channels of a tile into blocks: of the array's width, or all of them on the vector
        unit."""
        return spans(outputs, self.resources.column_block if self.problem.shape.is_array else outputs)

    # Tiles -------------------------------------------------------------------------------------

    def add_tiles(self) -> None:
        """Add all tiles; input channels innermost, so that they accumulate."""
        problem, builder = self.problem, self.lowering.builder
        counts = (
            problem.batch,
            problem.groups,
            len(self.rows),
            len(self.columns),
            len(self.outputs),
            len(self.inputs),
        )
        batch, group, row, column, out, part = tile_indices(builder, *counts)
        out_count = np.array([length for _, length in self.outputs])[out]
        in_count = np.array([length for _, length in self.inputs])[part]
        is_last = part == counts[-1] - 1
        keys = np.stack(
            [
                self.rows.kind[row],
                self.columns.kind[column],
                out_count,
                in_count,
                is_last.astype(np.int64),
            ]
        )
        distinct, which = distinct_columns(keys)
        ids: list[int] = []
        for r, c, outputs, inputs, last in distinct.T.tolist():
            tile = _Part(self.rows.kinds[r], self.columns.kinds[c], outputs, inputs or outputs, bool(last))
            ids.append(builder.template((r, c, outputs, inputs, last), partial(self._template, tile)))
        group_of_tile = np.arange(len(part)) // counts[-1]
        builder.add_tiles(
            np.array(ids)[which],
            self._bases(batch, group, row, column, out, part),
            cores=assign(
                group_of_tile, len(part) // counts[-1], self.resources.num_cores, problem.assignment
            ),
            accumulate=part > 0,
            coords=np.stack([batch, group, row, column, out, part], axis=1),
        )

    def _bases(self, *indices: np.ndarray) -> np.ndarray:
        batch, group, row, column, out, part = indices
        problem, storage = self.problem, self.lowering.storage
        first = np.stack([self.rows.first, self.rows.start], axis=1)[row]
        left = np.stack([self.columns.first, self.columns.start], axis=1)[column]
        outputs = group * problem.shape.outputs + np.array([start for start, _ in self.outputs])[out]
        inputs = np.array([start for start, _ in self.inputs])[part]
        channel = group * problem.shape.inputs + inputs if problem.shape.is_array else outputs

        def image(index: int, channels: np.ndarray, use: int) -> np.ndarray:
            n, c, h, w = self.strides[index]
            return storage(index).address + batch * n + channels * c + first[:, use] * h + left[:, use] * w

        zeros = zero_addresses(self.lowering, problem.zeros)
        bases = np.zeros((len(batch), self.zero_base + len(zeros)), dtype=np.int64)
        bases[:, self.zero_base :] = zeros
        bases[:, WINDOW] = image(problem.source, channel, 0)
        weights = storage(problem.weights).address
        bases[:, WEIGHTS] = weights + outputs * self.weight_strides[0] + inputs * self.weight_strides[1]
        bases[:, OUT] = image(problem.output, outputs, 1)
        for place, vector in enumerate(problem.vectors):
            stored = storage(vector.tensor)
            bases[:, VECTORS + place] = stored.address + outputs * stored.item_bytes
        if problem.residual >= 0:
            bases[:, RESIDUAL] = image(problem.residual, outputs, 1)
        return bases

    # Templates ---------------------------------------------------------------------------------

    def _template(self, part: _Part, template: Template) -> None:
        blocks = self._blocks(part.outputs)
        load_zeros(self.lowering, template, self.problem.zeros, self.zeros, self.zero_base)
        view = self._load_window(template, part)
        if self.problem.shape.is_array:
            self._load_weights(template, part, blocks)
            self._load_extras(template, part, blocks)
            self._multiply(template, part, blocks, view)
        else:
            order = self._load_taps(template, part)
            self._load_extras(template, part, blocks)
            self._multiply_taps(template, part, view, order)
        if part.is_last:
            self._finish(template, part, blocks)

    def _window_box(self, part: _Part):
        _, c, h, w = self.strides[self.problem.source]
        axes = ((part.row.length, h), (part.column.length, w), (part.inputs, c))
        return box_rows(WINDOW, self.problem.shape.item, axes)

    def _load_window(self, template: Template, part: _Part) -> WindowView:
        shape = self.problem.shape
        rows, order = self._window_box(part)
        counts = (part.row.length, part.column.length, part.inputs)
        stored = tuple(counts[axis] for axis in order)
        size = counts[0] * counts[1] * counts[2] * shape.item
        root = self.lowering.storage(self.problem.source).root
        template.movin(self.window, rows, size=size, tensor=root, aux=self.lowering.shape(stored))
        return WindowView(
            word=self.window,
            axes=order,
            span=(shape.height.reach(part.row.count), shape.width.reach(part.column.count)),
            before=(part.row.before, part.column.before),
            kernel=self.kernel,
            stride=(shape.height.stride, shape.width.stride),
            dilation=(shape.height.dilation, shape.width.dilation),
            out=(part.row.count, part.column.count),
        )

    def _load_weights(self, template: Template, part: _Part, blocks: Sequence[Span]) -> None:
        item = self.problem.shape.weight_item
        m_stride, c_stride, s_stride, r_stride = self.weight_strides
        root = self.lowering.storage(self.problem.weights).root
        for j, (m0, m) in enumerate(blocks):
            for p, (s, r) in enumerate(self.positions):
                offset = m0 * m_stride + s * s_stride + r * r_stride
                rows, _ = box_rows(WEIGHTS, item, ((m, m_stride), (part.inputs, c_stride)), offset)
                aux = self.lowering.shape((m, part.inputs))
                size = m * part.inputs * item
                template.movin(self.weights[j, p], rows, size=size, tensor=root, aux=aux)

    def _load_taps(self, template: Template, part: _Part) -> tuple[int, ...]:
        """Load the kernels of a depthwise tile; returns the order of (row, column, channel) in the entry."""
        item = self.problem.shape.weight_item
        m_stride, _, s_stride, r_stride = self.weight_strides
        counts = (*self.kernel, part.outputs)
        rows, order = box_rows(WEIGHTS, item, tuple(zip(counts, (s_stride, r_stride, m_stride), strict=True)))
        stored = tuple(counts[axis] for axis in order)
        size = counts[0] * counts[1] * counts[2] * item
        root = self.lowering.storage(self.problem.weights).root
        word = self.weights[0, 0]
        template.movin(word, rows, size=size, tensor=root, aux=self.lowering.shape(stored))
        return order

    def _load_extras(self, template: Template, part: _Part, blocks: Sequence[Span]) -> None:
        """Load vectors and residual in the tile that finishes an accumulation."""
        problem, storage = self.problem, self.lowering.storage
        if not part.is_last:
            return
        for j, (m0, m) in enumerate(blocks):
            for place, vector in enumerate(problem.vectors):
                stored = storage(vector.tensor)
                item = stored.item_bytes
                rows, _ = box_rows(VECTORS + place, item, ((m, item),), m0 * item)
                aux = self.lowering.shape((m,))
                word = self.vectors[place][j]
                template.movin(word, rows, size=m * item, tensor=stored.root, aux=aux)
            if problem.residual >= 0:
                rows, order = self._out_box(part, m0, m, problem.residual, RESIDUAL)
                counts = (part.row.count, part.column.count, m)
                aux = self.lowering.shape(tuple(counts[axis] for axis in order))
                size = part.pixels * m * storage(problem.residual).item_bytes
                root = storage(problem.residual).root
                template.movin(self.residuals[j], rows, size=size, tensor=root, aux=aux)

    def _multiply(self, template: Template, part: _Part, blocks: Sequence[Span], view: WindowView) -> None:
        problem, step = self.problem, self.resources.depth_step(part.inputs)
        words = tuple(
            tuple(self.weights[j, p] for j in range(len(blocks))) for p in range(len(self.positions))
        )
        product = WindowProduct(
            shape=(part.pixels, part.outputs),
            view=view,
            weights=words,
            depth=part.inputs,
            step=step,
            blocks={self.results[j]: Block(0, part.pixels, m0, m0 + m) for j, (m0, m) in enumerate(blocks)},
            dtype=problem.dtype,
            source_zero=problem.source_zero,
            weight_zero=problem.weight_zero,
            zero_words=self.zeros,
        )
        aux = self.lowering.product(product)
        root = self.lowering.storage(problem.output).root
        # Rows of activations stream as one; other dataflows handle them block by block.
        block = part.pixels if self.resources.dataflow == WEIGHTS_STAY else self.resources.row_block
        rows = [n for _, n in spans(part.pixels, block)]
        depths = [k for _, k in spans(part.inputs, step)]
        parts = [(p, k) for p in range(len(self.positions)) for k in depths]
        for each in array_steps(self.resources, rows, [m for _, m in blocks], [k for _, k in parts]):
            template.gemm(
                (self.window, self.weights[each.column, parts[each.part][0]]),
                self.results[each.column],
                rows=each.streamed,
                tile=each.tile,
                size=part.pixels * blocks[each.column][1] * ACC_BYTES,
                preload=each.preload,
                tensor=root,
                aux=aux,
            )

    def _multiply_taps(
        self, template: Template, part: _Part, view: WindowView, order: tuple[int, ...]
    ) -> None:
        size = part.pixels * part.outputs * ACC_BYTES
        root = self.lowering.storage(self.problem.output).root
        for p, (s, r) in enumerate(self.positions):
            aux = self.lowering.function(
                ("tap", view, order, s, r), partial(_tap_product, view, order, s, r), accumulates=p > 0
            )
            template.vector(
                tk.OP_MUL if p == 0 else tk.OP_MAC,
                (self.window, self.weights[0, 0]),
                self.results[0],
                vbytes=size,
                tile_m=1,
                size=size,
                tensor=root,
                aux=aux,
            )

    def _finish(self, template: Template, part: _Part, blocks: Sequence[Span]) -> None:
        """Write vectors, residual and activation of every block, then the stores."""
        lowering, problem = self.lowering, self.problem
        root = lowering.storage(problem.output).root

        def emit(opcode: int, j: int, second: int, aux: int, elements: int) -> None:
            out, size = self.results[j], elements * ACC_BYTES
            template.vector(
                opcode, (out, second), out, vbytes=size, tile_m=1, size=size, tensor=root, aux=aux
            )

        for place, vector in enumerate(problem.vectors):
            aux = lowering.function(vector.name, vector.apply)
            for j, (_, m) in enumerate(blocks):
                emit(vector.opcode, j, self.vectors[place][j], aux, part.pixels * m)
        for j, (m0, m) in enumerate(blocks):
            if problem.residual >= 0:
                _, order = self._out_box(part, m0, m, problem.residual, RESIDUAL)
                add = lowering.function(("add in order", order), partial(_add_in_order, order))
                emit(tk.OP_ADD, j, self.residuals[j], add, part.pixels * m)
        for step in problem.epilogue:
            for j, (_, m) in enumerate(blocks):
                emit(step.opcode, j, 0, lowering.function(step.key, step.apply), part.pixels * m)
        for j, (m0, m) in enumerate(blocks):
            rows, order = self._out_box(part, m0, m, problem.output, OUT)
            aux = lowering.order((part.row.count, part.column.count, m), order)
            template.movout(self.results[j], rows, tensor=root, aux=aux)

    def _out_box(self, part: _Part, m0: int, m: int, index: int, base: int):
        _, c, h, w = self.strides[index]
        axes = ((part.row.count, h), (part.column.count, w), (m, c))
        return box_rows(base, self.lowering.storage(index).item_bytes, axes, m0 * c)


def _tap_product(
    view: WindowView, order: tuple[int, ...], row: int, column: int, window: np.ndarray, taps: np.ndarray
) -> np.ndarray:
    """Multiply a window by one kernel position of a depthwise convolution: (pixels, channels)."""
    seen = view.tap(view.padded(window), row, column)
    weights = taps.transpose(tuple(int(axis) for axis in np.argsort(order)))[row, column]
    return (seen * weights).reshape(-1, seen.shape[2])


def _add_in_order(order: tuple[int, ...], result: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Add a residual (row, column, channel in `order`) to (pixels, channels)."""
    placed = residual.transpose(tuple(int(axis) for axis in np.argsort(order)))
    return result + placed.reshape(result.shape)
