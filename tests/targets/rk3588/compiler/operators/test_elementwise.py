"""Operators of the DPU on whole cubes: pairs, limits, tables, views, joining."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnxruntime.quantization import QuantType

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@quick(every=3)
@BOTH
@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize("shape", [(2, 20, 5, 7), (6, 33), (1, 16, 9)])
@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_pairs(tmp_path: Path, quantised: bool, cores: str, shape: tuple[int, ...], operator: str) -> None:
    """Both operands are scaled differently."""
    model = Model(*shape)
    large = model.add("Mul", "x", model.constant(np.float32(3.7)))
    small = model.add("Relu", "x")
    model.add(operator, large, small)
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": cores})


@quick(every=2)
@BOTH
@pytest.mark.parametrize("shape", [(2, 8215), (8200, 3), (1, 3, 8200), (1, 5, 8193, 2), (1, 2, 2, 8201)])
def test_what_is_larger_than_the_fields_of_a_task_takes_several(
    tmp_path: Path, quantised: bool, shape: tuple[int, ...]
) -> None:
    """Each has sums and factors of its own channels, and an operand of a cube and of one value a channel."""
    model = Model(*shape)
    channels = model.weight(*(shape[1], *[1] * (len(shape) - 2)), scale=1.0)
    made = model.add("Mul", model.add("Add", "x", channels), channels)
    made = model.add("Add", model.add("Relu", made), "x")
    on_npu(model.save(tmp_path, quantised=quantised))


@pytest.mark.parametrize("axis", [1, 2])
def test_slices_that_are_larger_than_the_fields_of_a_task(tmp_path: Path, axis: int) -> None:
    model = Model(*((1, 8216, 4) if axis == 1 else (1, 8, 8300)))
    begin, end = (model.constant(np.array([each])) for each in (8, 1 << 30))
    model.add(
        "Relu", model.add("Slice", model.add("Relu", "x"), begin, end, model.constant(np.array([axis])))
    )
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("shape", [(1, 1, 16000), (1, 8, 3, 17000)])
@pytest.mark.parametrize("begin", [0, 1])
def test_rows_that_are_longer_than_what_is_left_out_of_a_task(
    tmp_path: Path, shape: tuple[int, ...], begin: int
) -> None:
    """What lies between rows has fields as wide as those of rows."""
    model = Model(*shape)
    x = model.conv("x", 1, 1, 1) if len(shape) == 3 else model.add("Abs", "x")
    given = [model.constant(np.array([each])) for each in (begin, shape[-1] - 1 + begin, len(shape) - 1)]
    model.add("Relu", model.add("Slice", x, *given))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize("operator", ["Sub", "Max", "Min", "Sum"])
def test_pairs_in_halves(tmp_path: Path, operator: str) -> None:
    model = Model(1, 12, 5, 5)
    model.add("Relu", model.add(operator, "x", model.add("Sigmoid", "x")))
    on_npu(model.save(tmp_path))


@BOTH
def test_a_sum_with_relu_is_one_task(tmp_path: Path, quantised: bool) -> None:
    model = Model(1, 32, 6, 6)
    model.add("Relu", model.add("Add", model.add("Tanh", "x"), "x"))
    finished = on_npu(model.save(tmp_path, quantised=quantised, kind=QuantType.QInt8))
    assert len(finished.work) == 2


@BOTH
@pytest.mark.parametrize("operator", ["Add", "Mul"])
@pytest.mark.parametrize("is_first", [False, True])
def test_one_value_a_channel(tmp_path: Path, quantised: bool, operator: str, is_first: bool) -> None:
    """The second half of squeeze and excitation, of a batch on several cores."""
    model = Model(2, 20, 5, 7)
    gate = model.add("Sigmoid", model.conv(model.add("GlobalAveragePool", "x"), 20, 20, 1, 1))
    model.add(operator, *((gate, "x") if is_first else ("x", gate)))
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "3"})


@BOTH
def test_one_channel_for_all(tmp_path: Path, quantised: bool) -> None:
    model = Model(2, 20, 5, 7)
    gate = model.add("Sigmoid", model.conv("x", 20, 1, 1, 1))
    model.add("Mul", gate, "x")
    on_npu(model.save(tmp_path, quantised=quantised))


def test_a_row_of_columns_is_no_row_of_channels(tmp_path: Path) -> None:
    """As many columns as channels: an operand of two dimensions belongs to the columns."""
    model = Model(1, 8, 4, 8)
    largest = model.add("ReduceMax", "x", model.constant(np.array([1, 2])))
    row = model.add("Relu", model.add("Reshape", largest, model.constant(np.array([1, 8]))))
    model.add("Add", "x", row)
    checked(model.save(tmp_path))


def test_quotients(tmp_path: Path) -> None:
    """Channels that fill a cube up do not become 0 / 0: the product behind would spread that."""
    model = Model(1, 12, 5, 5)
    x = model.add("Div", "x", model.add("Softplus", "x"))
    model.conv(x, 12, 16, 1, 1)
    on_npu(model.save(tmp_path))


def test_an_operand_of_one_row_is_repeated(tmp_path: Path) -> None:
    model = Model(1, 48, 30, 30)
    model.add("Mul", "x", model.add("ReduceMax", "x", model.constant(np.array([2])), keepdims=1))
    on_npu(model.save(tmp_path), SLOW_HOST)


@BOTH
@pytest.mark.parametrize(
    ("function", "attributes"),
    [
        ("Relu", {}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("HardSwish", {}),
        ("HardSigmoid", {}),
        ("Elu", {}),
        ("Softplus", {}),
        ("Mish", {}),
        ("Gelu", {"approximate": "tanh"}),
        ("Erf", {}),
    ],
)
def test_activations(tmp_path: Path, quantised: bool, function: str, attributes: dict[str, Any]) -> None:
    model = Model(1, 24, 7, 6)
    x = model.add("Mul", "x", model.constant(np.float32(1.7)))
    model.add(function, x, **attributes)
    path = model.save(tmp_path, quantised=quantised)
    if quantised and function not in ("Relu", "Sigmoid", "Tanh", "LeakyRelu"):
        # ONNX Runtime quantises only some of them; the others read floats.
        checked(path, {"cores": "2"})
    else:
        on_npu(path, {"cores": "2"})


@BOTH
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_a_product_with_its_own_sigmoid_is_one_task(tmp_path: Path, quantised: bool, kind: QuantType) -> None:
    model = Model(1, 16, 8, 8)
    model.add("Mul", "x", model.add("Sigmoid", "x"))
    finished = on_npu(model.save(tmp_path, quantised=quantised, kind=kind))
    assert len(finished.work) == 1


def test_a_hard_sigmoid_times_its_input(tmp_path: Path) -> None:
    model = Model(1, 16, 8, 8)
    x = model.conv("x", 16, 16, 1, 1)
    model.add("Mul", model.add("HardSigmoid", x, alpha=1 / 6), x)
    assert len(on_npu(model.save(tmp_path)).work) == 1


def test_other_hard_sigmoids_stay_apart(tmp_path: Path) -> None:
    model = Model(1, 16, 8, 8)
    model.add("Mul", model.add("HardSigmoid", "x"), "x")
    assert len(on_npu(model.save(tmp_path)).work) == 2


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (0.0, None), (-1.0, 1.0), (None, 2.0)])
def test_clips(tmp_path: Path, low: float | None, high: float | None) -> None:
    model = Model(1, 8, 5, 5)
    bounds = ["" if value is None else model.constant(np.float32(value)) for value in (low, high)]
    model.add("Clip", model.add("Mul", "x", model.constant(np.float32(5))), *bounds)
    on_npu(model.save(tmp_path))


@BOTH
def test_views_and_reshaping(tmp_path: Path, quantised: bool) -> None:
    """Bytes that stay in place are copied; others are the Host's."""
    model = Model(1, 32, 4, 4)
    x = model.add("Flatten", model.add("GlobalAveragePool", "x"))
    model.add("Gemm", x, model.weight(32, 16))
    on_npu(model.save(tmp_path, quantised=quantised))


