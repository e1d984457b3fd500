"""Find emitted work whose results are never read before they are overwritten or the program ends."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Region

_MAX_BOXES = 64
"""Most wanted boxes of a region; with more, overwritten bytes stay wanted, so less unread work is found."""
MOST_WORKS = 1 << 18
"""Most instructions of a program that is searched; of a longer one, all count as needed."""

Access = tuple[Region, Box]


@dataclass(slots=True)
class Work:
    """The accesses of one call of the emitter.

    call       its number among all calls, including those taken back
    is_whole   whether every byte of the written boxes is written, independent of its previous value
    is_needed  whether it counts as read, because its result is shown
    """

    call: int
    reads: Sequence[Access]
    writes: Sequence[Access]
    is_whole: bool
    is_needed: bool = False


def unread(works: Sequence[Work | None], kept: Collection[int]) -> frozenset[int]:
    """Return the calls whose results are never read, and those that only such calls read.

    works  in program order; None accesses nothing
    kept   `id` of regions that are read after the end
    The result is empty for a program of MOST_WORKS instructions or more.
    """
    if len(works) >= MOST_WORKS:
        return frozenset()
    wanted: dict[int, _Wanted] = {}
    found: set[int] = set()
    for work in reversed(works):
        if work is None:
            continue
        is_read = work.is_needed or not work.writes
        for region, box in work.writes:
            mine = wanted.get(id(region))
            is_read = is_read or id(region) in kept or (mine is not None and mine.meets(box))
        if not is_read:
            found.add(work.call)
            continue
        for region, box in work.writes if work.is_whole else ():
            if id(region) in wanted:
                wanted[id(region)].overwrite(box)
        for region, box in work.reads:
            wanted.setdefault(id(region), _Wanted()).add(box)
    return frozenset(found)


def is_dense(box: Box, num_bytes: int) -> bool:
    """Return whether `num_bytes` different bytes fill a box."""
    p0, p1, b0, b1 = box
    return num_bytes == (p1 - p0) * (b1 - b0)


@dataclass(slots=True)
class _Wanted:
    """Bytes of a region that later work reads.

    few   boxes, until there are more than _MAX_BOXES; empty from then on
    many  from then on: by (first, end) of the partitions, the sorted bounds (begin, end, begin, ...) of
    separate byte ranges
    """

    few: list[Box] = field(default_factory=list)
    many: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def add(self, box: Box) -> None:
        """Add a box that is read."""
        if self.many:
            self._join(box)
        elif box not in self.few:
            self.few.append(box)
            self._limit()

    def overwrite(self, box: Box) -> None:
        """Remove a box that is overwritten, while there are few boxes."""
        if self.few:
            self.few = _without(self.few, box)
            self._limit()

    def meets(self, box: Box) -> bool:
        """Return whether any byte of a box is read."""
        p0, p1, b0, b1 = box
        if not self.many:
            return any(q0 < p1 and p0 < q1 and c0 < b1 and b0 < c1 for q0, q1, c0, c1 in self.few)
        return any(q0 < p1 and p0 < q1 and _is_within(ends, b0, b1) for (q0, q1), ends in self.many.items())

    def _limit(self) -> None:
        if len(self.few) > _MAX_BOXES:
            for box in self.few:
                self._join(box)
            self.few = []

    def _join(self, box: Box) -> None:
        ends = self.many.setdefault(box[:2], [])
        first, last = bisect_left(ends, box[2]), bisect_right(ends, box[3])
        ends[first:last] = ([box[2]] if first % 2 == 0 else []) + ([box[3]] if last % 2 == 0 else [])


def _is_within(ends: Sequence[int], begin: int, end: int) -> bool:
    place = bisect_right(ends, begin)
    return place % 2 == 1 or place < bisect_left(ends, end)  # odd: between a begin and its end


def _without(boxes: list[Box], box: Box) -> list[Box]:
    """Subtract a box from boxes; each leaves at most four boxes."""
    p0, p1, b0, b1 = box
    left: list[Box] = []
    for q0, q1, c0, c1 in boxes:
        if q0 >= p1 or p0 >= q1 or c0 >= b1 or b0 >= c1:
            left.append((q0, q1, c0, c1))
            continue
        top, bottom = max(q0, p0), min(q1, p1)
        parts = ((q0, top, c0, c1), (bottom, q1, c0, c1), (top, bottom, c0, b0), (top, bottom, b1, c1))
        left += [part for part in parts if part[0] < part[1] and part[2] < part[3]]
    return left
