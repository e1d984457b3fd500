"""Code of kernels that comes with the package: it runs before what is compiled, or is as if it were not."""

import importlib
import json
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from npuviz.base.kernels import compiling, entries, helper, shipped, shipping

pytestmark = pytest.mark.skipif(entries.is_plain, reason="nothing is compiled")

SOURCE = """
from numba import int64, njit
from npuviz.base.kernels import entries

@njit
def _sum(words, factor):
    total = int64(0)
    for index in range(len(words)):
        total += words[index] * factor
    return total

@entries.entry("trial", error_model="numpy")
def add_up(words, factor, last):
    words[0] += 1
    return _sum(words, factor) - last[len(last) - 1]

add_up.takes("wnw")
"""
WORDS = [5, -7, 1 << 40]
RESULT = (6 - 7 + (1 << 40)) * -3 - 9


@pytest.fixture(name="add_up")
def fixture_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """A kernel whose code lies in the package's folder; nothing is compiled here, and nobody is asked to."""
    name = f"shipped_{tmp_path.name}_kernels".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    monkeypatch.delenv(entries.MODE_VARIABLE, raising=False)
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        entries, "_helper", lambda _: SimpleNamespace(ask=lambda *args: asked.append(args) or True)
    )
    kernel = importlib.import_module(name).add_up
    shipped.write(_file(kernel), *shipping.code_of(kernel))
    kernel.asked = asked
    yield kernel
    assert not kernel._kernel.overloads


def _file(kernel: Any) -> Path:
    return shipped.file_of(shipped.FOLDER, kernel.module, "add_up")


def _call(kernel: Any) -> int:
    words = np.array(WORDS)
    found = kernel(words, -3, np.array([0, 9]))
    assert words.tolist() == [6, *WORDS[1:]]
    return found


def test_it_runs_in_place_of_the_twin(add_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries.Entry, "run_plain", lambda *_: pytest.fail("ran uncompiled"))
    assert add_up.has_shipped(np.zeros(1, np.int64), 0, np.zeros(1, np.int64))
    assert _call(add_up) == RESULT


def test_the_helper_stands_back_where_nobody_waits_for_it(add_up: Any) -> None:
    _call(add_up)
    ((*_, niceness),) = add_up.asked
    assert niceness == helper.PATIENT_NICENESS


def test_a_helper_never_comes_forward_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [compiling._BEGIN]

    def nice(more: int) -> int:
        now[0] += more
        return now[0]

    monkeypatch.setattr(compiling.os, "nice", nice)
    monkeypatch.setattr(Path, "write_text", lambda *_: 0)
    for wanted, niceness in ((3, 3), (10, 10), (3, 10)):
        compiling._stand_back(wanted)
        assert now[0] == compiling._BEGIN + niceness


def test_arguments_of_other_kinds_are_not_for_it(add_up: Any) -> None:
    words = np.arange(6)
    assert not add_up.has_shipped(words, 1.5, words)
    assert not add_up.has_shipped(words[::2], 1, words)
    assert not add_up.has_shipped(words.astype(np.int32), 1, words)
    assert not add_up.has_shipped(words, 1)
    assert not add_up.has_shipped(words, 1 << 63, words)
    assert add_up(words[::2], 2, words) == (1 + 2 + 4) * 2 - 5


@pytest.mark.parametrize("mode", [entries.PLAIN, entries.WAIT])
def test_who_wants_twins_or_compiled_code_does_not_get_it(
    add_up: Any, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(entries.MODE_VARIABLE, mode)
    assert not add_up.has_shipped(np.zeros(1, np.int64), 0, np.zeros(1, np.int64))


def _of_other_sources(content: bytes) -> bytes:
    header, _, code = content.partition(b"\n")
    return json.dumps({**json.loads(header), "made_for": "another computer"}).encode() + b"\n" + code


def _of_another_symbol(content: bytes) -> bytes:
    header, _, code = content.partition(b"\n")
    return json.dumps({**json.loads(header), "symbol": "nothing"}).encode() + b"\n" + code


def _of_other_code(content: bytes) -> bytes:
    header, _, code = content.partition(b"\n")
    return header + b"\n" + zlib.compress(zlib.decompress(code) + b"more")


@pytest.mark.parametrize(
    "change",
    [
        _of_other_code,
        _of_other_sources,
        _of_another_symbol,
        lambda content: content[:-1],
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        lambda content: b"",
        lambda content: b"{}\n",
        lambda content: b"[1]\n" + content,
        lambda content: b"\xff" + content,
    ],
)
def test_what_is_damaged_or_for_others_is_as_if_it_were_not_there(
    add_up: Any, change: Callable[[bytes], bytes]
) -> None:
    path = _file(add_up)
    path.write_bytes(change(path.read_bytes()))
    assert not add_up.has_shipped(np.zeros(1, np.int64), 0, np.zeros(1, np.int64))
    assert _call(add_up) == RESULT
    ((*_, niceness),) = add_up.asked
    assert niceness == helper.NICENESS


def test_what_is_current_is_not_made_again(add_up: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str]] = []
    monkeypatch.setattr(shipping, "_make_apart", lambda _folder, kernel: made.append(kernel) or 0)
    kernels = [(add_up.module, "add_up"), (add_up.module, "other")]
    monkeypatch.setattr(shipping, "kernels_to_ship", lambda: kernels)
    monkeypatch.setattr(shipping, "ROOT", shipped.FOLDER)
    gone = shipped.file_of(shipped.FOLDER, "a.module.of.old", "advance")
    gone.write_bytes(b"")
    assert shipping.main([str(shipped.FOLDER)]) == 0
    assert made == kernels[1:]
    assert not gone.exists()
