"""Lists the runs that the open run can be compared with, and compares it with one of them for the window."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import Progress
from npuviz.workbench.comparing.comparison import Run, compare_runs, opened_run
from npuviz.workbench.opening import Opened, OpenOptions


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run to compare with: its title, a sentence about it, and how to open it."""

    title: str
    text: str
    path: Path
    options: OpenOptions


def other_presets(opened: Opened) -> list[OtherRun]:
    """Return runs of the opened model on the other presets of its target; none for a bundle."""
    target = opened.target
    if opened.session is None or target is None:
        return []
    options = replace(opened.options, target=target.id, record=None)
    return [
        OtherRun(name, text, opened.path, replace(options, preset=name))
        for name, text in target.presets.items()
        if name != opened.preset
    ]


def whole_run(opened: Opened) -> Run | None:
    """Return the opened run if its trace is known up to its end, else None."""
    session, reader = opened.session, opened.reader
    if reader is None:
        return None
    if session is None:
        return Run(opened.title, reader.schema.target, reader, None)
    end = session.end_cycle
    if end is None or session.known_to < end:
        return None
    return Run(opened.title, session.description.target, reader, session.program)


def compare_with(opened: Opened, other: OtherRun, progress: Progress) -> dict[str, Any]:
    """Compare the opened run with another one by `compare_runs`.

    The opened session stays at its cycle: if its end is not known, the model is run again in a session of
    its own.
    Raises UsageError if values were written by hand, since a new run would lack them, or if nothing was
    recorded; NpuvizError for files that cannot be opened; Cancelled.
    """
    run = whole_run(opened)
    if run is None and opened.session is not None and opened.session.is_edited:
        raise UsageError(
            f"{opened.title}: values were written, and the end of that run is not known; run it to "
            "its end (Run > Run to the End), then compare"
        )
    if run is None and opened.session is None:
        raise UsageError(f"{opened.title}: there is no run in it that could be compared")
    if run is None:
        run = opened_run(opened.path, replace(opened.options, record=None), progress)
    return compare_runs(run, opened_run(other.path, other.options, progress))
