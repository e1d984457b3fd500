"""Operators in float64: by ONNX's evaluator, and where it fails by ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from npuviz.base.errors import FormatError
from npuviz.onnx.check.own_inputs import run_exactly
from npuviz.onnx.reader import read_model
from npuviz.onnx.single_node import evaluate_node
from tests.onnx.cases import save, value


def test_a_transform_of_plain_rows_is_exact_though_the_evaluator_refuses_it(tmp_path: Path) -> None:
    """In fp32, ONNX Runtime is 3e-5 of the largest magnitude off for windows of 400."""
    constants = {"step": np.array(160, np.int64), "window": np.hanning(400).astype(np.float32)}
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", [1, 2000])], [value("y", None)], constants)
    graph = read_model(path, {})
    x = np.random.default_rng(0).standard_normal((1, 2000)).astype(np.float32)
    arrays = {graph.inputs[0]: x, **{index: np.asarray(each) for index, each in graph.constants.items()}}
    with pytest.raises(FormatError):
        evaluate_node(graph, graph.nodes[0], arrays)
    found = run_exactly(graph, graph.nodes[0], arrays)[graph.outputs[0]][0]
    frames = np.stack([x[0, at : at + 400].astype(np.float64) for at in range(0, 1601, 160)])
    expected = np.fft.rfft(frames * constants["window"].astype(np.float64))
    assert found.dtype == np.float64
    assert np.abs(found[..., 0] + 1j * found[..., 1] - expected).max() < 1e-9
