"""Busy cycles per category of every track, so that a frame costs pixels and not slices.

A category is what a colour stands for: an interval kind, or an operator type when the timeline is
coloured by operator. Kinds use the running sums that the trace keeps; operator types get their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.trace.pyramid_kernels import BLOCK, extend_sums
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import IntervalView
from npuviz.ui.widgets import raster_kernels as kernels


class Categories:
    """Numbering of what colours stand for: kind ids as they are, behind them the operator types.

    names    what each category is called
    roles    colour role of each category, "" for operator types
    is_work  (count,) bool: False for stall causes
    """

    def __init__(self, schema: TraceSchema, by_operator: bool = False) -> None:
        self.by_operator = by_operator
        self.num_kinds = max((kind.id for kind in schema.kinds), default=-1) + 1
        names = [f"kind {number}" for number in range(self.num_kinds)]
        roles = ["control"] * self.num_kinds
        for kind in schema.kinds:
            names[kind.id], roles[kind.id] = kind.name, kind.role
        self.op_types: tuple[str, ...] = tuple(dict.fromkeys(schema.node_types)) if by_operator else ()
        place = {name: self.num_kinds + i for i, name in enumerate(self.op_types)}
        self._of_node = np.array([place.get(name, 0) for name in schema.node_types], dtype=np.int16)
        self.names = (*names, *self.op_types)
        self.roles = (*roles, *("" for _ in self.op_types))
        self._declared = [kind.id for kind in schema.kinds]
        self.is_work = np.array([not role.startswith("wait-") for role in self.roles], dtype=np.bool_)

    def legend(self) -> list[tuple[int, str]]:
        """(category, text) of each colour in use: roles of declared kinds, or operator types and stalls."""
        found = [(self.num_kinds + place, name) for place, name in enumerate(self.op_types)]
        order = sorted(self._declared, key=lambda number: not self.is_work[number])
        seen: set[str] = set()
        for number in order:
            role = self.roles[number]
            if role in seen or (self.op_types and self.is_work[number]):
                continue
            seen.add(role)
            found.append((number, role.replace("wait-", "waits: ").replace("-", " ")))
        return found

    def of(self, kinds: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Category (int16) of each slice from its kind and its graph node (-1: none)."""
        if not self.by_operator or not len(self._of_node):
            return kinds
        known = (nodes >= 0) & (nodes < len(self._of_node)) & self.is_work[kinds]
        return np.where(known, self._of_node[np.where(known, nodes, 0)], kinds).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Columns:
    """Edges of the columns of one track.

    counts  (columns + 1,) slices that start before the edge
    sums    (columns + 1, categories of the track) busy cycles before the edge
    """

    counts: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True, slots=True)
class TrackIndex:
    """One interval track as of one moment, with its running sums; all arrays are read-only.

    keys, local  slice s is of the track's category local[keys[s]]
    present      category number of each of the track's categories
    totals       (blocks + 1, categories of the track) int64, see pyramid_kernels
    """

    view: IntervalView
    keys: np.ndarray
    local: np.ndarray
    present: np.ndarray
    totals: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """Start of each slice."""
        return self.view.start

    @property
    def end(self) -> np.ndarray:
        """End of each slice."""
        return self.view.end

    def columns(self, first: float, step: float, count: int) -> Columns:
        """Sums at the left edges of `count` columns and at the right edge of the last one."""
        counts = np.empty(count + 1, dtype=np.int64)
        sums = np.empty((count + 1, self.totals.shape[1]), dtype=np.float64)
        kernels.cumulate(
            self.start,
            self.end,
            self.keys,
            self.local,
            self.view.starts,
            self.totals,
            first,
            step,
            counts,
            sums,
        )
        return Columns(counts, sums)

    def count_between(self, first: float, last: float) -> int:
        """Slices that start in [first, last)."""
        edges = np.ceil(np.array([first, last])).astype(np.int64)
        low, high = np.searchsorted(self.start, edges).tolist()
        return high - low

    def busy(self, first: float, last: float) -> dict[int, float]:
        """Category number -> busy cycles in [first, last), categories that occur there only."""
        if last <= first or not len(self.start):
            return {}
        sums = self.columns(float(first), float(last - first), 1).sums
        amounts = sums[1] - sums[0]
        return {int(self.present[c]): float(amounts[c]) for c in np.flatnonzero(amounts > 0)}

    def at(self, cycle: float) -> int | None:
        """Slice that covers a cycle, or None."""
        # The key is an integer: a float key would convert the whole column.
        found = int(np.searchsorted(self.start, np.int64(np.floor(cycle)), side="right")) - 1
        while found >= 0 and self.start[found] == self.end[found] and self.start[found] == np.floor(cycle):
            found -= 1
        return found if found >= 0 and int(self.end[found]) > cycle else None


