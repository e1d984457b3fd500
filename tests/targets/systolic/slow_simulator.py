"""The systolic machine cycle by cycle in plain Python: slow, obvious, the oracle of the kernel.

Ref: systolic.md sections 3 to 9, either DRAM, simple network, `simple` scheduler. Nothing is skipped
and nothing is shared with the kernel.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from npuviz.sim.dram.device import DramDevice
from npuviz.targets.systolic.compiler.template import Rows
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables, assign_cores
from tests.sim.dram.slow_channel import SlowChannel

_HASH16 = (
    (0, 3, 4, 6, 8, 9, 10, 11),
    (0, 1, 3, 5, 6, 7, 8, 12),
    (1, 2, 4, 6, 7, 8, 9),
    (2, 3, 5, 7, 8, 9, 10),
)
_HASH32 = (
    (0, 3, 5, 6, 9, 10, 11, 12, 13),
    (1, 4, 6, 7, 10, 11, 12, 13, 14),
    (0, 2, 3, 6, 7, 8, 9, 10, 14),
    (1, 3, 4, 7, 8, 9, 10, 11),
    (2, 4, 5, 8, 9, 10, 11, 12),
)
_HASH64 = (
    (0, 5, 6, 10, 12, 15, 16, 17, 18),
    (0, 1, 5, 7, 10, 11, 12, 13, 15),
    (1, 2, 6, 8, 11, 12, 13, 14, 16),
    (2, 3, 7, 9, 12, 13, 14, 15, 17),
    (3, 4, 8, 10, 13, 14, 15, 16, 18),
    (4, 5, 9, 11, 14, 15, 16, 17),
)


def channel_of(address: int, req_size: int, channels: int) -> int:
    """DRAM channel of a request."""
    block = address // req_size
    table = {32: _HASH32, 64: _HASH64}.get(channels, _HASH16)
    hashed = sum((sum(block >> bit & 1 for bit in bits) & 1) << place for place, bits in enumerate(table))
    return hashed % channels


@dataclass
class Entry:
    """One SRAM entry: fills and computations still outstanding, and the bytes it counts."""

    outstanding: int
    size: int


@dataclass
class Request:
    """One block on its way: entry to fill, or None for a write."""

    core: int
    channel: int
    entry: Entry | None
    address: int = 0


@dataclass
class Tile:
    number: int
    layer: int
    fused: int
    accumulate: bool
    program: deque[int]
    bases: list[int]
    spad: dict[int, Entry] = field(default_factory=dict[int, Entry])
    acc: dict[int, Entry] = field(default_factory=dict[int, Entry])
    spad_half: int = 0
    acc_half: int = 0
    is_done: bool = False

    def entries(self, operand: int) -> dict[int, Entry]:
        return self.spad if operand > 0 else self.acc


@dataclass
class Issued:
    """An instruction that has left its tile's program."""

    row: int
    tile: Tile
    is_last: bool
    start: int = 0
    finish: int = 0


class Network:
    """One FIFO per (source, destination), one grant per destination and tick."""

    def __init__(self, latency: int, nodes: int) -> None:
        self.latency = latency
        self.nodes = nodes
        self.tick = 0
        self.fifos: dict[int, dict[int, deque[tuple[int, Request]]]] = {}
        self.turn = [0] * nodes
        self.arrived: list[deque[Request]] = [deque() for _ in range(nodes)]

    def send(self, source: int, destination: int, request: Request) -> None:
        fifo = self.fifos.setdefault(destination, {}).setdefault(source, deque())
        ready = fifo[-1][0] + 1 if fifo else self.tick + self.latency
        fifo.append((ready, request))

    def cycle(self) -> None:
        for destination, sources in list(self.fifos.items()):
            turn = self.turn[destination]
            for source in sorted(sources, key=lambda node: (node - turn) % self.nodes):
                fifo = sources[source]
                if fifo[0][0] <= self.tick:
                    self.arrived[destination].append(fifo.popleft()[1])
                    self.turn[destination] = source + 1
                    if not fifo:
                        del sources[source]
                    break
            if not sources:
                del self.fifos[destination]
        self.tick += 1


