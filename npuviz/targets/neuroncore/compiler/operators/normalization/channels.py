"""Lower normalisations by channel: batch, instance, group."""

import math
from collections.abc import Callable, Sequence

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.channel_affine import is_known
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home, lower_nodes
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import blocks
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import binary, scalar, temporary
from npuviz.targets.neuroncore.compiler.operators.normalization.rows import (
    MAX_ROW,
    STATISTICS_CHUNK,
    float_inputs,
    inverse_deviation,
    needed,
    statistics,
)
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import store_as
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

PIECE = 4096
"""Elements of a row that are normalised at a time; a multiple of STATISTICS_CHUNK."""


def _channels(view: HbmView) -> tuple[int, int, int]:
    """Return (batch, channels, elements of a plane) of a tensor N, C, ..."""
    if len(view.shape) < 2:
        return view.shape[0] if view.shape else 1, 1, 1
    return view.shape[0], view.shape[1], math.prod(view.shape[2:])


def lower_batch_normalization(b: Builder, node: Node) -> None:
    """Lower BatchNormalization: x * a + c by channel; a and c are constants or computed first."""
    if is_known(b.graph, node):
        lower_nodes(b, (node,))
        return
    views = float_inputs(b, node)
    source, target = needed(views, 0), home(b, node.outputs[0])
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    _, channels, _ = _channels(source)
    if int(node.attributes.get("training_mode", 0)):
        _train(b, node, views, epsilon)
        return
    if any(tensor >= 0 for tensor in node.outputs[1:]):
        raise CannotLower("statistics are only made in training mode")
    slope, offset = b.hbm.scratch((channels,), "float32"), b.hbm.scratch((channels,), "float32")
    with b.tiles.scope():
        gain, shift, mean, variance = (
            b.dma.fetch(needed(views, i).reshape(1, channels)) for i in range(1, 5)
        )
        _make_affine(b, gain, shift, mean, inverse_deviation(b, variance, epsilon), slope, offset)
    _apply_by_channel(b, source, slope, offset, target)


def _make_affine(
    b: Builder, gain: View, shift: View, mean: View, inverse: View, slope: HbmView, offset: HbmView
) -> None:
    """Compute slope = gain * inverse and offset = shift - mean * slope, of tiles of the shape of `slope`."""
    factor, rest = temporary(b, inverse), temporary(b, inverse)
    binary(b, factor, inverse, gain, Alu.MULTIPLY)
    binary(b, rest, mean, factor, Alu.MULTIPLY)
    binary(b, rest, shift, rest, Alu.SUBTRACT)
    b.dma.store(slope.reshape(factor.partitions, *factor.shape), factor)
    b.dma.store(offset.reshape(rest.partitions, *rest.shape), rest)


def _apply_by_channel(b: Builder, source: HbmView, slope: HbmView, offset: HbmView, target: HbmView) -> None:
    """Compute target = source * slope + offset, with one slope and offset a channel."""
    batch, channels, plane = _channels(source)
    shape = (batch, channels, plane)
    sides = (
        source.reshape(*shape),
        slope.reshape(1, channels, 1),
        offset.reshape(1, channels, 1),
        target.reshape(*shape),
    )
    for block in blocks(shape, sides):
        with b.tiles.scope():
            x, a, c = (b.dma.fetch(side) for side in block.sides[:3])
            made = b.tiles.sbuf(block.partitions, block.free, target.dtype)
            if a.free_size == 1 and made.free_size > 1:
                b.isa.tensor_scalar(made, x.broadcast(*made.shape), Alu.MULTIPLY, a, Alu.ADD, c)
            else:
                scaled = temporary(b, made)
                binary(b, scaled, x, a, Alu.MULTIPLY)
                binary(b, made, scaled, c, Alu.ADD)
            b.dma.store(block.sides[3], made)


