"""Define why a machine stops, and the conditions under which it has to."""

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
"""Kinds of stops after which the simulated chip cannot go on."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Where and why a machine stopped. Several breakpoints may hit in one cycle.

    cycle        base-clock cycles completed: a condition that became true during cycle c stops
                 at cycle c + 1, when its effect can be seen
    breakpoints  ids of the breakpoints that hit, rising
    unit         name of the unit concerned, "" if none
    detail       one sentence for the user
    instruction  the instruction that made a row hit, -1 if none did or it is not known
    """

    kind: StopKind
    cycle: int
    breakpoints: tuple[int, ...] = ()
    unit: str = ""
    detail: str = ""
    instruction: int = -1


STOP_WORDS = 6
"""Words of a stop row: (test, subject, low, high, comparison, breakpoint id)."""

# test: what a row watches
STOP_INSTRUCTION = 1
"""An instruction with low <= index < high starts. In a machine of elements (npuviz.sim.frames) subject is 1 +
the element that runs it, 0 for any, and comparison the most calls deep that it may be, 0 for any depth."""
STOP_QUEUE = 2
"""The comparison of the occupancy of queue `subject` with `low` becomes true."""
STOP_MEMORY_READ = 3
"""An instruction reads memory `subject` within [low, high)."""
STOP_MEMORY_WRITE = 4
"""An instruction writes memory `subject` within [low, high)."""
STOP_NODE_START = 5
"""The first instruction of graph node `subject` starts."""
STOP_NODE_END = 6
"""The last work of graph node `subject` ends."""
STOP_WORD = 7
"""A word of color `subject` (-1: any) reaches the processor of an element; low is 1 + the element, 0 for any.
comparison is 8 * a WORD_ code + a comparison code; high is the bound."""
STOP_PART = 8
"""Part `low` of an element begins something: a microthread begins an operation, a router (`PART_ROUTER`)
passes a word on. subject is 1 + the element; 0 is the host, which begins a command."""

PART_ROUTER = 16
PART_HOST = 17

# what of a word STOP_WORD compares
WORD_ANY = 0
"""Compare nothing: every word hits."""
WORD_DATA = 1
"""Compare the word's 32 bits, unsigned."""
WORD_FLOAT = 2
"""Compare its 32 bits as a float; the bound holds the bits of a 64-bit float."""
WORD_INDEX = 3
"""Compare the upper 16 bits, unsigned."""
WORD_HALF = 4
"""Compare the lower 16 bits, unsigned."""
WORD_CONTROL = 5
"""Compare nothing, but only control words hit."""

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
