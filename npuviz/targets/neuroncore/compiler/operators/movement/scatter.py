"""Lower ScatterElements, ScatterND, TensorScatter and MaxUnpool, which write where indices say.

The data is copied first; rows (or single elements) are then stored by descriptors that GpSimd makes.
Reductions read, compute and write one row after the other, so that equal indices add up.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.gather import constant_of, row_numbers
from npuviz.targets.neuroncore.compiler.operators.movement.indices import bases, scaled, words, wrapped
from npuviz.targets.neuroncore.compiler.operators.movement.maps import fill
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import DTYPE_CODES, View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu
from npuviz.targets.neuroncore.strides import dense_steps

REDUCTIONS = {"add": Alu.ADD, "mul": Alu.MULTIPLY, "max": Alu.MAXIMUM, "min": Alu.MINIMUM}
MAX_SINGLE = 1 << 14
"""Most elements that are scattered one by one; each block of 128 takes an instruction."""
MAX_REDUCED = 2048
"""Most rows that a reduction combines one after the other."""
ROW_ELEMENTS = 4096


def lower_scatter_elements(b: Builder, node: Node) -> None:
    """Lower ScatterElements and the older Scatter: each element has an index along one axis."""
    to, of = arguments.target(b, node), arguments.source(b, node, 0)
    indices, updates = arguments.source(b, node, 1), arguments.source(b, node, 2)
    axis = arguments.axis_of(arguments.integer(node, "axis"), len(of.shape))
    arguments.copy(b, to, of)
    count, reduction = indices.num_elements, arguments.text(node, "reduction", "none")
    if not count:
        return
    if _names_rows(b, node, axis, of.shape):
        width = math.prod(of.shape[axis + 1 :])
        rows, values = to.reshape(-1, width), updates.reshape(-1, width)
        numbers = indices.reshape(-1, width)[:, :1]
        for begin, end in blocks(numbers.shape[0], NUM_PARTITIONS):
            with b.tiles.scope():
                index = wrapped(b, b.dma.fetch(numbers[begin:end]), of.shape[axis])
                _put(b, rows, index, values[begin:end], reduction)
        return
    if count > MAX_SINGLE:
        raise CannotLower(f"a scatter of {count} single elements, at most {MAX_SINGLE}")
    steps = dense_steps(of.shape)
    places = b.hbm.constant(bases(indices.shape, steps, axis).reshape(count, 1))
    flat, values = indices.reshape(count, 1), updates.reshape(count, 1)
    for begin, end in blocks(count, NUM_PARTITIONS):
        with b.tiles.scope():
            index = wrapped(b, b.dma.fetch(flat[begin:end]), of.shape[axis])
            index = scaled(b, index, steps[axis], b.dma.fetch(places[begin:end]), of.num_elements)
            _put(b, to.reshape(-1, 1), index, values[begin:end], reduction)


def _names_rows(b: Builder, node: Node, axis: int, shape: tuple[int, ...]) -> bool:
    """Return whether an Expand repeats one index for all elements of a row, as in graph networks.

    shape  shape of the data
    """
    index = b.graph.tensors[arguments.input_id(node, 1)]
    maker = b.graph.nodes[index.producer] if index.producer >= 0 else None
    if maker is None or maker.op_type != "Expand" or math.prod(shape[:axis]) != 1:
        return False
    given = b.graph.tensors[maker.inputs[0]].shape
    given = (1,) * (len(index.shape) - len(given)) + given
    return index.shape[axis + 1 :] == shape[axis + 1 :] and math.prod(given) == given[axis]


def lower_scatter_nd(b: Builder, node: Node) -> None:
    """Lower ScatterND: the last axis of the indices selects the slice for each update."""
    to, of = arguments.target(b, node), arguments.source(b, node, 0)
    indices, updates = arguments.source(b, node, 1), arguments.source(b, node, 2)
    depth = indices.shape[-1]
    row = math.prod(of.shape[depth:])
    arguments.copy(b, to, of)
    if not updates.num_elements:
        return
    count = indices.num_elements // depth
    reduction = arguments.text(node, "reduction", "none")
    values, rows = updates.reshape(count, row), to.reshape(-1, row)
    fixed = constant_of(b, node, 1)
    if fixed is not None and reduction == "none":
        for at, place in enumerate(fixed.reshape(count, depth)):
            place = np.where(place < 0, place + np.array(of.shape[:depth]), place)
            where = int(np.ravel_multi_index(tuple(place), of.shape[:depth]))
            arguments.copy(b, rows[where : where + 1], values[at : at + 1])
        return
    for begin, end, index in row_numbers(b, indices, of.shape[:depth], np.zeros(count, np.int64)):
        _put(b, rows, index, values[begin:end], reduction)


def _put(b: Builder, rows: HbmView, index: View, values: HbmView, reduction: str) -> None:
    """Emit rows[index[p]] = values[p], or combine the values with the rows; up to 128 rows."""
    if reduction == "none":
        if rows.dtype == values.dtype:
            rows, values = words(rows), words(values)
        for first, last in blocks(rows.shape[1], ROW_ELEMENTS):
            with b.tiles.scope():
                tile = b.tiles.sbuf(values.shape[0], (last - first,), rows.dtype)
                b.dma.load(tile, values[:, first:last])
                b.dma.scatter(rows[:, first:last], index, tile)
        return
    if reduction not in REDUCTIONS:
        raise CannotLower(f"the reduction {reduction}")
    if rows.dtype not in DTYPE_CODES:
        raise CannotLower(f"a reduction of {rows.dtype}, which the engines cannot compute in")
    if values.shape[0] * -(-rows.shape[1] // ROW_ELEMENTS) > MAX_REDUCED:
        raise CannotLower(f"a reduction of {values.shape[0]} rows one after the other")
    for at in range(values.shape[0]):
        for first, last in blocks(rows.shape[1], ROW_ELEMENTS):
            with b.tiles.scope():
                _combine(b, rows[:, first:last], index, values[:, first:last], at, REDUCTIONS[reduction])


def _combine(b: Builder, rows: HbmView, index: View, values: HbmView, at: int, op: Alu) -> None:
    size = rows.shape[1]
    # Any partition may hold the index; its row is fetched to partition 0.
    place = b.tiles.sbuf(1, (1,), "int32")
    move(b, place, index, at)
    held, made, update = (b.tiles.sbuf(1, (size,), rows.dtype) for _ in range(3))
    b.dma.gather(held, rows, place)
    b.dma.load(update, values[at : at + 1])
    b.isa.tensor_tensor(made, held, update, op)
    b.dma.scatter(rows, place, made)


def move(b: Builder, to: View, index: View, at: int) -> None:
    """Move the index of partition `at` to partition 0 through HBM, as engines stay within partitions."""
    spot = b.hbm.scratch((1, 1), "int32")
    b.dma.store(spot, index[at : at + 1])
    b.dma.load(to, spot)


def lower_tensor_scatter(b: Builder, node: Node) -> None:
    """Lower TensorScatter: write updates to a cache, at a separate place for each batch."""
    to, of, updates = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    axis = arguments.axis_of(arguments.integer(node, "axis", -2), len(of.shape))
    if axis == 0:
        raise CannotLower("the batch axis as sequence axis")
    arguments.copy(b, to, of)
    batch, middle = of.shape[0], math.prod(of.shape[1:axis])
    length, count, row = of.shape[axis], updates.shape[axis], math.prod(of.shape[axis + 1 :])
    shape = (batch, middle, count)
    at_batch, at_middle, at_step = (part.reshape(-1, 1) for part in np.indices(shape))
    start = b.hbm.constant(((at_batch * middle + at_middle) * length).astype(np.int32))
    step = b.hbm.constant(at_step.astype(np.int32))
    first = None
    if arguments.input_id(node, 2) >= 0:
        given = arguments.source(b, node, 2)
        first = b.hbm.scratch(shape, given.dtype)
        b.dma.copy(first, given.reshape(batch, 1, 1).broadcast_to(shape))
        first = first.reshape(-1, 1)
    values, rows = updates.reshape(-1, row), to.reshape(-1, row)
    for begin, end in blocks(batch * middle * count, NUM_PARTITIONS):
        with b.tiles.scope():
            place = b.dma.fetch(step[begin:end])
            if first is not None:
                place = scaled(b, b.dma.fetch(first[begin:end]), 1, place, 2 * length)
            if arguments.text(node, "mode", "linear") == "circular":
                inside = b.tiles.sbuf(end - begin, (1,), "int32")
                b.isa.tensor_scalar(inside, place, Alu.MOD, length)
                place = inside
            index = scaled(b, place, 1, b.dma.fetch(start[begin:end]), batch * middle * length)
            _put(b, rows, index, values[begin:end], "none")


def lower_max_unpool(b: Builder, node: Node) -> None:
    """Lower MaxUnpool: put each value at the place of its maximum, and zeros elsewhere."""
    to, of, indices = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    count = of.num_elements
    if count > MAX_SINGLE:
        raise CannotLower(f"a scatter of {count} single elements, at most {MAX_SINGLE}")
    inferred = _unpooled_shape(node, of.shape)
    whole = to
    if inferred != to.shape:
        whole = b.hbm.scratch(inferred, to.dtype)
    zero = np.zeros(1, numpy_dtype(to.dtype))
    fill(b, whole, zero)
    flat, values = indices.reshape(count, 1), of.reshape(count, 1)
    for begin, end in blocks(count, NUM_PARTITIONS):
        with b.tiles.scope():
            index = wrapped(b, b.dma.fetch(flat[begin:end]), whole.num_elements)
            _put(b, whole.reshape(-1, 1), index, values[begin:end], "none")
    if whole is not to:
        fill(b, to, zero)
        arguments.copy(b, to[tuple(slice(0, size) for size in inferred)], whole)


def _unpooled_shape(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
    kernel = [int(size) for size in node.attributes["kernel_shape"]]
    rank = len(kernel)
    strides = [int(size) for size in node.attributes.get("strides") or [1] * rank]
    pads = [int(size) for size in node.attributes.get("pads") or [0] * (2 * rank)]
    return (
        *shape[:2],
        *(
            (size - 1) * strides[at] + kernel[at] - pads[at] - pads[at + rank]
            for at, size in enumerate(shape[2:])
        ),
    )


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Scatter": lower_scatter_elements,
    "ScatterElements": lower_scatter_elements,
    "ScatterND": lower_scatter_nd,
    "TensorScatter": lower_tensor_scatter,
    "MaxUnpool": lower_max_unpool,
}
