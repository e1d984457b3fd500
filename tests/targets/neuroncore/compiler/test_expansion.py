"""Operators without a lowering become function bodies; loops with known turns are written out."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.passes.missing import expand_missing, expand_nodes
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.targets.neuroncore.compiler.on_machine import make_model, run


def graph_of(tmp_path: Path, model: onnx.ModelProto, *, optimize: bool = False) -> Graph:
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return read_model(path, optimize=optimize)


def operators(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def test_a_fixed_body_is_named_after_its_node(tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], name="first"),
        helper.make_node("LeakyRelu", ["a"], ["y"], name="leak", alpha=0.25),
    ]
    graph = graph_of(tmp_path, make_model(nodes, {"x": x}, ["y"], opset=16))
    expanded = expand_missing(graph, lambda node: node.op_type != "LeakyRelu")
    assert operators(expanded) == ["Abs", "Less", "Mul", "Where"]
    assert all(node.name.startswith("leak/") for node in expanded.nodes[1:])
    assert expanded.tensors[expanded.outputs[0]].name == "y"


def test_a_body_computes_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    weights = {"s": np.linspace(0, 1, 6, dtype=np.float32), "b": np.ones(6, np.float32)}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"], name="norm", epsilon=0.1)
    graph = graph_of(tmp_path, make_model([node], {"x": x}, ["y"], weights, opset=17))
    expanded = expand_nodes(graph, [0])
    assert expanded is not None
    assert "LayerNormalization" not in operators(expanded)
    before = run_reference(graph, {"x": x}, [graph.outputs[0]])[graph.outputs[0]]
    after = run_reference(expanded, {"x": x}, [expanded.outputs[0]])[expanded.outputs[0]]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_large_weights_survive(tmp_path: Path) -> None:
    x = np.ones((2, 1000), np.float32)
    weights = {"s": np.arange(1000, dtype=np.float32), "b": np.broadcast_to(np.float32(2), 1000)}
    node = helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])
    graph = graph_of(tmp_path, make_model([node], {"x": x}, ["y"], weights, opset=17))
    expanded = expand_nodes(graph, [0])
    assert expanded is not None
    arrays = [np.asarray(array).reshape(-1) for array in expanded.constants.values()]
    assert any(np.array_equal(array, weights["s"]) for array in arrays)


def test_bodies_within_bodies(tmp_path: Path) -> None:
    scores, labels = np.zeros((3, 5), np.float32), np.zeros(3, np.int64)
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], name="loss")
    graph = graph_of(tmp_path, make_model([node], {"x": scores, "t": labels}, ["y"], opset=13))
    whole = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "LogSoftmax"}
    expanded = expand_missing(graph, lambda each: each.op_type not in whole)
    assert not whole & set(operators(expanded))
    assert all(each.name.startswith("loss/") for each in expanded.nodes)


def test_what_has_no_body_stays(tmp_path: Path) -> None:
    x = np.zeros((2, 2), np.float32)
    graph = graph_of(tmp_path, make_model([helper.make_node("Det", ["x"], ["y"])], {"x": x}, ["y"]))
    assert expand_nodes(graph, [0]) is None
    assert expand_missing(graph, lambda node: False) is graph


def sum_scan(x: np.ndarray, direction: int) -> onnx.ModelProto:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["t"]),
            helper.make_node("Mul", ["t", "two"], ["o"]),
            helper.make_node("Identity", ["t"], ["n"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "e")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("n", "o")],
        [numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    node = helper.make_node(
        "Scan", ["i", "x"], ["f", "y"], name="scan", num_scan_inputs=1, body=body,
        scan_input_directions=[direction],
    )  # fmt: skip
    return make_model([node], {"i": np.zeros(2, np.float32), "x": x}, ["f", "y"])


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_runs_on_the_engines(direction: int) -> None:
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    start = np.array([1, 2], np.float32)
    done = run(sum_scan(x, direction), {"i": start, "x": x})
    assert not done.host
    assert "Scan" not in operators(done.program.graph)
    sums = start + np.cumsum(x[::-1] if direction else x, axis=0)
    np.testing.assert_allclose(done.outputs[0], sums[-1])
    np.testing.assert_allclose(done.outputs[1], 2 * sums)
