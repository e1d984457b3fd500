"""Compute what units did with their time: the one definition of busy, waiting and idle.

A unit is *busy* in a cycle in which one of its tracks shows work, *waiting* in one in which none does and one
shows why it waits, else *idle*. So busy means occupied: a systolic array is busy while weights move into it,
whether or not anything is computed in that cycle. The three sum to the cycles looked at. Tracks without a
unit frame what units did and do not count.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from npuviz.trace.pyramid_kernels import BLOCK
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.series import IntervalView

WAIT = "wait-"
"""Prefix of the roles of kinds that tell why a unit waits."""


@dataclass(frozen=True, slots=True)
class UnitTime:
    """Cycles of a unit; `cycles` is their sum."""

    cycles: int
    busy: int
    waiting: int

    @property
    def idle(self) -> int:
        """Cycles in which the unit neither works nor waits."""
        return self.cycles - self.busy - self.waiting

    @property
    def share(self) -> float:
        """Busy part of the cycles, 0..1."""
        return self.busy / self.cycles if self.cycles else 0.0


class UnderWay(NamedTuple):
    """An interval that the trace does not have yet; `end` may lie after the cycles looked at."""

    track: int
    start: int
    end: int
    kind: int
    node: int = -1
    instruction: int = -1


def tracks_of_units(schema: TraceSchema) -> dict[int, list[int]]:
    """Return the interval tracks of each unit that has any, by unit id."""
    found: dict[int, list[int]] = {}
    for track in schema.tracks:
        if track.kind == "interval" and track.unit >= 0:
            found.setdefault(track.unit, []).append(track.id)
    return found


_TRACKS: WeakKeyDictionary[TraceReader, dict[int, list[int]]] = WeakKeyDictionary()


def _tracks(reader: TraceReader) -> dict[int, list[int]]:
    """Return `tracks_of_units` of a trace, found only once: a wafer has tens of thousands of units."""
    found = _TRACKS.get(reader)
    if found is None:
        found = _TRACKS[reader] = tracks_of_units(reader.schema)
    return found


def unit_label(schema: TraceSchema, unit: int) -> str:
    """Return a unit's name as far as a trace knows it:
    the name of its track, or those of its tracks joined."""
    names = [track.name for track in schema.tracks if track.kind == "interval" and track.unit == unit]
    if len(names) < 2:
        return names[0] if names else str(unit)
    groups = {name.rpartition(".")[0] for name in names}
    if len(groups) > 1:
        return ", ".join(names)
    return ".".join(filter(None, (*groups, "+".join(name.rpartition(".")[2] for name in names))))


def wait_kinds(schema: TraceSchema) -> frozenset[int]:
    """Return the kinds that tell why a unit waits."""
    return frozenset(kind.id for kind in schema.kinds if kind.role.startswith(WAIT))


def unit_times(
    reader: TraceReader,
    window: tuple[int, int] | None = None,
    units: Collection[int] | None = None,
    under_way: Iterable[UnderWay] = (),
) -> dict[int, UnitTime]:
    """Return, by unit id, its time within the cycles [first, last); None: all cycles known, None:
    all units."""
    known = _tracks(reader)
    chosen = known if units is None else {unit: known[unit] for unit in units if unit in known}
    first, last = window if window is not None else (0, reader.end_cycle)
    waits = wait_kinds(reader.schema)
    open_ones: dict[int, list[UnderWay]] = {}
    for row in under_way:
        open_ones.setdefault(row.track, []).append(row)
    return {
        unit: _time(
            reader,
            tracks,
            (first, last),
            [row for track in tracks for row in open_ones.get(track, ())],
            waits,
        )
        for unit, tracks in chosen.items()
    }


def time_of_tracks(
    reader: TraceReader,
    tracks: Sequence[int],
    window: tuple[int, int],
    under_way: Iterable[UnderWay] = (),
) -> UnitTime:
    """Return the time of some tracks together, as if all belonged to one unit."""
    open_ones = [row for row in under_way if row.track in tracks]
    return _time(reader, tracks, window, open_ones, wait_kinds(reader.schema))


def _time(
    reader: TraceReader,
    tracks: Sequence[int],
    window: tuple[int, int],
    open_ones: Sequence[UnderWay],
    waits: frozenset[int],
) -> UnitTime:
    first, last = window[0], max(window)
    if len(tracks) == 1:
        # Intervals of one track never overlap: running sums give the answer, however long the trace is.
        view = reader.source.interval_view(tracks[0])
        busy, waiting = _busy_and_waiting(view, first, last, waits)
        for row in open_ones:
            length = max(0, min(row.end, last) - max(row.start, first))
            busy, waiting = (busy, waiting + length) if row.kind in waits else (busy + length, waiting)
        return UnitTime(last - first, busy, waiting)
    start, end, kind = _rows(reader, tracks, (first, last), open_ones)
    is_wait = np.isin(kind, np.fromiter(waits, np.int64, len(waits)))
    busy = covered_cycles(start[~is_wait], end[~is_wait])
    return UnitTime(last - first, busy, covered_cycles(start, end) - busy if is_wait.any() else 0)


def kind_times(
    reader: TraceReader,
    tracks: Sequence[int],
    window: tuple[int, int],
    under_way: Iterable[UnderWay] = (),
) -> dict[int, int]:
    """Return, by kind id, the cycles of [first, last) in which a track shows it;
    a cycle may count for two kinds."""
    first, last = window[0], max(window)
    found: dict[int, int] = {}
    if len(tracks) == 1:
        view = reader.source.interval_view(tracks[0])
        for kind in view.owner.tolist():
            found[kind] = _covered(view, first, last, frozenset((kind,)), True)
    open_ones = [row for row in under_way if row.track in tracks]
    start, end, kinds = _rows(reader, () if len(tracks) == 1 else tracks, (first, last), open_ones)
    for kind in np.unique(kinds).tolist():
        found[kind] = found.get(kind, 0) + covered_cycles(start[kinds == kind], end[kinds == kind])
    return {kind: cycles for kind, cycles in found.items() if cycles}


def _busy_and_waiting(view: IntervalView, first: int, last: int, waits: frozenset[int]) -> tuple[int, int]:
    """Return the cycles of [first, last) that work covers, and those that waits cover."""
    is_whole = first <= 0 and (not len(view.end) or last >= view.end[-1])
    found = view.covered.get(waits) if is_whole else None
    if found is None:
        found = _covered(view, first, last, waits, False), _covered(view, first, last, waits, True)
        if is_whole:
            # Most tracks have not grown since the last step.
            view.covered[waits] = found
    return found


def _covered(view: IntervalView, first: int, last: int, waits: frozenset[int], is_wait: bool) -> int:
    """Return the cycles of [first, last) that intervals cover, of waits if `is_wait`, else of other kinds."""
    chosen = _chosen_kinds(len(view.local), waits, is_wait)
    columns = view.local[chosen & (view.local >= 0)]
    return _covered_before(view, last, chosen, columns) - _covered_before(view, first, chosen, columns)


@lru_cache(maxsize=256)
def _chosen_kinds(number: int, waits: frozenset[int], is_wait: bool) -> np.ndarray:
    """Return which of the first `number` kinds are waits (or are not, by `is_wait`):
    (number,) bool, read-only."""
    chosen = np.array([(kind in waits) == is_wait for kind in range(number)], dtype=bool)
    chosen.flags.writeable = False
    return chosen


def _covered_before(view: IntervalView, cycle: int, chosen: np.ndarray, columns: np.ndarray) -> int:
    """Return the cycles before `cycle` that intervals of the chosen kinds cover."""
    count = int(view.start.searchsorted(cycle)) if cycle > 0 else 0
    if not count:
        return 0
    block = count // BLOCK
    total = int(view.sums[block, columns].sum()) if block and len(columns) else 0
    rest = slice(block * BLOCK, count)
    lengths = np.minimum(view.end[rest], cycle) - view.start[rest]
    total += int(lengths[chosen[view.kind[rest]]].sum())
    last = block * BLOCK - 1
    if block and count == block * BLOCK and chosen[view.kind[last]]:
        total -= max(0, int(view.end[last]) - cycle)
    return total


def _rows(
    reader: TraceReader,
    tracks: Sequence[int],
    window: tuple[int, int],
    open_ones: Sequence[UnderWay],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return start, end and kind of all intervals of the tracks and of those under way, cut to the window."""
    first, last = window
    starts = [np.array([row.start for row in open_ones], dtype=np.int64)]
    ends = [np.array([row.end for row in open_ones], dtype=np.int64)]
    kinds = [np.array([row.kind for row in open_ones], dtype=np.int64)]
    for track in tracks:
        view = reader.source.interval_view(track)
        low = int(view.end.searchsorted(first, side="right"))
        high = int(view.start.searchsorted(last))
        starts.append(view.start[low:high])
        ends.append(view.end[low:high])
        kinds.append(view.kind[low:high].astype(np.int64))
    start = np.maximum(np.concatenate(starts), first)
    end = np.minimum(np.concatenate(ends), last)
    kept = end > start
    return start[kept], end[kept], np.concatenate(kinds)[kept]


def covered_cycles(start: np.ndarray, end: np.ndarray) -> int:
    """Return the number of cycles that at least one interval covers."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate((start[:1], reached[:-1]))
    return int(np.maximum(end - np.maximum(start, before), 0).sum())
