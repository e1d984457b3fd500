"""Why a machine stopped, and the conditions under which it shall."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class StopKind(StrEnum):
    """What ended an `advance`."""

    UNTIL = "until"
    BREAKPOINT = "breakpoint"
    FINISHED = "finished"
    FAULT = "fault"
    DEADLOCK = "deadlock"
    HANG = "hang"
    EVENTS_FULL = "events-full"
    INTERRUPTED = "interrupted"
    START = "start"


BROKEN = frozenset({StopKind.FAULT, StopKind.DEADLOCK, StopKind.HANG})
"""The simulated chip misbehaves: nothing can happen any more."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Where and why a machine stopped. Several breakpoints may hit in one cycle.

    cycle        base-clock cycles completed: a condition that became true during cycle c stops
                 at cycle c + 1, when its effect can be seen
    breakpoints  ids of the breakpoints that hit, rising
    unit         name of the unit concerned, "" if none
    detail       one sentence for the user
    """

    kind: StopKind
    cycle: int
    breakpoints: tuple[int, ...] = ()
    unit: str = ""
    detail: str = ""


STOP_WORDS = 6
"""Words of a stop row: (test, subject, low, high, comparison, breakpoint id)."""

# test: what a row watches
STOP_INSTRUCTION = 1
"""An instruction with low <= index < high starts; subject is ignored."""
STOP_QUEUE = 2
"""The occupancy of queue `subject` compared with `low`; hits when it becomes true."""
STOP_MEMORY_READ = 3
"""An instruction reads memory `subject` within [low, high)."""
STOP_MEMORY_WRITE = 4
"""An instruction writes memory `subject` within [low, high)."""
STOP_NODE_START = 5
"""The first instruction of graph node `subject` starts."""
STOP_NODE_END = 6
"""The last work of graph node `subject` ends."""

# comparison codes
CMP_GE = 0
CMP_GT = 1
CMP_LE = 2
CMP_LT = 3
CMP_EQ = 4
CMP_NE = 5


def stop_table(rows: list[tuple[int, int, int, int, int, int]]) -> np.ndarray:
    """Make the (n, 6) int64 table that `Machine.advance` takes."""
    return np.array(rows, dtype=np.int64).reshape(len(rows), STOP_WORDS)


NO_STOPS = stop_table([])