class Dram:
    """Per channel a FIFO with a constant delay, one request per channel and tick."""

    def __init__(self, latency: int, channels: int) -> None:
        self.latency = latency
        self.tick = 0
        self.waiting: list[deque[tuple[int, Request]]] = [deque() for _ in range(channels)]
        self.finished: list[deque[Request]] = [deque() for _ in range(channels)]

    def can_accept(self, channel: int) -> bool:
        return channel >= 0

    def accept(self, request: Request) -> None:
        self.waiting[request.channel].append((self.tick + self.latency, request))

    def cycle(self) -> None:
        for waiting, finished in zip(self.waiting, self.finished, strict=True):
            if waiting and waiting[0][0] <= self.tick:
                finished.append(waiting.popleft()[1])
        self.tick += 1


class CommandDram:
    """The command-level model behind the same methods; a request's address is that inside its channel."""

    def __init__(self, spec: SystolicSpec, device: DramDevice) -> None:
        channels = spec.config.dram_channels
        self.channels = [SlowChannel(device, spec.is_refreshed) for _ in range(channels)]
        self.shift = (channels * spec.req_size).bit_length() - 1
        self.req_size = spec.req_size

    @property
    def finished(self) -> list[deque[Request]]:
        return [channel.finished for channel in self.channels]

    def can_accept(self, channel: int) -> bool:
        return len(self.channels[channel].front) < 256

    def accept(self, request: Request) -> None:
        address = (request.address >> self.shift) * self.req_size
        self.channels[request.channel].offer(request, address, request.entry is None)

    def cycle(self) -> None:
        for channel in self.channels:
            channel.tick()


