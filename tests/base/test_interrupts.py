# Ctrl+C that arrives where Python's own exception would be lost, renamed or leave something half done.
import signal
import subprocess
import sys

import pytest

from npuviz.base.interrupts import shielded
from npuviz.cli import main as main_module

MAIN = """
import signal, sys, time
from npuviz.cli import main as main_module
{}
main_module._dispatch = dispatch
sys.exit(main_module.main())
"""
LOST = """
class Careless:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def dispatch(arguments):
    del_me = Careless()
    del del_me
    for _ in range(3000):
        time.sleep(0.01)
    return 0
"""
RENAMED = """
def dispatch(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("something else") from None
"""
AGAIN = """
import threading, _thread
def dispatch(arguments):
    from npuviz.cli.kit.terminal import interruptible
    with interruptible() as interrupter:
        interrupter.use(lambda: None)
        signal.raise_signal(signal.SIGINT)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("renamed") from None
"""


@pytest.mark.parametrize("code", [LOST, RENAMED, AGAIN], ids=["in a finalizer", "renamed", "the second one"])
def test_wherever_it_arrives_it_ends_the_program_with_one_line(code: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", MAIN.format(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (found.returncode, found.stderr) == (130, "npuviz: interrupted\n")


def test_an_error_without_an_interrupt_stays_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_arguments: list[str]) -> int:
        raise OSError(2, "no such thing")

    monkeypatch.setattr(main_module, "_dispatch", fails)
    assert main_module.main([]) == 2
    assert "no such thing" in capsys.readouterr().err


def test_a_shielded_block_is_done_whole() -> None:
    done: list[int] = []

    def work() -> None:
        with shielded():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
