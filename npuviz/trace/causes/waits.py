"""Why a unit stood still in a span, hop by hop; and what each unit lost its cycles to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.trace.causes.graph import CauseGraph, graph_of, path_to
from npuviz.trace.reader import TraceReader
from npuviz.trace.unit_times import tracks_of_units, wait_kinds

UNKNOWN = "not known"
CAUSES: tuple[str, ...] = ("busy", "dependency", "queue", "bandwidth", "conflict", "host", "empty", UNKNOWN)
"""What cycles of a unit go to."""
_FIRST_LOOK = 64
"""Rows looked at first for work before and behind a cycle."""


def cause_name(role: str) -> str:
    """Which of CAUSES a role of kinds that wait belongs to."""
    return role.removeprefix("wait-")


@dataclass(frozen=True, slots=True)
class Hop:
    """A link of a chain: over [start, end) the track decided, and so many cycles were lost to it.

    kind  -1: the cause is not recorded
    """

    track: int
    kind: int
    start: int
    end: int
    instruction: int

    @property
    def cycles(self) -> int:
        """Cycles lost in it."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Standstill:
    """A span [start, end) in which a unit did not work, and the track that went on at its end."""

    start: int
    end: int
    track: int


def standstills(reader: TraceReader, unit: int, first: int, last: int) -> list[Standstill]:
    """Spans of [first, last) in which a unit did not work, in order; what follows tells which track went on.

    A span without work behind it has track -1: the unit had nothing to do any more.
    """
    waits = np.array(sorted(wait_kinds(reader.schema)), dtype=np.int64)
    starts, ends, tracks = [], [], []
    for track in tracks_of_units(reader.schema).get(unit, []):
        view = reader.source.interval_view(track)
        works = np.flatnonzero(~np.isin(view.kind, waits))
        starts.append(view.start[works])
        ends.append(view.end[works])
        tracks.append(np.full(len(works), track))
    if not starts:
        return []
    start, end, track = np.concatenate(starts), np.concatenate(ends), np.concatenate(tracks)
    order = np.argsort(start, kind="stable")
    start, end, track = start[order], end[order], track[order]
    reached = np.concatenate(([0], np.maximum.accumulate(end))).astype(np.int64)
    begin = np.append(start, reader.end_cycle)
    chosen = np.flatnonzero((begin > reached) & (begin > first) & (reached < last))
    owner = np.append(track, -1)
    return [Standstill(int(reached[i]), int(begin[i]), int(owner[i])) for i in chosen.tolist()]


def standstill_at(reader: TraceReader, unit: int, cycle: int) -> Standstill | None:
    """The standstill of a unit that contains a cycle; None where it works then, or has no tracks.

    Costs what the rows around that cycle cost, not what the trace does.
    """
    tracks = tracks_of_units(reader.schema).get(unit, [])
    waits = np.zeros(reader.schema.num_kinds + 1, dtype=np.bool_)
    waits[list(wait_kinds(reader.schema))] = True
    low, high, owner = 0, reader.end_cycle, -1
    for track in tracks:
        view = reader.source.interval_view(track)
        place = int(np.searchsorted(view.start, np.int64(cycle), side="right"))
        before, behind = _work_around(~waits, view.kind, place)
        if before >= 0:
            low = max(low, int(view.end[before]))
        if behind >= 0 and (int(view.start[behind]) < high or owner < 0):
            high, owner = int(view.start[behind]), track
    return Standstill(low, high, owner) if tracks and low <= cycle < high else None


def _work_around(works: np.ndarray, kind: np.ndarray, place: int) -> tuple[int, int]:
    """The last row of work before a place and the first one from there on, -1 without one."""
    before = behind = -1
    size, end = _FIRST_LOOK, place
    while end > 0 and before < 0:
        first = max(0, end - size)
        found = np.flatnonzero(works[kind[first:end]])
        before = first + int(found[-1]) if len(found) else -1
        size, end = 2 * size, first
    size, first = _FIRST_LOOK, place
    while first < len(kind) and behind < 0:
        found = np.flatnonzero(works[kind[first : first + size]])
        behind = first + int(found[0]) if len(found) else -1
        size, first = 2 * size, first + size
    return before, behind


def why_standing(reader: TraceReader, span: Standstill) -> list[Hop]:
    """What a standstill was lost to: newest hop first; their cycles sum to those of the span."""
    if span.track < 0:
        return []
    rows = path_to(graph_of(reader), span.track, span.end, span.start)
    hops: list[Hop] = []
    for start, end, track, kind, instruction in reversed(rows.tolist()):
        if hops and (hops[-1].track, hops[-1].kind, hops[-1].instruction) == (track, kind, instruction):
            hops[-1] = Hop(track, kind, start, hops[-1].end, instruction)
        else:
            hops.append(Hop(track, kind, start, end, instruction))
    return hops


