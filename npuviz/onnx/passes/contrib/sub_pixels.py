"""Rewrites transposed convolutions as plain ones with a channel per pixel of a block, and gives Pad a value.

An output pixel at q * stride + phase sums over inputs at q, q - 1, ... with every stride-th weight: each
phase is a plain convolution with a smaller kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer

_NEW_LISTS = 11
"""The first operator set in which DepthToSpace has a mode, and Pad has lists as inputs."""
_SLICED_BY_INPUTS = 10
"""The first operator set in which Slice has lists as inputs."""


@dataclass(frozen=True)
class _Axis:
    """One spatial axis.

    taps    inputs per output pixel;  pads  of the plain convolution, before and after
    made    blocks of `stride` pixels that it makes;  start, stop  range of the wanted pixels
    """

    stride: int
    dilation: int
    taps: int
    pads: tuple[int, int]
    made: int
    start: int
    stop: int


def write_conv_transpose(writer: Writer, node: NodeProto) -> None:
    """Rewrite ConvTranspose with constant weights (inputs, outputs / group, ...)."""
    del node
    source, weights = writer.given(0), writer.known(writer.given(1))
    shape, wanted = writer.shape(source), writer.shape(writer.wanted(0))
    rank, group = weights.ndim - 2, int(writer.attribute("group", 1))
    if rank < 1 or len(shape) != rank + 2 or not prod(wanted):
        raise CannotWrite
    axes = [
        _axis(writer, index, shape[2 + index], wanted[2 + index], weights.shape[2 + index], rank)
        for index in range(rank)
    ]
    outputs, strides = weights.shape[1] * group, [axis.stride for axis in axes]
    kernel = _phases(weights, axes, group)
    inputs = [source, writer.constant("weights", kernel)]
    if writer.given(2):
        bias = writer.known(writer.given(2))
        inputs.append(writer.constant("bias", np.repeat(bias, prod(strides))))
    pads = [axis.pads[side] for side in (0, 1) for axis in axes]
    is_cut = any((axis.start, axis.stop) != (0, axis.made * axis.stride) for axis in axes)
    last = "" if is_cut or prod(strides) > 1 else writer.wanted(0)
    made = writer.add("Conv", inputs, last, group=group, pads=pads, kernel_shape=kernel.shape[2:])
    if prod(strides) > 1:
        made = _spread(writer, made, (shape[0], outputs), axes, "" if is_cut else writer.wanted(0))
    if is_cut:
        write_slice(writer, made, [(axis.start, axis.stop) for axis in axes], writer.wanted(0))


def write_slice(writer: Writer, source: str, spans: Sequence[tuple[int, int]], output: str) -> str:
    """Cut (start, stop) out of each spatial axis. Returns the name of the result."""
    lists = {
        "starts": [start for start, _ in spans],
        "ends": [stop for _, stop in spans],
        "axes": [2 + index for index in range(len(spans))],
    }
    if writer.opset < _SLICED_BY_INPUTS:
        return writer.add("Slice", [source], output, **lists)
    cut = [writer.constant(name, np.array(values, np.int64)) for name, values in lists.items()]
    return writer.add("Slice", [source, *cut], output)


def _axis(writer: Writer, index: int, size: int, wanted: int, kernel: int, rank: int) -> _Axis:
    stride = int(writer.attribute("strides", [1] * rank)[index])
    dilation = int(writer.attribute("dilations", [1] * rank)[index])
    extent = (kernel - 1) * dilation + 1
    more = int(writer.attribute("output_padding", [0] * rank)[index])
    # Pixels cut off on both sides, computed from the result's shape, which covers all ways to specify
    # padding.
    cut = (size - 1) * stride + extent + more - wanted
    before = int(writer.attribute("pads", [0] * (2 * rank))[index])
    automatic = writer.attribute("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER") or writer.attribute("output_shape", None):
        before = cut // 2 if automatic == b"SAME_UPPER" else cut - cut // 2
    elif automatic == b"VALID":
        before = 0
    taps = -(-extent // stride)
    first, past = before // stride, -(-(before + wanted) // stride)
    # Pixel q reads the inputs q - taps + 1 to q.
    pads = taps - 1 - first, past - size
    if before < 0 or min(pads) < 0:
        raise CannotWrite
    start = before - first * stride
    return _Axis(stride, dilation, taps, pads, past - first, start, start + wanted)


def _phases(weights: np.ndarray, axes: Sequence[_Axis], group: int) -> np.ndarray:
    """Rearrange weights for the plain convolution: (outputs * phases, inputs / group, taps...)."""
    inputs, outputs = weights.shape[:2]
    rank = len(axes)
    dilated = [(size - 1) * axis.dilation + 1 for size, axis in zip(weights.shape[2:], axes, strict=True)]
    spread = np.zeros((inputs, outputs, *dilated), weights.dtype)
    spread[(..., *(slice(None, None, axis.dilation) for axis in axes))] = weights
    whole = np.zeros((inputs, outputs, *(axis.taps * axis.stride for axis in axes)), weights.dtype)
    whole[(slice(None), slice(None), *(slice(size) for size in dilated))] = spread
    strides = [axis.stride for axis in axes]
    parts: list[np.ndarray] = []
    for phase in product(*(range(stride) for stride in strides)):
        places = zip(phase, strides, strict=True)
        taken = whole[(slice(None), slice(None), *(slice(first, None, step) for first, step in places))]
        parts.append(np.flip(taken, axis=tuple(range(2, 2 + rank))))
    # (phases, inputs, outputs, taps...) -> (group, outputs, phases, inputs of the group, taps...)
    stacked = np.stack(parts)
    taps = stacked.shape[3:]
    grouped = stacked.reshape(len(parts), group, inputs // group, outputs, *taps)
    order = (1, 3, 0, 2, *range(4, 4 + rank))
    return grouped.transpose(order).reshape(group * outputs * len(parts), inputs // group, *taps)


def _spread(writer: Writer, made: str, front: tuple[int, int], axes: Sequence[_Axis], output: str) -> str:
    """Move channels (outputs, phases of each axis) to pixels."""
    strides = [axis.stride for axis in axes]
    if len(axes) == 2 and strides[0] == strides[1] and writer.opset >= _NEW_LISTS:
        return writer.add("DepthToSpace", [made], output, blocksize=strides[0], mode="CRD")
    sizes = [axis.made for axis in axes]
    apart = writer.reshape(made, [*front, *strides, *sizes])
    rank = len(axes)
    order = [0, 1, *(place for index in range(rank) for place in (2 + rank + index, 2 + index))]
    turned = writer.add("Transpose", [apart], perm=order)
    return writer.reshape(turned, [*front, *(axis.made * axis.stride for axis in axes)], output)


def write_pad(writer: Writer, node: NodeProto) -> None:
    """Rewrite Pad without a value: the default 0 becomes a constant input."""
    if writer.opset < _NEW_LISTS or writer.given(2) or writer.attribute("mode", b"constant") != b"constant":
        raise CannotWrite
    zero = writer.constant("zero", np.zeros((), writer.dtype(writer.given(0))))
    inputs = [writer.given(0), writer.given(1), zero, *node.input[3:]]
    writer.add("Pad", inputs, writer.wanted(0), mode="constant")


WRITERS = {"ConvTranspose": write_conv_transpose, "Pad": write_pad}
