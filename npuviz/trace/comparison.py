"""Compare two traces: where they first differ, and which units lost or won cycles."""

from dataclasses import dataclass
from typing import cast

import numpy as np

from npuviz.trace.reader import IntervalColumns, TraceReader

STALL_PREFIX = "wait-"


@dataclass(frozen=True, slots=True)
class UnitDifference:
    """Cycles a track spent working in A and in B."""

    name: str
    busy_a: int
    busy_b: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two traces.

    end_a, end_b      cycles of the runs
    first_divergence  cycle at which some track first differs, None if no track does
    track             name of that track, "" if none
    units             tracks of both traces whose working cycles differ, largest difference first
    only_a, only_b    names of interval tracks that only this trace has
    """

    end_a: int
    end_b: int
    first_divergence: int | None
    track: str
    units: tuple[UnitDifference, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether no interval differs."""
        return (
            self.first_divergence is None
            and self.end_a == self.end_b
            and not (self.only_a or self.only_b or self.units)
        )


def compare(a: TraceReader, b: TraceReader) -> Comparison:
    """Compare the interval tracks of two traces by name."""
    tracks_a = {track.name: track.id for track in a.schema.tracks if track.kind == "interval"}
    tracks_b = {track.name: track.id for track in b.schema.tracks if track.kind == "interval"}
    kinds_a, kinds_b = _kind_names(a), _kind_names(b)
    first: int | None = None
    where = ""
    units: list[UnitDifference] = []
    for name in tracks_a:
        if name not in tracks_b:
            continue
        columns_a = cast(IntervalColumns, a.columns(tracks_a[name]))
        columns_b = cast(IntervalColumns, b.columns(tracks_b[name]))
        cycle = _first_difference(columns_a, kinds_a, columns_b, kinds_b)
        if cycle is not None and (first is None or cycle < first):
            first, where = cycle, name
        difference = UnitDifference(name, _busy(a, columns_a), _busy(b, columns_b))
        if difference.busy_a != difference.busy_b:
            units.append(difference)
    units.sort(key=lambda unit: -abs(unit.busy_b - unit.busy_a))
    return Comparison(
        a.end_cycle,
        b.end_cycle,
        first,
        where,
        tuple(units),
        tuple(name for name in tracks_a if name not in tracks_b),
        tuple(name for name in tracks_b if name not in tracks_a),
    )


def _kind_names(reader: TraceReader) -> np.ndarray:
    """Return kind names by kind id, so that traces which number their kinds differently can be compared."""
    size = max((kind.id for kind in reader.schema.kinds), default=-1) + 1
    names = np.full(size, "", dtype=object)
    for kind in reader.schema.kinds:
        names[kind.id] = kind.name
    return names


def _first_difference(
    a: IntervalColumns, kinds_a: np.ndarray, b: IntervalColumns, kinds_b: np.ndarray
) -> int | None:
    """Return the cycle at which the two tracks first differ in start, end or kind, None if they are equal."""
    count = min(len(a), len(b))
    differs = (
        (a.start[:count] != b.start[:count])
        | (a.end[:count] != b.end[:count])
        | (kinds_a[a.kind[:count]] != kinds_b[b.kind[:count]])
    )
    if differs.any():
        index = int(differs.argmax())
        if a.start[index] == b.start[index] and kinds_a[a.kind[index]] == kinds_b[b.kind[index]]:
            return int(min(a.end[index], b.end[index]))
        return int(min(a.start[index], b.start[index]))
    longer = a if len(a) > len(b) else b
    return int(longer.start[count]) if len(longer) > count else None


def _busy(reader: TraceReader, columns: IntervalColumns) -> int:
    waiting = [kind.id for kind in reader.schema.kinds if kind.role.startswith(STALL_PREFIX)]
    working = ~np.isin(columns.kind, waiting)
    return int((columns.end[working] - columns.start[working]).sum())
