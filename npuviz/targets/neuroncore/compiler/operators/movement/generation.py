"""Lower operators that generate tensors: constants, shapes, ranges, one-hot rows."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement.arguments import (
    axis_of,
    copy,
    integer,
    known,
    source,
    target,
)
from npuviz.targets.neuroncore.compiler.operators.movement.indices import EXACT_FLOAT, INT32_MAX, wrapped
from npuviz.targets.neuroncore.compiler.operators.movement.maps import fill
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

COLUMNS = 2048
"""Most elements of a partition that one step of these lowerings works on."""


def lower_constant(b: Builder, node: Node) -> None:
    """Lower Constant, in all forms of its attribute."""
    to = target(b, node)
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        value: Any = node.attributes.get(name)
        if value is not None:
            data = np.asarray(value).astype(numpy_dtype(to.dtype)).reshape(to.shape)
            return copy(b, to, b.hbm.constant(data))
    raise CannotLower("a constant of a kind that no tensor of the chip holds")


def lower_constant_of_shape(b: Builder, node: Node) -> None:
    """Lower ConstantOfShape, which fills with one value."""
    to = target(b, node)
    value: Any = node.attributes.get("value")
    fill(b, to, np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(1))


def lower_shape(b: Builder, node: Node) -> None:
    """Lower Shape and Size, whose results are known when compiling."""
    to = target(b, node)
    shape = b.graph.tensors[node.inputs[0]].shape
    if node.op_type == "Size":
        value = np.array(b.graph.tensors[node.inputs[0]].num_elements)
    else:
        end: Any = node.attributes.get("end")
        value = np.array(shape[integer(node, "start") : None if end is None else int(end)], np.int64)
    if value.size:
        copy(b, to, b.hbm.constant(value.astype(np.int64).reshape(to.shape)))


def lower_eye_like(b: Builder, node: Node) -> None:
    """Lower EyeLike: zeros, with ones on a diagonal."""
    to = target(b, node)
    rows, columns = to.shape
    k = integer(node, "k")
    fill(b, to, np.zeros(1, numpy_dtype(to.dtype)))
    first = k if k >= 0 else -k * columns
    count = min(rows - max(0, -k), columns - max(0, k))
    if count > 0:
        item = to.itemsize
        diagonal = HbmView(to.variable, to.offset + first * item, to.dtype, (count,), ((columns + 1) * item,))
        fill(b, diagonal, np.ones(1, numpy_dtype(to.dtype)))


def lower_range(b: Builder, node: Node) -> None:
    """Lower Range with constant start and step: GpSimd counts, fp32 arithmetic scales."""
    to = target(b, node)
    start, step = known(b, node, 0, "the start of the range"), known(b, node, 2, "the step of the range")
    if start is None or step is None:
        raise CannotLower("a range without start or step")
    count = to.num_elements
    is_integer = to.dtype in ("int16", "int32", "int64")
    if not is_integer and to.dtype not in ("float32", "float16", "bfloat16"):
        raise CannotLower(f"a range of {to.dtype}, which the engines cannot count in")
    first, delta = start.reshape(-1)[0], step.reshape(-1)[0]
    if is_integer and max(abs(int(first)), abs(int(first) + int(delta) * count)) > INT32_MAX:
        raise CannotLower("a range beyond 32 bits")
    wide = count // NUM_PARTITIONS
    for begin, end in blocks(wide * NUM_PARTITIONS, NUM_PARTITIONS * COLUMNS):
        rows = to[begin:end].reshape(NUM_PARTITIONS, -1)
        _count(b, rows, first, delta, begin, is_integer=is_integer)
    if wide * NUM_PARTITIONS < count:
        rest = to[wide * NUM_PARTITIONS :].reshape(1, -1)
        _count(b, rest, first, delta, wide * NUM_PARTITIONS, is_integer=is_integer)


def _count(b: Builder, rows: HbmView, first: Any, delta: Any, begin: int, *, is_integer: bool) -> None:
    """Emit rows = first + delta * (begin, begin + 1, ...)."""
    partitions, size = rows.shape
    with b.tiles.scope():
        tile = b.tiles.sbuf(partitions, (size,), "int32")
        if is_integer:
            step = int(delta)
            b.isa.iota(tile, int(first) + step * begin, [step], step * size)
            b.dma.store(rows, tile)
            return
        b.isa.iota(tile, begin, [1], size)
        scaled = b.tiles.sbuf(partitions, (size,), rows.dtype)
        b.isa.tensor_scalar(scaled, tile, Alu.MULTIPLY, float(delta), Alu.ADD, float(first))
        b.dma.store(rows, scaled)


def lower_one_hot(b: Builder, node: Node) -> None:
    """Lower OneHot: compare the index of each partition with the numbers of the columns."""
    to, indices, values = target(b, node), source(b, node, 0), source(b, node, 2)
    axis = axis_of(integer(node, "axis", -1), len(to.shape))
    depth = to.shape[axis]
    if depth >= EXACT_FLOAT or not to.num_elements:
        raise CannotLower(f"a depth of {depth}")
    if indices.dtype == "float64" or values.dtype == "float64":
        raise CannotLower("float64 is not a type of the engines")
    outer = prod(to.shape[:axis])
    inner = indices.num_elements // outer
    # The result as rows of `depth`; where nothing follows the axis, all rows are one block.
    if inner == 1:
        parts = [(indices.flatten(), to.reshape(outer, depth))]
    else:
        flat, planes = indices.reshape(outer, inner), to.reshape(outer, depth, inner)
        parts = [(flat[at], planes[at].permute(1, 0)) for at in range(outer)]
    for column, rows in parts:
        for begin, end in blocks(column.num_elements, NUM_PARTITIONS):
            _one_hot_rows(b, rows[begin:end], column[begin:end], values, depth)


def _one_hot_rows(b: Builder, rows: HbmView, indices: HbmView, values: HbmView, depth: int) -> None:
    count = rows.shape[0]
    with b.tiles.scope():
        index = b.tiles.sbuf(count, (1,), "float32")
        b.isa.copy(index, wrapped(b, b.dma.fetch(indices.reshape(count, 1)), depth))
        pair = b.dma.fetch(values.reshape(1, 2).broadcast_to((count, 2)))
        for begin, end in blocks(depth, COLUMNS):
            size = end - begin
            with b.tiles.scope():
                numbers = b.tiles.sbuf(count, (size,), "int32")
                b.isa.iota(numbers, begin, [1], 0)
                hit = b.tiles.sbuf(count, (size,), "uint8")
                b.isa.tensor_scalar(hit, numbers, Alu.EQUAL, index)
                made = b.tiles.sbuf(count, (size,), pair.dtype)
                b.isa.copy(made, pair[:, 0:1].broadcast(size))
                b.isa.copy_predicated(made, pair[:, 1:2].broadcast(size), hit)
                b.dma.store(rows[:, begin:end], made)


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Constant": lower_constant,
    "ConstantOfShape": lower_constant_of_shape,
    "Shape": lower_shape,
    "Size": lower_shape,
    "EyeLike": lower_eye_like,
    "Range": lower_range,
    "OneHot": lower_one_hot,
}
