"""Long windows along signals of one channel."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu


@pytest.mark.parametrize(
    ("shape", "kernels", "taps", "stride"),
    [
        ((1, 1, 4000), 257, 512, 160),
        ((3, 1, 832), 258, 256, 128),
        ((1, 1, 500), 36, 100, 3),
        ((1, 1, 1, 941), 36, 256, 4),
        ((2, 1, 300), 5, 31, 1),
        ((1, 1, 1, 9000), 1, 256, 2),
        ((2, 1, 400), 1, 17, 5),
    ],
)
@pytest.mark.parametrize("cores", ["1", "2"])
def test_windows(
    tmp_path: Path, shape: tuple[int, ...], kernels: int, taps: int, stride: int, cores: str
) -> None:
    model = Model(*shape)
    kernel = (1, taps) if len(shape) == 4 else (taps,)
    model.conv("x", 1, kernels, *kernel, strides=[1, stride][-len(kernel) :])
    finished = on_npu(model.save(tmp_path), {"cores": cores})
    assert finished.result.max_rel_err < 2e-3


@pytest.mark.parametrize("function", ["Relu", "Sigmoid"])
def test_an_activation_follows(tmp_path: Path, function: str) -> None:
    model = Model(1, 1, 700)
    model.add(function, model.conv("x", 1, 20, 64, strides=[6], dilations=[2]))
    on_npu(model.save(tmp_path))


def test_a_line_of_a_line_and_one_that_is_read_as_a_cube_too(tmp_path: Path) -> None:
    model = Model(1, 1, 700)
    half = model.conv("x", 1, 1, 32, strides=[2])
    model.conv(half, 1, 8, 64, strides=[8])
    on_npu(model.save(tmp_path))
    model = Model(1, 1, 200)
    both = model.conv("x", 1, 8, 32, strides=[8])
    model.add("Concat", both, model.conv("x", 1, 8, 4, strides=[9]), axis=1)
    checked(model.save(tmp_path))


def test_changes_of_shape_on_the_way(tmp_path: Path) -> None:
    model = Model(3, 400)
    line = model.add("Unsqueeze", "x", model.constant(np.array([1])))
    model.conv(line, 1, 20, 64, strides=[16])
    on_npu(model.save(tmp_path))
    model = Model(1, 9000, 1)
    line = model.add("Reshape", "x", model.constant(np.array([1, 1, 1, 9000])))
    model.conv(line, 1, 20, 1, 64, strides=[1, 16])
    on_npu(model.save(tmp_path))
