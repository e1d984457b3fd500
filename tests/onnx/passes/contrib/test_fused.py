"""Products joined with what follows them compute what ONNX Runtime computes of them whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.onnx.runtime import onnxruntime
from tests.onnx.cases import random, save, value

_CONV = {"w": random(6, 4, 3, 3), "b": random(6)}
_GEMM = {"w": random(7, 5), "b": random(5)}


def _kinds(path: Path, node: Any, given: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> list[str]:
    """What a model of one node is read as, after its result was held against ONNX Runtime's."""
    inputs = [value(name, list(array.shape), TensorProto.FLOAT) for name, array in given.items()]
    file = save(path / "m.onnx", [node], inputs, [value("y", None)], weights, domains={"com.microsoft": 1})
    wanted = np.asarray(onnxruntime.InferenceSession(str(file)).run(None, dict(given))[0])
    graph = read_model(file)
    (found,) = run_reference(graph, given, graph.outputs).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    return [each.op_type for each in graph.nodes]


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.3]), ("HardSigmoid", [0.1, 0.4]),
     ("Clip", [-0.5, 0.75])],
)  # fmt: skip
@pytest.mark.parametrize("has_sum", [False, True], ids=["alone", "with a sum"])
def test_convolutions(tmp_path: Path, activation: str, parameters: list[float], has_sum: bool) -> None:
    given = {"x": random(1, 4, 7, 8), **({"z": random(1, 6, 7, 8)} if has_sum else {})}
    attributes: dict[str, Any] = {"activation_params": parameters} if parameters else {}
    node = helper.make_node(
        "FusedConv", ["x", "w", "b", *(["z"] if has_sum else [])], ["y"], "n", domain="com.microsoft",
        activation=activation, pads=[1, 1, 1, 1], **attributes,
    )  # fmt: skip
    wanted = ["Conv", *(["Add"] if has_sum else []), activation]
    assert _kinds(tmp_path, node, given, _CONV) == wanted


@pytest.mark.parametrize(
    ("activation", "attributes"), [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Tanh", {})]
)
def test_matrix_products(tmp_path: Path, activation: str, attributes: dict[str, Any]) -> None:
    node = helper.make_node(
        "FusedGemm", ["x", "w", "b"], ["y"], "n", domain="com.microsoft",
        activation=activation, transA=1, alpha=0.5, **attributes,
    )  # fmt: skip
    assert _kinds(tmp_path, node, {"x": random(7, 3)}, _GEMM) == ["Gemm", activation]


def test_a_machine_that_has_them_gets_them_whole(tmp_path: Path) -> None:
    node = helper.make_node(
        "FusedConv", ["x", "w", "b"], ["y"], "n", domain="com.microsoft", activation="Relu"
    )
    file = save(
        tmp_path / "m.onnx", [node], [value("x", [1, 4, 7, 8])], [value("y", None)], _CONV,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    graph = read_model(file, form=ModelForm(whole=lambda _: True))
    assert [each.op_type for each in graph.nodes] == ["FusedConv"]
