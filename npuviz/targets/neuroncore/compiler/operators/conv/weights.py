"""Load weights and biases of convolutions: input channels on partitions, then taps, then output channels."""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.builder.hbm import recast
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import PIECE_BYTES
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks, even_blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS


@dataclass(frozen=True, slots=True)
class Channels:
    """Channels of a convolution on PE: groups of `inputs` and `outputs` channels.

    packed  groups of the model in each of these groups (block-diagonal weights)
    """

    groups: int
    inputs: int
    outputs: int
    packed: int = 1

    @property
    def input_parts(self) -> list[tuple[int, int]]:
        """Ranges of at most 128 input channels, one for each set of partitions."""
        return blocks(self.inputs, NUM_PARTITIONS)


def pack_groups(groups: int, inputs: int, outputs: int) -> Channels:
    """Pack as many groups together as the array holds; `inputs` and `outputs` are those of one group."""
    packed = 1
    for count in range(1, groups + 1):
        if groups % count == 0 and count * max(inputs, outputs) <= NUM_PARTITIONS:
            packed = count
    return Channels(groups // packed, packed * inputs, packed * outputs, packed)


def block_size(channels: Channels, taps: int, item: int, limit: int) -> int:
    """Return the output channels whose weights take at most `limit` bytes a partition (at least 128)."""
    each = len(channels.input_parts) * taps * item
    whole = limit // each // NUM_PARTITIONS * NUM_PARTITIONS
    return min(channels.outputs, max(NUM_PARTITIONS, whole))


class StoredWeights:
    """Weights known when compiling, stored in HBM in the layout of PE.

    array  [outputs of all groups, inputs of one group of the model, taps]
    """

    def __init__(
        self, b: Builder, array: np.ndarray, channels: Channels, dtype: str, name: str, block: int
    ) -> None:
        self.b, self.dtype = b, dtype
        self.channels = channels
        self.parts = blocks(channels.outputs, block)
        self._variables: dict[tuple[int, int], tuple[HbmView | None, HbmView | None]] = {}
        dense = recast(array, dtype)
        for group in range(channels.groups):
            weights = _group_weights(dense, channels, group)
            for index, (m0, m1) in enumerate(self.parts):
                turned = np.transpose(weights[m0:m1], (1, 2, 0))
                self._variables[group, index] = self._store(turned, f"{name}/{group}.{index}")

    def _store(self, array: np.ndarray, name: str) -> tuple[HbmView | None, HbmView | None]:
        """Store [inputs, taps, outputs] as [128, parts, taps, outputs] (a run a partition) and the
        remainder.
        """
        whole = len(array) // NUM_PARTITIONS
        first = rest = None
        if whole:
            split = array[: whole * NUM_PARTITIONS].reshape(whole, NUM_PARTITIONS, *array.shape[1:])
            first = self.b.hbm.constant(np.swapaxes(split, 0, 1), name)
        if len(array) % NUM_PARTITIONS:
            rest = self.b.hbm.constant(array[whole * NUM_PARTITIONS :], f"{name}.rest" if whole else name)
        return first, rest

    def load(self, group: int, block: int) -> list[View]:
        """Load views [inputs of the part, taps, outputs of the block] for all parts of the input channels."""
        first, rest = self._variables[group, block]
        found: list[View] = []
        if first is not None:
            _, count, taps, outputs = first.shape
            each = max(1, PIECE_BYTES // (taps * outputs * first.itemsize))
            for begin, end in even_blocks(count, each):
                tile = self.b.dma.fetch(first[:, begin:end])
                found += [tile[:, part] for part in range(end - begin)]
        if rest is not None:
            found.append(self.b.dma.fetch(rest))
        return found


class StoredBias:
    """A bias known when compiling: loaded once, with a column for every 128 channels of a group."""

    def __init__(self, b: Builder, array: np.ndarray, channels: Channels, name: str) -> None:
        self.b = b
        columns: list[np.ndarray] = []
        self._index: dict[int, int] = {}
        for group in range(channels.groups):
            for first, end in blocks(channels.outputs, NUM_PARTITIONS):
                start = group * channels.outputs + first
                self._index[start] = len(columns)
                column = np.zeros(NUM_PARTITIONS, np.float32)
                column[: end - first] = array[start : start + end - first]
                columns.append(column)
        self._home = b.hbm.constant(np.stack(columns, axis=1), name)

    def column(self, first: int, end: int) -> View:
        """Load the bias of a tile's output channels, [channels, 1]."""
        index = self._index[first]
        return self.b.dma.fetch(self._home)[: end - first, index : index + 1]


class LiveBias:
    """A bias that is known only at run time."""

    def __init__(self, b: Builder, view: HbmView) -> None:
        self.b, self.view = b, view.reshape(-1, 1)

    def column(self, first: int, end: int) -> View:
        """Load the bias of a tile's output channels, [channels, 1]."""
        return self.b.dma.fetch(self.view[first:end], "float32")


Bias = StoredBias | LiveBias


def _group_weights(array: np.ndarray, channels: Channels, group: int) -> np.ndarray:
    """Return the weights of a packed group, [outputs, inputs, taps]."""
    part = array[group * channels.outputs : (group + 1) * channels.outputs]
    if channels.packed == 1:
        return part
    outputs, inputs = channels.outputs // channels.packed, channels.inputs // channels.packed
    found = np.zeros((channels.outputs, channels.inputs, array.shape[2]), array.dtype)
    for index in range(channels.packed):
        rows = slice(index * outputs, (index + 1) * outputs)
        found[rows, index * inputs : (index + 1) * inputs] = part[rows]
    return found


class LiveWeights:
    """Weights that are known only at run time, transposed by PE.

    view  [outputs of all groups, inputs of one group * taps]
    """

    def __init__(self, b: Builder, view: HbmView, channels: Channels, taps: int, dtype: str) -> None:
        self.b, self.view, self.dtype, self.taps = b, view, dtype, taps
        self.channels = channels
        self.parts = blocks(channels.outputs, NUM_PARTITIONS)

    def load(self, group: int, block: int) -> list[View]:
        """Load views [inputs of the part, taps, outputs of the block], in tiles of the enclosing scope."""
        b, taps = self.b, self.taps
        m0, m1 = self.parts[block]
        first = group * self.channels.outputs
        found = [b.tiles.sbuf(c1 - c0, (taps, m1 - m0), self.dtype) for c0, c1 in self.channels.input_parts]
        for tile, (c0, c1) in zip(found, self.channels.input_parts, strict=True):
            with b.tiles.scope():
                source = self.view[first + m0 : first + m1, c0 * taps : c1 * taps]
                rows = b.dma.fetch(source, self.dtype).reshape(c1 - c0, taps)
                for tap in range(taps):
                    with b.tiles.scope():
                        bank = b.tiles.psum(c1 - c0, (m1 - m0,))
                        b.isa.transpose(bank, rows[:, :, tap])
                        b.isa.copy(tile[:, tap], bank)
        return found


Weights = StoredWeights | LiveWeights
