"""Find moves for parts of tensors whose cubes are rows of their last axis: one for each run of rows at even
distances."""

from collections.abc import Mapping, Sequence

import numpy as np

from npuviz.targets.rk3588.compiler.moving import Span, Window
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


def row_parts(
    taken: np.ndarray, given: np.ndarray, channels: tuple[Span, Span]
) -> list[tuple[Window, Window]]:
    """Return windows of the source and the target that together move rows to rows, one after the other.

    taken, given  (rows,): their numbers in the source and the target
    channels      of each row, in the source and the target
    """
    found: list[tuple[Window, Window]] = []
    begin = 0
    while begin < len(taken):
        end = _end_of_run(taken, given, begin)
        windows = (
            _window(rows[begin:end], part) for rows, part in zip((taken, given), channels, strict=True)
        )
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


def _window(rows: np.ndarray, channels: Span) -> Window:
    step = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    return Window(Span(0, 1), channels, Span(int(rows[0]), len(rows), step), Span(0, 1))
