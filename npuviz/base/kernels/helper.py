"""Start and ask the helper process that compiles kernels into the cache on disk.

Requests go to it through a pipe, one a line. The process ends when the pipe is closed and its work is done,
or IDLE_SECONDS after the last request, so that the program that started it may end at any time.
"""

import base64
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import IO, Any

from npuviz.base.kernels.lull import LULL

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
TEMPORARY_VARIABLE = "NPUVIZ_KERNELS_TEMPORARY"
"""Environment variable, set where the cache is removed when this program ends."""
IDLE_SECONDS = 5.0
"""Seconds without a request after which a helper ends; the next request starts another."""
NICENESS = 3
"""Niceness of a helper, so that other processes get the processors first."""
PATIENT_NICENESS = 10
"""Niceness of a helper while shipped code runs in place of what it compiles: nobody waits for it."""
PATIENCE = 2
"""Number of helpers that may end without having compiled a request before it is refused."""


class Helper:
    """Asks a helper process to compile the kernels of one group. Methods may be called from any thread."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._given: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    @property
    def is_at_work(self) -> bool:
        """Whether a process compiles the group now, for this program or another one, or a kept request will
        start one."""
        process = self._process
        return (
            LULL.has(self.group) or (process is not None and process.poll() is None) or is_locked(self.group)
        )

    def ask(self, module: str, name: str, types: tuple[Any, ...], niceness: int = NICENESS) -> bool:
        """Ask for a kernel to be compiled for arguments of these types, unless it is being compiled already.

        niceness  least niceness of the helper from then on
        Returns False if no helper can be started or PATIENCE of them failed: the caller must compile itself.
        """
        packed = base64.b64encode(pickle.dumps(types)).decode()
        line = json.dumps([self.group, module, name, packed, niceness])
        if LULL.keeps(self.group, line, partial(self.ask, module, name, types, niceness)):
            return True
        with self._lock:
            process, times = self._given.get(line, (None, 0))
            if process is not None and process.poll() is None:
                return True
            if times >= PATIENCE:
                return False
            if self._process is None or self._process.poll() is not None:
                if is_locked(self.group):
                    return True  # another program compiles this group
                self._process = _start()
            if self._process is None or not _write(self._process, line):
                return False
            self._given[line] = (self._process, times + 1)
            return True


def _start() -> subprocess.Popen[bytes] | None:
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", "from npuviz.base.kernels.compiling import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
    except OSError:
        return None
    threading.Thread(target=_reap, args=(process,), name="npuviz helper", daemon=True).start()
    return process


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a helper and close its pipe."""
    process.wait()
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()


def _write(process: subprocess.Popen[bytes], line: str) -> bool:
    assert process.stdin is not None
    try:
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
    except (OSError, ValueError):
        # The helper has just ended; the next request starts another.
        return process.poll() is None or process.returncode == 0
    return True


@contextlib.contextmanager
def compiling(group: str) -> Generator[None]:
    """Wait until no other process compiles this group into the same cache, and keep others out inside the
    block."""
    with _lock_file(group) as file:
        if file is not None:
            _lock(file, is_patient=True)
        yield


def is_locked(group: str) -> bool:
    """Whether a process compiles this group into the same cache now."""
    with _lock_file(group) as file:
        return file is not None and not _lock(file, is_patient=False)


@contextlib.contextmanager
def _lock_file(group: str) -> Generator[IO[bytes] | None]:
    """Open the lock file of a group, whose lock ends with its process; yield None if it cannot be opened."""
    file = None
    with contextlib.suppress(OSError):
        folder = Path(os.environ[CACHE_VARIABLE])
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f"{group}.lock").open("ab")
    if file is None:
        yield None
        return
    with file:
        yield file


def _lock(file: IO[bytes], is_patient: bool) -> bool:
    """Lock a file; return False if another process has it."""
    try:
        if os.name == "nt":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if is_patient else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True  # a file system without locks: two processes may do the same work
    return True
