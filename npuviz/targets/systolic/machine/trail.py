"""What the layers of a systolic program read and wrote in DRAM, and what its tiles do with their entries."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from npuviz.program.memory import Allocation
from npuviz.program.program import Program
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.checks.lineage import readable_sources
from npuviz.sim.checks.trail import MemoryTrail, accesses_of
from npuviz.sim.machine import Hazard
from npuviz.targets.systolic.isa import MNEMONICS, UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.scheduler_words import layer_edges
from npuviz.targets.systolic.tables import SystolicTables

_LOAD, _STORE = UNIT_KINDS.index("LD"), UNIT_KINDS.index("ST")


class TrailMaker:
    """Trails of one program, and what is wrong in it whatever its order.

    halves  bytes of half a scratchpad, of half an accumulator
    """

    def __init__(
        self,
        tables: SystolicTables,
        program: Program,
        unit_name: Callable[[int], str],
        halves: tuple[int, int],
    ) -> None:
        self._tables, self._program, self._unit_name, self._halves = tables, program, unit_name, halves
        self._places = {each.tensor: each for each in program.memory_map.allocations}

    def trail(self, ends: np.ndarray) -> MemoryTrail:
        """The trail of layers. ends  (layers,) int64 core cycle in which each ended, -1 while it has not.

        A layer is one step, its first instruction; layers wait for what the program's edges say, launches for
        each other.
        """
        done = np.flatnonzero(ends >= 0)
        done = done[np.argsort(ends[done], kind="stable")]
        step_of = {int(layer): step for step, layer in enumerate(done.tolist())}
        accesses: list[tuple[int, ...]] = []
        for layer, step in step_of.items():
            for is_write, tensors in enumerate(self._tensors[layer]):
                accesses += [
                    (step, 0, bool(is_write), True, 0, 1, place.address, place.address + place.size_bytes)
                    for tensor in tensors
                    if (place := self._places.get(tensor)) is not None
                ]
        pairs = [*layer_edges(self._tables).tolist(), *self._launch_edges]
        orders = [(step_of[a], step_of[b]) for a, b in pairs if a in step_of and b in step_of]
        orders = [(a, b) for a, b in orders if a < b]
        describe = self._program.listing.describe
        return MemoryTrail(
            instruction=self._first[done],
            thread=np.arange(len(done), dtype=np.int64),
            cycle=ends[done],
            orders=np.array(sorted(orders, key=lambda pair: pair[1]), dtype=np.int64).reshape(-1, 2),
            accesses=accesses_of(accesses),
            given=self._given,
            kept=None,
            sizes=[(1, 1 << 62)],
            names=["DRAM"],
            unit=lambda index: self._unit_name(describe(index).unit),
            text=self._text,
            node=self._tables.layers[done, tk.LAYER.node].astype(np.int64),
            sources=self._sources,
        )

    @cached_property
    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        return readable_sources(self._program.graph, self._tables.layers[:, tk.LAYER.node].tolist())

    def _text(self, index: int) -> str:
        nodes = self._program.graph.nodes
        node = self._program.listing.describe(index).node
        return f"layer {nodes[node].name or nodes[node].op_type}" if node >= 0 else f"instruction {index}"

    @cached_property
    def _launch_edges(self) -> list[tuple[int, int]]:
        """Every layer of a launch waits for every one of the launch before it that no other waits for."""
        found: list[tuple[int, int]] = []
        before: list[int] = []
        inner = layer_edges(self._tables)
        has_next, has_last = set(inner[:, 0].tolist()), set(inner[:, 1].tolist())
        for launch in self._tables.launches:
            first, count = int(launch[tk.LAUNCH.first_layer]), int(launch[tk.LAUNCH.num_layers])
            mine = range(first, first + count)
            found += [(a, b) for a in before for b in mine if b not in has_last]
            before = [layer for layer in mine if layer not in has_next]
        return found

    @cached_property
    def _first(self) -> np.ndarray:
        """First instruction of each layer."""
        layers = self._tables.layers
        tile = np.minimum(layers[:, tk.LAYER.first_tile], max(0, len(self._tables.tiles) - 1))
        tiled = self._tables.tiles[tile, tk.TILE.first] if len(self._tables.tiles) else np.zeros_like(tile)
        return np.where(layers[:, tk.LAYER.instruction] >= 0, layers[:, tk.LAYER.instruction], tiled)

    @cached_property
    def _tensors(self) -> list[tuple[set[int], set[int]]]:
        """Tensors in DRAM that each layer reads, and writes."""
        tables, graph = self._tables, self._program.graph
        found: list[tuple[set[int], set[int]]] = []
        for layer in range(len(tables.layers)):
            node = int(tables.layers[layer, tk.LAYER.node])
            if int(tables.layers[layer, tk.LAYER.host_cycles]) > 0 and node >= 0:
                outer = graph.nodes[node]
                found.append(({t for t in outer.inputs if t >= 0}, {t for t in outer.outputs if t >= 0}))
                continue
            reads, writes = set[int](), set[int]()
            for code, _ in self._templates(layer):
                kind = UNIT_KIND_OF[code[:, tk.CODE.op]]
                reads |= set(code[kind == _LOAD, tk.CODE.tensor].tolist())
                writes |= set(code[kind == _STORE, tk.CODE.tensor].tolist())
            found.append((reads - {-1}, writes - {-1}))
        return found

    def _templates(self, layer: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Code rows of each template of a layer, and the tiles that run it."""
        first, count = self._tables.layers[layer, [tk.LAYER.first_tile, tk.LAYER.num_tiles]].tolist()
        tiles = self._tables.tiles[first : first + count]
        tiles = tiles[tiles[:, tk.TILE.count] > 0]
        for code, length in np.unique(tiles[:, [tk.TILE.code, tk.TILE.count]], axis=0).tolist():
            mine = (tiles[:, tk.TILE.code] == code) & (tiles[:, tk.TILE.count] == length)
            yield self._tables.code[code : code + length], tiles[mine]

    @cached_property
    def _given(self) -> np.ndarray:
        """Tensors that no layer writes and no operator makes: inputs and weights."""
        written = set[int]().union(*(writes for _, writes in self._tensors))
        written |= {tensor.id for tensor in self._program.graph.tensors if tensor.producer >= 0}
        return accesses_of(
            [
                (0, 0, False, True, 0, 1, place.address, place.address + place.size_bytes)
                for tensor, place in self._places.items()
                if tensor not in written
            ]
        )

    # --- whatever the order ----------------------------------------------------------------------------

    @cached_property
    def faults_of_layers(self) -> list[list[Hazard]]:
        """By layer: moves out of bounds, entries too large, read before they are filled, or never read."""
        return [
            [
                found
                for code, tiles in self._templates(layer)
                for found in (*self._bounds(code, tiles), *self._entries(layer, code, tiles))
            ]
            + self._incomplete.get(layer, [])
            for layer in range(len(self._tables.layers))
        ]

    @cached_property
    def _incomplete(self) -> dict[int, list[Hazard]]:
        """By the last layer that stores it: tensors of which all stores together move too few bytes."""
        moved, last = Counter[int](), dict[int, tuple[int, int]]()
        for layer in range(len(self._tables.layers)):
            for code, tiles in self._templates(layer):
                for row in np.flatnonzero(UNIT_KIND_OF[code[:, tk.CODE.op]] == _STORE).tolist():
                    c = tk.CODE(code[row])
                    moved[int(c.tensor)] += len(tiles) * int(c.n0) * int(c.n1) * int(c.len)
                    last[int(c.tensor)] = layer, int(tiles[-1, tk.TILE.first]) + row
        found: dict[int, list[Hazard]] = {}
        for tensor, (layer, index) in last.items():
            place = self._places.get(tensor)
            if place is not None and moved[tensor] < place.size_bytes:
                name = self._program.graph.tensors[tensor].name
                text = f"{name} has {place.size_bytes} B, and its stores move {moved[tensor]}"
                found.setdefault(layer, []).append(self._hazard("incomplete", index, text, f"tensor {name}"))
        return found

    def _hazard(self, kind: str, index: int, text: str, place: str, other: int = -1) -> Hazard:
        unit = self._unit_name(self._program.listing.describe(index).unit)
        return hazard_of(kind, 0, unit, index, text, place, other)

    def _bounds(self, code: np.ndarray, tiles: np.ndarray) -> Iterator[Hazard]:
        """Moves that leave the tensor they belong to."""
        kind = UNIT_KIND_OF[code[:, tk.CODE.op]]
        for row in np.flatnonzero((kind == _LOAD) | (kind == _STORE)).tolist():
            c = tk.CODE(code[row])
            place = self._places.get(int(c.tensor))
            if place is None:
                continue
            low = tiles[:, tk.TILE.base + int(c.base)] + int(c.offset)
            reach = (int(c.n0) - 1) * int(c.s0), (int(c.n1) - 1) * int(c.s1)
            high = low + sum(max(0, each) for each in reach) + int(c.len)
            low = low + sum(min(0, each) for each in reach)
            bad = np.flatnonzero((low < place.address) | (high > place.address + place.size_bytes))
            if len(bad):
                tile = int(bad[0])
                yield self._outside(
                    int(tiles[tile, tk.TILE.first]) + row, place, int(low[tile]), int(high[tile])
                )

    def _outside(self, index: int, place: Allocation, low: int, high: int) -> Hazard:
        name = self._program.graph.tensors[place.tensor].name
        end = place.address + place.size_bytes
        text = (
            f"instruction {index} moves DRAM {low:#x}..{high - 1:#x}; "
            f"tensor {name} has {place.address:#x}..{end - 1:#x}"
        )
        return self._hazard("out-of-bounds", index, text, f"DRAM {low:#x}..{high - 1:#x}")

    def _entries(self, layer: int, code: np.ndarray, tiles: np.ndarray) -> Iterator[Hazard]:
        """How a template uses its entries, in program order."""
        first = int(tiles[0, tk.TILE.first])
        # What a tile goes on with was filled by the tile before.
        continues = bool(tiles[:, tk.TILE.accumulate].any())
        filled: dict[int, int] = {}
        read = set[int]()
        kinds = UNIT_KIND_OF[code[:, tk.CODE.op]].tolist()
        for row, (words, kind) in enumerate(zip(code.tolist(), kinds, strict=True)):
            sources = [words[tk.CODE.src0], words[tk.CODE.src1]] if kind not in (_LOAD, _STORE) else []
            if kind == _STORE:
                sources = [words[tk.CODE.dst]]
            for entry in sources:
                if entry and entry not in filled and not (entry < 0 and continues):
                    name = f"{MNEMONICS[words[tk.CODE.op]]} {first + row}"
                    text = f"{name} reads {_entry(entry)}, which nothing of its tile has filled"
                    yield self._hazard("unwritten", first + row, text, _entry(entry))
                read.add(entry)
            if kind != _STORE and words[tk.CODE.dst]:
                filled[words[tk.CODE.dst]] = row
                yield from self._room(layer, words, first + row)
        for entry, row in filled.items():
            if entry > 0 and entry not in read:
                is_load = kinds[row] == _LOAD
                name = f"{MNEMONICS[int(code[row, tk.CODE.op])]} {first + row}"
                text = f"{name} fills {_entry(entry)}, and nothing of its tile reads it"
                kind_name = "dead-transfer" if is_load else "dead-store"
                yield self._hazard(kind_name, first + row, text, _entry(entry))

    def _room(self, layer: int, words: list[int], index: int) -> Iterator[Hazard]:
        """An entry that is larger than what its half has from its address on."""
        entry, size = words[tk.CODE.dst], words[tk.CODE.size]
        head = tk.LAYER(self._tables.layers[layer])
        place = int(head.entry) + (entry - 1 if entry > 0 else int(head.spad_entries) - entry - 1)
        address = int(self._tables.entries[place, tk.ENTRY_ROOM.address])
        half = self._halves[0 if entry > 0 else 1]
        if address + size > half:
            text = f"instruction {index} fills {_entry(entry)} with {size} B at {address:#x}, of {half} B"
            yield self._hazard("capacity", index, text, _entry(entry))


def _entry(operand: int) -> str:
    return f"scratchpad entry s{operand - 1}" if operand > 0 else f"accumulator entry a{-operand - 1}"
