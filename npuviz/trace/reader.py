"""Answer questions about a trace, in memory or on disk. The cost depends on the pixels asked for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Literal

import numpy as np

from npuviz.trace import pyramid_kernels as kernels
from npuviz.trace.counter_kernels import sample_counter
from npuviz.trace.schema import INTERVAL_DTYPE, TraceSchema
from npuviz.trace.series import CounterView, IntervalView
from npuviz.trace.source import TraceSource

Window = tuple[float, float]
"""Half-open range of cycles [first, end); fractions are allowed, for pixels shorter than a cycle."""


@dataclass(frozen=True, slots=True)
class IntervalColumns:
    """All rows of one interval track as read-only columns, sorted by start."""

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    node: np.ndarray
    instruction: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class CounterColumns:
    """All rows of one counter as read-only columns: `value` holds from `cycle` on."""

    cycle: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.cycle)


class TraceReader:
    """Reads a TraceStore, also while it grows, or a bundle.

    Safe from any thread. Methods raise KeyError for a track of the wrong kind, and FormatError when
    a bundle turns out to be damaged.
    """

    def __init__(self, source: TraceSource) -> None:
        self._source = source

    @property
    def source(self) -> TraceSource:
        """The source that is read."""
        return self._source

    @property
    def schema(self) -> TraceSchema:
        """Names and meaning of the rows."""
        return self._source.schema

    @property
    def model(self) -> Mapping[str, Any]:
        """Contents of the bundle's model.json, which describes the run besides its events;
        empty for a trace in memory."""
        return self._source.model

    @property
    def is_complete(self) -> bool:
        """False for the remains of a run that was killed."""
        return self._source.is_complete

    @property
    def end_cycle(self) -> int:
        """Cycle up to which the trace is known."""
        return self._source.end_cycle

    @property
    def num_intervals(self) -> int:
        """Number of intervals of all tracks."""
        return self._source.num_intervals

    def num_intervals_of(self, track: int) -> int:
        """Return the number of intervals of one track."""
        return len(self._source.interval_view(track).start)

    # -- pictures ---------------------------------------------------------------------------------

    def intervals(self, track: int, window: Window, resolution: float = 1.0) -> np.ndarray:
        """Return the intervals that overlap the window: rows of INTERVAL_DTYPE.

        resolution  cycles per pixel. Intervals shorter than that which begin in one pixel become one
                    row from the first start to the last end: the kind that covers most of it, the
                    node of its first interval, instruction -1.
        """
        view = self._source.interval_view(track)
        low, high = float(window[0]), float(window[1])
        if high <= low or len(view.start) == 0:
            return np.zeros(0, dtype=INTERVAL_DTYPE)
        begin = int(view.end.searchsorted(_bounded(floor(low)), side="right"))
        behind = int(view.start.searchsorted(_bounded(ceil(high))))
        groups = max(behind - begin, 0)
        if resolution > 0:
            groups = min(groups, 2 * ceil((high - low) / resolution) + 4)
        first, last = np.empty(groups, dtype=np.int64), np.empty(groups, dtype=np.int64)
        kinds = np.empty(groups, dtype=np.int16)
        levels = (view.starts, view.sums, view.local, view.owner)
        count = kernels.merge_intervals(
            view.start,
            view.end,
            view.kind,
            *levels,
            low,
            high,
            max(float(resolution), 1e-9),
            first,
            last,
            kinds,
        )
        return _rows(view, first[:count], last[:count] - 1, kinds[:count])

    def utilization(
        self, track: int, window: Window, columns: int, kinds: Collection[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the covered part (float32, 0..1, exact) and the kind that covers most (int16, -1:
        none) of every column.

        kinds  kinds that count, None for all: a track has kinds for waits, too
        """
        view = self._source.interval_view(track)
        covered = np.zeros(columns, dtype=np.float32)
        dominant = np.full(columns, -1, dtype=np.int16)
        low, high = float(window[0]), float(window[1])
        if high > low and columns > 0 and len(view.start):
            wanted = np.ones(len(view.local), dtype=np.uint8)
            if kinds is not None:
                wanted[:] = 0
                wanted[[kind for kind in kinds if 0 <= kind < len(wanted)]] = 1
            levels = (view.starts, view.sums, view.local, view.owner, wanted)
            kernels.utilization(view.start, view.end, view.kind, *levels, low, high, covered, dominant)
        return covered, dominant

    def counter(
        self, track: int, window: Window, points: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return a counter over `points` equal parts of the window.

        Returns the cycle at which each part begins (float64) and the smallest, the largest and the
        last value in it (int64); before its first row a counter is 0.
        """
        view = self._source.counter_view(track)
        low, high = float(window[0]), float(window[1])
        cycles = low + (high - low) / max(points, 1) * np.arange(points)
        small, large, last = (np.zeros(points, dtype=np.int64) for _ in range(3))
        if high > low and points > 0 and len(view.cycle):
            sample_counter(view.cycle, view.value, view.lowest, view.highest, low, high, small, large, last)
        return cycles, small, large, last

    def counter_values(self, track: int, first: int, last: int) -> tuple[int, float, int]:
        """Return smallest, mean and largest value over the cycles [first, last),
        each cycle with equal weight.

        A counter is 0 before its first row. For an empty range, the value at `first` is returned.
        """
        last = max(last, first + 1)
        view = self._source.counter_view(track)
        begin = int(view.cycle.searchsorted(first, side="right")) - 1
        end = int(view.cycle.searchsorted(last))
        values, cycles = view.value[max(begin, 0) : end], view.cycle[max(begin, 0) : end]
        if begin < 0:
            values, cycles = np.append(0, values), np.append(first, cycles)
        weights = np.diff(np.append(np.maximum(cycles, first), last))
        mean = float((values * weights).sum() / (last - first))
        return int(values.min()), mean, int(values.max())

    def flows(self, window: Window, limit: int = 10_000) -> np.ndarray:
        """Return the flows that arrive within the window, FLOW_DTYPE;
        if there are more than `limit`, an even selection."""
        rows = self._source.flow_view()
        keys = np.array([_bounded(ceil(window[0])), _bounded(ceil(window[1]))], dtype=np.int64)
        first, last = (int(i) for i in np.searchsorted(rows["cycle"], keys))
        count = max(last - first, 0)
        if count <= limit:
            return rows[first : first + count]
        return rows[first + np.arange(limit, dtype=np.int64) * count // limit]

    def lifetimes(self, memory: int, window: Window) -> np.ndarray:
        """Return what the memory held within the window: LIFETIME_DTYPE, sorted by end."""
        return self._source.lifetimes_within(memory, _bounded(floor(window[0])), _bounded(ceil(window[1])))

    # -- single rows ------------------------------------------------------------------------------

    def at(self, track: int, cycle: float) -> np.void | None:
        """Return the interval that covers a cycle, a row of INTERVAL_DTYPE, or None."""
        view = self._source.interval_view(track)
        cycle = _bounded(floor(cycle))
        row = _covering(view, cycle)
        return _row(view, row) if row >= 0 else None

    def has_starts(self, tracks: Sequence[int], cycles: Sequence[int]) -> list[bool]:
        """Return, for each track and its cycle, whether the interval that covers the cycle begins there."""
        # Most of the cycles asked for have not been reached yet.
        last = self._source.last_starts(tracks)
        return [
            end >= cycle and self._begins_at(track, cycle)
            for track, cycle, end in zip(tracks, cycles, last, strict=True)
        ]

    def _begins_at(self, track: int, cycle: int) -> bool:
        view = self._source.interval_view(track)
        row = _covering(view, cycle)
        return row >= 0 and int(view.start[row]) == cycle

    def neighbor(self, track: int, cycle: float, direction: Literal[-1, 1]) -> np.void | None:
        """Return the next interval that starts after `cycle` (1), or the last that starts before it (-1)."""
        view = self._source.interval_view(track)
        if direction > 0:
            row = int(view.start.searchsorted(_bounded(floor(cycle)), side="right"))
        else:
            row = int(view.start.searchsorted(_bounded(ceil(cycle)))) - 1
        return _row(view, row) if 0 <= row < len(view.start) else None

    def value_at(self, track: int, cycle: float) -> int:
        """Return the value of a counter during a cycle."""
        view = self._source.counter_view(track)
        row = int(view.cycle.searchsorted(_bounded(floor(cycle)), side="right")) - 1
        return int(view.value[row]) if row >= 0 else 0

    def flows_of(self, instruction: int) -> np.ndarray:
        """Return all flows into and out of one instruction, FLOW_DTYPE. Searches all flows."""
        rows = self._source.flow_view()
        return rows[(rows["source"] == instruction) | (rows["sink"] == instruction)]

    @property
    def causes(self) -> np.ndarray:
        """Causes, which let tracks go on: CAUSE_DTYPE, in the order of recording;
        empty in bundles of version 1."""
        return self._source.cause_view()

    # -- whole tracks -----------------------------------------------------------------------------

    def columns(self, track: int) -> IntervalColumns | CounterColumns:
        """Return all rows of a track as read-only columns. Reads nodes and instructions of a bundle."""
        if self.schema.tracks[track].kind == "counter":
            view: CounterView = self._source.counter_view(track)
            return CounterColumns(view.cycle, view.value)
        return self.interval_columns(track)

    def interval_columns(self, track: int) -> IntervalColumns:
        """Return all rows of an interval track."""
        view = self._source.interval_view(track)
        node, instruction = view.details(np.arange(len(view.start), dtype=np.int64))
        return IntervalColumns(view.start, view.end, view.kind, node, instruction)

    def counter_columns(self, track: int) -> CounterColumns:
        """Return all rows of a counter track."""
        view = self._source.counter_view(track)
        return CounterColumns(view.cycle, view.value)

    def busy_cycles(self, track: int, kinds: Collection[int] | None = None) -> int:
        """Return the cycles of the whole trace that intervals of these kinds cover (None: all kinds)."""
        view = self._source.interval_view(track)
        lengths = view.end - view.start
        if kinds is None:
            return int(lengths.sum())
        return int(lengths[np.isin(view.kind, list(kinds))].sum())


def _bounded(cycle: float) -> int:
    """Return a cycle limited to what a column can hold."""
    return int(min(max(cycle, -(1 << 62)), 1 << 62))


def _covering(view: IntervalView, cycle: int) -> int:
    """Return the row of the interval that covers a cycle, -1 if none does."""
    row = int(view.start.searchsorted(cycle, side="right")) - 1
    while row >= 0 and view.start[row] == view.end[row] == cycle:
        row -= 1
    return row if row >= 0 and view.end[row] > cycle else -1


def _row(view: IntervalView, row: int) -> np.void:
    one = np.array([row], dtype=np.int64)
    return _rows(view, one, one, view.kind[row : row + 1])[0]


def _rows(view: IntervalView, first: np.ndarray, last: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    rows = np.empty(len(first), dtype=INTERVAL_DTYPE)
    rows["start"], rows["end"], rows["kind"] = view.start[first], view.end[last], kinds
    if len(first):
        rows["node"], rows["instruction"] = view.details(first)
        rows["instruction"][last > first] = -1
    return rows
