"""Look up in a trace when an instruction ran, and when and how long units worked on a graph node."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.trace.reader import TraceReader
from npuviz.trace.series import IntervalView
from npuviz.trace.unit_times import covered_cycles, tracks_of_units

SCAN_LIMIT = 1 << 21
"""A track with more rows than this is bisected to find an instruction, a shorter one is read through."""
ROWS_PER_SLICE = 1 << 18
MAX_RUNS = 64
NEAR_ROWS = 1 << 16
BUSY_MEANS = "Busy: a track of the unit shows work in that cycle, whether or not anything is computed in it"
WAITING_MEANS = "Waiting: none shows work, and one shows why the unit waits"
MAX_NODE_ROWS = 1 << 16
"""Most rows that `node_cycles` reads, so that a step stays quick while a node's page is shown."""
_NEVER = np.iinfo(np.int64).max
_NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Run:
    """One interval in which an instruction was on a track."""

    track: int
    start: int
    end: int
    kind: int


def interval_tracks(reader: TraceReader, unit: int = -1) -> list[int]:
    """Return the ids of the interval tracks, only those of one unit if given."""
    return [t.id for t in reader.schema.tracks if t.kind == "interval" and unit in (-1, t.unit)]


def intervals_of_instruction(reader: TraceReader, instruction: int, unit: int = -1) -> list[Run]:
    """Return the intervals of an instruction in order of start, at most MAX_RUNS.

    unit  restricts the search to the tracks of the unit that executes it
    """
    runs: list[Run] = []
    for track in interval_tracks(reader, unit):
        view = reader.source.interval_view(track)
        total = len(view.start)
        for row in _rows_of_instruction(view, total, instruction).tolist()[:MAX_RUNS]:
            runs.append(Run(track, int(view.start[row]), int(view.end[row]), int(view.kind[row])))
    return sorted(runs, key=lambda run: (run.start, run.track))[:MAX_RUNS]


