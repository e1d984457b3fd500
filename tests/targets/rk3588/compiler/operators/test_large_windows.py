"""Convolutions that no single task holds."""

from pathlib import Path

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import Model, checked, on_npu

WINDOWS = [
    ((1, 8, 20, 50), (8, 3, 39), {"pads": [1, 19, 1, 19]}),
    ((1, 20, 96, 64), (40, 96, 3), {"pads": [0, 1, 0, 1]}),
    ((2, 16, 24), (32, 5), {"dilations": [8], "pads": [16, 16]}),
    ((2, 16, 24), (16, 5), {"dilations": [64], "pads": [128, 128]}),
    ((1, 64, 9000), (16, 3), {"dilations": [512]}),
    ((1, 24, 300), (16, 64), {"strides": [3], "pads": [20, 7]}),
    ((1, 320, 900), (48, 1), {}),
    ((1, 64, 1, 2500), (8, 1, 3), {"pads": [0, 1, 0, 1]}),
    ((1, 12, 40, 40), (12, 33, 2), {"group": 12, "pads": [16, 0, 16, 1]}),
]


@quick(every=4)
@pytest.mark.parametrize("function", ["", "Relu", "Sigmoid"])
@pytest.mark.parametrize(("shape", "kernel", "attributes"), WINDOWS)
def test_windows(
    tmp_path: Path,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: dict[str, object],
    function: str,
) -> None:
    model = Model(*shape)
    made = model.conv("x", shape[1], *kernel, **attributes)
    if function:
        model.add(function, made)
    finished = on_npu(model.save(tmp_path))
    assert finished.result.max_rel_err < 4e-3


def test_the_host_takes_what_is_too_wide(tmp_path: Path) -> None:
    model = Model(1, 512, 3, 2100)
    model.conv("x", 512, 8, 3, 3)
    finished = checked(model.save(tmp_path))
    assert "width" in finished.host_reasons[0] or "CBUF" in finished.host_reasons[0]
    assert np.isfinite(finished.result.max_abs_err)
