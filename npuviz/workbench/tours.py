"""Reads the tours of the sample models: steps as data, stored beside the samples' pictures."""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from npuviz.workbench.resources import resource_path
from npuviz.workbench.selection import Selection, selected

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader


@dataclass(frozen=True, slots=True)
class TourStep:
    """One sentence or two about a part of the window.

    show     id of a panel, or object name of a control
    do       ids of commands that run when the step begins
    share    position in the run (0..1) that the machine goes to, negative: it stays
    selects  whether to select work that is under way there
    """

    show: str
    text: str
    do: tuple[str, ...] = ()
    share: float = -1.0
    selects: bool = False


@cache
def tour_of(target: str) -> tuple[TourStep, ...]:
    """Return the tour of a target's sample, () if there is none."""
    path = resource_path("samples") / target / "tour.toml"
    if not path.is_file():
        return ()
    steps = tomllib.loads(path.read_text(encoding="utf-8")).get("step", [])
    return tuple(
        TourStep(
            str(step["show"]),
            str(step["text"]),
            tuple(str(name) for name in step.get("do", ())),
            float(step.get("share", -1.0)),
            bool(step.get("select", False)),
        )
        for step in steps
    )


def work_under_way(session: "Session", reader: "TraceReader | None") -> Selection | None:
    """Return a selection of work that is under way, work of an operator first; None if nothing is."""
    busy = sorted(session.machine.activities(), key=lambda each: (each.node < 0, each.instruction < 0))
    if not busy:
        return None
    first = busy[0]
    unit = reader.schema.tracks[first.track].unit if reader is not None else -1
    return selected(node=first.node, instruction=first.instruction, unit=unit, track=first.track)
