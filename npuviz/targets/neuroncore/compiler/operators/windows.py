"""Describe sliding windows of convolutions and pools over three axes: depth, rows, columns."""

from collections.abc import Sequence

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis, padded_axes, window_axes
from npuviz.program.graph import Node

MAX_AXES = 3
Axes = tuple[WindowAxis, WindowAxis, WindowAxis]


def three_axes(node: Node, in_shape: Sequence[int], out_shape: Sequence[int], kernel: Sequence[int]) -> Axes:
    """Return the axes of a node's windows; missing ones have size 1. Raises CannotLower for more than
    three.
    """
    if not 1 <= len(kernel) <= MAX_AXES:
        raise CannotLower(f"{len(kernel)} spatial axes; at most {MAX_AXES}")
    depth, rows, columns = padded_axes(window_axes(node, in_shape, out_shape, kernel), MAX_AXES)
    return depth, rows, columns
