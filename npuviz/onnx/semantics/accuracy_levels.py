"""Says which products ONNX Runtime may compute coarser than the file's types: accuracy_level of MatMulNBits.

Ref: documentation of ONNX Runtime's contrib operators: with level 4, what a product reads is rounded to 8
bits for each block. Other machines need not do so.
"""

from collections.abc import Iterator

import onnx

from npuviz.onnx.parameters import all_nodes

_NAME = "accuracy_level"
_EIGHT_BITS = 4


def count_rounded(graph: onnx.GraphProto) -> int:
    """Count the products whose operand ONNX Runtime rounds to 8 bits."""
    return sum(attribute.i == _EIGHT_BITS for _, attribute in _levels(graph))


def clear_levels(graph: onnx.GraphProto) -> bool:
    """Let ONNX Runtime compute all products in the file's types, in place. Returns whether any changes."""
    found = list(_levels(graph))
    for node, attribute in found:
        node.attribute.remove(attribute)
    return any(attribute.i for _, attribute in found)


def _levels(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, onnx.AttributeProto]]:
    for node in all_nodes(graph):
        if node.op_type == "MatMulNBits":
            yield from ((node, attribute) for attribute in node.attribute if attribute.name == _NAME)
