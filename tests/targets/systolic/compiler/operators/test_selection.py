"""Rows that a run picks come from the cores: nothing of a small network on a graph stays on the Host."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from npuviz.cli.main import main


def test_a_network_on_a_graph_runs_on_the_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(3)
    known = {
        "table": generator.standard_normal((9, 16)).astype(np.float32),
        "sums": np.zeros((6, 16), np.float32),
        "size": np.array([10, 16], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "kinds"], ["atoms"]),
        helper.make_node("Gather", ["atoms", "sources"], ["sent"]),
        helper.make_node("Relu", ["sent"], ["words"]),
        helper.make_node("Expand", ["goals", "size"], ["wide"]),
        helper.make_node("ScatterElements", ["sums", "wide", "words"], ["y"], axis=0, reduction="add"),
    ]
    given = {"kinds": (6,), "sources": (10,), "goals": (10, 1)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, shape) for name, shape in given.items()],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [6, 16])],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    path = tmp_path / "graph.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    drawn = {"kinds": generator.integers(-9, 9, 6), "sources": generator.integers(0, 6, 10)}
    drawn["goals"] = generator.integers(0, 6, (10, 1))
    arguments = ["run", str(path), "--target", "systolic", "--check", "--json"]
    for name, values in drawn.items():
        np.save(tmp_path / f"{name}.npy", values.astype(np.int64))
        arguments += ["--input", f"{name}={tmp_path / name}.npy"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["on_host"] == []
