"""Rewrites nodes that some readers of a model do not support: sparse constants become dense, optionals of a
tensor become the tensor; and refuses convolutions with less than one group."""

from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import NodeProto, helper, numpy_helper

from npuviz.base.errors import FormatError
from npuviz.base.names import echo
from npuviz.onnx.parameters import subgraphs
from npuviz.onnx.stored_tensors import densify

_GROUPED = ("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv")


def write_plainly(path: Path, nodes: Iterable[NodeProto]) -> None:
    """Rewrite nodes in place, also in subgraphs. Raises FormatError for an invalid node."""
    held: dict[str, str] = {}
    for node in nodes:
        if node.op_type == "Constant":
            _write_dense(path, node)
        elif node.op_type in _GROUPED:
            _check_groups(path, node)
        elif node.op_type == "Optional" and node.input and node.input[0] and not node.attribute:
            held[node.output[0]] = node.input[0]
        elif node.op_type == "OptionalGetElement" and node.input[0] in held:
            node.op_type = "Identity"
            node.input[0] = held[node.input[0]]
        elif node.op_type == "OptionalHasElement" and node.input and node.input[0] in held:
            node.op_type = "Constant"
            del node.input[:]
            true = helper.make_tensor("", onnx.TensorProto.BOOL, [], [True])
            node.attribute.append(helper.make_attribute("value", true))
        for body in subgraphs(node):
            write_plainly(path, body.node)


def _write_dense(path: Path, node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
            array = densify(path, attribute.sparse_tensor, f"node {echo(node.output[0])}")
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array)))


def _check_groups(path: Path, node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name == "group" and attribute.i < 1:
            raise FormatError(
                path,
                field=f"node {echo(node.name or node.output[0])}",
                expected=f"{node.op_type} with a group of at least 1",
                found=str(attribute.i),
            )
