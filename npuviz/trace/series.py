"""Store the columns of one track, and make the immutable views of them that readers hold.

A series is appended to by one writer. A view is immutable: later rows are written after its end,
and cutting history copies what remains, so that a view stays valid while the series grows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from npuviz.trace.counter_kernels import COUNTER_BLOCK, extend_extremes
from npuviz.trace.pyramid_kernels import BLOCK, extend_sums, mark_kinds
from npuviz.trace.schema import CAUSE_DTYPE, FLOW_DTYPE, KIND_SHIFT, NOT_TOLD

_SMALLEST_CAPACITY = 1024


class GrowingArray:
    """An append-only array; its capacity grows by half, so that the mean cost of appending is constant.

    width  None for a column of numbers, else numbers per row
    """

    def __init__(self, dtype: np.dtype | type, width: int | None = None) -> None:
        self._shape = () if width is None else (width,)
        self._data = np.empty((0, *self._shape), dtype=dtype)
        self.used = 0

    def reserve(self, count: int) -> np.ndarray:
        """Make room for `count` more rows and return it, not initialised, for the caller to fill."""
        needed = self.used + count
        if needed > len(self._data):
            capacity = max(needed, len(self._data) * 3 // 2, _SMALLEST_CAPACITY)
            grown = np.empty((capacity, *self._shape), dtype=self._data.dtype)
            grown[: self.used] = self._data[: self.used]
            self._data = grown
        self.used = needed
        return self._data[needed - count : needed]

    def expect(self, count: int) -> None:
        """Enlarge the capacity for `count` more rows at once:
        growing in small steps copies the rows each time."""
        self.reserve(count)
        self.used -= count

    def append(self, values: np.ndarray) -> None:
        """Copy values to the end."""
        self.reserve(len(values))[...] = values

    def adopt(self, values: np.ndarray) -> None:
        """Take over an array without copying it; only for an empty column."""
        self._data = values
        self.used = len(values)

    def view(self) -> np.ndarray:
        """Return the rows in use, read-only."""
        view = self._data[: self.used]
        view.flags.writeable = False
        return view

    def written(self) -> np.ndarray:
        """Return the rows in use, for the writer."""
        return self._data[: self.used]

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows, in a new array: views handed out do not change."""
        self._data = self._data[:count].copy()
        self.used = count


@dataclass(frozen=True, slots=True)
class IntervalView:
    """An interval track as of one moment. All arrays are read-only.

    start, end, kind  (n,) columns; details(rows) gives (node int32, instruction int64) of row indices
    starts, sums, local, owner  see pyramid_kernels
    covered  cache of `unit_times`: waiting kinds -> (busy, waiting) cycles of all intervals
    """

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    details: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    starts: np.ndarray
    sums: np.ndarray
    local: np.ndarray
    owner: np.ndarray
    covered: dict[frozenset[int], tuple[int, int]] = field(
        default_factory=dict[frozenset[int], tuple[int, int]]
    )


