"""Plans: an instruction decoded once into operations on views, with what it reads and writes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from npuviz.sim.replay.contents import Report
from npuviz.targets.neuroncore.isa import DTYPE_NAMES, OPERAND_POSITIONS, Alu, Dtype, Flag, Space
from npuviz.targets.neuroncore.values.alu import FLOAT_OPERATORS
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.element_types import as_int32, convert_into, loader, storer
from npuviz.targets.neuroncore.values.memory import Mask, Operand, ValueFault

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Ins:
    """An instruction as plain Python values.

    imm, bits  the immediates as floats and as int32 patterns
    operands   (space, dtype, partition, partitions, address, sizes, steps) by position
    """

    index: int
    core: int
    opcode: int
    engine: int
    flags: int
    op0: int
    op1: int
    cmd: int
    id: int
    imm: Sequence[float]
    bits: Sequence[int]
    operands: Sequence[tuple[Any, ...]]

    def has(self, flag: Flag) -> bool:
        """Return whether a flag is set."""
        return bool(self.flags & flag)

    def number(self, position: int) -> float | int:
        """Return an immediate: the float, or with Flag.INTEGER the int32."""
        return self.bits[position] if self.flags & Flag.INTEGER else self.imm[position]


@dataclass(frozen=True, slots=True)
class Plan:
    """The effect of one log entry on the memories.

    run     makes the changes; hazards found meanwhile go to `Build.report`
    reads   granules that should have been written before
    marks   granules that are written
    writes  views whose old contents undo it
    arrays  HBM variables among the targets
    accumulates  core whose accumulators it changes, or -1
    loads_table  core whose table set it changes, or -1
    """

    run: Step
    reads: tuple[Mask, ...] = ()
    marks: tuple[Mask, ...] = ()
    writes: tuple[np.ndarray, ...] = ()
    arrays: tuple[HbmArray, ...] = ()
    accumulates: int = -1
    loads_table: int = -1


class Build:
    """Collects the steps of a plan: loads before the computation, stores after it.

    watches_integers  whether integer overflows are reported
    """

    def __init__(self, chip: Chip, ins: Ins, report: Report, watches_integers: bool = False) -> None:
        self._watches_integers = watches_integers
        self.chip = chip
        self.ins = ins
        self.report = report
        self.before: list[Step] = []
        self.after: list[Step] = []
        self.reads: list[Mask] = []
        self.marks: list[Mask] = []
        self.writes: list[np.ndarray] = []
        self.accumulates = -1
        self._slots = 0

    # Operands ----------------------------------------------------------------------------------

    def has(self, position: int) -> bool:
        """Return whether the operand is present in a memory."""
        return self.ins.operands[position][0] in (Space.SBUF, Space.PSUM)

    def _operand(self, position: int) -> Operand:
        space, dtype, partition, partitions, address, sizes, steps = self.ins.operands[position]
        if space not in (Space.SBUF, Space.PSUM):
            raise ValueFault(f"operand {OPERAND_POSITIONS[position]} is missing")
        if dtype >= len(DTYPE_NAMES):
            raise ValueFault(f"operand {OPERAND_POSITIONS[position]} has unknown element type {dtype}")
        sram = self.chip.sram(self.ins.core, space)
        return sram.operand(dtype, partition, partitions, address, sizes, steps)

    def source(self, position: int) -> Operand:
        """Return an operand, and note it as read."""
        found = self._operand(position)
        self.reads.append(found.mask)
        return found

    def target(self, position: int) -> Operand:
        """Return an operand, and note it as written."""
        found = self._operand(position)
        self.marks.append(found.mask)
        self.writes.append(found.view)
        return found

    def arrange(self, *operands: Operand, any_partitions: bool = False) -> list[np.ndarray]:
        """Return views of equal shape; the last operand is the target.

        any_partitions  the numbers of partitions may differ

        Raises ValueFault if operands differ in partitions or elements.
        """
        first = operands[0]
        begin = int(any_partitions)
        if all(other.view.shape[begin:] == first.view.shape[begin:] for other in operands[1:]):
            return [operand.view for operand in operands]
        for other in operands[1:]:
            is_other = other.partitions != first.partitions and not any_partitions
            if is_other or other.count != first.count:
                raise ValueFault(
                    f"operands of {first.partitions} x {first.count} and {other.partitions} x {other.count} "
                    "elements do not match"
                )
        fine = common_shape([operand.view.shape[1:] for operand in operands], first.count)
        if fine is not None:
            return [operand.view.reshape((operand.partitions, *fine), copy=False) for operand in operands]
        return self._staged(operands)

    def _staged(self, operands: Sequence[Operand]) -> list[np.ndarray]:
        """Return contiguous arrays that are copied before and after, for patterns that cannot be aligned."""
        found: list[np.ndarray] = []
        for place, operand in enumerate(operands):
            staged = np.empty(operand.view.shape, operand.view.dtype)
            if place == len(operands) - 1:
                self.after.append(_copier(operand.view, staged))
            else:
                self.before.append(_copier(staged, operand.view))
            found.append(staged.reshape(operand.partitions, operand.count))
        return found

    def matrix(self, operand: Operand) -> np.ndarray:
        """Return a source as (partitions, elements) float32, copied only if necessary."""
        view = operand.view
        if view.ndim == 1:
            view = view[:, None]
        if view.dtype == np.float32 and view.ndim == 2:
            return view
        made = self.scratch((operand.partitions, operand.count))
        self.before.append(loader(view, made.reshape(view.shape)))
        return made

    def scratch(self, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
        """Return a contiguous temporary array that nothing else in this plan uses."""
        self._slots += 1
        return self.chip.scratch(self._slots, shape, dtype)

    def floats(self, view: np.ndarray) -> np.ndarray:
        """Return a source in float32: the view itself, or a temporary that is loaded before."""
        if view.dtype == np.float32:
            return view
        made = self.scratch(view.shape)
        self.before.append(loader(view, made))
        return made

    def integers(self, view: np.ndarray, dtype: str = "int32") -> np.ndarray:
        """Return a source in 32-bit integers: the view itself, or a temporary that is loaded before."""
        if view.dtype == np.dtype(dtype):
            return view
        made = self.scratch(view.shape, dtype)
        self.before.append(lambda: np.copyto(made, as_int32(view), casting="unsafe"))
        return made

    def argument(self, position: int, immediate: int, like: np.ndarray, partitions: int) -> Any:
        """Return a float argument: one element per partition, shaped to broadcast over `like`, or the
        immediate.
        """
        if not self.has(position):
            return float(self.ins.number(immediate))
        return self._per_partition(position, like, partitions, self.floats)

    def integer_argument(
        self, position: int, immediate: int, like: np.ndarray, partitions: int, dtype: str = "int32"
    ) -> Any:
        """Return an argument as `argument` does, in integers."""
        if not self.has(position):
            number = int(self.ins.number(immediate))
            return np.array(number & 0xFFFFFFFF, np.uint32).astype(dtype)[()]
        return self._per_partition(position, like, partitions, lambda view: self.integers(view, dtype))

    def _per_partition(
        self, position: int, like: np.ndarray, partitions: int, load: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        found = self.source(position)
        if found.count != 1 or found.partitions != partitions:
            raise ValueFault(
                f"operand {OPERAND_POSITIONS[position]} has {found.partitions} x {found.count} elements; "
                f"one in each of {partitions} partitions is needed"
            )
        values = load(found.view)
        return values.reshape((partitions,) + (1,) * (like.ndim - 1), copy=False)

    # Results -----------------------------------------------------------------------------------

    def sink(self, view: np.ndarray, dtype: int) -> np.ndarray:
        """Return the array for a float32 result: the view itself, or a temporary that is cast into it after.

        Elements that all go to one place get a temporary, because a reduction of the result needs each of
        them.
        """
        is_one_place = any(not step and size > 1 for step, size in zip(view.strides, view.shape, strict=True))
        if dtype == Dtype.FLOAT32 and not is_one_place:
            return view
        made = self.scratch(view.shape)
        self.after.insert(0, storer(made, view, dtype == Dtype.TFLOAT32))
        return made

    def integer_sink(self, view: np.ndarray, dtype: str = "int32") -> np.ndarray:
        """Return the array for an integer result: the view itself, or a temporary that is cast into it
        after.
        """
        if view.dtype == np.dtype(dtype):
            return view
        made = self.scratch(view.shape, dtype)
        self.after.insert(0, lambda: convert_into(view, made))
        return made

    def watch_integers(self, made: np.ndarray, to: np.dtype, *sources: np.ndarray | float) -> None:
        """Report "overflow" if an integer result of integers does not fit its target's type before the cast.

        Not if the target is narrower than a source, which is taken as intended: casts saturate.
        """
        kinds = [each.dtype for each in sources if isinstance(each, np.ndarray)]
        is_whole = self._watches_integers and to.kind in "iu"
        is_whole = is_whole and all(k.kind in "iu" and k.itemsize <= to.itemsize for k in kinds)
        numbers = [each for each in sources if not isinstance(each, np.ndarray)]
        if not is_whole or not all(float(number).is_integer() for number in numbers):
            return
        limits = np.iinfo(to)

        def look() -> None:
            # float32 rounds the largest int32 up to 2**31, which does not fit.
            outside = (made < float(limits.min)) | (made > float(limits.max))
            if outside.any():
                worst = made[outside].reshape(-1)[0]
                self.report_overflow(f"{float(worst):g}", int(outside.sum()), to)

        self.after.insert(0, look)

    def watch_wrapping(self, op: int, x: np.ndarray, y: np.ndarray, made: np.ndarray) -> None:
        """Report "overflow" if int32 arithmetic wraps; uint32 is meant to wrap."""
        is_arithmetic = op in (Alu.ADD, Alu.SUBTRACT, Alu.MULTIPLY) and made.dtype == np.int32
        if not self._watches_integers or not is_arithmetic:
            return
        wide = np.empty(made.shape, np.float64)
        operator = FLOAT_OPERATORS[op]
        # Before the instruction runs, because it may overwrite its own operands.
        self.before.append(lambda: operator(x.astype(np.float64), y.astype(np.float64), wide))

        def look() -> None:
            outside = np.abs(wide - made) > np.iinfo(np.int32).max
            if outside.any():
                self.report_overflow(f"{wide[outside].reshape(-1)[0]:g}", int(outside.sum()), made.dtype)

        self.after.insert(0, look)

    def report_overflow(self, worst: str, count: int, to: np.dtype) -> None:
        """Report integers that do not fit a type."""
        text = f"instruction {self.ins.index} computed {worst}, which {to} does not hold, in {count} elements"
        self.report("overflow", text)

    def finish(self, run: Step) -> Plan:
        """Return the plan that loads, runs and stores."""
        if self.before or self.after:
            steps = (*self.before, run, *self.after)

            def whole() -> None:
                for step in steps:
                    step()

            run = whole
        return Plan(
            run, tuple(self.reads), tuple(self.marks), tuple(self.writes), accumulates=self.accumulates
        )


def _copier(out: np.ndarray, values: np.ndarray) -> Step:
    return lambda: np.copyto(out, values)


def common_shape(shapes: Sequence[tuple[int, ...]], count: int) -> tuple[int, ...] | None:
    """Return the coarsest common refinement of all shapes (of `count` elements), or None."""
    sizes = {1, count}
    for shape in shapes:
        size = 1
        for dim in reversed(shape):
            size *= dim
            sizes.add(size)
    ordered = sorted(sizes)
    found: list[int] = []
    for smaller, larger in pairwise(ordered):
        if larger % smaller:
            return None
        found.append(larger // smaller)
    return tuple(reversed(found))


def split_trailing(shape: tuple[int, ...], inner: int) -> tuple[tuple[int, ...], int] | None:
    """Return a finer shape whose last dimensions have `inner` elements, and their number; None if
    impossible.
    """
    count = math.prod(shape)
    fine = common_shape([shape, (count // inner, inner)], count)
    if fine is None:
        return None
    trailing, size = 0, 1
    while size < inner:
        trailing += 1
        size *= fine[-trailing]
    return fine, trailing
