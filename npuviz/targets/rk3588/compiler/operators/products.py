"""Lower Conv, Gemm and MatMul: from a node to the numbers that CORE computes with."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.exchange import emit_copy, plan_copy
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.lines import line_window
from npuviz.targets.rk3588.compiler.moves.regrouping import convolve_apart, is_written_apart
from npuviz.targets.rk3588.compiler.operators.conv import (
    Operands,
    bias_of,
    convolve_into,
    operands_of,
    weights_of,
)
from npuviz.targets.rk3588.compiler.operators.large_windows import convolve_anyhow
from npuviz.targets.rk3588.compiler.operators.rows import relaid
from npuviz.targets.rk3588.compiler.operators.run_weights import (
    lower_run_product,
    numbers_of,
    operands_at_run,
)
from npuviz.targets.rk3588.compiler.operators.signals import convolve_lines
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer


def lower_conv(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Conv, dense or depthwise; run-time weights are laid out by the NPU."""
    node = layer.head
    weights_id, *rest = node.inputs[1:]
    shape_in: tuple[int, ...] = b.graph.tensors[layer.inputs[0].tensor].shape
    if len(shape_in) not in (3, 4):
        raise CannotLower(f"a convolution over {len(shape_in) - 2} dimensions")
    is_known = all(planner.is_constant(tensor) for tensor in (weights_id, *rest))
    weights, scales = (
        weights_of(b, planner, weights_id)
        if is_known
        else (np.asarray(numbers_of(b, layer, weights_id)), np.ones(1))
    )
    if len(shape_in) == 3:
        weights = weights[:, :, None, :]
    groups = attributes_of(node).integer("group")
    channels = shape_in[1]
    is_depthwise = groups > 1 and groups == channels == weights.shape[0]
    if groups > 1 and not is_depthwise:
        weights = _block_diagonal(weights, groups)
    out = b.graph.tensors[node.outputs[0]].shape
    rows, columns = padded_axes(
        window_axes(node, shape_in, out, tuple(weights.shape)[6 - len(shape_in) :]), 2
    )
    shape = Shape(rows, columns, is_depthwise)
    bias_id = rest[0] if rest else -1
    if not is_known:
        ends = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
        operands = operands_at_run(b, layer, planner, weights, (weights_id, bias_id))
        convolve_anyhow(b, layer, shape, operands, ends)
        return
    operands = operands_of(layer, weights, scales, bias_of(b, planner, bias_id, weights.shape[0]))
    if is_written_apart(b.graph, layer):
        convolve_apart(b, layer, shape, operands)
        return
    window = line_window(b.graph, node)
    if window is not None:
        source, target = (b.home(stored.tensor, "float16") for stored in (layer.inputs[0], layer.output))
        if source.layout == "rows" and target.layout in ("rows", "feature"):
            convolve_lines(b, layer, window, operands, (source, target))
            return
    ends = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    convolve_anyhow(b, layer, shape, operands, ends)


def lower_product(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Gemm and MatMul with a constant right side, as a 1x1 convolution over rows; others as run-time
    products.

    Whatever lies otherwise is copied into rows of its last axis first, and the result back.
    """
    node = layer.head
    is_known = all(planner.is_constant(tensor) for tensor in node.inputs[1:])
    if not is_known or prod(b.graph.tensors[node.inputs[1]].shape[:-2]) > 1:
        lower_run_product(b, layer, planner)
        return
    operands = _matrix_operands(b, layer, planner)
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    taken = b.graph.tensors[layer.inputs[0].tensor].shape
    count = prod(taken[:-1])
    rows = _as_rows(b, layer, source, (count, taken[-1]))
    wanted = count, len(operands.weights)
    is_placed = target.shape == wanted or (count == 1 and target.shape == wanted[1:])
    made = target if is_placed else b.scratch(f"{node.name or node.op_type} product", wanted, target.dtype)
    shape = Shape(WindowAxis(count, count), WindowAxis(1, 1))
    convolve_into(b, layer, shape, operands, (rows, made), fuses=True)
    if not is_placed:
        b.begin_layer()
        _bring(b, layer, made, target)


def _matrix_operands(b: Builder, layer: Layer, planner: Planner) -> Operands:
    """Return the constant matrix of a product as kernels, with the bias of a Gemm; a vector is one kernel."""
    node = layer.head
    weights, scales = weights_of(b, planner, node.inputs[1])
    alpha = beta = 1.0
    is_turned = weights.ndim == 1
    weights = weights.reshape(-1 if weights.ndim > 1 else 1, weights.shape[-1])
    if node.op_type == "Gemm":
        attributes = attributes_of(node)
        if attributes.flag("transA"):
            raise CannotLower("transA", change="transpose the constant instead")
        is_turned = attributes.flag("transB")
        alpha, beta = attributes.real("alpha"), attributes.real("beta")
    if not is_turned:
        weights = weights.T
    bias_id = node.inputs[2] if len(node.inputs) > 2 else -1
    bias = bias_of(b, planner, bias_id, weights.shape[0])
    dense = np.ascontiguousarray(weights)[:, :, None, None]
    return operands_of(layer, dense, scales * alpha, bias * beta)


def _as_rows(b: Builder, layer: Layer, source: Buffer, shape: tuple[int, int]) -> Buffer:
    """Return a cube as rows of a tensor's last axis, copied unless it lies so."""
    if source.shape == shape:
        return source
    if len(source.shape) == 1 and shape[0] == 1:
        return replace(source, shape=shape)
    rows = b.scratch(f"{layer.head.name or layer.head.op_type} rows", shape, source.dtype)
    _bring(b, layer, source, rows)
    return rows


def _bring(b: Builder, layer: Layer, source: Buffer, target: Buffer) -> None:
    """Copy all elements in their order to another layout."""
    if not layer.is_quantised:
        relaid(b, layer, source, target)
        return
    emit_copy(b, layer.head.id, plan_copy(b.spec, source, target))
    b.begin_layer()


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    "Conv": lower_conv,
    "Gemm": lower_product,
    "MatMul": lower_product,
}


def _block_diagonal(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return grouped weights (K, C/g, R, S) as dense ones with zeros."""
    kernels, inner = weights.shape[:2]
    dense = np.zeros((kernels, inner * groups, *weights.shape[2:]), weights.dtype)
    size = kernels // groups
    for group in range(groups):
        rows = slice(group * size, (group + 1) * size)
        dense[rows, group * inner : (group + 1) * inner] = weights[rows]
    return dense
