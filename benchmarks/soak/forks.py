"""Runs functions in forks of this process, so that nothing is imported or compiled twice."""

import contextlib
import gc
import os
import signal
import sys
import time
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_Finalizers: Any = weakref.finalize  # its stub lacks what ends it
POLL_SECONDS = 0.001
PATIENCE_SECONDS = 300.0
RAISED = 99
"""Exit code of a function that raised an exception."""
BEFORE = 98
"""Exit code of a function that was interrupted before it began."""


@dataclass(frozen=True)
class Ended:
    """The end of a function: its exit code, or minus the signal; its output; its duration."""

    code: int
    out: str
    error: str
    seconds: float


def start(work: Callable[[], int], folder: Path) -> int:
    """Start a function in a separate process group with output to files in the folder; returns its process
    id."""
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    # What is sent before the work begins arrives when it begins.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return pid
    code = RAISED
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, number in (("out", 1), ("err", 2)):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, number)
        _Finalizers._registry.clear()  # noqa: SLF001  # those of this process are not ours to call
        code = _interruptible(work)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _Finalizers._exitfunc()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(code)


def _interruptible(work: Callable[[], int]) -> int:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    except KeyboardInterrupt:  # before the work, and so none of its faults
        return BEFORE
    return work()


def finish(pid: int, folder: Path, begin: float, deadline: float = PATIENCE_SECONDS) -> Ended:
    """Wait for the end of a function. Raises TimeoutError, after killing its process."""
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() - begin > deadline:
            end_group(pid)
            os.waitpid(pid, 0)
            raise TimeoutError(f"not done after {deadline:.0f} s: {read(folder / 'err')[-300:]}")
        time.sleep(POLL_SECONDS)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return Ended(code, read(folder / "out"), read(folder / "err"), time.monotonic() - begin)


def run(work: Callable[[], int], folder: Path, deadline: float = PATIENCE_SECONDS) -> Ended:
    """Run a function to its end. Raises TimeoutError when it takes longer than the deadline, in seconds."""
    begin = time.monotonic()
    return finish(start(work, folder), folder, begin, deadline)


def struck(work: Callable[[], int], folder: Path, seconds: float, number: int = signal.SIGKILL) -> Ended:
    """Run a function, and send its process a signal after a number of seconds, if it still runs."""
    begin = time.monotonic()
    pid = start(work, folder)
    while time.monotonic() - begin < seconds:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            return finish(pid, folder, begin)
        time.sleep(POLL_SECONDS)
    os.kill(pid, number)
    return finish(pid, folder, begin)


def end_group(pid: int) -> None:
    """Kill the processes that a function has started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def read(path: Path) -> str:
    """Return a file's text, "" if there is no file."""
    return path.read_text(errors="replace") if path.exists() else ""
