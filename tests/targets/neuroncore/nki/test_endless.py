"""Loops without an end are told after a few turns, with their line; loops with one run to it."""

import builtins
import threading

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki import user_python
from npuviz.targets.neuroncore.nki.calls.actions import ACTIONS
from npuviz.targets.neuroncore.nki.calls.keywords import keywords_known
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import compiled_for, spec_in_use
from npuviz.targets.neuroncore.nki.record.recording import Recording, current, is_recording, recording_active
from npuviz.targets.neuroncore.spec import make_spec
from tests.targets.neuroncore.nki.running import FIRST, SECOND, loaded, ran
from tests.targets.neuroncore.nki.test_files import warmed_up

_KERNEL = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=count, value=START)
    nisa.dma_copy(dst=tile, src=x)
    register = nisa.register_alloc(1)
    def body(r=None):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return END
    LOOP
        body()
        MORE
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)
_DOWN = "nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)"
_LOAD = "nisa.register_load(register, count)"


def _text(loop: str, more: str = "pass", start: int = 1, end: str = "1") -> str:
    found = _KERNEL.replace("START", str(start)).replace("LOOP", loop).replace("END", end)
    return found.replace("MORE", more)


@pytest.mark.parametrize(
    "text",
    [
        _text("while register:"),
        _text("while register:", _LOAD),
        _text("while register:", "nisa.register_move(register, 7)"),
        _text("nl.while_loop(1, body)\n    if False:"),
        _text("nl.while_loop(1, body)\n    if False:", end="register"),
        _text("nl.while_loop(1, body)\n    if False:", end="count"),
    ],
)
def test_a_loop_whose_condition_nothing_changes_is_told(tmp_path, text) -> None:
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "while" in each)
    with pytest.raises(
        KernelError, match=rf"^kernel.py:{line}: the loop does not end: its condition is [17]"
    ):
        loaded(tmp_path, text, {"x": np.zeros((128, 8), np.float32)})


_OFTEN = """for i in range(100):
      if i % 10 == 0: nisa.register_move(register, 1)
      while register:"""


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        (_text("while register:", f"{_DOWN}; {_LOAD}", 100), 100),
        (_text(_OFTEN, "nisa.register_move(register, 0)"), 10),
        (_text("for i in range(100):\n      while register:", "break"), 100),
    ],
)
def test_a_loop_that_ends_goes_on_to_its_end(tmp_path, text, turns) -> None:
    assert np.all(ran(tmp_path, text, {"x": np.zeros((128, 8), np.float32)}) == turns)


_UP = _DOWN.replace("subtract", "add")


@pytest.mark.parametrize(
    "loop", [f"while register:\n        {_UP}; {_LOAD}", "nl.while_loop(count, lambda r: (UP, count)[1])"]
)
def test_a_counter_that_goes_the_wrong_way_is_told_after_a_number_of_turns(tmp_path, loop) -> None:
    text = _text("LOOP").replace("        body()\n        pass\n", "")
    text = text.replace("LOOP", loop.replace("UP", _UP))
    x = {"x": np.zeros((128, 8), np.float32)}
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "while" in each)
    with pytest.raises(
        KernelError, match=rf"^kernel.py:{line}: .* condition is \d+, further from 0 .* each of 20 turns"
    ):
        loaded(tmp_path, text, x, kernel_away_turns="20")


@pytest.mark.parametrize("allowed", ["0", "40"])
def test_a_counter_that_rises_and_ends_goes_on_as_long_as_is_allowed(tmp_path, allowed) -> None:
    up_and_out = f"{_UP}; {_LOAD}\n        if int(register) == 30: nisa.register_move(register, 0)"
    text = _text("while register:", up_and_out)
    x = {"x": np.zeros((128, 8), np.float32)}
    assert loaded(tmp_path, text, x, kernel_away_turns=allowed)[1].listing
    with pytest.raises(KernelError, match="does not seem to end"):
        loaded(tmp_path, text, x, kernel_away_turns="20")


def test_a_loop_of_more_turns_than_a_program_holds_is_told(tmp_path) -> None:
    text = _text("for i in nl.dynamic_range(1 << 30):")
    with pytest.raises(KernelError, match=r"^kernel.py:\d+: a loop of 1073741824 turns with 1 calls of nki"):
        loaded(tmp_path, text, {"x": np.zeros((128, 8), np.float32)})
    first = (
        "@nki.jit\ndef kernel(x):\n    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    for i in nl.affine_range(1 << 40):\n        nl.store(y, nl.load(x))\n    return y\n"
    )
    with pytest.raises(KernelError, match=r"^kernel.py:\d+: a loop of 1099511627776 turns with 2 calls"):
        loaded(tmp_path, FIRST + first, {"x": np.zeros((128, 8), np.float32)})


def test_a_loop_of_python_that_its_text_does_not_leave_is_told_soon(tmp_path, monkeypatch) -> None:
    warmed_up(tmp_path, SECOND)
    monkeypatch.setattr(user_python, "LOOK_SECONDS", 0.2)
    x = {"x": np.zeros((128, 8), np.float32)}
    with pytest.raises(
        KernelError, match=r"^kernel.py:\d+: the loop does not end: its condition is always true"
    ):
        loaded(tmp_path, _text("while True:"), x)
    text = _text("items = iter(range(1 << 20))\n    while True:", "if next(items) > 1000: break")
    assert loaded(tmp_path, text, x)[1].listing  # a way out of the loop
    text = "def f():\n    items = iter(range(9_000_000))\n    while True:\n        next(items)\n"
    text += "try:\n    f()\nexcept StopIteration:\n    pass\n"
    assert loaded(tmp_path, SECOND + text + _text("if True:"), x)[1].listing


def test_a_kernel_that_was_stopped_and_ends_late_takes_nothing_with_it() -> None:
    """Its thread may be ending while the next kernel is recorded."""
    begun, may_end = threading.Event(), threading.Event()
    late, next_one = Recording(ACTIONS), Recording(ACTIONS)

    def stopped() -> None:
        with compiled_for(make_spec("trn1", None, {})[0]), recording_active(late), keywords_known():
            begun.set()
            may_end.wait()

    thread = threading.Thread(target=stopped)
    thread.start()
    try:
        assert begun.wait(60)
        assert not is_recording()
        assert spec_in_use().arch == "trn2"
        with recording_active(next_one), keywords_known():
            may_end.set()
            thread.join()
            assert current() is next_one
            assert hasattr(builtins, "sbuf")
        assert not hasattr(builtins, "sbuf")
    finally:
        may_end.set()
        thread.join()
