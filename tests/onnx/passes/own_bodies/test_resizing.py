"""Resize and Upsample as products with constant matrices: what ONNX Runtime computes of them whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.passes.own_bodies.written import expanded, model_of, result_of
from tests.sweeps import quick

NONE = np.array([], np.float32)
CASES: dict[str, dict[str, Any]] = {
    "linear": {"mode": "linear"},
    "align_corners": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "asymmetric": {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    "pytorch": {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    "cubic": {"mode": "cubic", "cubic_coeff_a": -0.5},
    "inside": {"mode": "cubic", "exclude_outside": 1},
    "antialias": {"mode": "linear", "antialias": 1},
    "nearest": {"mode": "nearest", "nearest_mode": "floor"},
}
SHAPES = [((1, 3, 4, 6), (1, 3, 7, 12)), ((2, 3, 9, 5), (2, 3, 4, 11)), ((2, 1, 6, 6), (2, 1, 6, 9))]


def check(
    folder: Path, x: np.ndarray, out: tuple[int, ...], stored: dict[str, Any], **attributes: Any
) -> list[str]:
    graph = rewritten(folder, x, out, stored, **attributes)
    whole = read_model(folder / "model.onnx", optimize=False)
    (wanted,) = run_reference(whole, {"x": x}, whole.outputs).values()
    np.testing.assert_allclose(result_of(graph, {"x": x}), wanted, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in graph.nodes]


def rewritten(
    folder: Path, x: np.ndarray, out: tuple[int, ...], stored: dict[str, Any], **attributes: Any
) -> Graph:
    kind, opset = attributes.pop("kind", "Resize"), attributes.pop("opset", 19)
    model = model_of(kind, {"x": x}, np.zeros(out, np.float32), opset=opset, stored=stored, **attributes)
    return expanded(model, folder)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("name", list(CASES))
@quick("linear*", "cubic*", "nearest*")
def test_by_sizes(name: str, sizes: tuple[tuple[int, ...], tuple[int, ...]], tmp_path: Path) -> None:
    shape, out = sizes
    stored = {"roi": NONE, "scales": NONE, "sizes": np.array(out, np.int64)}
    kinds = check(tmp_path, image(*shape), out, stored, **CASES[name])
    assert kinds.count("MatMul") == sum(a != b for a, b in zip(shape, out, strict=True))
    assert "Resize" not in kinds


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
def test_by_scales(opset: int, tmp_path: Path) -> None:
    scales = np.array([1, 1, 2, 1.5], np.float32)
    stored = {"scales": scales} if opset == 10 else {"roi": NONE, "scales": scales}
    check(tmp_path, image(1, 2, 4, 6), (1, 2, 8, 9), stored, mode="linear", opset=opset)


def test_upsample(tmp_path: Path) -> None:
    stored = {"scales": np.array([1, 1, 2, 2], np.float32)}
    check(tmp_path, image(1, 2, 4, 6), (1, 2, 8, 12), stored, mode="linear", kind="Upsample", opset=9)


@pytest.mark.parametrize(("shape", "out"), [((1, 3, 8), (1, 3, 5)), ((1, 2, 3, 4, 5), (1, 2, 6, 3, 5))])
def test_lines_and_volumes(shape: tuple[int, ...], out: tuple[int, ...], tmp_path: Path) -> None:
    stored = {"roi": NONE, "scales": NONE, "sizes": np.array(out, np.int64)}
    check(tmp_path, image(*shape), out, stored, mode="linear")


def test_channels_and_places_outside_stay(tmp_path: Path) -> None:
    x = image(1, 2, 4, 4)
    stored = {"roi": NONE, "scales": NONE, "sizes": np.array([1, 4, 4, 4], np.int64)}
    assert [node.op_type for node in rewritten(tmp_path, x, (1, 4, 4, 4), stored).nodes] == ["Resize"]
    region = np.array([0, 0, -0.5, 0, 1, 1, 1.5, 1], np.float32)
    stored = {"roi": region, "scales": NONE, "sizes": np.array([1, 2, 6, 4], np.int64)}
    outside = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    made = rewritten(tmp_path, x, (1, 2, 6, 4), stored, **outside)
    assert [node.op_type for node in made.nodes] == ["Resize"]
