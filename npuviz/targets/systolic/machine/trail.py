"""The DRAM accesses of the layers of a systolic program, and their order."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from npuviz.program.program import Program
from npuviz.sim.checks.lineage import readable_sources
from npuviz.sim.checks.trail import MemoryTrail, accesses_of
from npuviz.sim.machine import Hazard
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.scheduler_words import layer_edges
from npuviz.targets.systolic.machine.templates import Templates
from npuviz.targets.systolic.machine.tile_faults import faults_of_layers
from npuviz.targets.systolic.tables import SystolicTables


class TrailMaker:
    """Makes trails of one program, and finds its faults that do not depend on the order.

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
        """Return the trail of layers. ends  (layers,) int64 core cycle in which each ended, -1 while it has
        not.

        A layer is one step, its first instruction; layers wait for what the program's edges say, launches for
        each other.
        """
        done = np.flatnonzero(ends >= 0)
        done = done[np.argsort(ends[done], kind="stable")]
        step_of = {int(layer): step for step, layer in enumerate(done.tolist())}
        accesses = [(step, *row) for layer, step in step_of.items() for row in self._rows[layer]]
        orders = [
            (step_of[a], step_of[b])
            for a, b in self._pairs
            if a in step_of and b in step_of and step_of[a] < step_of[b]
        ]
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
    def _templates(self) -> Templates:
        return Templates(self._tables)

    @cached_property
    def faults_of_layers(self) -> list[list[Hazard]]:
        """By layer: what is wrong in its tiles, at cycle 0."""
        return faults_of_layers(self._tables, self._program, self._unit_name, self._halves, self._templates)

    @cached_property
    def _sources(self) -> tuple[np.ndarray, np.ndarray]:
        return readable_sources(self._program.graph, self._tables.layers[:, tk.LAYER.node].tolist())

    def _text(self, index: int) -> str:
        nodes = self._program.graph.nodes
        node = self._program.listing.describe(index).node
        return f"layer {nodes[node].name or nodes[node].op_type}" if node >= 0 else f"instruction {index}"

    @cached_property
    def _rows(self) -> list[list[tuple[int, ...]]]:
        """By layer: its accesses without their step."""
        return [
            [
                (0, is_write, True, 0, 1, place.address, place.address + place.size_bytes)
                for is_write, tensors in enumerate(both)
                for tensor in tensors
                if (place := self._places.get(tensor)) is not None
            ]
            for both in self._tensors
        ]

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Layers, and those that wait for them: by an edge, or because their launch does.

        Every layer of a launch waits for every one of the launch before it that no other waits for.
        """
        before: list[int] = []
        inner = layer_edges(self._tables)
        found: list[tuple[int, int]] = [(a, b) for a, b in inner.tolist()]
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
        heads = tables.layers[:, [tk.LAYER.node, tk.LAYER.host_cycles]].tolist()
        for layer, (node, host_cycles) in enumerate(heads):
            if host_cycles > 0 and node >= 0:
                outer = graph.nodes[node]
                found.append(({t for t in outer.inputs if t >= 0}, {t for t in outer.outputs if t >= 0}))
                continue
            found.append(self._templates.tensors_of(layer))
        return found

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
