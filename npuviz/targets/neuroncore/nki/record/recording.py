"""The steps that a kernel's Python asks for, in order, before they are placed and lowered."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, Dtype, dtype_of, promoted
from npuviz.targets.neuroncore.nki.record.endless import Conditions
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.fitting import can_reshape, cut_to, shaped
from npuviz.targets.neuroncore.nki.record.index import Box, Boxes, is_empty
from npuviz.targets.neuroncore.nki.record.indirection import resolved, scatter
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.positions import OtherNames, Positions
from npuviz.targets.neuroncore.nki.record.scopes import check_scope, scope_of
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.sums import LoopSum, WrittenParts
from npuviz.targets.neuroncore.nki.record.tensors import (
    HBM,
    PSUM,
    SBUF,
    Actions,
    Scope,
    Site,
    Storage,
    Tensor,
    check_partitions,
)
from npuviz.targets.neuroncore.nki.record.variable_names import assigned_name, users_frame

Number = float | int
Operand = Number | Tensor


class Maker(Protocol):
    """A tensor of blocks, which makes a tile when a block is first used."""

    scope: Scope


@dataclass
class Recording(Positions):
    """What a kernel did.

    actions  what Python's syntax on tensors asks for
    steps    in program order;  storages  by id
    is_placed  whether the kernel has said where a tile lies: then nothing may need a hidden one
    is_as_written  whether nothing is taken out of its loops
    random_state  seed of the random numbers, and how many tiles were drawn since
    named    instance and name= of instructions -> the steps of each
    observer  reads a tensor while the kernel is recorded, None where that is not possible
    observed_step  the last one when a tensor was read so
    has_offsets    whether a register was made or an element read: addresses may hang on it
    taken_over  storages that steps up to that one write since;  own_axes  see `shared`
    """

    actions: Actions
    version: int = 2
    steps: list[Step] = field(default_factory=list[Step])
    storages: list[Storage] = field(default_factory=list[Storage])
    grid: tuple[int, ...] = ()
    is_placed: bool = False
    is_as_written: bool = False
    prints: list[str] = field(default_factory=list[str])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    random_state: tuple[int, int] = (0, 0)
    named: "dict[tuple[tuple[int, ...], str], list[tuple[Step, ...]]]" = field(default_factory=dict[Any, Any])
    observer: "Callable[[Recording, Tensor], np.ndarray] | None" = None
    observed_step: Step | None = None
    has_offsets: bool = False
    own_axes: int = 0
    taken_over: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        super().__post_init__()
        self._results: dict[int, Step] = {}
        self._written: dict[int, WrittenParts] = {}
        self._made_parts: dict[int, Box | Boxes] = {}
        self._constants: dict[Any, Tensor] = {}
        self._shared: dict[Any, Tensor] = {}
        self._asked: dict[Any, int] = {}
        self._scopes: dict[int, Scope] = {}
        self._site_tiles: dict[object, tuple[int, int]] = {}
        self.conditions = Conditions()
        self.other_names = OtherNames()

    def note(self, text: str) -> None:
        """Tell the user something once."""
        self.notes[text] = None

    def observed(self, tensor: Tensor) -> np.ndarray:
        """The values that a tensor has now. Raises KernelError where they cannot be known."""
        if self.observer is None:
            raise KernelError(f"{tensor!r} has no value while the kernel is traced")
        self.has_offsets = True
        return self.observer(self, tensor)

    # --- memory --------------------------------------------------------------------------------

    def new(
        self,
        shape: Sequence[int],
        dtype: object,
        space: str,
        name: str = "",
        result: bool = False,
        maker: "Maker | None" = None,
    ) -> Tensor:
        """New memory. On chip `shape` is (partitions, *free). Raises KernelError.

        result  of an instruction;  maker  the tensor of which this is a block
        """
        sizes = tuple(int(size) for size in shape)
        kind = dtype_of(dtype)
        frame = users_frame()
        name = name or assigned_name(frame)
        what = f"{'tensor' if space == HBM else 'tile'} {name or 'of ' + space} {kind}{list(sizes)}"
        if min(sizes, default=0) < 0:
            raise KernelError(f"{what} has a negative size")
        if space == HBM and prod(sizes) * kind.itemsize > (held := spec_in_use().hbm_bytes):
            raise KernelError(f"{what}: {prod(sizes) * kind.itemsize} bytes, the core's memory has {held}")
        if space != HBM:
            check_partitions(sizes, what)
            if 0 in sizes:
                raise KernelError(f"{what} has no elements")
            if space == PSUM and prod(sizes[1:]) * kind.itemsize > 16384:
                raise KernelError(
                    f"{what} in PSUM: {prod(sizes[1:]) * kind.itemsize} bytes in each "
                    "partition, PSUM has 8 banks of 2048"
                )
        flat = sizes if space == HBM else (sizes[0], prod(sizes[1:]))
        number = len(self.storages)
        name = name or f"{space}.{number}"
        if space == HBM and any(each.name == name for each in self.storages if each.space == HBM):
            name = f"{name}.{number}"
        if space != HBM and self.version == 1:
            now = self.moment()
            storage = Storage(number, space, flat, kind, name, self.place_of(now))
            storage.site = self._site(maker, now, frame.f_lasti if frame is not None else -1)
            storage.scope = self._scope_at(now) if maker is None else maker.scope
        else:
            storage = Storage(number, space, flat, kind, name, self.place())
        storage.is_hidden = result
        self.storages.append(storage)
        return Tensor(self, storage, kind, sizes)

    def scope(self) -> Scope:
        """The loops around this line that are scopes of generation 1."""
        return self._scope_at(self.moment()) if self.version == 1 else ()

    def _scope_at(self, moment: int) -> Scope:
        """The loops around a moment that are scopes of generation 1."""
        found = self._scopes.get(moment)
        if found is None:
            found = self._scopes[moment] = scope_of(self.moments[moment])
        return found

    def _site(self, maker: object, now: int, instruction: int) -> Site | None:
        """What makes a tile in each turn of the innermost loop around a moment, and that loop's function.

        instruction  which one of Python's runs
        """
        calls = self.moments[now].calls
        loop = next((call.loops[-1] for call in calls if call.loops), None)
        if loop is None:
            return None
        if maker is not None:
            return (maker, loop.over)
        site = (tuple((call.file, call.line) for call in calls), instruction)
        before, ordinal = self._site_tiles.get(site, (-1, -1))
        ordinal = ordinal + 1 if before == now else 0  # some calls make several tiles
        self._site_tiles[site] = (now, ordinal)
        return ((site, ordinal), loop.over)

    def shared(self, shape: tuple[int, ...], dtype: object, name: str = "") -> Tensor:
        """Memory in HBM of all instances that ask at one line, alike in the last `own_axes` of the grid."""
        count = self._asked[self.program, self.place()] = self._asked.get((self.program, self.place()), 0) + 1
        own = self.program[len(self.program) - self.own_axes :]
        key = (self.place(), count, shape, str(dtype_of(dtype)), own)
        if (found := self._shared.get(key)) is None:
            found = self._shared[key] = self.new(shape, dtype, HBM, name)
        return found

    def constant(self, array: np.ndarray, name: str = "constant") -> Tensor:
        """An array that comes with the program, in HBM; equal ones are one."""
        values = (
            np.ascontiguousarray(array).reshape(np.shape(array)).astype(dtype_of(array.dtype), copy=False)
        )
        key = (values.shape, values.dtype.name, values.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self.new(values.shape, values.dtype, HBM, f"{name}.{len(self._constants)}")
            found.storage.kind = "constant"
            found.storage.data = values
            self._constants[key] = found
        return found

    # --- steps ---------------------------------------------------------------------------------

    def step(
        self,
        kind: str,
        target: Tensor | None,
        sources: Sequence[Tensor | None],
        box: Box | Boxes | None = None,
        more: tuple[Tensor, ...] = (),
        **values: Any,
    ) -> Step:
        """Append a step, for several boxes one each. `more` are further tensors that it writes.

        Several boxes, or one without elements: the step returned has no target and its place is -1.
        """
        if isinstance(box, Boxes):
            if more:
                raise KernelError(
                    f"{kind} with a result of accumulators, and a mask that cuts the tile along a diagonal",
                    "err_unsupported_expression_in_mask",
                )
            for each in box:
                self.step(kind, target, sources, each, **values)
            return Step(kind, None, (), {}, -1, box)
        if box is not None and is_empty(box):
            return Step(kind, None, (), {}, -1, box)
        view, (target, sources) = target, resolved(self, kind, target, tuple(sources), values)
        now = self.moment()
        made = Step(
            kind,
            cut_to(target, box),
            tuple(cut_to(each, box) for each in sources),
            values,
            self.place_of(now),
            box,
            more,
            now,
        )
        scope = self._scope_at(now) if self.version == 1 else ()
        for each in made.sources:
            if each is not None:
                check_scope(each, scope)
                each.storage.reads += 1
        written = (made.target, *more)
        for each in written:
            if each is not None:
                check_scope(each, scope)
                if each.storage.kind == "constant":
                    raise KernelError(f"{each!r} is a constant and is not written")
                self._note_written(each)
        self.steps.append(made)
        self.other_names.note((*written, *made.sources))
        if view is not None and target is not None and view.picks is not None:
            scatter(self, kind, view, target)
        return made

    def _note_written(self, target: Tensor) -> None:
        target.storage.is_written = True
        if target.storage.space == PSUM and self.version > 1:
            self._written.setdefault(target.storage.id, WrittenParts()).note(target)

    def result(
        self,
        kind: str,
        shape: Sequence[int],
        dtype: object,
        sources: Sequence[Tensor | None],
        box: Box | Boxes | None = None,
        space: str = SBUF,
        **values: Any,
    ) -> Tensor:
        """A new tile and the step that computes it."""
        made = self.new(shape, dtype, space, result=True)
        step = self.step(kind, made, sources, box, **values)
        self.keep_result(made, step)
        return made

    def keep_result(self, made: Tensor, step: Step) -> None:
        """Remember which step computes a new tile: an assignment may take it over."""
        if step.target is None and step.box is not None:
            self._made_parts[made.storage.id] = step.box
        else:
            self._results[made.storage.id] = step

    def maker_of(self, made: Tensor) -> Step | None:
        """The step whose result a tile is, None where that lies in memory of the kernel's."""
        return self._results.get(made.storage.id)

    def keep_part(self, made: Tensor, part: Box | Boxes) -> None:
        """Remember that only a part of a new tile has values: a mask left out the rest."""
        self._made_parts[made.storage.id] = part

    def redirected(self, target: Tensor, value: Tensor) -> bool:
        """Whether the step that computed `value`, which nobody read yet, now writes `target` instead."""
        step = self._results.get(value.storage.id)
        storage = value.storage
        fits = (
            step is not None
            and step.target is not None
            and not storage.reads
            and value.size == prod(storage.shape)
            and value.dtype == target.dtype == storage.dtype
            and value.size == target.size
            and (
                target.storage.space == storage.space
                or (storage.space == SBUF and target.storage.space == PSUM)
            )
        )
        if not fits or step is None or self._is_touched_since(target.storage, step):
            return False
        if isinstance(step.box, Boxes):
            return False
        if step.op == "load" and target.storage.space != SBUF:
            return False
        if target.shape != value.shape:
            if step.box is not None or target.pending:
                return False
            target = target.reshape(*value.shape) if can_reshape(target, value.shape) else target
            if target.shape != value.shape:
                return False
        step.target = target.boxed(step.box)
        self._take_over(step, step.target)
        del self._results[storage.id]
        return True

    def _take_over(self, step: Step, target: Tensor) -> None:
        """Note that an earlier step writes a tile of the kernel's now."""
        self._note_written(target)
        for later in reversed(self.steps):
            if later is self.observed_step:
                self.taken_over.add(target.storage.id)
            if later is step or later is self.observed_step:
                return

    def _is_touched_since(self, storage: Storage, step: Step) -> bool:
        """Whether a step after `step` reads or writes the storage, so that `step` cannot write it instead."""
        for later in reversed(self.steps):
            if later is step:
                return False
            if any(
                each is not None
                and (each.storage is storage or (each.row_index and each.row_index[0].storage is storage))
                for each in (later.target, *later.sources, *later.more)
            ):
                return True
        return True

    def filled_before(self, made: Tensor, number: Number, value: object) -> None:
        """Fill a new tile with a number, before the step that computes `value`, which goes to it."""
        before = self._results.get(value.storage.id) if isinstance(value, Tensor) else None
        places = range(len(self.steps) - 1, -1, -1) if before is not None else ()
        at = next((n for n in places if self.steps[n] is before), len(self.steps))
        self.fill(made, number)
        self.steps.insert(at, self.steps.pop())

    def fill(self, made: Tensor, number: Number) -> None:
        """Fill a new tile with a number; zeros of PSUM begin a sum."""
        begins: dict[str, Any] = {"begins_sum": True} if number == 0 and made.buffer == PSUM else {}
        self.step("memset", made, (), value=number, **begins)

    # --- what the Python syntax means ------------------------------------------------------------

    def assign(self, target: Tensor, value: object) -> None:
        """`t[...] = value`."""
        if isinstance(value, LoopSum):
            value.store(target)
            return
        if isinstance(value, bool | int | float | np.number):
            if not target.is_on_chip:
                raise KernelError("a tensor in HBM is written by nl.store, not by assignment")
            self.step("memset", target.boxed(None), (), value=value)
            return
        if not isinstance(value, Tensor):
            raise KernelError(f"{value!r} is assigned to a tile")
        if value.storage is target.storage and value.key == target.key:
            return  # what `t[...] += x` ends with
        if not target.is_on_chip or not value.is_on_chip:
            self.move(target, value)
            return
        if self.redirected(target, value):
            return
        step = self._results.get(value.storage.id)
        box = step.box if step is not None else self._made_parts.get(value.storage.id)
        box = box if value.shape == target.shape else None
        self.step("tensor_copy", target, (shaped(value, target.shape),), box)

    def move(
        self, target: Tensor, value: Tensor, box: Box | Boxes | None = None, skips: bool = False
    ) -> Step:
        """A DMA between HBM and the chip, or within either.

        skips  rows by an index beyond the tensor are not moved
        """
        if target.row_index is not None or value.row_index is not None:
            return self._move_rows(target, value, box, skips)
        kind = "dma_copy"
        if target.is_on_chip != value.is_on_chip:
            kind = "load" if target.is_on_chip else "store"
        return self.step(kind, target, (shaped(value, target.shape),), box)

    def _move_rows(self, target: Tensor, value: Tensor, box: Box | Boxes | None, skips: bool) -> Step:
        by = target if target.row_index is not None else value
        assert by.row_index is not None
        rows, step = by.row_index
        index = rows
        if prod(rows.shape[1:]) != 1:
            raise KernelError(f"{rows!r}: rows are picked by one index in each partition")
        op = "scatter" if by is target else "gather"
        if op == "gather" and not target.is_on_chip:
            raise KernelError("rows are gathered into SBUF")
        if op == "scatter" and not value.is_on_chip:
            raise KernelError("rows are scattered from SBUF")
        made = self.step(op, target, (value, index), box, row_step=step, skips=skips)
        if made.target is not None:
            made.target.row_index = target.row_index
        return made

    def add_in_place(self, target: Tensor, value: object) -> Tensor:
        """`t[...] += value`: accumulation where a product goes to PSUM, else an addition."""
        left, right = target, value
        if isinstance(value, Tensor):
            part = self._made_parts.get(value.storage.id)
            if part is not None and is_empty(part):
                return target  # a mask has left nothing of it
            step = self._results.get(value.storage.id)
            is_product = step is not None and step.op == "matmul" and not value.storage.reads
            fits = target.storage.space == PSUM and value.size == target.size
            if is_product and step is not None and fits and not self._is_touched_since(target.storage, step):
                assert not isinstance(step.box, Boxes)  # a product has no mask
                step.target = shaped(target, value.shape).boxed(step.box)
                step.values["accumulate"] = bool(self.written(target).any())
                self._take_over(step, step.target)
                del self._results[value.storage.id]
                return target
            box = step.box if step is not None and target.shape == value.shape else None
            if box is not None and not isinstance(box, Boxes):  # nothing else was computed
                left, right = target.boxed(box), value.boxed(box)
        self.actions.binary_into(left, "add", left, right)
        return target

    def written(self, target: Tensor) -> np.ndarray:
        """Which elements of PSUM were written, see `WrittenParts.mask`; generation 1: whether any were."""
        if self.version == 1:
            return np.array(target.storage.is_written)
        return self._written.setdefault(target.storage.id, WrittenParts()).mask(target)

    def loop_sum(self, value: Tensor, op: object, is_first: bool) -> LoopSum:
        """nl.loop_reduce."""
        return LoopSum(self, value, op, is_first)