def _train(b: Builder, node: Node, views: Sequence[HbmView | None], epsilon: float) -> None:
    """Lower BatchNormalization in training: normalise by the batch's statistics, update the running ones."""
    source, target = needed(views, 0), home(b, node.outputs[0])
    batch, channels, plane = _channels(source)
    if batch * plane > MAX_ROW:
        raise CannotLower(f"channels of {batch * plane} elements (at most {MAX_ROW})")
    momentum = float(node.attributes.get("momentum", 0.9))
    slope, offset = b.hbm.scratch((channels,), "float32"), b.hbm.scratch((channels,), "float32")
    cube = source.reshape(batch, channels, plane).permute(1, 0, 2)
    for start in range(0, channels, NUM_PARTITIONS):
        part = slice(start, min(start + NUM_PARTITIONS, channels))
        size = part.stop - start
        with b.tiles.scope():
            stats = statistics(b, b.dma.fetch(cube[part]))
            columns = [b.dma.fetch(needed(views, i)[part].reshape(size, 1)) for i in range(1, 5)]
            inverse = inverse_deviation(b, stats[:, 1:2], epsilon)
            _make_affine(b, columns[0], columns[1], stats[:, 0:1], inverse, slope[part], offset[part])
            for position, tensor in enumerate(node.outputs[1:3]):
                if tensor < 0:
                    continue
                running, fresh = temporary(b, inverse), temporary(b, inverse)
                scalar(b, running, columns[2 + position], Alu.MULTIPLY, momentum)
                scalar(b, fresh, stats[:, position : position + 1], Alu.MULTIPLY, 1.0 - momentum)
                binary(b, running, running, fresh, Alu.ADD)
                store_as(b, home(b, tensor)[part].reshape(size, 1), running)
    _apply_by_channel(b, source, slope, offset, target)


