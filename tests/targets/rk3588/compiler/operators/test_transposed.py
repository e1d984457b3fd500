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


@BOTH
@pytest.mark.parametrize("groups", [2, 12])
def test_groups_are_zeros_of_one(tmp_path: Path, quantised: bool, groups: int) -> None:
    model = Model(1, 12, 9, 11)
    weights, bias = model.weight(12, 2, 3, 2), model.weight(2 * groups, scale=0.3)
    made = model.add("ConvTranspose", model.add("Relu", "x"), weights, bias, strides=[2, 2], group=groups)
    model.add("Relu", made)
    on_npu(model.save(tmp_path, quantised=quantised))


@BOTH
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [(16, {"strides": [8], "pads": [4, 4]}), (4, {"strides": [2], "output_padding": [1]}), (3, {"group": 4})],
)
def test_signals_are_pictures_of_one_row(
    tmp_path: Path, quantised: bool, kernel: int, attributes: dict[str, Any]
) -> None:
    model = Model(2, 24, 40)
    weights, bias = model.weight(24, 12, kernel), model.weight(12 * attributes.get("group", 1), scale=0.3)
    model.add("Relu", model.add("ConvTranspose", model.add("Relu", "x"), weights, bias, **attributes))
    on_npu(model.save(tmp_path, quantised=quantised))


def test_three_dimensions_are_the_hosts(tmp_path: Path) -> None:
    model = Model(1, 8, 8, 16, 16)
    model.add("ConvTranspose", "x", model.weight(8, 4, 2, 2, 2), strides=[2, 2, 2])
    assert "over 3 dimensions" in checked(model.save(tmp_path)).host_reasons[0]
