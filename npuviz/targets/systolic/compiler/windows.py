"""Sliding windows over images: what part of the input a part of the output needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering, NotLowered, attribute_ints, attribute_text
from npuviz.targets.systolic.compiler.template import Rows
from npuviz.targets.systolic.compiler.tiling.resources import ceil_div
from npuviz.targets.systolic.compiler.tiling.window import WindowAxis


@dataclass(frozen=True, slots=True)
class Cut:
    """A range of outputs along an axis and the input positions it reads.

    start, count     outputs
    first, length    input positions inside the image
    before           padding positions the window has before `first`
    """

    start: int
    count: int
    first: int
    length: int
    before: int


def cut_axis(axis: WindowAxis, step: int) -> list[Cut]:
    """Cut an axis into ranges of at most `step` outputs. Raises NotLowered if one reads padding only."""
    cuts: list[Cut] = []
    for start in range(0, axis.out, step):
        count = min(step, axis.out - start)
        begin = start * axis.stride - axis.before
        first = max(0, begin)
        length = min(axis.size, begin + axis.span(count)) - first
        if length <= 0:
            raise NotLowered("a window lies outside the image")
        cuts.append(Cut(start, count, first, length, first - begin))
    return cuts


def window_axes(
    node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]
) -> tuple[WindowAxis, WindowAxis]:
    """The two spatial axes of a node; a one-dimensional one gets a first axis of size 1.

    Raises NotLowered for three-dimensional ones.
    """
    rank = len(kernel)
    if rank not in (1, 2):
        raise NotLowered(f"{rank}-dimensional windows")
    strides = attribute_ints(node, "strides", [1] * rank)
    dilations = attribute_ints(node, "dilations", [1] * rank)
    pads = attribute_ints(node, "pads", [0] * (2 * rank))[:rank]
    automatic = attribute_text(node, "auto_pad", "NOTSET")
    axes: list[WindowAxis] = []
    for i in range(rank):
        size, out = in_shape[2 + i], out_shape[2 + i]
        span = (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        before = pads[i]
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, span - size)
            before = total // 2 if automatic == "SAME_UPPER" else ceil_div(total, 2)
        elif automatic == "VALID":
            before = 0
        axes.append(WindowAxis(size, out, kernel[i], strides[i], dilations[i], before))
    if rank == 1:
        axes.insert(0, WindowAxis(1, 1, 1, 1, 1, 0))
    return axes[0], axes[1]


def box_rows(
    base: int, item: int, axes: Sequence[tuple[int, int]], offset: int = 0
) -> tuple[Rows, tuple[int, ...]]:
    """Rows of a box of a tensor, and the order of its axes in DRAM.

    axes  (count, byte stride) of every axis of the box
    Raises NotLowered if the box has more levels than a MOVIN can express.
    """
    # A repeated axis (stride 0) goes outermost, so that the run inside it stays whole.
    order = tuple(sorted(range(len(axes)), key=lambda axis: (axes[axis][1] != 0, -axes[axis][1])))
    levels: list[list[int]] = []
    for axis in order:
        count, stride = axes[axis]
        if count == 1:
            continue
        if levels and levels[-1][1] == count * stride:
            levels[-1] = [levels[-1][0] * count, stride]
        else:
            levels.append([count, stride])
    length = item
    if levels and levels[-1][1] == item:
        length = levels.pop()[0] * item
    if len(levels) > 2:
        raise NotLowered("a block of more than three levels of strides")
    levels = [[1, 0]] * (2 - len(levels)) + levels
    (n0, s0), (n1, s1) = levels
    return Rows(base, offset, length, n0=n0, s0=s0, n1=n1, s1=s1), order


def spatial_strides(lowering: Lowering, index: int) -> tuple[int, int, int, int]:
    """Byte strides (batch, channel, row, column) of an image tensor; a 1-D one has row stride 0."""
    strides = lowering.storage(index).strides()
    if len(strides) == 3:
        return strides[0], strides[1], 0, strides[2]
    return strides[0], strides[1], strides[2], strides[3]


def as_indices(*counts: int) -> tuple[np.ndarray, ...]:
    """Flat index arrays over all combinations, the last count fastest."""
    return tuple(axis.reshape(-1) for axis in np.indices(counts, dtype=np.int64))
