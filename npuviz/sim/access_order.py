"""What the pieces of work of a run read and write, and in which order they did: from it follows whether two
runs of one program read the same versions of memory."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from npuviz.trace.reader import TraceReader

READS, WRITES = 1, 2
"""Phases of a row of an access order: the work reads, it writes, or both at once (their sum)."""
ACCESS_COLUMNS = 7
NEVER_DONE = np.zeros((0, 3), np.int64)


@dataclass(frozen=True)
class AccessTable:
    """What each piece of work (entry) of a program reads and writes, whenever that happens.

    first         (entries + 1,) int64: rows of each entry
    rows          (m, 7) int64: memory, is write, first bank, banks, low, high, bytes between banks; bytes low
                  to high - 1 of each of the banks. The whole extent of what has gaps
    instructions  (entries,) int64: listing index of each entry
    left_out      what the rows do not tell, in words
    needs_trace   the order follows from a recorded trace, not from the machine's state; values are then read
                  from memory at the cycle
    has_values    whether the machine computes contents
    """

    first: np.ndarray
    rows: np.ndarray
    instructions: np.ndarray
    left_out: tuple[str, ...] = ()
    needs_trace: bool = False
    has_values: bool = True

    def rows_of(self, entry: int, *, is_write: bool) -> np.ndarray:
        """The rows of what an entry reads, or writes."""
        rows = self.rows[self.first[entry] : self.first[entry + 1]]
        return rows[rows[:, 1] == int(is_write)]


@runtime_checkable
class HasAccessOrder(Protocol):
    """A machine whose program says which bytes each piece of work touches."""

    def access_table(self) -> AccessTable:
        """What each piece of work of the program touches."""
        ...

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """(n, 3) int64 of the run so far: entry, phase and cycle, in the order in which contents changed.

        trace  what was recorded, if the table asks for it
        """
        ...

    def values_at(self, position: int) -> bytes | None:
        """Bytes that are equal in two runs where the work at a place of the order had the same values.

        None: the machine cannot tell without going to that cycle.
        """
        ...
