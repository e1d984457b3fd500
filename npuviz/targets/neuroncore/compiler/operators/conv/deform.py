"""Lower DeformConv: each tap samples bilinearly at its offsets; PE sums taps and channels."""

from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.conv import stored_or_live
from npuviz.targets.neuroncore.compiler.operators.conv.weights import (
    Channels,
    LiveWeights,
    StoredWeights,
    Weights,
)
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import operand_dtype
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.operators.sampling.bilinear import (
    EXACT_INDEX,
    sample,
    with_zeros_outside,
)
from npuviz.targets.neuroncore.compiler.operators.windows import three_axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

_BANK_ELEMENTS = 512
_MAX_BANKS = 6
"""Most PSUM banks for the sums of a group's output channels; the other banks are for transposes."""


@dataclass(frozen=True, slots=True)
class _Deformed:
    """One DeformConv node, with tensors as [images, channels, positions].

    offsets  [images, offset groups, taps, 2, positions];  mask  likewise without the 2, or None
    """

    b: Builder
    axes: tuple[WindowAxis, WindowAxis]
    channels: Channels
    source: HbmView
    offsets: HbmView
    mask: HbmView | None
    places: HbmView
    weights: Weights
    dtype: str


def lower_deform_conv(b: Builder, node: Node) -> None:
    """Lower DeformConv with groups, offset groups, mask and bias; two spatial axes."""
    inputs = [*node.inputs, -1, -1, -1]
    require_floats(b, [tensor for tensor in node.inputs if tensor >= 0])
    source, out = b.hbm[inputs[0]], b.hbm[node.outputs[0]]
    if len(source.shape) != 4 or not b.spec.has_pool:
        raise CannotLower("DeformConv needs GpSimd and two spatial axes")
    kernel = b.graph.tensors[inputs[1]].shape[2:]
    _, height, width = three_axes(node, source.shape, out.shape, kernel)
    if height.size * width.size >= EXACT_INDEX:
        raise CannotLower("a plane of more elements than fp32 counts")
    groups = int(node.attributes.get("group", 1))
    channels = Channels(groups, source.shape[1] // groups, out.shape[1] // groups)
    taps, positions = prod(kernel), prod(out.shape[2:])
    if -(-channels.outputs // NUM_PARTITIONS) > _MAX_BANKS:
        raise CannotLower(f"{channels.outputs} output channels of a group")
    offset_groups = int(node.attributes.get("offset_group", 1))
    dtype = operand_dtype(b, source.dtype)
    problem = _Deformed(
        b,
        (height, width),
        channels,
        source.reshape(*source.shape[:2], height.size * width.size),
        b.hbm[inputs[2]].reshape(source.shape[0], offset_groups, taps, 2, positions),
        b.hbm[inputs[4]].reshape(source.shape[0], offset_groups, taps, positions) if inputs[4] >= 0 else None,
        b.hbm.constant(_places(height, width), f"{node.name}/places"),
        _weights(b, inputs[1], channels, taps, dtype),
        dtype,
    )
    bias = b.hbm[inputs[3]].reshape(-1, 1) if inputs[3] >= 0 else None
    target = out.reshape(*out.shape[:2], positions)
    for image in range(source.shape[0]):
        for group in range(groups):
            for columns in blocks(positions, _BANK_ELEMENTS):
                with b.tiles.scope():
                    _block(problem, image, group, columns, (target, bias))


def _places(height: WindowAxis, width: WindowAxis) -> np.ndarray:
    """Return the row and column that each tap reads if its offset is 0, [taps, 2, positions]."""
    found = np.zeros((height.kernel, width.kernel, 2, height.out, width.out), np.float32)
    for index, axis in enumerate((height, width)):
        taps = np.arange(axis.kernel) * axis.dilation - axis.before
        outs = np.arange(axis.out) * axis.stride
        if index == 0:
            found[:, :, 0] = taps[:, None, None, None] + outs[None, None, :, None]
        else:
            found[:, :, 1] = taps[None, :, None, None] + outs[None, None, None, :]
    return found.reshape(height.kernel * width.kernel, 2, -1)


def _weights(b: Builder, tensor: int, channels: Channels, taps: int, dtype: str) -> Weights:
    known = stored_or_live(b, tensor)
    if isinstance(known, np.ndarray):
        array = known.reshape(len(known), channels.inputs, taps)
        return StoredWeights(b, array, channels, dtype, b.graph.tensors[tensor].name, channels.outputs)
    return LiveWeights(b, known.reshape(known.shape[0], channels.inputs * taps), channels, taps, dtype)


def _block(
    problem: _Deformed,
    image: int,
    group: int,
    columns: tuple[int, int],
    result: tuple[HbmView, HbmView | None],
) -> None:
    """Compute all output channels of a group for a range of positions."""
    b, channels, weights = problem.b, problem.channels, problem.weights
    count = columns[1] - columns[0]
    first = group * channels.inputs
    planes = [b.dma.fetch(problem.source[image, first + c0 : first + c1]) for c0, c1 in channels.input_parts]
    loaded = [(part, weights.load(group, index)) for index, part in enumerate(weights.parts)]
    tiles = [
        (m0 + t0, m0 + t1, [view[:, :, t0:t1] for view in views])
        for (m0, m1), views in loaded
        for t0, t1 in blocks(m1 - m0, NUM_PARTITIONS)
    ]
    banks = [b.tiles.psum(m1 - m0, (count,)) for m0, m1, _ in tiles]
    is_begun = False
    for tap in range(problem.places.shape[0]):
        for index, (c0, c1) in enumerate(channels.input_parts):
            with b.tiles.scope():
                moving = _sampled(problem, planes[index], image, tap, (first + c0, first + c1), columns)
                for bank, (_, _, views) in zip(banks, tiles, strict=True):
                    b.isa.matmul(bank, views[index][:, tap], moving, accumulate=is_begun)
            is_begun = True
    target, bias = result
    base = group * channels.outputs
    for bank, (m0, m1, _) in zip(banks, tiles, strict=True):
        tile = b.tiles.sbuf(m1 - m0, (count,), target.dtype)
        if bias is None:
            b.isa.copy(tile, bank)
        else:
            b.isa.tensor_scalar(tile, bank, Alu.ADD, b.dma.fetch(bias[base + m0 : base + m1], "float32"))
        b.dma.store(target[image, base + m0 : base + m1, columns[0] : columns[1]], tile)


def _sampled(
    problem: _Deformed,
    plane: View,
    image: int,
    tap: int,
    channels: tuple[int, int],
    columns: tuple[int, int],
) -> View:
    """Sample what a tap reads of a range of channels, [channels, positions]."""
    b = problem.b
    part = slice(*columns)
    neighbours = [
        with_zeros_outside(b, _place(problem, image, (tap, index), channels, part), axis.size)
        for index, axis in enumerate(problem.axes)
    ]
    total = sample(b, plane, neighbours[0], neighbours[1], problem.axes[1].size)
    moving = b.tiles.sbuf(total.partitions, total.shape, problem.dtype)
    if problem.mask is None:
        b.isa.copy(moving, total)
    else:
        mask = _by_group(problem, problem.mask[image, :, tap, part], channels)
        b.isa.tensor_tensor(moving, total, mask, Alu.MULTIPLY)
    return moving


def _place(
    problem: _Deformed, image: int, at: tuple[int, int], channels: tuple[int, int], part: slice
) -> View:
    """Compute the rows (or columns) that a tap reads, [channels, positions]."""
    b = problem.b
    moved = _by_group(problem, problem.offsets[image, :, at[0], at[1], part], channels)
    still = problem.places[at[0], at[1], part]
    count = channels[1] - channels[0]
    place = b.tiles.sbuf(count, moved.shape, "float32")
    b.isa.tensor_tensor(
        place, moved, b.dma.fetch(still.reshape(1, -1).broadcast_to((count, *still.shape))), Alu.ADD
    )
    return place


def _by_group(problem: _Deformed, values: HbmView, channels: tuple[int, int]) -> View:
    """Load [offset groups, positions] and repeat it for a range of channels."""
    b = problem.b
    each = problem.source.shape[1] // values.shape[0]
    tile = b.tiles.sbuf(channels[1] - channels[0], (values.shape[1],), "float32")
    for group in range(channels[0] // each, -(-channels[1] // each)):
        first, end = max(channels[0], group * each), min(channels[1], (group + 1) * each)
        source = values[group : group + 1].broadcast_to((end - first, values.shape[1]))
        b.dma.load(tile[first - channels[0] : end - channels[0]], source)
    return tile


LOWERINGS = {"DeformConv": lower_deform_conv}
