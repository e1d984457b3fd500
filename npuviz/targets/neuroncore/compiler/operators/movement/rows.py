"""Move elements within rows by an engine instead of element-wise DMA: repeats, reversals, steps.

Rows are loaded and stored in the order of HBM, and an engine copies the elements to their places in
between. Both transfers then move long runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.strides import extent, merged_together

WORDS = {1: "uint8", 2: "uint16", 4: "uint32"}
MAX_FREE = 4
"""Most free dimensions of an access pattern. Ref: ARCH2."""
ROW_ELEMENTS = 4096
"""Most elements of a row in a tile: of the result; twice as many of the source."""
ROW_CYCLES = 1500
"""Assumed: cycles of a block of up to 128 rows; for choosing between DMA and engines."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """A movement as dimensions (size, step in the target, step in the source), steps in bytes.

    outer, rows, free  dimensions of loops, of partitions, and within a row;  cycles  a rough estimate
    """

    cycles: int
    outer: Sequence[tuple[int, ...]]
    rows: tuple[int, ...]
    free: Sequence[tuple[int, ...]]


def plan_rows(to: HbmView, of: HbmView) -> RowPlan | None:
    """Plan a movement by an engine; return None if that is not possible."""
    item = to.itemsize
    if to.dtype != of.dtype or item not in WORDS:
        return None
    dims = merged_together(to.shape, (to.steps, of.steps))
    cut = _cut(dims, item)
    if cut is None:
        return None
    outer, rows = dims[: max(0, cut - 1)], dims[cut - 1] if cut else (1, 0, 0)
    count = int(np.prod([dim[0] for dim in outer], dtype=np.int64)) * -(-rows[0] // NUM_PARTITIONS)
    return RowPlan(count * ROW_CYCLES, outer, rows, dims[cut:])


def move_within_rows(b: Builder, plan: RowPlan, to: HbmView, of: HbmView) -> None:
    """Emit a planned movement."""
    rows = plan.rows
    for index in np.ndindex(*(dim[0] for dim in plan.outer)):
        shift = [sum(i * dim[side] for i, dim in zip(index, plan.outer, strict=True)) for side in (1, 2)]
        for begin, end in blocks(rows[0], NUM_PARTITIONS):
            block = (end - begin, *rows[1:])
            places = [view.offset + shift[at] + begin * rows[at + 1] for at, view in enumerate((to, of))]
            _move(b, plan.free, block, (to, places[0]), (of, places[1]))


def _cut(dims: Sequence[tuple[int, ...]], item: int) -> int | None:
    """Return the first dimension that lies within a row; None if the result has no rows."""
    best = None
    size = 1
    for at in range(len(dims) - 1, max(-1, len(dims) - 1 - MAX_FREE), -1):
        if dims[at][1] != size * item:
            break
        size *= dims[at][0]
        low, high = extent([dim[0] for dim in dims[at:]], [dim[2] // item for dim in dims[at:]])
        if size > ROW_ELEMENTS or high - low + 1 > 2 * ROW_ELEMENTS or high - low + 1 > 8 * size:
            break
        best = at
    return best


def _move(
    b: Builder,
    free: Sequence[tuple[int, ...]],
    rows: tuple[int, ...],
    to: tuple[HbmView, int],
    of: tuple[HbmView, int],
) -> None:
    """Move a block of rows (count, step in the target, step in the source)."""
    item = to[0].itemsize
    word = WORDS[item]
    sizes, steps = [dim[0] for dim in free], [dim[2] // item for dim in free]
    low, high = extent(sizes, steps)
    size = int(np.prod(sizes, dtype=np.int64))
    source = HbmView(of[0].variable, of[1] + low * item, word, (rows[0], high - low + 1), (rows[2], item))
    target = HbmView(to[0].variable, to[1], word, (rows[0], size), (rows[1], item))
    with b.tiles.scope():
        held = b.tiles.sbuf(rows[0], (high - low + 1,), word)
        b.dma.load(held, source)
        made = b.tiles.sbuf(rows[0], (size,), word)
        chosen = View(held.tile, 0, rows[0], held.address - low * item, word, tuple(sizes), tuple(steps))
        b.isa.copy(made.reshape(*sizes), chosen)
        b.dma.store(target, made)
