"""Products of operands that are rounded at run time become products of floats, and are said to."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.cases import random, save, value

ROUNDING = helper.make_node("DynamicQuantizeLinear", ["x"], ["codes", "scale", "point"], "round")


def _read(path: Path, arrays: dict[str, np.ndarray]) -> Graph:
    return read_model(path, given=Given(arrays), form=ModelForm(float_products=True))


def _types(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def _outputs(graph: Graph, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = run_reference(graph, arrays, graph.outputs)
    return {graph.tensors[index].name: values for index, values in found.items()}


def _after(name: str, factors: list[str], out: str) -> list[onnx.NodeProto]:
    """Cast of a sum and its products with factors."""
    nodes = [helper.make_node("Cast", [name], [f"{name}_real"], f"{name}_cast", to=TensorProto.FLOAT)]
    names = [f"{name}_real", *(f"{name}_{place}" for place in range(len(factors) - 1)), out]
    for place, factor in enumerate(factors):
        inputs = [names[place], factor] if place % 2 else [factor, names[place]]
        nodes.append(helper.make_node("Mul", inputs, [names[place + 1]], f"{name}_mul{place}"))
    return nodes


@pytest.mark.parametrize("is_by_column", [False, True])
@pytest.mark.parametrize("form", ["one factor", "two factors"])
def test_a_product_with_stored_weights(tmp_path: Path, is_by_column: bool, form: str) -> None:
    codes = np.random.default_rng(3).integers(0, 255, (12, 7)).astype(np.uint8)
    steps = np.linspace(0.01, 0.02, 7, dtype=np.float32) if is_by_column else np.array(0.01, np.float32)
    points = np.arange(120, 127, dtype=np.uint8) if is_by_column else np.array(128, np.uint8)
    nodes = [ROUNDING, helper.make_node("MatMulInteger", ["codes", "w", "point", "wz"], ["sums"], "product")]
    if form == "one factor":
        nodes += [helper.make_node("Mul", ["ws", "scale"], ["both"]), *_after("sums", ["both"], "y")]
    else:
        nodes += _after("sums", ["scale", "ws"], "y")
    weights = {"w": codes, "wz": points, "ws": steps}
    path = save(tmp_path / "m.onnx", nodes, [value("x", [3, 12])], [value("y", [3, 7])], weights)
    x = {"x": random(3, 12)}
    graph = _read(path, x)
    assert _types(graph) == ["MatMul"]
    assert graph.nodes[0].name == "product"
    whole = (codes.astype(np.float32) - points.astype(np.float32)) * steps
    np.testing.assert_allclose(_outputs(graph, x)["y"], x["x"] @ whole, rtol=1e-5, atol=1e-5)
    assert "operands of 1 products are not rounded to 8 bits" in graph.assumptions[0]
    assert "MatMulInteger" in _types(read_model(path, given=Given(x)))


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_convolution_whose_bias_is_divided_by_the_scale(tmp_path: Path, has_bias: bool) -> None:
    codes = np.random.default_rng(4).integers(-100, 100, (5, 4, 3, 3)).astype(np.int8)
    nodes = [
        ROUNDING,
        helper.make_node(
            "ConvInteger", ["codes", "w", "point", "wz"], ["sums"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]
        ),
        helper.make_node("Mul", ["scale", "ws"], ["both"]),
    ]
    if has_bias:
        nodes += [
            helper.make_node("Div", ["bias", "both"], ["steps"]),
            helper.make_node("Floor", ["steps"], ["whole"]),
            helper.make_node("Cast", ["whole"], ["integers"], to=TensorProto.INT32),
            helper.make_node("Reshape", ["integers", "shape"], ["by_channel"]),
            helper.make_node("Add", ["sums", "by_channel"], ["added"]),
        ]
    nodes += _after("added" if has_bias else "sums", ["both"], "y")
    bias = random(5)
    weights: dict[str, Any] = {
        "w": codes, "wz": np.array(0, np.int8), "ws": np.array(0.01, np.float32),
        "bias": bias, "shape": np.array([1, -1, 1, 1]),
    }  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, [value("x", [1, 4, 6, 6])], [value("y", [1, 5, 3, 3])], weights)
    x = {"x": random(1, 4, 6, 6)}
    graph = _read(path, x)
    assert _types(graph) == ["Conv"]
    rounded = _outputs(read_model(path, given=Given(x)), x)["y"]
    found = _outputs(graph, x)["y"]
    np.testing.assert_allclose(found, rounded, rtol=0, atol=0.02 * np.abs(rounded).max())
    assert not np.array_equal(found, rounded)


def test_what_is_read_besides_stays(tmp_path: Path) -> None:
    """Two products share the rounding; somebody reads the codes; the sums of a third are an output."""
    nodes = [ROUNDING, helper.make_node("Mul", ["scale", "ws"], ["both"])]
    for name in "abc":
        nodes.append(helper.make_node("MatMulInteger", ["codes", "w", "point"], [f"s{name}"], name))
        nodes += _after(f"s{name}", ["both"], f"y{name}")
    nodes.append(helper.make_node("Identity", ["codes"], ["y"], "out"))
    outputs = [value(f"y{name}", [2, 3]) for name in "abc"]
    outputs += [value("sc", [2, 3], TensorProto.INT32), value("y", [2, 4], TensorProto.UINT8)]
    weights = {"w": np.arange(12, dtype=np.int8).reshape(4, 3), "ws": np.array(0.1, np.float32)}
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2, 4])], outputs, weights)
    x = {"x": random(2, 4)}
    graph = _read(path, x)
    types = _types(graph)
    assert (types.count("MatMul"), types.count("MatMulInteger")) == (2, 1)
    found, rounded = _outputs(graph, x), _outputs(read_model(path, given=Given(x)), x)
    for name in ("y", "yc", "sc"):
        np.testing.assert_array_equal(found[name], rounded[name])


@pytest.mark.parametrize("change", ["another point", "weights of the run", "no scale"])
def test_other_forms_stay_as_they_are(tmp_path: Path, change: str) -> None:
    point = "zero" if change == "another point" else "point"
    right = "live" if change == "weights of the run" else "w"
    nodes = [
        ROUNDING,
        helper.make_node("Cast", ["v"], ["live"], to=TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["codes", right, point], ["sums"]),
        *_after("sums", ["ws" if change == "no scale" else "scale"], "y"),
    ]
    weights = {
        "w": np.ones((4, 3), np.uint8), "zero": np.array(3, np.uint8), "ws": np.array(0.1, np.float32),
    }  # fmt: skip
    inputs = [value("x", [2, 4]), value("v", [4, 3])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [value("y", [2, 3])], weights)
    graph = _read(path, {"x": random(2, 4), "v": np.ones((4, 3), np.float32)})
    assert "MatMulInteger" in _types(graph)
    assert not any("not rounded" in text for text in graph.assumptions)
