"""Step one processing element by line, call and task, by means of stop rows (breakpoint id 0)."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.program.instruction import Listing
from npuviz.program.source import HasSource
from npuviz.sim.frames import Frame, HasFrames
from npuviz.sim.machine import Machine
from npuviz.sim.stop import STOP_INSTRUCTION, stop_table

OUTERMOST = 1
"""Call depth of the task itself."""


class LineStep(StrEnum):
    """How a step to another line treats calls."""

    INTO = "into"
    OVER = "over"
    OUT = "out"


def frames_of(machine: Machine, element: int) -> Sequence[Frame]:
    """Return the active calls of an element. Raises UsageError for a machine without calls."""
    if not isinstance(machine, HasFrames):
        raise UsageError("this machine does not run compiled texts: step by cycle or by instruction")
    return machine.frames(element)


def line_rows(listing: Listing, frames: Sequence[Frame], element: int, how: LineStep) -> np.ndarray:
    """Return rows that hit when the element comes to another line, or begins a task."""
    tasks = task_rows(listing, element)
    everything = [(0, len(listing))]
    if not frames:
        return tasks
    if how is LineStep.OUT:
        depth = len(frames) - 1
        return np.concatenate([_rows(everything, element, depth), tasks]) if depth >= OUTERMOST else tasks
    others = _others(listing, frames[0].instruction)
    depth = len(frames) if how is LineStep.OVER else 0
    return np.concatenate([_rows(others, element, depth), tasks])


def rows_back(listing: Listing, frames: Sequence[Frame], element: int, how: LineStep) -> np.ndarray:
    """Return rows as `line_rows` for going back;
    for an element that runs nothing, rows that hit where it last ran."""
    if frames:
        return line_rows(listing, frames, element, how)
    return _rows([(0, len(listing))], element, 0 if how is LineStep.INTO else OUTERMOST)


def same_line_rows(listing: Listing, frame: Frame, element: int) -> np.ndarray:
    """Return rows that hit at any instruction of the line that a frame is in."""
    return _rows(_ranges(listing, frame.instruction), element, 0)


def is_same_line(listing: Listing, one: Frame, other: Frame) -> bool:
    """Whether two frames are at the same line."""
    return _ranges(listing, one.instruction) == _ranges(listing, other.instruction)


def task_rows(listing: Listing, element: int) -> np.ndarray:
    """Return rows that hit when the element begins a task, or a function that the host calls."""
    entries = listing.entries if isinstance(listing, HasSource) else ()
    ranges = [(index, index + 1) for entry in entries for index in entry.instructions]
    return _rows(ranges, element, OUTERMOST)


def _ranges(listing: Listing, instruction: int) -> list[tuple[int, int]]:
    place = listing.place_of(instruction) if isinstance(listing, HasSource) else None
    if place is None or not isinstance(listing, HasSource):
        return [(instruction, instruction + 1)]
    return listing.ranges_of_line(place.file, place.line)


def _others(listing: Listing, instruction: int) -> list[tuple[int, int]]:
    """Return the ranges of all instructions except those of one instruction's line."""
    found: list[tuple[int, int]] = []
    at = 0
    for low, high in _ranges(listing, instruction):
        if low > at:
            found.append((at, low))
        at = max(at, high)
    if at < len(listing):
        found.append((at, len(listing)))
    return found


def _rows(ranges: Sequence[tuple[int, int]], element: int, depth: int) -> np.ndarray:
    return stop_table([(STOP_INSTRUCTION, 1 + element, low, high, depth, 0) for low, high in ranges])


def place_text(machine: Machine, element: int) -> str:
    """Describe where an element is, as "heat/pe.csl:42 in compute", as far as known."""
    frames, listing = frames_of(machine, element), machine.program.listing
    if not frames:
        return "it runs nothing now"
    if not isinstance(listing, HasSource):
        return ""
    place = listing.place_of(frames[0].instruction)
    text = f"{listing.sources[place.file].name}:{place.line} " if place is not None else ""
    return f"{text}in {frames[0].name}"
