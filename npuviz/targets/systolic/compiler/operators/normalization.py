"""Operators that work on rows: softmax, layer normalisation and its fused forms, LRN."""

from collections.abc import Callable
from functools import partial

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.axes import row_axes
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.chunks import (
    Chunk,
    Operand,
    choose_walk,
    lower_chunks,
    middle_axes,
)
from npuviz.targets.systolic.compiler.operators.columns import lower_columns
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.storage import Storage


def rows_of(storage: Storage, first: int, num: int) -> tuple[int, int] | tuple[int, int, int]:
    """Return (rows, elements of a row) for rows along the logical axes first .. first + num - 1, and the
    elements behind these in DRAM if there are any.

    Raises CannotLower if other axes lie between these in DRAM, or they lie in another order.
    """
    wanted = [axis for axis in range(first, first + num) if storage.shape[axis] > 1]
    rows, width, behind = middle_axes(storage, wanted)
    if [axis for axis in storage.order if axis in wanted] != wanted:
        raise CannotLower("the axes it works on lie in another order in DRAM")
    return (rows, width) if behind == 1 else (rows, width, behind)


def _needed(width: int, entries: int, elements: int) -> int:
    """Return the accumulator bytes of rows: their results (`entries` times) and two vectors of one element a
    row."""
    return (entries * elements + 2 * (elements // width)) * ACC_BYTES + 4 * 64


def _lower_rows(
    lowering: Lowering,
    node: Node,
    extents: tuple[int, int] | tuple[int, int, int],
    acc_entries: Callable[[int], int],
    write: Callable[[Chunk], None],
) -> None:
    """Write the layer of an operator on rows of one tensor: whole rows a tile, or columns where that leaves
    cores idle or rows do not fit."""
    items = [(extents, lowering.storage(node.inputs[0]).item_bytes)]
    walk = None
    try:
        walk = choose_walk(lowering, extents, items, acc_entries, whole=len(extents) - 1)
    except CannotLower:
        if len(extents) == 2:
            raise
    if len(extents) == 3 and (walk is None or walk.num_tiles < lowering.resources.num_cores):
        lower_columns(lowering, node, extents, acc_entries, write)
    elif walk is not None:
        lower_chunks(lowering, node, node.outputs[0], [Operand(node.inputs[0], extents)], walk, write)


def _same_order(lowering: Lowering, source: int, output: int) -> None:
    if not lowering.storage(source).lies_like(lowering.storage(output)):
        raise CannotLower("input and output lie in different orders in DRAM")


def lower_softmax(lowering: Lowering, node: Node) -> None:
    """Lower Softmax and LogSoftmax, step by step so that every row is charged."""
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source, output))
    _same_order(lowering, source, output)
    storage = lowering.storage(source)
    row = row_axes(node, len(storage.shape))
    extents = rows_of(storage, row.start, len(row))
    width = extents[1]
    is_log = node.op_type == "LogSoftmax"

    def write(chunk: Chunk) -> None:
        count = chunk.num_elements // width
        row = chunk.temporary("row", count)
        x, out = chunk.words[0], chunk.out
        largest = lowering.function("row max", lambda a, _: a.max(axis=1, keepdims=True))
        total = lowering.function("row sum", lambda a, _: a.sum(axis=1, keepdims=True))
        subtract = lowering.function("subtract", np.subtract)
        chunk.vector(tk.OP_ADDTREE, (x,), row, largest, width, count, count)
        chunk.vector(tk.OP_ADD, (x, row), out, subtract)
        if is_log:
            spread = chunk.temporary("exp", chunk.num_elements)
            exp = lowering.function("exp", lambda a, _: np.exp(a))
            log = lowering.function("log", lambda a, _: np.log(a))
            chunk.vector(tk.OP_EXP, (out,), spread, exp)
            chunk.vector(tk.OP_ADDTREE, (spread,), row, total, width, count, count)
            chunk.vector(tk.OP_EXP, (row,), row, log, count)
            chunk.vector(tk.OP_ADD, (out, row), out, subtract)
            return
        chunk.vector(tk.OP_EXP, (out,), out, lowering.function("exp", lambda a, _: np.exp(a)))
        chunk.vector(tk.OP_ADDTREE, (out,), row, total, width, count, count)
        reciprocal = lowering.function("reciprocal", lambda a, _: np.float32(1) / a)
        chunk.vector(tk.OP_DIV, (row,), row, reciprocal, count)
        chunk.vector(tk.OP_MUL, (out, row), out, lowering.function("multiply", np.multiply))

    entries = 2 if is_log else 1
    _lower_rows(lowering, node, extents, partial(_needed, width, entries), write)


def _normalize(epsilon: float, rows: np.ndarray, _: np.ndarray) -> np.ndarray:
    mean = rows.mean(axis=1, keepdims=True)
    spread = rows - mean
    variance = (spread * spread).mean(axis=1, keepdims=True)
    return spread / np.sqrt(variance + np.float32(epsilon))


def _normalize_rms(epsilon: float, rows: np.ndarray, _: np.ndarray) -> np.ndarray:
    return rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + np.float32(epsilon))


def lower_layer_normalization(lowering: Lowering, node: Node) -> None:
    """Lower LayerNormalization and RMSNormalization."""
    if any(index >= 0 for index in node.outputs[1:]):
        raise CannotLower("mean and deviation are asked for")
    source, scale, bias = node.inputs[0], node.inputs[1], lowering.input(node, 2)
    _lower_normalization(
        lowering, node, (source,), scale, bias, -1, is_rms=node.op_type != "LayerNormalization"
    )


