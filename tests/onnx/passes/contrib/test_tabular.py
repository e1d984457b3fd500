"""Operators of tables: the plain form computes what ONNX Runtime does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.runtime import onnxruntime
from tests.onnx.cases import save, value

TABLE = np.random.default_rng(2).standard_normal((5, 4)).astype(np.float32)
TABLE[2] = 0
COEFFICIENTS = np.random.default_rng(3).standard_normal(12).tolist()


def compare(
    folder: Path,
    operator: str,
    arrays: dict[str, np.ndarray],
    outputs: Mapping[str, int],
    opset: int = 17,
    **attributes: Any,
) -> list[str]:
    """Hold the plain form against ONNX Runtime. Returns the operators of the plain form."""
    node = helper.make_node(operator, list(arrays), list(outputs), "n", domain="ai.onnx.ml", **attributes)
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    path = save(
        folder / "m.onnx",
        [node],
        [value(name, list(array.shape), kinds[name]) for name, array in arrays.items()],
        [value(name, None, kind) for name, kind in outputs.items()],
        opset=opset,
        domains={"ai.onnx.ml": 3},
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, arrays)
    graph = read_model(path, given=Given(arrays))
    found = run_reference(graph, arrays, graph.outputs)
    assert [graph.tensors[index].name for index in graph.outputs] == list(outputs)
    for index, expected in zip(graph.outputs, map(np.asarray, wanted), strict=True):
        assert found[index].shape == expected.shape
        np.testing.assert_allclose(found[index], expected, rtol=2e-6, atol=2e-6)
    return [each.op_type for each in graph.nodes]


@pytest.mark.parametrize("attributes", [{"targets": 3, "intercepts": [0.5, 1.0, -2.0]}, {"targets": 3}])
def test_regressors(tmp_path: Path, attributes: dict[str, Any]) -> None:
    more = {"coefficients": COEFFICIENTS, **attributes}
    assert "MatMul" in compare(tmp_path, "LinearRegressor", {"x": TABLE}, {"y": TensorProto.FLOAT}, **more)


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("after", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_classifiers(tmp_path: Path, after: str, opset: int) -> None:
    kinds = compare(
        tmp_path,
        "LinearClassifier",
        {"x": TABLE},
        {"label": TensorProto.INT64, "p": TensorProto.FLOAT},
        opset,
        coefficients=COEFFICIENTS,
        intercepts=[0.5, 1.0, -2.0],
        classlabels_ints=[7, 3, 5],
        post_transform=after,
    )
    assert "LinearClassifier" not in kinds


def test_a_classifier_of_two_classes_by_one_score_stays(tmp_path: Path) -> None:
    kinds = compare(
        tmp_path,
        "LinearClassifier",
        {"x": TABLE},
        {"label": TensorProto.INT64, "p": TensorProto.FLOAT},
        coefficients=COEFFICIENTS[:4],
        intercepts=[0.5],
        classlabels_ints=[0, 1],
        post_transform="LOGISTIC",
    )
    assert kinds == ["LinearClassifier"]


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("norm", ["L1", "L2", "MAX"])
@pytest.mark.parametrize("opset", [9, 17, 18])
def test_normalizers(tmp_path: Path, opset: int, norm: str, kind: type) -> None:
    table = TABLE if kind == np.float32 else (3 * TABLE).astype(kind)
    kinds = compare(tmp_path, "Normalizer", {"x": table}, {"y": TensorProto.FLOAT}, opset, norm=norm)
    assert ("Normalizer" in kinds) == (norm == "MAX")


def test_thresholds(tmp_path: Path) -> None:
    kinds = compare(tmp_path, "Binarizer", {"x": TABLE}, {"y": TensorProto.FLOAT}, threshold=0.25)
    assert kinds == ["Greater", "Cast"]
