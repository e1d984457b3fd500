"""Find the boxes of bytes that share bytes with a given one, without testing all boxes."""

from collections.abc import Hashable, Iterator
from itertools import product
from typing import Generic, TypeVar

from npuviz.targets.neuroncore.compiler.patterns.tile import Box

Key = TypeVar("Key", bound=Hashable)

_ROW_BITS, _BYTE_BITS = 7, 12
"""Bits of the bucket size: boxes are indexed by buckets of 128 partitions (rows) and 4 KiB."""
_MOST_BUCKETS = 8
"""A box in more buckets is tested in every search instead."""


def meets(a: Box, b: Box) -> bool:
    """Return whether two boxes share a byte."""
    return a[2] < b[3] and b[2] < a[3] and a[0] < b[1] and b[0] < a[1]


class BoxIndex(Generic[Key]):
    """An index of keys by their boxes."""

    __slots__ = ("_boxes", "_buckets", "_wide")

    def __init__(self) -> None:
        self._boxes: dict[Key, Box] = {}
        self._buckets: dict[tuple[int, int], dict[Key, None]] = {}
        self._wide: dict[Key, None] = {}

    def add(self, key: Key, box: Box) -> None:
        """Add a key with its box, which replaces an earlier one."""
        self.remove(key)
        self._boxes[key] = box
        for group in self._groups(box):
            group[key] = None

    def remove(self, key: Key) -> None:
        """Remove a key, if it is there."""
        box = self._boxes.pop(key, None)
        if box is not None:
            for group in self._groups(box):
                del group[key]

    def meeting(self, box: Box) -> list[Key]:
        """Return the keys whose boxes share a byte with a given one."""
        boxes = self._boxes
        rows, pieces = _pieces(box)
        if len(rows) * len(pieces) >= len(boxes):
            return [key for key, each in boxes.items() if meets(each, box)]
        found = {key: None for key in self._wide if meets(boxes[key], box)}
        for place in product(rows, pieces):
            for key in self._buckets.get(place, ()):
                if key not in found and meets(boxes[key], box):
                    found[key] = None
        return list(found)

    def _groups(self, box: Box) -> Iterator[dict[Key, None]]:
        rows, pieces = _pieces(box)
        if len(rows) * len(pieces) > _MOST_BUCKETS:
            yield self._wide
            return
        for place in product(rows, pieces):
            yield self._buckets.setdefault(place, {})


def _pieces(box: Box) -> tuple[range, range]:
    return (
        range(box[0] >> _ROW_BITS, ((box[1] - 1) >> _ROW_BITS) + 1),
        range(box[2] >> _BYTE_BITS, ((box[3] - 1) >> _BYTE_BITS) + 1),
    )