@dataclass(frozen=True, slots=True)
class Grid:
    """Sums of a track at every multiple of `cell` cycles, kept between frames.

    tail  (slices, last start, last end, busy cycles): tells whether the track is still the same
    """

    cell: int
    tail: tuple[int, int, int, int]
    sums: np.ndarray


def _tail(index: TrackIndex, num_slices: int) -> tuple[int, int, int, int]:
    if num_slices == 0:
        return 0, 0, 0, 0
    blocks = num_slices // BLOCK
    last = num_slices - 1
    return num_slices, int(index.start[last]), int(index.end[last]), int(index.totals[blocks].sum())


class TimelineIndex:
    """The indices of all interval tracks of a reader."""

    def __init__(self, reader: TraceReader, by_operator: bool = False) -> None:
        self.reader = reader
        self.categories = Categories(reader.schema, by_operator)
        self._tracks: dict[int, TrackIndex] = {}
        self._grids: dict[int, Grid] = {}
        self._intervals = frozenset(t.id for t in reader.schema.tracks if t.kind == "interval")

    def is_interval(self, track: int) -> bool:
        """Whether a track holds slices."""
        return track in self._intervals

    def track(self, track: int) -> TrackIndex:
        """The index of a track, as far as it is recorded now."""
        view = self.reader.source.interval_view(track)
        if not self.categories.by_operator:
            return TrackIndex(view, view.kind, view.local, view.owner, view.sums)
        known = self._tracks.get(track)
        if known is None or _place(known.view) != _place(view):
            known = self._tracks[track] = self._by_operator(view)
        return known

    def grid(self, track: int, cell: int) -> Grid:
        """Sums at the multiples of `cell`: far out, frames differ by nothing but their window."""
        index = self.track(track)
        known = self._grids.get(track)
        num_slices = len(index.start)
        is_same = known is not None and known.cell == cell and known.tail[0] <= num_slices
        if known is not None and is_same and known.tail == _tail(index, known.tail[0]):
            if known.tail[0] == num_slices:
                return known
            if known.sums.shape[1] == index.totals.shape[1]:
                # Cells before the last known slice cannot have changed.
                done = known.tail[1] // cell
                whole = int(index.end[-1]) // cell + 1
                fresh = index.columns(float(done * cell), float(cell), whole - done).sums
                sums = np.concatenate([known.sums[:done], fresh])
                found = self._grids[track] = Grid(cell, _tail(index, num_slices), sums)
                return found
        whole = int(index.end[-1]) // cell + 1 if num_slices else 0
        sums = index.columns(0.0, float(cell), whole).sums
        found = self._grids[track] = Grid(cell, _tail(index, num_slices), sums)
        return found

    def busy(self, tracks: Sequence[int], first: float, last: float) -> dict[int, float]:
        """Category number -> busy cycles of several tracks together."""
        total: dict[int, float] = {}
        for track in tracks:
            for number, amount in self.track(track).busy(first, last).items():
                total[number] = total.get(number, 0.0) + amount
        return total

    def _by_operator(self, view: IntervalView) -> TrackIndex:
        nodes, _instructions = view.details(np.arange(len(view.start), dtype=np.int64))
        keys = self.categories.of(view.kind, nodes)
        occurring = np.flatnonzero(np.bincount(keys, minlength=len(self.categories.names)))
        present = occurring.astype(np.int16)
        local = np.full(len(self.categories.names), -1, dtype=np.int16)
        local[present] = np.arange(len(present), dtype=np.int16)
        blocks = len(keys) // BLOCK
        totals = np.zeros((blocks + 1, max(len(present), 1)), dtype=np.int64)
        extend_sums(view.start, view.end, keys, local, 0, blocks, totals, np.empty(blocks, np.int64))
        return TrackIndex(view, keys, local, present, totals)


def _place(view: IntervalView) -> tuple[int, int]:
    """Where the columns of a view lie and how long they are: equal for views of the same rows."""
    return view.start.__array_interface__["data"][0], len(view.start)
