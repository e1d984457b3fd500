"""A first start: machines run uncompiled until their compiled kernels have come, and nothing else changes."""

import contextlib
import importlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.kernels import entries, shipped, shipping
from npuviz.base.kernels.entries import Entry
from npuviz.base.kernels.uncompiled import uncompiled_seconds
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.wavelet.machine import engine
from npuviz.workbench.headless.run import RunOptions, run_model
from npuviz.workbench.headless.summary_text import summary_text
from npuviz.workbench.opening import OpenOptions
from tests.contract import checks
from tests.contract.registry import CASES, SAMPLES, Case
from tests.contract.runs import FOREVER, run_recorded, run_to
from tests.sweeps import quick

pytestmark = pytest.mark.skipif(entries.is_plain, reason="nothing is compiled")

ON_KERNELS = [case for case in CASES if not case.name.startswith("toy")]
LONG = ("HBM2", "DDR4", "transformer")
SHORT = [case for case in ON_KERNELS if not any(word in case.name for word in LONG)]


@contextlib.contextmanager
def first_start(monkeypatch: pytest.MonkeyPatch, has_come: Callable[[], bool]) -> Generator[None]:
    """Inside, machines find compiled code only while `has_come` says so. It has been compiled before."""

    def is_ready(_self: Entry, *_args: Any) -> bool:
        return has_come()

    with monkeypatch.context() as patch:
        patch.setenv(entries.MODE_VARIABLE, entries.PLAIN)
        patch.setattr(Entry, "is_ready", is_ready)
        yield


@quick(but=["* with *", "* on *"])
@pytest.mark.parametrize("case", ON_KERNELS, ids=lambda case: case.name)
def test_uncompiled_runs_leave_the_same_state(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    before = uncompiled_seconds()
    compiled = run_to(case.make(), FOREVER)
    assert uncompiled_seconds() == before
    with first_start(monkeypatch, lambda: False):
        plain = run_to(case.make(), FOREVER)
    assert uncompiled_seconds() > before
    assert (plain.cycle, plain.digest()) == (compiled.cycle, compiled.digest())


@quick(but=["* with *", "* on *"])
@pytest.mark.parametrize("case", ON_KERNELS, ids=lambda case: case.name)
def test_compiled_kernels_may_come_in_the_middle_of_a_run(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_recorded(case.make())
    end = run_to(case.make(), FOREVER)
    asked = 0

    def sometimes() -> bool:
        nonlocal asked
        asked += 1
        return asked % 3 == 0

    with first_start(monkeypatch, sometimes):
        assert (run_recorded(case.make()) == expected).all()
        machine = case.make()
        reason = machine.advance(FOREVER, NO_STOPS, None)
    assert asked == 6  # twice: two slices uncompiled, the rest compiled
    assert reason.kind is StopKind.FINISHED
    assert (machine.cycle, machine.digest()) == (end.cycle, end.digest())


@quick(but=["systolic cnn-*", "neuroncore cnn-*"])
@pytest.mark.parametrize("check", [checks.check_stops, checks.check_chunking], ids=lambda each: each.__name__)
@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_uncompiled_runs_keep_the_promises(
    case: Case, check: Callable[[Callable[[], Machine]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with first_start(monkeypatch, lambda: False):
        check(case.make)


@pytest.fixture(scope="session", name="made_folder")
def fixture_made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where code of kernels is made as the package brings it."""
    return tmp_path_factory.mktemp("shipped")


@quick("rk3588 cnn in int8")
@pytest.mark.parametrize("case", ON_KERNELS, ids=lambda case: case.name)
def test_code_that_comes_with_the_package_leaves_the_same_state(
    case: Case, made_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = run_to(case.make(), FOREVER)
    recorded = run_recorded(case.make())
    for module, name in shipping.kernels_to_ship():
        if module.startswith(f"npuviz.targets.{case.target.id}."):
            assert shipping.main([str(made_folder), module, name]) == 0
            kernel = getattr(importlib.import_module(module), name)
            monkeypatch.setattr(kernel, "_is_looked_up", False)
            monkeypatch.setattr(kernel, "_shipped", None)
    monkeypatch.setattr(shipped, "FOLDER", made_folder)
    monkeypatch.setattr(Entry, "is_ready", lambda *_: False)
    monkeypatch.setattr(Entry, "run_plain", lambda *_: pytest.fail("ran uncompiled"))
    monkeypatch.delenv(entries.MODE_VARIABLE)
    before = uncompiled_seconds()
    found = run_to(case.make(), FOREVER)
    assert (found.cycle, found.digest()) == (compiled.cycle, compiled.digest())
    assert (run_recorded(case.make()) == recorded).all()
    asked = iter(range(1 << 20))
    monkeypatch.setattr(Entry, "is_ready", lambda *_: next(asked) % 3 == 2)
    assert (run_recorded(case.make()) == recorded).all()
    assert next(asked) >= 3  # slices of it, then what is compiled here
    assert uncompiled_seconds() == before


def test_the_loop_of_every_machine_comes_with_the_package() -> None:
    targets = {case.target.id for case in ON_KERNELS}
    names = {f"{module}.{name}" for module, name in shipping.kernels_to_ship()}
    assert {f"npuviz.targets.{target}.kernels.advance.advance" for target in targets} <= names


def test_a_summary_tells_what_ran_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    path = SAMPLES / "tiny_cnn.onnx"
    options = RunOptions(OpenOptions(target="neuroncore"))
    compiled = run_model(path, options).summary
    with first_start(monkeypatch, lambda: False):
        plain = run_model(path, options).summary
    assert compiled["seconds"]["uncompiled"] == 0
    assert 0 < plain["seconds"]["uncompiled"] <= plain["seconds"]["simulate"]
    assert "before the kernels were compiled" in summary_text(plain)
    assert "before the kernels were compiled" not in summary_text(compiled)


def test_large_wafers_wait_for_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in CASES if case.name.startswith("wafer")]
    end = run_to(case.make(), FOREVER)
    asked = 0

    def at_last() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    monkeypatch.setattr(engine, "MOST_PLAIN_NODES", 1)
    monkeypatch.setattr(entries, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Entry, "run_plain", lambda *_: pytest.fail("ran uncompiled"))
    with first_start(monkeypatch, at_last):
        machine = case.make()
        while not machine.is_finished:
            machine.advance(FOREVER, NO_STOPS, None)
    assert asked > 3
    assert (machine.cycle, machine.digest()) == (end.cycle, end.digest())
