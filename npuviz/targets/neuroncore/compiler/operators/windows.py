"""Sliding windows of convolutions and pools: three axes (depth, rows, columns), missing ones of size 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npuviz.program.graph import Node

MAX_AXES = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Outputs first..end-1 read inputs source, source + stride, ... by one tap; count is end - first."""

    first: int
    end: int
    source: int

    @property
    def count(self) -> int:
        """Outputs; never negative."""
        return max(0, self.end - self.first)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: output o reads inputs o * stride + tap * dilation - before for every tap < kernel."""

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0

    def span(self, tap: int, begin: int = 0, end: int | None = None) -> Span:
        """Outputs in [begin, end) whose input for a tap lies inside, and the first such input."""
        stop = self.out if end is None else min(end, self.out)
        shift = tap * self.dilation - self.before
        first = max(begin, -(shift // self.stride) if shift < 0 else 0)
        last = (self.size - 1 - shift) // self.stride
        return Span(first, max(first, min(stop, last + 1)), first * self.stride + shift)

    def inputs(self, begin: int, end: int) -> tuple[int, int]:
        """Half-open range of inputs inside that outputs [begin, end) read; empty ranges are (0, 0)."""
        low = begin * self.stride - self.before
        high = (end - 1) * self.stride - self.before + (self.kernel - 1) * self.dilation + 1
        low, high = max(0, low), min(self.size, high)
        return (low, high) if low < high else (0, 0)

    def reach(self, outputs: int) -> int:
        """Input positions, padding included, that neighbouring outputs span."""
        return (outputs - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def counts(self, include_padding: int = -1) -> list[int]:
        """Positions that each output's window holds: inside only, or (>= 0: padding at the end) all."""
        limit = self.size if include_padding < 0 else self.size + include_padding
        first = 0 if include_padding < 0 else -self.before
        found: list[int] = []
        for out in range(self.out):
            start = out * self.stride - self.before
            found.append(sum(first <= start + k * self.dilation < limit for k in range(self.kernel)))
        return found


def attribute_ints(attributes: Mapping[str, Any], name: str, default: Sequence[int]) -> list[int]:
    """An attribute that is a list of integers."""
    given = attributes.get(name)
    return [int(value) for value in (default if given is None else given)]


def attribute_text(attributes: Mapping[str, Any], name: str, default: str) -> str:
    """An attribute that is text."""
    value = attributes.get(name, default)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def window_axes(
    node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]
) -> tuple[Axis, Axis, Axis]:
    """Axes of a node whose tensors are [batch, channels, spatial...], with at most three spatial axes.

    Raises ValueError for more.
    """
    rank = len(kernel)
    if not 1 <= rank <= MAX_AXES:
        raise ValueError(f"{rank} spatial axes; at most {MAX_AXES}")
    strides = attribute_ints(node.attributes, "strides", [1] * rank)
    dilations = attribute_ints(node.attributes, "dilations", [1] * rank)
    pads = attribute_ints(node.attributes, "pads", [0] * (2 * rank))
    automatic = attribute_text(node.attributes, "auto_pad", "NOTSET")
    axes: list[Axis] = []
    for i in range(rank):
        size, out = in_shape[2 + i], out_shape[2 + i]
        before = pads[i]
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size)
            before = total // 2 if automatic == "SAME_UPPER" else total - total // 2
        elif automatic == "VALID":
            before = 0
        axes.append(Axis(size, out, kernel[i], strides[i], dilations[i], before))
    while len(axes) < MAX_AXES:
        axes.insert(0, Axis(1, 1))
    return axes[0], axes[1], axes[2]


def padding_after(node: Node, rank: int) -> list[int]:
    """Padding at the end of each of the three axes, as `pads` says (0 with auto_pad)."""
    pads = attribute_ints(node.attributes, "pads", [0] * (2 * rank))[rank:]
    return [0] * (MAX_AXES - rank) + pads


def blocks(count: int, step: int) -> list[tuple[int, int]]:
    """Half-open ranges of at most `step` that cover 0..count-1."""
    return [(start, min(count, start + step)) for start in range(0, count, max(1, step))]


def even_blocks(count: int, limit: int) -> list[tuple[int, int]]:
    """The fewest half-open ranges of at most `limit` that cover 0..count-1, of nearly equal length."""
    parts = max(1, -(-count // max(1, limit)))
    return blocks(count, -(-count // parts)) if count else []
