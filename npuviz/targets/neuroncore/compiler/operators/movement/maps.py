"""Move elements by a map: a source index for each element of the result, divided into strided patterns.

Applying an operator that only moves elements to the elements' numbers gives its map. The map divides
into few strided patterns, which DMA descriptors move.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement.arguments import copy
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.strides import dense_steps, merged

FILL = -1
"""In a map: the element has no source, and gets the fill value."""
MAX_ELEMENTS = 1 << 24
"""Most elements of a map, whose numbers are all computed when compiling."""
FILL_RUN = 1024
"""Most elements of the constant that a fill repeats."""
MAX_PIECES = 8192
"""Most patterns of one movement."""


@dataclass(frozen=True, slots=True)
class Run:
    """Elements `target + sum(index * target_steps)` come from `source + sum(index * source_steps)`."""

    target: int
    source: int
    shape: tuple[int, ...]
    target_steps: tuple[int, ...]
    source_steps: tuple[int, ...]


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Return the row-major numbers of a tensor's elements, to apply a movement to.

    Raises CannotLower for more than MAX_ELEMENTS.
    """
    count = prod(shape)
    if count > MAX_ELEMENTS:
        raise CannotLower(f"a tensor of {count} elements, more than {MAX_ELEMENTS} that a map may have")
    return np.arange(count, dtype=np.int64).reshape(shape)


def runs_of(indices: np.ndarray) -> list[Run]:
    """Divide a map into strided runs, without FILL. Raises CannotLower for too many elements or runs."""
    if indices.size == 0:
        return []
    if indices.size > MAX_ELEMENTS:
        raise CannotLower(f"a map of {indices.size} elements, at most {MAX_ELEMENTS}")
    dense = np.asarray(indices, np.int64, order="C")
    return _runs(dense, dense_steps(dense.shape), [0])


def _runs(indices: np.ndarray, steps: tuple[int, ...], made: list[int]) -> list[Run]:
    """Divide a part of a map into runs.

    steps  of the axes of `indices` in the result, in elements;  made  one number, counts the runs so far
    """
    if indices.ndim == 0:
        made[0] += 1
        if made[0] > MAX_PIECES:
            raise CannotLower(f"a movement of more than {MAX_PIECES} separate patterns")
        value = int(indices)
        return [] if value == FILL else [Run(0, value, (), (), ())]
    groups = _groups(indices)
    period = groups[0][1]
    if len(groups) > 2 and period > 1 and all(end - begin == period for begin, end, _ in groups):
        periods = indices.reshape(len(groups), period, *indices.shape[1:])
        return _runs(periods, (steps[0] * period, *steps), made)
    found: list[Run] = []
    for begin, end, step in groups:
        for run in _runs(indices[begin], steps[1:], made):
            found.append(
                Run(
                    begin * steps[0] + run.target,
                    run.source,
                    (end - begin, *run.shape),
                    (steps[0], *run.target_steps),
                    (step, *run.source_steps),
                )
            )
    return found


def _groups(indices: np.ndarray) -> list[tuple[int, int, int]]:
    """Return ranges of the first axis in which neighbours differ by one constant: (begin, end, constant)."""
    count = indices.shape[0]
    if count == 1:
        return [(0, 1, 0)]
    rows = indices.reshape(count, -1)
    is_fill = rows == FILL
    same_fill = (is_fill[1:] == is_fill[:-1]).all(axis=1)
    steps = np.where(is_fill[1:] | is_fill[:-1], 0, rows[1:] - rows[:-1])
    # The constant of each pair of rows, from elements where both have a source.
    largest = steps.max(axis=1)
    smallest = steps.min(axis=1)
    has_fill = (is_fill[1:] & is_fill[:-1]).any(axis=1)
    step = np.where(largest != 0, largest, smallest)
    expected = np.where(is_fill[1:] & is_fill[:-1], 0, step[:, None])
    fits = same_fill & np.where(has_fill, (steps == expected).all(axis=1), largest == smallest)
    # A pair that does not continue the pair before it ends a group.
    goes_on = fits[1:] & fits[:-1] & (step[1:] == step[:-1])
    ends = [*(np.flatnonzero(~goes_on) + 2).tolist(), count]
    groups: list[tuple[int, int, int]] = []
    begin = following = 0
    while begin < count:
        end = begin + 1
        if end < count and fits[begin]:
            while ends[following] <= end:
                following += 1
            end = ends[following]
        groups.append((begin, end, int(step[begin]) if end - begin > 1 else 0))
        begin = end
    return groups


def pattern(view: HbmView, base: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> HbmView:
    """Return the elements `base + sum(index * steps)` of a dense view."""
    item = view.itemsize
    return HbmView(
        view.variable, view.offset + base * item, view.dtype, shape, tuple(step * item for step in steps)
    )


def fill(b: Builder, target: HbmView, value: np.ndarray) -> None:
    """Set every element of a view to a value of its type (an array of one element)."""
    if not target.num_elements:
        return
    # Contiguous elements are written in long runs, from a constant of the same length.
    dims = merged(zip(target.shape, target.steps, strict=True))
    run = dims[-1][0] if dims and dims[-1][1] == target.itemsize else 1
    length = min(run, FILL_RUN)
    source = b.hbm.constant(np.broadcast_to(value.reshape(-1)[0], (length,))).bitcast(target.dtype)
    sizes, steps = tuple(size for size, _ in dims), tuple(step for _, step in dims)
    whole = run // length * length
    if run > 1:
        sizes, steps = (*sizes[:-1], whole // length, length), (*steps[:-1], length * steps[-1], steps[-1])
    parts = [pattern_at(target, 0, sizes, steps)]
    if whole < run:
        rest = (*sizes[:-2], run - whole)
        parts.append(pattern_at(target, whole * target.itemsize, rest, (*steps[:-2], steps[-1])))
    for part in parts:
        taken = source[: part.shape[-1]] if run > 1 else source
        b.dma.copy(part, taken.broadcast_to(part.shape))


def pattern_at(view: HbmView, shift: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> HbmView:
    """Return a pattern, with steps in bytes, that begins `shift` bytes after the start of a view."""
    return HbmView(view.variable, view.offset + shift, view.dtype, shape, steps)


def move_by_map(
    b: Builder, target: HbmView, source: HbmView, indices: np.ndarray, value: np.ndarray | None = None
) -> None:
    """Write the dense `target` from elements of the dense `source`, by a map of the target's shape.

    value  array of one element, for FILL; None if the map has no FILL
    """
    runs = runs_of(indices)
    if value is not None and (indices == FILL).any():
        fill(b, target, value)
    for run in runs:
        copy(
            b,
            pattern(target, run.target, run.shape, run.target_steps),
            pattern(source, run.source, run.shape, run.source_steps),
        )
