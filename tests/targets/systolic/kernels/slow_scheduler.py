"""The run-time schedulers, one question at a time: what `requests_kernels` must agree with.

Ref: systolic.md section 4, and section 3 step 4c for when a core asks.
"""

from collections import deque
from dataclasses import dataclass, field

from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.scheduler_words import layer_edges, partition_of
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables
from tests.targets.systolic.slow_simulator import SlowSimulator


@dataclass
class Waiting:
    """A request in the queue."""

    number: int
    left: int
    partition: int
    ready: deque[int] = field(default_factory=deque[int])
    tiles: deque[int] = field(default_factory=deque[int])


class SlowScheduled(SlowSimulator):
    """As SlowSimulator, under time_multiplex, partition_cpu or spatial_split."""

    def __init__(self, tables: SystolicTables, spec: SystolicSpec) -> None:
        super().__init__(tables, spec)
        self.kind = spec.config.scheduler
        self.queue: list[Waiting] = []
        self.turn = 0
        self.started = 0
        self.dealt = 0
        self.active: dict[int, int] = {}
        self.request_of: dict[int, Waiting] = {}
        self.missing = [0] * len(tables.layers)
        self.consumers: dict[int, list[int]] = {}
        for layer, consumer in layer_edges(tables).tolist():
            self.missing[consumer] += 1
            self.consumers.setdefault(layer, []).append(consumer)

    def _is_running(self) -> bool:
        waits = self.launch < len(self.tables.launches) or bool(self.queue)
        return waits or any(core.is_running for core in self.cores)

    def _core_tick(self) -> None:
        while self.launch < len(self.tables.launches):
            row = self.tables.launches[self.launch]
            if self.tick < row[tk.LAUNCH.earliest]:
                break
            first, count = int(row[tk.LAUNCH.first_layer]), int(row[tk.LAUNCH.num_layers])
            request = Waiting(self.launch, count, int(row[tk.LAUNCH.partition]))
            for layer in range(first, first + count):
                self.request_of[layer] = request
                if self.missing[layer] == 0:
                    request.ready.append(layer)
            self.queue.append(request)
            self.launch += 1
            self._refresh()
        for core in self.cores:
            if core.finished:
                self._end_tile(core.finished.popleft().layer)
            if self.queue and len(core.tiles) < 2:
                tile = self._ask(core.index)
                if tile >= 0:
                    core.accept(self._make_tile(tile))
            core.cycle()
        self.tick += 1

    def _ask(self, core: int) -> int:
        if self.kind == "spatial_split":
            tiles = self.queue[core % len(self.queue)].tiles
            return tiles.popleft() if tiles else -1
        if self.queues[core]:
            return self.queues[core].popleft()
        self._refresh()
        return -1

    def _end_tile(self, layer: int) -> None:
        self.active[layer] -= 1
        if self.active[layer] == 0:
            self.layer_ends[layer] = self.tick
            request = self.request_of[layer]
            for consumer in self.consumers.get(layer, ()):
                self.missing[consumer] -= 1
                if self.missing[consumer] == 0:
                    request.ready.append(consumer)
            request.left -= 1
            if request.left == 0:
                self.queue.remove(request)
        self._refresh()

    def _refresh(self) -> None:
        if not self.queue:
            return
        if self.kind == "time_multiplex":
            if not any(self.queues):
                self.turn = (self.turn + 1) % len(self.queue)
                self._open(self.queue[self.turn], range(self.spec.num_cores), 0)
        elif self.kind == "partition_cpu":
            for core in range(self.spec.num_cores):
                own = partition_of(self.spec, core)
                named = [request for request in self.queue if request.partition == own]
                if not self.queues[core] and named:
                    members = [c for c in range(self.spec.num_cores) if partition_of(self.spec, c) == own]
                    self._open(named[0], members, members.index(core))
        else:
            for request in self.queue:
                if not request.tiles:
                    self._open(request, (), 0)

    def _open(self, request: Waiting, cores: "range | list[int] | tuple[()]", offset: int) -> None:
        if not request.ready:
            return
        layer = request.ready.popleft()
        self.started += 1
        row = self.tables.layers[layer]
        first, count = int(row[tk.LAYER.first_tile]), int(row[tk.LAYER.num_tiles])
        self.active[layer] = count
        if self.kind == "spatial_split":
            request.tiles.extend(range(first, first + count))
            return
        for tile in range(first, first + count):
            preset = int(self.tables.tiles[tile, tk.TILE.core])
            place = offset + self.dealt if preset < 0 else preset + self.started
            self.dealt += preset < 0
            self.queues[cores[place % len(cores)]].append(tile)
