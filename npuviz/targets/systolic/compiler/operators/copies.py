"""Moving data from one tensor to another through the scratchpad: rows in, rows out, no arithmetic.

A move is a box of elements with a stride on either side. A tile loads one or several sub-boxes, each
into an entry of its own, and stores them in the order of the destination.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.operators.chunks import MIN_CHUNK_BYTES
from npuviz.targets.systolic.compiler.template import Template
from npuviz.targets.systolic.compiler.tiling.resources import Resources, ceil_div, round_up
from npuviz.targets.systolic.compiler.windows import box_rows, distinct_columns, tile_indices

SOURCE, TARGET = 0, 1
MAX_ENTRIES = 64
"""Most sub-boxes of a tile. Assumed: with more, its program is too long."""

MAX_TILES = 1 << 16
"""Most tiles of a move; the Host does moves that need more."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Elements along an axis of a move, and byte strides in source and destination."""

    count: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Move:
    """Copy a box from one tensor to another, from byte offsets into each."""

    source: int
    target: int
    axes: tuple[Axis, ...]
    source_offset: int = 0
    target_offset: int = 0


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a move is cut: sizes of a sub-box per axis, and sub-boxes per tile along one axis."""

    axes: tuple[Axis, ...]
    box: tuple[int, ...]
    group_axis: int
    group: int


def lower_moves(lowering: Lowering, node: Node, moves: Sequence[Move]) -> None:
    """Write one layer that does all the moves. Raises CannotLower before it opens the layer."""
    moves = [move for move in moves if all(axis.count > 0 for axis in move.axes)]
    if not moves:
        raise CannotLower("there is nothing to move")
    cuts = [_cut(lowering, move) for move in moves]
    if sum(_num_tiles(cut) for cut in cuts) > MAX_TILES:
        raise CannotLower("the pieces that lie together are too small")
    lowering.builder.begin_layer(node.name or node.op_type, node.id)
    writer = _Writer(lowering)
    for move, cut in zip(moves, cuts, strict=True):
        writer.write(move, cut)
    lowering.builder.end_layer()
    lowering.add_layer(node, [move.source for move in moves], [move.target for move in moves])


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return the axes by falling destination stride, neighbours that are contiguous on both sides merged."""
    kept: list[Axis] = []
    for axis in sorted(axes, key=lambda axis: -axis.target):
        if axis.count == 1:
            continue
        if (
            kept
            and kept[-1].target == axis.count * axis.target
            and kept[-1].source == axis.count * axis.source
        ):
            kept[-1] = replace(axis, count=kept[-1].count * axis.count)
        else:
            kept.append(axis)
    return tuple(kept) or (Axis(1, 0, 0),)


