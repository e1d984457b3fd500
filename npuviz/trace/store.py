"""Keep a trace in memory: raw event rows first, columns per track as soon as a reader needs them.

Recording costs one copy. Rows are split into tracks when a reader needs them, or when more than
`max_raw_blocks` blocks are waiting, which limits the memory of raw rows besides the columns.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npuviz.trace.lifetimes import LifetimeSeries
from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import (
    CauseSeries,
    CounterSeries,
    CounterView,
    FlowSeries,
    GrowingArray,
    IntervalSeries,
    IntervalView,
    cause_columns,
)
from npuviz.trace.source import Resolver
from npuviz.trace.split import SplitRows, Splitter, empty_rows

FIRST_BLOCK_ROWS = 1 << 15
BLOCK_ROWS = 1 << 20
FEWEST_RAW_BLOCKS, MOST_RAW_BLOCKS = 4, 64
RAW_SHARE = 16
"""Raw rows may take one part in this many of the computer's memory; a row takes as much as its columns."""


def max_raw_blocks() -> int:
    """Return how many full blocks may wait: 48 million rows on a computer with 24 GiB."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return FEWEST_RAW_BLOCKS
    block = BLOCK_ROWS * empty_rows(1).nbytes
    return min(max(memory // RAW_SHARE // block, FEWEST_RAW_BLOCKS), MOST_RAW_BLOCKS)


class TraceStore:
    """All columns of one trace. One thread appends, any number of threads read."""

    def __init__(self, schema: TraceSchema, resolve: Resolver) -> None:
        self._schema = schema
        self._resolve = resolve
        self._splitter = Splitter(schema)
        self._intervals = {
            t.id: IntervalSeries(schema.num_kinds) for t in schema.tracks if t.kind == "interval"
        }
        self._instructions = {track: GrowingArray(np.int64) for track in self._intervals}
        self._counters = {t.id: CounterSeries() for t in schema.tracks if t.kind == "counter"}
        self._flows = FlowSeries()
        self._causes = CauseSeries()
        self._lifetimes = [LifetimeSeries(memory, resolve) for memory in range(len(schema.memory_names))]
        self._horizon = 0
        self._last_end = 0
        self._last_starts = [-1] * len(schema.tracks)
        self._max_waiting = max_raw_blocks()
        self._raw_lock = threading.Lock()
        self._waiting: list[np.ndarray] = []
        self._block = empty_rows(0)
        self._block_used = 0
        self._block_taken = 0
        self._column_lock = threading.RLock()

    # -- the writer -------------------------------------------------------------------------------

    def append(self, rows: np.ndarray) -> None:
        """Copy event rows (n, 4) into the store."""
        done = 0
        while done < len(rows):
            if self._block_used == len(self._block):
                self._start_block()
            count = min(len(rows) - done, len(self._block) - self._block_used)
            used = self._block_used
            self._block[used : used + count] = rows[done : done + count]
            self._block_used = used + count
            done += count
        if len(self._waiting) > self._max_waiting:
            self.absorb()

    def _start_block(self) -> None:
        with self._raw_lock:
            if self._block_used > self._block_taken:
                self._waiting.append(self._block[self._block_taken : self._block_used])
            # Blocks grow, so that a short run does not pay for the pages of a long one.
            rows = max(FIRST_BLOCK_ROWS, 2 * len(self._block))
            self._block = empty_rows(min(rows, BLOCK_ROWS))
            self._block_used = self._block_taken = 0

    def mark(self, cycle: int) -> None:
        """Declare that everything before `cycle` is recorded."""
        self._horizon = max(self._horizon, cycle)

    @property
    def horizon(self) -> int:
        """Cycle up to which everything is recorded."""
        return self._horizon

    def truncate(self, cycle: int) -> None:
        """Drop what happened at `cycle` and later, intervals under way then included.

        Rows from before `cycle` that are appended again afterwards are recognised and dropped.
        """
        with self._column_lock:
            self.absorb()
            for track, series in self._intervals.items():
                count = int(np.searchsorted(series.end.written(), np.int64(cycle), side="right"))
                if count < len(series):
                    series.truncate(count)
                    self._instructions[track].truncate(count)
                    self._last_starts[track] = int(series.start.written()[-1]) if count else -1
            for counter in self._counters.values():
                counter.truncate(int(np.searchsorted(counter.cycle.written(), np.int64(cycle))))
            self._flows.truncate(cycle)
            self._causes.truncate(cycle)
            for lifetimes in self._lifetimes:
                lifetimes.truncate(cycle)
            self._splitter.forget_from(cycle)
            self._last_end = self._find_last_end()
            self._horizon = min(self._horizon, cycle)

    # -- splitting --------------------------------------------------------------------------------

    def absorb(self) -> None:
        """Split all rows that wait. Readers call it; it costs nothing if no rows wait."""
        if not self._waiting and self._block_used == self._block_taken:
            return
        with self._column_lock:
            with self._raw_lock:
                waiting, self._waiting = self._waiting, []
                used = self._block_used
                if used > self._block_taken:
                    waiting.append(self._block[self._block_taken : used])
                    self._block_taken = used
            if waiting:
                self._expect(waiting)
                waiting.reverse()
            while waiting:
                # The memory of a block is freed as soon as its rows are in their columns.
                for batch in self._splitter.split(waiting.pop()):
                    self._last_end = max(self._last_end, self._absorb_batch(batch))

    def _expect(self, pages: list[np.ndarray]) -> None:
        counts = self._splitter.count_by_track(pages)
        # A step has events of few tracks, while a fabric has thousands.
        for track in np.flatnonzero(counts).tolist():
            if track in self._intervals:
                self._intervals[track].expect(int(counts[track]))
                self._instructions[track].expect(int(counts[track]))

    def _absorb_batch(self, batch: SplitRows) -> int:
        """Add rows to their columns; return the end of the last event among them."""
        flow_key, end = self._splitter.flow_key, 0
        for key, place in batch.groups():
            first, second, third = batch.first[place], batch.second[place], batch.third[place]
            if key in self._intervals:
                self._intervals[key].append(first, second, batch.code[place])
                self._instructions[key].append(third)
                self._last_starts[key] = int(first[-1])
                end = max(end, int(second[-1]))
            elif key in self._counters:
                self._counters[key].append(first, second)
                end = max(end, int(first[-1]) + 1)
            elif key == flow_key:
                self._flows.append(first, second, third)
                end = max(end, int(first.max()) + 1)
            elif key == self._splitter.cause_key:
                self._causes.append(cause_columns(first, second, third, batch.code[place]))
            else:
                lifetimes = self._lifetimes[key - flow_key - 1]
                lifetimes.append(first, second, third, batch.code[place])
                end = max(end, lifetimes.last_end)
        return end

    # -- readers: TraceSource ---------------------------------------------------------------------

    @property
    def schema(self) -> TraceSchema:
        """Names and meaning of the rows."""
        return self._schema

    @property
    def is_complete(self) -> bool:
        """True: a store in memory is always complete."""
        return True

    @property
    def model(self) -> Mapping[str, Any]:
        """Empty: the session that owns the store describes the run."""
        return {}

    @property
    def end_cycle(self) -> int:
        """The horizon, or the end of the last event if that is later."""
        with self._column_lock:
            self.absorb()
            return max(self._horizon, self._last_end)

    def _find_last_end(self) -> int:
        """Return the end of the last event in the columns."""
        ends = [int(s.end.written()[-1]) for s in self._intervals.values() if len(s)]
        ends += [int(c.cycle.written()[-1]) + 1 for c in self._counters.values() if c.cycle.used]
        ends += [series.last_end for series in self._lifetimes]
        if len(self._flows):
            ends.append(int(self._flows.view()["cycle"][-1]) + 1)
        return max(ends, default=0)

    @property
    def num_intervals(self) -> int:
        """Number of intervals of all tracks."""
        with self._column_lock:
            self.absorb()
            return sum(len(series) for series in self._intervals.values())

    @property
    def num_events(self) -> int:
        """Number of rows of all kinds that the store has."""
        with self._column_lock:
            self.absorb()
            counters = sum(counter.cycle.used for counter in self._counters.values())
            lifetimes = sum(len(series) for series in self._lifetimes)
            return self.num_intervals + counters + len(self._flows) + len(self._causes) + lifetimes

    def interval_view(self, track: int) -> IntervalView:
        """Return one interval track as it is now. Raises KeyError for another track."""
        with self._column_lock:
            self.absorb()
            current = self._intervals[track].current
            if current is not None:
                return current
            instructions = self._instructions[track].view()
            nodes_of = self._resolve.nodes_of

            def details(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                chosen = instructions[rows]
                nodes = np.full(chosen.shape, -1, dtype=np.int32)
                known = np.flatnonzero(chosen >= 0)
                nodes[known] = nodes_of(np.ascontiguousarray(chosen[known]))
                return nodes, chosen

            return self._intervals[track].view(details)

    def last_starts(self, tracks: Sequence[int]) -> list[int]:
        """Return the start of the last interval of each of some interval tracks,
        -1 for a track without any."""
        with self._column_lock:
            self.absorb()
            return [self._last_starts[track] for track in tracks]

    def instructions_of(self, track: int) -> np.ndarray:
        """Return the instruction of every row of an interval track (int64, -1 none), read-only."""
        with self._column_lock:
            self.absorb()
            return self._instructions[track].view()

    def counter_view(self, track: int) -> CounterView:
        """Return one counter track as it is now. Raises KeyError for another track."""
        with self._column_lock:
            self.absorb()
            return self._counters[track].view()

    def flow_view(self) -> np.ndarray:
        """Return all flows, FLOW_DTYPE, sorted by cycle."""
        with self._column_lock:
            self.absorb()
            return self._flows.view()

    def cause_view(self) -> np.ndarray:
        """Return all causes, CAUSE_DTYPE, in the order of recording."""
        with self._column_lock:
            self.absorb()
            return self._causes.view()

    def lifetimes_within(self, memory: int, low: int, high: int) -> np.ndarray:
        """Return the lifetimes of a memory that overlap [low, high): LIFETIME_DTYPE, sorted by end."""
        with self._column_lock:
            self.absorb()
            return self._lifetimes[memory].within(low, high)
