"""Pooling on the PPU: windows, paddings, rounding up, whole planes."""

from pathlib import Path
from typing import Any

import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@BOTH
@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_pools(
    tmp_path: Path, quantised: bool, cores: str, operator: str, attributes: dict[str, Any]
) -> None:
    model = Model(2, 40, 9, 12)
    model.add(operator, model.add("Relu", "x"), **attributes)
    path = model.save(tmp_path, quantised=quantised)
    if quantised and operator == "GlobalMaxPool":
        # ONNX Runtime leaves it in floats.
        checked(path, {"cores": cores})
    else:
        on_npu(path, {"cores": cores})


@pytest.mark.parametrize(
    ("operator", "attributes", "reason"),
    [
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "leaves padding out"),
        ("MaxPool", {"kernel_shape": [17, 1]}, "the PPU holds 16"),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, "dilated"),
        ("GlobalMaxPool", {}, "the PPU holds 16"),
    ],
)
def test_what_goes_to_the_host(
    tmp_path: Path, operator: str, attributes: dict[str, Any], reason: str
) -> None:
    model = Model(1, 8, 20, 20)
    model.add(operator, "x", **attributes)
    finished = checked(model.save(tmp_path))
    assert finished.nodes_on_host() == {operator}
    assert reason in finished.host_reasons[0]


@BOTH
def test_averages_of_large_planes_are_convolutions(tmp_path: Path, quantised: bool) -> None:
    model = Model(1, 24, 28, 20)
    model.add("GlobalAveragePool", "x")
    finished = on_npu(model.save(tmp_path, quantised=quantised))
    (task,) = finished.tables.tasks
    assert task.work.convolution is not None
    assert task.work.convolution.is_depthwise
