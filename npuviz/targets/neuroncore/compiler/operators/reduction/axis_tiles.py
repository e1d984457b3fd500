"""Divide tensors into tiles (partitions, axis, other elements), for operators along one axis."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import WIDE, temporary
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

MIN_RUN_BYTES = 64
"""Shorter pieces of rows are not read one by one from HBM if PE can transpose whole rows instead."""
FEW_ROWS = 16
"""With fewer rows before the axis, the elements after it are put on partitions."""


@dataclass(frozen=True, slots=True)
class AxisTile:
    """One tile (partitions, axis, inner); inner is 1 if the axis is the last dimension.

    sides   HBM view of each side: (partitions, axis, inner), or (axis, partitions) if turned
    turned  whether rows are loaded in the order of HBM and transposed by PE
    """

    partitions: int
    axis: int
    inner: int
    sides: tuple[HbmView, ...]
    turned: bool = False

    def fetch(self, b: Builder, side: int) -> View:
        """Fetch a side to SBUF; it must not be written."""
        view = self.sides[side]
        if not self.turned:
            return b.dma.fetch(view)
        made = b.tiles.sbuf(self.partitions, (view.shape[0], 1), view.dtype)
        for start in range(0, view.shape[0], NUM_PARTITIONS):
            stop = min(start + NUM_PARTITIONS, view.shape[0])
            with b.tiles.scope():
                turned = b.tiles.psum(self.partitions, (stop - start,), "float32")
                b.isa.transpose(turned, b.dma.fetch(view[start:stop], "float32"))
                b.isa.copy(made[:, start:stop, 0], turned)
        return made

    def store(self, b: Builder, side: int, value: View) -> None:
        """Store a side in HBM, converted to its type."""
        view = self.sides[side]
        if not self.turned:
            store_as(b, view, value)
            return
        if value.dtype in WIDE or view.shape[0] == 1:
            store_as(b, view.permute(1, 0), value.reshape(value.free_size))
            return
        for start in range(0, view.shape[0], NUM_PARTITIONS):
            stop = min(start + NUM_PARTITIONS, view.shape[0])
            with b.tiles.scope():
                turned = b.tiles.psum(stop - start, (self.partitions,), "float32")
                b.isa.transpose(turned, value[:, start:stop, 0])
                made = b.tiles.sbuf(stop - start, (self.partitions,), view.dtype)
                b.isa.copy(made, turned)
                b.dma.store(view[start:stop], made)


def store_as(b: Builder, target: HbmView, value: View) -> None:
    """Store a tile, converted to the target's type on the device."""
    wanted = {"int64": "int32", "uint64": "uint32", "bool": "uint8"}.get(target.dtype, target.dtype)
    if value.dtype != wanted:
        made = temporary(b, value, wanted)
        b.isa.copy(made, value.bitcast(wanted) if {value.dtype, wanted} <= WIDE else value)
        value = made
    b.dma.store(target, value)


def split_at(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after an axis; a negative one counts from the end."""
    axis %= max(1, len(shape))
    return math.prod(shape[:axis]), shape[axis] if shape else 1, math.prod(shape[axis + 1 :])


def axis_tiles(shape: Sequence[int], axis: int, sides: Sequence[HbmView], limit: int) -> Iterator[AxisTile]:
    """Yield tiles that hold the whole axis, with at most `limit` elements a partition.

    sides  dense views of `shape`, except that the size of the axis may differ between sides; the
           first is read, the others are written
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
    inner = max(1, min(behind, limit // largest))
    item = cubes[0].itemsize
    if behind > 1 and before < FEW_ROWS and behind > before:
        spread = min(inner, -(-behind // NUM_PARTITIONS))
        turns = spread * item < MIN_RUN_BYTES and size >= 32 and cubes[0].dtype == "float32"
        for at in range(before):
            planes = [cube[at] for cube in cubes]
            yield from _turned_tiles(planes, size) if turns else _spread_tiles(planes, size, spread)
        return
    for start in range(0, before, NUM_PARTITIONS):
        rows = slice(start, min(start + NUM_PARTITIONS, before))
        for at in range(0, behind, inner):
            columns = slice(at, min(at + inner, behind))
            views = tuple(cube[rows, :, columns] for cube in cubes)
            yield AxisTile(rows.stop - start, size, columns.stop - at, views)


def _turned_tiles(planes: Sequence[HbmView], size: int) -> Iterator[AxisTile]:
    behind = planes[0].shape[1]
    for start in range(0, behind, NUM_PARTITIONS):
        stop = min(start + NUM_PARTITIONS, behind)
        yield AxisTile(stop - start, size, 1, tuple(plane[:, start:stop] for plane in planes), turned=True)


def _spread_tiles(planes: Sequence[HbmView], size: int, inner: int) -> Iterator[AxisTile]:
    """Yield tiles of the elements after the axis, in runs of `inner`, one run a partition."""
    behind = planes[0].shape[1]
    start = 0
    while start < behind:
        run = min(inner, behind - start)
        partitions = min(NUM_PARTITIONS, (behind - start) // run)
        stop = start + run * partitions
        views = tuple(
            plane[:, start:stop].reshape(plane.shape[0], partitions, run).permute(1, 0, 2) for plane in planes
        )
        yield AxisTile(partitions, size, run, views)
        start = stop
