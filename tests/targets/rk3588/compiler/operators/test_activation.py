"""Activations behind convolutions and of their own."""

from pathlib import Path

import pytest

from tests.targets.rk3588.compiler.models import Finished, Model, checked, on_npu


def _looks_up(finished: Finished) -> bool:
    return any(task.work.output is not None and task.work.output.ew.has_lut for task in finished.work)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.5])
@pytest.mark.parametrize("is_behind", [True, False], ids=["behind a convolution", "alone"])
def test_leaky_relus_of_floats_need_no_table(tmp_path: Path, alpha: float, is_behind: bool) -> None:
    model = Model(1, 6, 9, 7)
    x = model.conv("x", 6, 12, 3, 3) if is_behind else model.add("Neg", "x")
    model.add("LeakyRelu", x, alpha=alpha)
    finished = on_npu(model.save(tmp_path))
    assert not _looks_up(finished)
    assert finished.result.max_rel_err < 1e-3


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1e-9])
def test_slopes_that_are_no_factor_of_fp16_are_tables(tmp_path: Path, alpha: float) -> None:
    model = Model(1, 6, 9, 7)
    model.add("LeakyRelu", model.conv("x", 6, 12, 3, 3), alpha=alpha)
    assert _looks_up(on_npu(model.save(tmp_path)))


def test_leaky_relus_of_8_bits_are_tables(tmp_path: Path) -> None:
    model = Model(1, 6, 9, 7)
    model.add("LeakyRelu", model.conv("x", 6, 12, 3, 3), alpha=0.3)
    assert _looks_up(checked(model.save(tmp_path, quantised=True)))
