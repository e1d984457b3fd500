"""The process that compiles: reads requests and fills the cache on disk, see `helper`."""

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
"""How far whoever started this process stands back."""


def main() -> None:
    """Compile what lines of the standard input ask for, until there are no more for a while."""
    _stand_back(NICENESS)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        while line := lines.get(timeout=IDLE_SECONDS):
            _compile(line)


def _stand_back(niceness: int) -> None:
    """Leave the processors to others where they are wanted, at least as much as that says."""
    if hasattr(os, "nice"):
        niceness = os.nice(max(0, _BEGIN + niceness - os.nice(0)))
    # Where the kernel groups processes by session, niceness counts within a group, and a group has its own.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


def _read(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    if os.environ.get(TEMPORARY_VARIABLE):
        os._exit(0)  # the cache goes with the program that asked
    lines.put("")


def _compile(line: str) -> None:
    group, module, name, packed, niceness = json.loads(line)
    _stand_back(niceness)
    with compiling(group):
        entry = getattr(importlib.import_module(module), name)
        entry.compile(pickle.loads(base64.b64decode(packed)))
