"""Sweeps over seeds: the first ones run always, the rest with `make check-all`."""

from typing import Any

import pytest


def seeds(always: int, in_all: int) -> list[Any]:
    """Seeds 0, 1, ...: those from `always` on are slow; the first ones are the quicker test of the rule."""
    return [seed if seed < always else pytest.param(seed, marks=pytest.mark.slow) for seed in range(in_all)]
