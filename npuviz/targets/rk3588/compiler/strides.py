"""Describe how tensors lie in memory, axis by axis, and what a copy from one layout to another must move.

Every layout of the NPU is a list of axes in the order of the tensor's elements. An axis advances by whole
atoms, or its first indices are the elements of an atom: its lanes. Two layouts of one tensor are brought to
common factors; the results are loops over atoms, and the two axes whose lanes change places.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES


@dataclass(frozen=True, slots=True)
class Axis:
    """Indices of a tensor in memory. step  atoms between neighbours, or between groups of lanes if it has
    lanes"""

    size: int
    step: int
    has_lanes: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Atoms at even distances: taken  in the source, given  in the target."""

    size: int
    taken: int
    given: int


@dataclass(frozen=True, slots=True)
class Part:
    """Atoms that are moved alike. taken, given  of the first one, in atoms of the buffers

    lanes  None: atoms stay whole. Else (source, target): what the lanes of the two ends count; they are
           loops that the exchange itself runs: the source's over atoms of the target, and the reverse
    """

    taken: int
    given: int
    loops: tuple[Loop, ...]
    lanes: tuple[Loop, Loop] | None = None


def axes_of(buffer: Buffer) -> tuple[Axis, ...]:
    """Return the axes of a buffer: a feature cube, or rows that begin with atoms."""
    group = packing(buffer.dtype).channels
    if buffer.layout == "rows":
        rows, length = buffer.shape
        return Axis(rows, -(-length // group)), Axis(length, 1, has_lanes=True)
    shape = buffer.shape
    if len(shape) == 2:
        return Axis(shape[0], 1), Axis(shape[1], shape[0], has_lanes=True)
    images, channels, height, width = (
        (*shape, *[1] * (4 - len(shape))) if len(shape) > 2 else (1, *shape, 1, 1)
    )
    plane = height * width
    image = aligned(channels, group) // group * plane
    return Axis(images, image), Axis(channels, plane, has_lanes=True), Axis(plane, 1)


def split_axes(axes: Sequence[Axis], sizes: Sequence[int], group: int) -> list[list[Axis]]:
    """Return the axes of every dimension of a tensor, the slowest first. Raises CannotLower."""
    whole = [Axis(size, 0) for size in sizes]
    found: list[list[Axis]] = [[] for _ in sizes]
    for number, _, axis in _matched(whole, axes, group):
        found[number].append(axis)
    return found


def joined_axes(axes: Sequence[Axis], group: int) -> list[Axis]:
    """Return axes of which those that continue each other in memory are one: another layout's atoms may lie
    across their border."""
    found: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        before = found[-1] if found else None
        fills = not axis.has_lanes or axis.size % group == 0
        turn = axis.step * axis.size // (group if axis.has_lanes else 1)
        if before is not None and not before.has_lanes and fills and before.step == turn:
            found[-1] = replace(axis, size=before.size * axis.size)
        else:
            found.append(axis)
    return found


def parts_of(source: Sequence[Axis], target: Sequence[Axis], group: int) -> list[Part]:
    """Return the parts of a copy of all elements, in their order. group  lanes of an atom

    Raises CannotLower if an axis cuts through atoms.
    """
    ends = joined_axes(source, group), joined_axes(target, group)
    pairs = [(source_axis, target_axis) for _, source_axis, target_axis in _matched(*ends, group)]
    loops = tuple(
        Loop(one.size, one.step, two.step) for one, two in pairs if not (one.has_lanes or two.has_lanes)
    )
    both = [pair for pair in pairs if pair[0].has_lanes and pair[1].has_lanes]
    if both:
        one, two = both[0]
        return [Part(0, 0, _joined([*loops, Loop(-(-one.size // group), one.step, two.step)]))]
    taken = [pair for pair in pairs if pair[0].has_lanes]
    given = [pair for pair in pairs if pair[1].has_lanes]
    if not taken and not given:
        return [Part(0, 0, _joined(loops))]
    found: list[Part] = []
    for (low, blocks, lane), (start, groups, column) in product(
        _lanes(taken[0][0], taken[0][1], group) if taken else _NONE,
        _lanes(given[0][1], given[0][0], group) if given else _NONE,
    ):
        # `start`, `groups` and `column` are relative to the target: their ends change places.
        turned = Loop(groups.size, groups.given, groups.taken), Loop(column.size, column.given, column.taken)
        found.append(
            Part(
                low[0] + start[1], low[1] + start[0], _joined([*loops, blocks, turned[0]]), (lane, turned[1])
            )
        )
    return found


_NONE = [((0, 0), Loop(1, 0, 0), Loop(1, 0, 0))]


def _lanes(own: Axis, other: Axis, group: int) -> Iterator[tuple[tuple[int, int], Loop, Loop]]:
    """Yield the whole atoms of an axis with lanes, then the rest: where it begins, its atoms, its lanes."""
    whole, rest = divmod(own.size, group)
    if whole:
        yield (0, 0), Loop(whole, own.step, group * other.step), Loop(group, 0, other.step)
    if rest:
        begin = whole * own.step, whole * group * other.step
        yield begin, Loop(1, 0, 0), Loop(rest, 0, other.step)


def _matched(source: Sequence[Axis], target: Sequence[Axis], group: int) -> list[tuple[int, Axis, Axis]]:
    """Return common factors of two lists of axes: the number of the source's axis, and both ends of each
    factor."""
    if prod(axis.size for axis in source) != prod(axis.size for axis in target):
        raise CannotLower("layouts of different sizes")
    one, two = (
        [(number, axis) for number, axis in enumerate(axes) if axis.size > 1] for axes in (source, target)
    )
    found: list[tuple[int, Axis, Axis]] = []
    done = [1, 1]
    while one and two:
        (number, first), (_, second) = one[-1], two[-1]
        rests = first.size // done[0], second.size // done[1]
        factor = min(rests)
        if max(rests) % factor:
            raise CannotLower(f"axes of {rests[0]} and {rests[1]} have no common factors")
        cut = _inner(first, done[0], factor, group), _inner(second, done[1], factor, group)
        found.insert(0, (number, *cut))
        for at, left in enumerate((one, two)):
            done[at] *= factor
            if done[at] == left[-1][1].size:
                left.pop()
                done[at] = 1
    return found


def _inner(axis: Axis, inner: int, size: int, group: int) -> Axis:
    """Return a factor of an axis, of `size` indices `inner` apart."""
    if not axis.has_lanes:
        return Axis(size, axis.step * inner)
    if inner == 1:
        if size < axis.size and size % group:
            raise CannotLower(f"{size} of {axis.size} neighbours do not fill atoms of {group}", str(size))
        return replace(axis, size=size)
    return Axis(size, axis.step * (inner // group))


def _joined(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """Return the loops without those of one turn; loops that continue each other become one."""
    left = [loop for loop in loops if loop.size > 1]
    for one, two in product(left, left):
        ends = two.size * two.taken, two.size * two.given
        if one is not two and (one.taken, one.given) == ends:
            joined = Loop(one.size * two.size, two.taken, two.given)
            return _joined([joined, *(loop for loop in left if loop is not one and loop is not two)])
    return tuple(sorted(left, key=lambda loop: -loop.size))


def rows_shape(shape: Sequence[int]) -> tuple[int, int]:
    """Return (rows, elements of a row) in which the Host keeps a tensor of a cube's shape, row by row."""
    if len(shape) < 3:
        return prod(shape[:-1]), prod(shape[-1:])
    images, channels, plane = shape[0], shape[1], prod(shape[2:])
    return (images, channels) if plane == 1 else (images * channels, plane)


def rows_bytes(shape: tuple[int, int], dtype: str) -> int:
    """Return the bytes of rows that begin with atoms."""
    return shape[0] * aligned(shape[1] * numpy_dtype(dtype).itemsize, ATOM_BYTES)
