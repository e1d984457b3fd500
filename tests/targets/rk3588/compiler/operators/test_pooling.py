"""Pooling on the PPU: windows, paddings, rounding up, whole planes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@quick(every=3)
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
        ("GlobalAveragePool", {}, "no window of up to 16 divides"),
    ],
)
def test_what_goes_to_the_host(
    tmp_path: Path, operator: str, attributes: dict[str, Any], reason: str
) -> None:
    model = Model(1, 8, 34, 37)
    model.add(operator, "x", **attributes)
    finished = checked(model.save(tmp_path))
    assert finished.nodes_on_host() == {operator}
    assert reason in finished.host_reasons[0]


@pytest.mark.parametrize(("height", "width"), [(1, 127), (17, 1), (34, 37), (53, 16), (2, 251), (289, 3)])
def test_maxima_of_planes_that_nothing_divides_take_windows_that_overlap(
    tmp_path: Path, height: int, width: int
) -> None:
    model = Model(1, 20, height, width)
    model.add("GlobalMaxPool", "x")
    on_npu(model.save(tmp_path))


@BOTH
def test_averages_of_large_planes_are_convolutions(tmp_path: Path, quantised: bool) -> None:
    model = Model(1, 24, 28, 20)
    model.add("GlobalAveragePool", "x")
    finished = on_npu(model.save(tmp_path, quantised=quantised))
    (task,) = finished.work
    assert task.work.convolution is not None
    assert task.work.convolution.is_depthwise


@BOTH
@pytest.mark.parametrize("shape", [(2, 20, 96, 3), (1, 12, 36, 18), (1, 8, 40, 1)])
@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
def test_large_planes_take_several_steps(
    tmp_path: Path, quantised: bool, shape: tuple[int, ...], operator: str
) -> None:
    model = Model(*shape)
    model.add(operator, model.add("Relu", "x"))
    path = model.save(tmp_path, quantised=quantised)
    if quantised and operator == "GlobalMaxPool":
        checked(path)
    else:
        on_npu(path)


@BOTH
def test_a_plane_with_a_large_prime_ends_on_core(tmp_path: Path, quantised: bool) -> None:
    model = Model(1, 12, 34, 62)
    model.add("GlobalAveragePool", model.add("Relu", "x"))
    finished = on_npu(model.save(tmp_path, quantised=quantised), SLOW_HOST)
    assert any(task.work.convolution for task in finished.work)


@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [9, 12])
def test_padding_by_name(tmp_path: Path, side: str, size: int) -> None:
    model = Model(1, 8, size, 7)
    model.add("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], auto_pad=side)
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["MaxPool", "GlobalMaxPool", "GlobalAveragePool"])
def test_one_dimension(tmp_path: Path, operator: str) -> None:
    model = Model(1, 8, 24)
    x = model.conv("x", 8, 16, 3)
    model.add(operator, x, **({"kernel_shape": [3], "strides": [2]} if operator == "MaxPool" else {}))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize(
    ("shape", "tasks"),
    [
        ((1, 20, 3, 96), 1),
        ((2, 88, 2, 96), 2),
        ((1, 40, 40, 40), 6),
        ((2, 12, 40, 40), 12),
        ((1, 70, 34, 34), 6),
    ],
)
def test_int8_averages_of_large_planes_take_the_plane_in_pieces(
    tmp_path: Path, cores: str, shape: tuple[int, ...], tasks: int
) -> None:
    model = Model(*shape)
    model.add("GlobalAveragePool", model.add("Relu", "x"))
    finished = on_npu(model.save(tmp_path, quantised=True), {"cores": cores})
    pools = [
        task
        for task in finished.work
        if finished.program.graph.nodes[task.node].op_type == "GlobalAveragePool"
    ]
    sums = [task for task in pools if task.work.convolution]
    assert len(sums) >= shape[0]
    if cores == "1":
        assert len(pools) == tasks
    else:
        assert {task.core for task in sums} == ({0, 1, 2} if len(sums) > shape[0] else {0})


@BOTH
@pytest.mark.parametrize("shape", [(2, 20, 9, 12), (1, 24, 40, 40), (1, 24, 6)])
@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceMax"])
def test_reductions_of_planes_are_pools(
    tmp_path: Path, quantised: bool, shape: tuple[int, ...], operator: str
) -> None:
    model = Model(*shape)
    x = model.conv("x", shape[1], shape[1], *[1] * (len(shape) - 2))
    model.add(operator, x, model.constant(np.arange(2, len(shape))))
    path = model.save(tmp_path, quantised=quantised)
    if quantised and operator == "ReduceMax":
        # ONNX Runtime leaves it in floats.
        checked(path)
        return
    finished = on_npu(path)
    found = [task for task in finished.work if finished.program.graph.nodes[task.node].op_type == operator]
    assert len(found) <= 6
