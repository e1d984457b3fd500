"""Comparisons, logic, choices and run-time limits, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


@pytest.mark.parametrize("operator", ["Greater", "Less", "Equal", "GreaterOrEqual", "LessOrEqual"])
def test_a_choice_by_comparison(tmp_path: Path, operator: str) -> None:
    model = Model(4, 6)
    x = model.add("Floor", model.add("Mul", "x", model.constant(np.float32(2))))
    chosen = model.add(operator, x, model.constant(np.float32(1)))
    model.add("Where", chosen, x, model.add("Neg", x))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["And", "Or", "Xor"])
def test_logic(tmp_path: Path, operator: str) -> None:
    model = Model(4, 6)
    one = model.add("Greater", "x", model.constant(np.float32(0)))
    two = model.add("Less", model.add("Neg", "x"), model.constant(np.float32(0.5)))
    chosen = model.add("Not", model.add(operator, one, two))
    model.add("Where", chosen, "x", model.constant(np.float32(-np.inf)))
    on_npu(model.save(tmp_path))


def test_an_infinity_that_is_not_chosen_leaves_nothing(tmp_path: Path) -> None:
    model = Model(4, 6)
    chosen = model.add("Greater", "x", model.constant(np.float32(0)))
    model.add("Where", chosen, model.constant(np.float32(np.inf)), model.add("Relu", "x"))
    on_npu(model.save(tmp_path))


def test_a_side_that_may_be_nan_is_chosen_by_the_host(tmp_path: Path) -> None:
    model = Model(4, 6)
    chosen = model.add("Greater", "x", model.constant(np.float32(0)))
    model.add("Where", chosen, model.add("Log", "x"), model.constant(np.float32(0)))
    assert "Where" in checked(model.save(tmp_path)).nodes_on_host()


def test_limits_of_a_run(tmp_path: Path) -> None:
    model = Model(4, 6)
    low = model.add("ReduceMean", "x", keepdims=0)
    model.add("Clip", model.add("Add", "x", "x"), low)
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["Max", "Min", "Sum", "Mean"])
def test_several_operands(tmp_path: Path, operator: str) -> None:
    model = Model(4, 6)
    model.add(operator, "x", model.add("Neg", "x"), model.weight(6, scale=1.0))
    on_npu(model.save(tmp_path))
