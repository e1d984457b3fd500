"""The state of a timeline besides the trace: window, marks, ranges, picked slice. Data without drawing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.trace.unit_times import UnderWay
from npuviz.ui.kit.viewport import Viewport
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.measure import Measurement
from npuviz.ui.timeline.rows import RowLayout
from npuviz.workbench.sessions.bookmarks import Bookmark


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """Instructions whose slices are underlined, rising; equal to itself only."""

    instructions: np.ndarray

    def __bool__(self) -> bool:
        return len(self.instructions) > 0


NO_INSTRUCTIONS = np.zeros(0, dtype=np.int64)
NOTHING_MARKED = Marked(NO_INSTRUCTIONS)


@dataclass(frozen=True, slots=True)
class Picked:
    """One slice: its track, cycles, kind, graph node and instruction."""

    track: int
    start: int
    end: int
    kind: int
    node: int
    instruction: int


@dataclass(frozen=True, slots=True)
class Range:
    """Cycles [first, last) on some tracks; `top` and `bottom` are pixels of the row layout."""

    first: int
    last: int
    tracks: tuple[int, ...]
    top: int = 0
    bottom: int = 0


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from the end of a slice to the slice that depends on it, at `cycle`.

    instruction  the one at the end that is not the picked slice
    kind         that of a Dependency, "" for a flow of the trace
    """

    source_track: int
    source_cycle: int
    sink_track: int
    cycle: int
    instruction: int
    kind: str = ""


@dataclass
class TimelineState:
    """Everything that painters and gestures share.

    cursor     cycle the machine is at, -1 for a bundle
    hover      cycle under the pointer, or None
    under_way  work that the trace does not hold yet, up to the cursor
    estimated  tracks whose intervals are assumptions
    path       marked path as SEGMENT_DTYPE rows, oldest first, or None
    mark       the temporary mark, which the next one replaces
    marked     the instructions that are underlined besides those of `node`
    picked     the selected slice; node is the selected graph node, -1 for none
    arrow      position of the chosen arrow in `arrows`
    """

    viewport: Viewport = field(default_factory=Viewport)
    layout: RowLayout = field(default_factory=RowLayout)
    index: TimelineIndex | None = None
    scroll: int = 0
    header_width: int = 152
    end_cycle: int = 0
    cursor: int = -1
    hover: float | None = None
    hover_track: int = -1
    picked: Picked | None = None
    node: int = -1
    marked: Marked = NOTHING_MARKED
    range: Range | None = None
    measurement: Measurement | None = None
    selected_tracks: frozenset[int] = frozenset()
    bookmarks: tuple[Bookmark, ...] = ()
    path: np.ndarray | None = None
    mark: tuple[int, int] | None = None
    arrows: tuple[Arrow, ...] = ()
    arrow: int = 0
    under_way: Sequence[UnderWay] = ()
    estimated: frozenset[int] = frozenset()

    def slice_at(self, track: int, cycle: float) -> Picked | None:
        """Return the slice of an interval track that covers a cycle, or None."""
        if self.index is None or not self.is_interval_track(track):
            return None
        found = self.index.track(track).at(cycle)
        return None if found is None else self.slice_numbered(track, found)

    def slice_near(self, track: int, x: float, reach: float) -> Picked | None:
        """Return the slice under a pixel of the tracks, or the nearest one within `reach` pixels."""
        for offset in (0.0, *(sign * step for step in range(1, int(reach) + 1) for sign in (-1.0, 1.0))):
            found = self.slice_at(track, self.viewport.cycle_at(x + offset))
            if found is not None:
                return found
        return self._inside_pixels(track, x, reach)

    def _inside_pixels(self, track: int, x: float, reach: float) -> Picked | None:
        """Return the longest slice that starts within `reach` pixels of `x`, for slices shorter than a
        pixel.
        """
        if self.index is None or not self.is_interval_track(track):
            return None
        index = self.index.track(track)
        edges = (self.viewport.cycle_at(x - reach), self.viewport.cycle_at(x + reach))
        first, last = np.searchsorted(index.start, np.array(edges, dtype=np.int64)).tolist()
        if last <= first:
            return None
        last = min(last, first + 4096)
        return self.slice_numbered(
            track, first + int(np.argmax(index.end[first:last] - index.start[first:last]))
        )

    def slice_numbered(self, track: int, number: int) -> Picked | None:
        """Return a slice by its number on its track, None if there is no such number."""
        if self.index is None:
            return None
        index = self.index.track(track)
        if not 0 <= number < len(index.start):
            return None
        nodes, instructions = index.view.details(np.array([number], dtype=np.int64))
        return Picked(
            track, int(index.start[number]), int(index.end[number]), int(index.view.kind[number]),
            int(nodes[0]), int(instructions[0]),
        )  # fmt: skip

    def neighbour(self, picked: Picked, direction: int) -> Picked | None:
        """Return the slice after (1) or before (-1) another one on its track, or None."""
        if self.index is None:
            return None
        place = int(np.searchsorted(self.index.track(picked.track).start, np.int64(picked.start)))
        return self.slice_numbered(picked.track, place + direction)

    def bookmarks_near(self, x: float, reach: float) -> list[Bookmark]:
        """Return the bookmarks whose cycles are drawn within `reach` pixels of `x`."""
        view = self.viewport
        return [
            each
            for each in self.bookmarks
            if view.x_of(each.first) - reach <= x <= view.x_of(each.last) + reach
        ]

    def is_interval_track(self, track: int) -> bool:
        """Return whether a track holds slices."""
        return self.index is not None and self.index.is_interval(track)

    def snapped(self, track: int, cycle: float, reach: float) -> int:
        """Return the nearest edge of a slice within `reach` cycles, else the nearest whole cycle."""
        best = round(cycle)
        if not self.is_interval_track(track) or self.index is None:
            return max(best, 0)
        index = self.index.track(track)
        place = int(np.searchsorted(index.start, np.int64(cycle)))
        edges = [int(index.start[i]) for i in (place - 1, place) if 0 <= i < len(index.start)]
        edges += [int(index.end[i]) for i in (place - 1, place - 2) if 0 <= i < len(index.end)]
        near = [edge for edge in edges if abs(edge - cycle) <= reach]
        return max(min(near, key=lambda edge: abs(edge - cycle)), 0) if near else max(best, 0)
