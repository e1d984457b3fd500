"""Runs that what is open can be compared with, and the comparison as a window asks for it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import Progress
from npuviz.workbench.comparing.comparison import Run, compare_runs, opened_run
from npuviz.workbench.opening import Opened, OpenOptions


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run to compare with: what people call it, a sentence about it, and how it is opened."""

    title: str
    text: str
    path: Path
    options: OpenOptions


def other_presets(opened: Opened) -> list[OtherRun]:
    """The same model on the other presets of its machine; none of a bundle."""
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
    """What is open, as a run whose end is known; None if it has not come there."""
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
    """`compare_runs` of what is open and another run.

    Neither moves what is open: where its end is not known, the model is run once more beside it.
    Raises UsageError where that would be another run, because values were written by hand, or where
    nothing was recorded; NpuvizError for what cannot be opened; Cancelled.
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