def numeric_dtype(value: object) -> Dtype | Number:
    """What a value brings into type promotion."""
    if isinstance(value, Tensor):
        return value.dtype
    return value  # type: ignore[return-value]


def result_dtype(dtype: object, *operands: object) -> Dtype:
    """`dtype` if given, else that of the operands' promotion."""
    if dtype is not None:
        return dtype_of(dtype)
    return promoted(*(numeric_dtype(each) for each in operands)) if operands else FLOAT32


_ACTIVE: ContextVar[tuple[Recording, ...]] = ContextVar("recordings", default=())
"""Of each thread its own: one that was stopped may still be ending when the next kernel is recorded."""


def current() -> Recording:
    """The recording of the kernel that runs. Raises KernelError outside of a kernel."""
    found = _ACTIVE.get()
    if not found:
        raise KernelError(
            "a function of nl or nisa is called outside of a kernel", "err_nki_api_outside_of_nki_kernel"
        )
    return found[-1]


def is_recording() -> bool:
    """Whether a kernel runs."""
    return bool(_ACTIVE.get())


class recording_active:
    """Makes a recording the current one inside of a `with`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __enter__(self) -> Recording:
        self._before = _ACTIVE.set((*_ACTIVE.get(), self._recording))
        return self._recording

    def __exit__(self, *_: object) -> None:
        _ACTIVE.reset(self._before)
