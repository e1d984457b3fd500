"""Running sums of busy cycles per category of every track, so that painting costs pixels, not slices.

A category is what a colour stands for: an interval kind, or an operator type when the timeline is
coloured by operator. For kinds the trace keeps the running sums; for operator types they are made here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuviz.trace.pyramid_kernels import BLOCK, extend_sums
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import IntervalView
from npuviz.ui.kit import raster_kernels as kernels
from npuviz.ui.timeline.track_kernels import count_between, summarise

CELL_MARGIN = 32
"""Cells summed beyond each edge of a frame, for the next frames while the user pans."""


class Categories:
    """Numbers the categories: kinds by their ids, then the operator types.

    names    name of each category
    roles    colour role of each category, "" for operator types and kinds that frame work
    is_work  (count,) bool: False for stall causes
    """

    def __init__(self, schema: TraceSchema, by_operator: bool = False) -> None:
        self.by_operator = by_operator
        self.num_kinds = max((kind.id for kind in schema.kinds), default=-1) + 1
        names = [f"kind {number}" for number in range(self.num_kinds)]
        roles = ["control"] * self.num_kinds
        for kind in schema.kinds:
            names[kind.id], roles[kind.id] = kind.name, "" if kind.frames else kind.role
        self.op_types: tuple[str, ...] = tuple(dict.fromkeys(schema.node_types)) if by_operator else ()
        place = {name: self.num_kinds + i for i, name in enumerate(self.op_types)}
        self._of_node = np.array([place.get(name, 0) for name in schema.node_types], dtype=np.int16)
        self.names = (*names, *self.op_types)
        self.roles = (*roles, *("" for _ in self.op_types))
        self._declared = [kind.id for kind in schema.kinds]
        self.is_work = np.array([not role.startswith("wait-") for role in self.roles], dtype=np.bool_)

    def legend_name(self, number: int) -> str:
        """Return the text in the legend for the colour of a category."""
        role = self.roles[number]
        return role.replace("wait-", "waits: ").replace("-", " ") if role else self.names[number]

    def legend(self) -> list[tuple[int, str]]:
        """Return (category, text) of each colour: roles of declared kinds, or operator types and stalls."""
        found = [(self.num_kinds + place, name) for place, name in enumerate(self.op_types)]
        order = sorted(self._declared, key=lambda number: not self.is_work[number])
        seen: set[str] = set()
        for number in order:
            role = self.roles[number]
            if role in seen or (self.op_types and self.is_work[number]):
                continue
            seen.add(role)
            found.append((number, self.legend_name(number)))
        return found

    def of(self, kinds: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the category (int16) of each slice from its kind and its graph node (-1: none)."""
        if not self.by_operator or not len(self._of_node):
            return kinds
        known = (nodes >= 0) & (nodes < len(self._of_node)) & self.is_work[kinds]
        return np.where(known, self._of_node[np.where(known, nodes, 0)], kinds).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Columns:
    """Running sums of one track at the edges of pixel columns.

    counts  (columns + 1,) slices that start before the edge
    sums    (columns + 1, categories of the track) busy cycles before the edge
    """

    counts: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True, slots=True)
