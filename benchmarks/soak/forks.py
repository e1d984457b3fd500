"""Work in processes of its own that begin as copies of this one: nothing is imported or compiled twice."""

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
"""Exit code of work that raised something."""
BEFORE = 98
"""Exit code of work that was interrupted before it began."""


@dataclass(frozen=True)
class Ended:
    """How work ended: its exit code, or minus the signal; what it wrote; how long it took."""

    code: int
    out: str
    error: str
    seconds: float


def start(work: Callable[[], int], folder: Path) -> int:
    """Begin work in a process group of its own, which writes to files in the folder; its process id."""
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
    """Wait for the end of work. Raises TimeoutError, after killing it."""
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
    """Do work to its end. Raises TimeoutError when it takes longer than the deadline, in seconds."""
    begin = time.monotonic()
    return finish(start(work, folder), folder, begin, deadline)


def struck(work: Callable[[], int], folder: Path, seconds: float, number: int = signal.SIGKILL) -> Ended:
    """Do work and send it a signal after so many seconds, if it still runs."""
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
    """Kill what work has started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def read(path: Path) -> str:
    """A file's text, "" if there is none."""
    return path.read_text(errors="replace") if path.exists() else ""
