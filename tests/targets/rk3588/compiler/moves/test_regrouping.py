"""Moves between channels and positions whose parts of channels do not fill atoms."""

from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@BOTH
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("channels", "size"), [(12, 2), (27, 3), (80, 4), (128, 2)])
def test_channels_become_positions(
    tmp_path: Path, quantised: bool, mode: str, channels: int, size: int
) -> None:
    model = Model(2, 8, 6, 5)
    x = model.conv("x", 8, channels, 3, 3, pads=[1] * 4)
    model.add("DepthToSpace", x, blocksize=size, mode=mode)
    path = model.save(tmp_path, quantised=quantised)
    checked(path) if quantised else on_npu(path, {"cores": "3"})


@pytest.mark.parametrize("channels", [32, 24])
def test_kernels_are_in_the_order_of_the_places(tmp_path: Path, channels: int) -> None:
    """Where the channels of a place fill atoms, no product puts them in order behind the convolution."""
    model = Model(1, 8, 6, 5)
    x = model.add("Relu", model.conv("x", 8, channels, 3, 3, pads=[1] * 4))
    model.add("DepthToSpace", x, blocksize=2, mode="CRD")
    run = on_npu(model.save(tmp_path))
    kernels = [task for task in run.tables.tasks if task.work.convolution is not None and task.node >= 0]
    assert len({task.node for task in kernels}) == (1 if channels == 32 else 2)


@BOTH
@pytest.mark.parametrize(("channels", "size"), [(3, 2), (5, 3), (16, 2)])
def test_positions_become_channels(tmp_path: Path, quantised: bool, channels: int, size: int) -> None:
    model = Model(2, channels, 6, 12)
    model.add("SpaceToDepth", model.add("Relu", "x"), blocksize=size)
    path = model.save(tmp_path, quantised=quantised)
    checked(path) if quantised else on_npu(path)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_shuffled_channels(tmp_path: Path, groups: int) -> None:
    model = Model(2, 30, 6, 5)
    shape = model.constant(np.array([2, groups, 30 // groups, 6, 5]))
    x = model.add("Transpose", model.add("Reshape", model.add("Relu", "x"), shape), perm=[0, 2, 1, 3, 4])
    model.add("Reshape", x, model.constant(np.array([2, 30, 6, 5])))
    on_npu(model.save(tmp_path))


def test_positions_apart_as_views_and_a_transpose(tmp_path: Path) -> None:
    model = Model(1, 12, 6, 5)
    shape = model.constant(np.array([1, 3, 2, 2, 6, 5]))
    x = model.add("Transpose", model.add("Reshape", model.add("Relu", "x"), shape), perm=[0, 1, 4, 2, 5, 3])
    model.add("Reshape", x, model.constant(np.array([1, 3, 12, 10])))
    on_npu(model.save(tmp_path))
