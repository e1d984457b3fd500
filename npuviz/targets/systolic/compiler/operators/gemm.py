"""Matrix products: Gemm, MatMul of stored weights or of two activations, batched."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import product as combinations
from math import prod
from types import MappingProxyType

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import Attributes, attributes_of
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.formulas import Step, unary_steps
from npuviz.targets.systolic.compiler.operators.zero_points import load_zeros, place_zeros, zero_addresses
from npuviz.targets.systolic.compiler.template import Rows, Template
from npuviz.targets.systolic.compiler.tiling.choices import Choice, assign
from npuviz.targets.systolic.compiler.tiling.dataflow import array_steps
from npuviz.targets.systolic.compiler.tiling.matrix import MatrixTiling, fits_matrix, rank_matrix_tilings
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, ceil_div
from npuviz.targets.systolic.compiler.windows import distinct_columns, tile_indices
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.matrix import MatrixProduct
from npuviz.targets.systolic.values.plan import Block
from npuviz.targets.systolic.values.storage import Storage

LEFT, RIGHT, BIAS, OUT = 0, 1, 2, 3
"""Positions of the operands' base addresses in a tile."""

_ADD_BIAS = Step(tk.OP_ADD, "add", np.add)


@dataclass(frozen=True)
class MatrixOperand:
    """One operand of a batched product.

    offsets  byte offset of every batch item in the tensor (int64)
    by_depth  whether rows in DRAM run along the reduction's index (see MatrixProduct)
    """

    tensor: int
    offsets: np.ndarray
    by_depth: bool


@dataclass(frozen=True)
class MatrixProblem:
    """`batch` products of (rows x depth) by (depth x columns), with bias and epilogue.

    bias        tensor added, -1: none; bias_rows: it has a row of its own per row of the result
    epilogue    vector steps on the result
    zeros       tensors of the zero points of left and right that are known at run time only, -1: none
    """

    batch: int
    rows: int
    columns: int
    depth: int
    left: MatrixOperand
    right: MatrixOperand
    output: int
    bias: int = -1
    bias_rows: bool = False
    before_bias: tuple[Step, ...] = ()
    epilogue: tuple[Step, ...] = ()
    dtype: str = "float32"
    left_zero: int = 0
    right_zero: int = 0
    zeros: tuple[int, int] = (-1, -1)


def _scale(value: float) -> Step:
    return Step(tk.OP_MUL, ("mul", value), lambda a, _: a * np.float32(value))


def lower_gemm(lowering: Lowering, node: Node) -> None:
    """Lower Gemm and FusedGemm."""
    left, right = node.inputs[0], node.inputs[1]
    bias, output = lowering.input(node, 2), node.outputs[0]
    used = [left, right, output, *([bias] if bias >= 0 else [])]
    lowering.require_floats(node, used)
    _require_row_major(lowering, used)
    attributes = attributes_of(node)
    trans_a, trans_b = attributes.flag("transA"), attributes.flag("transB")
    a, b = lowering.tensor(left).shape, lowering.tensor(right).shape
    rows, depth = (a[1], a[0]) if trans_a else (a[0], a[1])
    columns = b[0] if trans_b else b[1]
    alpha, beta = attributes.real("alpha"), attributes.real("beta")
    bias_rows = False
    if bias >= 0 and beta == 0.0:
        bias = -1
    if bias >= 0:
        shape = lowering.tensor(bias).shape
        bias_rows = len(shape) == 2 and shape[0] == rows and rows > 1
        if (
            beta != 1.0
            or not shape
            or shape[-1] != columns
            or prod(shape) != columns * (rows if bias_rows else 1)
        ):
            raise CannotLower("bias that is not added as one row or one matrix")
    zero = np.zeros(1, dtype=np.int64)
    solve_matrix(
        lowering,
        node,
        MatrixProblem(
            batch=1,
            rows=rows,
            columns=columns,
            depth=depth,
            left=MatrixOperand(left, zero, trans_a),
            right=MatrixOperand(right, zero, not trans_b),
            output=output,
            bias=bias,
            bias_rows=bias_rows,
            before_bias=() if alpha == 1.0 else (_scale(alpha),),
            epilogue=activation_steps(node),
        ),
    )


