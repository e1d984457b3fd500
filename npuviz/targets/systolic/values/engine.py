"""The values engine: contents of memories, computed on request and never while simulating.

Contents are pure functions of the program, the inputs and how far the machine has come. A layer's
inputs are complete when it runs (layers have a barrier between them), so the state of a tensor follows
from which tiles have stored their blocks.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from npuviz.base.errors import SimulationError, TargetError
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables
from npuviz.targets.systolic.values.host import run_on_host
from npuviz.targets.systolic.values.plan import ValuePlan
from npuviz.targets.systolic.values.storage import Storage, saturated
from npuviz.targets.systolic.values.tile import Contents, TileValues

ALL = 1 << 62
"""Number of retired instructions that stands for all of them."""

CACHE_BYTES = 512 << 20
"""Most bytes of finished tensors that are kept; older ones are computed again when needed."""

_KEPT_TILES = 8


@dataclass
class Edit:
    """Bytes of a root tensor changed when the tiles and layers given were done.

    engine  the engine before the write
    """

    engine: "ValueEngine"
    root: int
    offset: int
    data: bytes
    tile_done: np.ndarray
    layer_done: np.ndarray
    _seen: dict[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])

    def is_layer_frozen(self, layer: int) -> bool:
        """Return whether the layer's results were complete before the write."""
        return bool(self.layer_done[layer])

    def contents(self, root: int) -> np.ndarray:
        """Return the contents of a root tensor right after the write (flat, DRAM order); the caller may
        change it."""
        found = self._seen.get(root)
        if found is None:
            found = np.array(self.engine.tensor_stored(root, self.tile_done, self.layer_done))
            if root == self.root:
                raw = found.view(np.uint8)
                raw[self.offset : self.offset + len(self.data)] = np.frombuffer(self.data, np.uint8)
            found.setflags(write=False)
            self._seen[root] = found
        return found.copy()

    def digest_bytes(self) -> bytes:
        """Return bytes that identify this write."""
        head = f"{self.engine.digest()} {self.root} {self.offset}".encode()
        return b"\0".join((head, self.data, self.tile_done.tobytes(), self.layer_done.tobytes()))


