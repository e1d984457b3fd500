"""Transposed convolutions: strides, padding, kernels that overlap or leave gaps."""

from pathlib import Path
from typing import Any

import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu

BOTH = pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])


@BOTH
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((2, 2), {"strides": [2, 2]}),
        ((3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((3, 5), {"strides": [1, 3], "pads": [0, 2, 1, 0]}),
        ((3, 3), {}),
        ((1, 2), {"strides": [3, 2]}),
        ((2, 2), {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
    ],
)
def test_transposed_convolutions(
    tmp_path: Path, quantised: bool, kernel: tuple[int, int], attributes: dict[str, Any]
) -> None:
    model = Model(2, 12, 5, 6)
    x = model.add("Relu", "x")
    weights, bias = model.weight(12, 20, *kernel), model.weight(20, scale=0.3)
    model.add("Relu", model.add("ConvTranspose", x, weights, bias, **attributes))
    on_npu(model.save(tmp_path, quantised=quantised), {"cores": "2"})


def test_groups_are_the_hosts(tmp_path: Path) -> None:
    model = Model(1, 8, 32, 32)
    model.add("ConvTranspose", "x", model.weight(8, 4, 2, 2), strides=[2, 2], group=2)
    assert "groups" in checked(model.save(tmp_path)).host_reasons[0]
