"""Compute with patterns: shapes with a step for each dimension, like numpy's shapes and strides."""

from collections.abc import Iterable, Sequence
from math import prod

Dims = list[tuple[int, int]]
"""(size, step) pairs, outermost first."""


def dense_steps(shape: Sequence[int], unit: int = 1) -> tuple[int, ...]:
    """Return the row-major steps of a shape whose elements are `unit` apart."""
    steps: list[int] = []
    for size in reversed(shape):
        steps.append(unit)
        unit *= size
    return tuple(reversed(steps))


def merged(dims: Iterable[tuple[int, int]]) -> Dims:
    """Merge dimensions without changing addresses or order; [] for a single element."""
    made: Dims = []
    for size, step in dims:
        if size == 1:
            continue
        if made and made[-1][1] == step * size:
            made[-1] = (made[-1][0] * size, step)
        else:
            made.append((size, step))
    return made


def merged_together(shape: Sequence[int], sides: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Merge the dimensions of several patterns of one shape, where all of them allow it.

    Returns (size, step of side 0, step of side 1, ...) for each dimension, outermost first.
    """
    made: list[tuple[int, ...]] = []
    for size, *steps in zip(shape, *sides, strict=True):
        if size == 1:
            continue
        if made and all(made[-1][i + 1] == step * size for i, step in enumerate(steps)):
            made[-1] = (made[-1][0] * size, *steps)
        else:
            made.append((size, *steps))
    return made


def resolved_shape(count: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Replace a single -1 in `shape` so that it has `count` elements. Raises ValueError if impossible."""
    known, free = 1, 0
    for size in shape:
        if size < 0:
            free += 1
        else:
            known *= size
    if free == 1 and known and count % known == 0:
        shape = tuple(count // known if size < 0 else size for size in shape)
        free = 0
        known = count
    if free or known != count:
        raise ValueError(f"cannot reshape {count} elements to {tuple(shape)}")
    return tuple(shape)


def reshaped_steps(shape: Sequence[int], steps: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """Return the steps of the same elements in the shape `new`, of equally many elements.

    Raises ValueError if there are none, so that numpy would copy.
    """
    count = prod(shape)
    if count == 0:
        return dense_steps(new)
    old = merged(zip(shape, steps, strict=True))
    made: list[int] = [0] * len(new)
    at = len(old) - 1
    left, unit = (old[at][0], old[at][1]) if old else (1, 1)
    for index in range(len(new) - 1, -1, -1):
        size = new[index]
        if size != 1 and left == 1:
            at -= 1
            left, unit = old[at]
        made[index] = unit
        if size == 1:
            continue
        if left % size:
            raise ValueError(f"{tuple(shape)} with steps {tuple(steps)} is not a view of {tuple(new)}")
        left //= size
        unit *= size
    return tuple(made)


def extent(shape: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and highest address of the elements, relative to the first; no size may be 0."""
    low = high = 0
    for size, step in zip(shape, steps, strict=True):
        reach = (size - 1) * step
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


def sliced(
    shape: Sequence[int], steps: Sequence[int], key: Sequence[object]
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return (offset, shape, steps) of numpy's basic slicing with ints, slices and one Ellipsis.

    Raises IndexError for too many or out-of-range indices and TypeError for anything else.
    """
    key = expanded_key(key, len(shape))
    offset = 0
    sizes: list[int] = []
    strides: list[int] = []
    for size, step, item in zip(shape, steps, key, strict=True):
        if isinstance(item, slice):
            start, stop, stride = item.indices(size)
            count = len(range(start, stop, stride))
            offset += start * step if count else 0
            sizes.append(count)
            strides.append(step * stride)
        elif hasattr(item, "__index__"):
            index = int(item)  # pyright: ignore[reportArgumentType]
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of range for a dimension of {size}")
            offset += (index + size if index < 0 else index) * step
        else:
            raise TypeError(f"a pattern is indexed with ints and slices, not {item!r}")
    return offset, tuple(sizes), tuple(strides)


def expanded_key(key: Sequence[object], rank: int) -> list[object]:
    """Return the key with its Ellipsis, or missing trailing dimensions, replaced by full slices."""
    items = list(key)
    for at, item in enumerate(items):
        if item is Ellipsis:
            items[at : at + 1] = [slice(None)] * (rank - len(items) + 1)
            break
    else:
        items += [slice(None)] * (rank - len(items))
    if len(items) != rank:
        raise IndexError(f"{len(key)} indices for {rank} dimensions")
    return items
