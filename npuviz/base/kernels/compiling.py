"""Run as the helper process of `helper`: read requests from standard input and compile kernels into the cache
on disk."""

import base64
import contextlib
import importlib
import json
import os
import pickle
import queue
import sys
import threading
from pathlib import Path

from npuviz.base.kernels.helper import IDLE_SECONDS, NICENESS, TEMPORARY_VARIABLE, compiling

_BEGIN = os.nice(0) if hasattr(os, "nice") else 0
"""Niceness with which this process was started."""


def main() -> None:
    """Compile what each line of the standard input asks for, until none comes for IDLE_SECONDS."""
    _stand_back(NICENESS)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        while line := lines.get(timeout=IDLE_SECONDS):
            _compile(line)


def _stand_back(niceness: int) -> None:
    """Lower this process's priority by `niceness` from that with which it was started; never raise it
    again."""
    if hasattr(os, "nice"):
        niceness = os.nice(max(0, _BEGIN + niceness - os.nice(0)))
    # Linux may group processes by session (autogroup): `nice` then counts only inside the group, whose own
    # niceness is in this file.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


def _read(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    if os.environ.get(TEMPORARY_VARIABLE):
        os._exit(0)  # the cache is removed when the program that asked ends
    lines.put("")


def _compile(line: str) -> None:
    group, module, name, packed, niceness = json.loads(line)
    _stand_back(niceness)
    with compiling(group):
        entry = getattr(importlib.import_module(module), name)
        entry.compile(pickle.loads(base64.b64decode(packed)))
