"""Divide broadcast shapes into tiles: choose the dimension on partitions, and those looped over."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.strides import merged_together

MAX_WIDTH = 2048
"""Most elements of a tile in a partition: 8 KiB of fp32, long rows for the DMA engines."""
SMALL = 512
"""Largest tensor (in elements) put in one partition, because spreading costs more DMA than it saves."""
TILE_CYCLES = 1500
"""Assumed: engine cycles of a tile apart from its elements, for transfers and instruction latencies."""
MIN_CHANNELS, MIN_ROW = 32, 64
"""Fewer channels, or shorter rows, are not put on partitions by channel."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tile of the iteration space, (partitions, *free).

    sides  a view of that shape for each side (operand or result); free sizes are 1 where it is broadcast
    """

    partitions: int
    free: tuple[int, ...]
    sides: tuple[HbmView, ...]


def blocks(
    shape: Sequence[int],
    sides: Sequence[HbmView],
    width: int = MAX_WIDTH,
    small: int = SMALL,
    by_channel: bool = False,
) -> Iterator[Block]:
    """Yield tiles of at most 128 partitions and `width` elements that cover `shape` once.

    sides       views that broadcast to `shape` by numpy's rules
    by_channel  prefer channels (rows of a matrix) on partitions, as products and convolutions store
    and fetch them, to find their tiles still in SBUF
    """
    if 0 in shape:
        return
    wide = [side.broadcast_to(shape) for side in sides]
    dims = _channel_dims(shape, wide) if by_channel else []
    is_flat = not dims
    if is_flat:
        dims = merged_together(shape, [side.steps for side in wide])
    sizes = [dim[0] for dim in dims]
    steps = [list(dim[1:]) for dim in dims]
    if is_flat:
        axis, width = _partition_axis(sizes, width, small)
    else:
        # A tile has one row in each partition, never several channels in one.
        axis, width = 1, min(width, math.prod(sizes[2:]))
    chunk_axis = _chunk_axis(sizes, axis, width) if math.prod(sizes[axis + 1 :]) > width else -1
    yield from _walk(wide, sizes, steps, axis, chunk_axis, width)


def _channel_dims(shape: Sequence[int], sides: Sequence[HbmView]) -> list[tuple[int, ...]]:
    """Return dimensions (images, channels, *rest) as (size, step of each side); [] if not worthwhile."""
    lead = min(1, len(shape) - 2)
    if lead < 0:
        return []
    channels, rest = shape[lead], shape[lead + 1 :]
    if channels < MIN_CHANNELS or not math.prod(rest) >= MIN_ROW:
        return []
    behind = merged_together(rest, [side.steps[lead + 1 :] for side in sides])
    if len(behind) > 3:
        return []
    images = (shape[0], *(side.steps[0] for side in sides)) if lead else (1, *(0 for _ in sides))
    return [images, (channels, *(side.steps[lead] for side in sides)), *behind]


def _chunk_axis(sizes: Sequence[int], axis: int, width: int) -> int:
    """Return the axis after `axis` that is cut: all further ones fit into `width` together."""
    inside = 1
    for index in range(len(sizes) - 1, axis, -1):
        if inside * sizes[index] > width:
            return index
        inside *= sizes[index]
    return axis


def _partition_axis(sizes: Sequence[int], width: int, small: int) -> tuple[int, int]:
    """Return the axis for the partitions with the fewest engine cycles (-1: none), and the width."""
    if math.prod(sizes) <= small and len(sizes) <= 4:
        return -1, max(width, small)
    best, choice = float("inf"), 0
    for axis in range(len(sizes)):
        inner = math.prod(sizes[axis + 1 :])
        if min(inner, width) < inner or len(sizes) - axis - 1 > 3:
            cut = _chunk_axis(sizes, axis, width)
            inside = min(math.prod(sizes[cut + 1 :]) * sizes[cut], width) if cut > axis else inner
            tiles = -(-sizes[axis] // NUM_PARTITIONS) * -(-inner // max(1, inside))
            elements = inside
        else:
            rows = max(1, min(-(-sizes[axis] // NUM_PARTITIONS), width // inner))
            tiles = -(-sizes[axis] // (NUM_PARTITIONS * rows))
            elements = rows * inner
        cost = math.prod(sizes[:axis]) * tiles * (TILE_CYCLES + max(64, elements))
        if cost < best:
            best, choice = cost, axis
    return choice, width


def _walk(
    sides: Sequence[HbmView],
    sizes: list[int],
    steps: list[list[int]],
    axis: int,
    chunk_axis: int,
    width: int,
) -> Iterator[Block]:
    """Yield all tiles: loop over the axes before `axis`, those between it and `chunk_axis`, then the
    pieces.
    """
    loops = list(range(axis)) if axis > 0 else []
    if chunk_axis > axis:
        loops += range(axis + 1, chunk_axis)
    first_free = chunk_axis if chunk_axis > axis else axis + 1
    free = list(range(first_free, len(sizes)))
    while len(free) > 3:
        loops.append(free.pop(0))
    whole_rows = chunk_axis <= axis
    inner = math.prod([sizes[i] for i in free])
    for index in np.ndindex(*(sizes[i] for i in loops)):
        base = [
            side.offset + sum(at * steps[i][s] for at, i in zip(index, loops, strict=True))
            for s, side in enumerate(sides)
        ]
        if whole_rows:
            for start, partitions, rows in _row_pieces(sizes[axis] if axis >= 0 else 1, inner, width):
                dims = [(partitions, axis, rows), (rows, axis, 1)] + [(sizes[i], i, 1) for i in free]
                yield _block(sides, steps, base, dims, axis, start)
            continue
        step = max(1, width // math.prod([sizes[i] for i in free[1:]]))
        for at in range(0, sizes[chunk_axis], step):
            count = min(step, sizes[chunk_axis] - at)
            moved = [offset + at * steps[chunk_axis][s] for s, offset in enumerate(base)]
            for start in range(0, sizes[axis], NUM_PARTITIONS):
                partitions = min(NUM_PARTITIONS, sizes[axis] - start)
                dims = [(partitions, axis, 1), (count, chunk_axis, 1)]
                dims += [(sizes[i], i, 1) for i in free[1:]]
                yield _block(sides, steps, moved, dims, axis, start)


def _row_pieces(size: int, inner: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, partitions, rows in each) that cover `size` rows of `inner` elements."""
    start = 0
    while start < size:
        left = size - start
        rows = max(1, min(-(-left // NUM_PARTITIONS), max(1, width // inner)))
        if inner * rows < 64 and left * inner > 64:
            rows = min(left, max(1, -(-64 // inner)))
        partitions = min(NUM_PARTITIONS, left // rows)
        yield start, partitions, rows
        start += partitions * rows


def _block(
    sides: Sequence[HbmView],
    steps: list[list[int]],
    base: list[int],
    dims: list[tuple[int, int, int]],
    axis: int,
    start: int,
) -> Block:
    """Make the block of dimensions (size, axis, multiple of the axis' step), partitions first."""
    kept = [dims[0], *(dim for dim in dims[1:] if dim[0] > 1)]
    if len(kept) == 1:
        kept.append((1, -1, 0))
    views: list[HbmView] = []
    for s, side in enumerate(sides):
        offset = base[s] + (start * steps[axis][s] if axis >= 0 else 0)
        shape: list[int] = []
        strides: list[int] = []
        for position, (size, i, multiple) in enumerate(kept):
            step = steps[i][s] * multiple if i >= 0 else 0
            shape.append(size if position == 0 or step else 1)
            strides.append(step)
        views.append(HbmView(side.variable, offset, side.dtype, tuple(shape), tuple(strides)))
    return Block(kept[0][0], tuple(size for size, _, _ in kept[1:]), tuple(views))
