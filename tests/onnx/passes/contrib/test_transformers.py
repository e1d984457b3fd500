"""What ONNX Runtime's optimiser fuses of transformers: the plain form computes what it computes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.contrib.expand import WRITERS, in_plain_form
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.runtime import onnxruntime
from tests.onnx.cases import save, value

Arrays = Mapping[str, np.ndarray]


def floats(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compare(
    folder: Path, node: onnx.NodeProto, arrays: Arrays, weights: Arrays | None = None, opset: int = 17
) -> list[str]:
    """Hold the plain form against ONNX Runtime. Returns the operators of the plain form."""
    inputs = [
        value(name, list(array.shape), helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in arrays.items()
    ]
    names = [name for name in node.output if name]
    outputs = [
        value(name, None, TensorProto.INT32 if name == "lengths" else TensorProto.FLOAT) for name in names
    ]
    path = save(
        folder / "m.onnx",
        [node],
        inputs,
        outputs,
        dict(weights or {}),
        opset=opset,
        domains={"com.microsoft": 1},
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip(names, session.run(None, dict(arrays)), strict=True))
    graph = read_model(path, given=Given(arrays))
    found = run_reference(graph, dict(arrays), graph.outputs)
    for tensor in graph.outputs:
        name = graph.tensors[tensor].name
        np.testing.assert_allclose(
            found[tensor], np.asarray(wanted[name]), rtol=2e-5, atol=2e-5, err_msg=name
        )
    return [each.op_type for each in graph.nodes]


def made(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, name="n", domain="com.microsoft", **attributes)


@pytest.mark.parametrize("opset", [14, 20])
@pytest.mark.parametrize(
    ("operator", "has_bias", "attributes"),
    [
        ("BiasGelu", True, {}),
        ("FastGelu", True, {}),
        ("FastGelu", False, {}),
        ("QuickGelu", False, {}),
        ("QuickGelu", False, {"alpha": 1.0}),
        ("QuickGelu", False, {"alpha": 0.5}),
    ],
)
def test_forms_of_gelu(
    tmp_path: Path, operator: str, has_bias: bool, attributes: dict[str, Any], opset: int
) -> None:
    node = made(operator, ["x", "b"] if has_bias else ["x"], ["y"], **attributes)
    weights = {"b": floats(2, 6)} if has_bias else {}
    kinds = compare(tmp_path, node, {"x": 4 * floats(1, 3, 5, 6)}, weights, opset)
    assert operator not in kinds


@pytest.mark.parametrize("mask", ["", "mask"])
@pytest.mark.parametrize("places", ["", "places"])
@pytest.mark.parametrize("segments", ["", "segments"])
@pytest.mark.parametrize("opset", [11, 17])
def test_embeddings(tmp_path: Path, segments: str, places: str, mask: str, opset: int) -> None:
    random = np.random.default_rng(3)
    arrays = {"ids": random.integers(0, 11, (2, 5)).astype(np.int32)}
    if segments:
        arrays["segments"] = random.integers(0, 2, (2, 5)).astype(np.int32)
    if places:
        arrays["places"] = random.integers(0, 7, (2, 5)).astype(np.int32)
    if mask:
        arrays["mask"] = random.integers(0, 2, (2, 5)).astype(np.int32)
    weights = {
        "words": floats(1, 11, 8),
        "positions": floats(2, 7, 8),
        "scale": floats(4, 8),
        "shift": floats(5, 8),
    }
    if segments:
        weights["kinds"] = floats(6, 2, 8)
    tables = ["words", "positions", "kinds" if segments else "", "scale", "shift"]
    node = made(
        "EmbedLayerNormalization",
        ["ids", segments, *tables, mask, *([places] if places else [])],
        ["y", "lengths", "sum"],
        epsilon=1e-5,
    )
    assert "EmbedLayerNormalization" not in compare(tmp_path, node, arrays, weights, opset)


MASKS = {
    "": None,
    "keys": np.array([[1, 1, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 0, 1]], np.int32),
    "lengths of keys": np.array([5, 7], np.int32),
    "keys by query": np.random.default_rng(0).integers(0, 2, (2, 4, 7)).astype(np.int32),
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("attributes", [{}, {"scale": 0.3, "mask_filter_value": -3.4e38}])
def test_attention_with_its_projection(
    tmp_path: Path, attributes: dict[str, Any], mask: str, causal: int
) -> None:
    """Three earlier rows, four new ones."""
    arrays = {"x": floats(1, 2, 4, 12), "past": floats(2, 2, 2, 3, 3, 4)}
    held = MASKS[mask]
    if held is not None:
        arrays["mask"] = held
    inputs = ["x", "w", "b", "mask" if held is not None else "", "past"]
    node = made("Attention", inputs, ["y", "present"], num_heads=3, unidirectional=causal, **attributes)
    kinds = compare(tmp_path, node, arrays, {"w": floats(3, 12, 36), "b": floats(4, 36)})
    assert "Attention" not in kinds


@pytest.mark.parametrize("mask", [np.array([[1, 1, 0], [0, 1, 1]], np.int32), np.array([3, 2], np.int32)])
def test_attention_with_a_bias_of_its_scores(tmp_path: Path, mask: np.ndarray) -> None:
    arrays = {"x": floats(1, 2, 3, 8), "mask": mask, "more": floats(5, 2, 2, 3, 3)}
    inputs = ["x", "w", "b", "mask", "", "more"]
    node = made("Attention", inputs, ["y"], num_heads=2, qkv_hidden_sizes=[6, 6, 6])
    assert "Attention" not in compare(tmp_path, node, arrays, {"w": floats(3, 8, 18), "b": floats(4, 18)})


def test_attention_alone(tmp_path: Path) -> None:
    node = made("Attention", ["x", "w", "b"], ["y"], num_heads=2)
    kinds = compare(tmp_path, node, {"x": floats(1, 1, 3, 8)}, {"w": floats(3, 8, 24), "b": floats(4, 24)})
    assert "Attention" not in kinds


@pytest.mark.parametrize(
    ("attributes", "columns"), [({"qkv_hidden_sizes": [6, 6, 4]}, 16), ({"do_rotary": 1}, 18)]
)
def test_other_forms_of_attention_stay(tmp_path: Path, attributes: dict[str, Any], columns: int) -> None:
    node = made("Attention", ["x", "w", "b"], ["y"], num_heads=2, **attributes)
    weights = {"w": floats(3, 8, columns), "b": floats(4, columns)}
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value("x", [1, 3, 8])],
        [value("y", [1, 3, 4 if columns == 16 else 6])],
        weights,
        domains={"com.microsoft": 1},
    )
    assert [each.op_type for each in read_model(path).nodes] == ["Attention"]


def test_a_machine_keeps_the_attention_of_the_standard_only() -> None:
    keep = in_plain_form({"Attention", "BiasGelu"})
    assert keep(helper.make_node("Attention", ["q", "k", "v"], ["y"]))
    assert not keep(made("Attention", ["x", "w", "b"], ["y"]))
    assert keep(made("BiasGelu", ["x", "b"], ["y"]))


def test_a_length_that_was_only_assumed_does_not_fix_a_result(tmp_path: Path) -> None:
    """Earlier and new rows are assumed to be one each, and so is their sum by its name."""
    node = made("Attention", ["x", "w", "b", "", "past"], ["y", "present"], num_heads=3)
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value("x", [1, "rows", 12]), value("past", [2, 1, 3, "earlier", 4]), value("mask", [1, "all"])],
        [value("y", [1, "rows", 12]), value("present", [2, 1, 3, "all", 4])],
        {"w": floats(3, 12, 36), "b": floats(4, 36)},
        domains={"com.microsoft": 1},
    )
    graph = read_model(path, form=ModelForm(whole=lambda each: each.op_type in WRITERS), optimize=False)
    present = next(each for each in graph.tensors if each.name == "present")
    assert present.shape == (2, 1, 3, 2, 4)
    graph = read_model(path, {"rows": 4, "earlier": 3})
    assert next(each for each in graph.tensors if each.name == "present").shape == (2, 1, 3, 7, 4)


def test_prompts_of_unlike_length_are_turned_from_their_first_row_on(tmp_path: Path) -> None:
    """Without a cache, shorter prompts of a batch are filled up behind: keys have positions from 0."""
    batch, rows, heads, groups, features = 2, 4, 4, 2, 16
    arrays = {
        "q": floats(1, batch, rows, heads * features),
        "k": floats(2, batch, rows, groups * features),
        "v": floats(3, batch, rows, groups * features),
        "lengths": np.array([rows - 1, 1], np.int32),
    }
    angles = np.outer(np.arange(16), 10000.0 ** (-np.arange(features // 2) / (features // 2)))
    tables = {name: found(angles).astype(np.float32) for name, found in (("cos", np.cos), ("sin", np.sin))}
    inputs = ["q", "k", "v", "", "", "lengths", "total", "cos", "sin"]
    node = made(
        "GroupQueryAttention",
        inputs,
        ["y", "keys", "values"],
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=1,
    )
    path = save(
        tmp_path / "m.onnx",
        [node],
        [value(n, list(a.shape), helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in arrays.items()],
        [value(name, None, TensorProto.FLOAT) for name in ("keys", "values")],
        {"total": np.array(rows, np.int32), **tables},
        opset=17,
        domains={"com.microsoft": 1},
    )
    wanted = onnxruntime.InferenceSession(str(path)).run(None, dict(arrays))
    graph = read_model(path, given=Given(arrays))
    assert "GroupQueryAttention" not in {each.op_type for each in graph.nodes}
    for found, expected in zip(
        run_reference(graph, dict(arrays), graph.outputs).values(), wanted, strict=True
    ):
        np.testing.assert_allclose(found, np.asarray(expected), rtol=2e-5, atol=2e-5)
