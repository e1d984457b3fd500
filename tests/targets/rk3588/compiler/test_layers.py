"""What the planner joins to layers, and how it reads quantised tensors."""

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantType

from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.compiler.layers import CONVERSIONS, Layer, Planner, upper_limit
from npuviz.targets.rk3588.compiler.quantisation import Quantisation, QuantisedGraph, quantisation_of
from tests.targets.rk3588.compiler.models import Model, checked, on_npu


def planned(path: Path) -> tuple[Graph, list[Layer]]:
    graph = read_model(path, {}, optimize=True)
    return graph, Planner(graph).layers()


def joined(path: Path) -> list[list[str]]:
    """Operators of each layer."""
    graph, layers = planned(path)
    return [[graph.nodes[node].op_type for node in layer.nodes] for layer in layers]


def test_activations_join_products_in_halves(tmp_path: Path) -> None:
    model = Model(1, 8, 6, 6)
    x = model.conv("x", 8, 16, 1, 1)
    x = model.add("Mul", x, model.add("Sigmoid", x))
    x = model.add("Relu", model.add("Add", x, model.add("Tanh", model.conv(x, 16, 16, 1, 1))))
    model.add("Sigmoid", model.add("Mul", x, x))
    assert joined(model.save(tmp_path)) == [
        ["Conv", "Sigmoid", "Mul"],
        ["Conv", "Tanh"],
        ["Add", "Relu"],
        ["Mul"],
        ["Sigmoid"],
    ]


def test_what_others_read_is_not_joined(tmp_path: Path) -> None:
    model = Model(1, 8, 6, 6)
    x = model.conv("x", 8, 16, 1, 1)
    model.add("Add", model.add("Relu", x), x)
    assert joined(model.save(tmp_path)) == [["Conv"], ["Relu"], ["Add"]]


def test_quantised_layers_end_with_their_quantisation(tmp_path: Path) -> None:
    model = Model(1, 8, 6, 6)
    x = model.add("Relu", model.conv("x", 8, 16, 1, 1))
    model.add("MaxPool", x, kernel_shape=[2, 2])
    graph, layers = planned(model.save(tmp_path, quantised=True))
    work = [layer for layer in layers if layer.head.op_type not in CONVERSIONS]
    assert [layer.head.op_type for layer in work] == ["Conv", "MaxPool"]
    assert all(layer.is_quantised for layer in work)
    assert [graph.nodes[layer.nodes[-1]].op_type for layer in work] == ["QuantizeLinear"] * 2


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_points_are_those_of_signed_bytes(tmp_path: Path, kind: QuantType) -> None:
    model = Model(1, 8, 6, 6)
    model.add("Relu", model.conv("x", 8, 16, 1, 1))
    graph = read_model(model.save(tmp_path, quantised=True, kind=kind), {}, optimize=True)
    found = QuantisedGraph(graph)
    assert len(found.stored) == 2
    assert all(
        isinstance(each, Quantisation) and -128 <= each.zero_point < 128 for each in found.stored.values()
    )
    # Nothing is below 0 behind Relu.
    assert -128 in {each.zero_point for each in found.stored.values()}


@pytest.mark.parametrize("scale", [0.0, -0.5, np.inf, np.nan, 0.5])
def test_a_scale_is_a_positive_number(tmp_path: Path, scale: float) -> None:
    model = Model(1, 8, 6, 6)
    model.conv("x", 8, 16, 1, 1)
    graph = read_model(model.save(tmp_path, quantised=True), {}, optimize=True)
    node = next(node for node in graph.nodes if node.op_type == "QuantizeLinear")
    constants = {**graph.constants, node.inputs[1]: np.array(scale, np.float32)}
    assert (quantisation_of(constants, node) is not None) == (scale == 0.5)


@pytest.mark.parametrize(
    ("low", "high", "limit"),
    [(0.0, 6.0, 6.0), (0.0, None, np.inf), (-1.0, 1.0, None), (None, 6.0, None), (0.0, -1.0, None)],
)
def test_limits(tmp_path: Path, low: float | None, high: float | None, limit: float | None) -> None:
    model = Model(1, 8, 2, 2)
    bounds = ["" if value is None else model.constant(np.float32(value)) for value in (low, high)]
    model.add("Clip", "x", *bounds)
    graph = read_model(model.save(tmp_path), {})
    assert upper_limit(graph.constants, graph.nodes[-1]) == limit


@pytest.mark.parametrize(
    ("operator", "reason"),
    [("Tan", "no lowering"), ("Softmax", "maximum or mean of the same tensor")],
)
def test_the_note_says_why(tmp_path: Path, operator: str, reason: str) -> None:
    model = Model(6, 6)
    model.add(operator, "x")
    reasons = checked(model.save(tmp_path)).host_reasons
    assert any(reason in text for text in reasons), reasons


def silu_behind_a_convolution(channels: int) -> Model:
    model = Model(1, 16, 12, 12)
    x = model.conv("x", 16, channels, 3, 3, pads=[1, 1, 1, 1])
    x = model.add("Mul", x, model.add("Sigmoid", x))
    model.conv(x, channels, 16, 1, 1)
    return model


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_table_takes_sums_that_the_model_rounds_before(
    tmp_path: Path, kind: QuantType, per_channel: bool
) -> None:
    path = silu_behind_a_convolution(24).save(tmp_path, quantised=True, kind=kind, per_channel=per_channel)
    graph, layers = planned(path)
    work = [layer for layer in layers if layer.head.op_type not in CONVERSIONS]
    assert [layer.head.op_type for layer in work] == ["Conv", "Conv"]
    assert {"Sigmoid", "Mul"} <= {graph.nodes[node].op_type for node in work[0].nodes}
    assert len(on_npu(path).work) == 2


def test_a_table_takes_rounded_numbers_where_rounding_matters(tmp_path: Path) -> None:
    model = Model(1, 16, 12, 12)
    x = model.add("Conv", "x", model.weight(16, 16, 1, 1), model.constant(np.full(16, -6, np.float32)))
    x = model.add("Mul", x, model.add("Sigmoid", x))
    path = model.save(tmp_path, quantised=True)
    assert [layer.head.op_type for layer in planned(path)[1] if layer.head.op_type not in CONVERSIONS] == [
        "Conv",
        "Sigmoid",
    ]
    on_npu(path)
