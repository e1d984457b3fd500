"""Predict the cycles of a run if something were faster:
compute all times of its trace again along its causes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npuviz.trace.causes.graph import CauseGraph, sources_of
from npuviz.trace.causes.retime_kernels import retime
from npuviz.trace.reader import TraceReader


@dataclass(frozen=True)
class Change:
    """A change of the time of some units', kinds' or operators' work, and of the causes that lead to it.

    factor  of time: 0.5 is twice as fast, 0 takes nothing
    units, kinds, nodes  ids to which it applies, None for all; causes have no node
    """

    factor: float
    units: frozenset[int] | None = None
    kinds: frozenset[int] | None = None
    nodes: frozenset[int] | None = None


class Retimer:
    """Computes the times of one trace again, for any number of changes."""

    def __init__(self, reader: TraceReader, graph: CauseGraph) -> None:
        self._reader = reader
        self._graph = graph

    def cycles(self, changes: Sequence[Change] = ()) -> float:
        """Return the cycles of the whole run after changes; without any, those of the run."""
        graph = self._graph
        rows = np.ones(len(graph.start), dtype=np.float64)
        causes = np.ones(len(graph.source), dtype=np.float64)
        dropped = np.zeros(len(graph.source), dtype=np.bool_)
        for change in changes:
            rows[self._rows_of(change)] *= change.factor
            if change.nodes is None:
                chosen = self._causes_of(change)
                causes[chosen] *= change.factor
                if change.factor == 0:
                    dropped |= chosen & np.isin(graph.cause_kind, self._resources)
        times = np.zeros(len(graph.start)), np.zeros(len(graph.source))
        retime(self._columns, (rows, causes, dropped), self._order, times)
        return self._end(times, rows)

    def _rows_of(self, change: Change) -> np.ndarray:
        """Return which rows a change applies to, as a bool per row."""
        graph = self._graph
        chosen = np.ones(len(graph.start), dtype=np.bool_)
        if change.units is not None:
            chosen &= np.repeat(self._of_units(change.units), np.diff(graph.offsets))
        if change.kinds is not None:
            chosen &= np.isin(graph.kind, list(change.kinds))
        if change.nodes is not None:
            chosen &= np.isin(self._nodes, list(change.nodes))
        return chosen

    def _causes_of(self, change: Change) -> np.ndarray:
        graph = self._graph
        track, chosen = graph.cause_track, np.ones(len(graph.source), dtype=np.bool_)
        if change.units is not None:
            chosen &= (track >= 0) & self._of_units(change.units)[np.maximum(track, 0)]
        if change.kinds is not None:
            chosen &= np.isin(graph.cause_kind, list(change.kinds))
        return chosen

    def _of_units(self, units: frozenset[int]) -> np.ndarray:
        return np.array([track.unit in units for track in self._reader.schema.tracks], dtype=np.bool_)

    def _end(self, times: tuple[np.ndarray, ...], rows: np.ndarray) -> float:
        graph = self._graph
        last = int(graph.cause_offsets[-1]) - 1
        if last >= 0 and graph.cause_offsets[-1] > graph.cause_offsets[-2] and self._sources[0][last] >= 0:
            return float(times[1][last] + graph.end_cycle - graph.cause_cycle[last])
        works = ~self._stands & (graph.end <= graph.end_cycle)
        if not works.any():
            return float(graph.end_cycle)
        new_end = times[0] + (graph.end - graph.start) * rows
        return float(new_end[works].max() + graph.end_cycle - graph.end[works].max())

    @cached_property
    def _resources(self) -> list[int]:
        """Kinds of waits for room or for a shared part: with unlimited resources, nothing waits so."""
        roles = ("wait-queue", "wait-conflict")
        return [kind.id for kind in self._reader.schema.kinds if kind.role in roles]

    @cached_property
    def _nodes(self) -> np.ndarray:
        tracks = [track.id for track in self._reader.schema.tracks if track.kind == "interval"]
        found = [self._reader.interval_columns(track).node for track in tracks]
        return np.concatenate(found or [np.zeros(0, np.int32)])

    @cached_property
    def _stands(self) -> np.ndarray:
        """Whether each row is no work of its own: waits, frames, tracks of no unit."""
        graph = self._graph
        lengths = np.diff(graph.offsets)
        return (graph.waits | graph.frames)[graph.kind] | np.repeat(graph.passes, lengths)

    @cached_property
    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        return sources_of(self._graph)

    @cached_property
    def _order(self) -> np.ndarray:
        """All nodes by time; causes before the rows that start with them, in the order of recording."""
        graph = self._graph
        causes = np.lexsort((graph.recorded, graph.cause_cycle))
        rows = np.argsort(graph.start, kind="stable")
        place = np.searchsorted(graph.start[rows], graph.cause_cycle[causes], side="left")
        return np.insert(rows, place, -1 - causes).astype(np.int64)

    @cached_property
    def _columns(self) -> tuple[np.ndarray, ...]:
        graph = self._graph
        flows = self._reader.source.flow_view()
        order = np.argsort(flows["sink"], kind="stable")
        sinks = flows["sink"][order]
        first = np.searchsorted(sinks, np.arange(int(sinks.max(initial=-1)) + 2)).astype(np.int64)
        track_of = np.repeat(np.arange(len(graph.offsets) - 1, dtype=np.int64), np.diff(graph.offsets))
        sources, reached = self._sources
        return (
            graph.start, graph.end, graph.instruction, graph.offsets, self._stands, graph.cause_offsets,
            graph.cause_cycle, reached, sources, graph.first_of,
            graph.by_instruction, first,
            np.ascontiguousarray(flows["source"][order]), self._lags(), track_of,
        )  # fmt: skip

    def _lags(self) -> np.ndarray:
        """Return, by track, the shortest recorded time from the end of work on it until
        another track went on with its result."""
        graph = self._graph
        tracks, cycles = self._sources
        lags = np.zeros(len(graph.offsets), dtype=np.int64)
        told = (graph.done < 0) & (tracks >= 0)
        for track in np.unique(tracks[told]).tolist():
            chosen = told & (tracks == track)
            lags[track] = int((graph.cause_cycle[chosen] - cycles[chosen]).min())
        return lags
