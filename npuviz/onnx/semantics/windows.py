"""Sliding windows of convolutions and pools: which inputs an output reads along an axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node


@dataclass(frozen=True, slots=True)
class Span:
    """Outputs first..end-1 read inputs source, source + stride, ... by one tap."""

    first: int
    end: int
    source: int

    @property
    def count(self) -> int:
        """Number of outputs, at least 0."""
        return max(0, self.end - self.first)


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One spatial axis: output o reads inputs o * stride + tap * dilation - before for every tap < kernel.

    before, after  padding on either side; automatic padding is resolved
    """

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    def reach(self, outputs: int) -> int:
        """Return the number of input positions, padding included, that this many neighbouring outputs
        read."""
        return (outputs - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def span(self, tap: int, begin: int = 0, end: int | None = None) -> Span:
        """Return the outputs in [begin, end) whose input for a tap is not padding, and the first such
        input."""
        stop = self.out if end is None else min(end, self.out)
        shift = tap * self.dilation - self.before
        first = max(begin, -(shift // self.stride) if shift < 0 else 0)
        last = (self.size - 1 - shift) // self.stride
        return Span(first, max(first, min(stop, last + 1)), first * self.stride + shift)

    def inputs(self, begin: int, end: int) -> tuple[int, int]:
        """Return the half-open range of inputs, without padding, that outputs [begin, end) read; (0, 0) if
        empty."""
        low = begin * self.stride - self.before
        low, high = max(0, low), min(self.size, low + self.reach(end - begin))
        return (low, high) if low < high else (0, 0)

    def counts(self, include_padding: bool = False, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Count the positions of the windows of outputs [begin, end) that are inputs, or inputs and padding.

        Returns (end - begin,) int64.
        """
        first, limit = (-self.before, self.size + self.after) if include_padding else (0, self.size)
        start = np.arange(begin, self.out if end is None else end) * self.stride - self.before
        # Number of taps k >= 0 with start + k * dilation below a position.
        below_first, below_limit = (
            np.clip(-((start - position) // self.dilation), 0, self.kernel) for position in (first, limit)
        )
        return below_limit - below_first


def window_axes(
    node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]
) -> list[WindowAxis]:
    """Return the spatial axes of a convolution or pool whose tensors are [batch, channels, spatial...].

    Raises CannotLower if the ranks do not fit the kernel, or the result has another batch size.
    """
    rank = len(kernel)
    if len(in_shape) != rank + 2 or len(out_shape) != rank + 2:
        raise CannotLower(
            f"tensors of rank {rank + 2} for a kernel of rank {rank}", f"{len(in_shape)} and {len(out_shape)}"
        )
    if in_shape[0] != out_shape[0]:
        # A contradiction in the file itself.
        raise CannotLower(f"a result of as many images as there are ({in_shape[0]})", f"{out_shape[0]}")
    attributes = attributes_of(node)
    strides, dilations = (attributes.integers(name, [1] * rank) for name in ("strides", "dilations"))
    pads = attributes.integers("pads", [0] * (2 * rank))
    automatic = attributes.text("auto_pad", "NOTSET")
    found: list[WindowAxis] = []
    for i in range(rank):
        size, out = in_shape[2 + i], out_shape[2 + i]
        before, after = pads[i], pads[rank + i]
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size)
            before = total // 2 if automatic == "SAME_UPPER" else total - total // 2
            after = total - before
        elif automatic == "VALID":
            before = after = 0
        found.append(WindowAxis(size, out, kernel[i], strides[i], dilations[i], before, after))
    return found


def padded_axes(axes: Sequence[WindowAxis], rank: int) -> list[WindowAxis]:
    """Prepend axes of one position until there are at least `rank`."""
    return [WindowAxis(1, 1)] * (rank - len(axes)) + list(axes)
