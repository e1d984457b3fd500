"""Shares every cycle of a run among the operators, instructions, kinds or units under way in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from npuviz.program.graph import FUNCTION
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.unit_times import UnderWay, unit_times, wait_kinds

Grouping = Literal["operator", "instruction", "kind", "unit"]
GROUPINGS: tuple[Grouping, ...] = ("operator", "instruction", "kind", "unit")


@dataclass(frozen=True, slots=True)
class Costs:
    """One row for each operator, instruction, kind of work or unit that was worked on, costliest first.

    key      (n,) int64: node, instruction, kind or unit id
    share    (n,) float64 cycles: each cycle of the run goes in equal parts to all rows under way in it
    active   (n,) int64 cycles in which at least one unit worked on it
    work     (n,) int64 busy cycles of units on it, summed over units
    waiting  (n,) int64 cycles that units waited in work on it, summed over units
    first, last  (n,) int64 cycles: when work began and ended
    unit     (n,) int64 id of the unit that worked longest on it, `unit_work` its cycles; intervals of kinds
    that
    only frame the work of other units count if there are no others
    end      cycles of the run; `idle` of them had no work at all: sum(share) + idle == end
    num_unassigned  intervals of work without an id of this grouping: in no row, but not idle
    parts    (n,) int64 ids that were put together in the row: 1 except for functions of one name
    """

    grouping: Grouping
    key: np.ndarray
    share: np.ndarray
    active: np.ndarray
    work: np.ndarray
    waiting: np.ndarray
    first: np.ndarray
    last: np.ndarray
    unit: np.ndarray
    unit_work: np.ndarray
    end: int
    idle: float
    num_unassigned: int
    parts: np.ndarray


@dataclass(slots=True)
class _Work:
    """Intervals of all units, one entry each."""

    start: np.ndarray
    end: np.ndarray
    key: np.ndarray
    unit: np.ndarray
    waits: np.ndarray
    frames: np.ndarray


def costs(
    reader: TraceReader,
    grouping: Grouping,
    under_way: Sequence[UnderWay] = (),
    *,
    puts_functions_together: bool = False,
) -> Costs:
    """Share the cycles of a trace among the operators, instructions, kinds or units under way in them.

    Reads every interval once. The trace may grow meanwhile: cycles before its end at the call count.
    under_way                rows that the trace does not hold yet
    puts_functions_together  functions of one name in several programs become one row, with the first one's
    key
    """
    end = reader.end_cycle
    found = _collect(reader, grouping, end, under_way)
    is_known = found.key >= 0
    work = is_known & ~found.waits
    own_keys = together = np.unique(found.key[work])
    if puts_functions_together and grouping == "operator":
        first_alike = _first_alike(reader.schema)
        found.key[is_known] = first_alike[found.key[is_known]]
        together = first_alike[own_keys]
    keys, places = np.unique(found.key[work], return_inverse=True)
    start, stop = found.start[work], found.end[work]
    # A unit with several tracks is busy once in a cycle in which two of them show work.
    width = int(found.unit.max(initial=0)) + 1
    owned = places * width + found.unit[work]
    by_unit = _union(owned, start, stop)
    spent = np.bincount(by_unit[0] // width, by_unit[2] - by_unit[1], len(keys)).astype(np.int64)
    # A unit whose intervals only frame the work of others is always busy, and says nothing about the bound.
    does = ~found.frames[work]
    does |= ~np.isin(places, places[does])
    doing = by_unit if does.all() else _union(owned[does], start[does], stop[does])
    union = _union(places, start, stop)
    # Each place has at least one interval; a place's intervals lie together, by start.
    first = union[1][np.searchsorted(union[0], np.arange(len(keys)))]
    last = union[2][np.searchsorted(union[0], np.arange(len(keys)), side="right") - 1]
    share = _shares(*union, len(keys))
    active = np.bincount(union[0], union[2] - union[1], len(keys)).astype(np.int64)
    unit, unit_work = _busiest(doing[0] // width, doing[0] % width, doing[2] - doing[1], len(keys))
    of_units = grouping == "unit"
    waiting = _waiting_of_units(reader, keys, end, under_way) if of_units else _waiting(found, keys)
    order = np.argsort(-share, kind="stable")
    return Costs(
        grouping,
        keys[order],
        share[order],
        active[order],
        spent[order],
        waiting[order],
        first[order],
        last[order],
        unit[order],
        unit_work[order],
        end,
        float(end - _covered(found)),
        int((~is_known & ~found.waits).sum()),
        np.bincount(np.searchsorted(keys, together), minlength=len(keys))[order],
    )


def _waiting_of_units(
    reader: TraceReader, units: np.ndarray, end: int, under_way: Sequence[UnderWay]
) -> np.ndarray:
    """Return (units,) int64: cycles in which each unit waited and did not work."""
    times = unit_times(reader, (0, end), units.tolist(), under_way)
    return np.array([times[unit].waiting for unit in units.tolist()], dtype=np.int64)


def _covered(found: _Work) -> int:
    """Return the cycles in which something other than a wait was active."""
    does = ~found.waits
    covered = _union(np.zeros(int(does.sum()), dtype=np.int64), found.start[does], found.end[does])
    return int((covered[2] - covered[1]).sum())


def _first_alike(schema: TraceSchema) -> np.ndarray:
    """Return (nodes,) int64: for a function the first function with its name, for any other node itself."""
    known: dict[str, int] = {}
    nodes = enumerate(zip(schema.node_names, schema.node_types, strict=True))
    return np.array(
        [known.setdefault(name, node) if kind == FUNCTION and name else node for node, (name, kind) in nodes],
        dtype=np.int64,
    )


def _collect(reader: TraceReader, grouping: Grouping, end: int, under_way: Sequence[UnderWay]) -> _Work:
    stalls = np.array(sorted(wait_kinds(reader.schema)), dtype=np.int64)
    frames = np.array(sorted(_frame_kinds(reader.schema)), dtype=np.int64)
    parts: list[_Work] = []
    for track in reader.schema.tracks:
        # Lanes that belong to no unit repeat what units did, put together by operator.
        if track.kind != "interval" or track.unit < 0:
            continue
        view = reader.source.interval_view(track.id)
        count = int(np.searchsorted(view.start, end))
        kind = view.kind[:count].astype(np.int64)
        if grouping == "kind":
            key = kind
        elif grouping == "unit":
            key = np.full(count, track.unit, dtype=np.int64)
        else:
            node, instruction = view.details(np.arange(count, dtype=np.int64))
            key = (node if grouping == "operator" else instruction).astype(np.int64)
        # Work under way counts up to the cycle the trace is known to.
        stop = np.minimum(view.end[:count], end)
        owner = np.full(count, track.unit, dtype=np.int64)
        start, waits = view.start[:count].astype(np.int64), np.isin(kind, stalls)
        parts.append(_Work(start, stop, key, owner, waits, np.isin(kind, frames)))
    parts += _open_rows(reader, grouping, end, under_way)
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return _Work(none, none, none, none, none.astype(bool), none.astype(bool))
    return _Work(
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.unit for part in parts]),
        np.concatenate([part.waits for part in parts]),
        np.concatenate([part.frames for part in parts]),
    )


def _frame_kinds(schema: TraceSchema) -> set[int]:
    return {kind.id for kind in schema.kinds if kind.frames}


def _open_rows(
    reader: TraceReader, grouping: Grouping, end: int, under_way: Sequence[UnderWay]
) -> list[_Work]:
    """Return the rows under way on tracks of units, which the trace does not hold yet."""
    units = {track.id: track.unit for track in reader.schema.tracks}
    rows = [row for row in under_way if units.get(row.track, -1) >= 0]
    stalls, frames = wait_kinds(reader.schema), _frame_kinds(reader.schema)
    keys = {
        "operator": [row.node for row in rows],
        "instruction": [row.instruction for row in rows],
        "kind": [row.kind for row in rows],
        "unit": [units[row.track] for row in rows],
    }
    if not rows:
        return []
    return [
        _Work(
            np.array([row.start for row in rows], dtype=np.int64),
            np.array([min(row.end, end) for row in rows], dtype=np.int64),
            np.array(keys[grouping], dtype=np.int64),
            np.array([units[row.track] for row in rows], dtype=np.int64),
            np.array([row.kind in stalls for row in rows], dtype=bool),
            np.array([row.kind in frames for row in rows], dtype=bool),
        )
    ]


def _union(
    places: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge overlapping intervals of each place to disjoint ones, sorted by place and start.

    Returns (place, start, end).
    """
    order = np.lexsort((start, places))
    places, start, end = places[order], start[order], end[order]
    if not len(places):
        return places, start, end
    # Each place gets a disjoint range of numbers, so that one running maximum serves all places.
    reach = int(end.max()) + 1
    ends = np.maximum.accumulate(end + places * reach) - places * reach
    begins = np.ones(len(places), dtype=bool)
    begins[1:] = (places[1:] != places[:-1]) | (start[1:] > ends[:-1])
    heads = np.flatnonzero(begins)
    tails = np.append(heads[1:], len(places)) - 1
    return places[heads], start[heads], ends[tails]


