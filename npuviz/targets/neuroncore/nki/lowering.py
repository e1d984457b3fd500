"""Recorded steps become a program of the engines: memory is placed, instructions are appended.

Memory of a tile is taken at the first step that touches it and given back after the last one, so that tiles
of successive iterations alternate. Which instruction waits for which is found by the builder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.base.progress import Progress
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import dtype_name
from npuviz.program.graph import Graph, Node
from npuviz.program.program import Note
from npuviz.program.tensor import Tensor as GraphTensor
from npuviz.targets.neuroncore.compiler.assembly import assemble
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.compiled import Compiled, places_of
from npuviz.targets.neuroncore.compiler.patterns.descriptors import descriptors, sbuf_side
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile import Tile
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.nki.partitions import with_copies
from npuviz.targets.neuroncore.nki.record.element_types import name_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.recording import Recording, Step
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, Storage, Tensor
from npuviz.targets.neuroncore.spec import NeuronSpec

_ASSUMED = (
    "each call of nki is one instruction, engines keep the program's order, and what waits for what follows "
    "from the bytes they touch (assumed: the vendor's scheduler is not public)"
)
MAX_SHOWN = 5
"""Live tiles that a capacity error names."""


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


class Lowering:
    """One program under construction."""

    def __init__(
        self, recording: Recording, inputs: Sequence[Storage], outputs: Sequence[Tensor], spec: NeuronSpec
    ) -> None:
        self._recording = recording
        self._spec = spec
        self._steps = with_copies(recording)
        self._lines: list[int] = []
        self._nodes: dict[tuple[int, str], int] = {}
        self._graph, self._tensor_of = self._make_graph(inputs, outputs)
        self._builder = Builder(self._graph, spec)
        self._tiles: dict[int, Tile] = {}
        self._homes: dict[int, HbmView] = {}
        self._ends: dict[int, list[Storage]] = {}
        self._outputs = outputs

    def _make_graph(
        self, inputs: Sequence[Storage], outputs: Sequence[Tensor]
    ) -> tuple[Graph, dict[int, int]]:
        """A node for each instruction of each line; tensors for what comes in and goes out."""
        nodes: list[Node] = []
        for step in self._steps:
            key = (step.place, step.op)
            if key not in self._nodes:
                self._nodes[key] = len(nodes)
                self._lines.append(step.place)
                nodes.append(Node(len(nodes), self._recording.where(step.place), step.op, "nki", (), ()))
        tensors: list[GraphTensor] = []
        tensor_of: dict[int, int] = {}
        for storage in (*inputs, *(each.storage for each in outputs)):
            if storage.id in tensor_of:
                continue
            tensor_of[storage.id] = len(tensors)
            kind = "input" if storage.kind == "input" else "output"
            tensors.append(
                GraphTensor(len(tensors), storage.name, storage.shape, dtype_name(storage.dtype), kind)
            )
        graph = Graph(
            "kernel",
            tuple(nodes),
            tuple(tensors),
            tuple(tensor_of[each.id] for each in inputs),
            tuple(dict.fromkeys(tensor_of[each.storage.id] for each in outputs)),
        )
        return graph, tensor_of

    def run(self, progress: Progress) -> Lowered:
        """Emit everything."""
        self._find_lifetimes()
        builder = self._builder
        for number, step in enumerate(self._steps):
            if number % 256 == 0:
                progress.report(number / max(1, len(self._steps)), "lowering the kernel")
            builder.emitter.node = self._nodes[step.place, step.op]
            try:
                getattr(self, f"_{step.op}")(step)
            except DoesNotFit as error:
                raise KernelError(f"{self._where(step)}: {error}{self._live(number)}") from None
            except (CannotLower, SimulationError, ValueError) as error:
                raise KernelError(f"{self._where(step)}: {step.op}: {error}") from None
            for storage in self._ends.pop(number, ()):
                tile = self._tiles.pop(storage.id, None)
                if tile is not None:
                    tile.users -= 1
        homes = {
            self._tensor_of[each.storage.id]: self._home(each.storage).variable for each in self._outputs
        }
        for storage_id in self._tensor_of:
            self._home(self._recording.storages[storage_id])
        tables = assemble(builder, homes)
        notes = [Note("info", "assumed", _ASSUMED)]
        notes += [Note("info", "assumed", text) for text in self._recording.notes]
        placement = {node.id: "Core" for node in self._graph.nodes}
        compiled = Compiled(
            self._graph, tables, places_of(self._spec, tables.variables), (*notes, *builder.notes), placement
        )
        return Lowered(compiled, tuple(self._lines))

    def _where(self, step: Step) -> str:
        return self._recording.where(step.place)

    def _find_lifetimes(self) -> None:
        for number, step in enumerate(self._steps):
            for each in (step.target, *step.sources, *step.more):
                if each is None:
                    continue
                for storage in (each.storage, each.row_index[0].storage if each.row_index else None):
                    if storage is not None:
                        storage.first = number if storage.first < 0 else storage.first
                        storage.last = number
        for storage in self._recording.storages:
            if storage.last >= 0 and storage.space != HBM:
                self._ends.setdefault(storage.last, []).append(storage)

    def _live(self, number: int) -> str:
        """The largest tiles alive at a step, for a message."""
        live = [
            storage
            for storage in self._recording.storages
            if storage.space != HBM and storage.id in self._tiles and storage.last >= number
        ]
        live.sort(key=lambda each: -self._tiles[each.id].size)
        shown = ", ".join(
            f"{each.name} {self._tiles[each.id].size} bytes ({self._recording.where(each.place)})"
            for each in live[:MAX_SHOWN]
        )
        more = f" and {len(live) - MAX_SHOWN} more" if len(live) > MAX_SHOWN else ""
        return f"; alive: {shown}{more}" if live else ""

    # --- operands ------------------------------------------------------------------------------

    def _tile(self, storage: Storage) -> Tile:
        tile = self._tiles.get(storage.id)
        if tile is None:
            partitions, count = storage.shape
            make = self._builder.tiles.psum if storage.space == PSUM else self._builder.tiles.sbuf
            tile = self._tiles[storage.id] = make(partitions, (count,), name_of(storage.dtype)).tile
        return tile

    def _view(self, tensor: Tensor | None) -> View:
        assert tensor is not None
        tile = self._tile(tensor.storage)
        address = tile.address + tensor.offset * tensor.dtype.itemsize
        return View(
            tile,
            tensor.start,
            tensor.shape[0],
            address,
            name_of(tensor.dtype),
            tensor.shape[1:],
            tensor.steps[1:],
        )

    def _optional(self, tensor: Tensor | None, number: Any) -> Any:
        return number if tensor is None else self._view(tensor)

    def _home(self, storage: Storage) -> HbmView:
        home = self._homes.get(storage.id)
        if home is None:
            hbm = self._builder.hbm
            tensor = self._tensor_of.get(storage.id, -1)
            dtype = dtype_name(storage.dtype)
            kind: Any = storage.kind
            if tensor >= 0 and kind == "scratch":
                kind = "output"
            home = self._homes[storage.id] = hbm.add(
                storage.name, kind, dtype, storage.shape, storage.data, tensor
            )
            hbm.draft(home).is_mutable = storage.is_written
        return home

    def _hbm(self, tensor: Tensor | None) -> HbmView:
        assert tensor is not None
        home = self._home(tensor.storage)
        item = tensor.dtype.itemsize
        return HbmView(
            home.variable,
            tensor.offset * item,
            dtype_name(tensor.dtype),
            tensor.shape,
            tuple(s * item for s in tensor.steps),
        )

    # --- movement ------------------------------------------------------------------------------

    def _load(self, step: Step) -> None:
        target = step.target
        assert target is not None
        if target.buffer == PSUM:
            raise KernelError("a DMA to PSUM")
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
        builder, pitch = self._builder, self._spec.sbuf_partition_bytes
        to, view = self._view(target), self._view(source)
        if to.dtype != view.dtype:
            raise KernelError("a DMA within SBUF does not cast")
        queue = builder.dma.queue("Copies")
        builder.emitter.transfer(
            queue,
            descriptors(sbuf_side(to, pitch), sbuf_side(view, pitch)),
            [(view.tile, view.box())],
            [(to.tile, to.box())],
            (to.tile, view.tile),
        )

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

    def _tensor_copy(self, step: Step) -> None:
        self._builder.isa.copy(
            self._view(step.target), self._view(step.sources[0]), step.values.get("engine")
        )

    def _copy_predicated(self, step: Step) -> None:
        self._builder.isa.copy_predicated(
            self._view(step.target), self._view(step.sources[0]), self._view(step.sources[1])
        )

    def _memset(self, step: Step) -> None:
        self._builder.isa.memset(self._view(step.target), step.values["value"])

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
        self._builder.isa.matmul(
            target, stationary, moving, bool(step.values["accumulate"]), bool(step.values.get("double_row"))
        )

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
            accumulators=self._view(step.more[0]) if step.more else None,
        )

    def _tensor_tensor(self, step: Step) -> None:
        a, b = (self._view(each) for each in step.sources)
        self._builder.isa.tensor_tensor(
            self._view(step.target), a, b, step.values["op"], step.values["engine"]
        )

    def _tensor_scalar(self, step: Step) -> None:
        values = step.values
        data, first, second = step.sources
        self._builder.isa.tensor_scalar(
            self._view(step.target),
            self._view(data),
            values["op0"],
            self._optional(first, values["x0"]),
            values["op1"],
            self._optional(second, values["x1"]),
            values["reverse0"],
            values["reverse1"],
            values["engine"],
            _is_integer(step),
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

    def _sequence_bounds(self, step: Step) -> None:
        self._builder.isa.sequence_bounds(self._view(step.target), self._view(step.sources[0]))

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
    words = (np.dtype(np.int32), np.dtype(np.uint32))
    numbers = (step.values["x0"], step.values["x1"])
    return (
        target.dtype in words and source.dtype in words and all(float(each).is_integer() for each in numbers)
    )


def _inside(base: int, steps: Sequence[int], multiplier: int, box: Any) -> tuple[int, tuple[int, ...]]:
    """Base and steps of a pattern that begins at the corner of a box."""
    if box is None:
        return base, tuple(steps)
    base += multiplier * box[0][0]
    for (first, _), step in zip(box[1:], steps, strict=True):
        base += step * first
    return base, tuple(steps)
