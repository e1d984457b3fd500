"""Operators that only move data: Concat, Split, Slice, Transpose, Expand, Tile, Gather, and some views."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.copies import Axis, Move, lower_moves
from npuviz.targets.systolic.compiler.operators.picking import lower_gather as lower_gather_of_run
from npuviz.targets.systolic.values.storage import Storage

MAX_MOVES = 256
"""Assumed: parts of a tensor that are moved one by one, so that a layer keeps a short program."""


def _paired(storage: Storage, other: Storage, counts: Sequence[int]) -> tuple[Axis, ...]:
    """Return the axes of a box that has the same axes in both tensors."""
    return tuple(
        Axis(count, source, target)
        for count, source, target in zip(counts, storage.strides(), other.strides(), strict=True)
    )


def lower_concat(lowering: Lowering, node: Node) -> None:
    """Lower Concat: one move per input."""
    output = lowering.storage(node.outputs[0])
    axis = attributes_of(node).axis(len(output.shape))
    moves: list[Move] = []
    start = 0
    for index in node.inputs:
        storage = lowering.storage(index)
        axes = _paired(storage, output, storage.shape)
        moves.append(Move(index, output.tensor, axes, 0, start * output.strides()[axis]))
        start += storage.shape[axis]
    lower_moves(lowering, node, moves)


def lower_split(lowering: Lowering, node: Node) -> None:
    """Lower Split: one move per output."""
    source = lowering.storage(node.inputs[0])
    axis = attributes_of(node).axis(len(source.shape))
    moves: list[Move] = []
    start = 0
    for index in node.outputs:
        if index < 0:
            raise CannotLower("an output is left out")
        storage = lowering.storage(index)
        axes = _paired(source, storage, storage.shape)
        moves.append(Move(source.tensor, index, axes, start * source.strides()[axis], 0))
        start += storage.shape[axis]
    lower_moves(lowering, node, moves)


def lower_transpose(lowering: Lowering, node: Node) -> None:
    """Lower Transpose: rows are loaded as they lie and stored in their new order."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    rank = len(source.shape)
    order = attributes_of(node).integers("perm", list(reversed(range(rank))))
    axes = tuple(
        Axis(output.shape[place], source.strides()[axis], output.strides()[place])
        for place, axis in enumerate(order)
    )
    lower_moves(lowering, node, [Move(source.tensor, output.tensor, axes)])


def lower_view_copy(lowering: Lowering, node: Node) -> None:
    """Lower a view whose bytes must change their order, because one side lies NHWC."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    if any(index >= 0 for index in node.outputs[1:]):
        raise CannotLower("a mask is asked for")
    if source.shape == output.shape:
        axes = _paired(source, output, source.shape)
    elif output.is_row_major:
        axes = _against_row_major(source, output.item_bytes, is_source=True)
    elif source.is_row_major:
        axes = _against_row_major(output, source.item_bytes, is_source=False)
    else:
        raise CannotLower("both sides lie in an order of their own")
    lower_moves(lowering, node, [Move(source.tensor, output.tensor, axes)])


def _against_row_major(storage: Storage, item: int, is_source: bool) -> tuple[Axis, ...]:
    """Return the axes of a tensor against the same elements in row-major order."""
    plain = [item * prod(storage.shape[axis + 1 :]) for axis in range(len(storage.shape))]
    pairs = zip(storage.shape, storage.strides(), plain, strict=True)
    return tuple(Axis(count, own, row) if is_source else Axis(count, row, own) for count, own, row in pairs)


def _constants(lowering: Lowering, node: Node, position: int, name: str) -> list[int] | None:
    """Return an integer list given as an attribute (old operator sets) or a constant input; None if
    absent."""
    if name in node.attributes:
        return attributes_of(node).integers(name)
    index = lowering.input(node, position)
    if index < 0:
        return None
    values = lowering.constant(index)
    if values is None:
        raise CannotLower(f"{name} are computed at run time", change=f"constant {name}")
    return [int(value) for value in np.asarray(values).reshape(-1)]


def lower_slice(lowering: Lowering, node: Node) -> None:
    """Lower Slice with constant bounds; an axis that runs backwards is moved index by index."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    rank = len(source.shape)
    starts = _constants(lowering, node, 1, "starts") or []
    ends = _constants(lowering, node, 2, "ends") or []
    axes = _constants(lowering, node, 3, "axes") or list(range(len(starts)))
    steps = _constants(lowering, node, 4, "steps") or [1] * len(starts)
    offset, strides = 0, list(source.strides())
    backwards: dict[int, list[int]] = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= rank
        taken = range(*slice(start, end, step).indices(source.shape[axis]))
        if step < 0:
            backwards[axis] = list(taken)
            continue
        offset += taken.start * source.strides()[axis]
        strides[axis] *= step
    if len(backwards) > 1:
        raise CannotLower("more than one of its axes runs backwards", change="positive steps")
    made = [
        Axis(count, stride, target)
        for count, stride, target in zip(output.shape, strides, output.strides(), strict=True)
    ]
    whole = Move(source.tensor, output.tensor, tuple(made), offset)
    if not backwards:
        lower_moves(lowering, node, [whole])
        return
    ((axis, places),) = backwards.items()
    lower_moves(lowering, node, _at_places(whole, axis, places, source.strides()[axis]))


