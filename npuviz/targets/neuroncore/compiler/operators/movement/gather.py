"""Lower Gather, GatherElements, GatherND and ReverseSequence.

Indices known when compiling become descriptors. The engines make row numbers of other indices; rows
are then fetched by descriptors that GpSimd makes (software DGE), single elements of a row by
GpSimd's gather along the free dimension.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.indices import dense, scaled, words, wrapped
from npuviz.targets.neuroncore.compiler.operators.movement.maps import move_by_map, numbers
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import ITEM_BYTES, View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu
from npuviz.targets.neuroncore.strides import dense_steps

ROW_BYTES = 16384
"""Most bytes of a row that one step holds in a partition."""
DIRECT_PREFIX = 16
"""Most leading blocks that are gathered one by one; more are moved into rows first."""


def constant_of(b: Builder, node: Node, index: int) -> np.ndarray | None:
    """Return an input of constant indices; None if they are not constant, or too many for descriptors."""
    value = b.graph.constants.get(node.inputs[index])
    if value is None or value.size > 4096:
        return None
    return np.asarray(value).astype(np.int64)


def lower_gather(b: Builder, node: Node) -> None:
    """Lower Gather, along one axis."""
    to, of, indices = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    if not to.num_elements:
        return
    axis = arguments.axis_of(arguments.integer(node, "axis"), len(of.shape))
    fixed = constant_of(b, node, 1)
    if fixed is not None:
        _gather_known(b, to, of, fixed, axis)
        return
    prefix, rest = math.prod(of.shape[:axis]), math.prod(of.shape[axis + 1 :])
    size, count = of.shape[axis], indices.num_elements
    if prefix > DIRECT_PREFIX:
        rows = b.hbm.scratch((size, prefix, rest), of.dtype)
        arguments.copy(b, rows, of.reshape(prefix, size, rest).permute(1, 0, 2))
        made = b.hbm.scratch((count, prefix, rest), to.dtype)
        gather_rows(b, made.reshape(count, prefix * rest), rows.reshape(size, prefix * rest), indices, size)
        arguments.copy(b, to.reshape(prefix, count, rest), made.permute(1, 0, 2))
        return
    planes, results = of.reshape(prefix, size, rest), to.reshape(prefix, count, rest)
    for at in range(prefix):
        gather_rows(b, results[at], planes[at], indices, size)


def _gather_known(b: Builder, to: HbmView, of: HbmView, indices: np.ndarray, axis: int) -> None:
    size = of.shape[axis]
    flat = np.where(indices < 0, indices + size, indices).reshape(-1)
    if flat.size and not (flat.min() >= 0 and flat.max() < size):
        raise CannotLower("a constant index out of range")
    prefix, rest = math.prod(of.shape[:axis]), math.prod(of.shape[axis + 1 :])
    planes, results = of.reshape(prefix, size, rest), to.reshape(prefix, flat.size, rest)
    begin = 0
    while begin < flat.size:
        end = begin + 1
        step = int(flat[end] - flat[begin]) if end < flat.size else 1
        while end < flat.size and flat[end] - flat[end - 1] == step:
            end += 1
        first = int(flat[begin])
        if step == 0:
            taken = planes[:, first : first + 1].broadcast_to((prefix, end - begin, rest))
        else:
            last = first + (end - begin - 1) * step
            stop = last + (1 if step > 0 else -1)
            taken = planes[:, slice(first, None if stop < 0 else stop, step)]
        arguments.copy(b, results[:, begin:end], taken)
        begin = end


def gather_rows(b: Builder, to: HbmView, rows: HbmView, indices: HbmView, size: int) -> None:
    """Emit to[i] = rows[indices[i]], of two dimensions; negative indices count from `size`."""
    if to.dtype == rows.dtype:
        to, rows = words(to), words(rows)
    flat = indices.flatten()
    columns = max(1, ROW_BYTES // ITEM_BYTES[rows.dtype])
    for begin, end in blocks(to.shape[0], NUM_PARTITIONS):
        with b.tiles.scope():
            index = wrapped(b, b.dma.fetch(flat[begin:end].reshape(end - begin, 1)), size)
            gather_block(b, to[begin:end], rows, index, columns)


def gather_block(b: Builder, to: HbmView, rows: HbmView, index: View, columns: int = 4096) -> None:
    """Emit to[p] = rows[index[p]] for up to 128 rows; the index is one int32 a partition."""
    for first, last in blocks(rows.shape[1], columns):
        with b.tiles.scope():
            tile = b.tiles.sbuf(to.shape[0], (last - first,), rows.dtype)
            b.dma.gather(tile, rows[:, first:last], index)
            b.dma.store(to[:, first:last], tile)


def lower_gather_elements(b: Builder, node: Node) -> None:
    """Lower GatherElements, where each element of the result has an index along the axis."""
    to, of, indices = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    if not to.num_elements:
        return
    axis = arguments.axis_of(arguments.integer(node, "axis"), len(of.shape))
    size = of.shape[axis]
    fixed = constant_of(b, node, 1)
    if fixed is not None:
        fixed = np.where(fixed < 0, fixed + size, fixed)
        move_by_map(b, to, of, np.take_along_axis(_cut(numbers(of.shape), fixed.shape, axis), fixed, axis))
        return
    last = tuple(at for at in range(len(of.shape)) if at != axis)
    key = tuple(slice(None) if at == axis else slice(0, indices.shape[at]) for at in range(len(of.shape)))
    order = (*last, axis)
    rows = math.prod(tuple(indices.shape[at] for at in last))
    data = dense(b, of[key].permute(*order), (rows, size))
    index = dense(b, indices.permute(*order), (rows, indices.shape[axis]))
    results = to.permute(*order)
    made = b.hbm.scratch(results.shape, of.dtype)
    _gather_free(b, words(made.reshape(rows, indices.shape[axis])), words(data), index, size)
    arguments.copy(b, results, made)


def _cut(array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Return the array with every axis but one cut to the size of the indices."""
    return array[tuple(slice(None) if at == axis else slice(0, size) for at, size in enumerate(shape))]