def activation_steps(node: Node) -> tuple[Step, ...]:
    """Return the steps of the activation that a node's `activation` attribute fuses. Raises CannotLower if
    unknown."""
    name = attributes_of(node).text("activation", "")
    if not name:
        return ()
    # FusedConv has a list of parameters, FusedGemm an attribute for each.
    each = (node.attributes.get(f"activation_{name}") for name in ("alpha", "beta"))
    listed = node.attributes.get("activation_params") or [value for value in each if value is not None]
    parameters = [float(value) for value in listed]
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(name, ())
    if name == "Clip" and len(parameters) == 2:
        low, high = (np.float32(value) for value in parameters)
        return (Step(tk.OP_COMP, ("clamp", *parameters), lambda a, _: np.clip(a, low, high)),)
    if name == "LeakyRelu":
        return _leaky_in_place(Attributes(name, dict(zip(names, parameters, strict=False))).real("alpha"))
    try:
        steps = unary_steps(name, Attributes(name, dict(zip(names, parameters, strict=False))))
    except KeyError:
        raise CannotLower(f"fused activation {name}") from None
    if any(step.uses_input for step in steps):
        raise CannotLower(f"fused activation {name} needs its input twice")
    return steps


def _leaky_in_place(alpha: float) -> tuple[Step, ...]:
    """Return the steps of LeakyRelu where a result has no second place.

    Assumed: what is compared decides which lanes the multiplication after it changes.
    """
    compare = Step(tk.OP_COMP, ("is negative",), lambda a, _: a)
    factor = np.float32(alpha)
    return compare, Step(tk.OP_MUL, ("mul negative", alpha), lambda a, _: np.where(a < 0, a * factor, a))


def lower_matmul(lowering: Lowering, node: Node) -> None:
    """Lower MatMul of any ranks, with numpy's broadcasting of the batch dimensions."""
    left, right = node.inputs[0], node.inputs[1]
    output = node.outputs[0]
    lowering.require_floats(node, (left, right, output))
    solve_matrix(lowering, node, batched_problem(lowering, left, right, output))


def batched_problem(lowering: Lowering, left: int, right: int, output: int) -> MatrixProblem:
    """Describe a MatMul; if its right operand has no batch, the batch joins the rows."""
    _require_row_major(lowering, (left, right, output))
    a, b = lowering.tensor(left).shape, lowering.tensor(right).shape
    a = (1, *a) if len(a) == 1 else a
    b = (*b, 1) if len(b) == 1 else b
    rows, depth, columns = a[-2], a[-1], b[-1]
    if prod(b[:-2]) == 1:
        rows, a, b = prod(a[:-1]), (prod(a[:-1]), depth), b[-2:]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return MatrixProblem(
        batch=prod(batch),
        rows=rows,
        columns=columns,
        depth=depth,
        left=MatrixOperand(left, _batch_offsets(lowering, left, a, batch), False),
        right=MatrixOperand(right, _batch_offsets(lowering, right, b, batch), True),
        output=output,
    )


def _require_row_major(lowering: Lowering, tensors: Sequence[int]) -> None:
    if not all(lowering.storage(index).is_row_major for index in tensors):
        raise CannotLower("an operand of a matrix product does not lie row by row in DRAM")


