"""Operators on images, as their bodies: what ONNX Runtime computes of them whole, in every operator set."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def check(model: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path) -> list[str]:
    graph = expanded(model, folder)
    whole = read_model(folder / "model.onnx", optimize=False)
    (wanted,) = run_reference(whole, inputs, whole.outputs).values()
    np.testing.assert_allclose(result_of(graph, inputs), wanted, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in graph.nodes]


@pytest.mark.parametrize("opset", [7, 13, 17, 18])
@pytest.mark.parametrize("shape", [(2, 3, 40), (1, 1, 500), (2, 3, 5, 6), (1, 1, 8, 9), (2, 3, 3, 4, 5)])
def test_instances(shape: tuple[int, ...], opset: int, tmp_path: Path) -> None:
    x = floats(*shape) * 3 + 2
    inputs = {"x": x, "s": floats(shape[1]) + 1, "b": floats(shape[1], 1)[:, 0]}
    model = model_of("InstanceNormalization", inputs, x, opset=opset, epsilon=1e-3)
    kinds = check(model, inputs, tmp_path)
    is_rows = opset >= 17 and (len(shape) == 3 or shape[1] == 1)
    assert ("LayerNormalization" in kinds) == is_rows


def test_factors_of_one_and_summands_of_zero_are_left_out(tmp_path: Path) -> None:
    x = floats(1, 4, 90)
    stored = {"s": np.ones(4, np.float32), "b": np.zeros(4, np.float32)}
    kinds = check(model_of("InstanceNormalization", {"x": x}, x, stored=stored), {"x": x}, tmp_path)
    assert not {"Mul", "Add"} & set(kinds)


@pytest.mark.parametrize(
    ("op_type", "attributes", "size"),
    [
        ("ImageScaler", {"scale": 0.5, "bias": [1.0, -2.0, 3.0]}, (6, 7)),
        ("ImageScaler", {"bias": [1.0, -2.0, 3.0]}, (6, 7)),
        ("Crop", {"border": [1, 2, 3, 0]}, (4, 3)),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [3, 4]}, (3, 4)),
        ("Affine", {"alpha": 1.5, "beta": -0.25}, (6, 7)),
    ],
)
def test_operators_that_were_on_trial(
    op_type: str, attributes: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    x = floats(2, 3, 6, 7)
    model = model_of(op_type, {"x": x}, np.zeros((2, 3, *size), np.float32), opset=7, **attributes)
    check(model, {"x": x}, tmp_path)
