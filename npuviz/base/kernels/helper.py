"""The process beside this one that compiles kernels into the cache on disk.

Requests go to it through a pipe, a line each. It is gone when the pipe has been closed and the work is done,
and a while after the last request: whoever started it may end at any time.
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
"""Set where the cache is removed when this program ends."""
IDLE_SECONDS = 5.0
"""After that long without a request a helper goes; the next request starts another."""
NICENESS = 3
"""Of a helper: it leaves the processors to others where they are wanted."""
PATIENT_NICENESS = 10
"""Where code runs meanwhile that came with the package: nobody waits for better."""
PATIENCE = 2
"""So many helpers may end without having done what they were asked for."""


class Helper:
    """Asks for kernels of one group. Functions may be called from any thread."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._given: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    @property
    def is_at_work(self) -> bool:
        """Whether a process lives that compiles the group, of this program or another one, or soon will."""
        process = self._process
        return (
            LULL.has(self.group) or (process is not None and process.poll() is None) or is_locked(self.group)
        )

    def ask(self, module: str, name: str, types: tuple[Any, ...], niceness: int = NICENESS) -> bool:
        """Have a kernel compiled for arguments of these types, if that is not under way already.

        niceness  of the helper from then on, if it is less so
        False if it cannot be had so: there are no further processes, or they fail.
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
                    return True  # another program is at it
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
    """Leave nothing of a helper that has ended."""
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
        # It has just gone: the next request finds that out.
        return process.poll() is None or process.returncode == 0
    return True


@contextlib.contextmanager
def compiling(group: str) -> Generator[None]:
    """Wait until no other process compiles this group into the same cache, and keep others waiting inside."""
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
    """A file whose lock ends with the process that has it; None where there cannot be one."""
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
    """Lock a file; False if another process has it."""
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
        return True  # a file system without locks: two may do the same work
    return True
