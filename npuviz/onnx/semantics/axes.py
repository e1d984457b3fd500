"""Computes the axes of a tensor that an operator works on."""

from collections.abc import Sequence

from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node

SOFTMAX_OF_ONE_AXIS = 13
"""Before this operator set, Softmax and similar operators take all axes from `axis` on as one row."""


def reduced_axes(node: Node, rank: int, given: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the axes of a Reduce operator, rising; None if it only copies (noop_with_empty_axes).

    given  values of the input `axes`, None if it is absent: then the attribute counts
    """
    attributes = attributes_of(node)
    axes = attributes.integers("axes", []) if given is None else given
    if axes:
        return tuple(sorted({int(axis) % max(1, rank) for axis in axes}))
    is_copy = bool(attributes.given.get("noop_with_empty_axes"))
    return None if is_copy else tuple(range(rank))


def row_axes(node: Node, rank: int) -> range:
    """Return the axes of Softmax, LogSoftmax or Hardmax that form a row."""
    axis = attributes_of(node).axis(rank)
    return range(axis, axis + 1 if node.opset >= SOFTMAX_OF_ONE_AXIS else rank)
