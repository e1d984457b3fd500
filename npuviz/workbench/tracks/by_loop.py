"""Make tracks of the turns of each loop of a program's text: "iteration 3 of 16"."""

from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import PurePath

import numpy as np

from npuviz.base.kernels.seldom import seldom_collected
from npuviz.program.loops import TextLoop, Turns, turns_of
from npuviz.program.source import HasSource
from npuviz.trace.grouped import FreshRows, GroupedSource, GroupedTrack, series_view
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import Kind, TraceSchema

ROOT = "Loops"
MAX_LANES = 128
"""Most turns of a loop that lie beside each other; further ones lengthen the slice of one of these."""
_NEVER = np.iinfo(np.int64).max


class LoopGrouping:
    """A `Grouping` by the loops of a program.

    Turns that overlap, because an engine or queue is ahead, lie in tracks of their own, "turns 1" and so on.
    """

    def __init__(self, turns: Turns, listing: object) -> None:
        self.turns = turns
        self._paths = _paths(turns.loops, listing)
        self._docs = _docs(turns.loops, listing)
        self._kinds: tuple[Kind, ...] = ()
        self._num_nodes = 0
        types = [f"for {loop.variable}" for loop in turns.loops]
        self.node_names = turns.names()
        self.node_types = tuple(types[loop] for loop in turns.loop.tolist())
        depths = np.array([loop.depth for loop in turns.loops])[turns.loop]
        self._inner_first = [np.flatnonzero(depths == depth) for depth in range(int(depths.max()), 0, -1)]
        self._of_loop = [np.flatnonzero(turns.loop == number) for number in range(len(turns.loops))]
        self._forget()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of all turns."""
        return self._kinds

    def _forget(self) -> None:
        self._first = np.full(len(self.turns), _NEVER, dtype=np.int64)
        self._last = np.full(len(self.turns), -1, dtype=np.int64)

    def begin(self, schema: TraceSchema) -> None:
        """Forget all rows; those to come are of a trace with this schema."""
        self._num_nodes = len(schema.node_names)
        doc = "One turn of a loop, from the first start of one of its instructions to the last end."
        self._kinds = (Kind(schema.num_kinds, "iteration", "control", doc, frames=True),)
        left_out = [kind.id for kind in schema.kinds if kind.role.startswith("wait-") or kind.frames]
        self._is_work = np.ones(max(schema.num_kinds, 1), dtype=np.bool_)
        self._is_work[left_out] = False
        self._forget()

    def add(self, rows: FreshRows) -> None:
        """Take rows over: work of instructions inside of loops lengthens their turns."""
        innermost = self.turns.innermost
        is_known = (rows.instruction >= 0) & (rows.instruction < len(innermost)) & self._is_work[rows.kind]
        turns = innermost[rows.instruction[is_known]]
        inside = turns >= 0
        np.minimum.at(self._first, turns[inside], rows.start[is_known][inside])
        np.maximum.at(self._last, turns[inside], rows.end[is_known][inside])

    def tracks(self) -> list[GroupedTrack]:
        """Return the tracks of all loops that have begun, outer ones first."""
        first, last, outer = self._first.copy(), self._last.copy(), self.turns.outer
        for turns in self._inner_first:
            np.minimum.at(first, outer[turns], first[turns])
            np.maximum.at(last, outer[turns], last[turns])
        found: list[GroupedTrack] = []
        for number, turns in enumerate(self._of_loop):
            begun = turns[last[turns] >= 0]
            begun = begun[np.argsort(first[begun], kind="stable")]
            lanes, ends = lanes_of(first[begun], last[begun])
            for lane in range(int(lanes.max(initial=-1)) + 1):
                chosen = (lanes == lane) & (ends > first[begun])
                found.append(self._track(number, lane, begun[chosen], first, ends[chosen]))
        return found

    def _track(
        self, loop: int, lane: int, turns: np.ndarray, first: np.ndarray, ends: np.ndarray
    ) -> GroupedTrack:
        nodes = (turns + self._num_nodes).astype(np.int32)
        kinds = np.full(len(turns), self._kinds[0].id, dtype=np.int16)
        no_instruction = np.full(len(turns), -1, dtype=np.int64)
        view = series_view(first[turns], ends, kinds, nodes, no_instruction, self._kinds[0].id + 1)
        return GroupedTrack(f"{self._paths[loop]}.turns {lane + 1}", view, self._docs[loop])

    def turn_of_node(self, node: int) -> int:
        """Return the turn that an interval's node stands for, -1 if it is no turn."""
        return node - self._num_nodes if self._num_nodes <= node < self._num_nodes + len(self.turns) else -1

    def crowded(self, most: int, tracks: Sequence[str]) -> frozenset[str]:
        """Return the paths of loops with more than `most` of these tracks."""
        return frozenset(path for path in self._paths if f"{path}.turns {most + 1}" in tracks)


def lanes_of(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lane of each slice, so that none overlap in a lane, and the end of each.

    first, last  (n,) int64, sorted by `first`
    With more than MAX_LANES at once, a slice takes the end of what has no lane of its own, whose end is 0.
    """
    lanes, ends = np.zeros(len(first), dtype=np.int64), last.copy()
    if len(first) < 2 or bool((first[1:] >= last[:-1]).all()):
        return lanes, ends
    free: list[int] = []
    busy: list[tuple[int, int, int]] = []
    num_lanes = 0
    for number, (start, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        elif num_lanes < MAX_LANES:
            lane, num_lanes = num_lanes, num_lanes + 1
        else:
            until, lane, other = heappop(busy)
            ends[other], ends[number] = max(until, end), 0
            heappush(busy, (int(ends[other]), lane, other))
            continue
        lanes[number] = lane
        heappush(busy, (end, lane, number))
    return lanes, ends


@seldom_collected()
def loop_grouping(listing: object) -> LoopGrouping | None:
    """Make the grouping by loops of a program; None if it has no loops that are known."""
    turns = turns_of(listing)
    return None if turns is None else LoopGrouping(turns, listing)


def with_loops(reader: TraceReader, listing: object) -> TraceReader:
    """Return a reader of the same trace with tracks of the program's loops, if it has any."""
    grouping = loop_grouping(listing)
    if grouping is None:
        return reader
    source = GroupedSource(reader.source, grouping)
    source.update()
    return TraceReader(source)


def _where(loop: TextLoop, listing: object, several: bool) -> str:
    """Return ":30", of several texts "helper:30"; without dots, which separate names of tracks."""
    line = f":{loop.place.line}"
    if not several or not isinstance(listing, HasSource):
        return line
    return f"{PurePath(listing.sources[loop.place.file].name).stem.replace('.', ' ')}{line}"


def _paths(loops: Sequence[TextLoop], listing: object) -> list[str]:
    """Return the path of each loop in the tree of tracks, each only once."""
    several = len({loop.place.file for loop in loops}) > 1
    paths: list[str] = []
    for loop in loops:
        above = paths[loop.outer] if loop.outer >= 0 else ROOT
        path = f"{above}.for {loop.variable.replace('.', ' ')} {_where(loop, listing, several)}"
        again = sum(other == path or other.startswith(f"{path} ") for other in paths)
        paths.append(f"{path} again {again}" if again else path)
    return paths


def _docs(loops: Sequence[TextLoop], listing: object) -> list[str]:
    docs: list[str] = []
    for loop in loops:
        text = ""
        if isinstance(listing, HasSource):
            lines = listing.sources[loop.place.file].text.splitlines()
            text = lines[loop.place.line - 1].strip() if 0 < loop.place.line <= len(lines) else ""
        docs.append(text or f"loop over {loop.variable}")
    return docs
