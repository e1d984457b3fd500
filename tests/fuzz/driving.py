"""Opening a file as npuviz does, running what it holds for a while, and looking at it."""

import io
import time
from pathlib import Path
from typing import Any

from npuviz.base.errors import Cancelled
from npuviz.base.progress import NoProgress
from npuviz.debug.console.debugger import TextDebugger
from npuviz.sim.target import LoadRequest, Target
from npuviz.workbench.choosing import targets
from npuviz.workbench.headless.info import _describe_program, info_text
from npuviz.workbench.opening import OpenOptions, open_file

CYCLES = 2000
PATIENCE_SECONDS = 5.0
"""Processor time after which an attempt is cancelled, as somebody does who presses Esc."""
LOOKS = ("where", "info units", "info queues", "info memory", "info waits", "list", "probes")


class Impatient:
    """Progress that cancels what takes longer than PATIENCE_SECONDS of processor time."""

    def __init__(self) -> None:
        self._end = time.process_time() + PATIENCE_SECONDS

    def report(self, fraction: float, text: str = "") -> None:
        """Raise Cancelled after that time."""
        if time.process_time() > self._end:
            raise Cancelled(f"cancelled at {fraction:.0%}: {text}")


def warm_up(*ids: str) -> None:
    """Have the kernels of these targets."""
    for name in ids:
        targets()[name].warm_up(NoProgress())


def drive(path: Path, cycles: int = CYCLES, **options: Any) -> None:
    """Open a file, describe it, run it for some cycles, and ask the text debugger about it."""
    opened = open_file(path, OpenOptions(**options), Impatient())
    try:
        assert opened.session is not None
        info_text(_describe_program(path, opened.session.program))
        opened.session.go_to(cycles)
        debugger = TextDebugger(opened.session, io.StringIO())
        for line in LOOKS:
            debugger.execute(line)
    finally:
        opened.close()


def load(target: str, path: Path, **request: Any) -> tuple[Target, Any, Any]:
    """The target, and the spec and program it makes of a file."""
    chosen = targets()[target]
    spec, program = chosen.load(LoadRequest(path, **request), Impatient())
    return chosen, spec, program
