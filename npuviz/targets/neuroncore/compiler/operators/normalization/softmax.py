"""Lower Softmax, LogSoftmax and Hardmax along one axis, held whole in a partition or read in parts."""

import math
from collections.abc import Callable

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import binary, scalar, temporary
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import (
    AxisTile,
    axis_tiles,
    split_at,
    store_as,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Activation, Alu, ReduceCmd

LIMIT = 16384
"""Most elements of a partition: a tile and its exponentials take 128 KiB."""
PART = 8192
"""Elements of a part of a longer axis."""
RESIDENT = 24576
"""Most elements of a row whose exponentials stay in SBUF until their sum is known."""
_FLOATS = ("float32", "float16", "bfloat16")


def over_axis(x: View) -> View:
    """Return a tile (P, axis, inner) with the axis innermost."""
    return x.permute(1, 0)


def along_axis(row: View, x: View) -> View:
    """Return values (P, inner) repeated along the axis of `x` (P, axis, inner)."""
    return row.reshape(1, row.free_size).broadcast(*x.shape)


def reduce_axis(b: Builder, x: View, op: Alu, dtype: str = "float32") -> View:
    """Reduce a tile (P, axis, inner) over the axis to a new tile (P, inner)."""
    made = b.tiles.sbuf(x.partitions, (x.shape[1],), dtype)
    b.isa.tensor_reduce(made, over_axis(x), op, 1)
    return made


def _softmax_tile(b: Builder, tile: AxisTile, is_log: bool) -> None:
    x = tile.fetch(b, 0)
    peak = reduce_axis(b, x, Alu.MAXIMUM)
    shape = (tile.axis, tile.inner)
    made = b.tiles.sbuf(tile.partitions, shape, "float32")
    if tile.inner > 1:
        shifted = b.tiles.sbuf(tile.partitions, shape, "float32")
        b.isa.tensor_tensor(shifted, x, along_axis(peak, x), Alu.SUBTRACT)
        b.isa.activation(made, shifted, Activation.EXP)
        sums = reduce_axis(b, made, Alu.ADD)
        if is_log:
            logs = temporary(b, sums)
            b.isa.activation(logs, sums, Activation.LOG)
            b.isa.tensor_tensor(made, shifted, along_axis(logs, x), Alu.SUBTRACT)
        else:
            inverse = temporary(b, sums)
            scalar(b, inverse, sums, Alu.DIVIDE, 1.0, reverse=True)
            b.isa.tensor_tensor(made, made, along_axis(inverse, x), Alu.MULTIPLY)
        tile.store(b, 1, made)
        return
    negative, sums = temporary(b, peak), temporary(b, peak)
    scalar(b, negative, peak, Alu.MULTIPLY, -1.0)
    b.isa.activation(made, x, Activation.EXP, bias=negative, cmd=ReduceCmd.RESET_REDUCE, accumulators=sums)
    stored = tile.sides[1].dtype
    result = made if stored == "float32" else b.tiles.sbuf(tile.partitions, shape, stored)
    if is_log:
        logs = temporary(b, sums)
        b.isa.activation(logs, sums, Activation.LOG)
        b.isa.tensor_scalar(result, x, Alu.ADD, negative, Alu.SUBTRACT, logs)
    else:
        inverse = temporary(b, sums)
        scalar(b, inverse, sums, Alu.DIVIDE, 1.0, reverse=True)
        b.isa.tensor_scalar(result, made, Alu.MULTIPLY, inverse)
    tile.store(b, 1, result)


def _softmax_in_parts(b: Builder, source: HbmView, target: HbmView, is_log: bool) -> None:
    """Lower softmax of rows (rows, axis, 1) too long for a partition, in passes for maximum, sum and
    result.
    """
    rows, size, _ = source.shape
    parts = [slice(start, min(start + PART, size)) for start in range(0, size, PART)]
    for first in range(0, rows, NUM_PARTITIONS):
        block = slice(first, min(first + NUM_PARTITIONS, rows))
        count = block.stop - first
        with b.tiles.scope():
            peaks, sums = (b.tiles.sbuf(count, (len(parts), 1), "float32") for _ in range(2))
            for index, part in enumerate(parts):
                with b.tiles.scope():
                    x = b.dma.fetch(source[block, part])
                    b.isa.tensor_reduce(peaks[:, index], over_axis(x), Alu.MAXIMUM, 1)
            negative = reduce_axis(b, peaks, Alu.MAXIMUM)
            scalar(b, negative, negative, Alu.MULTIPLY, -1.0)
            stays = not is_log and size <= RESIDENT
            kept = b.tiles.sbuf(count, (size, 1), "float32") if stays else None
            for index, part in enumerate(parts):
                with b.tiles.scope():
                    x = b.dma.fetch(source[block, part])
                    made = _room(b, count, part) if kept is None else kept[:, part]
                    b.isa.activation(
                        made, x, Activation.EXP, bias=negative,
                        cmd=ReduceCmd.RESET_REDUCE, accumulators=sums[:, index],
                    )  # fmt: skip
            whole = reduce_axis(b, sums, Alu.ADD)
            if is_log:
                b.isa.activation(whole, whole, Activation.LOG)
            else:
                scalar(b, whole, whole, Alu.DIVIDE, 1.0, reverse=True)
            for part in parts:
                with b.tiles.scope():
                    if kept is not None:
                        made = kept[:, part]
                        b.isa.tensor_scalar(made, made, Alu.MULTIPLY, whole)
                        store_as(b, target[block, part], made)
                        continue
                    x, made = b.dma.fetch(source[block, part]), _room(b, count, part)
                    if is_log:
                        b.isa.tensor_scalar(made, x, Alu.ADD, negative, Alu.SUBTRACT, whole)
                    else:
                        b.isa.activation(made, x, Activation.EXP, bias=negative)
                        b.isa.tensor_scalar(made, made, Alu.MULTIPLY, whole)
                    store_as(b, target[block, part], made)


def _room(b: Builder, partitions: int, part: slice) -> View:
    return b.tiles.sbuf(partitions, (part.stop - part.start, 1), "float32")


def _coerced(b: Builder, node: Node, view: HbmView) -> tuple[HbmView, int]:
    """Return tensor and axis; before opset 13, with all dimensions from the axis on merged."""
    opsets = b.graph.opsets
    old = opsets.get("ai.onnx", opsets.get("", 13)) < 13
    axis = int(node.attributes.get("axis", 1 if old else -1))
    if not old:
        return view, axis
    axis %= max(1, len(view.shape))
    return view.reshape(math.prod(view.shape[:axis]), math.prod(view.shape[axis:])), 1


def lower_softmax(b: Builder, node: Node) -> None:
    """Lower Softmax and LogSoftmax, with the maximum subtracted."""
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    if source.dtype not in _FLOATS:
        raise CannotLower(f"{node.op_type} of {source.dtype}")
    source, axis = _coerced(b, node, source)
    is_log = node.op_type == "LogSoftmax"
    before, size, behind = split_at(source.shape, axis)
    if size > LIMIT and behind == 1:
        _softmax_in_parts(b, source.reshape(before, size, 1), target.reshape(before, size, 1), is_log)
        return
    for tile in axis_tiles(source.shape, axis, (source, target.reshape(*source.shape)), LIMIT):
        with b.tiles.scope():
            _softmax_tile(b, tile, is_log)


def ramp(b: Builder, partitions: int, size: int, is_falling: bool) -> View:
    """Fetch 1, 2, ... size (or falling) along the axis to every partition, (P, axis, 1)."""
    values = np.arange(1, size + 1, dtype=np.float32)
    values = values[::-1].copy() if is_falling else values
    name = f"ramp.{'falling' if is_falling else 'rising'}.{size}"
    return b.dma.fetch(b.hbm.constant(values, name).reshape(1, size, 1).broadcast_to((partitions, size, 1)))


def lower_hardmax(b: Builder, node: Node) -> None:
    """Lower Hardmax: 1 at the first maximum along the axis, else 0."""
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    if source.dtype not in _FLOATS:
        raise CannotLower(f"Hardmax of {source.dtype}")
    source, axis = _coerced(b, node, source)
    for tile in axis_tiles(source.shape, axis, (source, target.reshape(*source.shape)), LIMIT // 2):
        with b.tiles.scope():
            x = tile.fetch(b, 0)
            marks = b.tiles.sbuf(tile.partitions, x.shape, "float32")
            binary(b, marks, x, along_axis(reduce_axis(b, x, Alu.MAXIMUM), x), Alu.EQUAL)
            first = ramp(b, tile.partitions, tile.axis, is_falling=True)
            binary(b, marks, marks, first.broadcast(*x.shape), Alu.MULTIPLY)
            best = reduce_axis(b, marks, Alu.MAXIMUM)
            made = b.tiles.sbuf(tile.partitions, x.shape, target.dtype)
            binary(b, made, marks, along_axis(best, x), Alu.EQUAL)
            tile.store(b, 1, made)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "Softmax": lower_softmax,
    "LogSoftmax": lower_softmax,
    "Hardmax": lower_hardmax,
}
