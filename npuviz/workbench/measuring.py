"""Measures the cycles of a model on a choice of machine and settings by a run of limited duration."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from npuviz.base.errors import Cancelled, NpuvizError
from npuviz.base.progress import Progress
from npuviz.base.units import format_count, format_cycles_as_time
from npuviz.debug.session import Session
from npuviz.sim.stop import StopKind, StopReason
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.trust import scripts_to_run

LIMIT_SECONDS = 20.0
ESTIMATED = ("estimated", "not-simulated", "assumed")
"""Codes of notes that say how far the figures of a run can be trusted."""


@dataclass(frozen=True)
class Measured:
    """Result of a run.

    cycles      of the whole run, or up to where it was stopped; -1 if it did not begin
    is_whole    whether it reached the end of the program
    open_seconds  of reading, compiling and building
    notes       what in the figures is estimated, assumed or left out
    problem     why there are no figures, "" if there are
    """

    options: OpenOptions
    cycles: int = -1
    is_whole: bool = False
    frequency_hz: float = 0.0
    instructions: int = 0
    open_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def cycles_text(self) -> str:
        """Cycles of the run as text: "more than N" if it did not reach its end, "unknown" if it did not
        begin."""
        if self.cycles < 0:
            return "unknown"
        return format_count(self.cycles) if self.is_whole else f"more than {format_count(self.cycles)}"

    @property
    def time_text(self) -> str:
        """Time of the cycles on the chip as text, "" if unknown."""
        return format_cycles_as_time(self.cycles, self.frequency_hz) if self.cycles >= 0 else ""


def measure(
    path: Path, options: OpenOptions, progress: Progress, limit_seconds: float = LIMIT_SECONDS
) -> Measured:
    """Open a model without a trace and run it for at most `limit_seconds` of simulation.

    Starts no script of the files. An error goes to the result's `problem`. Raises Cancelled.
    """
    if scripts := scripts_to_run(path, options):
        names = ", ".join(script.name for script in scripts)
        return Measured(options, problem=f"unknown: compiling it takes running {names}")
    try:
        opened = open_file(path, replace(options, is_recording=False, record=None), progress)
    except Cancelled:
        raise
    except NpuvizError as error:
        return Measured(options, problem=str(error))
    session = opened.session
    if session is None:
        return Measured(options, problem="a recorded trace runs on nothing")
    with _stopped_after(session, limit_seconds):
        stop = session.run(None, progress)
    codes = [note for note in session.program.notes if note.code in ESTIMATED]
    return Measured(
        options,
        session.cycle,
        stop.kind is StopKind.FINISHED,
        session.description.base_clock.frequency_hz,
        len(session.program.listing),
        sum(opened.seconds.values()),
        tuple(note.text for note in codes),
        _problem(stop),
    )


def _problem(stop: StopReason) -> str:
    if stop.kind in (StopKind.FINISHED, StopKind.INTERRUPTED):
        return ""
    return f"{stop.kind.value}: {stop.detail}" if stop.detail else stop.kind.value


@contextmanager
def _stopped_after(session: Session, seconds: float) -> Generator[None]:
    timer = threading.Timer(seconds, session.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
