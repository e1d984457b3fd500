"""Lower MaxPool, AveragePool, LpPool and the global pools."""

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import step_slice
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import FLOATS
from npuviz.targets.neuroncore.compiler.operators.pool.sliding_reduction import (
    Window,
    pool_axes,
    slide,
    stacks,
    windows,
)
from npuviz.targets.neuroncore.compiler.operators.ranges import even_blocks
from npuviz.targets.neuroncore.compiler.operators.windows import Axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu

_LOWEST = {"int8": -128.0, "uint8": 0.0}


def require_floats(b: Builder, node: Node) -> None:
    """Raise CannotLower unless the input is of a float type that the engines have."""
    dtype = b.graph.tensors[node.inputs[0]].dtype
    if dtype not in FLOATS:
        raise CannotLower(f"{node.op_type} of {dtype}")


def lower_max_pool(b: Builder, node: Node) -> None:
    """Lower MaxPool, with indices if the node has that output."""
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    if source.dtype not in FLOATS and source.dtype not in _LOWEST:
        raise CannotLower(f"MaxPool of {source.dtype}")
    axes = pool_axes(node, source, out)
    lowest = _LOWEST.get(source.dtype, float("-inf"))
    if len(node.outputs) > 1 and node.outputs[1] >= 0:
        is_column_major = bool(node.attributes.get("storage_order", 0))
        rank = len(source.shape) - 2
        _with_indices(b, (source, out, b.hbm[node.outputs[1]]), axes, lowest, is_column_major, rank)
        return
    for window in windows(b, source, axes):
        b.dma.store(window.outputs_of(out), slide(b, window, Alu.MAXIMUM, lowest, source.dtype))


def _with_indices(
    b: Builder,
    tensors: tuple[HbmView, HbmView, HbmView],
    axes: Axes,
    lowest: float,
    is_column_major: bool,
    rank: int,
) -> None:
    """Emit MaxPool with indices: visit the taps in order, and keep the position of the first maximum."""
    source, out, indices = tensors
    depth, height, width = (axis.size for axis in axes)
    steps = (height * width, width, 1)
    if is_column_major:
        steps = (1, depth, depth * height) if rank == 3 else (depth * height * width, 1, height)
    for window in windows(b, source, axes, share=8):
        box = window.box
        largest = b.tiles.sbuf(window.source.partitions, box.shape, source.dtype)
        chosen = b.tiles.sbuf(window.source.partitions, box.shape, "int32")
        places = b.tiles.sbuf(window.source.partitions, window.source.shape, "int32")
        b.isa.memset(largest, lowest)
        b.isa.memset(chosen, 0)
        base = window.images[0] * depth * height * width
        base += sum(first * step for first, step in zip(window.origin, steps, strict=True))
        b.isa.iota(places, base, steps, window.axes[0].size * height * width)
        for view, place, where in _taps(window, places):
            with b.tiles.scope():
                best, at = largest[where], chosen[where]
                larger = b.tiles.sbuf(view.partitions, view.shape, "uint8")
                b.isa.tensor_tensor(larger, view, best, Alu.GREATER)
                b.isa.copy_predicated(at, place, larger)
                b.isa.tensor_tensor(best, best, view, Alu.MAXIMUM)
        b.dma.store(window.outputs_of(out), largest)
        b.dma.store(window.outputs_of(indices), chosen)


def _taps(window: Window, places: View) -> list[tuple[View, View, tuple[slice, ...]]]:
    """Return (inputs, their positions, outputs) of each tap, in the order of the inputs."""
    found: list[tuple[View, View, tuple[slice, ...]]] = []
    ranges = (window.box.planes, window.box.rows, window.box.columns)
    origins, axes = window.origin, window.axes
    for plane in range(axes[0].kernel):
        for row in range(axes[1].kernel):
            for column in range(axes[2].kernel):
                taps = (plane, row, column)
                spans = [
                    axis.span(tap, *limits) for axis, tap, limits in zip(axes, taps, ranges, strict=True)
                ]
                if not all(span.count for span in spans):
                    continue
                inputs = tuple(
                    step_slice(span.source - origin, span.count, axis.stride)
                    for span, origin, axis in zip(spans, origins, axes, strict=True)
                )
                outputs = tuple(
                    slice(span.first - limits[0], span.end - limits[0])
                    for span, limits in zip(spans, ranges, strict=True)
                )
                key = (slice(None), *inputs)
                found.append((window.source[key], places[key], (slice(None), *outputs)))
    return found


