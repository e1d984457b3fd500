"""Recorded steps become a program of the engines: memory is placed, instructions are appended.

Memory of a tile is taken at the first step that touches it and given back after the last one, so that tiles
of successive iterations alternate. Which instruction waits for which is found by the builder.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.base.progress import Progress
from npuviz.onnx.errors import CannotLower
from npuviz.program.program import Note
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.compiled import Compiled, places_of
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_ENGINES, Engine
from npuviz.targets.neuroncore.nki.engine_choice import COMMUTATIVE, engine_for
from npuviz.targets.neuroncore.nki.placing import Placing
from npuviz.targets.neuroncore.nki.record.errors import REFUSED, KernelError
from npuviz.targets.neuroncore.nki.record.loops import TRACED_ONCE
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, Storage, Tensor
from npuviz.targets.neuroncore.nki.rules.psum_begins import UNDEFINED, sums_begun_by_others
from npuviz.targets.neuroncore.spec import NeuronSpec

_ASSUMED = (
    "each call of nki is one instruction, engines keep the program's order, and what waits for what follows "
    "from the bytes they touch (assumed: the vendor's scheduler is not public)"
)

_WORDS = (np.dtype(np.int32), np.dtype(np.uint32))


@dataclass(frozen=True)
class Lowered:
    """compiled  the program;  lines  graph node -> index in `Recording.places`"""

    compiled: Compiled
    lines: tuple[int, ...]


def lower(
    recording: Recording,
    inputs: Sequence[Storage],
    outputs: Sequence[Tensor],
    spec: NeuronSpec,
    progress: Progress,
) -> Lowered:
    """The program of a recording. Raises KernelError with the line of the step that does not go."""
    return Lowering(recording, inputs, outputs, spec).run(progress)


class Lowering(Placing):
    """One program under construction."""

    def run(self, progress: Progress) -> Lowered:
        """Emit everything."""
        self._find_lifetimes()
        self._note_undefined_sums()
        builder = self._builder
        for number, step in enumerate(self._steps):
            if number % 256 == 0:
                progress.report(number / max(1, len(self._steps)), "lowering the kernel")
            builder.emitter.node = self._nodes[step.place, step.op]
            builder.emitter.tile = step.moment
            if self._recording.version == 1 and step.moment >= 0:
                self._buffers.turn(self._recording.moments[step.moment], self._issued())
            self._now, self._needed = number, {each.id for each in storages_of(step)}
            builder.emitter.after = self._asked(step)
            before = builder.emitter.progress() if step.key else {}
            try:
                getattr(self, f"_{step.op}")(step)
                for each in (step.target, *step.more):
                    if each is not None:
                        self._spilling.written(each.storage)
            except KernelError as error:
                raise error.at(self._where(step)) from None
            except DoesNotFit as error:
                raise KernelError(f"{self._where(step)}: {error}{self._live(number)}") from None
            except (CannotLower, SimulationError, ValueError) as error:
                raise KernelError(f"{self._where(step)}: {step.op}: {error}") from None
            if step.key:
                self._finish(step.key, before)
            for storage in self._ends.pop(number, ()):
                tile = self._tiles.pop(storage.id, None)
                if tile is not None:
                    self._buffers.released(storage, tile)
        homes = {
            self._tensor_of[each.storage.id]: self._home(each.storage).variable for each in self._outputs
        }
        for storage_id in self._tensor_of:
            self._home(self._recording.storages[storage_id])
        tables = assemble(builder, homes)
        notes = [Note("info", "assumed", _ASSUMED)]
        for text in self._recording.notes:
            name = text.partition(": ")[0]
            is_warning = name.startswith("err_") or name in (TRACED_ONCE, REFUSED, UNDEFINED)
            notes.append(Note("warning", name, text) if is_warning else Note("info", "assumed", text))
        if self._spilling.saved_bytes:
            notes.append(Note("warning", "spilled", self._spill_text()))
        placement = {node.id: "Core" for node in self._graph.nodes}
        compiled = Compiled(
            self._graph, tables, places_of(self._spec, tables.variables), (*notes, *builder.notes), placement
        )
        return Lowered(compiled, tuple(self._lines))

    def _note_undefined_sums(self) -> None:
        if self._recording.version == 1 or self._spec.version > 3:
            return
        for step, writer in sums_begun_by_others(self._steps):
            where, said = self._where(step), self._where(writer)
            self._recording.note(
                f"{UNDEFINED}: {where}: nc_matmul is added to what {writer.op} ({said}) put into "
                f"{step.target!r}; before NeuronCore-v4 begin sums with a product, accumulate=False"
            )

    def _asked(self, step: Step) -> dict[int, int]:
        """Channel -> how far its work has to be before a step, as the kernel asks for it."""
        needs: dict[int, int] = {}
        for key in step.after:
            for channel, count in self._finished.get(key, {}).items():
                needs[channel] = max(count, needs.get(channel, 0))
        return needs

    def _finish(self, key: int, before: dict[int, int]) -> None:
        """Remember which work a step has added to channels since they were as far as `before`."""
        done = self._finished.setdefault(key, {})
        done.update(
            (channel, count)
            for channel, count in self._builder.emitter.progress().items()
            if count > before.get(channel, 0)
        )

    def _issued(self) -> dict[int, int]:
        """Channel -> instructions given to each engine so far."""
        length = self._builder.emitter.tracker.length
        return {channel: length(channel) for channel in range(NUM_ENGINES) if length(channel)}

    # --- movement ------------------------------------------------------------------------------

    def _load(self, step: Step) -> None:
        target = step.target
        assert target is not None
        if target.buffer == PSUM:
            raise KernelError("a DMA to PSUM")
        source = step.sources[0]
        if source is not None and step.values.get("turns"):
            self._builder.dma.load_transposed(self._view(target), self._hbm(source.permute((1, 0))))
            return
        self._builder.dma.load(self._view(target), self._hbm(step.sources[0]))

    def _store(self, step: Step) -> None:
        self._builder.dma.store(self._hbm(step.target), self._view(step.sources[0]))

    def _dma_copy(self, step: Step) -> None:
        target, source = step.target, step.sources[0]
        assert target is not None
        assert source is not None
        if not target.is_on_chip and not source.is_on_chip:
            self._builder.dma.copy(self._hbm(target), self._hbm(source))
            return
        self._builder.dma.move_within(self._view(target), self._view(source))

    def _gather(self, step: Step) -> None:
        source = step.sources[0]
        assert source is not None
        rows = self._rows(source, step.values["row_step"])
        self._builder.dma.gather(
            self._view(step.target), rows, self._index(step.sources[1]), bool(step.values.get("skips"))
        )

    def _scatter(self, step: Step) -> None:
        target = step.target
        assert target is not None
        rows = self._rows(target, step.values["row_step"])
        self._builder.dma.scatter(
            rows, self._index(step.sources[1]), self._view(step.sources[0]), bool(step.values.get("skips"))
        )

    def _index(self, tensor: Tensor | None) -> View:
        view = self._view(tensor)
        return view.reshape(1)

    def _rows(self, tensor: Tensor, row_step: int) -> HbmView:
        """A pattern of rows as a view of all rows of its variable."""
        view = self._hbm(tensor)
        item = tensor.dtype.itemsize
        count = max(1, tensor.storage.shape[0])
        return HbmView(
            view.variable,
            view.offset,
            view.dtype,
            (count, *view.shape[1:]),
            (row_step * item, *view.steps[1:]),
        )

    # --- engines -------------------------------------------------------------------------------

    def _on_engine(self, step: Step, emit: Callable[[Engine | None], None]) -> None:
        """Emit an instruction for the first engine that can run it, of those that the step's rule names."""
        options = engine_for(step, self._spec)
        for engine in options[:-1]:
            try:
                emit(engine)
            except CannotLower:
                continue
            return
        emit(options[-1] if options else None)

    def _tensor_copy(self, step: Step) -> None:
        target, source = self._view(step.target), self._view(step.sources[0])
        self._on_engine(step, lambda engine: self._builder.isa.copy(target, source, engine))

    def _copy_predicated(self, step: Step) -> None:
        self._builder.isa.copy_predicated(
            self._view(step.target), self._view(step.sources[0]), self._view(step.sources[1])
        )

    def _memset(self, step: Step) -> None:
        target, value = self._view(step.target), step.values["value"]
        self._on_engine(step, lambda engine: self._builder.isa.memset(target, value, engine))

    def _transpose(self, step: Step) -> None:
        target, source = self._view(step.target), self._view(step.sources[0])
        if step.values["engine"] == Engine.PE:
            self._builder.isa.transpose(target, source)
        else:
            self._builder.isa.transpose_on_vector(target, source)

    def _stream_shuffle(self, step: Step) -> None:
        self._builder.isa.stream_shuffle(
            self._view(step.target), self._view(step.sources[0]), step.values["order"]
        )

    def _matmul(self, step: Step) -> None:
        target = self._view(step.target)
        stationary, moving = (self._view(each) for each in step.sources)
        how = (
            bool(step.values["accumulate"]),
            bool(step.values.get("double_row")),
            step.values.get("hints", 0),
        )
        self._builder.isa.matmul(target, stationary, moving, *how)

    def _activation(self, step: Step) -> None:
        values = step.values
        data, scale, bias = step.sources
        self._builder.isa.activation(
            self._view(step.target),
            self._view(data),
            values["func"],
            scale=self._optional(scale, values["scale"]),
            bias=self._optional(bias, values["bias"]),
            cmd=values["cmd"],
            alpha=values.get("alpha", 0.0),
            accumulators=self._view(step.more[0]) if step.more else None,
        )

    def _tensor_tensor(self, step: Step) -> None:
        a, b = (self._view(each) for each in step.sources)
        target, op = self._view(step.target), step.values["op"]
        # Ref: nki.isa.tensor_tensor: tiles all of 32-bit integers go to GpSimd, unless Vector is asked for or
        # one is in PSUM
        exact = step.values.get("engine") != Engine.DVE and all(
            each is not None and each.buffer != PSUM and each.dtype in _WORDS
            for each in (step.target, *step.sources)
        )
        self._on_engine(step, lambda engine: self._builder.isa.tensor_tensor(target, a, b, op, engine, exact))

    def _tensor_scalar(self, step: Step) -> None:
        values = step.values
        data, first, second = step.sources
        target, source = self._view(step.target), self._view(data)
        x0, x1 = self._optional(first, values["x0"]), self._optional(second, values["x1"])
        swap0 = values["reverse0"] and values["op0"] not in COMMUTATIVE
        swap1 = values["reverse1"] and values["op1"] not in COMMUTATIVE
        integer = _is_integer(step)
        self._on_engine(
            step,
            lambda engine: self._builder.isa.tensor_scalar(
                target, source, values["op0"], x0, values["op1"], x1, swap0, swap1, engine, integer
            ),
        )

    def _scalar_tensor_tensor(self, step: Step) -> None:
        values = step.values
        data, other, column = step.sources
        self._builder.isa.scalar_tensor_tensor(
            self._view(step.target),
            self._view(data),
            values["op0"],
            self._optional(column, values["x0"]),
            values["op1"],
            self._view(other),
            values["reverse0"],
            values["reverse1"],
        )

    def _scan(self, step: Step) -> None:
        values = step.values
        a, b, column = step.sources
        self._builder.isa.scan(
            self._view(step.target),
            self._view(a),
            self._view(b),
            values["op0"],
            values["op1"],
            self._optional(column, values["initial"]),
            reverse=values["reverse"],
        )

    def _tensor_reduce(self, step: Step) -> None:
        values = step.values
        self._builder.isa.tensor_reduce(
            self._view(step.target),
            self._view(step.sources[0]),
            values["op"],
            values["axes"],
            values["negate"],
        )

    def _reciprocal(self, step: Step) -> None:
        self._builder.isa.reciprocal(self._view(step.target), self._view(step.sources[0]))

    def _bn_stats(self, step: Step) -> None:
        self._builder.isa.bn_stats(self._view(step.target), self._view(step.sources[0]))

    def _bn_aggr(self, step: Step) -> None:
        self._builder.isa.bn_aggr(self._view(step.target), self._view(step.sources[0]))

    def _max8(self, step: Step) -> None:
        self._builder.isa.max8(self._view(step.target), self._view(step.sources[0]))

    def _find_index8(self, step: Step) -> None:
        self._builder.isa.find_index8(
            self._view(step.target), self._view(step.sources[0]), self._view(step.sources[1])
        )

    def _match_replace8(self, step: Step) -> None:
        self._builder.isa.match_replace8(
            self._view(step.target),
            self._view(step.sources[0]),
            self._view(step.sources[1]),
            step.values["value"],
            self._view(step.more[0]) if step.more else None,
        )

    # --- GpSimd --------------------------------------------------------------------------------

    def _accumulating(self, step: Step) -> None:
        values = step.values
        *sources, first, second = step.sources
        x, y = values["numbers"]
        self._builder.isa.accumulating(
            values["opcode"],
            self._view(step.target),
            [self._view(each) for each in sources if each is not None],
            arguments=(self._optional(first, x), self._optional(second, y)),
            ops=values["ops"],
            cmd=values["cmd"],
            result=self._view(step.more[0]) if step.more else None,
            start=values.get("start", 0.0),
            flags=int(values["flags"]),
        )

    def _local_gather(self, step: Step) -> None:
        target, data, index = (self._view(each) for each in (step.target, *step.sources))
        self._builder.isa.local_gather(target, data, index, step.values["each"], step.values["count"])

    def _indirect(self, step: Step) -> None:
        target, source, index = (self._view(each) for each in (step.target, *step.sources))
        how = (step.values["count"], step.values["group"], bool(step.values["scatters"]))
        self._builder.isa.indirect_copy(target, source, index, *how)

    def _sequence_bounds(self, step: Step) -> None:
        self._builder.isa.sequence_bounds(self._view(step.target), self._view(step.sources[0]))

    def _nonzero_with_count(self, step: Step) -> None:
        target, source = self._view(step.target), self._view(step.sources[0])
        self._builder.isa.nonzero_with_count(target, source, step.values["offset"], step.values["padding"])

    def _topk(self, step: Step) -> None:
        self._builder.isa.topk(
            self._view(step.target),
            self._view(step.more[0]),
            self._view(step.sources[0]),
            step.values["count"],
        )

    def _random_bits(self, step: Step) -> None:
        target, values = self._view(step.target), step.values
        self._on_engine(
            step,
            lambda engine: self._builder.isa.random_bits(target, values["seed"], values["count"], engine),
        )

    def _quantize_mx(self, step: Step) -> None:
        target, source = self._view(step.target), self._view(step.sources[0])
        self._builder.isa.quantize_mx(target, source, self._view(step.more[0]), step.values["form"])

    def _matmul_mx(self, step: Step) -> None:
        values = step.values
        target, stationary, moving, first, second = (
            self._view(each) for each in (step.target, *step.sources)
        )
        how = (*values["formats"], bool(values["accumulate"]))
        self._builder.isa.matmul_mx(target, stationary, moving, (first, second), how)

    def _iota(self, step: Step) -> None:
        values = step.values
        target = self._view(step.target)
        base, steps = _inside(values["base"], values["steps"], values["multiplier"], step.box)
        self._builder.isa.iota(target, base, steps, values["multiplier"])

    def _affine_select(self, step: Step) -> None:
        values = step.values
        base, steps = _inside(values["base"], values["steps"], values["multiplier"], step.box)
        target, source = self._view(step.target), self._view(step.sources[0])
        self._builder.isa.affine_select(
            target, source, base, steps, values["multiplier"], values["op"], values["fill"]
        )

    def _partition_reduce(self, step: Step) -> None:
        self._builder.isa.partition_reduce(
            self._view(step.target), self._view(step.sources[0]), step.values["op"]
        )

    def _gather_free(self, step: Step) -> None:
        self._builder.isa.gather_free(
            self._view(step.target), self._view(step.sources[0]), self._view(step.sources[1])
        )


def _is_integer(step: Step) -> bool:
    """Whether an instruction with numbers computes on 32-bit integers, which is exact on GpSimd only."""
    target, source = step.target, step.sources[0]
    assert target is not None
    assert source is not None
    numbers = (step.values["x0"], step.values["x1"])
    return (
        target.dtype in _WORDS
        and source.dtype in _WORDS
        and all(float(each).is_integer() for each in numbers)
    )


def _inside(base: int, steps: Sequence[int], multiplier: int, box: Any) -> tuple[int, tuple[int, ...]]:
    """Base and steps of a pattern that begins at the corner of a box."""
    if box is None:
        return base, tuple(steps)
    base += multiplier * box[0][0]
    for (first, _), step in zip(box[1:], steps, strict=True):
        base += step * first
    return base, tuple(steps)