class Core:
    """One core; `cycle` is section 5, step by step."""

    def __init__(self, index: int, machine: "SlowSimulator") -> None:
        self.index = index
        self.machine = machine
        self.config = machine.spec.cores[index]
        self.t = 0
        self.tiles: list[Tile] = []
        self.finished: deque[Tile] = deque()
        self.last: tuple[int, int] = (-1, -1)
        self.halves: dict[tuple[str, int], dict[int, Entry]] = {
            (kind, half): {} for kind in ("spad", "acc") for half in (0, 1)
        }
        self.rr = 0
        self.loads: deque[Issued] = deque()
        self.stores: deque[Issued] = deque()
        self.slot: Issued | None = None
        self.gemms: deque[Issued] = deque()
        self.vector: Issued | None = None
        self.requests: deque[Request] = deque()
        self.writes_out = 0

    @property
    def is_running(self) -> bool:
        busy = self.tiles or self.loads or self.stores or self.slot or self.gemms or self.vector
        return bool(busy) or self.writes_out > 0

    def accept(self, tile: Tile) -> None:
        """Take a tile: choose and empty its halves."""
        other = self.tiles[0] if len(self.tiles) == 1 else None
        tile.spad_half = 1 - (other.spad_half if other else 0)
        self.halves["spad", tile.spad_half] = tile.spad = {}
        half = other.acc_half if other else 0
        if tile.accumulate and (tile.layer, tile.fused) == self.last:
            tile.acc_half = half
            tile.acc = self.halves["acc", half]
        else:
            tile.acc_half = 1 - half
            self.halves["acc", tile.acc_half] = tile.acc = {}
        self.last = (tile.layer, tile.fused)
        if tile.program:
            self.tiles.append(tile)
        else:
            self.finished.append(tile)

    def cycle(self) -> None:
        self._retire_instructions()
        self._load()
        self._execute()
        self._store()
        self.t += 1
        self._issue()
        for tile in self.tiles:
            if tile.is_done and not tile.program:
                self.tiles.remove(tile)
                self.finished.append(tile)
                break

    def _retire_instructions(self) -> None:
        if self.gemms and self.gemms[0].finish <= self.t:
            self._retire(self.gemms.popleft())
        if self.vector and self.vector.finish <= self.t:
            self._retire(self.vector)
            self.vector = None

    def _retire(self, issued: Issued) -> None:
        destination = self._word(issued, tk.CODE.dst)
        if destination:
            issued.tile.entries(destination)[destination].outstanding -= 1
        issued.tile.is_done |= issued.is_last

    def _load(self) -> None:
        if self.loads:
            issued = self.loads.popleft()
            destination = self._word(issued, tk.CODE.dst)
            entry = Entry(0, self._word(issued, tk.CODE.size))
            issued.tile.entries(destination)[destination] = entry
            entry.outstanding = self._append_requests(issued, entry)

    def _append_requests(self, issued: Issued, entry: Entry | None) -> int:
        spec = self.machine.spec
        code = self.machine.code[issued.row]
        words = (
            tk.CODE.base,
            tk.CODE.offset,
            tk.CODE.len,
            tk.CODE.n0,
            tk.CODE.s0,
            tk.CODE.n1,
            tk.CODE.s1,
            tk.CODE.mode,
        )
        rows = Rows(*(code[word] for word in words))
        addresses = rows.addresses(issued.tile.bases[rows.base], spec.req_size).tolist()
        for address in addresses:
            channel = channel_of(address, spec.req_size, spec.config.dram_channels)
            self.requests.append(Request(self.index, channel, entry, address))
        self.machine.count("reads" if entry else "writes", len(addresses))
        return len(addresses)

    def _execute(self) -> None:
        if self.slot and self._can_compute(self.slot.row, self.slot.tile):
            issued, self.slot = self.slot, None
            destination = self._word(issued, tk.CODE.dst)
            entries = issued.tile.entries(destination)
            entry = entries.setdefault(destination, Entry(0, self._word(issued, tk.CODE.size)))
            entry.outstanding += 1
            if self.machine.is_gemm(issued.row):
                self._start_gemm(issued)
            else:
                issued.start, issued.finish = self.t, self.t + self._latency(issued)
                self.vector = issued

    def _start_gemm(self, issued: Issued) -> None:
        height, width = self.config.core_height, self.config.core_width
        rows = self._word(issued, tk.CODE.n)
        is_preload = self._word(issued, tk.CODE.op) == tk.OP_GEMM_PRELOAD
        if self.gemms:
            previous = self.gemms[-1]
            offset = max(self._word(previous, tk.CODE.n), 4)
            offset = max(offset, height) if is_preload else offset
            issued.start = max(self.t, previous.start + offset)
        else:
            issued.start = self.t + 2 * height - 1 if is_preload else self.t
        issued.finish = issued.start + height + width - 2 + max(rows, 4)
        self.gemms.append(issued)
        self.machine.count("gemms", 1)

    def _latency(self, issued: Issued) -> int:
        core, op = self.config, self._word(issued, tk.CODE.op)
        v, m = self._word(issued, tk.CODE.vbytes), self._word(issued, tk.CODE.tile_m)
        steps, tree = -(-v // core.vector_bytes), tree_depth(v, core.vector_bytes) * core.add_tree_latency
        if op == tk.OP_SOFTMAX:
            return 2 * tree * m + steps * (core.add_latency + core.exp_latency + core.mul_latency)
        if op == tk.OP_LAYERNORM:
            scalar = 2 * core.scalar_mul_latency + core.scalar_sqrt_latency
            return 2 * tree + scalar + steps * (2 * core.add_latency + 3 * core.mul_latency) * m
        own = {
            tk.OP_ADD: core.add_latency,
            tk.OP_MUL: core.mul_latency,
            tk.OP_MAC: core.mac_latency,
            tk.OP_DIV: core.div_latency,
            tk.OP_EXP: core.exp_latency,
            tk.OP_GELU: core.gelu_latency,
            tk.OP_SWISH: core.gelu_latency,
            tk.OP_COMP: 1,
        }
        return tree * m if op == tk.OP_ADDTREE else steps * own.get(op, 0)

    def _store(self) -> None:
        if self.stores and self._is_valid(self.stores[0].tile, self._word(self.stores[0], tk.CODE.dst)):
            issued = self.stores.popleft()
            self.writes_out += self._append_requests(issued, None)
            issued.tile.is_done |= issued.is_last

    def _issue(self) -> None:
        count = len(self.tiles)
        for step in range(count):
            index = (self.rr + step) % count
            tile = self.tiles[index]
            if tile.program and self._can_issue(tile, tile.program[0]):
                row = tile.program.popleft()
                issued = Issued(row, tile, not tile.program)
                op = self.machine.code[row][tk.CODE.op]
                if op == tk.OP_MOVIN:
                    self.loads.append(issued)
                elif op in (tk.OP_MOVOUT, tk.OP_MOVOUT_POOL):
                    self.stores.append(issued)
                else:
                    self.slot = issued
                self.rr = index
                return

    def _can_issue(self, tile: Tile, row: int) -> bool:
        code = self.machine.code[row]
        if code[tk.CODE.op] == tk.OP_MOVIN:
            assert code[tk.CODE.dst] not in tile.entries(code[tk.CODE.dst]), "the entry exists already"
            return self._has_pick(tile, code)
        if code[tk.CODE.op] in (tk.OP_MOVOUT, tk.OP_MOVOUT_POOL):
            return self._is_valid(tile, code[tk.CODE.dst]) and self._has_pick(tile, code)
        return self.slot is None and self._can_compute(row, tile)

    def _has_pick(self, tile: Tile, code: list[int]) -> bool:
        """Whether the offsets of picked rows are there, if a move has such."""
        return code[tk.CODE.src0] == 0 or self._is_valid(tile, code[tk.CODE.src0])

    def _can_compute(self, row: int, tile: Tile) -> bool:
        code = self.machine.code[row]
        sources = (code[tk.CODE.src0], code[tk.CODE.src1])
        if self.machine.is_gemm(row):
            has_room = len(self.gemms) < self.config.core_height
        else:
            has_room = self.vector is None
        return has_room and all(self._is_valid(tile, operand) for operand in sources if operand)

    def _is_valid(self, tile: Tile, operand: int) -> bool:
        entry = tile.entries(operand).get(operand)
        return entry is not None and entry.outstanding == 0

    def _word(self, issued: Issued, word: int) -> int:
        return self.machine.code[issued.row][word]


def tree_depth(size: int, step: int) -> int:
    """Steps of an adder tree over `size` bytes."""
    return 1 if size <= step else -(-size // step) + tree_depth(-(-size // step), step)


class SlowSimulator:
    """Runs a program to its end; `counts` holds gemms, reads and writes."""

    def __init__(self, tables: SystolicTables, spec: SystolicSpec) -> None:
        self.tables = tables
        self.spec = spec
        self.code: list[list[int]] = tables.code.tolist()
        self.counts = {"gemms": 0, "reads": 0, "writes": 0}
        self.layer_ends: dict[int, int] = {}
        ports, channels = spec.config.icnt_injection_ports_per_core, spec.config.dram_channels
        self.ports = ports
        self.first_channel = spec.num_cores * ports
        self.network = Network(spec.config.icnt_latency, self.first_channel + channels)
        simple = Dram(spec.config.dram_latency, channels)
        self.dram = simple if spec.device is None else CommandDram(spec, spec.device)
        self.cores = [Core(index, self) for index in range(spec.num_cores)]
        self.core_of_tile = assign_cores(tables, spec.num_cores)
        self.queues: list[deque[int]] = [deque() for _ in self.cores]
        self.launch = 0
        self.layers: deque[int] = deque()
        self.layer = -1
        self.tiles_left = 0
        self.launch_ready = 0
        self.tick = 0

    def count(self, name: str, amount: int) -> None:
        self.counts[name] += amount

    def is_gemm(self, row: int) -> bool:
        return self.code[row][tk.CODE.op] in (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)

    def run(self, limit: int = 10_000_000, change: tuple[int, int] | None = None) -> int:
        """Core cycles until the end; change: in which one DRAM gets another period, and its picoseconds."""
        periods = [self.spec.core_period_ps, self.spec.dram_period_ps, self.spec.noc_period_ps]
        due = [0, 0, 0]
        ticks = (self._core_tick, self.dram.cycle, self._noc_tick)
        while self._is_running():
            now = min(due)
            if change is not None and now >= change[0] * periods[0]:
                periods[1] = change[1]
            domains = [domain for domain in range(3) if due[domain] <= now]
            for domain in domains:
                due[domain] += periods[domain]
            for domain in domains:
                ticks[domain]()
            assert self.tick <= limit, "the run does not end"
        return self.tick

    def _is_running(self) -> bool:
        if self.launch < len(self.tables.launches) or self.layer >= 0 or self.layers:
            return True
        return any(core.is_running for core in self.cores)

    def _core_tick(self) -> None:
        self._start_launch()
        for core in self.cores:
            if core.finished:
                core.finished.popleft()
                self._report()
            if (self.layer >= 0 or self.layers) and len(core.tiles) < 2:
                queue = self.queues[core.index]
                if queue:
                    core.accept(self._make_tile(queue.popleft()))
                else:
                    self._start_layer()
            core.cycle()
        self.tick += 1

    def _start_launch(self) -> None:
        is_idle = self.layer < 0 and not self.layers
        if not is_idle or self.launch == len(self.tables.launches):
            return
        row = self.tables.launches[self.launch]
        if self.tick >= row[tk.LAUNCH.earliest] and self.tick >= self.launch_ready:
            first, count = int(row[tk.LAUNCH.first_layer]), int(row[tk.LAUNCH.num_layers])
            self.layers.extend(range(first, first + count))
            self.launch += 1
            self._start_layer()

    def _start_layer(self) -> None:
        if self.layer >= 0 or any(self.queues) or not self.layers:
            return
        self.layer = self.layers.popleft()
        row = self.tables.layers[self.layer]
        first, self.tiles_left = int(row[tk.LAYER.first_tile]), int(row[tk.LAYER.num_tiles])
        for tile in range(first, first + self.tiles_left):
            self.queues[self.core_of_tile[tile]].append(tile)

    def _report(self) -> None:
        self.tiles_left -= 1
        if self.tiles_left == 0:
            self.layer_ends[self.layer] = self.tick
            self.layer = -1
            if not self.layers and self.launch < len(self.tables.launches):
                self.launch_ready = self.tick + int(self.tables.launches[self.launch][tk.LAUNCH.delay])
                self._start_launch()
            self._start_layer()

    def _make_tile(self, number: int) -> Tile:
        row = self.tables.tiles[number]
        first, count = int(row[tk.TILE.code]), int(row[tk.TILE.count])
        return Tile(
            number=number,
            layer=int(row[tk.TILE.layer]),
            fused=int(row[tk.TILE.fused]),
            accumulate=bool(row[tk.TILE.accumulate]),
            program=deque(range(first, first + count)),
            bases=np.asarray(row[tk.TILE.base : tk.TILE.base + 8]).tolist(),
        )

    def _noc_tick(self) -> None:
        for core in self.cores:
            for port in range(self.ports):
                node = core.index * self.ports + port
                if core.requests:
                    request = core.requests.popleft()
                    self.network.send(node, self.first_channel + request.channel, request)
                if self.network.arrived[node]:
                    answered = self.network.arrived[node].popleft()
                    if answered.entry is None:
                        core.writes_out -= 1
                    else:
                        answered.entry.outstanding -= 1
        for channel, finished in enumerate(self.dram.finished):
            node = self.first_channel + channel
            if self.network.arrived[node] and self.dram.can_accept(channel):
                self.dram.accept(self.network.arrived[node].popleft())
            if finished:
                request = finished.popleft()
                self.network.send(node, request.core * self.ports + channel % self.ports, request)
        self.network.cycle()