class IntervalSeries:
    """The intervals of one track, with sums of the covered cycles per kind for questions
    about many of them."""

    def __init__(self, num_kinds: int) -> None:
        self.start = GrowingArray(np.int64)
        self.end = GrowingArray(np.int64)
        self.kind = GrowingArray(np.int16)
        self._num_kinds = num_kinds
        self._view: IntervalView | None = None
        self._reset_sums()

    def __len__(self) -> int:
        return self.start.used

    def _reset_sums(self) -> None:
        self._local = np.full(self._num_kinds, -1, dtype=np.int16)
        self._owner = np.zeros(0, dtype=np.int16)
        self._sums = GrowingArray(np.int64, 0)
        self._starts = GrowingArray(np.int64)
        self._num_marked = 0

    def expect(self, count: int) -> None:
        """Make room for `count` more rows."""
        for column in (self.start, self.end, self.kind):
            column.expect(count)

    def append(self, start: np.ndarray, end: np.ndarray, kind: np.ndarray) -> None:
        """Add sorted rows that begin at or after the end of those that are there."""
        self.start.append(start)
        self.end.append(end)
        self.kind.append(kind)

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows."""
        for column in (self.start, self.end, self.kind):
            column.truncate(count)
        self._view = None
        self._reset_sums()

    @property
    def current(self) -> IntervalView | None:
        """The view of the last call of `view`, if the track has not grown since."""
        view = self._view
        return view if view is not None and len(view.start) == len(self) else None

    def view(self, details: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> IntervalView:
        """Return the track as it is now, extending the sums by the rows appended since the last call.

        Returns the same view again while the track has not grown.
        """
        if self.current is not None:
            return self.current
        start, end, kind = self.start.view(), self.end.view(), self.kind.view()
        self._add_kinds(kind)
        done, blocks = self._starts.used, len(start) // BLOCK
        if blocks > done:
            self._sums.reserve(blocks - done)
            self._starts.reserve(blocks - done)
            sums, starts = self._sums.written(), self._starts.written()
            extend_sums(start, end, kind, self._local, done, blocks, sums, starts)
        self._view = IntervalView(
            start, end, kind, details, self._starts.view(), self._sums.view(), self._local, self._owner
        )
        return self._view

    def _add_kinds(self, kind: np.ndarray) -> None:
        """Give every new kind among the new rows a column of the sums."""
        seen = np.zeros(self._num_kinds, dtype=np.bool_)
        mark_kinds(kind, self._num_marked, seen)
        self._num_marked = len(kind)
        new = np.flatnonzero(seen & (self._local < 0)).astype(np.int16)
        if len(new) == 0 and self._sums.used > 0:
            return
        local = self._local.copy()
        local[new] = np.arange(len(self._owner), len(self._owner) + len(new))
        old = self._sums.written()
        wider = GrowingArray(np.int64, len(self._owner) + len(new))
        rows = wider.reserve(max(len(old), 1))
        rows[...] = 0
        rows[: len(old), : len(self._owner)] = old
        self._local, self._owner, self._sums = local, np.concatenate([self._owner, new]), wider


@dataclass(frozen=True, slots=True)
class CounterView:
    """A counter track as of one moment: read-only columns, and the extremes of its blocks."""

    cycle: np.ndarray
    value: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray


class CounterSeries:
    """The rows of one counter."""

    def __init__(self) -> None:
        self.cycle = GrowingArray(np.int64)
        self.value = GrowingArray(np.int64)
        self._lowest = GrowingArray(np.int64)
        self._highest = GrowingArray(np.int64)

    def append(self, cycle: np.ndarray, value: np.ndarray) -> None:
        """Add rows whose cycles do not fall."""
        self.cycle.append(cycle)
        self.value.append(value)

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows."""
        self.cycle.truncate(count)
        self.value.truncate(count)
        self._lowest.truncate(min(self._lowest.used, count // COUNTER_BLOCK))
        self._highest.truncate(min(self._highest.used, count // COUNTER_BLOCK))

    def view(self) -> CounterView:
        """Return the counter as it is now."""
        value = self.value.view()
        done, blocks = self._lowest.used, len(value) // COUNTER_BLOCK
        if blocks > done:
            self._lowest.reserve(blocks - done)
            self._highest.reserve(blocks - done)
            extend_extremes(value, done, blocks, self._lowest.written(), self._highest.written())
        return CounterView(self.cycle.view(), value, self._lowest.view(), self._highest.view())


class FlowSeries:
    """All flows, sorted by the cycle in which the consumer used what the producer made."""

    def __init__(self) -> None:
        self._rows = GrowingArray(FLOW_DTYPE)

    def __len__(self) -> int:
        return self._rows.used

    def append(self, cycle: np.ndarray, source: np.ndarray, sink: np.ndarray) -> None:
        """Add rows; late ones are sorted in."""
        if len(cycle) == 0:
            return
        order = np.argsort(cycle, kind="stable")
        last = self._rows.written()["cycle"][-1] if len(self) else cycle[order[0]]
        late = len(self)
        if cycle[order[0]] < last:
            late = int(np.searchsorted(self._rows.written()["cycle"], cycle[order[0]], side="right"))
        room = self._rows.reserve(len(cycle))
        room["cycle"], room["source"], room["sink"] = cycle[order], source[order], sink[order]
        if late < self._rows.used - len(cycle):
            # Rows after `late` change places: views handed out must keep the old array.
            self._rows.truncate(self._rows.used)
            tail = self._rows.written()[late:]
            tail[...] = tail[np.argsort(tail["cycle"], kind="stable")]

    def truncate(self, cycle: int) -> None:
        """Drop flows at `cycle` and later."""
        self._rows.truncate(int(np.searchsorted(self._rows.written()["cycle"], cycle)))

    def view(self) -> np.ndarray:
        """Return rows of FLOW_DTYPE, read-only."""
        return self._rows.view()


def cause_columns(
    cycle: np.ndarray, packed: np.ndarray, source: np.ndarray, code: np.ndarray
) -> dict[str, np.ndarray]:
    """Convert the words of CAUSE rows to the columns of CAUSE_DTYPE."""
    behind = packed & NOT_TOLD
    return {
        "track": code.astype(np.int32),
        "cycle": cycle,
        "kind": (packed >> KIND_SHIFT).astype(np.int16),
        "done": np.where(behind == NOT_TOLD, -1, cycle - behind),
        "source": source,
    }


class CauseSeries:
    """Causes, which let tracks go on, in the order of recording."""

    def __init__(self) -> None:
        self._rows = GrowingArray(CAUSE_DTYPE)

    def __len__(self) -> int:
        return self._rows.used

    def append(self, columns: dict[str, np.ndarray]) -> None:
        """Add rows, from `cause_columns`."""
        room = self._rows.reserve(len(columns["cycle"]))
        for name, values in columns.items():
            room[name] = values

    def truncate(self, cycle: int) -> None:
        """Drop causes at `cycle` and later."""
        rows = self._rows.written()
        kept = rows[rows["cycle"] < cycle]
        self._rows.truncate(len(kept))
        self._rows.written()[...] = kept

    def view(self) -> np.ndarray:
        """Return rows of CAUSE_DTYPE, read-only."""
        return self._rows.view()
