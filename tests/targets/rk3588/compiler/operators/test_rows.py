"""Softmax and reductions over any axes, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu

REDUCTIONS = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 8), -1), ((7, 3), 1), ((4, 100), 1), ((1, 21, 6, 5), 1), ((2, 3, 4), 1), ((2, 4, 9, 33), 3)],
)
def test_softmax(tmp_path: Path, operator: str, shape: tuple[int, ...], axis: int) -> None:
    model = Model(*shape)
    model.add(operator, model.add("Mul", "x", model.constant(np.float32(3))), axis=axis)
    checked(model.save(tmp_path))


def test_softmax_behind_a_product(tmp_path: Path) -> None:
    model = Model(40, 64)
    model.add("Relu", model.add("Softmax", model.add("MatMul", "x", model.weight(64, 75))))
    on_npu(model.save(tmp_path), SLOW_HOST)


def test_softmax_of_what_fp16_rounds_is_the_hosts(tmp_path: Path) -> None:
    model = Model(5, 8)
    model.add("Softmax", "x")
    assert checked(model.save(tmp_path)).nodes_on_host() == {"Softmax"}


def test_minus_infinity_has_no_share(tmp_path: Path) -> None:
    model = Model(3, 12)
    mask = np.where(np.arange(12) > 7, -np.inf, 0).astype(np.float32)
    model.add("Softmax", model.add("Add", model.add("Relu", "x"), model.constant(mask)))
    on_npu(model.save(tmp_path))


@quick(every=3)
@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "axes", "keeps"),
    [
        ((6, 40), [1], 1),
        ((6, 41), [-1], 0),
        ((6, 5), [0], 0),
        ((2, 3, 5), [0, 2], 1),
        ((1, 12, 5, 5), [2, 3], 0),
    ],
)
def test_reductions(
    tmp_path: Path, operator: str, shape: tuple[int, ...], axes: list[int], keeps: int
) -> None:
    model = Model(*shape)
    model.add(operator, model.add("Add", "x", "x"), model.constant(np.array(axes)), keepdims=keeps)
    checked(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceSum", "ReduceLogSumExp", "ReduceProd"])
def test_reductions_on_the_npu(tmp_path: Path, operator: str) -> None:
    model = Model(60, 7)
    model.add(operator, model.add("Softplus", "x"), model.constant(np.array([1])))
    on_npu(model.save(tmp_path))


def test_squares_beyond_fp16(tmp_path: Path) -> None:
    """Sums go to CORE as two numbers of bf16: 3000^2 is no number of fp16, its root is."""
    model = Model(64, 24)
    model.add(
        "ReduceL2", model.add("Mul", "x", model.constant(np.float32(3000))), model.constant(np.array([1]))
    )
    assert on_npu(model.save(tmp_path)).result.max_rel_err < 1e-3