def _batch_offsets(
    lowering: Lowering, tensor: int, shape: tuple[int, ...], batch: tuple[int, ...]
) -> np.ndarray:
    """Return the byte offset of every item of the broadcast batch."""
    matrix = shape[-2] * shape[-1] * lowering.storage(tensor).item_bytes
    own = np.arange(prod(shape[:-2]), dtype=np.int64).reshape(shape[:-2]) * matrix
    return np.broadcast_to(own, batch).reshape(-1)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Sizes of one tile and its place in the accumulation."""

    rows: int
    columns: int
    depth: int
    is_last: bool


def solve_matrix(lowering: Lowering, node: Node, problem: MatrixProblem) -> None:
    """Choose the tiling and write the layer of a matrix problem."""
    resources = lowering.resources.without(sum(index >= 0 for index in problem.zeros))
    item = max(lowering.storage(index).item_bytes for index in (problem.left.tensor, problem.right.tensor))
    extra = lowering.storage(problem.bias).item_bytes if problem.bias_rows else 0
    sizes = problem.batch, problem.rows, problem.columns, problem.depth, item, extra
    ranked = [astuple(tiling) for tiling in rank_matrix_tilings(resources, *sizes)]

    def fits(choice: Choice) -> bool:
        return fits_matrix(resources, problem.depth, item, extra, MatrixTiling(*choice.sizes))

    choice = lowering.choose(node, ("matrix", *sizes), ranked, fits)
    if choice is None:
        raise CannotLower("not even one block of the array fits half of the scratchpad")
    _Writer(lowering, node, problem, choice).write()


class _Writer:
    """Writes the tiles of one matrix problem."""

    def __init__(self, lowering: Lowering, node: Node, problem: MatrixProblem, choice: Choice) -> None:
        self.lowering = lowering
        self.node = node
        self.problem = problem
        self.tiling = MatrixTiling(*choice.sizes)
        self.assignment = choice.assignment
        self.resources = lowering.resources
        self.left = lowering.storage(problem.left.tensor)
        self.right = lowering.storage(problem.right.tensor)
        self.out = lowering.storage(problem.output)
        bias = problem.bias
        self.bias = lowering.storage(bias) if bias >= 0 else None
        self.bias_item = self.bias.item_bytes if self.bias else 0

    def write(self) -> None:
        problem, builder = self.problem, self.lowering.builder
        builder.begin_layer(self.node.name or self.node.op_type, self.node.id)
        self._place_entries()
        self._add_tiles()
        builder.end_layer()
        inputs = (problem.left.tensor, problem.right.tensor, problem.bias, *problem.zeros)
        self.lowering.add_layer(self.node, inputs, (problem.output,))

    def _spans(self, size: int, step: int) -> list[tuple[int, int]]:
        """Return (start, length) of the blocks of a tile dimension."""
        return [(start, min(step, size - start)) for start in range(0, size, step)]

    def _place_entries(self) -> None:
        """Fix the place of all entries, with the sizes of a whole tile."""
        problem, builder = self.problem, self.lowering.builder
        tiling, resources = self.tiling, self.resources
        spad = Half(builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
        acc = Half(builder.accumulator_entry, resources.request_bytes, resources.acc_half)
        rows = self._spans(tiling.rows, resources.row_block)
        columns = self._spans(tiling.columns, resources.column_block)
        self.acts = [spad.entry(("left", i), n * tiling.depth * self.left.item_bytes) for i, n in rows]
        self.weights = [
            spad.entry(("right", i), m * tiling.depth * self.right.item_bytes) for i, m in columns
        ]
        self.zeros = place_zeros(spad, problem.zeros)
        self.biases: dict[tuple[int, int], int] = {}
        self.results: dict[tuple[int, int], int] = {}
        for (j, (_, m)), (i, (_, n)) in combinations(enumerate(columns), enumerate(rows)):
            self.results[i, j] = acc.entry(("out", i, j), n * m * ACC_BYTES)
            if self.bias is not None:
                key = (i, j) if problem.bias_rows else (0, j)
                size = m * self.bias_item * (n if problem.bias_rows else 1)
                self.biases[i, j] = spad.entry(("bias", *key), size)

    def _add_tiles(self) -> None:
        problem, tiling, builder = self.problem, self.tiling, self.lowering.builder
        counts = (
            problem.batch,
            ceil_div(problem.rows, tiling.rows),
            ceil_div(problem.columns, tiling.columns),
            ceil_div(problem.depth, tiling.depth),
        )
        batch, row, column, part = tile_indices(builder, *counts)
        row, column, start = row * tiling.rows, column * tiling.columns, part * tiling.depth
        rows = np.minimum(tiling.rows, problem.rows - row)
        columns = np.minimum(tiling.columns, problem.columns - column)
        depth = np.minimum(tiling.depth, problem.depth - start)
        is_last = start + depth == problem.depth
        cuts, which = distinct_columns(np.stack([rows, columns, depth, is_last.astype(np.int64)]))
        ids = [
            builder.template(("tile", *cut), lambda t, cut=cut: self._template(t, _Cut(*cut)))
            for cut in cuts.T.tolist()
        ]
        group = np.arange(len(part)) // counts[3]
        coords = np.stack([batch, row, column, start], axis=1)
        builder.add_tiles(
            np.array(ids)[which],
            self._bases(batch, row, column, start),
            cores=assign(group, len(part) // counts[3], self.resources.num_cores, self.assignment),
            accumulate=part > 0,
            coords=coords,
        )

    def _bases(self, batch: np.ndarray, row: np.ndarray, column: np.ndarray, start: np.ndarray) -> np.ndarray:
        problem = self.problem
        item = self.left.item_bytes
        along = (problem.rows, 1) if problem.left.by_depth else (1, problem.depth)
        left = self.left.address + problem.left.offsets[batch] + (start * along[0] + row * along[1]) * item
        item = self.right.item_bytes
        along = (problem.columns, 1) if problem.right.by_depth else (1, problem.depth)
        right = (
            self.right.address + problem.right.offsets[batch] + (start * along[0] + column * along[1]) * item
        )
        bias = np.zeros_like(left)
        if self.bias is not None:
            line = row * problem.columns if problem.bias_rows else 0
            bias = self.bias.address + (line + column) * self.bias_item
        place = (batch * problem.rows + row) * problem.columns + column
        out = self.out.address + place * self.out.item_bytes
        zeros = [np.full_like(left, at) for at in zero_addresses(self.lowering, problem.zeros)]
        return np.stack([left, right, bias, out, *zeros], axis=1)

    def _template(self, template: Template, cut: _Cut) -> None:
        rows = self._spans(cut.rows, self.resources.row_block)
        columns = self._spans(cut.columns, self.resources.column_block)
        load_zeros(self.lowering, template, self.problem.zeros, self.zeros, OUT + 1)
        self._write_loads(template, cut, rows, columns)
        if cut.is_last and self.bias is not None:
            self._load_bias(template, self.bias, rows, columns)
        self._write_products(template, cut, rows, columns)
        if not cut.is_last:
            return
        for step in self.problem.before_bias:
            self._write_vector(template, step, rows, columns)
        if self.bias is not None:
            self._write_vector(template, _ADD_BIAS, rows, columns, self.biases)
        for step in self.problem.epilogue:
            self._write_vector(template, step, rows, columns)
        width = self.problem.columns * self.out.item_bytes
        for (j, (m0, m)), (i, (n0, n)) in combinations(enumerate(columns), enumerate(rows)):
            place = Rows(OUT, n0 * width + m0 * self.out.item_bytes, m * self.out.item_bytes, n0=n, s0=width)
            template.movout(self.results[i, j], place, tensor=self.out.root)

    def _write_loads(
        self, template: Template, cut: _Cut, rows: list[tuple[int, int]], columns: list[tuple[int, int]]
    ) -> None:
        problem = self.problem

        def load(word: int, base: int, first: int, count: int, total: int, by_depth: bool) -> None:
            storage = self.left if base == LEFT else self.right
            item = storage.item_bytes
            if by_depth:
                place = Rows(base, first * item, count * item, n0=cut.depth, s0=total * item)
                shape = (cut.depth, count)
            else:
                stride = problem.depth * item
                place = Rows(base, first * stride, cut.depth * item, n0=count, s0=stride)
                shape = (count, cut.depth)
            aux = self.lowering.shape(shape)
            template.movin(word, place, size=count * cut.depth * item, tensor=storage.root, aux=aux)

        load_left = [
            (word, LEFT, first, count, problem.rows, problem.left.by_depth)
            for word, (first, count) in zip(self.acts, rows, strict=False)
        ]
        load_right = [
            (word, RIGHT, first, count, problem.columns, problem.right.by_depth)
            for word, (first, count) in zip(self.weights, columns, strict=False)
        ]
        # The first product needs one block of each: these two come first.
        for item in (load_right[0], *load_left, *load_right[1:]):
            load(*item)

    def _write_products(
        self, template: Template, cut: _Cut, rows: list[tuple[int, int]], columns: list[tuple[int, int]]
    ) -> None:
        problem, step = self.problem, self.resources.depth_step(cut.depth)
        blocks = {
            self.results[i, j]: Block(n0, n0 + n, m0, m0 + m)
            for (j, (m0, m)), (i, (n0, n)) in combinations(enumerate(columns), enumerate(rows))
        }
        made = MatrixProduct(
            shape=(cut.rows, cut.columns),
            depth=cut.depth,
            step=step,
            left=tuple(self.acts[: len(rows)]),
            right=tuple(self.weights[: len(columns)]),
            blocks=blocks,
            left_by_depth=problem.left.by_depth,
            right_by_depth=problem.right.by_depth,
            dtype=problem.dtype,
            left_zero=problem.left_zero,
            right_zero=problem.right_zero,
            zero_words=self.zeros,
        )
        aux = self.lowering.product(made)
        parts = [k for _, k in self._spans(cut.depth, step)]
        sizes = [n for _, n in rows], [m for _, m in columns]
        for each in array_steps(self.resources, *sizes, parts):
            m, _, n = each.tile
            template.gemm(
                (self.acts[each.row], self.weights[each.column]),
                self.results[each.row, each.column],
                rows=each.streamed,
                tile=each.tile,
                size=n * m * ACC_BYTES,
                preload=each.preload,
                tensor=self.out.root,
                aux=aux,
            )

    def _load_bias(
        self,
        template: Template,
        bias: Storage,
        rows: list[tuple[int, int]],
        columns: list[tuple[int, int]],
    ) -> None:
        item = bias.item_bytes
        loaded: set[int] = set()
        for (j, (m0, m)), (i, (n0, n)) in combinations(enumerate(columns), enumerate(rows)):
            word = self.biases[i, j]
            if word in loaded:
                continue
            loaded.add(word)
            count, stride = (n, self.problem.columns * item) if self.problem.bias_rows else (1, 0)
            place = Rows(BIAS, n0 * stride + m0 * item, m * item, n0=count, s0=stride)
            aux = self.lowering.shape((count, m))
            template.movin(word, place, size=count * m * item, tensor=bias.root, aux=aux)

    def _write_vector(
        self,
        template: Template,
        step: Step,
        rows: list[tuple[int, int]],
        columns: list[tuple[int, int]],
        others: Mapping[tuple[int, int], int] = MappingProxyType({}),
    ) -> None:
        """Write an instruction on every block of the result; `others`  its second operands by block."""
        aux = self.lowering.function(step.key, step.apply)
        for (j, (_, m)), (i, (_, n)) in combinations(enumerate(columns), enumerate(rows)):
            out, size = self.results[i, j], n * m * ACC_BYTES
            pair = out, others.get((i, j), 0)
            template.vector(
                step.opcode, pair, out, vbytes=size, tile_m=1, size=size, tensor=self.out.root, aux=aux
            )


LOWERINGS = {
    "Gemm": lower_gemm,
    "FusedGemm": lower_gemm,
    "MatMul": lower_matmul,
}
