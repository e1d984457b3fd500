"""Cubes that are repeated along any axes, by Expand or beside a larger operand."""

from pathlib import Path

import numpy as np
import pytest

from tests.sweeps import quick
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, checked, on_npu


@quick(first=4)
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((1, 4, 12, 1), (1, 4, 12, 64)),
        ((3, 1, 5, 1, 16), (3, 4, 5, 6, 16)),
        ((1, 1, 24), (30, 40, 24)),
        ((24,), (33, 24)),
        ((2, 1, 5, 24), (2, 3, 5, 24)),
        ((7, 1, 24), (7, 9, 24)),
        ((3, 1), (3, 50)),
        ((1,), (2, 30, 50)),
    ],
)
def test_rows(tmp_path: Path, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    model = Model(*given)
    model.add("Expand", model.add("Relu", "x"), model.constant(np.array(wanted)))
    on_npu(model.save(tmp_path), SLOW_HOST)


@pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((1, 20, 4, 1), (1, 20, 4, 64)),
        ((1, 16, 1, 9), (1, 16, 7, 9)),
        ((1, 16, 1, 1), (3, 16, 7, 9)),
        ((1, 1, 1, 1), (2, 9, 7, 9)),
    ],
)
def test_pictures(tmp_path: Path, given: tuple[int, ...], wanted: tuple[int, ...], quantised: bool) -> None:
    model = Model(*given)
    made = model.add("Expand", model.conv("x", given[1], given[1], 1, 1), model.constant(np.array(wanted)))
    model.conv(made, wanted[1], 8, 1, 1)
    path = model.save(tmp_path, quantised=quantised)
    finished = checked(path, SLOW_HOST) if quantised else on_npu(path, SLOW_HOST)
    assert "Expand" not in finished.nodes_on_host()


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 20, 4, 64), [3]), ((30, 40, 24), [0, 1]), ((1, 16, 7, 9), [2])]
)
def test_an_operand_of_fewer_elements(tmp_path: Path, shape: tuple[int, ...], axes: list[int]) -> None:
    """A tensor times its means, which are repeated beside it."""
    model = Model(*shape)
    made = model.conv("x", shape[1], shape[1], 1, 1) if len(shape) == 4 else model.add("Relu", "x")
    model.add("Mul", made, model.add("ReduceMean", made, model.constant(np.array(axes))))
    on_npu(model.save(tmp_path), SLOW_HOST)


def test_channels_that_would_be_columns_are_refused(tmp_path: Path) -> None:
    """A vector lies as channels, and counts the columns of the picture that it is repeated for."""
    model = Model(9)
    made = model.add("Expand", model.add("Relu", "x"), model.constant(np.array([1, 60, 70, 9])))
    model.conv(made, 60, 8, 1, 1)
    finished = checked(model.save(tmp_path), SLOW_HOST)
    assert any("lies otherwise" in reason for reason in finished.host_reasons)