def row_statistics(b: Builder, rows: HbmView) -> View:
    """Compute mean and variance, as `statistics`, of rows (P, count) of any length in HBM."""
    count = rows.shape[1]
    groups = -(-count // STATISTICS_CHUNK)
    stats = b.tiles.sbuf(rows.shape[0], (groups, 6), "float32")
    for start in range(0, count, PIECE):
        stop = min(start + PIECE, count)
        with b.tiles.scope():
            x = b.dma.fetch(rows[:, start:stop])
            for at in range(start, stop, STATISTICS_CHUNK):
                piece = x[:, at - start : min(at + STATISTICS_CHUNK, stop) - start]
                b.isa.bn_stats(stats[:, at // STATISTICS_CHUNK], piece)
    made = b.tiles.sbuf(rows.shape[0], (2,), "float32")
    b.isa.bn_aggr(made, stats.reshape(groups * 6))
    return made


def _slope_and_offset(b: Builder, stats: View, gain: View, shift: View, epsilon: float) -> tuple[View, View]:
    """Compute slope and offset by partition: (x - mean) * inverse deviation * gain + shift."""
    slope, offset = inverse_deviation(b, stats[:, 1:2], epsilon), temporary(b, stats[:, 0:1])
    binary(b, slope, slope, gain, Alu.MULTIPLY)
    binary(b, offset, stats[:, 0:1], slope, Alu.MULTIPLY)
    binary(b, offset, shift, offset, Alu.SUBTRACT)
    return slope, offset


def _apply_to_rows(b: Builder, source: HbmView, slope: View, offset: View, target: HbmView) -> None:
    """Compute target = source * slope + offset for rows (P, count)."""
    for start in range(0, source.shape[1], PIECE):
        part = slice(start, min(start + PIECE, source.shape[1]))
        with b.tiles.scope():
            x = b.dma.fetch(source[:, part])
            made = b.tiles.sbuf(x.partitions, x.shape, target.dtype)
            b.isa.tensor_scalar(made, x, Alu.MULTIPLY, slope, Alu.ADD, offset)
            b.dma.store(target[:, part], made)


def lower_instance_normalization(b: Builder, node: Node) -> None:
    """Lower InstanceNormalization: normalise each plane, then apply the channel's scale and bias."""
    views = float_inputs(b, node)
    source, target = needed(views, 0), home(b, node.outputs[0])
    batch, channels, plane = _channels(source)
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    cube, made = source.reshape(batch, channels, plane), target.reshape(batch, channels, plane)
    for image in range(batch):
        for start in range(0, channels, NUM_PARTITIONS):
            part = slice(start, min(start + NUM_PARTITIONS, channels))
            with b.tiles.scope():
                stats = row_statistics(b, cube[image, part])
                gain, shift = (
                    b.dma.fetch(needed(views, i)[part].reshape(part.stop - start, 1), "float32")
                    for i in (1, 2)
                )
                slope, offset = _slope_and_offset(b, stats, gain, shift, epsilon)
                _apply_to_rows(b, cube[image, part], slope, offset, made[image, part])


def lower_group_normalization(b: Builder, node: Node) -> None:
    """Lower GroupNormalization: normalise groups of channels, then scale and bias by channel or group."""
    views = float_inputs(b, node)
    source, target = needed(views, 0), home(b, node.outputs[0])
    batch, channels, plane = _channels(source)
    groups = int(node.attributes.get("num_groups", 1))
    if groups < 1 or channels % groups:
        raise CannotLower(f"{channels} channels in {groups} groups")
    each = channels // groups
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    # Scale and bias by group before opset 21, by channel since.
    gain, shift = (needed(views, i).reshape(groups, -1) for i in (1, 2))
    cube, made = (view.reshape(batch, channels, plane) for view in (source, target))
    counted = b.hbm.scratch((channels, 3), "float32")
    slope, offset = b.hbm.scratch((groups, each), "float32"), b.hbm.scratch((groups, each), "float32")
    parts = [slice(at, min(at + NUM_PARTITIONS, channels)) for at in range(0, channels, NUM_PARTITIONS)]
    for image in range(batch):
        for part in parts:
            with b.tiles.scope():
                _store_counted(b, row_statistics(b, cube[image, part]), plane, counted[part])
        for start in range(0, groups, NUM_PARTITIONS):
            some = slice(start, min(start + NUM_PARTITIONS, groups))
            with b.tiles.scope():
                stats = b.tiles.sbuf(some.stop - start, (2,), "float32")
                b.isa.bn_aggr(stats, b.dma.fetch(counted.reshape(groups, each * 3)[some]))
                pair = b.dma.fetch(gain[some], "float32"), b.dma.fetch(shift[some], "float32")
                _store_affine(b, stats, pair, epsilon, slope[some], offset[some])
        for part in parts:
            with b.tiles.scope():
                rows = part.stop - part.start
                columns = [b.dma.fetch(view.flatten()[part].reshape(rows, 1)) for view in (slope, offset)]
                _apply_to_rows(b, cube[image, part], columns[0], columns[1], made[image, part])


def _store_counted(b: Builder, stats: View, count: int, target: HbmView) -> None:
    """Store count, mean and variance * count of each partition in `target` (P, 3), as inputs of bn_aggr."""
    made = b.tiles.sbuf(stats.partitions, (3,), "float32")
    b.isa.memset(made[:, 0:1], float(count))
    b.isa.copy(made[:, 1:2], stats[:, 0:1])
    scalar(b, made[:, 2:3], stats[:, 1:2], Alu.MULTIPLY, float(count))
    b.dma.store(target, made)


def _store_affine(
    b: Builder,
    stats: View,
    parameters: tuple[View, View],
    epsilon: float,
    slope: HbmView,
    offset: HbmView,
) -> None:
    """Store slope and offset of each channel (P groups, channels), from the groups' statistics (P, 2)."""
    gain, shift = parameters
    inverse = inverse_deviation(b, stats[:, 1:2], epsilon)
    factor, rest = (b.tiles.sbuf(stats.partitions, (slope.shape[1],), "float32") for _ in range(2))
    binary(b, factor, gain.broadcast(*factor.shape), inverse, Alu.MULTIPLY)
    binary(b, rest, factor, stats[:, 0:1], Alu.MULTIPLY)
    binary(b, rest, shift.broadcast(*factor.shape), rest, Alu.SUBTRACT)
    b.dma.store(slope, factor)
    b.dma.store(offset, rest)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "BatchNormalization": lower_batch_normalization,
    "InstanceNormalization": lower_instance_normalization,
    "GroupNormalization": lower_group_normalization,
}
