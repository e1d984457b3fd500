"""Emit the loops of a convolution: boxes of outputs that fit on chip, PSUM banks, epilogue, stores."""

from bisect import bisect_left
from dataclasses import dataclass
from math import prod

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.conv.inputs import Box, Input, Loaded, Packing, Range
from npuviz.targets.neuroncore.compiler.operators.conv.weights import Bias, Channels, Weights
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Epilogue
from npuviz.targets.neuroncore.compiler.operators.quantized.requantize import Requantize
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks, even_blocks
from npuviz.targets.neuroncore.compiler.operators.windows import Axes
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView, item_bytes
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

BANK_ELEMENTS = 512
Shape5 = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Convolution:
    """The operands and boxes of one convolution.

    out          the result, of `shape` [images, channels, planes, rows, columns]
    input_boxes  boxes of outputs whose inputs are loaded together
    """

    b: Builder
    axes: Axes
    channels: Channels
    source: Input
    weights: Weights
    bias: Bias | None
    epilogue: Epilogue | Requantize
    out: HbmView
    shape: Shape5
    input_boxes: list[Box]

    def run(self) -> None:
        """Emit all loops."""
        whole = self._whole_output_fits()
        for image in range(self.shape[0]):
            for group in range(self.channels.groups):
                if whole and len(self.input_boxes) > 1:
                    self._collected(image, group)
                else:
                    for box in self.input_boxes:
                        self._one_box(image, group, box)

    def _whole_output_fits(self) -> bool:
        _, _, planes, rows, columns = self.shape
        tiles = -(-self.channels.outputs // NUM_PARTITIONS)
        size = tiles * planes * rows * columns * item_bytes(self.out.dtype)
        return size <= self.b.spec.sbuf_usable_bytes // 3

    def _one_box(self, image: int, group: int, box: Box) -> None:
        """Emit all output channels of one box; store each tile when it is full."""
        with self.b.tiles.scope():
            loaded = self.source.load(image, group, box)
            for block, (m0, m1) in enumerate(self.weights.parts):
                with self.b.tiles.scope():
                    weights = self.weights.load(group, block)
                    for t0, t1 in blocks(m1 - m0, NUM_PARTITIONS):
                        with self.b.tiles.scope():
                            tile = self.b.tiles.sbuf(t1 - t0, box.shape, self.out.dtype)
                            channels = self._channels(group, m0 + t0, m0 + t1)
                            self._fill(tile, box, box, loaded, (weights, (t0, t1)), (image, channels))
                            self.b.dma.store(self._part(self.out, image, channels, box), tile)

    def _collected(self, image: int, group: int) -> None:
        """Emit all boxes of an image, and store them together, so that the next operator finds whole
        tiles.
        """
        with self.b.tiles.scope():
            whole = Box((0, self.shape[2]), (0, self.shape[3]), (0, self.shape[4]))
            tiles: dict[int, View] = {}
            for t0, t1 in blocks(self.channels.outputs, NUM_PARTITIONS):
                tiles[t0] = self.b.tiles.sbuf(t1 - t0, whole.shape, self.out.dtype)
            for box in self.input_boxes:
                with self.b.tiles.scope():
                    loaded = self.source.load(image, group, box)
                    for block, (m0, m1) in enumerate(self.weights.parts):
                        with self.b.tiles.scope():
                            weights = self.weights.load(group, block)
                            for t0, t1 in blocks(m1 - m0, NUM_PARTITIONS):
                                place = (image, self._channels(group, m0 + t0, m0 + t1))
                                self._fill(tiles[m0 + t0], whole, box, loaded, (weights, (t0, t1)), place)
            for t0, tile in tiles.items():
                channels = self._channels(group, t0, t0 + tile.partitions)
                self.b.dma.store(self._part(self.out, image, channels, whole), tile)

    def _channels(self, group: int, first: int, end: int) -> Range:
        base = group * self.channels.outputs
        return base + first, base + end

    def _part(self, view: HbmView, image: int, channels: Range, box: Box) -> HbmView:
        (d0, d1), (r0, r1), (w0, w1) = box.planes, box.rows, box.columns
        return view[image, channels[0] : channels[1], d0:d1, r0:r1, w0:w1]

    def _fill(
        self,
        tile: View,
        tile_box: Box,
        box: Box,
        loaded: Loaded,
        operands: tuple[list[View], Range],
        place: tuple[int, Range],
    ) -> None:
        """Compute the outputs of `box` into their part of a tile that holds `tile_box`."""
        image, channels = place
        column = None if self.bias is None else self.bias.column(*channels)
        d_base, r_base, w_base = tile_box.planes[0], tile_box.rows[0], tile_box.columns[0]
        for part in bank_boxes(box):
            (d0, d1), (r0, r1), (w0, w1) = part.planes, part.rows, part.columns
            target = tile[:, d0 - d_base : d1 - d_base, r0 - r_base : r1 - r_base, w0 - w_base : w1 - w_base]
            with self.b.tiles.scope():
                bank = self.b.tiles.psum(tile.partitions, part.shape[1:])
                self._accumulate(bank, part, loaded, operands)
                flat = bank.reshape(*part.shape)

                def region(view: HbmView, part: Box = part) -> HbmView:
                    return self._part(view.reshape(*self.shape), image, channels, part)

                self.epilogue.apply(target, flat, region, column)

    def _accumulate(self, bank: View, box: Box, loaded: Loaded, operands: tuple[list[View], Range]) -> None:
        weights, (t0, t1) = operands
        taps = self.source.taps(loaded, box) if loaded.views else []
        is_begun = bool(taps) and taps[0].is_full
        if not is_begun:
            self.b.isa.memset(bank, 0.0)
        for order, tap in enumerate(taps):
            target = bank[:, tap.rows[0] : tap.rows[1], tap.columns[0] : tap.columns[1]]
            stationary = weights[tap.part][:, tap.index, t0:t1]
            self.b.isa.matmul(target, stationary, tap.moving, accumulate=order > 0 or not is_begun)


def bank_boxes(box: Box) -> list[Box]:
    """Divide a box of outputs into parts that fit a PSUM bank: rows of one plane."""
    width = box.columns[1] - box.columns[0]
    height = box.rows[1] - box.rows[0]
    rows = even_blocks(height, max(1, BANK_ELEMENTS // width))
    columns = even_blocks(width, BANK_ELEMENTS)
    return [
        Box(
            (plane, plane + 1),
            (box.rows[0] + r0, box.rows[0] + r1),
            (box.columns[0] + w0, box.columns[0] + w1),
        )
        for plane in range(*box.planes)
        for r0, r1 in rows
        for w0, w1 in columns
    ]


def input_boxes(
    axes: Axes, parts: int, item: int, limits: tuple[int, int], packing: Packing | None
) -> list[Box]:
    """Divide the outputs into boxes whose inputs (`parts` views, or one of a packing) fit on chip.

    limits  most bytes a partition of the inputs, and of an output tile
    """

    def fits(counts: list[int]) -> bool:
        planes, rows, columns = counts
        if packing is None:
            needed = [min(axis.size, axis.reach(count)) for axis, count in zip(axes, counts, strict=True)]
        else:
            needed = [1, rows, packing.width(columns)]
        return parts * prod(needed) * item <= limits[0] and planes * rows * columns * item <= limits[1]

    counts = [axis.out for axis in axes]
    for index in range(len(axes)):
        if index == 1:
            # Rows at the border of two boxes are loaded twice, so find the largest number that fits.
            planes, most, columns = counts
            counts[1] = max(
                1, bisect_left(range(most), True, key=lambda n: not fits([planes, n + 1, columns]))
            )
        while counts[index] > 1 and not fits(counts):
            counts[index] = -(-counts[index] // 2)
    ranges = [even_blocks(axis.out, count) for axis, count in zip(axes, counts, strict=True)]
    return [Box(p, r, c) for p in ranges[0] for r in ranges[1] for c in ranges[2]]