def _at_places(whole: Move, axis: int, places: Sequence[int], stride: int) -> list[Move]:
    """Split a move along an axis at given places in the source: a part for each run at even distances.

    stride  of the axis in the source, whose position in `whole` is 0
    """
    runs: list[tuple[int, int, int]] = []
    for number, place in enumerate(places):
        first, count, step = runs[-1] if runs else (-1, 0, 0)
        if count == 1 and place >= places[first]:
            runs[-1] = first, 2, place - places[first]
        elif count > 1 and place == places[first] + count * step:
            runs[-1] = first, count + 1, step
        else:
            runs.append((number, 1, 0))
    if len(runs) > MAX_MOVES:
        raise CannotLower(f"it is moved in more than {MAX_MOVES} parts", str(len(runs)))
    target = whole.axes[axis].target
    return [
        replace(
            whole,
            axes=(*whole.axes[:axis], Axis(count, step * stride, target), *whole.axes[axis + 1 :]),
            source_offset=whole.source_offset + places[first] * stride,
            target_offset=whole.target_offset + first * target,
        )
        for first, count, step in runs
    ]


def lower_tile(lowering: Lowering, node: Node) -> None:
    """Lower Tile by constant numbers: every axis is read repeatedly."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    repeats = lowering.constant(node.inputs[1]) if len(node.inputs) == 2 else None
    if repeats is None:
        raise CannotLower("how often is computed at run time", change="constant repeats")
    axes: list[Axis] = []
    for size, count, taken, given in zip(
        source.shape, repeats.tolist(), source.strides(), output.strides(), strict=True
    ):
        axes += [Axis(int(count), 0, given * size), Axis(size, taken, given)]
    lower_moves(lowering, node, [Move(source.tensor, output.tensor, tuple(axes))])


def lower_expand(lowering: Lowering, node: Node) -> None:
    """Lower Expand: a broadcast axis is read repeatedly."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    shift = len(output.shape) - len(source.shape)
    if shift < 0:
        raise CannotLower("the result has fewer axes than the input")
    strides = source.strides()
    axes = tuple(
        Axis(
            count,
            strides[axis - shift] if axis >= shift and source.shape[axis - shift] > 1 else 0,
            output.strides()[axis],
        )
        for axis, count in enumerate(output.shape)
    )
    lower_moves(lowering, node, [Move(source.tensor, output.tensor, axes)])


def lower_gather(lowering: Lowering, node: Node) -> None:
    """Lower Gather: a slice for each run of constant indices at even distances, a move for each index known
    at run time only."""
    source, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    indices = lowering.constant(node.inputs[1])
    axis = attributes_of(node).axis(len(source.shape))
    if indices is None:
        lower_gather_of_run(lowering, node)
        return
    if indices.ndim > 1 and not output.is_row_major:
        raise CannotLower("indices with more than one axis, which do not follow each other in DRAM")
    places = [int(value) % source.shape[axis] for value in indices.reshape(-1)]
    targets = list(output.strides())
    targets[axis : axis + indices.ndim] = [targets[axis + indices.ndim - 1] if indices.ndim else 0]
    axes = tuple(map(Axis, source.shape, source.strides(), targets))
    whole = Move(source.tensor, output.tensor, axes)
    try:
        moves = _at_places(whole, axis, places, source.strides()[axis])
    except CannotLower:
        lower_gather_of_run(lowering, node)
        return
    lower_moves(lowering, node, moves)


def lower_depth_to_space(lowering: Lowering, node: Node) -> None:
    """Lower DepthToSpace and SpaceToDepth: channels become pixels or the reverse."""
    to_space = node.op_type == "DepthToSpace"
    deep = lowering.storage(node.inputs[0] if to_space else node.outputs[0])
    wide = lowering.storage(node.outputs[0] if to_space else node.inputs[0])
    attributes = attributes_of(node)
    block = attributes.integer("blocksize")
    n, c, h, w = deep.strides()
    big_n, big_c, big_h, big_w = wide.strides()
    channels = deep.shape[1] // (block * block)
    is_columns_first = to_space and attributes.text("mode", "DCR") == "CRD"
    # Channel = (row, column, rest) in mode DCR, (rest, row, column) in mode CRD.
    row, column, rest = (block, 1, block * block) if is_columns_first else (block * channels, channels, 1)
    pairs = (
        (deep.shape[0], n, big_n),
        (block, row * c, big_h),
        (block, column * c, big_w),
        (channels, rest * c, big_c),
        (deep.shape[2], h, block * big_h),
        (deep.shape[3], w, block * big_w),
    )
    axes = tuple(Axis(count, a, b) if to_space else Axis(count, b, a) for count, a, b in pairs)
    lower_moves(lowering, node, [Move(node.inputs[0], node.outputs[0], axes)])


_COPIES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")

LOWERINGS = {
    **dict.fromkeys(_COPIES, lower_view_copy),
    "Concat": lower_concat,
    "Split": lower_split,
    "Transpose": lower_transpose,
    "Slice": lower_slice,
    "Expand": lower_expand,
    "Tile": lower_tile,
    "Gather": lower_gather,
    "DepthToSpace": lower_depth_to_space,
    "SpaceToDepth": lower_depth_to_space,
}
