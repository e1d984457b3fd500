"""Lower Resize and Upsample: nearest by movements, linear and cubic by products with constant matrices."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.resize_weights import AxisResize, Given, resize_axes
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.maps import MAX_ELEMENTS, fill, move_by_map
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.strides import dense_steps

COLUMNS = 512
"""Most moving columns of one matmul: a PSUM bank of fp32."""
FLOATS = ("float32", "float16", "bfloat16")


def lower_resize(b: Builder, node: Node) -> None:
    """Lower Resize of any version, and Upsample."""
    to, of = arguments.target(b, node), arguments.source(b, node)
    if not to.num_elements:
        return
    axes = _axes(b, node, of.shape, to.shape)
    if all(axis.mode == "nearest" for axis in axes):
        _nearest(b, to, of, axes)
    elif of.dtype not in FLOATS:
        raise CannotLower(f"a weighted sum of {of.dtype}")
    else:
        _weighted(b, to, of, axes)
    _extrapolate(b, node, to, axes)


def _axes(b: Builder, node: Node, shape: tuple[int, ...], result: tuple[int, ...]) -> list[AxisResize]:
    is_old = node.op_type == "Upsample" or b.graph.opsets.get("ai.onnx", 0) < 11
    roi = scales = sizes = None
    if is_old:
        given = node.attributes.get("scales")
        scales = arguments.known(b, node, 1, "the scales") if given is None else np.asarray(given, np.float32)
    else:
        roi = arguments.known(b, node, 1, "the region") if len(node.inputs) > 1 else None
        scales = arguments.known(b, node, 2, "the scales")
        sizes = arguments.known_ints(b, node, 3, "the sizes")
    return resize_axes(attributes_of(node), Given(shape, result, roi, scales, sizes), is_old)


def _nearest(b: Builder, to: HbmView, of: HbmView, axes: list[AxisResize]) -> None:
    if to.num_elements > MAX_ELEMENTS:
        raise CannotLower(f"a result of {to.num_elements} elements, at most {MAX_ELEMENTS}")
    indices = np.zeros((1,) * len(axes), np.int64)
    for at, (axis, step) in enumerate(zip(axes, dense_steps(of.shape), strict=True)):
        sources = np.arange(axis.size) if axis.size == axis.out and axis.scale == 1 else axis.sources()
        indices = indices + (sources * step).reshape((-1,) + (1,) * (len(axes) - at - 1))
    move_by_map(b, to, of, indices)


def _weighted(b: Builder, to: HbmView, of: HbmView, axes: list[AxisResize]) -> None:
    matrices: list[tuple[int, np.ndarray]] = []
    for at, axis in enumerate(axes):
        if axis.mode == "nearest":
            continue
        weights = axis.weights()
        if axis.size != axis.out or not np.array_equal(weights, np.eye(axis.size)):
            matrices.append((at, weights))
    if not matrices:
        arguments.copy(b, to, of)
        return
    held = of
    for index, (at, weights) in enumerate(matrices):
        shape = (*held.shape[:at], axes[at].out, *held.shape[at + 1 :])
        made = to if index == len(matrices) - 1 else b.hbm.scratch(shape, b.hbm.held_dtype("float32"))
        contract(b, made, held, at, weights)
        held = made


def contract(b: Builder, to: HbmView, of: HbmView, axis: int, weights: np.ndarray) -> None:
    """Compute to[.., o, ..] = sum over i of weights[o, i] * of[.., i, ..], both dense; weights (out,
    size).
    """
    out, size = weights.shape
    prefix = prod(of.shape[:axis])
    rest = of.num_elements // (prefix * size)
    if rest == 1 and prefix > 1:
        # PE contracts over rows: move the last axis there, and the result back.
        turned, made = b.hbm.scratch((size, prefix), of.dtype), b.hbm.scratch((out, prefix), to.dtype)
        arguments.copy(b, turned, of.reshape(prefix, size).permute(1, 0))
        contract(b, made, turned, 0, weights)
        arguments.copy(b, to.reshape(prefix, out), made.permute(1, 0))
        return
    matrix = b.hbm.constant(np.ascontiguousarray(weights.T).astype(numpy_dtype(b.hbm.compute_dtype)))
    sources = of.reshape(prefix, size, rest)
    results = to.reshape(prefix, out, rest)
    for at in range(prefix):
        for begin, end in blocks(rest, COLUMNS):
            _product(b, results[at, :, begin:end], sources[at, :, begin:end], matrix)


def _product(b: Builder, to: HbmView, of: HbmView, matrix: HbmView) -> None:
    """Compute to (out, n) = transpose of matrix (size, out) @ of (size, n); n is at most a PSUM bank."""
    size, out = matrix.shape
    with b.tiles.scope():
        parts = [
            (first, last, b.dma.fetch(of[first:last], b.hbm.compute_dtype))
            for first, last in blocks(size, NUM_PARTITIONS)
        ]
        for begin, end in blocks(out, NUM_PARTITIONS):
            with b.tiles.scope():
                sums = b.tiles.psum(end - begin, (of.shape[1],))
                for index, (first, last, moving) in enumerate(parts):
                    stationary = b.dma.fetch(matrix[first:last, begin:end], b.hbm.compute_dtype)
                    b.isa.matmul(sums, stationary, moving, accumulate=index > 0)
                b.dma.store(to[begin:end], sums)


def _extrapolate(b: Builder, node: Node, to: HbmView, axes: list[AxisResize]) -> None:
    """Fill the results that lie outside of the source along any axis with `extrapolation_value`."""
    value = np.array([node.attributes.get("extrapolation_value", 0.0)]).astype(numpy_dtype(to.dtype))
    for at, axis in enumerate(axes):
        outside = np.flatnonzero(axis.outside())
        for place in outside:
            fill(b, to[(slice(None),) * at + (slice(int(place), int(place) + 1),)], value)


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Resize": lower_resize,
    "Upsample": lower_resize,
}
