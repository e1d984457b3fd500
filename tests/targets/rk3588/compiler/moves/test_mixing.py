"""Resize in mode linear by whole factors runs on the NPU."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


def _resized(tmp_path: Path, factors: tuple[float, float], coordinates: str, channels: int = 20) -> Path:
    model = Model(2, channels, 7, 6)
    scales = model.constant(np.array([1, 1, *factors], np.float32))
    x = model.add("Relu", "x")
    model.add("Resize", x, "", scales, mode="linear", coordinate_transformation_mode=coordinates)
    return model.save(tmp_path)


@pytest.mark.parametrize("factors", [(2, 2), (1, 3), (4, 1), (3, 2)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_positions_are_mixed(tmp_path: Path, factors: tuple[float, float], coordinates: str) -> None:
    finished = on_npu(_resized(tmp_path, factors, coordinates), {"partition": "most-npu"})
    assert finished.result.max_rel_err < 1e-3


@pytest.mark.parametrize(
    ("factors", "coordinates"),
    [((2, 2), "align_corners"), ((1.5, 2), "half_pixel"), ((2.1, 2), "half_pixel")],
)
def test_other_places_are_the_hosts(tmp_path: Path, factors: tuple[float, float], coordinates: str) -> None:
    path = _resized(tmp_path, factors, coordinates, channels=64)
    assert checked(path, {"partition": "most-npu"}).nodes_on_host() == {"Resize"}
