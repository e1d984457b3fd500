"""Tell what each piece of work of a run reads and writes, and in which order contents changed: two runs of
one program read the same versions of memory if these orders agree."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from npuviz.program.instruction import Instruction
from npuviz.trace.reader import TraceReader

READS, WRITES = 1, 2
"""Phases of a row of an access order: the work reads, it writes, or both at once (the sum)."""
ACCESS_COLUMNS = 7
DENSE, SPARSE, ADDING = range(3)
"""Kinds of rows: all bytes of the range are touched; only some are;
or what is written is added to what was there."""
NEVER_DONE = np.zeros((0, 3), np.int64)


class ExactAccesses(Protocol):
    """Tells which bytes the entries of a table touch exactly, for rows with gaps."""

    def shares(self, first: int, second: int) -> bool:
        """Whether an entry writes a byte that another one reads."""
        ...

    def touches(self, entry: int, memory: int, address: int, *, is_write: bool) -> bool:
        """Whether an entry reads, or writes, a byte of a memory."""
        ...


class AccessNames(Protocol):
    """Names the entries of a table and the places of its rows for people."""

    def work(self, entry: int) -> tuple[Instruction, str]:
        """Return the instruction of an entry, or one that stands for it,
        and the name of the unit that ran it."""
        ...

    def place(self, memory: int, low: int, high: int) -> str:
        """Return text for bytes low to high - 1 of a memory; "" for bytes that need no name."""
        ...

    def beginning(self, memory: int, address: int) -> str:
        """Return text for what the bytes held before anything was written; "" for bytes that need no name."""
        ...

    def output(self, entry: int) -> str:
        """Return the name of the output that leaves the machine through an entry; "" if none does."""
        ...


@dataclass(frozen=True)
class AccessTable:
    """What each piece of work (entry) of a program reads and writes, whenever that happens.

    first         (entries + 1,) int64: rows of each entry
    rows          (m, 7) int64: memory, is write, first bank, banks, low, high, bytes between banks; bytes low
                  to high - 1 of each of the banks; of an access with gaps, its whole extent
    instructions  (entries,) int64: listing index of each entry
    left_out      accesses that the rows leave out, in words
    needs_trace   the order comes from a recorded trace, not from the machine's state; values are then read
                  from memory at the cycle
    has_values    whether the machine computes contents
    links         (k, 2) int64: entries, the second of which uses data that the first made on the chip;
                  these have no rows
    kinds         (m,) int64 by row: DENSE, SPARSE or ADDING; empty: all are DENSE
    patterns      (m,) int64 by row: rows with equal numbers touch exactly the same bytes; empty: none do
    exact         tells which bytes rows that are not DENSE touch; None if that is not known
    names         names that the listing and the description lack; None if they have all
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
        """`kinds` and `patterns` with one element for every row."""
        count = len(self.rows)
        kinds = self.kinds if len(self.kinds) else np.full(count, DENSE, np.int64)
        return kinds, self.patterns if len(self.patterns) else np.arange(count, dtype=np.int64)

    def rows_of(self, entry: int, *, is_write: bool) -> np.ndarray:
        """Return the rows that an entry reads (or writes, with `is_write`)."""
        rows = self.rows[self.first[entry] : self.first[entry + 1]]
        return rows[rows[:, 1] == int(is_write)]


@dataclass(frozen=True)
class RecordedAccesses:
    """Memory accesses of a stretch of a run, each piece of work once, in the order of the run.

    order  (n, 3) int64 as `HasAccessOrder.access_order`; begin, end  cycles of the stretch
    reads  (m, 4) int64, in that order: place in `order`, a key that the same read has in every run,
           row of the table, 32 bits of the value
    turns  (k, 4) int64: words that start tasks, which an element takes in their order of arrival: place in
           `order`, element, row of the table, task << 32 | value
    leaves (k, 6) int64: what leaves the machine: place in `order`, command, number of the element in its
           region, memory, first byte, bytes of a word
    timed  (t,) int64: places in `order` of work that reads a timer
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
    """A machine that finds out which memory its work touches only by running, and records it when asked."""

    def work_so_far(self) -> int:
        """Return about how many pieces of work have been done so far."""
        ...

    def record_accesses(self, until: int) -> RecordedAccesses:
        """Run from now to a cycle that was reached before, and return what was touched on the way."""
        ...

    def results(self) -> np.ndarray:
        """Return what has left the machine so far, (n, 4) int64: command, part, number of a word, bits."""
        ...


@runtime_checkable
class HasAccessOrder(Protocol):
    """A machine whose program tells which bytes each piece of work touches."""

    def access_table(self) -> AccessTable:
        """Return which bytes each piece of work of the program touches."""
        ...

    def access_order(self, trace: TraceReader | None) -> np.ndarray:
        """Return the order of the run so far, (n, 3) int64:
        entry, phase and cycle, in the order in which contents changed.

        Work that has links but no rows comes with phase 0, once it has ended.

        trace  the recorded trace, needed if the table's `needs_trace` is set
        """
        ...

    def values_at(self, position: int) -> bytes | None:
        """Return bytes that are equal in two runs if the work at this place of the order
        had the same values in both.

        Returns None if the machine would have to go back to that cycle.
        """
        ...
