"""Index tensors and masks of NKI's first generation: affine expressions over the dimensions of a tile."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NoReturn

import numpy as np

from npuviz.targets.neuroncore.nki.record.errors import KernelError, Undocumented

Box = tuple[tuple[int, int], ...]
"""Half-open range in each dimension."""
MAX_BOXES = 1024
"""Parts of a tile that one call is split into."""
MAX_MASKED = 1 << 26
"""Elements of a tile whose mask is looked at one by one."""


class Boxes(tuple[Box, ...]):
    """Boxes that do not meet."""


def is_empty(part: Box | Boxes) -> bool:
    """Return whether a box, or each of several, has no elements."""
    boxes = part if isinstance(part, Boxes) else (part,)
    return all(any(end <= first for first, end in box) for box in boxes)


_ALL = slice(None)


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to, by numpy's rules. Raises KernelError."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    made: list[int] = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise KernelError(f"shapes {', '.join(map(str, shapes))} do not go together")
        made.append(wanted.pop() if wanted else 1)
    return tuple(made)


class Index:
    """An index tensor: const + sum of steps[k] * i[k], for i inside of `shape`. Never changed.

    grid  shape of the nl.mgrid that it comes from, () if from none: its values repeat over all of that
    """

    __slots__ = ("const", "grid", "shape", "steps")
    __array_ufunc__ = None

    def __init__(
        self, shape: tuple[int, ...], const: int, steps: tuple[int, ...], grid: tuple[int, ...] = ()
    ) -> None:
        self.grid = grid
        self.shape = shape
        self.const = const
        self.steps = steps

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Undocumented(f"{name} of an index tensor")

    def __getitem__(self, key: object) -> "Index":
        """Dimensions of size 1 where `None` stands; `:` and `...` keep the others."""
        if isinstance(key, tuple) and len(key) == 2 and len(self.shape) == 1:
            (count,), (step,) = self.shape, self.steps
            if key[0] is None and key[1] == _ALL:
                return Index((1, count), self.const, (0, step))
            if key[1] is None and key[0] == _ALL:
                return Index((count, 1), self.const, (step, 0))
        items = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in items:
            at = items.index(Ellipsis)
            kept = len(self.shape) - sum(item is not None and item is not Ellipsis for item in items)
            items[at : at + 1] = [slice(None)] * kept
        sizes, steps = list(self.shape), list(self.steps)
        shape: list[int] = []
        made: list[int] = []
        for item in items:
            if item is None:
                shape.append(1)
                made.append(0)
            elif isinstance(item, slice) and item == slice(None) and sizes:
                shape.append(sizes.pop(0))
                made.append(steps.pop(0))
            else:
                raise KernelError(f"an index tensor takes ':' and None in a subscript, found {item!r}")
        return Index((*shape, *sizes), self.const, (*made, *steps))

    def __setitem__(self, key: object, value: object) -> None:
        raise KernelError(
            "index tensors are not assigned to: add to them, as in i + 3", "err_cannot_assign_to_index"
        )

    def __bool__(self) -> bool:
        raise KernelError(
            "a condition cannot depend on nl.arange: use mask=, or nl.where",
            "err_control_flow_condition_depending_on_arange",
        )

    def expand_dims(self, axis: int) -> "Index":
        """With a dimension of size 1 at `axis`."""
        at = axis % (self.ndim + 1)
        return Index(
            (*self.shape[:at], 1, *self.shape[at:]), self.const, (*self.steps[:at], 0, *self.steps[at:])
        )

    def _combined(self, other: object, sign: int) -> "Index":
        if isinstance(other, Index):
            shape = broadcast_shape(self.shape, other.shape)
            left, right = self.padded(len(shape)), other.padded(len(shape))
            steps = tuple(a + sign * b for a, b in zip(left, right, strict=True))
            grid = broadcast_shape(self.grid, other.grid)
            return Index(shape, self.const + sign * other.const, steps, grid)
        return Index(self.shape, self.const + sign * whole(other), self.steps, self.grid)

    def padded(self, rank: int) -> tuple[int, ...]:
        """The steps of `rank` dimensions, 0 where the size is 1."""
        sizes = (1,) * (rank - self.ndim) + self.shape
        steps = (0,) * (rank - self.ndim) + self.steps
        return tuple(step if size > 1 else 0 for size, step in zip(sizes, steps, strict=True))

    def __add__(self, other: object) -> "Index":
        return self._combined(other, 1)

    def __sub__(self, other: object) -> "Index":
        return self._combined(other, -1)

    def __radd__(self, other: object) -> "Index":
        return self + other

    def __rsub__(self, other: object) -> "Index":
        return self * -1 + other

    def __mul__(self, other: object) -> "Index":
        factor = whole(other)
        return Index(self.shape, self.const * factor, tuple(step * factor for step in self.steps), self.grid)

    def __rmul__(self, other: object) -> "Index":
        return self * other

    def __neg__(self) -> "Index":
        return self * -1

    def __floordiv__(self, other: object) -> "Index":
        divisor = whole(other)
        steps = self.padded(self.ndim)
        rest = Index(self.shape, self.const % divisor, tuple(step % divisor for step in steps))
        low, high = rest.bounds()
        if low // divisor != high // divisor:
            raise KernelError(f"{self} // {divisor} is not affine; write the index with more dimensions")
        const = self.const // divisor + low // divisor
        return Index(self.shape, const, tuple(step // divisor for step in steps), self.grid)

    def __mod__(self, other: object) -> "Index":
        divisor = whole(other)
        try:
            return self - self // divisor * divisor
        except KernelError:
            raise KernelError(
                f"{self} % {divisor} is not affine; write the index with more dimensions"
            ) from None

    def __lt__(self, other: object) -> "Mask":
        return Mask((Condition(self._less(other), "less"),))

    def __le__(self, other: object) -> "Mask":
        return Mask((Condition(self._less(other), "less_equal"),))

    def __gt__(self, other: object) -> "Mask":
        return Mask((Condition(self._less(other), "greater"),))

    def __ge__(self, other: object) -> "Mask":
        return Mask((Condition(self._less(other), "greater_equal"),))

    def __eq__(self, other: object) -> "Mask":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Mask((Condition(self._less(other), "equal"),))

    def __ne__(self, other: object) -> "Mask":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Mask((Condition(self._less(other), "not_equal"),))

    __hash__ = object.__hash__

    def _less(self, other: object) -> "Index":
        return self - other

    def __repr__(self) -> str:
        return f"index {self.const}+{self.steps} over {self.shape}"

    def bounds(self, box: Box | None = None) -> tuple[int, int]:
        """Smallest and largest value, inside of `box` if given."""
        low = high = self.const
        for place, (size, step) in enumerate(zip(self.shape, self.steps, strict=True)):
            first, end = (0, size) if box is None or size == 1 else box[place]
            ends = (step * first, step * (end - 1))
            low, high = low + min(ends), high + max(ends)
        return low, high


def whole(value: object) -> int:
    """An integer of an index expression, one of a register or of the chip too. Raises KernelError."""
    known = getattr(value, "known_integer", None)
    if known is not None:
        return known()
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # pyright: ignore[reportArgumentType]
        except TypeError:  # arrays of numpy have the method too, and not always an answer
            pass
    name = "err_unsupported_expression_in_mask" if isinstance(value, Index) else ""
    raise KernelError(f"an index is made of nl.arange, loop indices and integers, found {value!r}", name)


@dataclass(frozen=True, slots=True)
class Condition:
    """`expression` compared with 0."""

    expression: Index
    op: str

    def holds(self, shape: tuple[int, ...]) -> np.ndarray:
        """Where it is true in a tile of `shape`: bool, of a shape that broadcasts to it."""
        expression = self.expression
        values = np.full((1,) * len(shape), expression.const, np.int64)
        for dim, step in enumerate(expression.padded(len(shape))):
            along = tuple(shape[dim] if k == dim else 1 for k in range(len(shape)))
            values = values + (step * np.arange(shape[dim])).reshape(along) if step else values
        return _COMPARED[self.op](values, 0)


@dataclass(frozen=True)
class Mask:
    """A conjunction of conditions."""

    conditions: tuple[Condition, ...]

    def __and__(self, other: object) -> "Mask":
        if isinstance(other, bool):
            return self if other else Mask((*self.conditions, Condition(Index((), 1, ()), "less")))
        if not isinstance(other, Mask):
            raise KernelError(
                f"a mask goes together with masks, found {other!r}", "err_unsupported_expression_in_mask"
            )
        return Mask((*self.conditions, *other.conditions))

    def __rand__(self, other: object) -> "Mask":
        return self & other

    def __or__(self, *_: object) -> "Mask":
        raise KernelError("masks are joined by & alone", "err_unsupported_expression_in_mask")

    __ror__ = __xor__ = __rxor__ = __invert__ = __or__

    def __bool__(self) -> bool:
        raise KernelError(
            "a condition cannot depend on nl.arange: use mask=, or nl.where",
            "err_control_flow_condition_depending_on_arange",
        )

    def cuts_partitions(self, shape: tuple[int, ...]) -> bool:
        """Whether some, but not all, indices of the first dimension of a tile remain. Raises KernelError."""
        found = (each for condition in self.conditions for each in _ranges(condition, shape))
        return any(dim == 0 and end > first for dim, first, end in found)

    def boxes(self, shape: tuple[int, ...]) -> "Box | Boxes":
        """As `box`; where no box is left, several that together are the part. Raises KernelError."""
        try:
            return self.box(shape)
        except KernelError:
            if prod(shape) > MAX_MASKED:
                raise
        holds = np.ones(shape, bool)
        for condition in self.conditions:
            holds &= condition.holds(shape)
        made = Boxes(_boxes(holds))
        if len(made) > MAX_BOXES:
            raise KernelError(
                f"the mask leaves {len(made)} pieces of a tile, at most {MAX_BOXES} are run one by one",
                "err_unsupported_expression_in_mask",
            )
        return made

    def box(self, shape: tuple[int, ...]) -> Box:
        """The part of a tile of `shape` where all conditions hold. Raises KernelError if it is no box."""
        ranges = [(0, size) for size in shape]
        for condition in self.conditions:
            for dim, low, high in _ranges(condition, shape):
                first, end = ranges[dim]
                ranges[dim] = (max(first, low), max(max(first, low), min(end, high)))
        return tuple(ranges)


def _ranges(condition: Condition, shape: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """(dimension, first, end) that a condition allows."""
    expression = condition.expression
    offset = len(shape) - expression.ndim
    moving = [
        dim
        for dim, (size, step) in enumerate(zip(expression.shape, expression.steps, strict=True))
        if size > 1 and step
    ]
    if not moving:
        if not _holds(expression.const, condition.op):
            yield 0, 0, 0
        return
    low, high = expression.bounds()
    if _fails(low, high, condition.op):
        yield 0, 0, 0
        return
    if (
        _holds(low, condition.op)
        and _holds(high, condition.op)
        and condition.op not in ("equal", "not_equal")
    ):
        return
    if len(moving) > 1:
        raise KernelError(
            "the mask cuts a tile along a diagonal, which this call does not take; "
            "write it with affine_select, or with several calls",
            "err_unsupported_expression_in_mask",
        )
    dim = moving[0]
    step, size = expression.steps[dim], expression.shape[dim]
    kept = [i for i in range(size) if _holds(expression.const + step * i, condition.op)]
    if not kept:
        yield dim + offset, 0, 0
    elif kept[-1] - kept[0] + 1 != len(kept):
        raise KernelError("the mask leaves a gap in a dimension", "err_unsupported_expression_in_mask")
    else:
        yield dim + offset, kept[0], kept[-1] + 1


_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


def _holds(value: int, op: str) -> bool:
    return bool(_COMPARED[op](value, 0))


def _fails(low: int, high: int, op: str) -> bool:
    """Whether no value from low to high holds."""
    if op == "equal":
        return low > 0 or high < 0
    if op == "not_equal":
        return low == high == 0
    return not _holds(low, op) and not _holds(high, op)


def _boxes(holds: np.ndarray) -> Iterator[Box]:
    """Boxes that together are the true elements of an array; equal rows side by side go together."""
    rows = holds.reshape(len(holds), -1)
    changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    for first, end in pairwise((0, *changes.tolist(), len(rows))):
        if holds.ndim == 1:
            if holds[first]:
                yield ((first, end),)
            continue
        for rest in _boxes(holds[first]):
            yield ((first, end), *rest)


def arange(*bounds: int) -> Index:
    """nl.arange(stop), (start, stop), (start, stop, step): one dimension."""
    return _arange(bounds) if all(type(each) is int for each in bounds) else _arange.__wrapped__(bounds)


@lru_cache(maxsize=1 << 12)
def _arange(bounds: tuple[int, ...]) -> Index:
    start, stop, step = 0, *bounds[:1], 1
    if len(bounds) > 1:
        start, stop, step = (*bounds, 1)[:3]
    count = len(range(whole(start), whole(stop), whole(step)))
    if not count:
        raise KernelError(f"nl.arange{bounds} is empty")
    return Index((count,), whole(start), (whole(step),))


class Grid:
    """The index tensors of nl.mgrid: .p, .x, .y, .z, or unpacked."""

    def __init__(self, ranges: tuple[slice, ...]) -> None:
        rank = len(ranges)
        self._parts: list[Index] = []
        along = [arange(part.start or 0, part.stop, part.step or 1) for part in ranges]
        grid = tuple(made.shape[0] for made in along)
        for dim, made in enumerate(along):
            shape = tuple(made.shape[0] if k == dim else 1 for k in range(rank))
            steps = tuple(made.steps[0] if k == dim else 0 for k in range(rank))
            self._parts.append(Index(shape, made.const, steps, grid))

    def __iter__(self) -> Iterator[Index]:
        return iter(self._parts)

    def __getitem__(self, number: int) -> Index:
        return self._parts[number]

    def __len__(self) -> int:
        return len(self._parts)

    def __getattr__(self, name: str) -> Index:
        at = "pxyzw".find(name)
        if len(name) != 1 or not 0 <= at < len(self._parts):
            raise AttributeError(name)
        return self._parts[at]


class MultiGrid:
    """nl.mgrid[0:p, 0:f]."""

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Grid:
        return Grid(key if isinstance(key, tuple) else (key,))
