"""The state of a program under construction: variables, tiles, engines, nodes."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from npuviz.program.dtypes import dtype_name, numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.program import Note
from npuviz.targets.neuroncore.compiler.builder.allocator import PsumAllocator, SbufAllocator, Tile
from npuviz.targets.neuroncore.compiler.builder.cache import TileCache
from npuviz.targets.neuroncore.compiler.builder.engine_choice import EngineChoice
from npuviz.targets.neuroncore.compiler.builder.shown_tensors import ShownTensors
from npuviz.targets.neuroncore.compiler.builder.variables import Variables
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import ITEM_BYTES, View
from npuviz.targets.neuroncore.compiler.streams.emitter import Emitter, Mark
from npuviz.targets.neuroncore.compiler.streams.queue_sets import QueuePlan
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Engine, Opcode
from npuviz.targets.neuroncore.spec import NeuronSpec


@dataclass(frozen=True, slots=True)
class BuilderMark:
    """A point to return to: lengths of what only grows."""

    emitter: Mark
    variables: int
    notes: int
    tiles: int
    shown: int


class BuilderCore:
    """Variables, tiles and bare instructions; `builder.Builder` is what lowerings get.

    spec, graph    what is compiled for what
    compute_dtype  type of intermediate floats and matmul operands ("float32", ...)
    core           physical core that the next instructions go to
    """

    def __init__(self, graph: Graph, spec: NeuronSpec) -> None:
        self.spec = spec
        self.graph = graph
        self.compute_dtype: str = spec.dtype
        self.core = 0
        self.notes: list[Note] = []
        self.variables = Variables()
        self.queues = QueuePlan(spec)
        self.emitter = Emitter(spec.num_cores, self.queues.sets, self.queues.kind)
        self.shown = ShownTensors(graph, self.emitter)
        self.choice = EngineChoice(spec, spec.num_cores)
        self._homes: dict[int, HbmView] = {}
        self._aliases: set[int] = set()
        self._columns: dict[int, HbmView] = {}
        self._sbuf = [SbufAllocator(spec.sbuf_usable_bytes) for _ in range(spec.num_cores)]
        self._psum = [PsumAllocator(spec.num_psum_banks, spec.psum_bank_bytes) for _ in range(spec.num_cores)]
        self._cache = [TileCache() for _ in range(spec.num_cores)]
        self.all_tiles: list[Tile] = []
        self._scopes: list[list[Tile]] = [[]]
        self._num_tile_scopes = 0

    @property
    def opset(self) -> int:
        """Version of the standard operator set; a graph that states none has the newest rules."""
        opsets = self.graph.opsets
        return opsets.get("", opsets.get("ai.onnx", 1 << 30))

    # Variables -----------------------------------------------------------------------------------

    def hbm(self, tensor_id: int) -> HbmView:
        """The HBM home of a graph tensor, made on first use."""
        home = self._homes.get(tensor_id)
        if home is None:
            home = self._homes[tensor_id] = self.variables.view(self._make_home(tensor_id))
        return home

    def alias(self, tensor_id: int, home: HbmView) -> None:
        """The tensor has the same elements in the same order as `home`: it needs no bytes of its own."""
        self._homes[tensor_id] = home
        self._aliases.add(tensor_id)

    def _make_home(self, tensor_id: int) -> int:
        tensor = self.graph.tensors[tensor_id]
        data = self.graph.constants.get(tensor_id)
        if data is not None:
            is_output = tensor_id in self.graph.outputs
            dtype = tensor.dtype if is_output else self.held_dtype(tensor.dtype)
            if dtype != tensor.dtype:
                data = recast(data, dtype)
            return self.variables.add(tensor.name, "constant", dtype, tensor.shape, data, tensor_id)
        if tensor_id in self.graph.inputs:
            return self.variables.add(tensor.name, "input", tensor.dtype, tensor.shape, None, tensor_id)
        if tensor_id in self.graph.outputs:
            return self.variables.add(tensor.name, "output", tensor.dtype, tensor.shape, None, tensor_id)
        dtype = self.held_dtype(tensor.dtype)
        return self.variables.add(tensor.name, "scratch", dtype, tensor.shape, None, tensor_id)

    def held_dtype(self, dtype: str) -> str:
        """How intermediate tensors of a model type are held: fp32 becomes the compute type."""
        return self.compute_dtype if dtype == "float32" else dtype

    def constant(self, array: np.ndarray, name: str = "") -> HbmView:
        """An extra constant in HBM, of the array's type; an array of zero steps stays one value in memory."""
        dtype = dtype_name(array.dtype)
        name = name or f"constant.{len(self.variables.drafts)}"
        if any(array.strides):
            array = np.ascontiguousarray(array)
        index = self.variables.add(name, "constant", dtype, tuple(array.shape), array)
        return self.variables.view(index)

    def scratch(self, shape: tuple[int, ...], dtype: str) -> HbmView:
        """An extra buffer in HBM."""
        name = f"scratch.{len(self.variables.drafts)}"
        return self.variables.view(self.variables.add(name, "scratch", dtype, tuple(shape)))

    def note(self, code: str, text: str, node: int = -1, is_warning: bool = False) -> None:
        """Tell the user something; the same text about the same node once."""
        made = Note("warning" if is_warning else "info", code, text, node)
        if made not in self.notes:
            self.notes.append(made)

    # Tiles ---------------------------------------------------------------------------------------

    @contextmanager
    def tiles(self) -> Generator[None]:
        """Tiles made inside live until the end of the block.

        With two cores, the blocks of a node alternate between them, unless the node has made tiles
        outside of any block.
        """
        if len(self._scopes) == 2 and not self._scopes[1]:
            self.core = (self.core + 1) % self.spec.num_cores
        outer_tile = self.emitter.tile
        if len(self._scopes) <= 2:
            self.emitter.tile = self._num_tile_scopes
            self._num_tile_scopes += 1
        scope: list[Tile] = []
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()
            for tile in scope:
                tile.users -= 1
            self.emitter.tile = outer_tile

    @contextmanager
    def node(self, node_id: int) -> Generator[None]:
        """Everything emitted inside belongs to a graph node; its tiles end with it."""
        outer = self.emitter.node
        self.emitter.node = node_id
        scope: list[Tile] = []
        if len(self._scopes) == 1:
            self.choice.begin()
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.pop()
            for tile in scope:
                tile.users -= 1
            self.emitter.node = outer
            if len(self._scopes) == 1:
                self.shown.end_node()

    def sbuf(self, partitions: int, free_shape: tuple[int, ...], dtype: str) -> View:
        """A tile in SBUF. Raises DoesNotFit."""
        self._check_partitions(partitions)
        count = 1
        for size in free_shape:
            count *= size
        tile, lost = self._sbuf[self.core].allocate(
            count * ITEM_BYTES[dtype], f"a tile {partitions} x {tuple(free_shape)} of {dtype}"
        )
        for old in lost:
            old.keys.clear()
        return self._opened(tile, partitions, free_shape, dtype)

    def psum(self, partitions: int, free_shape: tuple[int, ...], dtype: str = "float32") -> View:
        """A tile in PSUM: at most one bank (2 KiB a partition). Raises DoesNotFit."""
        self._check_partitions(partitions)
        count = 1
        for size in free_shape:
            count *= size
        tile = self._psum[self.core].allocate(
            count * ITEM_BYTES[dtype], f"a PSUM tile {partitions} x {tuple(free_shape)} of {dtype}"
        )
        return self._opened(tile, partitions, free_shape, dtype)

    def _opened(self, tile: Tile, partitions: int, free_shape: tuple[int, ...], dtype: str) -> View:
        tile.core = self.core
        tile.partitions = partitions
        self.all_tiles.append(tile)
        self._scopes[-1].append(tile)
        return View(tile, 0, partitions, tile.address, dtype, tuple(free_shape))

    def _check_partitions(self, partitions: int) -> None:
        if not 1 <= partitions <= NUM_PARTITIONS:
            raise ValueError(f"a tile has 1..{NUM_PARTITIONS} partitions, not {partitions}")

    def _hold(self, tile: Tile) -> None:
        """Keep a tile until the innermost scope ends."""
        tile.users += 1
        tile.chance = True
        self._scopes[-1].append(tile)

    def show(self, tensor: int, view: View) -> None:
        """`view`, written by the last instruction, holds elements of a tensor that never goes to HBM.

        `shown_for` tells which. For people and for --check; what cannot be said exactly is left out.
        """
        self.shown.show(tensor, view)

    def shown_for(self, result: View) -> None:
        """What was shown since the last call holds those elements of its tensors which `result` holds
        of the tensor that it is stored to (tensors of the same shape)."""
        self.shown.belong_to(result)

    # Taking back ---------------------------------------------------------------------------------

    def mark(self) -> "BuilderMark":
        """Where the program is now; outside of all tile scopes."""
        return BuilderMark(
            self.emitter.mark(),
            len(self.variables.drafts),
            len(self.notes),
            len(self.all_tiles),
            len(self.shown),
        )

    def take_back(self, mark: "BuilderMark") -> None:
        """Remove everything since `mark`: as if it had not been emitted, with empty SBUF and PSUM."""
        done = self.emitter.take_back(mark.emitter)
        moved = {channel: n for channel, n in done.items() if channel >= self.emitter.host}
        self.variables.take_back(mark.variables, moved)
        del self.notes[mark.notes :]
        del self.all_tiles[mark.tiles :]
        self.shown.take_back(mark.shown)
        self._homes = {tensor: home for tensor, home in self._homes.items() if home.variable < mark.variables}
        self._aliases &= self._homes.keys()
        self._forget_variables(mark.variables)
        self._columns = {bits: view for bits, view in self._columns.items() if view.variable < mark.variables}
        for core, cache in enumerate(self._cache):
            own = {channel: n for channel, n in done.items() if self.emitter.core_of(channel) == core}
            self._sbuf[core].restart(own)
            self._psum[core].restart(own)
            cache.clear()
        for tile in self.all_tiles:
            length = mark.emitter.streams
            if tile.last is not None and tile.last[1] >= length[tile.last[0]]:
                tile.last = (tile.last[0], length[tile.last[0]] - 1) if length[tile.last[0]] else tile.first

    def _forget_variables(self, length: int) -> None:
        """The variables from `length` on are gone."""

    # Instructions --------------------------------------------------------------------------------

    def _run(
        self,
        opcode: Opcode,
        views: tuple[View | None, ...],
        *,
        engine: Engine | None = None,
        flags: int = 0,
        op0: int = 0,
        op1: int = 0,
        cmd: int = 0,
        imm: bytes = bytes(12),
        reads_target: bool = False,
    ) -> None:
        """Append an instruction to the engine that is asked for or done with it first."""
        core = self.core
        chosen = self.choice.choose(core, opcode, views, op0, op1, flags, engine)
        self.emitter.instruction(
            self.emitter.channel(core, chosen),
            opcode,
            views,
            flags=flags,
            op0=op0,
            op1=op1,
            cmd=cmd,
            imm=imm,
            reads_target=reads_target,
        )


def recast(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array as another type; an array of zero steps stays one value in memory."""
    if array.size and not any(array.strides):
        return np.broadcast_to(array.reshape(-1)[:1].astype(numpy_dtype(dtype))[0], array.shape)
    return array.astype(numpy_dtype(dtype))
