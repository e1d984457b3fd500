"""Causes: the critical path and `why` of a large trace, what recording them costs, and predicted gains."""

import random
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.row import Row
from benchmarks.trace import NUM_TRACKS, Instructions, events, schema
from npuviz.trace.causes.graph import critical_path, graph_of
from npuviz.trace.causes.waits import standstill_at, why_standing
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import CAUSE, KIND_SHIFT, TRACK_SHIFT, TYPE_SHIFT
from npuviz.trace.store import TraceStore

EVENTS = 10_000_000
CAUSED = 0.3
"""Share of the events that are causes."""
QUESTIONS = 200


def trace_with_causes(count: int) -> TraceReader:
    """Slices on 64 tracks; many of them begin because another track got somewhere."""
    slices = events(int(count * (1 - CAUSED)))
    rng = np.random.default_rng(1)
    chosen = np.sort(rng.choice(len(slices), count - len(slices), replace=False))
    rows = slices[chosen]
    track = rows[:, 0] >> TRACK_SHIFT & 0xFFFFFF
    source = (track + rng.integers(1, NUM_TRACKS, len(rows))) % NUM_TRACKS
    behind = np.minimum(rng.integers(0, 20, len(rows)), rows[:, 1])
    causes = np.empty_like(rows)
    causes[:, 0] = CAUSE << TYPE_SHIFT | track
    causes[:, 1] = rows[:, 1]
    causes[:, 2] = 1 << KIND_SHIFT | behind
    causes[:, 3] = -2 - source
    owned = replace(schema(), tracks=tuple(replace(track, unit=track.id) for track in schema().tracks))
    store = TraceStore(owned, Instructions())
    store.append(np.insert(slices, chosen, causes, axis=0))
    store.mark(int(slices[:, 2].max()))
    return TraceReader(store)


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _large_trace() -> list[Row]:
    _ask(trace_with_causes(20_000))
    reader = trace_with_causes(EVENTS)
    for track in range(NUM_TRACKS):
        reader.source.interval_view(track)
    graph = _seconds(lambda: graph_of(reader))
    path = critical_path(graph_of(reader))
    walk = _seconds(lambda: critical_path(graph_of(reader)))
    is_exact = int((path["end"] - path["start"]).sum()) == reader.end_cycle
    slowest = float(np.percentile(_ask(reader), 95))
    name = f"{EVENTS:.0e} events".replace("e+0", "e")
    return [
        Row(f"critical path of {name}", graph + walk, "s", "under 3", is_wrong=not is_exact),
        Row(f"of this: sorting what is recorded, once for a trace of {name}", graph, "s"),
        Row(f"why, before a random slice of {name}: p95", slowest * 1e3, "ms", "under 50"),
    ]


def _ask(reader: TraceReader) -> list[float]:
    drawn = random.Random(2)
    graph_of(reader)
    found: list[float] = []
    for _ in range(QUESTIONS):
        unit, row = drawn.randrange(NUM_TRACKS), drawn.random()
        starts = reader.source.interval_view(unit).start
        cycle = int(starts[int(row * len(starts))]) - 1

        def why(unit: int = unit, cycle: int = cycle) -> None:
            span = standstill_at(reader, unit, cycle)
            if span is not None:
                why_standing(reader, span)

        found.append(_seconds(why))
    return found


def run() -> list[Row]:
    """A minute."""
    return _large_trace()