def unit_causes(reader: TraceReader, unit: int) -> dict[str, int]:
    """Cycles of a unit by CAUSES; they sum to the cycles of the run.

    A recorded wait counts as what it says. In a gap, from when the source of what follows was done it counts
    as what lay between, or as the host where that was the source; before that the unit was empty.
    """
    graph, tracks = graph_of(reader), tracks_of_units(reader.schema).get(unit, [])
    found = dict.fromkeys(CAUSES, 0)
    roles: dict[int, str] = {kind.id: kind.role for kind in reader.schema.kinds}
    start, end, kind = _rows(reader, tracks)
    classes = np.zeros(reader.schema.num_kinds + 1, dtype=np.int64)
    for one, role in roles.items():
        classes[one] = _class_of(role)
    total, edges = _classes(start, end, classes[kind])
    for place, name in enumerate(CAUSES):
        found[name] += int(total[place])
    for low, high, owner in _gaps(reader, tracks, edges):
        for name, cycles in _of_gap(graph, reader, (low, high), owner).items():
            found[name] += cycles
    return found


def _class_of(role: str) -> int:
    if role.startswith("wait-"):
        return CAUSES.index(cause_name(role))
    return 0


def _rows(reader: TraceReader, tracks: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    views = [reader.source.interval_view(track) for track in tracks]
    end_cycle = reader.end_cycle
    nothing = np.zeros(0, np.int64)
    start = np.concatenate([view.start for view in views] or [nothing])
    end = np.concatenate([view.end for view in views] or [nothing])
    kind = np.concatenate([view.kind for view in views] or [nothing])
    return np.minimum(start, end_cycle), np.minimum(end, end_cycle), kind


def _classes(start: np.ndarray, end: np.ndarray, name: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cycles of each class, the first class first where several hold; and the spans covered (n, 2)."""
    times = np.unique(np.concatenate((start, end)))
    total = np.zeros(len(CAUSES), dtype=np.int64)
    covered = np.zeros(max(len(times) - 1, 0), dtype=np.bool_)
    lengths = np.diff(times)
    for one in range(len(CAUSES)):
        mine = name == one
        if not mine.any():
            continue
        change = np.zeros(len(times) + 1, dtype=np.int64)
        np.add.at(change, np.searchsorted(times, start[mine]), 1)
        np.add.at(change, np.searchsorted(times, end[mine]), -1)
        under_way = np.cumsum(change)[: len(lengths)] > 0
        total[one] = int(lengths[under_way & ~covered].sum())
        covered |= under_way
    spans = np.stack((times[:-1][covered], times[1:][covered]), axis=1) if len(lengths) else np.zeros((0, 2))
    return total, spans.astype(np.int64)


def _gaps(reader: TraceReader, tracks: Sequence[int], spans: np.ndarray) -> list[tuple[int, int, int]]:
    """Gaps between covered spans: begin, end, and the track that goes on behind them (-1 none)."""
    low = np.concatenate(([0], spans[:, 1]))
    high = np.concatenate((spans[:, 0], [reader.end_cycle]))
    gaps = np.flatnonzero(high > low)
    views = [(track, reader.source.interval_view(track)) for track in tracks]
    owner = np.full(len(gaps), -1, dtype=np.int64)
    for track, view in views:
        place = np.searchsorted(view.start, high[gaps])
        is_next = place < len(view.start)
        is_next[is_next] &= view.start[place[is_next]] == high[gaps][is_next]
        owner[is_next & (owner < 0)] = track
    return [(int(low[g]), int(high[g]), int(t)) for g, t in zip(gaps.tolist(), owner.tolist(), strict=True)]


def _of_gap(graph: CauseGraph, reader: TraceReader, span: tuple[int, int], track: int) -> dict[str, int]:
    low, high = span
    if track < 0:
        return {"empty": high - low}
    cycles = graph.cause_cycle[graph.cause_offsets[track] : graph.cause_offsets[track + 1]]
    place = int(np.searchsorted(cycles, high, side="right")) - 1
    if place < 0 or cycles[place] < low:
        return {UNKNOWN: high - low}
    row = int(graph.cause_offsets[track]) + place
    role = next(kind.role for kind in reader.schema.kinds if kind.id == graph.cause_kind[row])
    done = int(graph.done[row]) if graph.done[row] >= 0 else low
    between = high - max(low, min(done, high))
    source = int(graph.source[row])
    is_host = role == "host" or (source <= -2 and _is_host(graph, reader, -2 - source))
    name = "host" if is_host else cause_name(role) if role.startswith("wait-") else "dependency"
    found = {name: between}
    found["empty"] = found.get("empty", 0) + high - low - between
    return found


def _is_host(graph: CauseGraph, reader: TraceReader, track: int) -> bool:
    """Whether all that a track does is the work of a host."""
    kinds = np.unique(graph.kind[graph.offsets[track] : graph.offsets[track + 1]]).tolist()
    hosts = {kind.id for kind in reader.schema.kinds if kind.role == "host"}
    return bool(kinds) and set(kinds) <= hosts
