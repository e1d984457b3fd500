"""Which emitted work is in vain: nobody reads what it writes before that is overwritten or all is over."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Region

_MAX_BOXES = 64
"""Boxes of one region that are wanted; of more, what is overwritten stays wanted: less is found."""
MOST_WORKS = 1 << 18
"""Instructions of a program whose accesses are remembered for this; of a longer one all are needed."""

Access = tuple[Region, Box]


@dataclass(slots=True)
class Work:
    """What one call of the emitter reads and writes.

    call      its number among all calls, those taken back too
    is_whole  every byte of the written boxes is written, whatever was there
    is_needed  it counts as read: people look at what it writes
    """

    call: int
    reads: Sequence[Access]
    writes: Sequence[Access]
    is_whole: bool
    is_needed: bool = False


def unread(works: Sequence[Work | None], kept: Collection[int]) -> frozenset[int]:
    """Calls whose results nobody reads, and those that only such calls read.

    works  in program order; None touches nothing
    kept   `id` of regions that are read after the end
    Nothing of a program of MOST_WORKS instructions or more.
    """
    if len(works) >= MOST_WORKS:
        return frozenset()
    wanted: dict[int, list[Box]] = {}
    found: set[int] = set()
    for work in reversed(works):
        if work is None:
            continue
        is_read = work.is_needed or not work.writes
        for region, box in work.writes:
            is_read = is_read or id(region) in kept or _meets(wanted.get(id(region), ()), box)
        if not is_read:
            found.add(work.call)
            continue
        for region, box in work.writes if work.is_whole else ():
            if id(region) in wanted:
                wanted[id(region)] = _without(wanted[id(region)], box)
        for region, box in work.reads:
            mine = wanted.setdefault(id(region), [])
            if box not in mine:
                mine.append(box)
    return frozenset(found)


def is_dense(box: Box, num_bytes: int) -> bool:
    """Whether so many bytes, none of them twice, fill a box."""
    p0, p1, b0, b1 = box
    return num_bytes == (p1 - p0) * (b1 - b0)


def _meets(boxes: Sequence[Box], box: Box) -> bool:
    p0, p1, b0, b1 = box
    return any(q0 < p1 and p0 < q1 and c0 < b1 and b0 < c1 for q0, q1, c0, c1 in boxes)


def _without(boxes: list[Box], box: Box) -> list[Box]:
    """Boxes less another: what is left of each is at most four boxes."""
    if len(boxes) > _MAX_BOXES:
        return boxes
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
