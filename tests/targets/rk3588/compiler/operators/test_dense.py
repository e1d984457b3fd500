"""Small linear operators as one product, against ONNX Runtime."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.targets.rk3588.compiler.models import Model, checked, on_npu

Adds = Callable[[Model, str], str]


def _ints(model: Model, *values: int) -> str:
    return model.constant(np.array(values))


MOVES: dict[str, Adds] = {
    "Slice": lambda m, x: m.add("Slice", x, _ints(m, -1), _ints(m, -99), _ints(m, 2), _ints(m, -1)),
    "Pad": lambda m, x: m.add("Pad", x, _ints(m, 0, 1, 0, 0, 2, 1), m.constant(np.float32(1.5))),
    "Tile": lambda m, x: m.add("Tile", x, _ints(m, 1, 2, 2)),
    "Gather": lambda m, x: m.add("Gather", x, _ints(m, 2, 0, 1), axis=1),
    "Concat": lambda m, x: m.add("Concat", x, m.add("Neg", x), axis=2),
    "Expand": lambda m, x: m.add("Expand", m.add("Unsqueeze", x, _ints(m, 1)), _ints(m, 2, 3, 3, 5)),
    "Reshape": lambda m, x: m.add("Reshape", x, _ints(m, 5, 6)),
    "Five": lambda m, x: m.add("Relu", m.add("Reshape", x, _ints(m, 1, 2, 1, 3, 5))),
    "CumSum": lambda m, x: m.add("CumSum", x, m.constant(np.int64(2))),
    "Resize": lambda m, x: m.add(
        "Resize", x, "", m.constant(np.array([1, 1, 1.6], np.float32)), mode="linear"
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_small_linear_operators(tmp_path: Path, name: str) -> None:
    model = Model(2, 3, 5)
    MOVES[name](model, model.add("Relu", "x"))
    on_npu(model.save(tmp_path))


def test_infinities_stay_where_they_are(tmp_path: Path) -> None:
    model = Model(2, 3, 5)
    bounds = model.constant(np.where(np.arange(5) > 2, np.inf, 0).astype(np.float32))
    MOVES["Slice"](model, model.add("Max", model.add("Relu", "x"), bounds))
    on_npu(model.save(tmp_path))


def test_large_ones_are_the_hosts(tmp_path: Path) -> None:
    model = Model(2, 30, 50)
    MOVES["CumSum"](model, model.add("Relu", "x"))
    assert checked(model.save(tmp_path)).nodes_on_host() >= {"CumSum"}
