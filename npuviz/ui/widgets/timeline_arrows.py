"""Finds where flows of an instruction begin and end on the tracks."""

from collections.abc import Callable, Sequence

import numpy as np

from npuviz.trace.reader import TraceReader
from npuviz.ui.widgets.timeline_state import Arrow, Picked

MAX_ARROWS = 64
SEARCH_SLICES = 4096

TracksOf = Callable[[int], Sequence[int]]


def arrows_of(reader: TraceReader, picked: Picked, tracks_of: TracksOf) -> list[Arrow]:
    """Arrows into and out of a slice, in the order of their cycles, at most MAX_ARROWS.

    tracks_of  the interval tracks on which an instruction can be
    """
    if picked.instruction < 0:
        return []
    arrows: list[Arrow] = []
    for cycle, source, sink in reader.flows_of(picked.instruction)[:MAX_ARROWS].tolist():
        if source == picked.instruction:
            there = slice_of(reader, tracks_of(sink), sink, cycle)
            if there is not None:
                arrows.append(Arrow(picked.track, picked.end, there[0], max(cycle, there[1]), sink))
        if sink == picked.instruction:
            there = slice_of(reader, tracks_of(source), source, cycle)
            if there is not None:
                arrows.append(Arrow(there[0], there[2], picked.track, max(cycle, picked.start), source))
    return sorted(arrows, key=lambda arrow: (arrow.cycle, arrow.sink_track))


def slice_of(
    reader: TraceReader, tracks: Sequence[int], instruction: int, cycle: int
) -> tuple[int, int, int] | None:
    """The working slice of an instruction nearest to a cycle: (track, start, end), or None.

    Looks at SEARCH_SLICES slices on each side of the cycle.
    """
    stalls = {kind.id for kind in reader.schema.kinds if kind.role.startswith("wait-")}
    best: tuple[int, int, int] | None = None
    for track in tracks:
        view = reader.source.interval_view(track)
        middle = int(np.searchsorted(view.start, np.int64(cycle)))
        low, high = max(middle - SEARCH_SLICES, 0), min(middle + SEARCH_SLICES, len(view.start))
        rows = np.arange(low, high, dtype=np.int64)
        _nodes, instructions = view.details(rows)
        for row in rows[instructions == instruction].tolist():
            found = (track, int(view.start[row]), int(view.end[row]))
            if int(view.kind[row]) in stalls:
                continue
            if best is None or abs(found[1] - cycle) < abs(best[1] - cycle):
                best = found
    return best