def lower_average_pool(b: Builder, node: Node) -> None:
    """Lower AveragePool with ceil_mode, dilations and count_include_pad."""
    require_floats(b, node)
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    axes = pool_axes(node, source, out)
    includes = attributes_of(node).flag("count_include_pad")
    counts = [axis.counts(includes).astype(np.float32) for axis in axes]
    divisors = np.einsum("i,j,k->ijk", *counts).astype(np.float32)
    is_uniform = bool((divisors == divisors.flat[0]).all())
    # If no element counts, the sum is 0 too; a divisor of 1 keeps the quotient finite.
    home = None if is_uniform else b.hbm.constant(np.maximum(divisors, 1)[None], f"{node.name}/divisors")
    for window in windows(b, source, axes):
        total = slide(b, window, Alu.ADD, 0.0, "float32")
        result = b.tiles.sbuf(total.partitions, total.shape, out.dtype)
        if home is None:
            b.isa.tensor_scalar(result, total, Alu.MULTIPLY, 1.0 / float(max(1.0, divisors.flat[0])))
        else:
            part = window.box.of(home.broadcast_to((1, *(axis.out for axis in window.axes))))
            by = b.dma.fetch(part.broadcast_to((total.partitions, *part.shape[1:])))
            b.isa.tensor_tensor(result, total, by, Alu.DIVIDE)
        b.dma.store(window.outputs_of(out), result)


def lower_lp_pool(b: Builder, node: Node) -> None:
    """Lower LpPool: p-norms of windows."""
    require_floats(b, node)
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    axes = pool_axes(node, source, out)
    power = float(node.attributes.get("p", 2))
    for window in windows(b, source, axes):
        powers = b.tiles.sbuf(window.source.partitions, window.source.shape, "float32")
        _to_power(b, powers, window.source, power)
        total = slide(b, window, Alu.ADD, 0.0, "float32", powers)
        result = b.tiles.sbuf(total.partitions, total.shape, out.dtype)
        b.isa.tensor_scalar(result, total, Alu.POWER, 1.0 / power)
        b.dma.store(window.outputs_of(out), result)


def _to_power(b: Builder, target: View, source: View, power: float) -> None:
    """Compute target = |source| ^ power."""
    if power == 2.0:
        b.isa.tensor_tensor(target, source, source, Alu.MULTIPLY)
    else:
        b.isa.tensor_scalar(target, source, Alu.ABS_MAX, 0.0, Alu.POWER, power)


def lower_global_pool(b: Builder, node: Node) -> None:
    """Lower GlobalAveragePool, GlobalMaxPool and GlobalLpPool."""
    require_floats(b, node)
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    if len(source.shape) < 2:
        raise CannotLower(f"{node.op_type} of a tensor of {len(source.shape)} dimensions")
    count = source.shape[0] * source.shape[1]
    table, target = source.reshape(count, -1), out.reshape(count, 1)
    power = float(node.attributes.get("p", 2)) if node.op_type == "GlobalLpPool" else 0.0
    op = Alu.MAXIMUM if node.op_type == "GlobalMaxPool" else Alu.ADD
    size = table.shape[1]
    columns = even_blocks(size, b.spec.sbuf_usable_bytes // 4 // item_bytes(source.dtype))
    for (first, end), num_stacked in stacks(b, count, size * item_bytes(source.dtype)):
        images, results = table[first:end], target[first:end].reshape(-1, num_stacked)
        rows = images.reshape(-1, num_stacked, size)
        with b.tiles.scope():
            parts = b.tiles.sbuf(rows.shape[0], (num_stacked, len(columns)), "float32")
            for index, (c0, c1) in enumerate(columns):
                with b.tiles.scope():
                    values = b.dma.fetch(rows[:, :, c0:c1])
                    if power:
                        powers = b.tiles.sbuf(values.partitions, values.shape, "float32")
                        _to_power(b, powers, values, power)
                        values = powers
                    b.isa.tensor_reduce(parts[:, :, index], values, op, 1)
            result = b.tiles.sbuf(rows.shape[0], (num_stacked,), out.dtype)
            total = parts[:, :, 0]
            if len(columns) > 1:
                total = b.tiles.sbuf(rows.shape[0], (num_stacked,), "float32")
                b.isa.tensor_reduce(total, parts, op, 1)
            if power:
                b.isa.tensor_scalar(result, total, Alu.POWER, 1.0 / power)
            elif op == Alu.ADD:
                b.isa.tensor_scalar(result, total, Alu.MULTIPLY, 1.0 / size)
            else:
                b.isa.copy(result, total)
            b.dma.store(results, result)


LOWERINGS = {
    "MaxPool": lower_max_pool,
    "AveragePool": lower_average_pool,
    "LpPool": lower_lp_pool,
    "GlobalAveragePool": lower_global_pool,
    "GlobalMaxPool": lower_global_pool,
    "GlobalLpPool": lower_global_pool,
}
