"""Lower ConvTranspose: a convolution for every place between two inputs, whose positions are then written
apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.moving import Span, Window, move
from npuviz.targets.rk3588.compiler.operators.conv import (
    Operands,
    bias_of,
    convolve_into,
    operands_of,
    weights_of,
)
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: output stride * y + phase is the sum over taps t of input y + first + t.

    taps    (stride, count) tap of the model's kernel for each, -1 where there is none
    """

    size: int
    out: int
    stride: int
    first: int
    taps: np.ndarray

    @property
    def rounds(self) -> int:
        """Outputs of the longest phase."""
        return -(-self.out // self.stride)

    @property
    def window(self) -> WindowAxis:
        """The windows of all phases together."""
        count = self.taps.shape[1]
        after = max(0, self.rounds - 1 + count + self.first - self.size)
        return WindowAxis(self.size, self.rounds, count, 1, 1, -self.first, after)


def lower_transposed(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower ConvTranspose with constant weights, along one or two dimensions; groups as zeros of one
    group."""
    node = layer.head
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    weights, scales = weights_of(b, planner, node.inputs[1])
    rank = len(b.graph.tensors[layer.inputs[0].tensor].shape)
    if rank not in (3, 4) or not len(source.shape) == len(target.shape) == rank:
        raise CannotLower(f"a transposed convolution over {rank - 2} dimensions")
    if rank == 3:
        weights = weights[:, :, None, :]
    groups = attributes_of(node).integer("group")
    if groups > 1:
        weights, scales = (
            _of_one_group(weights, groups),
            np.tile(scales, groups) if scales.size > 1 else scales,
        )
    axes = _axes(node, source, target, weights.shape[2:])
    kernels, group = weights.shape[1], packing(target.dtype).channels
    bias = bias_of(b, planner, node.inputs[2] if len(node.inputs) > 2 else -1, kernels)
    each = aligned(kernels, group)
    phases = axes[0].stride * axes[1].stride
    stacked = _stacked(weights, axes, each)
    full_bias = np.zeros((phases, each))
    full_bias[:, :kernels] = bias
    if scales.size > 1:
        filled = np.full((phases, each), scales.reshape(-1)[0])
        filled[:, :kernels] = scales.reshape(-1)
        scales = filled.reshape(-1)
    operands = operands_of(layer, stacked, scales, full_bias.reshape(-1))
    _emit(b, layer, (source, target), (axes, operands))


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {"ConvTranspose": lower_transposed}


def _emit(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], how: tuple[tuple[_Axis, _Axis], Operands]
) -> None:
    (source, target), ((rows, columns), operands) = ends, how
    images, kernels, height, width = cube_shape(target.shape)
    phases = rows.stride * columns.stride
    each = len(operands.weights) // phases
    shape = (images, len(operands.weights), rows.rounds, columns.rounds)
    dense = b.scratch(f"{layer.head.name or layer.head.op_type} phases", shape, target.dtype)
    convolve_into(b, layer, Shape(rows.window, columns.window), operands, (source, dense), fuses=True)
    b.begin_layer()
    for number in range(phases):
        row, column = divmod(number, columns.stride)
        counts = -(-(height - row) // rows.stride), -(-(width - column) // columns.stride)
        if min(counts) < 1:
            continue
        taken = Window(Span(0, images), Span(number * each, kernels), Span(0, counts[0]), Span(0, counts[1]))
        given = Window(
            Span(0, images), Span(0, kernels),
            Span(row, counts[0], rows.stride), Span(column, counts[1], columns.stride),
        )  # fmt: skip
        assert given.counts == taken.counts
        move(b, layer, (dense, target), (taken, given), Stages())


def _axes(node: Node, source: Buffer, target: Buffer, kernel: tuple[int, ...]) -> tuple[_Axis, _Axis]:
    attributes = attributes_of(node)
    count = len(source.shape) - 2
    strides, dilations = (attributes.integers(name, [1] * count) for name in ("strides", "dilations"))
    if max(dilations) > 1:
        raise CannotLower("a dilated transposed convolution", str(dilations), "dilations of 1")
    pads = attributes.integers("pads", [0] * 2 * count)
    if attributes.text("auto_pad") not in ("NOTSET", "VALID") or node.attributes.get("output_shape"):
        raise CannotLower("padding of a transposed convolution that its output decides")
    # A signal counts as a picture of one row.
    strides, pads = ([*[usual] * (2 - count), *given] for usual, given in ((1, strides), (0, pads)))
    sizes = zip(cube_shape(source.shape)[2:], cube_shape(target.shape)[2:], strict=True)
    found = [_axis(ends, kernel[at], strides[at], pads[at]) for at, ends in enumerate(sizes)]
    return found[0], found[1]


def _of_one_group(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return grouped weights (C, K/g, R, S) as (C, K, R, S) with zeros."""
    channels, inner = weights.shape[:2]
    whole = np.zeros((channels, inner * groups, *weights.shape[2:]), weights.dtype)
    size = channels // groups
    for group in range(groups):
        rows = slice(group * size, (group + 1) * size)
        whole[rows, group * inner : (group + 1) * inner] = weights[rows]
    return whole


def _axis(sizes: tuple[int, int], kernel: int, stride: int, pad: int) -> _Axis:
    """Return the phases and taps of an axis: output o takes tap r of input x where x * stride + r - pad =
    o."""
    pairs: list[tuple[int, int, int]] = []
    for phase in range(stride):
        for tap in range(kernel):
            if (phase + pad - tap) % stride == 0:
                pairs.append((phase, (phase + pad - tap) // stride, tap))
    first = min(0, *(place for _, place, _ in pairs)) if pairs else 0
    count = max([place for _, place, _ in pairs], default=0) - first + 1
    taps = np.full((stride, count), -1)
    for phase, place, tap in pairs:
        taps[phase, place - first] = tap
    return _Axis(sizes[0], sizes[1], stride, first, taps)


def _stacked(weights: np.ndarray, axes: tuple[_Axis, _Axis], each: int) -> np.ndarray:
    """Return (phases * each, C, R, S) from the model's (C, K, R, S): the kernels of one phase after those of
    another."""
    channels, kernels = weights.shape[:2]
    rows, columns = axes
    made = np.zeros(
        (rows.stride, columns.stride, each, channels, rows.taps.shape[1], columns.taps.shape[1]),
        weights.dtype,
    )
    for row, at in np.argwhere(rows.taps >= 0):
        for column, to in np.argwhere(columns.taps >= 0):
            tap = weights[:, :, rows.taps[row, at], columns.taps[column, to]]
            made[row, column, :kernels, :, at, to] = tap.T
    return made.reshape(-1, *made.shape[3:])
