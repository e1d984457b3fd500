"""Going back in time: what instructions overwrote, and whole states kept now and then."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.plan import Plan

UNDO_BYTES = 128 << 20
"""Overwritten bytes kept."""
MAX_SNAPSHOTS = 8

Place = tuple[int, int]
"""How far the contents are: log entries applied, edits applied."""


def is_within(place: Place, limit: Place) -> bool:
    """Whether a place is after `limit` neither in entries nor in edits."""
    return place[0] <= limit[0] and place[1] <= limit[1]


@dataclass(frozen=True, slots=True)
class ValueHazard:
    """What went wrong at a log entry: `position` is its index in the log.

    kind  "input-range", "table-set", "unwritten", "index-range", "out-of-bounds", "fault" or "host-operator"
    """

    position: int
    instruction: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Undo:
    """One step back: the place before, what was there, and how much memory that takes."""

    before: Place
    views: tuple[tuple[np.ndarray, np.ndarray], ...]
    plan: Plan
    flags: tuple[np.ndarray, ...]
    objects: tuple[tuple[HbmArray, np.ndarray | None], ...]
    accumulators: np.ndarray | None
    table_set: int
    num_bytes: int


class UndoLog:
    """The last steps, newest last, bounded by bytes."""

    def __init__(self, chip: Chip, limit: int = UNDO_BYTES) -> None:
        self._chip = chip
        self._limit = limit
        self._steps: deque[_Undo] = deque()
        self._bytes = 0

    def clear(self) -> None:
        """Forget all steps."""
        self._steps.clear()
        self._bytes = 0

    def note(self, before: Place, plan: Plan) -> None:
        """Keep what a plan is about to overwrite."""
        views = tuple((view, view.copy()) for view in plan.writes)
        flags = tuple(mask.copy() for mask in plan.marks)
        objects = tuple((array, array.objects) for array in plan.arrays if array.dtype.kind == "O")
        core = plan.accumulates
        accumulators = self._chip.accumulators[core].copy() if core >= 0 else None
        table_set = int(self._chip.table_sets[plan.loads_table]) if plan.loads_table >= 0 else -1
        size = 256 + sum(saved.nbytes for _, saved in views) + sum(saved.nbytes for saved in flags)
        self._add(_Undo(before, views, plan, flags, objects, accumulators, table_set, size))

    def _add(self, step: _Undo) -> None:
        self._steps.append(step)
        self._bytes += step.num_bytes
        while self._bytes > self._limit and self._steps:
            self._bytes -= self._steps.popleft().num_bytes

    def reaches(self, place: Place) -> bool:
        """Whether `back` can go to this place."""
        if not self._steps:
            return False
        return is_within(self._steps[0].before, place)

    def back(self) -> Place:
        """Undo the newest step; returns where the contents are then."""
        step = self._steps.pop()
        self._bytes -= step.num_bytes
        for view, saved in reversed(step.views):
            view[...] = saved
        plan = step.plan
        for mask, saved in zip(reversed(plan.marks), reversed(step.flags), strict=True):
            mask.restore(saved)
        for array, saved in step.objects:
            array.objects = saved
        if step.accumulators is not None:
            self._chip.accumulators[plan.accumulates][:] = step.accumulators
        if plan.loads_table >= 0:
            self._chip.table_sets[plan.loads_table] = step.table_set
        return step.before


@dataclass(frozen=True, slots=True)
class _Kept:
    """Bytes and flags of a variable, shared by the snapshots between which it did not change."""

    flat: np.ndarray
    written: np.ndarray | None
    objects: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole state at a place."""

    place: Place
    hazards: tuple[ValueHazard, ...]
    arrays: tuple[np.ndarray, ...]
    variables: tuple[_Kept | None, ...]


class Snapshots:
    """Some whole states, by place. Variables that did not change are kept once."""

    def __init__(self, chip: Chip, limit: int = MAX_SNAPSHOTS) -> None:
        self._chip = chip
        self._limit = limit
        self._kept: list[Snapshot] = []
        self._dirty: set[HbmArray] = set()
        self._last: dict[HbmArray, _Kept] = {}

    def touch(self, arrays: tuple[HbmArray, ...]) -> None:
        """Note that variables have been written."""
        self._dirty.update(arrays)

    def take(self, place: Place, hazards: tuple[ValueHazard, ...]) -> None:
        """Keep the present state. When there are too many, every other one goes."""
        for array in self._dirty:
            flags = array.written
            self._last[array] = _Kept(
                array.flat.copy(), None if flags is None else flags.copy(), array.objects
            )
        self._dirty.clear()
        variables = tuple(self._last.get(array) for array in self._chip.variables)
        arrays = tuple(array.copy() for array in self._state_arrays())
        if len(self._kept) >= self._limit:
            self._kept = self._kept[::2]
        self._kept.append(Snapshot(place, hazards, arrays, variables))
        self._kept.sort(key=lambda snapshot: snapshot.place)

    def drop_after(self, place: Place) -> None:
        """Forget states that later places no longer have."""
        self._kept = [kept for kept in self._kept if is_within(kept.place, place)]

    def best(self, target: Place) -> Snapshot | None:
        """The last state at or before a place."""
        fitting = [kept for kept in self._kept if is_within(kept.place, target)]
        return fitting[-1] if fitting else None

    def restore(self, snapshot: Snapshot | None) -> None:
        """Return to a state; None: the beginning."""
        for number, array in enumerate(self._chip.variables):
            kept = snapshot.variables[number] if snapshot is not None else None
            if array not in self._dirty and self._last.get(array) is kept:
                continue
            if kept is None:
                array.reset()
                self._last.pop(array, None)
                continue
            array.flat[:] = kept.flat
            if array.written is not None and kept.written is not None:
                array.written[:] = kept.written
            array.objects = kept.objects
            self._last[array] = kept
        self._dirty.clear()
        for number, array in enumerate(self._state_arrays()):
            array[...] = 0 if snapshot is None else snapshot.arrays[number]
        if snapshot is None:
            self._chip.table_sets[...] = -1

    def _state_arrays(self) -> list[np.ndarray]:
        chip = self._chip
        found: list[np.ndarray] = [chip.table_sets]
        for core in range(len(chip.sbuf)):
            for sram in (chip.sbuf[core], chip.psum[core]):
                found += [sram.flat, sram.written]
            found.append(chip.accumulators[core])
        return found
