"""The bytes of scratchpads, accumulators and DRAM at the state's cycle."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Program
from npuviz.sim.checks.memory import memory_hazards, with_faults
from npuviz.sim.description import MachineDescription
from npuviz.sim.machine import Findings, Region
from npuviz.sim.parts.spans import overlay, shared
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine, StillEngine
from npuviz.targets.systolic.machine.trail import TrailMaker
from npuviz.targets.systolic.values.engine import ALL, ValueEngine
from npuviz.targets.systolic.view.description import dram_memory
from npuviz.targets.systolic.view.listing import SystolicListing
from npuviz.targets.systolic.view.observe import Observer

_KEPT_REGIONS = 1 << 15


@dataclass(frozen=True, slots=True)
class Patch:
    """Bytes written by hand at a cycle; they last until the region that holds them is replaced."""

    memory: int
    address: int
    data: bytes
    cycle: int


@dataclass(frozen=True, slots=True)
class Image:
    """Memory state of a snapshot: the values engine (None: no values) and the bytes written by hand."""

    values: ValueEngine | None
    patches: tuple[Patch, ...] = field(default=())

    def digest(self) -> str:
        """Return a digest of everything in the image."""
        written = "".join(f"{p.memory}:{p.address}:{p.cycle}:{p.data.hex()};" for p in self.patches)
        return (self.values.digest() if self.values is not None else "") + written


class Contents:
    """Reads and writes memories of one machine. Values are computed on request."""

    def __init__(
        self,
        engine: Engine | StillEngine,
        observer: Observer,
        program: Program,
        description: MachineDescription,
    ) -> None:
        self._engine = engine
        self._observer = observer
        self._program = program
        self._description = description
        self._regions: dict[tuple[object, ...], tuple[Region, int]] = {}
        self._memories = {memory.id: memory for memory in description.memories}
        self._dram = dram_memory(engine.spec)
        listing = program.listing
        assert isinstance(listing, SystolicListing)
        self._listing = listing
        halves = [
            next((m.bank_bytes for m in description.memories if m.id == which), 0)
            for which in (sk.MEMORY_SPAD, sk.MEMORY_SPAD + 1)
        ]
        self._trails = TrailMaker(engine.tables, program, self._unit_name, (halves[0], halves[1]))
        self._allocations = sorted(program.memory_map.allocations, key=lambda a: a.address)

    def still(self) -> "Contents":
        """Return the contents for a copy of the present state; both share the regions they make."""
        engine = self._engine.still()
        observer = Observer(engine, self._listing)
        made = Contents(engine, observer, self._program, self._description)
        made._regions, made._trails = self._regions, self._trails
        return made

    # --- progress of the program -----------------------------------------------------------------------

    def tiles_done(self) -> np.ndarray:
        """Return a bool per tile: whether it was reported, so that its results are in DRAM."""
        s, count = self._engine.state, len(self._engine.tables.tiles)
        words = s[int(s[sk.CHIP.tile_done]) :][: (count + 31) // 32]
        bits = words[:, None] >> np.arange(32) & 1
        return bits.reshape(-1)[:count].astype(bool)

    def layers_done(self) -> np.ndarray:
        """Return a bool per layer: whether it has ended."""
        s, count = self._engine.state, len(self._engine.tables.layers)
        return s[int(s[sk.CHIP.times]) :][: 2 * count].reshape(count, 2)[:, 1] >= 0

    # --- regions ---------------------------------------------------------------------------------------

    def regions(self, memory: int, image: Image) -> list[Region]:
        """Return the regions of a memory now, sorted by address."""
        if memory == self._dram:
            return self._dram_regions(image)
        found = [region for region, _ in self._sram_regions(memory, image)]
        return sorted(found, key=lambda region: region.address)

    def _dram_regions(self, image: Image) -> list[Region]:
        found: list[Region] = []
        done = self.layers_done()
        graph = self._program.graph
        layers = self._engine.tables.layers
        written = {int(node): bool(done[index]) for index, node in enumerate(layers[:, tk.LAYER.node])}
        for allocation in self._allocations:
            tensor = graph.tensors[allocation.tensor] if 0 <= allocation.tensor < len(graph.tensors) else None
            if tensor is None:
                continue
            shape, dtype = (allocation.size_bytes,), "uint8"
            if image.values is not None:
                storage = image.values.plan.storages[allocation.tensor]
                shape, dtype = storage.stored_shape, storage.dtype
            valid = tensor.producer < 0 or written.get(tensor.producer, True)
            found.append(
                Region(
                    address=allocation.address,
                    size_bytes=allocation.size_bytes,
                    tensor=allocation.tensor,
                    label=tensor.name,
                    shape=shape,
                    dtype=dtype,
                    is_valid=valid,
                    since=0,
                )
            )
        return found

    def _sram_regions(self, memory: int, image: Image) -> Iterator[tuple[Region, tuple[int, int]]]:
        """Yield regions of a scratchpad or accumulator, each with its (tile, operand word)."""
        core, which = divmod(memory, sk.MEMORIES_PER_CORE)
        first = 0 if which == sk.MEMORY_SPAD else 2
        bank = self._memories[memory].bank_bytes
        k = self._observer.core(core)
        for half in (first, first + 1):
            end = (half - first) * bank
            limit = end + bank
            for index in range(int(k[sk.CORE.half_entries + half])):
                words = self._observer.entry_words(core, half, index)
                writer = int(words[sk.ENTRY.writer])
                if int(words[sk.ENTRY.left]) < 0 or writer < 0:
                    continue
                operand = index + 1 if first == 0 else -(index + 1)
                region, tile = self._known_region(memory, half - first, words, operand, image)
                # Entries are numbered by address; where parity keys overlap, the first one is shown.
                if region.address >= end and region.address + region.size_bytes <= limit:
                    end = region.address + region.size_bytes
                    yield region, (tile, operand)

    def _known_region(
        self, memory: int, half: int, words: np.ndarray, operand: int, image: Image
    ) -> tuple[Region, int]:
        """Return a region and its tile; both are kept, because most regions stay for many cycles."""
        is_there = int(words[sk.ENTRY.valid]) <= int(self._engine.state[sk.CHIP.cycle])
        key = (memory, half, operand, words.tobytes(), is_there, image.values)
        found = self._regions.get(key)
        if found is None:
            if len(self._regions) >= _KEPT_REGIONS:
                self._regions.clear()
            tile = int(self._listing.tiles_of(np.array([int(words[sk.ENTRY.writer])]))[0])
            found = self._region(memory, half, words, tile, operand, image), tile
            self._regions[key] = found
        return found

    def _region(
        self, memory: int, half: int, words: np.ndarray, tile: int, operand: int, image: Image
    ) -> Region:
        tables = self._engine.tables
        cycle = int(self._engine.state[sk.CHIP.cycle])
        index = abs(operand) - 1
        layer = tables.layers[tables.tiles[tile, tk.TILE.layer]]
        place = int(layer[tk.LAYER.entry]) + (
            index if operand > 0 else int(layer[tk.LAYER.spad_entries]) + index
        )
        address = half * self._memories[memory].bank_bytes + int(tables.entries[place, tk.ENTRY_ROOM.address])
        size = int(words[sk.ENTRY.bytes]) or int(tables.entries[place, tk.ENTRY_ROOM.size])
        writer = int(words[sk.ENTRY.writer])
        tensor = int(self._listing.destinations_of(np.array([writer]))[2][0])
        names = self._program.graph.tensors
        label = names[tensor].name if 0 <= tensor < len(names) else ""
        shape, dtype = (size,), "uint8"
        if image.values is not None:
            shape, dtype = image.values.entry_shape(tile, operand)
            if int(np.prod(shape)) * numpy_dtype(dtype).itemsize > size:
                shape, dtype = (size,), "uint8"
        valid = int(words[sk.ENTRY.left]) == 0 and int(words[sk.ENTRY.valid]) <= cycle
        return Region(address, size, tensor, label, shape, dtype, valid, int(words[sk.ENTRY.since]), writer)

    # --- bytes -----------------------------------------------------------------------------------------

    def read(self, memory: int, address: int, size_bytes: int, image: Image) -> bytes:
        """Return the bytes now; 0 where nothing was written. Raises ValueError outside the memory."""
        self._require(memory, address, size_bytes)
        found = np.zeros(size_bytes, dtype=np.uint8)
        since: list[tuple[int, int, int]] = []
        if image.values is not None:
            if memory == self._dram:
                self._read_dram(found, address, image.values)
            else:
                since = self._read_sram(found, memory, address, image)
        elif memory != self._dram:
            since = [
                (r.address, r.address + r.size_bytes, r.since) for r, _ in self._sram_regions(memory, image)
            ]
        for patch in image.patches:
            if patch.memory == memory:
                _apply(found, address, patch, since)
        return found.tobytes()

    def _read_dram(self, found: np.ndarray, address: int, values: ValueEngine) -> None:
        tiles, layers = self.tiles_done(), self.layers_done()
        for allocation in self._allocations:
            if (
                allocation.address >= address + len(found)
                or allocation.address + allocation.size_bytes <= address
            ):
                continue
            stored = values.tensor_stored(allocation.tensor, tiles, layers)
            overlay(
                found, address, allocation.address, np.ascontiguousarray(stored).view(np.uint8).reshape(-1)
            )

    def _read_sram(
        self, found: np.ndarray, memory: int, address: int, image: Image
    ) -> list[tuple[int, int, int]]:
        since: list[tuple[int, int, int]] = []
        core = memory // sk.MEMORIES_PER_CORE
        assert image.values is not None
        for region, (tile, operand) in self._sram_regions(memory, image):
            since.append((region.address, region.address + region.size_bytes, region.since))
            if region.address >= address + len(found) or region.address + region.size_bytes <= address:
                continue
            if operand > 0 and not region.is_valid:
                continue
            gemms, vectors = self._retired(core, tile)
            read = image.values.scratchpad if operand > 0 else image.values.accumulator
            data = np.ascontiguousarray(read(tile, operand, gemms, vectors))
            overlay(found, address, region.address, data.reshape(-1).view(np.uint8))
        return since

    def _retired(self, core: int, tile: int) -> tuple[int, int]:
        """Return the number of retired GEMM-type and vector instructions of a tile; all, once it has left."""
        for slot in self._observer.slots(core):
            if slot[sk.SLOT.tile] == tile:
                return slot[sk.SLOT.gemms], slot[sk.SLOT.vectors]
        return ALL, ALL

    def write(self, memory: int, address: int, data: bytes, image: Image) -> Image:
        """Return the image after writing bytes by hand. Raises ValueError outside the memory."""
        self._require(memory, address, len(data))
        cycle = int(self._engine.state[sk.CHIP.cycle])
        if memory == self._dram and image.values is not None:
            for allocation in self._allocations:
                offset = address - allocation.address
                if offset >= 0 and offset + len(data) <= allocation.size_bytes:
                    values = image.values.with_write(
                        allocation.tensor, offset, data, self.tiles_done(), self.layers_done()
                    )
                    return replace(image, values=values)
        return replace(image, patches=(*image.patches, Patch(memory, address, data, cycle)))

    def _require(self, memory: int, address: int, size_bytes: int) -> None:
        known = self._memories.get(memory)
        if known is None:
            raise ValueError(f"no memory {memory}")
        if address < 0 or size_bytes < 0 or address + size_bytes > known.size_bytes:
            raise ValueError(f"{known.name}: bytes {address}..{address + size_bytes} of {known.size_bytes}")

    def memory_hazards(self, image: Image) -> Findings:
        """Find memory hazards of the layers that have started."""
        if image.values is None:
            return Findings((), ("reads and writes: this program has no values",))
        s, count = self._engine.state, len(self._engine.tables.layers)
        times = s[int(s[sk.CHIP.times]) :][: 2 * count].reshape(count, 2)
        found = [
            replace(hazard, cycle=int(times[layer, 0]))
            for layer in np.flatnonzero(times[:, 0] >= 0).tolist()
            for hazard in self._trails.faults_of_layers[layer]
        ]
        return with_faults(found, memory_hazards(self._trails.trail(times[:, 1].copy())))

    def _unit_name(self, unit: int) -> str:
        return self._description.units[unit].name if unit >= 0 else ""

    def tensor(self, tensor: int, image: Image) -> np.ndarray | None:
        """Return the values of a tensor as far as they are in DRAM, or None without values."""
        if image.values is None or not 0 <= tensor < len(self._program.graph.tensors):
            return None
        if self._program.graph.tensors[tensor].dtype in ("string", "opaque"):
            return None
        return image.values.tensor(tensor, self.tiles_done(), self.layers_done())


def _apply(found: np.ndarray, address: int, patch: Patch, since: list[tuple[int, int, int]]) -> None:
    """Write a patch over bytes, except where a region created later has replaced it."""
    data = np.frombuffer(patch.data, dtype=np.uint8)
    keep = np.ones(len(data), dtype=bool)
    for start, end, created in since:
        if created > patch.cycle:
            keep[max(0, start - patch.address) : max(0, end - patch.address)] = False
    here, there = shared(address, len(found), patch.address, len(data))
    found[here] = np.where(keep[there], data[there], found[here])