def _shares(places: np.ndarray, start: np.ndarray, end: np.ndarray, count: int) -> np.ndarray:
    """Return (count,) cycles of each place, where places under way at the same time share cycles equally."""
    times = np.unique(np.concatenate((start, end)))
    if not len(times):
        return np.zeros(count)
    change = np.zeros(len(times), dtype=np.int64)
    begin, stop = np.searchsorted(times, start), np.searchsorted(times, end)
    np.add.at(change, begin, 1)
    np.add.at(change, stop, -1)
    under_way = np.cumsum(change)[:-1]
    part = np.diff(times) / np.maximum(under_way, 1)
    until = np.concatenate(([0.0], np.cumsum(part)))
    return np.bincount(places, until[stop] - until[begin], count)


def _busiest(
    places: np.ndarray, units: np.ndarray, lengths: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unit that worked longest on each place, and its cycles (-1 and 0 for a place without
    any)."""
    unit, most = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if not len(places):
        return unit, most
    width = int(units.max()) + 1
    pairs, inverse = np.unique(places * width + units, return_inverse=True)
    spent = np.bincount(inverse, lengths).astype(np.int64)
    order = np.argsort(spent, kind="stable")
    # Later assignments win: the longest comes last.
    unit[pairs[order] // width] = pairs[order] % width
    most[pairs[order] // width] = spent[order]
    return unit, most


def _waiting(found: _Work, keys: np.ndarray) -> np.ndarray:
    waits = found.waits & np.isin(found.key, keys)
    places = np.searchsorted(keys, found.key[waits])
    return np.bincount(places, (found.end - found.start)[waits], len(keys)).astype(np.int64)
