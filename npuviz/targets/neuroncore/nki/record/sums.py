"""What sums hold so far: those of products in elements of PSUM, and those over the turns of loops."""

from collections.abc import Iterator

import numpy as np

from npuviz.targets.neuroncore.nki.record.index import Box
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.tensors import Recorder, Tensor


class WrittenParts:
    """The elements of one storage that were written.

    Most tiles are written through one view again and again: elements are looked at only where views differ.
    """

    __slots__ = ("_bytes", "_later", "_views")

    def __init__(self) -> None:
        self._views: set[tuple[object, ...]] = set()
        self._later: list[Tensor] = []
        self._bytes: np.ndarray | None = None

    def note(self, target: Tensor) -> None:
        """Remember that a view is written."""
        if target.key not in self._views:
            self._views.add(target.key)
            self._later.append(target)

    def mask(self, target: Tensor) -> np.ndarray:
        """Which elements of a view were written. bool, in the shape of the view, or one for all of them."""
        if not self._views or target.key in self._views:
            return np.array(bool(self._views))
        if self._bytes is None:
            rows, columns = target.storage.shape
            self._bytes = np.zeros((rows, columns * target.storage.dtype.itemsize), dtype=np.bool_)
        for each in self._later:
            if (part := bytes_of(self._bytes, each)) is not None:
                part[...] = True
        self._later.clear()
        part = bytes_of(self._bytes, target)
        return np.array(False) if part is None else np.all(part, axis=-1)


def bytes_of(held: np.ndarray, view: Tensor) -> np.ndarray | None:
    """The bytes of a view's elements, in one dimension more; None where offsets of a tile pick them."""
    size = view.itemsize
    first = view.offset * size
    ends = [(count - 1) * step * size for count, step in zip(view.shape[1:], view.steps[1:], strict=True)]
    low, high = first + sum(min(0, end) for end in ends), first + sum(max(0, end) for end in ends)
    is_inside = low >= 0 and high + size <= held.shape[1] and view.start + view.shape[0] <= held.shape[0]
    if view.picks is not None or not is_inside:
        return None
    steps = (held.strides[0], *(step * size for step in view.steps[1:]), 1)
    return np.lib.stride_tricks.as_strided(held[view.start, first:], (*view.shape, size), steps)


def boxes_without(mask: np.ndarray) -> Iterator[Box]:
    """Boxes that cover the elements that are False, each once."""
    if mask.all():
        return
    if not mask.any():
        yield tuple((0, size) for size in mask.shape)
        return
    first = 0
    for end in range(1, len(mask) + 1):
        if end < len(mask) and np.array_equal(mask[end], mask[first]):
            continue
        if mask.ndim == 1:
            inner: Iterator[Box] = iter(() if mask[first] else ((),))
        else:
            inner = boxes_without(mask[first])
        yield from (((first, end), *each) for each in inner)
        first = end


class LoopSum:
    """The result of nl.loop_reduce: it stays in the tile that it is assigned to over the loop."""

    def __init__(self, recording: Recorder, value: Tensor, op: object, is_first: bool) -> None:
        self._recording = recording
        self._value = value
        self._op = op
        self._is_first = is_first
        self.shape, self.dtype = value.shape, value.dtype

    def __repr__(self) -> str:
        return "the result of nl.loop_reduce, which a part of a tile takes over (total[...] = ...)"

    def store(self, target: Tensor) -> None:
        """`t[...] = nl.loop_reduce(...)`."""
        if self._is_first:
            self._recording.assign(target, self._value)
        else:
            self._recording.actions.binary_into(target, name_of(self._op), target, self._value)
