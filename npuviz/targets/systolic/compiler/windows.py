"""Sliding windows over images: the part of the input that a part of the output reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
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


@dataclass(frozen=True, slots=True)
class Cuts:
    """Consecutive cuts of an axis, as columns: there may be millions of them, of few kinds.

    start, first  (n,) int64: see Cut
    kinds        cuts that differ in more than their place, each at the place of its first occurrence
    kind         (n,) int64: index in `kinds` of each cut
    """

    start: np.ndarray
    first: np.ndarray
    kinds: list[Cut]
    kind: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def most(self) -> int:
        """Outputs of the largest cut."""
        return max(cut.count for cut in self.kinds)

    @property
    def longest(self) -> int:
        """Input positions of the longest cut."""
        return max(cut.length for cut in self.kinds)


def cut_axis(axis: WindowAxis, step: int) -> Cuts:
    """Cut an axis into ranges of at most `step` outputs. Raises CannotLower if one reads padding only."""
    start = np.arange(0, axis.out, step, dtype=np.int64)
    count = np.minimum(step, axis.out - start)
    low = start * axis.stride - axis.before
    first = np.maximum(0, low)
    length = np.minimum(axis.size, low + (count - 1) * axis.stride + axis.reach(1)) - first
    if (length <= 0).any():
        raise CannotLower("a window lies outside the image")
    distinct, which = distinct_columns(np.stack([count, length, first - low]))
    # Numbered as they come: the last assignment, from the end, is that of the first cut of a kind.
    earliest = np.zeros(distinct.shape[1], np.int64)
    earliest[which[::-1]] = np.arange(len(start))[::-1]
    order = np.argsort(earliest)
    number = np.zeros_like(order)
    number[order] = np.arange(len(order))
    columns = np.stack([start, count, first, length, first - low])[:, earliest[order]]
    return Cuts(start, first, [Cut(*column) for column in columns.T.tolist()], number[which])


def image_axes(
    node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]
) -> tuple[WindowAxis, WindowAxis]:
    """Return the two spatial axes of a node; a one-dimensional one gets a first axis of size 1.

    Raises CannotLower for three-dimensional ones.
    """
    if len(kernel) not in (1, 2):
        raise CannotLower(f"{len(kernel)}-dimensional windows")
    height, width = padded_axes(window_axes(node, in_shape, out_shape, kernel), 2)
    return height, width


def box_rows(
    base: int, item: int, axes: Sequence[tuple[int, int]], offset: int = 0
) -> tuple[Rows, tuple[int, ...]]:
    """Return rows of a box of a tensor, and the order of its axes in DRAM.

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
    """Return the byte strides (batch, channel, row, column) of an image tensor; a 1-D one has row stride
    0."""
    strides = lowering.storage(index).strides()
    if len(strides) == 3:
        return strides[0], strides[1], 0, strides[2]
    return strides[0], strides[1], strides[2], strides[3]


def tile_indices(builder: ProgramBuilder, *counts: int) -> tuple[np.ndarray, ...]:
    """Return flat index arrays over all combinations, one element per tile, the last count fastest.

    Raises DoesNotFit when the program cannot have that number of tiles.
    """
    builder.require_tiles(prod(counts))
    return tuple(axis.reshape(-1) for axis in np.indices(counts, dtype=np.int64))


def distinct_columns(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct columns of (rows, n) integers from 0 on, and the index of each column
    among them."""
    sizes = (keys.max(axis=1) + 1).tolist()
    if prod(sizes) >= 1 << 62:
        distinct, which = np.unique(keys, axis=1, return_inverse=True)
        return distinct, which.reshape(-1)
    # One number a column: NumPy compares whole columns ten times as slowly.
    numbers, which = np.unique(np.ravel_multi_index(tuple(keys), sizes), return_inverse=True)
    return np.stack(np.unravel_index(numbers, sizes)), which.reshape(-1)
