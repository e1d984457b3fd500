"""Defaults of attributes: those of the operator set a node is read with."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.semantics.attributes import Attributes, attributes_of
from npuviz.onnx.semantics.axes import reduced_axes, row_axes
from npuviz.program.graph import Node


def node_of(op_type: str, domain: str = "", opset: int = 17, **given: object) -> Node:
    return Node(0, "n", op_type, domain, (0,), (1,), given, opset)


def test_defaults_are_decimals() -> None:
    attributes = attributes_of(node_of("HardSigmoid"))
    assert (attributes.real("alpha"), attributes.real("beta")) == (0.2, 0.5)
    assert attributes_of(node_of("LayerNormalization")).real("epsilon") == 1e-5


def test_given_comes_first() -> None:
    attributes = attributes_of(node_of("DepthToSpace", mode=b"CRD", blocksize=2))
    assert attributes.text("mode") == "CRD"
    assert attributes.integer("blocksize") == 2
    assert attributes_of(node_of("DepthToSpace")).text("mode") == "DCR"
    assert attributes_of(node_of("Transpose")).integers("perm", [1, 0]) == [1, 0]
    assert attributes_of(node_of("Transpose", perm=[0, 1])).integers("perm", [1, 0]) == [0, 1]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="blocksize"):
        attributes_of(node_of("DepthToSpace")).integer("blocksize")


def test_operators_beyond_the_standard() -> None:
    assert attributes_of(node_of("FusedGemm", "com.microsoft", 1)).real("alpha") == 1.0
    assert attributes_of(node_of("SkipLayerNormalization", "com.microsoft", 1)).real("epsilon") == 1e-12
    # Younger than the operator set: exporters write it all the same.
    assert attributes_of(node_of("Gelu", opset=17)).text("approximate") == "none"
    assert Attributes("LeakyRelu", {}).real("alpha") == 0.01


@pytest.mark.parametrize(("opset", "row"), [(11, range(1, 4)), (13, range(3, 4))])
def test_softmax_of_old(opset: int, row: range) -> None:
    assert row_axes(node_of("Softmax", opset=opset), 4) == row


def test_reduced_axes() -> None:
    assert reduced_axes(node_of("ReduceSum"), 3, [-1, 0]) == (0, 2)
    assert reduced_axes(node_of("ReduceSum", axes=[1]), 3, None) == (1,)
    assert reduced_axes(node_of("ReduceSum"), 2, None) == (0, 1)
    assert reduced_axes(node_of("ReduceSum", noop_with_empty_axes=1), 2, []) is None


def test_nodes_know_their_operator_set(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    opsets = [helper.make_opsetid("ai.onnx", 11), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert read_model(tmp_path / "m.onnx").nodes[0].opset == 11
