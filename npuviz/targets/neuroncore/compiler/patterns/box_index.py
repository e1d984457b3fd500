"""Find the boxes of bytes that share bytes with a given one, without testing all boxes."""

from collections.abc import Hashable, Iterable
from itertools import product
from typing import Generic, TypeVar

from npuviz.targets.neuroncore.compiler.patterns.tile import Box

Key = TypeVar("Key", bound=Hashable)

_Place = tuple[int, int]


def meets(a: Box, b: Box) -> bool:
    """Return whether two boxes share a byte."""
    return a[2] < b[3] and b[2] < a[3] and a[0] < b[1] and b[0] < a[1]


class BoxIndex(Generic[Key]):
    """An index of keys by their boxes, in buckets about as large as the boxes that they hold."""

    __slots__ = ("_boxes", "_levels")

    def __init__(self) -> None:
        self._boxes: dict[Key, Box] = {}
        self._levels: dict[_Place, dict[_Place, dict[Key, None]]] = {}
        """Bits of rows and of bytes of a bucket -> its place -> the keys of boxes that reach into it."""

    def add(self, key: Key, box: Box) -> None:
        """Add a key with its box, which replaces an earlier one."""
        self.remove(key)
        self._boxes[key] = box
        level = _level(box)
        buckets = self._levels.setdefault(level, {})
        for place in _places(box, level):
            buckets.setdefault(place, {})[key] = None

    def remove(self, key: Key) -> None:
        """Remove a key, if it is there."""
        box = self._boxes.pop(key, None)
        if box is None:
            return
        level = _level(box)
        buckets = self._levels[level]
        for place in _places(box, level):
            del buckets[place][key]
            if not buckets[place]:
                del buckets[place]
        if not buckets:
            del self._levels[level]

    def meeting(self, box: Box) -> list[Key]:
        """Return the keys whose boxes share a byte with a given one."""
        boxes = self._boxes
        found: dict[Key, None] = {}
        for level, buckets in self._levels.items():
            rows, pieces = _reach(box, level)
            places: Iterable[_Place] = product(rows, pieces)
            if len(rows) * len(pieces) >= len(buckets):
                places = buckets
            for place in places:
                for key in buckets.get(place, ()):
                    if key not in found and meets(boxes[key], box):
                        found[key] = None
        return list(found)


def _level(box: Box) -> _Place:
    """Bits of the smallest bucket, in rows and in bytes, that is as large as a box."""
    return (box[1] - box[0] - 1).bit_length(), (box[3] - box[2] - 1).bit_length()


def _places(box: Box, level: _Place) -> Iterable[_Place]:
    """The at most four buckets that a box of a level reaches into."""
    return product(*_reach(box, level))


def _reach(box: Box, level: _Place) -> tuple[range, range]:
    """Rows and columns of the buckets of a level that a box reaches into."""
    rows, size = level
    return (
        range(box[0] >> rows, ((box[1] - 1) >> rows) + 1),
        range(box[2] >> size, ((box[3] - 1) >> size) + 1),
    )
