"""Zeros in PSUM that products overwrite: the first of a group does, so that no zeros are needed.

# Assumed: the vendor's kernels begin sums with nl.zeros in PSUM, and profiles show no memset for them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import Storage, Tensor

_OVERWRITING = ("matmul", "matmul_mx", "transpose")


def without_overwritten_zeros(steps: Sequence[Step]) -> list[Step]:
    """The steps without those zeros of PSUM all of which products write before anything reads them."""
    zeros = {
        step.target.storage.id: number
        for number, step in enumerate(steps)
        if step.target is not None and step.values.get("begins_sum")
    }
    if not zeros:
        return list(steps)
    writers: dict[int, list[int]] = {each: [] for each in zeros}
    ended: set[int] = set()
    for number, step in enumerate(steps):
        for storage in storages_of(step):
            if storage.id not in zeros or storage.id in ended or number <= zeros[storage.id]:
                continue
            if _overwrites(step, storage):
                writers[storage.id].append(number)
            else:
                ended.add(storage.id)
    found: list[Step | None] = list(steps)
    for key, at in zeros.items():
        first = _first_of_each_part([(number, steps[number].target) for number in writers[key]])
        if first is None or (key in ended and not first):
            continue
        found[at] = None
        for number in first:
            if "accumulate" in steps[number].values:
                found[number] = replace(steps[number], values={**steps[number].values, "accumulate": False})
    return [step for step in found if step is not None]


def _overwrites(step: Step, storage: Storage) -> bool:
    """Whether a step writes a storage, without what it holds, and does not read it."""
    touched = [each for each in storages_of(step) if each is storage]
    is_target = step.target is not None and step.target.storage is storage
    return step.op in _OVERWRITING and is_target and len(touched) == 1


def _first_of_each_part(writes: Sequence[tuple[int, Tensor | None]]) -> list[int] | None:
    """The first writer of each part; None where parts overlap or leave some of the tile out."""
    parts: dict[tuple[object, ...], tuple[int, Tensor]] = {}
    for number, target in writes:
        assert target is not None
        parts.setdefault(target.key, (number, target))
    if not parts:
        return []
    storage = next(iter(parts.values()))[1].storage
    for _, each in parts.values():
        steps = zip(each.shape, each.steps, strict=True)
        if each.itemsize != storage.dtype.itemsize or any(size > 1 and step <= 0 for size, step in steps):
            return None
    written = np.zeros(storage.shape, dtype=np.bool_)
    for _, each in parts.values():
        part = written[each.start : each.start + each.shape[0], each.offset :]
        steps = (part.strides[0], *each.steps[1:])
        cells = np.lib.stride_tricks.as_strided(part, each.shape, steps)
        if cells.any():
            return None
        cells[...] = True
    return [number for number, _ in parts.values()] if written.all() else None