def _cut(lowering: Lowering, move: Move) -> _Cut:
    item = lowering.storage(move.source).item_bytes
    if item != lowering.storage(move.target).item_bytes or (
        lowering.storage(move.source).dtype != lowering.storage(move.target).dtype
    ):
        raise CannotLower("source and destination have different element types")
    axes = merged(move.axes)
    resources = lowering.resources
    box = _choose_box(resources, axes, item)
    box_bytes = round_up(prod(box) * item, resources.request_bytes)
    outer = [index for index, axis in enumerate(axes) if box[index] < axis.count]
    if not outer:
        return _Cut(axes, box, 0, 1)
    # The outer axis with the shortest destination stride: neighbours in time are neighbours in DRAM.
    axis = outer[-1]
    steps = ceil_div(axes[axis].count, box[axis])
    others = prod(ceil_div(axes[index].count, box[index]) for index in outer) // steps
    group = min(steps, MAX_ENTRIES, max(1, resources.spad_half // box_bytes))
    wanted = ceil_div(resources.num_cores, others)
    group = max(1, min(group, ceil_div(steps, wanted)))
    return _Cut(axes, box, axis, group)


def _choose_box(resources: Resources, axes: tuple[Axis, ...], item: int) -> tuple[int, ...]:
    """Add axes to a box one by one while MOVIN and MOVOUT can express it and it fits."""
    total = prod(axis.count for axis in axes) * item
    share = round_up(ceil_div(total, resources.num_cores), resources.request_bytes)
    limit = min(resources.spad_half, max(share, MIN_CHUNK_BYTES)) // item
    box = [1] * len(axes)
    by_target = sorted(range(len(axes)), key=lambda index: axes[index].target)
    first_source = min(range(len(axes)), key=lambda index: axes[index].source or 1 << 62)
    order = list(dict.fromkeys((by_target[0], first_source, *by_target)))
    for place, index in enumerate(order):
        room = limit // prod(box)
        if place == 0 and len(order) > 1 and order[1] == first_source:
            # Leave room for runs on the source side too: a transposition moves square blocks.
            room = max(1, min(room, int(limit**0.5)))
            if limit // axes[index].count >= axes[first_source].count:
                room = limit
        size = min(axes[index].count, room)
        if size <= 1:
            continue
        trial = [*box]
        trial[index] = size
        if _expressible(axes, trial, item):
            box = trial
        if size < axes[index].count and place > 0:
            break
    return tuple(box)


def _expressible(axes: tuple[Axis, ...], box: Sequence[int], item: int) -> bool:
    try:
        box_rows(SOURCE, item, [(size, axis.source) for size, axis in zip(box, axes, strict=True)])
        box_rows(TARGET, item, [(size, axis.target) for size, axis in zip(box, axes, strict=True)])
    except CannotLower:
        return False
    return True


def _num_tiles(cut: _Cut) -> int:
    count = 1
    for index, (axis, size) in enumerate(zip(cut.axes, cut.box, strict=True)):
        steps = ceil_div(axis.count, size)
        count *= ceil_div(steps, cut.group) if index == cut.group_axis else steps
    return count


class _Writer:
    """Writes the tiles of moves into the open layer."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.num_tiles = 0

    def write(self, move: Move, cut: _Cut) -> None:
        """Add the tiles of one move."""
        builder, resources = self.lowering.builder, self.lowering.resources
        steps = [size * (cut.group if index == cut.group_axis else 1) for index, size in enumerate(cut.box)]
        counts = [ceil_div(axis.count, step) for axis, step in zip(cut.axes, steps, strict=True)]
        places = tile_indices(builder, *counts)
        starts = [place * step for place, step in zip(places, steps, strict=True)]
        lengths = np.stack(
            [
                np.minimum(step, axis.count - start)
                for step, axis, start in zip(steps, cut.axes, starts, strict=True)
            ]
        )
        distinct, which = distinct_columns(lengths)
        ids = np.zeros(distinct.shape[1], dtype=np.int64)
        for index in np.argsort(-distinct.prod(axis=0), kind="stable").tolist():
            size = tuple(int(value) for value in distinct[:, index])
            ids[index] = builder.template((move, size), partial(self._template, move, cut, size))
        source, target = self.lowering.storage(move.source), self.lowering.storage(move.target)
        bases = np.zeros((len(starts[0]), 2), dtype=np.int64)
        bases[:, SOURCE] = source.address + move.source_offset
        bases[:, TARGET] = target.address + move.target_offset
        for axis, start in zip(cut.axes, starts, strict=True):
            bases[:, SOURCE] += start * axis.source
            bases[:, TARGET] += start * axis.target
        cores = (self.num_tiles + np.arange(len(bases))) % resources.num_cores
        self.num_tiles += len(bases)
        builder.add_tiles(ids[which], bases, cores=cores, coords=np.stack(starts[:6], axis=1))

    def _template(self, move: Move, cut: _Cut, lengths: tuple[int, ...], template: Template) -> None:
        lowering = self.lowering
        resources = lowering.resources
        item = lowering.storage(move.source).item_bytes
        spad = Half(lowering.builder.scratchpad_entry, resources.request_bytes, resources.spad_half)
        grouped = cut.axes[cut.group_axis]
        step = cut.box[cut.group_axis]
        stores: list[tuple[int, tuple[int, ...], int]] = []
        for number, start in enumerate(range(0, lengths[cut.group_axis], step)):
            box = tuple(
                min(step, size - start) if index == cut.group_axis else size
                for index, size in enumerate(lengths)
            )
            axes = [(size, axis.source) for size, axis in zip(box, cut.axes, strict=True)]
            rows, order = box_rows(SOURCE, item, axes, start * grouped.source)
            size = prod(box) * item
            word = spad.entry((move.source, move.target, move.target_offset, number), size)
            root = lowering.storage(move.source).root
            aux = lowering.shape(tuple(box[axis] for axis in order))
            template.movin(word, rows, size=size, tensor=root, aux=aux)
            stores.append((word, box, start))
        for word, box, start in stores:
            axes = [(size, axis.source) for size, axis in zip(box, cut.axes, strict=True)]
            _, order = box_rows(SOURCE, item, axes)
            axes = [(size, axis.target) for size, axis in zip(box, cut.axes, strict=True)]
            rows, target_order = box_rows(TARGET, item, axes, start * grouped.target)
            loaded = tuple(box[axis] for axis in order)
            aux = lowering.order(loaded, tuple(order.index(axis) for axis in target_order))
            template.movout(word, rows, tensor=lowering.storage(move.target).root, aux=aux)
