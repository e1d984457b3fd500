"""Whether instances of a kernel, or turns of its independent loops, write one element of an output twice."""

from collections.abc import Iterable
from math import prod

import numpy as np

from npuviz.targets.neuroncore.nki.record.call_stacks import Moment
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.tensors import HBM, Storage, Tensor

INDEPENDENT = "affine_range"
Turn = tuple[tuple[object, ...], ...]
"""The instance; then file, line and value of each independent loop, outermost first."""
MOST_ELEMENTS = 1 << 24
"""Of an output that is looked at."""


def note_double_writes(recording: Recording, outputs: Iterable[Storage]) -> None:
    """Warn of each output of which an element is written by several instances or turns; say which outputs and
    writes are not looked at: those of more than MOST_ELEMENTS, rows that are picked by indices of a tile."""
    wanted = {each.id: each for each in outputs if each.space == HBM and each.is_written}
    _note_what_is_left_out(recording, wanted)
    wanted = {key: each for key, each in wanted.items() if prod(each.shape) <= MOST_ELEMENTS}
    owners = {key: np.zeros(prod(each.shape), dtype=np.int32) for key, each in wanted.items()}
    numbers: dict[Turn, int] = {}
    turns: list[Turn] = []
    places: dict[int, int] = {}
    for step in recording.steps:
        target = step.target
        if target is None or target.storage.id not in owners or target.row_index is not None:
            continue
        turn = _turn(recording.moments[step.moment]) if step.moment >= 0 else ((),)
        number = numbers.setdefault(turn, len(numbers) + 1)
        if number > len(turns):
            turns.append(turn)
        places[number] = step.place
        cells = elements_of(owners[target.storage.id], target)
        if cells is None:
            continue
        found, counts = np.unique(cells, return_counts=True)
        each = zip(found.tolist(), counts.tolist(), strict=True)
        others = {other: count for other, count in each if other and _are_unordered(turn, turns[other - 1])}
        if others:
            storage = wanted[target.storage.id]
            recording.note(
                f"err_unexpected_output_dependencies: {recording.where(step.place)}: {storage.name} has "
                f"{sum(others.values())} elements that another instance or turn of {INDEPENDENT} has written "
                f"already ({recording.where(places[min(others)])}): which value stays is not defined; newer "
                "compilers refuse that"
            )
            del owners[target.storage.id]
            continue
        cells[...] = number


def _note_what_is_left_out(recording: Recording, outputs: dict[int, Storage]) -> None:
    for each in outputs.values():
        if (count := prod(each.shape)) > MOST_ELEMENTS:
            recording.note(
                f"{each.name}: {count} elements: whether one of them is written twice is not looked at "
                f"(only of up to {MOST_ELEMENTS})"
            )
    by_index: dict[int, int] = {}
    for step in recording.steps:
        target = step.target
        if target is not None and target.row_index is not None and target.storage.id in outputs:
            by_index[target.storage.id] = by_index.get(target.storage.id, 0) + 1
    for key, count in by_index.items():
        recording.note(
            f"{outputs[key].name}: {count} writes to rows picked by indices of a tile: whether they write an "
            "element twice is not looked at"
        )


def _are_unordered(one: Turn, other: Turn) -> bool:
    """Whether two turns are of different instances, or of one loop; loops one after the other are ordered."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return mine[:-1] == theirs[:-1]
    return False


def _turn(moment: Moment) -> Turn:
    """The instance, and the turns of independent loops around a moment."""
    loops: list[tuple[object, ...]] = [
        (call.file, loop.line, loop.value)
        for call in reversed(moment.calls)
        for loop in call.loops
        if loop.over == INDEPENDENT
    ]
    return ((moment.program,), *loops)


def elements_of(owner: np.ndarray, target: Tensor) -> np.ndarray | None:
    """Return the part of an array of all elements that a view of the storage is; None if its types differ."""
    if target.itemsize != target.storage.dtype.itemsize:
        return None
    reach = sum((size - 1) * step for size, step in zip(target.shape, target.steps, strict=True))
    if any(step < 0 for step in target.steps) or target.offset < 0 or target.offset + reach >= len(owner):
        return None
    steps = tuple(step * owner.itemsize for step in target.steps)
    return np.lib.stride_tricks.as_strided(owner[target.offset :], target.shape, steps)