def _rows_of_instruction(view: IntervalView, total: int, instruction: int) -> np.ndarray:
    first, end = 0, total
    if total > SCAN_LIMIT:
        # A unit takes its instructions in rising order but for a few that overtake.
        low, high = 0, total
        while low < high:
            middle = (low + high) // 2
            held = int(view.details(np.array([middle], dtype=np.int64))[1][0])
            low, high = (middle + 1, high) if held < instruction else (low, middle)
        first, end = max(0, low - SCAN_LIMIT // 8), min(total, low + SCAN_LIMIT // 8)
    rows = np.arange(first, end, dtype=np.int64)
    if not len(rows):
        return rows
    return rows[view.details(rows)[1] == instruction]


def runs_near(reader: TraceReader, units: Mapping[int, int], cycle: int) -> dict[int, Run]:
    """Return for each instruction its working (not waiting) interval that starts nearest to a cycle.

    units  instruction -> unit that executes it, -1 if unknown

    Looks at NEAR_ROWS rows of a track on each side of the cycle; leaves out instructions without one there.
    """
    stalls = np.array([k.id for k in reader.schema.kinds if k.role.startswith("wait-")], dtype=np.int64)
    by_track: dict[int, list[int]] = {}
    for instruction, unit in units.items():
        for track in interval_tracks(reader, unit) or interval_tracks(reader):
            by_track.setdefault(track, []).append(instruction)
    best: dict[int, Run] = {}
    for track, wanted in by_track.items():
        view = reader.source.interval_view(track)
        middle = int(np.searchsorted(view.start, np.int64(cycle)))
        rows = np.arange(max(middle - NEAR_ROWS, 0), min(middle + NEAR_ROWS, len(view.start)), dtype=np.int64)
        if not len(rows):
            continue
        held = view.details(rows)[1]
        is_wanted = np.isin(held, np.array(wanted, dtype=np.int64)) & ~np.isin(view.kind[rows], stalls)
        for row, instruction in zip(rows[is_wanted].tolist(), held[is_wanted].tolist(), strict=True):
            run = Run(track, int(view.start[row]), int(view.end[row]), int(view.kind[row]))
            known = best.get(instruction)
            if known is None or abs(run.start - cycle) < abs(known.start - cycle):
                best[instruction] = run
    return best


class NodeTimes:
    """Collects, per graph node, when work on it began and ended, and how many cycles units spent on it.

    first, last  (nodes,) int64 cycles; `first` is the largest int64 while a node was never worked on
    busy, waiting  (nodes,) int64 cycles summed over the tracks of units
    Work comes in slices, because a trace may hold many millions of intervals: call `advance` until
    it returns True. A trace that grew needs only its new rows.
    """

    def __init__(self, reader: TraceReader, num_nodes: int) -> None:
        self._reader = reader
        self._num_nodes = num_nodes
        is_stall = [kind.role.startswith("wait-") for kind in reader.schema.kinds]
        self._stall = np.zeros(max((k.id for k in reader.schema.kinds), default=-1) + 2, dtype=np.bool_)
        for kind, stalled in zip(reader.schema.kinds, is_stall, strict=True):
            self._stall[kind.id] = stalled
        self._tracks = interval_tracks(reader)
        self._owned = {track for tracks in tracks_of_units(reader.schema).values() for track in tracks}
        self._reset()

    def _reset(self) -> None:
        self.first = np.full(self._num_nodes, _NEVER, dtype=np.int64)
        self.last = np.zeros(self._num_nodes, dtype=np.int64)
        self.busy = np.zeros(self._num_nodes, dtype=np.int64)
        self.waiting = np.zeros(self._num_nodes, dtype=np.int64)
        self._read = dict.fromkeys(self._tracks, 0)

    def advance(self, budget: int = ROWS_PER_SLICE) -> bool:
        """Read up to `budget` more rows; returns whether all rows there are have been read."""
        for track in self._tracks:
            view = self._reader.source.interval_view(track)
            if len(view.start) < self._read[track]:  # history was rewritten
                self._reset()
                return self.advance(budget)
            first = self._read[track]
            end = min(len(view.start), first + budget)
            if end > first:
                self._add(view, first, end, track in self._owned)
                self._read[track] = end
                budget -= end - first
            if end < len(view.start):
                return False
        return True

    def has_run(self, node: int) -> bool:
        """Return whether any interval belongs to a node."""
        return 0 <= node < self._num_nodes and int(self.first[node]) != _NEVER

    def _add(self, view: IntervalView, first: int, end: int, is_of_unit: bool) -> None:
        nodes = view.details(np.arange(first, end, dtype=np.int64))[0]
        known = (nodes >= 0) & (nodes < self._num_nodes)
        nodes = nodes[known]
        start, stop = view.start[first:end][known], view.end[first:end][known]
        stalled = self._stall[view.kind[first:end][known]]
        work = ~stalled
        np.minimum.at(self.first, nodes[work], start[work])
        np.maximum.at(self.last, nodes[work], stop[work])
        if is_of_unit:
            np.add.at(self.busy, nodes[work], (stop - start)[work])
            np.add.at(self.waiting, nodes[stalled], (stop - start)[stalled])


def node_cycles(reader: TraceReader, node: int, window: tuple[int, int]) -> tuple[int, int] | None:
    """Return the (busy, waiting) cycles that units spent on a node within [first, last), summed over units.

    For a unit with several tracks a cycle counts once: as busy if one of them shows work, else as waiting if
    one waits. None: there are more than MAX_NODE_ROWS intervals in the window.
    """
    stalls = np.array([k.id for k in reader.schema.kinds if k.role.startswith("wait-")], dtype=np.int64)
    busy = waiting = num_rows = 0
    for tracks in tracks_of_units(reader.schema).values():
        starts, ends, waits = [_NO_ROWS], [_NO_ROWS], [_NO_ROWS.astype(bool)]
        for track in tracks:
            view = reader.source.interval_view(track)
            low = int(np.searchsorted(view.end, np.int64(window[0]), side="right"))
            high = int(np.searchsorted(view.start, np.int64(window[1])))
            num_rows += max(0, high - low)
            if num_rows > MAX_NODE_ROWS:
                return None
            rows = np.arange(low, max(low, high), dtype=np.int64)
            rows = rows[view.details(rows)[0] == node]
            starts.append(view.start[rows])
            ends.append(view.end[rows])
            waits.append(np.isin(view.kind[rows], stalls))
        start, end, is_wait = np.concatenate(starts), np.concatenate(ends), np.concatenate(waits)
        worked = covered_cycles(start[~is_wait], end[~is_wait])
        busy += worked
        waiting += covered_cycles(start, end) - worked
    return busy, waiting


def retired_before(reader: TraceReader, cycle: int) -> dict[int, int]:
    """Return {unit id: index}: the index below which its instructions have ended at a cycle, from the
    trace.
    """
    stalls = {kind.id for kind in reader.schema.kinds if kind.role.startswith("wait-")}
    bounds: dict[int, int] = {}
    for track in reader.schema.tracks:
        if track.kind != "interval" or track.unit < 0:
            continue
        view = reader.source.interval_view(track.id)
        row = int(np.searchsorted(view.start, np.int64(cycle), side="left")) - 1
        instructions = reader.source.instructions_of(track.id)
        for at in range(row, max(-1, row - 16), -1):
            held = int(instructions[at])
            if held >= 0:
                ended = int(view.end[at]) <= cycle and int(view.kind[at]) not in stalls
                bounds[track.unit] = max(bounds.get(track.unit, 0), held + 1 if ended else held)
                break
    return bounds
