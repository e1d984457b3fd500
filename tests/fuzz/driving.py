"""Opening a file as npuviz does, running what it holds for a while, and looking at it."""

import io
from pathlib import Path
from typing import Any

from npuviz.base.progress import NoProgress
from npuviz.debug.console.debugger import TextDebugger
from npuviz.sim.target import LoadRequest, Target
from npuviz.workbench.choosing import targets
from npuviz.workbench.headless.info import _describe_program, info_text
from npuviz.workbench.opening import OpenOptions, open_file

CYCLES = 2000
LOOKS = ("where", "info units", "info queues", "info memory", "info waits", "list", "probes")


def warm_up(*ids: str) -> None:
    """Have the kernels of these targets."""
    for name in ids:
        targets()[name].warm_up(NoProgress())


def drive(path: Path, cycles: int = CYCLES, **options: Any) -> None:
    """Open a file, describe it, run it for some cycles, and ask the text debugger about it."""
    opened = open_file(path, OpenOptions(**options))
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
    spec, program = chosen.load(LoadRequest(path, **request), NoProgress())
    return chosen, spec, program
