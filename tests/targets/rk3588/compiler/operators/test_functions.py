"""Functions written with the DPU's arithmetic, against ONNX Runtime where they are hardest."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


@pytest.mark.parametrize("scale", [1e-3, 1.0, 9.0])
@pytest.mark.parametrize(
    "operator", ["Exp", "Sin", "Cos", "Cosh", "Softsign", "Sign", "ThresholdedRelu", "Shrink"]
)
def test_functions(tmp_path: Path, operator: str, scale: float) -> None:
    model = Model(1, 12, 25, 30)
    limit = 3.0 if operator in ("Exp", "Cosh") else 9.0
    ends = [model.constant(np.float32(end)) for end in (-limit, limit)]
    x = model.add("Clip", model.add("Mul", "x", model.constant(np.float32(scale))), *ends)
    attributes = {"lambd": 0.5, "bias": 0.25} if operator == "Shrink" else {}
    model.add(operator, x, **attributes)
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 3e4])
@pytest.mark.parametrize("operator", ["Log", "Sqrt", "Reciprocal"])
def test_functions_of_positive_numbers(tmp_path: Path, operator: str, scale: float) -> None:
    model = Model(1, 12, 25, 3)
    x = model.add("Abs", model.add("Mul", "x", model.constant(np.float32(scale))))
    ends = [model.constant(np.float32(end)) for end in (1e-4, 6e4)]
    model.add(operator, model.add("Clip", x, *ends))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize(
    ("operator", "low", "high"),
    [
        ("Atan", -3e4, 3e4), ("Atan", -1.0, 1.0), ("Asin", -1.0, 1.0), ("Acos", -1.0, 1.0),
        ("Atanh", -0.99, 0.99), ("Asinh", -200.0, 200.0), ("Asinh", -0.5, 0.5), ("Acosh", 1.0, 200.0),
    ],
)  # fmt: skip
def test_inverse_functions(tmp_path: Path, operator: str, low: float, high: float) -> None:
    """Up to the ends of what they take, where some are steep."""
    model = Model(1, 12, 25, 30)
    ends = [model.constant(np.float32(end)) for end in (low, high)]
    model.add(operator, model.add("Clip", model.add("Mul", "x", model.constant(np.float32(high))), *ends))
    on_npu(model.save(tmp_path))


def test_the_arc_tangent_of_infinity(tmp_path: Path) -> None:
    """A quotient by 0 is a quarter of a turn."""
    model = Model(60, 8)
    model.add("Atan", model.add("Reciprocal", model.add("Relu", model.add("Floor", "x"))))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["Asin", "Acosh", "Atanh"])
def test_numbers_without_an_inverse(tmp_path: Path, operator: str) -> None:
    model = Model(60, 8)
    model.add(operator, model.add("Floor", model.add("Mul", "x", model.constant(np.float32(2)))))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("operator", ["Log", "Sqrt"])
def test_what_is_no_number(tmp_path: Path, operator: str) -> None:
    """0 has no logarithm, and numbers below have neither: minus infinity and NaN, as the reference says."""
    model = Model(60, 8)
    model.add(operator, model.add("Floor", "x"))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize("power", [2.0, 3.0, 4.0, -1.0])
def test_powers(tmp_path: Path, power: float) -> None:
    model = Model(1, 12, 5, 3)
    x = model.add("Add", model.add("Abs", "x"), model.constant(np.float32(0.5)))
    model.add("Pow", x, model.constant(np.float32(power)))
    on_npu(model.save(tmp_path))


def test_what_is_rounded_is_the_hosts(tmp_path: Path) -> None:
    """fp16 would turn halves over."""
    model = Model(6, 8)
    model.add("Round", model.add("Mul", "x", model.constant(np.float32(100))))
    assert checked(model.save(tmp_path)).nodes_on_host() == {"Mul", "Round"}


def test_places_of_a_grid_stay_exact(tmp_path: Path) -> None:
    """In fp16 a place of 640 is off by a sixth of a pixel."""
    model = Model(1, 40, 2)
    x = model.add("Tanh", model.add("MatMul", "x", model.weight(2, 2)))
    x = model.add(
        "Sub", model.add("Mul", x, model.constant(np.float32(1.9))), model.constant(np.float32(0.9))
    )
    x = model.add("Unsqueeze", x, model.constant(np.array([2])))
    picture = np.random.default_rng(0).standard_normal((1, 3, 640, 640)).astype(np.float32)
    model.add("GridSample", model.constant(picture), x)
    finished = checked(model.save(tmp_path), {"partition": "most-npu"})
    assert finished.nodes_on_host() == {"GridSample", "Mul", "Sub", "Unsqueeze"}