def test_a_flattened_picture(tmp_path: Path) -> None:
    model = Model(1, 8, 4, 4)
    model.add("Gemm", model.add("Flatten", "x"), model.weight(128, 16))
    on_npu(model.save(tmp_path))


@BOTH
@pytest.mark.parametrize("last", [5, 16])
def test_joining_channels(tmp_path: Path, quantised: bool, last: int) -> None:
    model = Model(2, 16, 6, 5)
    parts = [model.conv("x", 16, kernels, 1, 1) for kernels in (32, 16, last)]
    model.add("Concat", *parts, axis=1)
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "3"})


@BOTH
@pytest.mark.parametrize(("kernels", "axis"), [(12, 1), (16, 2), (16, 3), (5, 3), (3, 0)])
def test_joining_along_any_axis(tmp_path: Path, quantised: bool, kernels: int, axis: int) -> None:
    model = Model(2, 16, 6, 5)
    model.add("Concat", *(model.conv("x", 16, kernels, 1, 1) for _ in range(3)), axis=axis)
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "2"})


def test_a_square_of_channels_and_rows_is_no_matrix(tmp_path: Path) -> None:
    """(1, 24, 24, 1) has its first axis as channels, (24, 24) its last: sizes agree, elements do not."""
    model = Model(1, 24, 24, 1)
    model.add("Softmax", model.add("Squeeze", model.add("Mul", "x", "x"), model.constant(np.array([0, 3]))))
    on_npu(model.save(tmp_path))


def test_a_layer_of_very_many_tasks_is_the_hosts(tmp_path: Path) -> None:
    model = Model(5000, 2, 1, 1)
    model.add("Relu", "x")
    finished = checked(model.save(tmp_path))
    assert finished.nodes_on_host() == {"Relu"}
    assert "more than 4096 tasks" in finished.host_reasons[0]