def lower_skip_layer_normalization(lowering: Lowering, node: Node) -> None:
    """Lower SkipLayerNormalization and SkipSimplifiedLayerNormalization: residual add, then normalisation.

    Ref: systolic.md F9: full cost, and an output of its own.
    """
    if any(index >= 0 for index in node.outputs[1:]):
        raise CannotLower("the sum or statistics are asked for")
    is_rms = node.op_type == "SkipSimplifiedLayerNormalization"
    sources = (node.inputs[0], node.inputs[1])
    scale = node.inputs[2]
    bias = -1 if is_rms else lowering.input(node, 3)
    extra = lowering.input(node, 3 if is_rms else 4)
    _lower_normalization(lowering, node, sources, scale, bias, extra, is_rms)


def _lower_normalization(
    lowering: Lowering,
    node: Node,
    sources: tuple[int, ...],
    scale: int,
    bias: int,
    extra: int,
    is_rms: bool,
) -> None:
    """Write normalised, scaled and shifted rows of the sum of `sources` (plus the row vector `extra`)."""
    output = node.outputs[0]
    vectors = [index for index in (scale, bias, extra) if index >= 0]
    lowering.require_floats(node, (*sources, *vectors, output))
    storage = lowering.storage(sources[0])
    rank = len(storage.shape)
    attributes = attributes_of(node)
    axis = attributes.axis(rank) if len(sources) == 1 else rank - 1
    extents = rows_of(storage, axis, rank - axis)
    width = extents[1]
    for index in sources:
        _same_order(lowering, index, output)
        if lowering.tensor(index).shape != lowering.tensor(output).shape:
            raise CannotLower("a residual of another shape than the output")
    for index in vectors:
        if lowering.tensor(index).num_elements != width or not lowering.storage(index).is_row_major:
            raise CannotLower("scale or bias of another size than a row")
    vector = (1, width, *(1 for _ in extents[2:]))
    operands = [Operand(index, extents) for index in sources]
    operands += [Operand(index, vector) for index in vectors]
    items = [(operand.extents, lowering.storage(operand.tensor).item_bytes) for operand in operands]
    acc_entries = partial(_needed, width, 1)
    walk = choose_walk(lowering, extents, items, acc_entries, whole=len(extents) - 1)
    epsilon = attributes.real("epsilon")
    compute = partial(_normalize_rms if is_rms else _normalize, epsilon)
    normalize = lowering.function(("normalize", is_rms, epsilon), compute)
    add, multiply = lowering.function("add", np.add), lowering.function("multiply", np.multiply)

    def write(chunk: Chunk) -> None:
        words = dict(zip(vectors, chunk.words[len(sources) :], strict=True))
        running = chunk.words[0]
        if len(sources) > 1:
            chunk.vector(tk.OP_ADD, (running, chunk.words[1]), chunk.out, add)
            running = chunk.out
        if extra >= 0:
            chunk.vector(tk.OP_ADD, (running, words[extra]), chunk.out, add)
            running = chunk.out
        chunk.vector(tk.OP_LAYERNORM, (running,), chunk.out, normalize, width, chunk.num_elements // width)
        chunk.vector(tk.OP_MUL, (chunk.out, words[scale]), chunk.out, multiply)
        if bias >= 0:
            chunk.vector(tk.OP_ADD, (chunk.out, words[bias]), chunk.out, add)

    lower_chunks(lowering, node, output, operands, walk, write)


def lower_lrn(lowering: Lowering, node: Node) -> None:
    """Lower local response normalisation across channels: squares, a sliding sum, a power, a product."""
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source, output))
    _same_order(lowering, source, output)
    storage = lowering.storage(source)
    extents = rows_of(storage, 1, 1)
    attributes = attributes_of(node)
    size = attributes.integer("size")
    alpha, beta, bias = (attributes.real(name) for name in ("alpha", "beta", "bias"))

    def power(sums: np.ndarray, _: np.ndarray) -> np.ndarray:
        return (np.float32(bias) + np.float32(alpha / size) * sums) ** np.float32(-beta)

    def write(chunk: Chunk) -> None:
        square = chunk.temporary("square", chunk.num_elements)
        squares = lowering.function("square", lambda a, _: a * a)
        chunk.vector(tk.OP_MUL, (chunk.words[0],), square, squares)
        before = (size - 1) // 2
        for shift in range(-before, size - before):
            key = ("shifted", shift)
            add = lowering.function(key, partial(_shifted, shift), accumulates=shift > -before)
            chunk.vector(tk.OP_ADD, (square,), chunk.out, add)
        chunk.vector(
            tk.OP_EXP, (chunk.out,), chunk.out, lowering.function(("lrn", bias, alpha, beta, size), power)
        )
        chunk.vector(
            tk.OP_MUL, (chunk.out, chunk.words[0]), chunk.out, lowering.function("multiply", np.multiply)
        )

    _lower_rows(lowering, node, extents, lambda elements: 2 * elements * ACC_BYTES + 64, write)


def _shifted(shift: int, squares: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return every channel's neighbour at a distance; 0 beyond the ends."""
    found = np.zeros_like(squares)
    if shift < 0:
        found[:, -shift:] = squares[:, :shift]
    elif shift > 0:
        found[:, :-shift] = squares[:, shift:]
    else:
        found[...] = squares
    return found


LOWERINGS = {
    "Softmax": lower_softmax,
    "LogSoftmax": lower_softmax,
    "LayerNormalization": lower_layer_normalization,
    "RMSNormalization": lower_layer_normalization,
    "SimplifiedLayerNormalization": lower_layer_normalization,
    "SkipLayerNormalization": lower_skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": lower_skip_layer_normalization,
    "LRN": lower_lrn,
}
