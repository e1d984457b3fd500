"""Build the graph of causes of one trace: its intervals and what let each of them start;
and walk along it."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from npuviz.trace.causes.walk_kernels import find_sources, index_instructions, sort_causes, walk
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import CAUSE_DTYPE
from npuviz.trace.unit_times import wait_kinds

SEGMENT_DTYPE = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("track", np.int32),
        ("kind", np.int16),
        ("instruction", np.int64),
    ]
)
"""One part of a path: over [start, end) it led through `track`. kind -1: the cause is not recorded. A kind of
wait stands for an earlier result on its way to the track, or for a wait that nothing explains."""

_FIRST_ROOM = 1 << 10
_SortedCauses = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Causes sorted by track and cycle: offsets, cycle, kind, done, source, and their numbers as recorded."""


@dataclass(frozen=True)
class CauseGraph:
    """Columns of a trace, ready for walks; see walk_kernels for their meaning.

    recorded   number of each cause among those of the trace, as they were recorded
    end_cycle  cycle up to which the trace was known when the graph was made
    """

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    instruction: np.ndarray
    offsets: np.ndarray
    passes: np.ndarray
    waits: np.ndarray
    frames: np.ndarray
    first_of: np.ndarray
    by_instruction: np.ndarray
    cause_offsets: np.ndarray
    cause_cycle: np.ndarray
    cause_kind: np.ndarray
    done: np.ndarray
    source: np.ndarray
    recorded: np.ndarray
    end_cycle: int

    @property
    def cause_track(self) -> np.ndarray:
        """Track of every cause, -1 for the cause of the end of the run."""
        counts = np.diff(self.cause_offsets)
        return np.repeat(np.append(np.arange(len(counts) - 1), -1), counts)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The columns as kernels take them."""
        own = (self.start, self.end, self.kind, self.instruction, self.offsets, self.passes)
        index = (self.waits, self.frames, self.first_of, self.by_instruction)
        return (*own, *index, self.cause_offsets, self.cause_cycle, self.cause_kind, self.done, self.source)


def cause_graph(reader: TraceReader) -> CauseGraph:
    """Read all intervals and causes of a trace into a graph. Costs a copy of them."""
    schema, source = reader.schema, reader.source
    views = [source.interval_view(track.id) for track in schema.tracks if track.kind == "interval"]
    numbers = [source.instructions_of(track.id) for track in schema.tracks if track.kind == "interval"]
    lengths = np.zeros(len(schema.tracks) + 1, dtype=np.int64)
    lengths[[1 + t for t, track in enumerate(schema.tracks) if track.kind == "interval"]] = [
        len(view.start) for view in views
    ]
    nothing = [np.zeros(0, np.int64)]
    start = np.concatenate([view.start for view in views] or nothing)
    instruction = np.concatenate(numbers or nothing)
    waits = np.zeros(schema.num_kinds + 1, dtype=np.bool_)
    waits[list(wait_kinds(schema))] = True
    frames = np.zeros(schema.num_kinds + 1, dtype=np.bool_)
    frames[[each.id for each in schema.kinds if each.frames]] = True
    passes = np.array([t.kind == "interval" and t.unit < 0 for t in schema.tracks], dtype=np.bool_)
    first_of = np.zeros(int(instruction.max(initial=-1)) + 2, dtype=np.int64)
    by_instruction = np.empty(len(instruction), dtype=np.int64)
    index_instructions(instruction, first_of, by_instruction)
    return CauseGraph(
        start,
        np.concatenate([view.end for view in views] or nothing),
        np.concatenate([view.kind for view in views] or [np.zeros(0, np.int16)]),
        instruction, np.cumsum(lengths), passes, waits, frames, first_of, by_instruction,
        *_sorted_causes(reader), reader.end_cycle,
    )  # fmt: skip


def _sorted_causes(reader: TraceReader) -> _SortedCauses:
    rows = reader.causes
    track, cycle, kind, done, source = (np.ascontiguousarray(rows[name]) for name in CAUSE_DTYPE.names or ())
    offsets = np.zeros(len(reader.schema.tracks) + 2, dtype=np.int64)
    order = np.empty(len(rows), dtype=np.int64)
    sort_causes(track, cycle, offsets, order)
    return offsets, cycle[order], kind[order], done[order], source[order], order


def path_to(graph: CauseGraph, track: int, cycle: int, stop: int = 0) -> np.ndarray:
    """Return the path to a point: SEGMENT_DTYPE, oldest first, without gaps from `stop` to `cycle`.

    track  -1: the end of the run
    """
    arrays, room = graph.arrays, _FIRST_ROOM if stop else max(_FIRST_ROOM, len(graph.start))
    while True:
        out = (
            np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32),
            np.empty(room, np.int16), np.empty(room, np.int64),
        )  # fmt: skip
        count = int(walk(arrays, np.int64(track), np.int64(cycle), np.int64(stop), out))
        if count <= room:
            break
        room = count
    rows = np.empty(count, dtype=SEGMENT_DTYPE)
    for name, values in zip(SEGMENT_DTYPE.names or (), out, strict=True):
        rows[name] = values[:count][::-1]
    return rows


def critical_path(graph: CauseGraph) -> np.ndarray:
    """Return the path to the end of the run: SEGMENT_DTYPE whose lengths sum to the run's cycles."""
    return path_to(graph, -1, graph.end_cycle)


def sources_of(graph: CauseGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return track (int64) and cycle (int64) of the source of every cause, -1 where it is not known."""
    tracks, cycles = np.empty(len(graph.source), np.int64), np.empty(len(graph.source), np.int64)
    find_sources(graph.arrays, tracks, cycles)
    return tracks, cycles


_known: "WeakKeyDictionary[TraceReader, tuple[tuple[int, int, int], CauseGraph]]" = WeakKeyDictionary()


def graph_of(reader: TraceReader) -> CauseGraph:
    """Return the graph of a trace as it is now; it is made again only if the trace has changed."""
    state = (reader.end_cycle, reader.num_intervals, len(reader.causes))
    kept = _known.get(reader)
    if kept is None or kept[0] != state:
        kept = state, cause_graph(reader)
        _known[reader] = kept
    return kept[1]
