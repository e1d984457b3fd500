"""Kernels that Python calls, from an empty cache: plain at once, compiled when a helper has done that."""

import gc
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba.core import config

from npuviz.base.kernels import entries, helper
from npuviz.base.kernels.twins import plain_twin

pytestmark = pytest.mark.skipif(entries.is_plain, reason="nothing is compiled")

GROUP = "trial"
ROOT = Path(__file__).parents[3]
SOURCE = """
from numba import int64, njit
from npuviz.base.kernels import entries
from npuviz.base.kernels.twins import stand_in

ONE = 1
entry = entries.entry("trial")

@njit
def _next(value):
    return value + ONE

@njit
def _breaks(value):
    return value

def _plain_break(value):
    raise ValueError("only the twin does so")

stand_in(_breaks, _plain_break)

@entry
def count_up(words, times):
    for _ in range(times):
        words[0] = _next(words[0])
    return int64(words[0])

@entry
def twice(words, times):
    return count_up(words, times) + count_up(words, times)

@entry
def fragile(state):
    state[0] += 1
    return _breaks(state[0])
"""


@pytest.fixture(name="kernels")
def fixture_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """A module of small kernels with an empty cache; its helper ends with the test."""
    name = f"trial_{tmp_path.name}_kernels".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(helper.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(entries.MODE_VARIABLE, raising=False)
    monkeypatch.setattr(entries, "LOOK_SECONDS", 0.0)
    entries._helper.cache_clear()
    yield importlib.import_module(name)
    _end_helper()
    entries._helper.cache_clear()


def _process() -> "subprocess.Popen[bytes]":
    process = entries._helper(GROUP)._process
    assert process is not None
    return process


def _end_helper() -> None:
    """Let the helper do what it was asked for; it is gone then."""
    process = entries._helper(GROUP)._process
    if process is not None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def test_calls_run_uncompiled_until_a_helper_has_compiled(kernels: Any) -> None:
    words = np.zeros(1, np.int64)
    assert kernels.count_up(words, 3) == 3
    assert not kernels.count_up._kernel.overloads
    assert kernels.twice(words, 1) == 4 + 5
    assert entries.awaited()[GROUP] >= 0
    _end_helper()
    assert GROUP not in entries.awaited()
    assert kernels.count_up.is_ready(words, 3)
    assert kernels.count_up(words, 3) == 8
    assert kernels.twice(words, 1) == 9 + 10
    hits = [sum(each.stats.cache_hits.values()) for each in (kernels.count_up, kernels.twice)]
    assert hits == [1, 1]
    assert not any(kernels.twice.stats.cache_misses.values())


def test_the_first_call_compiles_where_calls_wait(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(entries.MODE_VARIABLE, entries.WAIT)
    assert kernels.count_up(np.zeros(1, np.int64), 3) == 3
    assert kernels.count_up._kernel.overloads
    assert entries._helper(GROUP)._process is None


def test_where_calls_wait_too_only_one_program_compiles(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(entries.MODE_VARIABLE, entries.WAIT)
    code = f"import numpy, {kernels.__name__} as k; k.count_up(numpy.zeros(1, numpy.int64), 3)"
    folder = str(Path(kernels.__file__).parent)

    @contextmanager
    def until_the_other_has_done_it(group: str) -> Generator[None]:
        assert group == f"{GROUP}-{kernels.__name__}-count_up"
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}, check=True
        )
        yield

    monkeypatch.setattr(entries, "compiling", until_the_other_has_done_it)
    assert kernels.count_up(np.zeros(1, np.int64), 3) == 3
    assert sum(kernels.count_up.stats.cache_hits.values()) == 1
    assert not any(kernels.count_up.stats.cache_misses.values())


def test_a_twin_that_fails_is_replaced_by_compiled_code(kernels: Any) -> None:
    words = np.zeros(1, np.int64)
    assert kernels.fragile(words) == 1
    assert words[0] == 1
    assert kernels.fragile._kernel.overloads


def test_a_twin_that_fails_is_an_error_where_only_twins_run(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(entries.MODE_VARIABLE, entries.PLAIN)
    with pytest.raises(ValueError, match="only the twin"):
        kernels.fragile(np.zeros(1, np.int64))


def test_a_second_program_waits_for_the_one_that_compiles(kernels: Any) -> None:
    words = np.zeros(1, np.int64)
    other = helper.Helper(GROUP)
    types = kernels.count_up._types((words, 1))
    with helper.compiling(GROUP):
        assert helper.is_locked(GROUP)
        assert other.ask(kernels.__name__, "count_up", types)
        assert other._process is None
    assert not helper.is_locked(GROUP)


def test_helpers_that_are_killed_are_replaced_and_given_up_then(kernels: Any) -> None:
    words = np.zeros(1, np.int64)
    for expected in range(1, helper.PATIENCE + 1):
        assert kernels.count_up(words, 1) == expected
        # It needs longer to start than this to end it.
        _process().send_signal(signal.SIGKILL)
        _process().wait()
    assert not kernels.count_up._kernel.overloads
    assert kernels.count_up(words, 1) == helper.PATIENCE + 1
    assert kernels.count_up._kernel.overloads


def test_what_a_killed_helper_was_asked_for_is_not_awaited(kernels: Any) -> None:
    kernels.count_up(np.zeros(1, np.int64), 1)
    assert GROUP in entries.awaited()
    _process().kill()
    _process().wait()
    assert GROUP not in entries.awaited()


def test_no_helper_can_be_started(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert kernels.count_up(np.zeros(1, np.int64), 2) == 2
    assert kernels.count_up._kernel.overloads


def test_twins_see_plain_numbers(kernels: Any) -> None:
    twin: Callable[..., Any] = plain_twin(kernels.count_up)
    assert twin is plain_twin(kernels.count_up)
    assert type(twin(np.zeros(1, np.int64), 1)) is int


def test_types_are_those_of_each_argument(kernels: Any) -> None:
    words = np.zeros((4, 4), np.int64)
    frozen = words.copy()
    frozen.flags.writeable = False
    given = [
        words,
        words.T,
        words[:, ::2],
        words[0],
        words[0].astype(np.int32),
        frozen,
        1,
        1 << 63,
        True,
        1.0,
    ]
    given += [np.int16(1), np.uint8(1), (1, 2), (1, 2.0), (1, (2, True)), (words, words.T), (words.T, words)]
    for _ in range(2):
        for each in given:
            expected = kernels.count_up._kernel.typeof_pyval(each)
            assert kernels.count_up._types((each,)) == (expected,)


_WHERE = "import npuviz, os; print(os.environ['NUMBA_CACHE_DIR'])"


def test_a_cache_folder_that_cannot_be_is_replaced_for_this_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {name: value for name, value in os.environ.items() if name != helper.CACHE_VARIABLE}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "file")
    environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    run = subprocess.run(
        [sys.executable, "-c", _WHERE], env=environment, capture_output=True, text=True, check=True
    )
    folder = Path(run.stdout.strip())
    assert tmp_path not in folder.parents
    assert not folder.exists()


def test_compiling_looks_for_garbage_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    entry = object.__new__(entries.Entry)
    entry._kernel = SimpleNamespace(compile=lambda _: seen.append(gc.get_threshold()[0]))
    entry._is_light = False
    before = gc.get_threshold()
    entry.compile(())
    assert seen == [100_000]
    assert gc.get_threshold() == before != (100_000, 50, 1000)
