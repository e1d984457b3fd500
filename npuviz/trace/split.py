"""Split raw event rows, as kernels write them, into columns grouped by track."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.trace.schema import EVENT_WORDS, TraceSchema
from npuviz.trace.split_kernels import assign_keys, count_tracks, scatter

BATCH_ROWS = 1 << 17
"""Rows sorted at once: few enough that the scratch memory stays in the cache."""

_ANY_CYCLE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Rows ordered by key; the rows of a group are [offsets[key], offsets[key + 1]) of every column.

    first, second, third  words 1 to 3 of the event rows; code is the low half of word 0
    The arrays belong to the splitter and live until its next batch.
    """

    first: np.ndarray
    second: np.ndarray
    third: np.ndarray
    code: np.ndarray
    offsets: np.ndarray

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Yield each key that has rows, with the slice of its rows."""
        for key in np.flatnonzero(np.diff(self.offsets)):
            yield int(key), slice(int(self.offsets[key]), int(self.offsets[key + 1]))


class Splitter:
    """Splits the batches of one trace, given in the order of recording,
    and checks the order within each track."""

    def __init__(self, schema: TraceSchema) -> None:
        self._schema = schema
        self._is_counter = np.array([track.kind == "counter" for track in schema.tracks], dtype=np.uint8)
        self._num_kinds = schema.num_kinds
        self._num_memories = len(schema.memory_names)
        self._floor = int(_ANY_CYCLE)
        self._last = np.full(len(schema.tracks), _ANY_CYCLE, dtype=np.int64)
        self._keys = np.empty(0, dtype=np.int32)
        self._columns: tuple[np.ndarray, ...] = ()

    @property
    def flow_key(self) -> int:
        """Key of the flows; smaller keys are tracks, larger ones memories, the last one causes."""
        return len(self._schema.tracks)

    @property
    def cause_key(self) -> int:
        """Key of the causes."""
        return self.flow_key + 1 + self._num_memories

    def forget_from(self, cycle: int) -> None:
        """Drop rows from before `cycle` from now on: history was cut there, and they are known already."""
        self._floor = cycle
        self._last[:] = _ANY_CYCLE

    def count_by_track(self, pages: Sequence[np.ndarray]) -> np.ndarray:
        """Return an upper bound of the number of rows of each track in the pages (int64)."""
        counts = np.zeros(self.flow_key, dtype=np.int64)
        for rows in pages:
            count_tracks(rows, counts)
        return counts

    def split(self, rows: np.ndarray) -> Iterator[SplitRows]:
        """Split the rows (n, 4), and yield them in batches.
        Raises SimulationError for rows that no trace may have."""
        for begin in range(0, len(rows), BATCH_ROWS):
            yield self._split_batch(rows[begin : begin + BATCH_ROWS])

    def _split_batch(self, rows: np.ndarray) -> SplitRows:
        count = len(rows)
        if len(self._keys) < count:
            self._keys = np.empty(count, dtype=np.int32)
            self._columns = tuple(np.empty(count, dtype=np.int64) for _ in range(3))
            self._columns += (np.empty(count, dtype=np.int32),)
        offsets = np.zeros(self.cause_key + 2, dtype=np.int64)
        bad = assign_keys(
            rows,
            self._is_counter,
            self._num_kinds,
            self._num_memories,
            self._floor,
            self._last,
            self._keys,
            offsets[1:],
        )
        if bad >= 0:
            raise SimulationError(self._complaint(rows[bad]))
        np.cumsum(offsets, out=offsets)
        first, second, third, code = self._columns
        scatter(rows, self._keys, offsets[:-1].copy(), first, second, third, code)
        used = int(offsets[-1])
        return SplitRows(first[:used], second[:used], third[:used], code[:used], offsets)

    def _complaint(self, row: np.ndarray) -> str:
        head, first, second, _ = (int(word) for word in row)
        owner = head >> 32 & 0xFFFFFF
        tracks = self._schema.tracks
        name = tracks[owner].name if owner < len(tracks) else f"track {owner} (there are {len(tracks)})"
        return (
            f"event of type {head >> 56}, code {head & 0xFFFFFFFF} on {name}, cycles {first} to {second}: "
            f"types, kinds and tracks must be known, and rows of a track must rise without overlap"
        )


def empty_rows(count: int) -> np.ndarray:
    """Return an array for `count` event rows, not initialised."""
    return np.empty((count, EVENT_WORDS), dtype=np.int64)
