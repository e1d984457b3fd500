"""Sliding windows over images: what part of the input a part of the output needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.template import Rows


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
    """Cut an axis into ranges of at most `step` outputs. Raises CannotLower if one reads padding only."""
    cuts: list[Cut] = []
    for start in range(0, axis.out, step):
        count = min(step, axis.out - start)
        first, end = axis.inputs(start, start + count)
        if first == end:
            raise CannotLower("a window lies outside the image")
        cuts.append(Cut(start, count, first, end - first, first - start * axis.stride + axis.before))
    return cuts


def image_axes(
    node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]
) -> tuple[WindowAxis, WindowAxis]:
    """The two spatial axes of a node; a one-dimensional one gets a first axis of size 1.

    Raises CannotLower for three-dimensional ones.
    """
    if len(kernel) not in (1, 2):
        raise CannotLower(f"{len(kernel)}-dimensional windows")
    height, width = padded_axes(window_axes(node, in_shape, out_shape, kernel), 2)
    return height, width


def box_rows(
    base: int, item: int, axes: Sequence[tuple[int, int]], offset: int = 0
) -> tuple[Rows, tuple[int, ...]]:
    """Rows of a box of a tensor, and the order of its axes in DRAM.

    axes  (count, byte stride) of every axis of the box
    Raises CannotLower if the box has more levels than a MOVIN can express.
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
        raise CannotLower("a block of more than three levels of strides")
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
