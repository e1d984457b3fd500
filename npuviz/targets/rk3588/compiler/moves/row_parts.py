"""Move parts of tensors whose cubes are rows of their last axis: a task for each run of rows at even
distances, or of runs of neighbours at even distances."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd

import numpy as np

from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.moving import Span, Window, move
from npuviz.targets.rk3588.tables import Buffer


def is_rows(shape: Sequence[int], buffer: Buffer) -> bool:
    """Return whether a cube holds a tensor of more axes as rows of its last one."""
    return len(shape) > 2 and len(buffer.shape) == 2


def row_numbers(shape: Sequence[int], spans: Mapping[int, Span]) -> np.ndarray:
    """Return which rows of a tensor a part of it lies in, in the part's order: (rows of the part,).

    spans  of its axes, all of those that are left out; the last axis does not matter
    """
    sizes = tuple(shape[:-1])
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes)
    for axis in range(len(sizes)):
        if axis in spans:
            span = spans[axis]
            places = span.first + span.step * np.arange(span.count)
            numbers = np.take(numbers, places, axis)
    return numbers.reshape(-1)


def move_rows(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    rows: tuple[np.ndarray, np.ndarray],
    channels: tuple[Span, Span],
    stages: Stages,
) -> None:
    """Emit tasks that together move rows to rows, one after the other.

    rows      (rows,): their numbers in the source and the target
    channels  of each row, in the source and the target
    """
    best, seen = _fewest(rows, channels, 1), ends
    width = _width(ends, rows)
    if width > 1 and len(best) > 1:
        # Rows of a task are runs of neighbours then, at even distances.
        found = _fewest((rows[0][::width] // width, rows[1][::width] // width), channels, width)
        if len(found) < len(best):
            best, seen = found, (_in_runs(ends[0], width), _in_runs(ends[1], width))
    for windows in best:
        move(b, layer, seen, windows, stages)


def _fewest(
    rows: tuple[np.ndarray, np.ndarray], channels: tuple[Span, Span], width: int
) -> list[tuple[Window, Window]]:
    """Return windows for runs of rows, or for the first rows of all runs, the second ones and so on: the
    fewer."""
    found = _row_parts(rows, channels, width)
    begins = _begins(rows)
    step = int(begins[0]) if len(begins) else len(rows[0])
    if step >= len(found) or np.any(np.diff(begins) != step):
        return found
    every = [
        part
        for first in range(step)
        for part in _row_parts((rows[0][first::step], rows[1][first::step]), channels, width)
    ]
    return every if len(every) < len(found) else found


def _begins(rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return where rows do not follow those before at both ends."""
    taken, given = rows
    return np.flatnonzero((np.diff(taken) != 1) | (np.diff(given) != 1)) + 1


def _width(ends: tuple[Buffer, Buffer], rows: tuple[np.ndarray, np.ndarray]) -> int:
    """Return the largest number of rows of which both ends consist, and whose multiples runs of neighbours
    begin and end with."""
    taken, given = rows
    begins = _begins(rows)
    places = np.concatenate([begins, taken[:1], given[:1], taken[begins], given[begins]])
    return gcd(len(taken), *(end.shape[0] for end in ends), int(np.gcd.reduce(places)))


def _in_runs(buffer: Buffer, width: int) -> Buffer:
    """Return a cube of rows as a picture whose rows are runs of them."""
    count, channels = buffer.shape
    return replace(buffer, shape=(1, channels, count // width, width))


def _row_parts(
    rows: tuple[np.ndarray, np.ndarray], channels: tuple[Span, Span], width: int
) -> list[tuple[Window, Window]]:
    """Return windows of the source and the target, one for each run of rows at even distances. width  their
    columns"""
    taken, given = rows
    found: list[tuple[Window, Window]] = []
    begin = 0
    while begin < len(taken):
        end = _end_of_run(taken, given, begin)
        windows = (_window(each[begin:end], part, width) for each, part in zip(rows, channels, strict=True))
        found.append((next(windows), next(windows)))
        begin = end
    return found


def _end_of_run(taken: np.ndarray, given: np.ndarray, begin: int) -> int:
    """Return where a run of rows at even distances ends that goes forwards in both."""
    steps = [np.diff(rows[begin:]) for rows in (taken, given)]
    if not len(steps[0]) or min(step[0] for step in steps) < 1:
        return begin + 1
    goes_on = (steps[0] == steps[0][0]) & (steps[1] == steps[1][0])
    return begin + 1 + (len(goes_on) if goes_on.all() else int(np.argmin(goes_on)))


def _window(rows: np.ndarray, channels: Span, width: int) -> Window:
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    return Window(Span(0, 1), channels, Span(int(rows[0]), len(rows), step), Span(0, width))
