"""Unusual nodes that the standard allows are read; those that no runtime survives are refused by name."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.errors import FormatError
from npuviz.cli.main import main
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference

TARGETS = ("systolic", "rk3588", "neuroncore")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _save(
    folder: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    shape: Sequence[int] = (2, 3),
    kind: int = TensorProto.FLOAT,
) -> Path:
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph(nodes, "g", [given], [made], list(weights))
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9
        ).SerializeToString()
    )
    return path


def _computed(path: Path) -> np.ndarray:
    graph = read_model(path)
    return run_reference(graph, {"x": X}, graph.outputs)[graph.outputs[0]]


def test_a_sparse_constant_is_its_dense_tensor(tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"),
        numpy_helper.from_array(np.array([0, 5, 11], np.int64), "i"),
        [3, 4],
    )
    nodes = [
        helper.make_node("Constant", [], ["w"], sparse_value=sparse),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    dense = np.zeros(12, np.float32)
    dense[[0, 5, 11]] = 1, 2, 3
    np.testing.assert_array_equal(_computed(_save(tmp_path, nodes)), X @ dense.reshape(3, 4))


def test_an_optional_that_holds_a_tensor_is_that_tensor(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("Cast", ["has"], ["one"], to=TensorProto.FLOAT),
        helper.make_node("OptionalGetElement", ["o"], ["t"]),
        helper.make_node("Add", ["t", "one"], ["y"]),
    ]
    np.testing.assert_array_equal(_computed(_save(tmp_path, nodes)), X + 1)


def test_constant_text_is_kept(tmp_path: Path) -> None:
    text = helper.make_tensor("s", TensorProto.STRING, [2], np.array(["a", "ü"], np.object_))
    nodes = [helper.make_node("Identity", ["s"], ["y"])]
    path = _save(tmp_path, nodes, [text], kind=TensorProto.STRING)
    graph = read_model(path)
    (output,) = graph.outputs
    assert graph.constants[output].tolist() == ["a", "ü"]
    for target in TARGETS:
        assert main(["run", str(path), "--target", target, "--check"]) == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolution_without_groups_is_refused(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "k")
    path = _save(tmp_path, [helper.make_node("Conv", ["x", "k"], ["y"], group=0)], [kernel], (1, 3, 8, 8))
    assert main(["run", str(path), "--target", target]) == 2
    assert "expected Conv with a group of at least 1, found 0" in capsys.readouterr().err


def test_groups_in_a_body_are_refused_too(tmp_path: Path) -> None:
    bodies: dict[str, Any] = {
        name: helper.make_graph(
            [helper.make_node("Conv", ["x", "x"], ["o"], group=-1)], name, [], [onnx.ValueInfoProto(name="o")]
        )
        for name in ("then_branch", "else_branch")
    }
    condition = numpy_helper.from_array(np.array(True), "c")
    with pytest.raises(FormatError, match="group of at least 1"):
        read_model(_save(tmp_path, [helper.make_node("If", ["c"], ["y"], **bodies)], [condition]))


@pytest.mark.parametrize(
    ("training", "ratio", "compared"), [(True, 0.5, False), (True, 0.0, True), (False, 0.5, True)]
)
def test_what_dropout_draws_is_not_compared(
    training: bool, ratio: float, compared: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = [
        numpy_helper.from_array(np.array(training), "t"),
        numpy_helper.from_array(np.array(ratio, np.float32), "r"),
    ]
    path = _save(tmp_path, [helper.make_node("Dropout", ["x", "r", "t"], ["y"])], weights)
    assert main(["run", str(path), "--target", "systolic", "--check", "--json"]) == 0
    assert (not json.loads(capsys.readouterr().out)["check"]["not_compared"]) == compared
