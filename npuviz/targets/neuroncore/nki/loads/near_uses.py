"""Loops that only fill blocks, or only store them, are joined with the loops that use them.

A kernel of generation 1 may load all blocks in one loop, compute with them in a second one and store the
results in a third one, so that more is alive than SBUF holds. The vendor's compiler gives blocks as many
places as their lives need, and may order independent turns as it likes.
# Ref: SDK226 nki_block_dimension_migration_guide.rst: how many blocks exist at a time is decided by how long
# they live; api/nki/language/__init__.py, affine_range: turns may be reordered as data dependencies allow.
# Assumed: that it does so where blocks do not fit otherwise. On trn1 a convolution that keeps an image and a
# result of 262 KB a partition (autocomp, conv1d, the first ones) takes as long as one with tiles of its own
# in each turn (8.01 and 7.93 ms).
"""

from collections.abc import Collection, Sequence
from math import prod

import numpy as np

from npuviz.targets.neuroncore.nki.record.output_writes import MOST_ELEMENTS, elements_of
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import HBM, SBUF, Storage

_FILLS = frozenset(("load", "memset"))
_BEFORE, _HERE, _AFTER = range(3)


def moved_near_uses(
    recording: Recording, steps: Sequence[Step], capacity: int
) -> tuple[list[Step], tuple[str, ...]]:
    """Return the steps with fills right before the first use of what they fill, stores right after the last.

    As they are if they fit into `capacity` bytes of a partition, do not fit when moved, or have to keep their
    order. Second: the names of the tensors that are filled or stored elsewhere.
    """
    if any(step.is_fixed for step in steps) or most_alive(steps) <= capacity:
        return list(steps), ()
    touched: dict[int, list[int]] = {}
    for number, step in enumerate(steps):
        for storage in storages_of(step):
            touched.setdefault(storage.id, []).append(number)
    order = [(number, _HERE, number) for number in range(len(steps))]
    names: dict[str, None] = {}
    closed = _not_stored_once(recording, steps)
    written = {step.target.storage.id for step in steps if step.target is not None}
    for storage in recording.storages:
        uses = touched.get(storage.id, ())
        if storage.space != SBUF or not uses:
            continue
        first, last = 0, len(uses)
        while first < last and _is_fill(steps[uses[first]], storage, written):
            first += 1
        while first < last and _is_store(steps[uses[last - 1]], storage, closed):
            last -= 1
        if first == last:
            continue
        moves = [(number, uses[first], _BEFORE) for number in uses[:first]]
        moves += [(number, uses[last - 1], _AFTER) for number in uses[last:]]
        for number, to, side in moves:
            order[number] = (to, side, number)
            names[storage.name.partition("[")[0]] = None
    found = [steps[number] for _, _, number in sorted(order)]
    return (found, tuple(names)) if most_alive(found) <= capacity else (list(steps), ())


def most_alive(steps: Sequence[Step]) -> int:
    """Return the most bytes of an SBUF partition that live at a step, if the steps run in this order."""
    spans: dict[int, tuple[int, int, int]] = {}
    for number, step in enumerate(steps):
        for storage in storages_of(step):
            if storage.space == SBUF:
                first = spans[storage.id][0] if storage.id in spans else number
                spans[storage.id] = first, number, storage.shape[1] * storage.dtype.itemsize
    change = np.zeros(len(steps) + 1, np.int64)
    for first, last, size in spans.values():
        change[first] += size
        change[last + 1] -= size
    return int(change.cumsum().max(initial=0))


def _is_fill(step: Step, storage: Storage, written: Collection[int]) -> bool:
    """Return whether a step only fills a tile, from memory that nobody writes or with a number."""
    others = [each for each in storages_of(step) if each is not storage]
    return step.op in _FILLS and all(each.space == HBM and each.id not in written for each in others)


def _is_store(step: Step, storage: Storage, closed: Collection[int]) -> bool:
    """Return whether a step only stores a tile, to memory that nothing but such stores touches."""
    others = [each for each in storages_of(step) if each is not storage]
    return step.op == "store" and all(each.space == HBM and each.id not in closed for each in others)


def _not_stored_once(recording: Recording, steps: Sequence[Step]) -> set[int]:
    """Return the tensors in HBM that something else than stores of single elements touches."""
    found: set[int] = set()
    marks: dict[int, np.ndarray] = {}
    for step in steps:
        for storage in storages_of(step):
            target = step.target
            if storage.space != HBM or storage.id in found:
                continue
            if step.op != "store" or target is None or target.storage is not storage:
                found.add(storage.id)
                continue
            if target.row_index is not None or prod(storage.shape) > MOST_ELEMENTS:
                found.add(storage.id)
                continue
            mark = marks.setdefault(storage.id, np.zeros(prod(storage.shape), np.bool_))
            cells = elements_of(mark, target)
            if cells is None or cells.any():
                found.add(storage.id)
            else:
                cells[...] = True
    return found
