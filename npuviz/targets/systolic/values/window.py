"""The products of convolution tiles: patches of a window times one block of weights per kernel position."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.systolic.values.matrix import zero_point
from npuviz.targets.systolic.values.plan import Block, Load
from npuviz.targets.systolic.values.storage import widen


@dataclass(frozen=True)
class WindowView:
    """The layout of a window in its entry.

    word        operand word of the entry
    axes        its axes (row, column, channel) in the order in which the entry holds them
    span        rows and columns of the window with padding
    before      padding rows and columns before the loaded part
    kernel, stride, dilation  of rows and columns
    out         output rows and columns of the tile
    """

    word: int
    axes: tuple[int, ...]
    span: tuple[int, int]
    before: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    out: tuple[int, int]

    def padded(self, contents: np.ndarray, fill: float = 0.0, zero: int = 0) -> np.ndarray:
        """Return the window (rows, columns, channels) as float32 less the zero point, with its padding
        filled."""
        loaded = contents.transpose(tuple(int(axis) for axis in np.argsort(self.axes)))
        if loaded.shape[:2] == self.span and not zero:
            return widen(loaded)
        whole = np.full((*self.span, loaded.shape[2]), fill, np.float32)
        top, left = self.before
        inside = whole[top : top + loaded.shape[0], left : left + loaded.shape[1]]
        inside[...] = widen(loaded)
        if zero:
            inside -= np.float32(zero)
        return whole

    def tap(self, padded: np.ndarray, row: int, column: int) -> np.ndarray:
        """Return the inputs of kernel position (row, column): (output rows, output columns, channels), a
        view."""
        top, left = row * self.dilation[0], column * self.dilation[1]
        rows, columns = self.out
        return padded[
            top : top + (rows - 1) * self.stride[0] + 1 : self.stride[0],
            left : left + (columns - 1) * self.stride[1] + 1 : self.stride[1],
        ]


@dataclass(frozen=True)
class WindowProduct:
    """A tile of a convolution: result (output pixels x output channels).

    weights  operand words by [kernel position][block of output channels]; entries (outputs, inputs)
    depth    input channels of the tile; step: channels per instruction (the height of the array)
    source_zero, weight_zero  zero points, subtracted; padding counts as zero
    zero_words  entries that hold them where they are known at run time only, 0: none
    """

    shape: tuple[int, int]
    view: WindowView
    weights: tuple[tuple[int, ...], ...]
    depth: int
    step: int
    blocks: Mapping[int, Block] = field(default_factory=dict[int, Block])
    dtype: str = "float32"
    source_zero: int = 0
    weight_zero: int = 0
    zero_words: tuple[int, int] = (0, 0)
    continues: bool = False

    @property
    def num_steps(self) -> int:
        """Kernel positions times parts of the channels."""
        return len(self.weights) * -(-self.depth // self.step)

    def steps(self, load: Load) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs (pixels x k, k x outputs) by kernel rows, kernel columns, then channels."""
        source_zero = zero_point(load, self.zero_words[0], self.source_zero)
        weight_zero = zero_point(load, self.zero_words[1], self.weight_zero)
        window = self.view.padded(load(self.view.word), zero=source_zero)
        for position, words in enumerate(self.weights):
            row, column = divmod(position, self.view.kernel[1])
            left = self.view.tap(window, row, column).reshape(self.shape[0], self.depth)
            parts = [load(word) for word in words]
            right = widen(parts[0] if len(parts) == 1 else np.concatenate(parts))
            if weight_zero:
                right = right - np.float32(weight_zero)
            for start in range(0, self.depth, self.step):
                yield left[:, start : start + self.step], right[:, start : start + self.step].T
