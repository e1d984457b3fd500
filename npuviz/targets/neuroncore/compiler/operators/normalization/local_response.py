"""Lower LRN: with channels on partitions, sums over neighbouring channels are products with a band matrix."""

from math import prod

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.matmul.matmul import require_floats
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

_BANK_ELEMENTS = 512


def lower_lrn(b: Builder, node: Node) -> None:
    """Lower LRN: x / (bias + alpha / size * sum of squares of near channels) ^ beta."""
    require_floats(b, node.inputs)
    source, out = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    size = int(node.attributes["size"])
    alpha, beta = float(node.attributes.get("alpha", 1e-4)), float(node.attributes.get("beta", 0.75))
    bias = float(node.attributes.get("bias", 1.0))
    images, channels, positions = source.shape[0], source.shape[1], prod(source.shape[2:])
    band = b.hbm.constant(_band(channels, size, alpha / size), f"{node.name}/band")
    parts = blocks(channels, NUM_PARTITIONS)
    values, results = (view.reshape(images, channels, positions) for view in (source, out))
    width = b.spec.sbuf_usable_bytes // 8 // (4 * len(parts))
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    for image in range(images):
        for first, end in blocks(positions, max(_BANK_ELEMENTS, width)):
            with b.tiles.scope():
                tiles = [b.dma.fetch(values[image, c0:c1, first:end]) for c0, c1 in parts]
                squares = [_squared(b, tile) for tile in tiles]
                for (m0, m1), tile in zip(parts, tiles, strict=True):
                    near = [
                        (_weights(b, band, part, (m0, m1)), square)
                        for part, square in zip(parts, squares, strict=True)
                        if part[0] < m1 + after and part[1] > m0 - before
                    ]
                    result = b.tiles.sbuf(m1 - m0, (end - first,), out.dtype)
                    for n0, n1 in blocks(end - first, _BANK_ELEMENTS):
                        _normalise(b, result[:, n0:n1], tile[:, n0:n1], near, (n0, n1), (bias, beta))
                    b.dma.store(results[image, m0:m1, first:end], result)


def _band(channels: int, size: int, weight: float) -> np.ndarray:
    """Return [input channel, output channel]: `weight` if the input belongs to the output's window, else
    0.
    """
    offset = np.arange(channels)[:, None] - np.arange(channels)[None, :]
    before = (size - 1) // 2
    return np.where((offset >= -before) & (offset <= size - 1 - before), weight, 0.0).astype(np.float32)


def _squared(b: Builder, tile: View) -> View:
    found = b.tiles.sbuf(tile.partitions, tile.shape, "float32")
    b.isa.tensor_tensor(found, tile, tile, Alu.MULTIPLY)
    return found


def _weights(b: Builder, band: HbmView, inputs: tuple[int, int], outputs: tuple[int, int]) -> View:
    return b.dma.fetch(band[inputs[0] : inputs[1], outputs[0] : outputs[1]])


def _normalise(
    b: Builder,
    target: View,
    source: View,
    near: list[tuple[View, View]],
    columns: tuple[int, int],
    constants: tuple[float, float],
) -> None:
    bias, beta = constants
    with b.tiles.scope():
        bank = b.tiles.psum(target.partitions, target.shape)
        for order, (weights, square) in enumerate(near):
            b.isa.matmul(bank, weights, square[:, columns[0] : columns[1]], accumulate=order > 0)
        factor = b.tiles.sbuf(target.partitions, target.shape, "float32")
        b.isa.tensor_scalar(factor, bank, Alu.ADD, bias, Alu.POWER, -beta)
        b.isa.tensor_tensor(target, source, factor, Alu.MULTIPLY)


LOWERINGS = {"LRN": lower_lrn}
