"""Arithmetic on weights alone: it is done once, and what is stored in a small form stays small."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from npuviz.onnx.passes import weight_values
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.runtime import onnxruntime
from npuviz.program.graph import Graph

STANDARDISED = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1,64,8,8] x) => (float[1,160,8,8] y)
<int64[3] flat = {1, 160, -1}, int64[4] back = {160, 64, 3, 3}, float small = {1e-6}, float gain = {0.4}>
{
  rows = Reshape(w, flat)
  mean = ReduceMean<axes=[2], keepdims=1>(rows)
  off = Sub(rows, mean)
  square = Mul(off, off)
  variance = ReduceMean<axes=[2], keepdims=1>(square)
  safe = Add(variance, small)
  root = Sqrt(safe)
  even = Div(off, root)
  scaled = Mul(even, gain)
  kernel = Reshape(scaled, back)
  y = Conv<pads=[1,1,1,1]>(x, kernel)
}
"""
QUANTISED = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1,300] x) => (float[1,300] y)
<float step = {0.05}, float gain = {2.0}>
{
  plain = DequantizeLinear(q, step)
  scaled = Mul(plain, gain)
  y = MatMul(x, scaled)
}
"""


PICKED = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[1,4,196,196] x) => (float[1,4,196,196] y)
<int64[1] last = {-1}>
{
  at = Unsqueeze(places, last)
  turned = Transpose<perm=[1,0]>(w)
  rows = GatherND(turned, at)
  bias = Transpose<perm=[2,0,1]>(rows)
  y = Add(x, bias)
}
"""


def saved(path: Path, text: str, **weights: np.ndarray) -> Path:
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    onnx.save(model, path)
    return path


def check_against_the_file(path: Path, graph: Graph) -> None:
    x = np.random.default_rng(2).standard_normal(graph.tensors[graph.inputs[0]].shape, np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(["y"], {"x": x})[0])
    found = run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_standardised_weights_are_constants(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((160, 64, 3, 3)).astype(np.float32)
    path = saved(tmp_path / "m.onnx", STANDARDISED, w=w)
    graph = read_model(path)
    assert [node.op_type for node in graph.nodes] == ["Conv"]
    check_against_the_file(path, graph)


def test_rows_that_constants_pick_are_constants(tmp_path: Path) -> None:
    """As vision transformers write the bias of two positions by their distance."""
    random = np.random.default_rng(0)
    w, places = random.standard_normal((4, 300)).astype(np.float32), random.integers(0, 300, (196, 196))
    path = saved(tmp_path / "m.onnx", PICKED, w=w, places=places)
    graph = read_model(path)
    assert [node.op_type for node in graph.nodes] == ["Add"]
    check_against_the_file(path, graph)


def test_weights_of_8_bits_stay_so(tmp_path: Path) -> None:
    q = np.random.default_rng(0).integers(-128, 128, (300, 300), np.int8)
    path = saved(tmp_path / "m.onnx", QUANTISED, q=q)
    graph = read_model(path)
    assert {array.dtype.name for array in graph.constants.values() if array.size > 1} == {"int8"}
    check_against_the_file(path, graph)


def test_weights_too_large_to_be_held_twice_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.random.default_rng(0).standard_normal((160, 64, 3, 3)).astype(np.float32)
    path = saved(tmp_path / "m.onnx", STANDARDISED, w=w)
    monkeypatch.setattr(weight_values, "MAX_BYTES", w.nbytes - 1)
    graph = read_model(path)
    assert "ReduceMean" in [node.op_type for node in graph.nodes]
    check_against_the_file(path, graph)
