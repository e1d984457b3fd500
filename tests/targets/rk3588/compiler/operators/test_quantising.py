"""Operators on 8-bit tensors: those of ONNX Runtime's own format, and moves with no conversions around."""

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantFormat, QuantType

from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.work import INT16
from tests.targets.rk3588.compiler.models import Model, checked, on_npu


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_detector_in_operators_of_8_bits_runs_on_the_npu(tmp_path: Path, per_channel: bool) -> None:
    model = Model(1, 3, 16, 16)
    x = model.conv("x", 3, 32, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    x = model.add("Mul", x, model.add("Sigmoid", x))
    pooled = model.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    wide = model.add(
        "Resize",
        pooled,
        "",
        model.constant(np.array([1, 1, 2, 2], np.float32)),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    joined = model.add("Concat", x, wide, axis=1)
    x = model.add("Add", model.conv(joined, 64, 32, 1, 1), x)
    x = model.add("GlobalAveragePool", x)
    model.add("Gemm", model.add("Flatten", x), model.weight(32, 10), model.weight(10))
    path = model.save(
        tmp_path, quantised=True, kind=QuantType.QUInt8, per_channel=per_channel, form=QuantFormat.QOperator
    )
    finished = on_npu(path)
    kinds = {node.op_type for node in finished.program.graph.nodes}
    assert {"Conv", "MaxPool", "Resize"} <= kinds
    assert not any(kind.startswith("QLinear") for kind in kinds)


def scaled(model: Model, scale: float, point: int) -> list[str]:
    return [model.constant(np.float32(scale)), model.constant(np.uint8(point))]


def test_weights_of_uint8_that_fit_int8(tmp_path: Path) -> None:
    model = Model(4, 32)
    x = model.add("QuantizeLinear", "x", *scaled(model, 0.03, 128))
    x = model.add("DequantizeLinear", x, *scaled(model, 0.03, 128))
    weights = model.constant(np.random.default_rng(1).integers(0, 256, (32, 16), np.uint8))
    x = model.add("MatMul", x, model.add("DequantizeLinear", weights, *scaled(model, 0.01, 128)))
    x = model.add("QuantizeLinear", x, *scaled(model, 0.1, 128))
    model.add("DequantizeLinear", x, *scaled(model, 0.1, 128))
    finished = on_npu(model.save(tmp_path))
    assert [task.work.convolution is not None for task in finished.work] == [True]


@pytest.mark.parametrize(("channels", "halves"), [(32, 16), (31, 16), (1, 8)])
def test_integers_are_copied_in_pairs(tmp_path: Path, channels: int, halves: int) -> None:
    """The last of an odd number of channels goes with what fills its atom up. halves  of 16 bits a position,
    in whole atoms"""
    model = Model(1, channels, 16, 16)
    x = model.add("QuantizeLinear", "x", *scaled(model, 0.03, 128))
    x = model.add("Slice", x, *(model.constant(np.array([value])) for value in (0, 12, 2)))
    model.add("DequantizeLinear", x, *scaled(model, 0.03, 128))
    finished = on_npu(model.save(tmp_path))
    (copy,) = finished.work
    assert copy.work.output is not None
    assert copy.work.output.precision_out == INT16
    cost = cost_of(copy, finished.spec)
    assert cost.atoms * cost.out_elements == 12 * 16 * halves


def test_parts_of_other_scales_are_not_joined_in_8_bits(tmp_path: Path) -> None:
    model = Model(1, 16, 4, 4)
    one = model.add("QuantizeLinear", "x", *scaled(model, 0.03, 128))
    two = model.add("QuantizeLinear", "x", *scaled(model, 0.05, 120))
    joined = model.add("Concat", one, two, axis=1)
    model.add("DequantizeLinear", joined, *scaled(model, 0.03, 128))
    assert checked(model.save(tmp_path)).nodes_on_host() >= {"Concat"}


@pytest.mark.parametrize("scales", [(0.05, 0.05), (0.05, 0.02), (0.02, 0.05, 0.03)])
def test_one_scale_right_after_another(tmp_path: Path, scales: tuple[float, ...]) -> None:
    """A float tensor between two conversions, which no other operator reads, is made all the same."""
    model = Model(1, 3, 12, 12)
    x = "x"
    for scale in scales:
        x = model.add("QuantizeLinear", x, *scaled(model, scale, 128))
        x = model.add("DequantizeLinear", x, *scaled(model, scale, 128))
    model.add("Relu", x)
    finished = on_npu(model.save(tmp_path))
    assert finished.result.is_passed, finished.result.findings


@pytest.mark.parametrize("limits", [(-1.0, 1.2), (0.5, 1.0), (-0.3, None), (None, 0.7)])
def test_limits_between_integers(tmp_path: Path, limits: tuple[float | None, float | None]) -> None:
    """A Clip that no table makes does not read floats that nobody has made."""
    model = Model(1, 8, 4, 4)
    x = model.add("QuantizeLinear", "x", *scaled(model, 0.02, 104))
    x = model.add("DequantizeLinear", x, *scaled(model, 0.02, 104))
    x = model.add("Clip", x, *("" if each is None else model.constant(np.float32(each)) for each in limits))
    x = model.add("QuantizeLinear", x, *scaled(model, 0.01, 116))
    model.add("DequantizeLinear", x, *scaled(model, 0.01, 116))
    finished = checked(model.save(tmp_path))
    assert finished.result.is_passed, finished.result.findings
