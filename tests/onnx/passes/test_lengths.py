"""Sequence lengths of recurrent operators that a run's inputs decide."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.draft import is_of_one_run
from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import AS_IT_IS, ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from tests.onnx.cases import random, save, value
from tests.sweeps import quick

SIZES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _model(tmp_path: Path, kind: str, direction: str, outputs: list[str], lengths: list[int], opset: int):
    directions = 2 if direction == "bidirectional" else 1
    batch, rows = len(lengths), SIZES[kind] * 6
    weights = {"w": random(directions, rows, 4), "r": random(directions, rows, 6)}
    cast = helper.make_node("Cast", ["n"], ["lengths"], to=6)
    node = helper.make_node(
        kind, ["x", "w", "r", "", "lengths"], outputs, "cell", direction=direction, hidden_size=6
    )
    shapes: dict[str, list[int | str | None]] = {"y": [5, directions, batch, 6]}
    results = [value(name, shapes.get(name, [directions, batch, 6])) for name in outputs if name]
    inputs = [value("x", [5, batch, 4]), helper.make_tensor_value_info("n", 7, [batch])]
    path = save(tmp_path / "m.onnx", [cast, node], inputs, results, weights, opset=opset)
    return path, {"x": random(5, batch, 4), "n": np.array(lengths, np.int64)}


def _outputs(path: Path, arrays: dict[str, np.ndarray], form: ModelForm = AS_IT_IS) -> dict[str, np.ndarray]:
    graph = read_model(path, given=Given(arrays), form=form)
    found = run_reference(graph, arrays, graph.outputs)
    return {graph.tensors[index].name: values for index, values in found.items()}


@quick(every=4)
@pytest.mark.parametrize("opset", [9, 14, 20])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("length", [5, 3, 1])
def test_steps_behind_the_sequence_are_not_made(
    tmp_path: Path, kind: str, direction: str, length: int, opset: int
) -> None:
    outputs = ["y", "h"] + (["c"] if kind == "LSTM" else [])
    path, arrays = _model(tmp_path, kind, direction, outputs, [length], opset)
    graph = read_model(path, given=Given(arrays))
    cell = next(node for node in graph.nodes if node.op_type == kind)
    assert all(tensor < 0 for tensor in cell.inputs[4:5])
    assert graph.tensors[cell.inputs[0]].shape[0] == length
    assert is_of_one_run(graph.assumptions)
    plain = read_model(path, given=Given(arrays), optimize=False)
    expected = run_reference(plain, arrays, plain.outputs)
    found = _outputs(path, arrays)
    for index, values in expected.items():
        np.testing.assert_allclose(found[plain.tensors[index].name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_steps_that_are_made_are_written_out(tmp_path: Path, kind: str, direction: str) -> None:
    """Both rules name constants after the operator."""
    path, arrays = _model(tmp_path, kind, direction, ["y", "h"], [2], 14)
    form = ModelForm(whole=lambda _: False)
    assert kind not in {node.op_type for node in read_model(path, given=Given(arrays), form=form).nodes}
    plain = read_model(path, given=Given(arrays), optimize=False)
    found = _outputs(path, arrays, form)
    for index, values in run_reference(plain, arrays, plain.outputs).items():
        np.testing.assert_allclose(found[plain.tensors[index].name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [[4, 2], [0], [5, 5]])
def test_lengths_that_are_unlike_or_of_nothing_stay(tmp_path: Path, lengths: list[int]) -> None:
    """Of a batch, only constants are known to be alike."""
    path, arrays = _model(tmp_path, "GRU", "forward", ["y"], lengths, 14)
    cell = next(node for node in read_model(path, given=Given(arrays)).nodes if node.op_type == "GRU")
    assert cell.inputs[4] >= 0


@pytest.mark.parametrize("wanted", ["h", "y"])
def test_results_that_nobody_wants(tmp_path: Path, wanted: str) -> None:
    outputs = ["y"] if wanted == "y" else ["", "h"]
    path, arrays = _model(tmp_path, "GRU", "reverse", outputs, [2], 14)
    plain = read_model(path, given=Given(arrays), optimize=False)
    (expected,) = run_reference(plain, arrays, plain.outputs).values()
    np.testing.assert_allclose(_outputs(path, arrays)[wanted], expected, rtol=1e-5, atol=1e-6)
