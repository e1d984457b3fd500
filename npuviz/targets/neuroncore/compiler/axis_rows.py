"""Operators along one axis: their tensors as tiles (partitions, other elements, axis)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.families import CannotLower
from npuviz.targets.neuroncore.compiler.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS


@dataclass(frozen=True, slots=True)
class AxisTile:
    """Views of every side for one tile, as (partitions, axis, inner): inner is 1 for the last axis."""

    partitions: int
    axis: int
    inner: int
    sides: tuple[HbmView, ...]


def split_at(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(elements before, on and behind an axis; a negative axis counts from the end)."""
    axis %= max(1, len(shape))
    return math.prod(shape[:axis]), shape[axis] if shape else 1, math.prod(shape[axis + 1 :])


def axis_tiles(shape: Sequence[int], axis: int, sides: Sequence[HbmView], limit: int) -> Iterator[AxisTile]:
    """Tiles that hold the whole axis, at most `limit` elements a partition.

    sides  dense views of `shape`, except that the size of the axis may differ from side to side
    Raises CannotLower if the axis alone exceeds the limit.
    """
    before, size, behind = split_at(shape, axis)
    if before * behind == 0:
        return
    sizes = [split_at(side.shape, axis)[1] for side in sides]
    largest = max(size, 1, *sizes)
    if largest > limit:
        raise CannotLower(f"an axis of {largest} elements does not fit into a partition (at most {limit})")
    cubes = [side.reshape(before, each, behind) for side, each in zip(sides, sizes, strict=True)]
    if behind > 1 and before < 16 and behind >= 32:
        # Few rows before, many behind: the elements behind go to the partitions.
        for at in range(before):
            for start in range(0, behind, NUM_PARTITIONS):
                stop = min(start + NUM_PARTITIONS, behind)
                views = [cube[at, :, start:stop].permute(1, 0) for cube in cubes]
                yield _tile(stop - start, size, 1, views)
        return
    inner = max(1, min(behind, limit // largest))
    for start in range(0, before, NUM_PARTITIONS):
        rows = slice(start, min(start + NUM_PARTITIONS, before))
        for at in range(0, behind, inner):
            columns = slice(at, min(at + inner, behind))
            yield _tile(
                rows.stop - start, size, columns.stop - at, [cube[rows, :, columns] for cube in cubes]
            )


def _tile(partitions: int, axis: int, inner: int, views: Sequence[HbmView]) -> AxisTile:
    shaped = [
        view
        if len(view.shape) == 3
        else HbmView(view.variable, view.offset, view.dtype, (*view.shape, 1), (*view.steps, view.itemsize))
        for view in views
    ]
    return AxisTile(partitions, axis, inner, tuple(shaped))
