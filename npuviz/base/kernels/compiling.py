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

from npuviz.base.kernels.helper import IDLE_SECONDS, TEMPORARY_VARIABLE, compiling

NICENESS = 3


def main() -> None:
    """Compile what lines of the standard input ask for, until there are no more for a while."""
    _stand_back()
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    with contextlib.suppress(queue.Empty):
        while line := lines.get(timeout=IDLE_SECONDS):
            _compile(line)


def _stand_back() -> None:
    """Leave the processors to others where they are wanted."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    # Where the kernel groups processes by session, niceness counts within a group, and a group has its own.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


def _read(lines: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    if os.environ.get(TEMPORARY_VARIABLE):
        os._exit(0)  # the cache goes with the program that asked
    lines.put("")


def _compile(line: str) -> None:
    group, module, name, packed = json.loads(line)
    with compiling(group):
        entry = getattr(importlib.import_module(module), name)
        entry.compile(pickle.loads(base64.b64decode(packed)))
