"""Store what a memory held and when: rows of one memory, sorted by end."""

import numpy as np

from npuviz.trace.schema import LIFETIME_DTYPE
from npuviz.trace.series import GrowingArray
from npuviz.trace.source import Resolver

_RAW_DTYPE = np.dtype([("start", np.int64), ("end", np.int64), ("bank", np.int32), ("instruction", np.int64)])


class LifetimeSeries:
    """Lifetimes of one memory, as in events; address, size and tensor follow from the instruction."""

    def __init__(self, memory: int, resolve: Resolver) -> None:
        self._memory = memory
        self._resolve = resolve
        self._rows = GrowingArray(_RAW_DTYPE)
        self._longest = 0

    def __len__(self) -> int:
        return self._rows.used

    @property
    def last_end(self) -> int:
        """End of the row that ended last, 0 if there is none."""
        return int(self._rows.written()["end"][-1]) if len(self) else 0

    def append(self, start: np.ndarray, end: np.ndarray, instruction: np.ndarray, bank: np.ndarray) -> None:
        """Add rows; those that ended before the last one there are sorted in."""
        order = np.argsort(end, kind="stable")
        must_sort = len(self) > 0 and bool(end[order[0]] < self.last_end)
        room = self._rows.reserve(len(start))
        for name, column in (("start", start), ("end", end), ("bank", bank), ("instruction", instruction)):
            room[name] = column[order]
        self._longest = max(self._longest, int((end - start).max()))
        if must_sort:
            self._rows.truncate(self._rows.used)
            rows = self._rows.written()
            rows[...] = rows[np.argsort(rows["end"], kind="stable")]

    def truncate(self, cycle: int) -> None:
        """Drop rows that ended after `cycle`."""
        self._rows.truncate(int(np.searchsorted(self._rows.written()["end"], cycle, side="right")))

    def within(self, low: int, high: int) -> np.ndarray:
        """Return the rows that overlap [low, high), of LIFETIME_DTYPE, sorted by end."""
        rows = self._rows.view()
        first, last = np.searchsorted(rows["end"], np.array([low, high + self._longest]), side="right")
        found = rows[first:last]
        found = found[found["start"] < high]
        memory = np.full(len(found), self._memory, dtype=np.int16)
        columns = (found[name] for name in ("start", "end", "bank", "instruction"))
        return resolve_lifetimes(self._resolve, memory, *columns)


def resolve_lifetimes(
    resolve: Resolver,
    memory: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    bank: np.ndarray,
    instruction: np.ndarray,
) -> np.ndarray:
    """Return rows of LIFETIME_DTYPE from the columns of events; without an instruction, size 0."""
    rows = np.zeros(len(start), dtype=LIFETIME_DTYPE)
    rows["memory"], rows["start"], rows["end"], rows["instruction"] = memory, start, end, instruction
    rows["tensor"] = -1
    known = np.flatnonzero(instruction >= 0)
    address, size_bytes, tensor = resolve.destinations_of(np.ascontiguousarray(instruction[known]))
    rows["address"][known], rows["size_bytes"][known], rows["tensor"][known] = address, size_bytes, tensor
    for one in np.unique(memory):
        chosen = memory == one
        rows["address"][chosen] += bank[chosen].astype(np.int64) * resolve.bank_bytes(int(one))
    return rows
