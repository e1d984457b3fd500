"""Operators with one tensor and constants: factors and summands by channel."""

from pathlib import Path

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import Model, checked, on_npu, run

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
PAIRS = ["Add", "Sub", "Mul", "Div"]


@quick(every=5)
@BOTH
@pytest.mark.parametrize("operator", PAIRS)
@pytest.mark.parametrize("shape", [(), (20, 1, 1), (1, 20, 1, 1)])
def test_constants(tmp_path: Path, quantised: bool, operator: str, shape: tuple[int, ...]) -> None:
    model = Model(2, 20, 5, 6)
    constant = np.random.default_rng(2).uniform(0.4, 2.0, shape).astype(np.float32)
    model.add("Relu", model.add(operator, "x", model.constant(constant * np.float32(-1.5))))
    path = model.save(tmp_path, quantised=quantised, operators=[operator, "Relu"])
    if quantised and operator in ("Sub",):
        # ONNX Runtime leaves it in floats.
        checked(path)
    else:
        on_npu(path, {"cores": "2"})


@BOTH
@pytest.mark.parametrize("shape", [(9, 24), (24,), (1, 9, 24)])
def test_constants_of_fewer_dimensions(tmp_path: Path, quantised: bool, shape: tuple[int, ...]) -> None:
    model = Model(*shape)
    model.add("Mul", "x", model.weight(24, scale=1.0))
    on_npu(model.save(tmp_path, quantised=quantised))


def test_constants_on_the_left(tmp_path: Path) -> None:
    model = Model(1, 8, 4, 4)
    x = model.add("Sub", model.constant(np.float32(2.5)), "x")
    model.add("Mul", model.weight(8, 1, 1, scale=1.0), x)
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul"])
def test_constants_of_channels_are_read_once_a_channel(tmp_path: Path, operator: str, is_first: bool) -> None:
    """As a factor and a summand of one task, without a second cube."""
    model = Model(1, 8, 4, 4)
    constant = model.weight(8, 1, 1, scale=1.0)
    model.add(operator, *((constant, "x") if is_first else ("x", constant)))
    (task,) = on_npu(model.save(tmp_path)).work
    output = task.work.output
    assert output is not None
    assert output.ew.is_bypassed
    assert output.bn.alu_from_memory is (operator != "Mul")
    assert output.bs.mul_from_memory is (operator == "Mul" or (operator == "Sub" and is_first))


@pytest.mark.parametrize(
    ("operator", "values", "reason"),
    [
        ("Mul", np.full((), 1e6), "fp16 cannot hold"),
        ("Max", np.full((), 1e6), "fp16 cannot hold"),
    ],
)
def test_what_goes_to_the_host(tmp_path: Path, operator: str, values: np.ndarray, reason: str) -> None:
    model = Model(1, 8, 4, 4)
    x = model.add(operator, "x", model.constant(values.astype(np.float32)))
    model.add("Mul", x, model.constant(np.float32(1e-6 if operator == "Mul" else 1.5)))
    finished = run(model.save(tmp_path))
    assert reason in finished.host_reasons[0]


@quick(every=3)
@BOTH
@pytest.mark.parametrize("shape", [(), (12, 1, 1), (5, 7), (2, 12, 5, 7), (1, 12, 5, 1)])
@pytest.mark.parametrize("operator", ["Add", "Mul", "Max"])
def test_constants_of_any_shape(
    tmp_path: Path, quantised: bool, shape: tuple[int, ...], operator: str
) -> None:
    model = Model(2, 12, 5, 7)
    model.add(operator, "x", model.weight(*shape, scale=1.0))
    path = model.save(tmp_path, quantised=quantised)
    if quantised and operator == "Max":
        # ONNX Runtime leaves it in floats.
        checked(path)
    else:
        on_npu(path, {"cores": "2"})


@BOTH
def test_normalisation_of_a_batch(tmp_path: Path, quantised: bool) -> None:
    """Behind a pooling, where it is not folded into a convolution."""
    model = Model(1, 12, 8, 8)
    x = model.add("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2])
    statistics = [model.weight(12, scale=1.0) for _ in range(3)]
    variance = model.constant(np.linspace(0.5, 3, 12).astype(np.float32))
    x = model.add("BatchNormalization", x, *statistics, variance)
    model.add("Relu", x)
    if quantised:
        checked(model.save(tmp_path, quantised=True))
    else:
        on_npu(model.save(tmp_path))


@pytest.mark.parametrize("shape", [(1,), (16, 1, 1)])
def test_prelu(tmp_path: Path, shape: tuple[int, ...]) -> None:
    model = Model(1, 16, 6, 6)
    slope = np.random.default_rng(1).uniform(0.1, 0.9, shape).astype(np.float32)
    model.add("PRelu", "x", model.constant(slope))
    finished = on_npu(model.save(tmp_path))
    assert {task.work.output.bn.has_prelu for task in finished.work if task.work.output} == {True}
