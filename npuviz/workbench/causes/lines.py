"""Finds for each source line how long units waited there, for what, and for which other line."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from npuviz.program.source import HasSource, Place
from npuviz.trace.causes.graph import CauseGraph, graph_of
from npuviz.trace.reader import TraceReader

Key = tuple[int, int]
"""File and line."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Cycles that units waited at a line, summed over units, for one reason.

    what    kind of wait, as the machine names it
    source  the line whose work ended the waits; None where that is not recorded, or is no line
    """

    cycles: int
    what: str
    source: Place | None


def wait_reasons(reader: TraceReader, listing: HasSource) -> dict[Key, list[Reason]]:
    """Return (file, line) -> reasons why units waited there, most cycles first; lines without waits are left
    out."""
    instruction, kind, cycles, source = _waits(graph_of(reader))
    names = {each.id: each.name for each in reader.schema.kinds}
    rows, places = np.unique(np.stack([instruction, kind, source]), axis=1, return_inverse=True)
    sums = np.bincount(places.ravel(), cycles, rows.shape[1]).astype(np.int64)
    found: dict[Key, Counter[tuple[str, Place | None]]] = {}
    for (index, what, origin), count in zip(rows.T.tolist(), sums.tolist(), strict=True):
        place = listing.place_of(index)
        if place is None or not count:
            continue
        behind = listing.place_of(origin) if origin >= 0 else None
        key = names[what], Place(behind.file, behind.line) if behind is not None else None
        found.setdefault((place.file, place.line), Counter())[key] += count
    return {
        line: [Reason(count, what, behind) for (what, behind), count in counts.most_common()]
        for line, counts in found.items()
    }


def _waits(graph: CauseGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return four arrays over recorded waits: the waiting instruction, the kind of wait, its cycles, and the
    instruction whose end ended it (-1: not recorded)."""
    rows = np.flatnonzero(graph.waits[graph.kind] & (graph.instruction >= 0))
    track = np.repeat(np.arange(len(graph.offsets) - 1), np.diff(graph.offsets))[rows]
    end = graph.end[rows]
    source = np.full(len(rows), -1, dtype=np.int64)
    if len(graph.cause_cycle) and len(rows):
        # Each track gets a disjoint range of keys, so that one search serves all tracks.
        reach = max(int(graph.cause_cycle.max()), int(graph.end.max())) + 1
        keys = graph.cause_track * reach + graph.cause_cycle
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(keys[order], track * reach + end, side="right") - 1
        known = at >= 0
        at = order[np.maximum(at, 0)]
        begun = graph.cause_cycle[at] > graph.start[rows]
        known &= (graph.cause_track[at] == track) & begun
        source[known] = graph.source[at[known]]
    return graph.instruction[rows], graph.kind[rows].astype(np.int64), end - graph.start[rows], source
