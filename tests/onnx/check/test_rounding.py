"""Tensors in narrower types: against rounding by hand, and against a model that rounds itself."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.base.errors import UsageError
from npuviz.onnx.check.rounding import COMPUTED, INPUT, WEIGHT, round_tensors, rounded
from npuviz.onnx.reference import run_reference
from tests.onnx.check.machine import make_graph

FLOAT = onnx.TensorProto.FLOAT


def _quiet(_share: float) -> None:
    pass


def test_types_round_as_they_do() -> None:
    values = np.array([1.0, 1.0 + 2.0**-9, 300.0, -500.0, 1e6], np.float32)
    assert rounded(values, "float16").tolist() == [1.0, 1.001953125, 300.0, -500.0, float("inf")]
    assert rounded(values, "bfloat16").tolist() == [1.0, 1.0, 300.0, -500.0, 999424.0]
    assert rounded(values, "float8_e4m3fn").tolist() == [1.0, 1.0, 288.0, -448.0, 448.0]
    steps = np.array([0.0, 1.0, -127.0, 0.4, 126.6], np.float32)
    assert rounded(steps, "int8").tolist() == [0.0, 1.0, -127.0, 0.0, 127.0]
    assert rounded(np.array([7.0, 2.4], np.float32), "int4").tolist() == [7.0, 2.0]
    assert rounded(np.zeros(3, np.float32), "int8").tolist() == [0.0] * 3


def test_outputs_are_those_of_a_model_that_rounds_this_tensor(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    weights = {name: generator.standard_normal((6, 6)).astype(np.float32) for name in ("w", "v")}
    x = generator.standard_normal((4, 6)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    graph = make_graph(tmp_path, nodes, {"x": (4, 6)}, {"y": FLOAT}, weights)
    found = round_tensors(graph, {"x": x}, (("bfloat16", "int8"), ()), _quiet)
    rows = {(graph.tensors[row.tensor].name, row.dtype): row for row in found.rows}
    kinds = {name: row.kind for (name, _), row in rows.items()}
    assert kinds == {"x": INPUT, "w": WEIGHT, "v": WEIGHT, "a": COMPUTED, "b": COMPUTED, "y": COMPUTED}
    exact = run_reference(graph, {"x": x}, [each.id for each in graph.tensors])
    named = {each.name: exact[each.id] for each in graph.tensors}

    def outputs(**changed: np.ndarray) -> np.ndarray:
        have = {**named, **changed}
        a = changed.get("a", have["x"] @ have["w"])
        b = changed.get("b", np.tanh(a))
        return changed.get("y", b @ have["v"])

    scale = np.abs(named["y"]).max()
    for (name, dtype), row in rows.items():
        wrong = outputs(**{name: rounded(named[name], dtype)})
        assert row.outputs == pytest.approx(np.abs(wrong - named["y"]).max() / scale, abs=2e-6), (name, dtype)
        assert row.own.largest == pytest.approx(
            np.abs(rounded(named[name], dtype) - named[name]).max() / np.abs(named[name]).max(), rel=1e-6
        )
    assert found.together["int8"] > max(row.outputs for row in found.rows if row.dtype == "int8") / 4


def test_some_tensors_only_and_what_cannot_be(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "s"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = make_graph(tmp_path, nodes, {"x": (3,)}, {"y": FLOAT}, {"s": np.array(2.0, np.float32)})
    x = {"x": np.array([1.0, 2.5, -3.0], np.float32)}
    one = next(each.id for each in graph.tensors if each.name == "a")
    found = round_tensors(graph, x, (("int8",), {one}), _quiet)
    assert [row.tensor for row in found.rows] == [one]
    assert found.left_out == ("s",)
    with pytest.raises(UsageError, match=r"type int7: expected one of float16, bfloat16"):
        round_tensors(graph, x, (("int7",), ()), _quiet)
