"""Operators on 8-bit tensors, written between DequantizeLinear and QuantizeLinear."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.cli.main import main
from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference

STEP = 1
# Weights stay within 64: without VNNI, ONNX Runtime adds two products of 8 bits in 16 bits, so that larger
# ones give other sums there.


class Quantised:
    """Nodes of one type on a uint8 input `x`; constants are seeded."""

    def __init__(self, *shape: int, opset: int = 20) -> None:
        self.shape = shape
        self.opset = opset
        self.random = np.random.default_rng(7)
        self.weights: list[TensorProto] = []

    def constant(self, values: Any, kind: str) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def scaled(self, scale: float | list[float], point: int | list[int], kind: str = "uint8") -> list[str]:
        return [self.constant(scale, "float32"), self.constant(point, kind)]

    def save(self, folder: Path, op_type: str, inputs: list[str], domain: str = "", **more: Any) -> Path:
        node = helper.make_node(op_type, inputs, ["y"], "node", domain=domain, **more)
        graph = helper.make_graph(
            [node],
            "small",
            [helper.make_tensor_value_info("x", TensorProto.UINT8, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
            self.weights,
        )
        sets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        path = folder / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)
        return path


def same(path: Path, shape: tuple[int, ...], operator: str) -> None:
    """What is written gives what the runtime makes of the model, and has the operator in floats."""
    x = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    expected = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    graph = read_model(path, given=Given({"x": x}), form=ModelForm(whole=lambda _: False))
    kinds = [node.op_type for node in graph.nodes]
    assert operator in kinds
    assert not any(kind.startswith("Q") and kind != "QuantizeLinear" for kind in kinds)
    found = run_reference(graph, {"x": x}, graph.outputs)[graph.outputs[0]]
    assert np.abs(found.astype(int) - np.asarray(expected).astype(int)).max() <= STEP


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_convolutions(tmp_path: Path, per_channel: bool, has_bias: bool) -> None:
    model = Quantised(1, 3, 6, 6)
    weights = model.constant(model.random.integers(-64, 65, (4, 3, 3, 3)), "int8")
    scales = [0.01, 0.02, 0.005, 0.03] if per_channel else 0.01
    of_weights = model.scaled(scales, [0] * 4 if per_channel else 0, "int8")
    inputs = ["x", *model.scaled(0.02, 120), weights, *of_weights, *model.scaled(0.1, 100)]
    inputs += [model.constant([100, -2000, 300, 0], "int32")] if has_bias else []
    path = model.save(tmp_path, "QLinearConv", inputs, pads=[1, 1, 1, 1], strides=[2, 2])
    same(path, model.shape, "Conv")


@pytest.mark.parametrize("per_column", [False, True])
def test_products(tmp_path: Path, per_column: bool) -> None:
    model = Quantised(5, 8)
    weights = model.constant(model.random.integers(-64, 65, (8, 3)), "int8")
    of_weights = model.scaled(
        [0.01, 0.03, 0.02] if per_column else 0.01, [0] * 3 if per_column else 0, "int8"
    )
    inputs = ["x", *model.scaled(0.02, 120), weights, *of_weights, *model.scaled(0.1, 100)]
    same(model.save(tmp_path, "QLinearMatMul", inputs), model.shape, "MatMul")


def test_gemm(tmp_path: Path) -> None:
    model = Quantised(5, 8)
    weights = model.constant(model.random.integers(-64, 65, (3, 8)), "int8")
    bias = model.constant([100, -2000, 300], "int32")
    inputs = ["x", *model.scaled(0.02, 120), weights, *model.scaled(0.01, 0, "int8"), bias]
    inputs += model.scaled(0.1, 100)
    same(model.save(tmp_path, "QGemm", inputs, "com.microsoft", transB=1), model.shape, "Gemm")


@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_pairs(tmp_path: Path, operator: str) -> None:
    model = Quantised(2, 7)
    other = model.constant(model.random.integers(0, 256, (2, 7)), "uint8")
    inputs = ["x", *model.scaled(0.02, 120), other, *model.scaled(0.03, 128), *model.scaled(0.06, 110)]
    same(model.save(tmp_path, f"QLinear{operator}", inputs, "com.microsoft"), model.shape, operator)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Sigmoid", {}),
        ("LeakyRelu", {"alpha": 0.1}),
        ("GlobalAveragePool", {}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Softmax", {"axis": -1, "opset": 20}),
    ],
)
def test_operators_of_one_tensor(tmp_path: Path, operator: str, attributes: dict[str, Any]) -> None:
    model = Quantised(1, 4, 6, 6)
    inputs = ["x", *model.scaled(0.02, 120), *model.scaled(1 / 255, 0)]
    path = model.save(tmp_path, f"QLinear{operator}", inputs, "com.microsoft", **attributes)
    same(path, model.shape, operator)


def test_concat(tmp_path: Path) -> None:
    model = Quantised(2, 7)
    other = model.constant(model.random.integers(0, 256, (2, 3)), "uint8")
    inputs = [*model.scaled(0.04, 120), "x", *model.scaled(0.02, 120), other, *model.scaled(0.03, 128)]
    same(model.save(tmp_path, "QLinearConcat", inputs, "com.microsoft", axis=1), model.shape, "Concat")


def test_weights_by_channel_need_an_axis(tmp_path: Path) -> None:
    model = Quantised(1, 3, 6, 6, opset=12)
    weights = model.constant(model.random.integers(-64, 65, (2, 3, 1, 1)), "int8")
    of_weights = model.scaled([0.01, 0.02], [0, 0], "int8")
    inputs = ["x", *model.scaled(0.02, 120), weights, *of_weights, *model.scaled(0.1, 100)]
    path = model.save(tmp_path, "QLinearConv", inputs)
    kinds = [node.op_type for node in read_model(path, form=ModelForm(whole=lambda _: False)).nodes]
    assert kinds == ["QLinearConv"]


def test_they_stay_as_they_are_unless_a_machine_wants_them_apart(tmp_path: Path) -> None:
    model = Quantised(2, 7)
    inputs = ["x", *model.scaled(0.02, 120), *model.scaled(1 / 255, 0)]
    path = model.save(tmp_path, "QLinearSigmoid", inputs, "com.microsoft")
    assert [node.op_type for node in read_model(path).nodes] == ["QLinearSigmoid"]


@pytest.mark.parametrize("target", ["neuroncore", "systolic"])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearAveragePool", "QLinearSoftmax"])
def test_what_no_core_runs_on_8_bits_runs_on_it_in_floats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], operator: str, target: str
) -> None:
    model = Quantised(1, 8, 4, 6)
    inputs = ["x", *model.scaled(0.02, 120)]
    more: dict[str, Any] = {}
    if operator == "QLinearAdd":
        other = model.constant(model.random.integers(0, 256, model.shape), "uint8")
        inputs += [other, *model.scaled(0.03, 100)]
    elif operator == "QLinearAveragePool":
        more = {"kernel_shape": [2, 2]}
    else:
        more = {"opset": model.opset}
    inputs += model.scaled(1 / 256 if operator == "QLinearSoftmax" else 0.05, 0)
    path = model.save(tmp_path, operator, inputs, "com.microsoft", **more)
    code = main(["run", str(path), "--target", target, "--check", "--record", "none"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert operator not in out
    assert "on Host" not in out


@pytest.mark.parametrize("axis", [None, 1, 2, -1])
@pytest.mark.parametrize(("opset", "own"), [(17, 13), (17, 11), (12, 12), (12, 13)])
def test_softmax_has_the_meaning_of_its_own_version(
    tmp_path: Path, opset: int, own: int, axis: int | None
) -> None:
    model = Quantised(2, 3, 4, 5, opset=opset)
    inputs = ["x", *model.scaled(0.02, 120), *model.scaled(1 / 256, 0)]
    more = {} if axis is None else {"axis": axis}
    path = model.save(tmp_path, "QLinearSoftmax", inputs, "com.microsoft", opset=own, **more)
    same(path, model.shape, "Softmax")


@pytest.mark.parametrize("target", ["neuroncore", "systolic", "rk3588"])
def test_a_convolution_with_channels_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    model = Quantised(1, 6, 7, 3)
    weights = model.constant(model.random.integers(-64, 64, (4, 3, 3, 2)), "int8")
    inputs = ["x", *model.scaled(0.02, 120), weights, *model.scaled(0.01, 0, "int8"), *model.scaled(0.2, 99)]
    path = model.save(tmp_path, "QLinearConv", inputs, "com.microsoft", channels_last=1)
    same(path, model.shape, "Conv")
    code = main(["run", str(path), "--target", target, "--check", "--record", "none"])
    out = capsys.readouterr().out
    assert code == 0, out
