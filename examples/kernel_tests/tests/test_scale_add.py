"""The kernel is right, clean, and no slower than it was."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npuviz
from npuviz.testing import Budgets, assert_close, assert_cycles, assert_no_hazards

KERNEL = Path(__file__).parents[1] / "scale_add.py"
Run = Callable[..., npuviz.DebugSession]


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    """The same inputs for all tests."""
    random = np.random.default_rng(1)
    return {name: random.normal(size=(256, 64)).astype(np.float32) for name in "ab"}


def test_values(npuviz_run: Run, arrays: dict[str, np.ndarray]) -> None:
    """Values are those of numpy, and nothing is read before it is there."""
    session = npuviz_run(KERNEL, inputs=arrays)
    assert_close(session, 2 * arrays["a"] + arrays["b"])
    assert_no_hazards(session)


def test_cost(npuviz_run: Run, npuviz_budgets: Budgets, arrays: dict[str, np.ndarray]) -> None:
    """No more than 2 % slower than what was accepted last."""
    session = npuviz_run(KERNEL, inputs=arrays)
    assert_cycles(session, at_most=100_000)
    npuviz_budgets.check(session, "scale_add 256x64", slower=0.02)
