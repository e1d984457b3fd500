"""Apply and undo log entries on the chip's memories, and keep and restore whole states."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from npuviz.sim.replay.contents import Edit, Report, Undo
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Plan
from npuviz.targets.neuroncore.values.planner import NOTHING, Planner
from npuviz.targets.neuroncore.values.spans import spans_of


@dataclass(eq=False, slots=True)
class _KeptVariable:
    """Bytes and flags of a variable, shared by kept states between which it did not change.

    As long as the variable itself does not change, it holds them: `flat` is None, and nothing is copied. Most
    variables are written in one go, so that copies are few.
    """

    objects: np.ndarray | None
    flat: np.ndarray | None = None
    written: np.ndarray | None = None

    def copy_from(self, array: HbmArray) -> None:
        """Copy the variable, which is about to change for the first time since it was kept."""
        self.flat = array.flat.copy()
        self.written = None if array.written is None else array.written.copy()


@dataclass(frozen=True, slots=True)
class KeptChip:
    """A kept state: arrays of the on-chip memories, and the variables that were written."""

    state: tuple[np.ndarray, ...]
    variables: tuple[_KeptVariable | None, ...]

    def arrays(self) -> Iterator[np.ndarray]:
        """Yield the arrays that take memory of their own."""
        yield from self.state
        for kept in self.variables:
            if kept is not None and kept.flat is not None:
                yield kept.flat


class ChipContents:
    """The memories of a chip, with the planner that turns log entries into changes of them.

    An entry is an instruction's index, or -1 - index for the completion of the transfer that it triggered.
    """

    def __init__(self, chip: Chip, planner: Planner, report: Report) -> None:
        self.chip = chip
        self.planner = planner
        self._report = report
        self._dirty: set[HbmArray] = set()
        self._last: dict[HbmArray, _KeptVariable] = {}

    def apply(self, entry: int, undoable: bool) -> Undo | None:
        """Apply a log entry; return how to undo it if `undoable`."""
        index = entry if entry >= 0 else -1 - entry
        try:
            plan = self.planner.plan(entry)
        except ValueFault as fault:
            self._report("fault", f"instruction {index} is not executed: {fault}")
            return None
        if plan is NOTHING:
            return None
        undo = self._undo_of(plan) if undoable else None
        for mask in plan.reads:
            if not mask.is_written():
                self._report("unwritten", f"instruction {index} reads memory that nobody wrote")
                break
        self._settle(plan.arrays)
        plan.run()
        self._note(plan)
        return undo

    def apply_edit(self, edit: Edit, undoable: bool) -> Undo | None:
        """Write the bytes of a user's edit; return how to undo it if `undoable`."""
        spans = spans_of(self.chip, edit.memory, edit.address, len(edit.data))
        for span in spans:
            if isinstance(span.memory, HbmArray) and not span.memory.is_private:
                self.chip.own(span.memory)
                self.planner.forget()
        plan = Plan(
            NOTHING.run,
            marks=tuple(mask for span in spans if (mask := span.mask()) is not None),
            writes=tuple(span.view() for span in spans),
            arrays=tuple(span.memory for span in spans if isinstance(span.memory, HbmArray)),
        )
        undo = self._undo_of(plan) if undoable else None
        self._settle(plan.arrays)
        for span, view in zip(spans, plan.writes, strict=True):
            view[:] = np.frombuffer(edit.data, np.uint8)[span.start : span.start + span.size]
        self._note(plan)
        return undo

    def _note(self, plan: Plan) -> None:
        """Mark the granules and variables that a plan has written."""
        for mask in plan.marks:
            mask.mark()
        self._dirty.update(plan.arrays)

    def _settle(self, arrays: Iterable[HbmArray]) -> None:
        """Copy what kept states still share with variables that are about to change."""
        for array in arrays:
            kept = self._last.get(array)
            if kept is not None and kept.flat is None:
                kept.copy_from(array)

    def _undo_of(self, plan: Plan) -> Undo:
        """Save the contents that a plan is about to change."""
        chip = self.chip
        views = tuple((view, view.copy()) for view in plan.writes)
        flags = tuple((mask, mask.copy()) for mask in plan.marks)
        objects = tuple((array, array.objects) for array in plan.arrays if array.dtype.kind == "O")
        core, loads = plan.accumulates, plan.loads_table
        accumulators = chip.accumulators[core].copy() if core >= 0 else None
        table_set = int(chip.table_sets[loads]) if loads >= 0 else -1

        def back() -> None:
            self._settle(plan.arrays)
            self._dirty.update(plan.arrays)
            for view, saved in reversed(views):
                view[...] = saved
            for mask, saved in reversed(flags):
                mask.restore(saved)
            for array, saved in objects:
                array.objects = saved
            if accumulators is not None:
                chip.accumulators[core][:] = accumulators
            if loads >= 0:
                chip.table_sets[loads] = table_set

        return Undo(back, sum(saved.nbytes for _, saved in (*views, *flags)))

    # Whole states -------------------------------------------------------------------------------

    def keep(self) -> KeptChip:
        """Keep the present state; variables unchanged since the last kept state are shared with that."""
        for array in self._dirty:
            self._last[array] = _KeptVariable(array.objects)
        self._dirty.clear()
        variables = tuple(self._last.get(array) for array in self.chip.variables)
        return KeptChip(tuple(array.copy() for array in self._state_arrays()), variables)

    def restore(self, kept: KeptChip | None) -> None:
        """Restore a kept state; None: the state before the program started."""
        for number, array in enumerate(self.chip.variables):
            wanted = kept.variables[number] if kept is not None else None
            if array not in self._dirty and self._last.get(array) is wanted:
                continue
            self._settle((array,))
            if wanted is None:
                array.reset()
                self._last.pop(array, None)
                continue
            # A variable that changed since then was copied before.
            if wanted.flat is not None:
                array.flat[:] = wanted.flat
            if array.written is not None and wanted.written is not None:
                array.written[:] = wanted.written
            array.objects = wanted.objects
            self._last[array] = wanted
        self._dirty.clear()
        for number, array in enumerate(self._state_arrays()):
            array[...] = 0 if kept is None else kept.state[number]
        if kept is None:
            self.chip.table_sets[...] = -1

    def _state_arrays(self) -> list[np.ndarray]:
        chip = self.chip
        found: list[np.ndarray] = [chip.table_sets]
        for core in range(len(chip.sbuf)):
            for sram in (chip.sbuf[core], chip.psum[core]):
                found += [sram.flat, sram.written]
        return [*found, *chip.accumulators]
