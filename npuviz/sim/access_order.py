"""What the pieces of work of a run read and write, and in which order they did: from it follows whether two
runs of one program read the same versions of memory."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from npuviz.program.instruction import Instruction
from npuviz.trace.reader import TraceReader

READS, WRITES = 1, 2
"""Phases of a row of an access order: the work reads, it writes, or both at once (their sum)."""
ACCESS_COLUMNS = 7
DENSE, SPARSE, ADDING = range(3)
"""Kinds of rows: all of their bytes are touched; some; or what is written adds to what was there."""
NEVER_DONE = np.zeros((0, 3), np.int64)


class ExactAccesses(Protocol):
    """Which bytes entries of a table really touch, where rows have gaps."""

    def shares(self, first: int, second: int) -> bool:
        """Whether an entry writes a byte that another one reads."""
        ...

    def touches(self, entry: int, memory: int, address: int, *, is_write: bool) -> bool:
        """Whether an entry reads, or writes, a byte of a memory."""
        ...


class AccessNames(Protocol):
    """What the entries of a table are called, and the places that its rows are about."""

    def work(self, entry: int) -> tuple[Instruction, str]:
        """The instruction of an entry, or what stands for it, and the unit that ran it."""
        ...

    def place(self, memory: int, low: int, high: int) -> str:
        """Bytes low to high - 1 of a memory, for people; "" for what is not worth naming."""
        ...

    def beginning(self, memory: int, address: int) -> str:
        """What was there before anything was written; "" for what is not worth naming."""
        ...

    def output(self, entry: int) -> str:
        """Under which name something leaves the machine through an entry; "" if it does not."""
        ...


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
    links         (k, 2) int64: entries, the second of which uses on the chip what the first made there; the
                  rows tell nothing of that
    kinds         (m,) int64 by row: DENSE, SPARSE or ADDING; empty: all are DENSE
    patterns      (m,) int64 by row: rows that touch the very same bytes have one number; empty: none do
    exact         what rows that are not DENSE really touch; None where nobody knows
    names         what things are called that the listing and the description do not know; None: they do
    """

    first: np.ndarray
    rows: np.ndarray
    instructions: np.ndarray
    left_out: tuple[str, ...] = ()
    needs_trace: bool = False
    has_values: bool = True
    links: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    kinds: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    patterns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    exact: ExactAccesses | None = None
    names: AccessNames | None = None

    @cached_property
    def traits(self) -> tuple[np.ndarray, np.ndarray]:
        """`kinds` and `patterns` of every row."""
        count = len(self.rows)
        kinds = self.kinds if len(self.kinds) else np.full(count, DENSE, np.int64)
        return kinds, self.patterns if len(self.patterns) else np.arange(count, dtype=np.int64)

    def rows_of(self, entry: int, *, is_write: bool) -> np.ndarray:
        """The rows of what an entry reads, or writes."""
        rows = self.rows[self.first[entry] : self.first[entry + 1]]
        return rows[rows[:, 1] == int(is_write)]


@dataclass(frozen=True)
class RecordedAccesses:
    """What a stretch of a run touched, each piece of work once, in its order.

    order  (n, 3) int64 as `HasAccessOrder.access_order`; begin, end  cycles of the stretch
    reads  (m, 4) int64, in that order: place, what is equal for the same read in another run of the program,
           row of the table, 32 bits of the value
    turns  (k, 4) int64: the same of work that takes what comes, in the order in which it comes: place, where,
           row of the table, and what took what
    leaves (k, 6) int64: place, command and part of what leaves the machine there, its memory, first byte, and
           bytes of a word
    timed  (t,) int64: places of work that reads a timer
    """

    table: AccessTable
    order: np.ndarray
    begin: int
    end: int
    reads: np.ndarray
    turns: np.ndarray
    leaves: np.ndarray
    timed: np.ndarray


@runtime_checkable
class RecordsAccesses(Protocol):
    """A machine that knows what its work touches only while it runs, and tells that when asked to."""

    def work_so_far(self) -> int:
        """How much has been done up to now, in pieces of work, about."""
        ...

    def record_accesses(self, until: int) -> RecordedAccesses:
        """Run from now to a cycle, at which it has been before, and tell what was touched."""
        ...

    def results(self) -> np.ndarray:
        """(n, 4) int64 of what has left the machine up to now: command, part, number of a word, bits."""
        ...


@runtime_checkable
class HasAccessOrder(Protocol):
    """A machine whose program says which bytes each piece of work touches."""

    def access_table(self) -> AccessTable:
        """What each piece of work of the program touches."""
        ...

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """(n, 3) int64 of the run so far: entry, phase and cycle, in the order in which contents changed.

        Work of which only links tell has phase 0, once it has ended.

        trace  what was recorded, if the table asks for it
        """
        ...

    def values_at(self, position: int) -> bytes | None:
        """Bytes that are equal in two runs where the work at a place of the order had the same values.

        None: the machine cannot tell without going to that cycle.
        """
        ...
