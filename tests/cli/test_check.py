# `npuviz run --check` on every machine that takes ONNX models: what the Host computes, and both verdicts.
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.cli.main import main

TARGETS = ("systolic", "neuroncore", "rk3588")
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def _model(folder: Path, nodes: Sequence[onnx.NodeProto], inputs: Any, outputs: Any, weights: Any) -> str:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return str(path)


def _run(path: str, target: str, capsys: pytest.CaptureFixture[str], *extra: str) -> tuple[int, str, str]:
    code = main(["run", path, "--target", target, "--record", "none", "--check", "--json", *extra])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("target", TARGETS)
def test_host_operators_with_scalar_constants_are_right(target: str, tmp_path, capsys) -> None:
    nodes = [
        helper.make_node("Mod", ["x", "two"], ["m"], "mod", fmod=1),
        helper.make_node("Where", ["c", "m", "ten"], ["y"], "choose"),
    ]
    weights = {"two": np.array(2.0, np.float32), "ten": np.array(10.0, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [4]), "c": (BOOL, [])}, {"y": FLOAT}, weights)
    np.save(tmp_path / "x.npy", np.array([3.5, -3.5, 0.5, 9], np.float32))
    code, out, _ = _run(path, target, capsys, "--input", f"x={tmp_path / 'x.npy'}")
    check = json.loads(out)["check"]
    assert (code, check["failed"], check["end_to_end"]["failed"]) == (0, 0, 0)
    assert check["end_to_end"]["outputs_right"] is True


@pytest.mark.parametrize("target", TARGETS)
def test_a_host_operator_that_fails_stops_the_run(target: str, tmp_path, capsys) -> None:
    def branch(name: str) -> onnx.GraphProto:
        nodes = [helper.make_node("Gather", ["x", "at"], [name], f"pick_{name}")]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, [2])])

    node = helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch("t"), else_branch=branch("e"))
    inputs = {"x": (FLOAT, [4]), "at": (INT64, [2]), "c": (BOOL, [])}
    path = _model(tmp_path, [node], inputs, {"y": FLOAT}, {})
    np.save(tmp_path / "at.npy", np.array([1, 99]))
    code = main(["run", path, "--target", target, "--input", f"at={tmp_path / 'at.npy'}"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "choice" in err
    assert "pick_t" in err


def test_tensors_between_host_operators_keep_their_type_on_rk3588(tmp_path, capsys) -> None:
    """-65,840 is infinite in fp16."""
    nodes = [
        helper.make_node("Mod", ["x", "k"], ["m"], "mod", fmod=1),
        helper.make_node("Cast", ["m"], ["y"], "cast", to=onnx.TensorProto.INT32),
    ]
    weights = {"k": np.array(100000.0, np.float32)}
    path = _model(tmp_path, nodes, {"x": (FLOAT, [4])}, {"y": onnx.TensorProto.INT32}, weights)
    np.save(tmp_path / "x.npy", np.array([-65840, 65841, 3.5, -265841], np.float32))
    code, out, _ = _run(path, "rk3588", capsys, "--input", f"x={tmp_path / 'x.npy'}")
    check = json.loads(out)["check"]
    assert (code, check["end_to_end"]["classes"]["equal"]) == (0, 2)