class ValueEngine:
    """Contents of scratchpads, accumulators and DRAM tensors of a program.

    inputs   graph input name -> array of its shape (see onnx.inputs); an absent one is 0
    Arrays returned are read-only and of the machine's element types. Several threads may ask.
    """

    def __init__(
        self,
        tables: SystolicTables,
        graph: Graph,
        spec: SystolicSpec,
        inputs: Mapping[str, np.ndarray],
        earlier: Edit | None = None,
    ) -> None:
        plan = tables.values
        if not isinstance(plan, ValuePlan):
            raise SimulationError("the program carries no plan for values")
        self.tables = tables
        self.graph = graph
        self.spec = spec
        self.plan = plan
        self.inputs = inputs
        self._earlier = earlier
        # One for all engines of a history, because later ones ask earlier ones.
        self.lock: threading.RLock = threading.RLock() if earlier is None else earlier.engine.lock
        self._tiles = TileValues(tables, plan, self.stored)
        self._finished: OrderedDict[int, np.ndarray] = OrderedDict()
        self._finished_bytes = 0
        self._contents: OrderedDict[tuple[int, int, int], Contents] = OrderedDict()
        self.clamped: dict[int, int] = {}
        """Tensor that the Host wrote -> how many of its finite numbers were beyond the range of its type."""
        self._layer_of = {root: number for number, layer in enumerate(plan.layers) for root in layer.outputs}

    # What the machine asks ---------------------------------------------------------------------

    def entry_shape(self, tile: int, entry: int) -> tuple[tuple[int, ...], str]:
        """Return shape and element type of an entry (operand word) of a resident tile."""
        with self.lock:
            program = self._tiles.program(tile)
            row = program.load_of.get(entry)
            if row is not None:
                shape = self.plan.shapes[row[tk.CODE.aux]]
                if not shape:
                    item = self.plan.storages[row[tk.CODE.tensor]].item_bytes
                    sizes = (row[tk.CODE.n0], row[tk.CODE.n1], row[tk.CODE.len] // item)
                    shape = tuple(size for size in sizes if size > 1) or (1,)
                return shape, self.plan.storages[row[tk.CODE.tensor]].dtype
            if program.product >= 0:
                product = self.plan.products[program.product]
                block = product.blocks.get(entry)
                if block is not None:
                    return (block.row_end - block.row, block.column_end - block.column), product.dtype
            found = self._evaluated(tile, ALL, ALL).get(entry)
            return ((0,), "float32") if found is None else (found.shape, str(found.dtype))

    def scratchpad(self, tile: int, entry: int, retired_gemm: int, retired_vector: int) -> np.ndarray:
        """Return the contents of a scratchpad entry (operand word > 0) as its MOVIN loaded it, else as
        computed."""
        with self.lock:
            loaded = self._tiles_at(tile).loaded(tile, entry)
            if loaded is not None:
                return loaded
            return self.accumulator(tile, entry, retired_gemm, retired_vector)

    def accumulator(self, tile: int, entry: int, retired_gemm: int, retired_vector: int) -> np.ndarray:
        """Return the contents of an accumulator entry (operand word < 0) after `retired_gemm` GEMM-type and
        `retired_vector` vector instructions of this tile; tiles before it in its accumulation are
        complete."""
        with self.lock:
            program = self._tiles.program(tile)
            gemms, vectors = min(retired_gemm, program.num_gemms), min(retired_vector, len(program.vectors))
            found = self._evaluated(tile, gemms, vectors).get(entry)
            if found is not None:
                return found
            shape, dtype = self.entry_shape(tile, entry)
            return np.zeros(shape, numpy_dtype(dtype))

    def tensor(
        self, tensor: int, tile_done: np.ndarray | None = None, layer_done: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the DRAM contents of a tensor in its logical shape; elements not stored yet are 0.

        tile_done, layer_done  bool per tile of the program and per layer; None: all done
        """
        storage = self.plan.storages[tensor]
        return storage.to_logical(self.tensor_stored(tensor, tile_done, layer_done))

    def tensor_stored(
        self, tensor: int, tile_done: np.ndarray | None = None, layer_done: np.ndarray | None = None
    ) -> np.ndarray:
        """Return contents as `tensor` does, but flat and in DRAM order: the bytes at the tensor's address."""
        with self.lock:
            root = self.plan.storages[tensor].root
            layer = self._layer_of.get(root)
            if layer is None or self._is_done(layer, tile_done, layer_done):
                return self.stored(root)
            return self._partial(root, layer, tile_done)

    def with_write(
        self,
        tensor: int,
        byte_offset: int,
        data: bytes,
        tile_done: np.ndarray,
        layer_done: np.ndarray,
    ) -> "ValueEngine":
        """Make an engine in which everything computed from now on uses changed bytes of a tensor.

        What finished tiles and layers stored stays as it was; tiles under way see the change.
        Raises ValueError outside the tensor.
        """
        root = self.plan.storages[tensor].root
        size = self.plan.storages[root].size_bytes
        if byte_offset < 0 or byte_offset + len(data) > size:
            raise ValueError(f"bytes {byte_offset}..{byte_offset + len(data)} of a tensor of {size} bytes")
        event = Edit(self, root, byte_offset, bytes(data), tile_done.copy(), layer_done.copy())
        return ValueEngine(self.tables, self.graph, self.spec, self.inputs, event)

    def digest(self) -> str:
        """Return the hexadecimal digest of inputs and writes."""
        made = hashlib.blake2b(digest_size=16)
        for name in sorted(self.inputs):
            values = np.ascontiguousarray(self.inputs[name])
            data = repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()
            made.update(name.encode() + b"\0" + data)
        event = self._earlier
        if event is not None:
            made.update(event.digest_bytes())
        return made.hexdigest()

    # Evaluation --------------------------------------------------------------------------------

    def stored(self, root: int) -> np.ndarray:
        """Return the final contents of a root tensor, flat, in DRAM order."""
        found = self._finished.get(root)
        if found is not None:
            self._finished.move_to_end(root)
            return found
        for layer in self._layers_needed(root):
            self._run_layer(layer)
        if root not in self._finished:
            self._keep(root, self._given(root))
        return self._finished[root]

    def _layers_needed(self, root: int) -> list[int]:
        """Return the layers to run for a tensor, in order. Not recursive, since graphs are deep."""
        needed: set[int] = set()
        open_roots = [root]
        while open_roots:
            layer = self._layer_of.get(open_roots.pop())
            if layer is None or layer in needed:
                continue
            needed.add(layer)
            open_roots += [index for index in self.plan.layers[layer].inputs if index not in self._finished]
        return sorted(needed)

    def _run_layer(self, layer: int) -> None:
        """Compute the outputs of a layer whose inputs are finished."""
        plan = self.plan.layers[layer]
        if all(root in self._finished for root in plan.outputs):
            return
        event = self._earlier
        if event is not None and event.is_layer_frozen(layer):
            for root in plan.outputs:
                self._keep(root, event.contents(root))
            return
        if plan.is_host:
            arrays = run_on_host(self.graph, plan.node, self.plan.storages, self.stored, self._limited)
        else:
            arrays = {root: self._empty(root) for root in plan.outputs}
            if event is not None:
                for root in plan.outputs:
                    arrays[root][...] = event.contents(root)
            for tile in self._tiles_of(layer):
                if event is None or not event.tile_done[tile]:
                    self._run_tile(tile, self._tiles.contents, arrays)
        for root in plan.outputs:
            self._keep(root, arrays[root])

    def _run_tile(
        self, tile: int, contents: Callable[[int, int, int], Contents], arrays: dict[int, np.ndarray]
    ) -> None:
        """Store the results of a tile. Raises TargetError if the program gives it none."""
        try:
            self._tiles.store(tile, contents(tile, ALL, ALL), arrays.__getitem__)
        except (LookupError, ValueError) as error:
            # What we compile has these; a program in which a move or an entry is wrong has not.
            reason = f"{type(error).__name__}: {error}"
            raise TargetError(
                f"tile {tile} moves or stores what its layer does not have ({reason})"
            ) from error

    def _partial(self, root: int, layer: int, tile_done: np.ndarray | None) -> np.ndarray:
        """Return the contents of a tensor while its layer runs: the blocks of finished tiles."""
        event = self._earlier
        made = self._empty(root)
        if event is not None:
            made[...] = event.contents(root)
        if self.plan.layers[layer].is_host or tile_done is None:
            return made
        scratch = {
            index: made if index == root else self._empty(index) for index in self.plan.layers[layer].outputs
        }
        for tile in self._tiles_of(layer):
            if tile_done[tile] and (event is None or not event.tile_done[tile]):
                self._run_tile(tile, self._evaluated, scratch)
        made.setflags(write=False)
        return made

    def _is_done(self, layer: int, tile_done: np.ndarray | None, layer_done: np.ndarray | None) -> bool:
        if layer_done is not None and not layer_done[layer]:
            if self.plan.layers[layer].is_host or tile_done is None:
                return False
            first, count = self._tile_range(layer)
            return bool(tile_done[first : first + count].all())
        return True

    def _tile_range(self, layer: int) -> tuple[int, int]:
        row = self.tables.layers[layer]
        return int(row[tk.LAYER.first_tile]), int(row[tk.LAYER.num_tiles])

    def _tiles_of(self, layer: int) -> range:
        first, count = self._tile_range(layer)
        return range(first, first + count)

    def _tiles_at(self, tile: int) -> TileValues:
        """Return the evaluator of a tile: that of the engine before the write, if the tile was done by
        then."""
        event = self._earlier
        return event.engine.tile_values(tile) if event is not None and event.tile_done[tile] else self._tiles

    def tile_values(self, tile: int) -> TileValues:
        """Return the evaluator with the DRAM contents that this tile saw."""
        return self._tiles_at(tile)

    def _evaluated(self, tile: int, gemms: int, vectors: int) -> Contents:
        key = tile, gemms, vectors
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = self._tiles_at(tile).contents(tile, gemms, vectors)
            if len(self._contents) > _KEPT_TILES:
                self._contents.popitem(last=False)
        return found

    def _empty(self, root: int) -> np.ndarray:
        storage = self.plan.storages[root]
        return np.zeros(_num_elements(storage), numpy_dtype(storage.dtype))

    def _given(self, root: int) -> np.ndarray:
        """Return the contents of a constant or a graph input, as the layers that follow read it."""
        storage = self.plan.storages[root]
        if root in self.plan.constants:
            made = storage.to_stored(self._limited(root, self.plan.constants[root]))
        else:
            name = self.graph.tensors[root].name
            if name not in self.inputs:
                return self._empty(root)
            made = storage.to_stored(self._limited(root, self.inputs[name]))
        return made if self._earlier is None else self._earlier.contents(root)

    def _limited(self, tensor: int, values: np.ndarray) -> np.ndarray:
        """Return what the Host writes to a tensor, within the range of its type; note what is clamped."""
        made = saturated(values, numpy_dtype(self.plan.storages[tensor].dtype))
        if made is not values:
            self.clamped[tensor] = int(np.count_nonzero(made != values))
        return made

    def _keep(self, root: int, values: np.ndarray) -> None:
        values.setflags(write=False)
        self._finished[root] = values
        self._finished_bytes += values.nbytes
        while self._finished_bytes > CACHE_BYTES and len(self._finished) > 1:
            oldest = next(iter(self._finished))
            if oldest == root:
                break
            self._finished_bytes -= self._finished.pop(oldest).nbytes


def _num_elements(storage: Storage) -> int:
    return prod(storage.shape)