def _gather_free(b: Builder, to: HbmView, data: HbmView, index: HbmView, size: int) -> None:
    """Emit to[p, i] = data[p, index[p, i]], in words: 64-bit elements are two of them."""
    parts = data.shape[1] // size
    item = ITEM_BYTES[data.dtype]
    if data.shape[1] * item > 2 * ROW_BYTES:
        raise CannotLower(f"rows of {data.shape[1] * item} bytes to gather elements from")
    for begin, end in blocks(data.shape[0], NUM_PARTITIONS):
        with b.tiles.scope():
            held = b.dma.fetch(data[begin:end]).reshape(size, parts)
            for first, last in blocks(index.shape[1], ROW_BYTES // 8):
                with b.tiles.scope():
                    at = wrapped(b, b.dma.fetch(index[begin:end, first:last]), size)
                    tile = b.tiles.sbuf(end - begin, (last - first, parts), data.dtype)
                    for part in range(parts):
                        b.isa.gather_free(tile[:, :, part], held[:, :, part], at)
                    b.dma.store(
                        to[begin:end, first * parts : last * parts], tile.reshape((last - first) * parts)
                    )


def lower_gather_nd(b: Builder, node: Node) -> None:
    """Lower GatherND, where the last axis of the indices selects a slice of the data."""
    to, of, indices = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    if not to.num_elements:
        return
    batch_dims = arguments.integer(node, "batch_dims")
    depth = indices.shape[-1]
    row = math.prod(of.shape[batch_dims + depth :])
    fixed = constant_of(b, node, 1)
    if fixed is not None:
        move_by_map(b, to, of, _known_nd(numbers(of.shape), fixed, batch_dims, to.shape))
        return
    count = indices.num_elements // max(1, depth)
    batch = math.prod(of.shape[:batch_dims])
    offset = np.repeat(np.arange(batch), count // batch) * math.prod(
        of.shape[batch_dims : batch_dims + depth]
    )
    data, result = of.reshape(-1, row), to.reshape(count, row)
    if to.dtype == of.dtype:
        data, result = words(data), words(result)
    for begin, end, index in row_numbers(b, indices, of.shape[batch_dims : batch_dims + depth], offset):
        gather_block(b, result[begin:end], data, index)


def _known_nd(flat: np.ndarray, indices: np.ndarray, batch_dims: int, shape: tuple[int, ...]) -> np.ndarray:
    batch = math.prod(flat.shape[:batch_dims])
    data = flat.reshape(batch, *flat.shape[batch_dims:])
    names = indices.reshape(batch, -1, indices.shape[-1])
    made = [data[at][tuple(names[at].T)] for at in range(batch)]
    return np.stack(made).reshape(shape)


def row_numbers(
    b: Builder, indices: HbmView, shape: tuple[int, ...], offset: np.ndarray
) -> "list[tuple[int, int, View]]":
    """Emit the row numbers of index tuples: (first tuple, end, one int32 a partition), 128 tuples at a time.

    shape   sizes of the indexed dimensions;  offset  number by tuple, added to its row number
    """
    count, depth = offset.size, len(shape)
    steps = dense_steps(shape)
    tuples = indices.reshape(count, depth)
    bound = int(offset.max(initial=0)) + math.prod(shape)
    fixed = b.hbm.constant(offset.astype(np.int32).reshape(count, 1)) if offset.any() else None
    made: list[tuple[int, int, View]] = []
    for begin, end in blocks(count, NUM_PARTITIONS):
        total: View | int = 0 if fixed is None else b.dma.fetch(fixed[begin:end])
        given = b.dma.fetch(tuples[begin:end])
        for at in range(depth):
            one = wrapped(b, given[:, at : at + 1], shape[at])
            total = scaled(b, one, steps[at], total, bound)
        assert not isinstance(total, int)
        made.append((begin, end, total))
    return made


def lower_reverse_sequence(b: Builder, node: Node) -> None:
    """Lower ReverseSequence: the first elements of each sequence, by its length, in reverse order."""
    to, of, lengths = arguments.target(b, node), arguments.source(b, node, 0), arguments.source(b, node, 1)
    time, batch = arguments.integer(node, "time_axis"), arguments.integer(node, "batch_axis", 1)
    steps, size = of.shape[time], of.shape[batch]
    if len(of.shape) < 2 or {time, batch} != {0, 1}:
        raise CannotLower("time and batch are not the first two axes")
    row = math.prod(of.shape[2:])
    if not to.num_elements:
        return
    fixed = constant_of(b, node, 1)
    if fixed is not None:
        rows = np.arange(steps)[:, None]
        order = np.where(rows < fixed[None], fixed[None] - 1 - rows, rows)
        flat = numbers(of.shape)
        moved = flat if time == 0 else flat.swapaxes(0, 1)
        result = np.take_along_axis(moved.reshape(steps, size, row), order[:, :, None], 0)
        result = result.reshape(moved.shape)
        move_by_map(b, to, of, result if time == 0 else result.swapaxes(0, 1))
        return
    at_time, at_batch = np.indices((steps, size)).reshape(2, -1)
    step_of = (size, 1) if time == 0 else (1, steps)
    order = np.argsort(at_time * step_of[0] + at_batch * step_of[1])
    times = at_time[order].astype(np.int32)
    base = (at_batch[order] * step_of[1]).astype(np.int32)
    # The length that goes with each row, laid out row by row.
    spread = b.hbm.scratch((steps, size) if time == 0 else (size, steps), lengths.dtype)
    shape = (1, size) if time == 0 else (size, 1)
    b.dma.copy(spread, lengths.reshape(*shape).broadcast_to(spread.shape))
    data, result = words(of.reshape(-1, row)), words(to.reshape(-1, row))
    time_of, base_of = b.hbm.constant(times.reshape(-1, 1)), b.hbm.constant(base.reshape(-1, 1))
    for begin, end in blocks(steps * size, NUM_PARTITIONS):
        with b.tiles.scope():
            length = b.dma.fetch(spread.flatten()[begin:end].reshape(end - begin, 1))
            now = b.dma.fetch(time_of[begin:end])
            index = _reversed_time(b, now, length)
            index = scaled(b, index, step_of[0], b.dma.fetch(base_of[begin:end]), steps * size)
            gather_block(b, result[begin:end], data, index)


def _reversed_time(b: Builder, now: View, length: View) -> View:
    """Emit now < length ? length - 1 - now : now."""
    count = now.partitions
    inside, back, made = (b.tiles.sbuf(count, (1,), "int32") for _ in range(3))
    b.isa.tensor_tensor(inside, now, length, Alu.LESS)
    b.isa.tensor_tensor(back, length, now, Alu.SUBTRACT)
    b.isa.tensor_scalar(back, back, Alu.SUBTRACT, 1)
    b.isa.copy(made, now)
    b.isa.copy_predicated(made, back, inside)
    return made


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Gather": lower_gather,
    "GatherElements": lower_gather_elements,
    "GatherND": lower_gather_nd,
    "ReverseSequence": lower_reverse_sequence,
}
