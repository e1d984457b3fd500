"""Operators on single elements that need no table, and places that are taken out."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


@pytest.mark.parametrize("operator", ["Abs", "Neg", "Floor", "Ceil"])
@pytest.mark.parametrize("shape", [(2, 12, 5, 7), (9, 20)])
def test_single_operands(tmp_path: Path, operator: str, shape: tuple[int, ...]) -> None:
    model = Model(*shape)
    model.add(operator, model.add("Mul", "x", model.constant(np.float32(3))))
    on_npu(model.save(tmp_path), {"cores": "2"})


@pytest.mark.parametrize("limits", [(-0.5, 0.25), (0.125, None), (None, -0.5), (1e-10, 1e6), (0.5, -0.5)])
def test_clip(tmp_path: Path, limits: tuple[float | None, float | None]) -> None:
    model = Model(1, 12, 5, 7)
    model.add("Clip", "x", *("" if each is None else model.constant(np.float32(each)) for each in limits))
    on_npu(model.save(tmp_path))


@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [
        ((20, 1, 64), 3, 0),
        ((20, 1, 64), -1, 0),
        ((1, 9, 16), [1, 3, 5], 1),
        ((2, 16, 4, 5), [2], 2),
    ],
)
def test_gather(tmp_path: Path, shape: tuple[int, ...], places: object, axis: int) -> None:
    model = Model(*shape)
    model.add("Gather", "x", model.constant(np.array(places)), axis=axis)
    on_npu(model.save(tmp_path))


def test_places_in_disorder_are_the_hosts(tmp_path: Path) -> None:
    model = Model(9, 2400)
    model.add("Gather", "x", model.constant(np.array([3, 1, 4])))
    assert "even distances" in checked(model.save(tmp_path)).host_reasons[0]
