"""If as both branches and a choice."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, helper

from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of

X = np.array([[1.0, -2.0, 4.0]], np.float32)


def branch(op_type: str, width: int = 3) -> GraphProto:
    """op_type(x + c), where x is a tensor of the model."""
    sizes = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [1, width])
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node(op_type, ["a"], ["o"])]
    constant = onnx.numpy_helper.from_array(np.array(1, np.float32), "c")
    return helper.make_graph(nodes, "branch", [], [sizes], [constant])


def choice(then: GraphProto, other: GraphProto) -> onnx.ModelProto:
    model = model_of("If", {"x": X, "b": np.array(True)}, X, then_branch=then, else_branch=other)
    del model.graph.node[0].input[0]
    return model


@pytest.mark.parametrize("chosen", [True, False])
def test_either_branch_is_chosen(chosen: bool, tmp_path: Path) -> None:
    """Both give their tensors the same names."""
    graph = expanded(choice(branch("Relu"), branch("Neg")), tmp_path)
    assert [node.op_type for node in graph.nodes].count("Where") == 1
    found = result_of(graph, {"x": X, "b": np.array(chosen)})
    np.testing.assert_array_equal(found, np.maximum(X + 1, 0) if chosen else -X - 1)


def test_a_branch_that_is_not_chosen_may_be_undefined(tmp_path: Path) -> None:
    graph = expanded(choice(branch("Abs"), branch("Log")), tmp_path)
    found = result_of(graph, {"x": X, "b": np.array(True)})
    np.testing.assert_array_equal(found, np.abs(X + 1))


def test_branches_of_other_sizes_or_with_random_numbers_stay(tmp_path: Path) -> None:
    for other in (branch("Neg", 4), branch("RandomNormalLike")):
        graph = expanded(choice(branch("Relu"), other), tmp_path)
        assert [node.name for node in graph.nodes] == ["op"]