class TrackIndex:
    """One interval track, as far as it was recorded then, with its running sums; all arrays are read-only.

    keys, local  slice s has the track's category local[keys[s]]
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
        """Return the sums at the left edges of `count` columns and at the right edge of the last one."""
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
        """Count the slices that start in [first, last)."""
        return count_between(self.start, self.view.starts, float(first), float(last))

    def busy(self, first: float, last: float) -> dict[int, float]:
        """Return {category number: busy cycles in [first, last)} of the categories that occur there."""
        if last <= first or not len(self.start):
            return {}
        sums = self.columns(float(first), float(last - first), 1).sums
        amounts = sums[1] - sums[0]
        return {int(self.present[c]): float(amounts[c]) for c in np.flatnonzero(amounts > 0)}

    def at(self, cycle: float) -> int | None:
        """Return the number of the slice that covers a cycle, or None."""
        # The key is an integer: a float key would convert the whole column.
        found = int(np.searchsorted(self.start, np.int64(np.floor(cycle)), side="right")) - 1
        while found >= 0 and self.start[found] == self.end[found] and self.start[found] == np.floor(cycle):
            found -= 1
        return found if found >= 0 and int(self.end[found]) > cycle else None


@dataclass(frozen=True, slots=True)
class Cells:
    """Sums of some tracks over consecutive cells of cycles, kept between frames.

    begin       number of the first cell; cell i covers [i * size, (i + 1) * size) cycles
    views, tails  the tracks that were summed, and (slices, last start, last end, busy cycles) of each, by
                  which a track that only grew is recognised
    amounts, categories  see track_kernels.summarise
    """

    size: int
    begin: int
    views: tuple[IntervalView, ...]
    tails: tuple[tuple[int, int, int, int], ...]
    amounts: np.ndarray
    categories: np.ndarray

    @property
    def end(self) -> int:
        """One more than the number of the last cell."""
        return self.begin + self.amounts.shape[1]

    def between(self, low: int, high: int) -> "Cells":
        """Return only the cells [low, high)."""
        place = slice(low - self.begin, high - self.begin)
        return replace(self, begin=low, amounts=self.amounts[:, place], categories=self.categories[:, place])

    def joined(self, other: "Cells") -> "Cells":
        """Return these cells followed by those of `other`, which must begin where these end."""
        amounts = np.concatenate([self.amounts, other.amounts], axis=1)
        categories = np.concatenate([self.categories, other.categories], axis=1)
        return replace(self, amounts=amounts, categories=categories)


def _tail(index: TrackIndex, num_slices: int) -> tuple[int, int, int, int]:
    if num_slices == 0:
        return 0, 0, 0, 0
    blocks = num_slices // BLOCK
    last = num_slices - 1
    return num_slices, int(index.start[last]), int(index.end[last]), int(index.totals[blocks].sum())


def _identity(
    indices: Sequence[TrackIndex],
) -> tuple[tuple[IntervalView, ...], tuple[tuple[int, int, int, int], ...]]:
    return tuple(i.view for i in indices), tuple(_tail(i, len(i.start)) for i in indices)


class TimelineIndex:
    """The indices of all interval tracks of a reader."""

    def __init__(self, reader: TraceReader, by_operator: bool = False) -> None:
        self.reader = reader
        self.categories = Categories(reader.schema, by_operator)
        self._tracks: dict[int, TrackIndex] = {}
        self._cells: dict[tuple[int, ...], Cells] = {}
        self._intervals = frozenset(t.id for t in reader.schema.tracks if t.kind == "interval")

    def is_interval(self, track: int) -> bool:
        """Return whether a track holds slices."""
        return track in self._intervals

    def track(self, track: int) -> TrackIndex:
        """Return the index of a track, as far as it is recorded now."""
        view = self.reader.source.interval_view(track)
        known = self._tracks.get(track)
        if known is None or known.view is not view:
            if not self.categories.by_operator:
                known = TrackIndex(view, view.kind, view.local, view.owner, view.sums)
            else:
                known = self._by_operator(view)
            self._tracks[track] = known
        return known

    def cells(self, tracks: tuple[int, ...], size: int, low: int, high: int) -> Cells:
        """Return the sums of some tracks together over at least the cells [low, high).

        Sums are kept between calls, because consecutive frames differ little except in their window.
        """
        indices = [self.track(track) for track in tracks]
        kept = self._cells.get(tracks)
        known = self._still_true(indices, kept, size)
        if known is None or known.end < low or known.begin > high or known.end == known.begin:
            found = self._summarise(indices, size, low - CELL_MARGIN, high + CELL_MARGIN)
        else:
            found = known
            if low < known.begin:
                found = self._summarise(indices, size, low - CELL_MARGIN, known.begin).joined(found)
            if high > known.end:
                found = found.joined(self._summarise(indices, size, known.end, high + CELL_MARGIN))
            if found.end - found.begin > 8 * (high - low) + 4 * CELL_MARGIN:
                found = found.between(low, high)
        if found is not kept:
            self._cells[tracks] = found
        return found

    def _still_true(self, indices: list[TrackIndex], known: Cells | None, size: int) -> Cells | None:
        """Return the known cells that still hold for the tracks as they are now, None if none does."""
        if known is None or known.size != size:
            return None
        if all(index.view is view for index, view in zip(indices, known.views, strict=True)):
            return known
        end = known.end
        for index, tail in zip(indices, known.tails, strict=True):
            count = tail[0]
            if count == 0 or count > len(index.start) or tail != _tail(index, count):
                return None
            # Cells before the last known slice cannot have changed.
            end = min(end, tail[1] // size)
        views, tails = _identity(indices)
        return replace(known.between(known.begin, max(end, known.begin)), views=views, tails=tails)

    def _summarise(self, indices: list[TrackIndex], size: int, low: int, high: int) -> Cells:
        if len(indices) == 1:
            present = indices[0].present
            sums = indices[0].columns(float(low * size), float(size), high - low).sums
        else:
            present = np.arange(len(self.categories.names), dtype=np.int16)
            sums = np.zeros((high - low + 1, len(present)), dtype=np.float64)
            for index in indices:
                own = index.columns(float(low * size), float(size), high - low).sums
                sums[:, index.present] += own[:, : len(index.present)]
        amounts = np.empty((2, high - low), dtype=np.float64)
        categories = np.empty((2, high - low), dtype=np.int16)
        summarise(sums, present, self.categories.is_work, amounts, categories)
        return Cells(size, low, *_identity(indices), amounts, categories)

    def busy(self, tracks: Sequence[int], first: float, last: float) -> dict[int, float]:
        """Return {category number: busy cycles in [first, last)} of several tracks together."""
        total: dict[int, float] = {}
        for track in tracks:
            for number, amount in self.track(track).busy(first, last).items():
                total[number] = total.get(number, 0.0) + amount
        return total

    def amounts_in_legend(self, tracks: Sequence[int]) -> dict[str, float]:
        """Return {text in the legend: cycles} of these tracks, as far as they are recorded."""
        total: dict[str, float] = {}
        for number, amount in self.busy(tracks, 0, self.reader.end_cycle).items():
            name = self.categories.legend_name(number)
            total[name] = total.get(name, 0.0) + amount
        return total

    def _by_operator(self, view: IntervalView) -> TrackIndex:
        nodes, _instructions = view.details(np.arange(len(view.start), dtype=np.int64))
        keys = self.categories.of(view.kind, nodes)
        # Read-only like those of kinds: for writable arrays the kernels would be compiled once more.
        keys.setflags(write=False)
        occurring = np.flatnonzero(np.bincount(keys, minlength=len(self.categories.names)))
        present = occurring.astype(np.int16)
        local = np.full(len(self.categories.names), -1, dtype=np.int16)
        local[present] = np.arange(len(present), dtype=np.int16)
        blocks = len(keys) // BLOCK
        totals = np.zeros((blocks + 1, max(len(present), 1)), dtype=np.int64)
        extend_sums(view.start, view.end, keys, local, 0, blocks, totals, np.empty(blocks, np.int64))
        totals.setflags(write=False)
        return TrackIndex(view, keys, local, present, totals)
