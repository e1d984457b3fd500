"""Weights in pieces, or in another order: no machine moves them in a run."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

WEIGHT = np.random.default_rng(0).standard_normal((600, 500)).astype(np.float32)


def _graph_of(folder: Path, nodes: list[onnx.NodeProto], opset: int, **weights: np.ndarray) -> Graph:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    ends[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 600]))
    held = [numpy_helper.from_array(array, name) for name, array in {"w": WEIGHT, **weights}.items()]
    product = helper.make_node("MatMul", ["x", "m"], ["y"])
    made = helper.make_graph([*nodes, product], "g", ends[:1], ends[1:], held)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return read_model(path)


def _check(graph: Graph, weight: np.ndarray) -> None:
    assert [node.op_type for node in graph.nodes] == ["MatMul"]
    x = np.ones((3, 600), np.float32)
    assert np.allclose(run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]], x @ weight, atol=1e-3)


@pytest.mark.parametrize("opset", [9, 17])
def test_pieces_are_joined(tmp_path: Path, opset: int) -> None:
    """As Paddle writes the gates of an LSTM: cut along one axis, joined in another order."""
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    for name, start in (("a", 300), ("b", 0)):
        given: dict[str, Any] = {"starts": [start], "ends": [start + 300], "axes": [0]}
        if opset > 9:
            weights |= {f"{name}_{key}": np.array(value) for key, value in given.items()}
            nodes.append(helper.make_node("Slice", ["w", *(f"{name}_{key}" for key in given)], [name]))
        else:
            nodes.append(helper.make_node("Slice", ["w"], [name], **given))
    nodes.append(helper.make_node("Concat", ["a", "b"], ["m"], axis=0))
    _check(_graph_of(tmp_path, nodes, opset, **weights), np.concatenate([WEIGHT[300:], WEIGHT[:300]]))


def test_a_turned_weight_is_stored_turned(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["w", "axis"], ["u"]),
        helper.make_node("Transpose", ["u"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Squeeze", ["t", "axis"], ["s"]),
        helper.make_node("Transpose", ["s"], ["m"]),
    ]
    _check(_graph_of(tmp_path, nodes, 17, axis=np.array([0])), WEIGHT)


def test_backwards_stays_a_node(tmp_path: Path) -> None:
    limits = {"b": np.array([-1]), "e": np.array([-1000]), "a": np.array([0]), "s": np.array([-1])}
    graph = _graph_of(tmp_path, [helper.make_node("Slice", ["w", *limits], ["m"])], 17, **limits)
    x = np.arange(1800, dtype=np.float32).reshape(3, 600) % 7
    found = run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]]
    assert np.allclose(found, x @ WEIGHT[::-1], rtol=1e-3, atol=1e-2)
