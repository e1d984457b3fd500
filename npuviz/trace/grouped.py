"""Add tracks to a trace that show the same run in another order: by line, or by turns of loops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from npuviz.trace.schema import Kind, TraceSchema, Track
from npuviz.trace.series import CounterView, IntervalSeries, IntervalView
from npuviz.trace.source import TraceSource

WORTH_UPDATING = 8
"""While a trace grows its groups follow when they lack more than this part (1/n) of its intervals."""


@dataclass(frozen=True, slots=True)
class GroupedTrack:
    """A track that was made: its name, its intervals, and a sentence.

    unit    the unit that it belongs to, origin the track whose rows it has; -1 for none
    """

    name: str
    view: IntervalView
    doc: str = ""
    unit: int = -1
    origin: int = -1


@dataclass(frozen=True, slots=True)
class FreshRows:
    """Rows of a track that were not there at the last look."""

    track: Track
    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    node: np.ndarray
    instruction: np.ndarray


class Grouping(Protocol):
    """Makes tracks of the rows of others.

    kinds       kinds of interval that the made tracks have besides those of the trace
    node_names  names of their nodes, numbered after those of the trace; node_types likewise
    """

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Further kinds."""
        ...

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of further nodes."""
        ...

    @property
    def node_types(self) -> tuple[str, ...]:
        """Types of further nodes."""
        ...

    def begin(self, schema: TraceSchema) -> None:
        """Forget all rows; those to come are of a trace with this schema."""
        ...

    def add(self, rows: FreshRows) -> None:
        """Take rows over."""
        ...

    def tracks(self) -> list[GroupedTrack]:
        """Return the tracks of all rows so far; tracks may be added and renamed as rows come."""
        ...


@dataclass(slots=True)
class _Taken:
    """How far a track was read, and its last row then."""

    count: int = 0
    tail: tuple[int, int] = (0, 0)

    def still_holds(self, view: IntervalView) -> bool:
        if self.count == 0:
            return True
        last = self.count - 1
        return len(view.start) > last and (int(view.start[last]), int(view.end[last])) == self.tail


@dataclass
class GroupedSource:
    """A trace with the tracks of a grouping after its own, whose numbers stay as they are.

    It is a `TraceSource`. Recorded tracks are always up to date, made ones as of the last `update`, after
    which `schema` may be another one.
    """

    base: TraceSource
    grouping: Grouping
    _made: list[GroupedTrack] = field(default_factory=list[GroupedTrack])
    _taken: dict[int, _Taken] = field(default_factory=dict[int, _Taken])
    _num_taken: int = -1

    def __post_init__(self) -> None:
        self._tracks = tuple(track for track in self.base.schema.tracks if track.kind == "interval")
        self.grouping.begin(self.base.schema)
        self._schema = self._schema_now()

    # -- made tracks ----------------------------------------------------------------------------------

    @property
    def num_recorded(self) -> int:
        """Number of the tracks that were recorded; those of the grouping follow."""
        return len(self.base.schema.tracks)

    def origin_of(self, track: int) -> int:
        """Return the recorded track whose rows a track has: itself, or -1 if it has rows of several."""
        made = track - self.num_recorded
        return track if made < 0 else self._made[made].origin

    def update(self, is_final: bool = True) -> bool:
        """Bring the made tracks up to date; return whether they changed.

        Unless `is_final`, little that is new is left for later.
        """
        views = [(track, self.base.interval_view(track.id)) for track in self._tracks]
        count = sum(len(view.start) for _, view in views)
        known = [(track, view, self._taken.setdefault(track.id, _Taken())) for track, view in views]
        holds = all(taken.still_holds(view) for _, view, taken in known)
        if holds and (
            count == self._num_taken or (not is_final and count - self._num_taken < count // WORTH_UPDATING)
        ):
            return False
        if not holds:
            self.grouping.begin(self.base.schema)
        for track, view, taken in known:
            self._take(track, view, taken, 0 if not holds else taken.count)
        self._num_taken = count
        self._made = self.grouping.tracks()
        fresh = self._schema_now()
        if fresh.tracks != self._schema.tracks:
            self._schema = fresh
        return True

    def _take(self, track: Track, view: IntervalView, taken: _Taken, first: int) -> None:
        count = len(view.start)
        if first < count:
            node, instruction = view.details(np.arange(first, count, dtype=np.int64))
            rows = view.start[first:], view.end[first:], view.kind[first:], node, instruction
            self.grouping.add(FreshRows(track, *rows))
        taken.count = count
        taken.tail = (int(view.start[-1]), int(view.end[-1])) if count else (0, 0)

    def _schema_now(self) -> TraceSchema:
        base, grouping = self.base.schema, self.grouping
        made = [
            Track(len(base.tracks) + number, each.name, "interval", each.unit, doc=each.doc)
            for number, each in enumerate(self._made)
        ]
        return replace(
            base,
            tracks=(*base.tracks, *made),
            kinds=(*base.kinds, *grouping.kinds),
            node_names=(*base.node_names, *grouping.node_names),
            node_types=(*base.node_types, *grouping.node_types),
        )

    # -- TraceSource ----------------------------------------------------------------------------------

    @property
    def schema(self) -> TraceSchema:
        """Names and meaning of the rows, as of the last update."""
        return self._schema

    @property
    def is_complete(self) -> bool:
        """False for the remains of a run that was killed."""
        return self.base.is_complete

    @property
    def model(self) -> Mapping[str, Any]:
        """Description of the run."""
        return self.base.model

    @property
    def end_cycle(self) -> int:
        """Cycle up to which the trace is known."""
        return self.base.end_cycle

    @property
    def num_intervals(self) -> int:
        """Number of intervals that were recorded."""
        return self.base.num_intervals

    def interval_view(self, track: int) -> IntervalView:
        """Return one interval track."""
        made = track - self.num_recorded
        return self.base.interval_view(track) if made < 0 else self._made[made].view

    def last_starts(self, tracks: Sequence[int]) -> list[int]:
        """Return the start of the last interval of each of some tracks, -1 for a track without any."""
        views = (self.interval_view(track) for track in tracks)
        return [int(view.start[-1]) if len(view.start) else -1 for view in views]

    def instructions_of(self, track: int) -> np.ndarray:
        """Return the instruction of every row of an interval track (int64, -1 none)."""
        if track < self.num_recorded:
            return self.base.instructions_of(track)
        view = self.interval_view(track)
        return view.details(np.arange(len(view.start), dtype=np.int64))[1]

    def counter_view(self, track: int) -> CounterView:
        """Return one counter track as it is now."""
        return self.base.counter_view(track)

    def flow_view(self) -> np.ndarray:
        """Return all flows, FLOW_DTYPE, sorted by cycle."""
        return self.base.flow_view()

    def cause_view(self) -> np.ndarray:
        """Return all causes, CAUSE_DTYPE, in the order of recording."""
        return self.base.cause_view()

    def lifetimes_within(self, memory: int, low: int, high: int) -> np.ndarray:
        """Return the lifetimes of a memory that overlap [low, high)."""
        return self.base.lifetimes_within(memory, low, high)


def series_view(
    start: np.ndarray,
    end: np.ndarray,
    kind: np.ndarray,
    nodes: np.ndarray,
    instructions: np.ndarray,
    num_kinds: int,
) -> IntervalView:
    """Make the view of a track of sorted rows that do not overlap."""
    series = IntervalSeries(num_kinds)
    series.append(start, end, kind)
    return series.view(lambda rows: (nodes[rows], instructions[rows]))
