"""Explain, hop by hop, why a unit stood still in a span, and sum up what each unit lost its cycles to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.trace.causes.graph import CauseGraph, graph_of, path_to
from npuviz.trace.reader import TraceReader
from npuviz.trace.unit_times import tracks_of_units, wait_kinds

UNKNOWN = "not known"
CAUSES: tuple[str, ...] = ("busy", "dependency", "queue", "bandwidth", "conflict", "host", "empty", UNKNOWN)
"""Classes into which the cycles of a unit are divided."""
_FIRST_LOOK = 64
"""Rows searched first for work before and after a cycle."""


def cause_name(role: str) -> str:
    """Return the one of CAUSES to which a role of waiting kinds belongs."""
    return role.removeprefix("wait-")


@dataclass(frozen=True, slots=True)
class Hop:
    """A link of a chain: over [start, end) the track was the cause, and these cycles were lost to it.

    kind  -1: the cause is not recorded
    """

    track: int
    kind: int
    start: int
    end: int
    instruction: int

    @property
    def cycles(self) -> int:
        """Number of cycles lost to it."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Standstill:
    """A span [start, end) in which a unit did not work, and the track that went on at its end."""

    start: int
    end: int
    track: int


def standstills(reader: TraceReader, unit: int, first: int, last: int) -> list[Standstill]:
    """Return the spans of [first, last) in which a unit did not work, in order,
    each with the track that then went on.

    A span with no work after it has track -1: the unit had nothing left to do.
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
    """Return the standstill of a unit that contains a cycle; None if the unit works then, or has no tracks.

    The cost depends on the rows around that cycle, not on the length of the trace.
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
    """Return the last row of work before a place and the first one from there on, -1 for none."""
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
    """Return what a standstill was lost to: newest hop first; their cycles sum to those of the span."""
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
    """Return the cycles of a unit by CAUSES; they sum to the cycles of the run.

    A recorded wait counts by its kind. A gap counts, from when the source of what follows was done,
    by the kind of that cause, or as the host if that was the source; before that as empty.
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
    low, high, owner = _gaps(reader, tracks, edges)
    for track in np.unique(owner).tolist():
        mine = owner == track
        for name, cycles in _of_gaps(graph, reader, (low[mine], high[mine]), track):
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
    """Return the cycles of each class (where several hold, the first counts),
    and the spans covered (n, 2)."""
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


def _gaps(
    reader: TraceReader, tracks: Sequence[int], spans: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gaps between covered spans: begin, end,
    and the track that goes on after them (-1 none); (n,) each."""
    low = np.concatenate(([0], spans[:, 1]))
    high = np.concatenate((spans[:, 0], [reader.end_cycle]))
    is_gap = high > low
    low, high = low[is_gap], high[is_gap]
    owner = np.full(len(high), -1, dtype=np.int64)
    for track in tracks:
        view = reader.source.interval_view(track)
        place = np.searchsorted(view.start, high)
        is_next = place < len(view.start)
        is_next[is_next] &= view.start[place[is_next]] == high[is_next]
        owner[is_next & (owner < 0)] = track
    return low, high, owner


def _of_gaps(
    graph: CauseGraph, reader: TraceReader, gaps: tuple[np.ndarray, np.ndarray], track: int
) -> Iterator[tuple[str, int]]:
    """Yield cycles by cause of gaps after which a track goes on. gaps  begins and ends, (n,) each"""
    low, high = gaps
    if track < 0:
        yield "empty", int((high - low).sum())
        return
    first, last = graph.cause_offsets[track : track + 2].tolist()
    cycles = graph.cause_cycle[first:last]
    place = np.searchsorted(cycles, high, side="right") - 1
    is_known = place >= 0
    is_known[is_known] = cycles[place[is_known]] >= low[is_known]
    yield UNKNOWN, int((high - low)[~is_known].sum())
    low, high, row = low[is_known], high[is_known], first + place[is_known]
    done, source = graph.done[row], graph.source[row]
    between = high - np.maximum(low, np.minimum(np.where(done >= 0, done, low), high))
    yield "empty", int((high - low - between).sum())
    others = np.unique(source[source <= -2])
    from_host = np.isin(source, [each for each in others.tolist() if _is_host(graph, reader, -2 - each)])
    roles = {kind.id: kind.role for kind in reader.schema.kinds}
    kinds = graph.cause_kind[row]
    for kind in np.unique(kinds).tolist():
        mine, role = kinds == kind, roles[kind]
        name = "host" if role == "host" else cause_name(role) if role.startswith("wait-") else "dependency"
        yield "host", int(between[mine & from_host].sum())
        yield name, int(between[mine & ~from_host].sum())


def _is_host(graph: CauseGraph, reader: TraceReader, track: int) -> bool:
    """Whether everything that a track does is the work of a host."""
    kinds = np.unique(graph.kind[graph.offsets[track] : graph.offsets[track + 1]]).tolist()
    hosts = {kind.id for kind in reader.schema.kinds if kind.role == "host"}
    return bool(kinds) and set(kinds) <= hosts
