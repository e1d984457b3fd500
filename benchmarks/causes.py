"""Measures the critical path and `why` of a large trace, the cost of recording causes, and predicted
gains."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.row import Row
from benchmarks.time_travel import MODEL, TARGETS
from benchmarks.trace import NUM_TRACKS, Instructions, events, schema
from npuviz.base.progress import NoProgress
from npuviz.trace.causes.graph import critical_path, graph_of
from npuviz.trace.causes.waits import standstill_at, why_standing
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import CAUSE, KIND_SHIFT, TRACK_SHIFT, TYPE_SHIFT
from npuviz.trace.store import TraceStore
from npuviz.workbench.causes.explanation import explain_run
from npuviz.workbench.opening import OpenOptions, open_file

EVENTS = 10_000_000
CAUSED = 0.3
"""Share of the events that are causes."""
QUESTIONS = 200
REPEATS = 3


def trace_with_causes(count: int) -> TraceReader:
    """Make a trace of slices on 64 tracks, many of which have a slice of another track as cause."""
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


def _explained(target: str) -> list[Row]:
    """Measure `npuviz explain` of a network, with runs of its remedies."""
    begin = time.perf_counter()
    found = explain_run(MODEL, OpenOptions(target=target), (True, ()), NoProgress())
    seconds = time.perf_counter() - begin
    name = f"{MODEL.stem} on {target}"
    rows = [Row(f"explain {name}, remedies run again", seconds, "s", "under 10")]
    for cost in found["costs"]:
        remedy = cost.get("remedy", {})
        if "error" in remedy:
            text = " ".join(f"{key}={value}" for key, value in remedy["settings"].items())
            apart = 100 * remedy["error"]
            rows.append(Row(f"{name}: {text}, predicted against run", apart, "% of the run", "under 5"))
    return rows


def _recorded(target: str) -> list[Row]:
    """Measure how much recording adds to a run, and the share of causes in that, by their share of the rows,
    which all have one size."""
    seconds = {False: math.inf, True: math.inf}
    share = 0.0
    for _ in range(REPEATS):
        for is_recording in seconds:
            session = open_file(MODEL, OpenOptions(target=target, is_recording=is_recording)).session
            if session is None:
                return []
            begin = time.process_time()
            session.run()
            seconds[is_recording] = min(seconds[is_recording], time.process_time() - begin)
            if is_recording and session.trace is not None:
                causes = len(session.trace.causes)
                share = causes / max(causes + session.trace.num_intervals, 1)
    added = 100 * (seconds[True] / seconds[False] - 1)
    name = f"{MODEL.stem} on {target}"
    return [
        Row(f"{name}: recording adds to the simulation", added, "%"),
        Row(f"{name}: of this causes, by their share of the rows", added * share, "%", "under 10"),
    ]


def run() -> list[Row]:
    """Measure everything; takes two minutes."""
    rows = _large_trace()
    for target in TARGETS:
        rows += [*_recorded(target), *_explained(target)]
    return rows
