"""Digest, for each read of a run, the writes that it sees in their order:
the version of memory that it reads.

Two runs of a program in which every read sees the same version compute the same values, whatever their
timing.
"""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.access_order import READS, WRITES, AccessTable
from npuviz.sim.replay.versions_kernels import number_versions

_TURN_BITS = 24


@dataclass(frozen=True)
class Cells:
    """Ranges of bytes that every row of a table consists of, each with a number.

    rows  (m, 5) int64 as `number_versions` takes them; count  number of all cells
    """

    rows: np.ndarray
    count: int


@dataclass(frozen=True)
class Versions:
    """The versions of memory that a run read.

    order    (n, 3) int64: entry, phase, cycle
    keys     (n,) int64: entry and its turn; equal in runs of one program for the same piece of work
    digests  (n,) int64: digest of the version that was read, 0 for a row of writes
    """

    order: np.ndarray
    keys: np.ndarray
    digests: np.ndarray


def cells_of(table: AccessTable) -> Cells:
    """Cut each memory where some row begins or ends, so that every row is made of whole cells."""
    rows = table.rows
    made = np.zeros((len(rows), 5), np.int64)
    made[:, 0] = rows[:, 1]
    count = 0
    by_memory = np.argsort(rows[:, 0], kind="stable")
    _, begins = np.unique(rows[by_memory, 0], return_index=True)
    for mine in np.split(by_memory, begins[1:]) if len(rows) else ():
        bank, banks, low, high = (rows[mine, column] for column in (2, 3, 4, 5))
        across = np.unique(np.concatenate([bank, bank + banks]))
        along = np.unique(np.concatenate([low, high]))
        width = len(along)
        first = np.searchsorted(along, low)
        top = np.searchsorted(across, bank)
        made[mine, 1] = count + top * width + first
        made[mine, 2] = np.maximum(np.searchsorted(along, high) - first, 0)
        made[mine, 3] = np.searchsorted(across, bank + banks) - top
        made[mine, 4] = width
        count += len(across) * width
    return Cells(made, count)


def versions_of(table: AccessTable, cells: Cells, order: np.ndarray) -> Versions:
    """Compute the versions that a run read.

    order  as `HasAccessOrder.access_order` returns it
    """
    found = _numbered(table, cells, order)[0]
    return Versions(order, order[:, 0] << _TURN_BITS | found[:, 0], found[:, 1])


def _numbered(table: AccessTable, cells: Cells, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held = np.zeros((cells.count, 2), np.int64)
    held[:, 1] = -1
    turns = np.zeros(len(table.first) - 1, np.int64)
    found = np.zeros((len(order), 2), np.int64)
    with np.errstate(over="ignore"):
        number_versions(np.ascontiguousarray(order), (table.first, cells.rows), held, turns, found)
    return found, held


def changed_reads(nominal: Versions, other: Versions) -> np.ndarray:
    """Return the places in the order of `other`, rising,
    of reads of versions that the nominal run does not read."""
    is_read = (nominal.order[:, 1] & READS) > 0
    keys, digests = nominal.keys[is_read], nominal.digests[is_read]
    by_key = np.argsort(keys, kind="stable")
    keys, digests = keys[by_key], digests[by_key]
    mine = np.flatnonzero(other.order[:, 1] & READS)
    at = np.minimum(np.searchsorted(keys, other.keys[mine]), max(len(keys) - 1, 0))
    if not len(keys):
        return mine
    is_same = (keys[at] == other.keys[mine]) & (digests[at] == other.digests[mine])
    return mine[~is_same]


def place_of(run: Versions, key: int, phase: int) -> int:
    """Return the place of the piece of work with a key in this phase of a run, -1 if there is none."""
    found = np.flatnonzero((run.keys == key) & ((run.order[:, 1] & phase) > 0))
    return int(found[0]) if len(found) else -1


def writers_before(table: AccessTable, cells: Cells, order: np.ndarray, position: int) -> dict[int, int]:
    """Find the last writers of what the work at a place reads there: entry -> its last place in the order.

    -1 stands for bytes that nobody has written.
    """
    entry = int(order[position, 0])
    _, held = _numbered(table, cells, order[:position])
    found: dict[int, int] = {}
    for row in range(int(table.first[entry]), int(table.first[entry + 1])):
        is_write, begin, count, times, between = cells.rows[row].tolist()
        if is_write:
            continue
        for time in range(times):
            for place in np.unique(held[begin + time * between :][:count, 1]).tolist():
                found[int(order[place, 0]) if place >= 0 else -1] = place
    return found


def both_phases(entries: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """Return an order of work that reads and writes at one moment, its end."""
    phase = np.full(len(entries), READS | WRITES, np.int64)
    return np.stack([entries.astype(np.int64), phase, cycles.astype(np.int64)], axis=1)
