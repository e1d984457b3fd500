# Whose error it is: one operator is spoiled, and measuring finds it.
import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.onnx.check.injection import explain
from npuviz.onnx.single_node import run_node
from tests.onnx.check.machine import make_graph

NODES = [
    helper.make_node("Sigmoid", ["x"], ["a"], "first"),
    helper.make_node("Exp", ["a"], ["b"], "second"),
    helper.make_node("Mul", ["b", "k"], ["c"], "third"),
    helper.make_node("Add", ["c", "x"], ["y"], "last"),
]


@pytest.mark.parametrize("spoiled", ["a", "b", "c"])
def test_the_operator_with_the_error_is_first(tmp_path, spoiled: str) -> None:
    weights = {"k": np.array(0.5, np.float32)}
    graph = make_graph(tmp_path, NODES, {"x": [32]}, {"y": onnx.TensorProto.FLOAT}, weights)
    inputs = {"x": np.linspace(-2, 2, 32, dtype=np.float32)}
    held = {graph.inputs[0]: inputs["x"], **graph.constants}
    for node in graph.nodes:
        for index, values in run_node(graph, node, {index: held[index] for index in node.inputs}).items():
            name = graph.tensors[index].name
            held[index] = values * np.float32(1.1 if name == spoiled else 1.001)
    found = explain(graph, inputs, held.get, lambda share: None)
    first = found.effects[0]
    assert graph.tensors[first.tensor].name == spoiled
    assert first.nodes == (graph.tensors[first.tensor].producer,)
    assert first.own == pytest.approx(0.1, rel=1e-3)
    assert 0.01 < first.on_outputs < 0.2
    # Without it, what the others add is left.
    assert found.left[0] > 10 * found.left[1] > 0
    assert found.needed(found.left[1]) == 1
    assert found.needed(1.0) == 0


def test_numbers_without_axes_have_errors_too(tmp_path) -> None:
    graph = make_graph(
        tmp_path, NODES, {"x": []}, {"y": onnx.TensorProto.FLOAT}, {"k": np.array(0.5, np.float32)}
    )
    inputs = {"x": np.array(0.5, np.float32)}
    held = {graph.inputs[0]: inputs["x"], **graph.constants}
    for node in graph.nodes:
        for index, values in run_node(graph, node, {index: held[index] for index in node.inputs}).items():
            held[index] = values * np.float32(1.1 if graph.tensors[index].name == "c" else 1)
    found = explain(graph, inputs, held.get, lambda share: None)
    assert [graph.tensors[each.tensor].name for each in found.effects] == ["c"]
    assert found.effects[0].own == pytest.approx(0.1, rel=1e-3)


def test_fused_operators_are_named_together(tmp_path) -> None:
    weights = {"k": np.array(0.5, np.float32)}
    graph = make_graph(tmp_path, NODES, {"x": [32]}, {"y": onnx.TensorProto.FLOAT}, weights)
    x = np.linspace(-2, 2, 32, dtype=np.float32)
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    right = np.exp(1 / (1 + np.exp(-x))) * np.float32(0.5)
    held = {names["x"]: x, names["c"]: right * np.float32(1.1), names["y"]: right * np.float32(1.1) + x}
    found = explain(graph, {"x": x}, held.get, lambda share: None)
    assert found.effects[0].tensor == names["c"]
    assert [graph.nodes[node].name for node in found.effects[0].nodes] == ["third", "second", "first"]


@pytest.mark.parametrize(("calls", "counts"), [(0, (3, 0, 1)), (3, (0, 3, 1)), (5, (0, 1, 3))])
def test_what_time_does_not_suffice_for_is_counted(tmp_path, calls: int, counts: tuple[int, ...]) -> None:
    """(results not looked at, operators not tried, operators tried), when time is over after so many looks at
    the clock: one operator is tried in any case."""
    weights = {"k": np.array(0.5, np.float32)}
    graph = make_graph(tmp_path, NODES, {"x": [32]}, {"y": onnx.TensorProto.FLOAT}, weights)
    inputs = {"x": np.linspace(-2, 2, 32, dtype=np.float32)}
    held = {graph.inputs[0]: inputs["x"], **graph.constants}
    for node in graph.nodes:
        for index, values in run_node(graph, node, {index: held[index] for index in node.inputs}).items():
            held[index] = values * np.float32(1.001)
    asked: list[float] = []

    def goes_on(share: float) -> bool:
        asked.append(share)
        return len(asked) <= calls

    found = explain(graph, inputs, held.get, lambda share: None, goes_on)
    assert (found.unread, found.untried, len(found.effects)) == counts
    assert found.left


def test_rounded_inputs_and_weights_are_told_apart_from_operators(tmp_path) -> None:
    """Whole numbers that rounding turns: no operator is off, the input and the weight are."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], "scale"),
        helper.make_node("Floor", ["a"], ["b"], "cut"),
        helper.make_node("Cast", ["b"], ["y"], "whole", to=onnx.TensorProto.INT64),
    ]
    weights = {"k": np.array(3.0, np.float32)}
    graph = make_graph(tmp_path, nodes, {"x": [4]}, {"y": onnx.TensorProto.INT64}, weights)
    inputs = {"x": np.array([1.0, 2.0, 2.5, 4.0], np.float32)}
    names = {tensor.name: tensor.id for tensor in graph.tensors}
    rounded = np.array([1.0, 2.0, 2.5, 3.99], np.float32)
    held = {names["x"]: rounded, **graph.constants}
    for node in graph.nodes:
        held |= run_node(graph, node, {index: held[index] for index in node.inputs})
    found = explain(graph, inputs, held.get, lambda share: None)
    assert (found.effects, found.left, found.readers) == ((), (0.0,), (0,))
    assert found.given == pytest.approx(1 / 12)
    exact = explain(graph, {"x": rounded}, held.get, lambda share: None)
    assert (exact.given, exact.readers) == (0.0, ())
