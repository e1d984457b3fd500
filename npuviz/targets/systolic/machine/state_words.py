"""Builds the root state and the program words of a machine from its spec and program tables."""

from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.dram import records_kernels as ck
from npuviz.sim.dram import simple_kernels as dk
from npuviz.sim.dram.channel_hash import channel_hash_tables
from npuviz.sim.dram.state_words import CommandLayout
from npuviz.sim.network import records_kernels as fk
from npuviz.sim.network import simple_kernels as ik
from npuviz.sim.network.flit_network import FlitNetwork
from npuviz.sim.parts.words import zero_words
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.scheduler_words import (
    consumer_lists,
    partition_words,
    schedule_words,
    write_schedule,
)
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables, assign_cores

FIRST_POOL = 1 << 12
FIRST_BURSTS = 1 << 6
FIRST_FLITS = 1 << 10
NEAR_PACKETS = 512
"""Near nodes per channel: as many as packets that wait in a busy command-level channel."""
LINE_WORDS = 8
"""Words of a cache line: cores, entries and packets lie in whole lines, or whole packets in a line."""
DATAFLOWS = {
    "systolic_ws": sk.DATAFLOW_WEIGHTS,
    "systolic_os": sk.DATAFLOW_OUTPUTS,
    "systolic_is": sk.DATAFLOW_INPUTS,
}
"""`core_type` of a hardware file -> the operand that stays in the array."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Room for a program that will grow: the least numbers of entries, layers and tiles."""

    spad_entries: int = 0
    acc_entries: int = 0
    layers: int = 0
    tiles: int = 0

    @classmethod
    def twice(cls, tables: SystolicTables) -> "Reserve":
        """Reserve twice what a program needs."""
        layers = tables.layers
        return cls(
            2 * int(layers[:, tk.LAYER.spad_entries].max(initial=0)),
            2 * int(layers[:, tk.LAYER.acc_entries].max(initial=0)),
            2 * len(layers),
            2 * len(tables.tiles),
        )


NO_RESERVE = Reserve()


class StateShape:
    """Where each table of the state lies; a function of spec and program, and of two capacities that grow."""

    def __init__(
        self,
        spec: SystolicSpec,
        tables: SystolicTables,
        bursts: int,
        pool: int,
        reserve: Reserve = NO_RESERVE,
        flits: int = FIRST_FLITS,
    ) -> None:
        layers = tables.layers
        self.num_cores = spec.num_cores
        self.num_layers = max(len(layers), reserve.layers)
        self.num_tiles = max(len(tables.tiles), reserve.tiles)
        self.height = max(core.core_height for core in spec.cores)
        self.spad_entries = int(layers[:, tk.LAYER.spad_entries].max(initial=reserve.spad_entries))
        self.acc_entries = int(layers[:, tk.LAYER.acc_entries].max(initial=reserve.acc_entries))
        self.ring = sk.CORE.num_words
        self.half_tables = self.ring + self.height * sk.GEMM.num_words
        entries = 2 * (self.spad_entries + self.acc_entries)
        # Whole cache lines per core and entry.
        self.half_tables += -(sk.CHIP.num_words + self.half_tables) % 8
        self.core_words = self.half_tables + entries * sk.ENTRY.num_words
        self.core_words += -self.core_words % 8
        self.channels = channels = spec.config.dram_channels
        ports = spec.config.icnt_injection_ports_per_core
        self.sources = self.num_cores * ports
        self.mask_words = (self.sources + 63) // 64
        self.is_queued = channels > ports
        self.latency = spec.config.icnt_latency
        self.stride = 2 if self.is_queued or self.latency != 1 else 1
        self.dram = None if spec.device is None else CommandLayout(spec.device, channels)
        self.network = None if spec.flits is None else FlitNetwork(spec.flits)
        if self.dram is not None or self.network is not None:
            self.stride = ck.REQUEST_NODE.num_words
        self.flits = flits if self.network else 0
        self.bursts = bursts
        self.pool = pool
        sizes = self._sizes(schedule_words(spec, tables))
        self.at: dict[str, int] = {}
        place = sk.CHIP.num_words
        for name, size in sizes.items():
            self.at[name] = place
            place += size + -size % LINE_WORDS
        self.num_words = place
        if self.num_cores > sk.MOST_CORES or self.num_layers > sk.MOST_LAYERS:
            most = f"{sk.MOST_CORES} cores and {sk.MOST_LAYERS} layers"
            raise TargetError(f"expected at most {most}, found {self.num_cores} and {self.num_layers}")
        if place >= 1 << 31:
            raise TargetError(
                "the machine's state would take over 16 GiB; use fewer cores, ports or channels"
            )

    def _sizes(self, scheduler_words: int) -> dict[str, int]:
        """Return the words of each table, in storage order."""
        has_ready = self.latency != 1
        has_times = has_ready or not self.is_queued
        simple_dram = dk.SIMPLE_DRAM.num_words + self.channels * dk.SIMPLE_CHANNEL.num_words
        return {
            "cores": self.num_cores * self.core_words,
            "dram": self.dram.num_words if self.dram else simple_dram,
            "doors": 2 * self.channels if self.dram or self.network else 0,
            "net": self.network.table_words if self.network else 0,
            "noc": ik.NOC.num_words,
            "fifos": self.channels * self.sources,
            "fifo_ready": self.channels * self.sources if has_ready else 0,
            "masks": self.channels * self.mask_words,
            "turns": self.channels,
            "active": (self.channels + 63) // 64,
            "replies": self.num_cores * self.channels if self.is_queued else 0,
            "reply_times": self.num_cores * self.channels * sk.REPLY.num_words if has_times else 0,
            "reply_last": self.channels,
            "ports": self.sources * sk.PORT.num_words,
            "reply_active": self.mask_words,
            "wakes": self.num_cores,
            "sending": (self.num_cores + 63) // 64,
            "times": 2 * self.num_layers,
            "traffic": sk.TRAFFIC.num_words * self.num_layers,
            "sched": scheduler_words,
            "done": (self.num_tiles + 31) // 32,
            "bursts": self.num_cores * self.bursts * sk.BURST.num_words,
            "flits": self.flits * FlitNetwork.flit_words,
            "pool": self.pool * self.stride,
        }


def new_state(shape: StateShape) -> np.ndarray:
    """Return zeros for a state: (words,) int64 from the beginning of a cache line on, owned by the caller."""
    words = zero_words(shape.num_words + LINE_WORDS)
    first = -(words.ctypes.data // words.itemsize) % LINE_WORDS
    return words[first : first + shape.num_words]


def build_state(spec: SystolicSpec, tables: SystolicTables, shape: StateShape) -> np.ndarray:
    """Build the root state at cycle 0: (words,) int64, owned by the caller."""
    s = new_state(shape)
    _write_header(s, spec, tables, shape)
    for index in range(shape.num_cores):
        _write_core(s, spec, shape, index)
    if shape.dram is not None:
        at, pool = shape.at["dram"], shape.at["pool"]
        shape.dram.write(s, at, pool, shape.stride, spec.dram_period_ps, spec.is_refreshed)
    else:
        _write_simple_dram(s, spec, shape)
    s[shape.at["doors"] : shape.at["net"]] = ck.NIL
    if shape.network is not None:
        shape.network.write(s, shape.at["net"], shape.at["flits"], shape.flits)
    _write_network(s, spec, shape)
    s[shape.at["wakes"] : shape.at["sending"]] = sk.FAR
    s[shape.at["replies"] : shape.at["reply_times"]] = ik.EMPTY
    times = s[shape.at["reply_times"] : shape.at["reply_last"]].reshape(-1, sk.REPLY.num_words)
    times[:, sk.REPLY.ready] = -1
    times[:, sk.REPLY.pending] = ik.NONE
    s[shape.at["reply_last"] : shape.at["ports"]] = -1
    ports = s[shape.at["ports"] : shape.at["reply_active"]].reshape(-1, sk.PORT.num_words)
    ports[:, sk.PORT.next] = sk.FAR
    if shape.num_layers:
        s[shape.at["times"] : shape.at["times"] + 2 * shape.num_layers] = -1
    if spec.config.scheduler != "simple":
        write_schedule(s, spec, tables, shape.at["sched"])
    return s


def _write_simple_dram(s: np.ndarray, spec: SystolicSpec, shape: StateShape) -> None:
    dram = dk.SIMPLE_DRAM(s, shape.at["dram"])
    dram.latency = spec.config.dram_latency
    dram.period = spec.dram_period_ps
    dram.channels = spec.config.dram_channels
    dram.consumer = spec.noc_period_ps
    dram.quotient, dram.remainder = divmod(spec.dram_period_ps, spec.noc_period_ps)
    # The first departure may be in cycle 0.
    for channel in range(shape.channels):
        dk.SIMPLE_CHANNEL(dram, dk.SIMPLE_DRAM.num_words, channel).last = -1


def _write_header(s: np.ndarray, spec: SystolicSpec, tables: SystolicTables, shape: StateShape) -> None:
    config = spec.config
    modulo = channel_hash_tables(config.dram_channels)[1]
    values = {
        sk.CHIP.final: -1,
        sk.CHIP.cores_count: shape.num_cores,
        sk.CHIP.ports: config.icnt_injection_ports_per_core,
        sk.CHIP.channels: config.dram_channels,
        sk.CHIP.core_period: spec.core_period_ps,
        sk.CHIP.noc_period: spec.noc_period_ps,
        sk.CHIP.dram_period: spec.dram_period_ps,
        sk.CHIP.request_bytes: spec.req_size,
        sk.CHIP.request_shift: spec.req_size.bit_length() - 1,
        sk.CHIP.channel_modulo: modulo,
        sk.CHIP.true_mode: int(spec.mode == "true"),
        sk.CHIP.cores: shape.at["cores"],
        sk.CHIP.core_words: shape.core_words,
        sk.CHIP.bursts: shape.at["bursts"],
        sk.CHIP.burst_capacity: shape.bursts,
        sk.CHIP.dram: shape.at["dram"],
        sk.CHIP.dram_kind: int(shape.dram is not None),
        sk.CHIP.local_shift: (config.dram_channels * spec.req_size).bit_length() - 1,
        sk.CHIP.doors: shape.at["doors"],
        sk.CHIP.net: shape.at["net"] if shape.network else 0,
        sk.CHIP.net_flits: max(spec.flits.sizes) if spec.flits else 0,
        sk.CHIP.noc: shape.at["noc"],
        sk.CHIP.replies: shape.at["replies"],
        sk.CHIP.reply_times: shape.at["reply_times"],
        sk.CHIP.reply_last: shape.at["reply_last"],
        sk.CHIP.reply_ports: shape.at["ports"],
        sk.CHIP.reply_active: shape.at["reply_active"],
        sk.CHIP.wakes: shape.at["wakes"],
        sk.CHIP.sending: shape.at["sending"],
        sk.CHIP.reply_queued: int(shape.is_queued),
        sk.CHIP.tile_done: shape.at["done"],
        sk.CHIP.noc_next: sk.FAR,
        sk.CHIP.noc_shift: _shift(spec.core_period_ps, spec.noc_period_ps),
        sk.CHIP.reply_next: sk.FAR,
        sk.CHIP.noc_last: -1,
        sk.CHIP.last_ack: -1,
        sk.CHIP.last_busy: -1,
        sk.CHIP.layer: -1,
        sk.CHIP.host_until: -1,
        sk.CHIP.layers_total: len(tables.layers),
        sk.CHIP.launches_total: len(tables.launches),
        sk.CHIP.scheduler_wake: sk.FAR,
        sk.CHIP.wake: sk.FAR,
        sk.CHIP.times: shape.at["times"],
        sk.CHIP.traffic: shape.at["traffic"],
        sk.CHIP.sched: 0 if config.scheduler == "simple" else shape.at["sched"],
    }
    if len(tables.launches):
        values[sk.CHIP.launch_at] = values[sk.CHIP.scheduler_wake] = values[sk.CHIP.wake] = int(
            tables.launches[0, tk.LAUNCH.earliest]
        )
    for word, value in values.items():
        s[word] = value


def _shift(core_period: int, noc_period: int) -> int:
    """Return the power of two by which the core's period is longer than the network's, -1 if there is
    none."""
    ratio, rest = divmod(core_period, noc_period)
    return ratio.bit_length() - 1 if rest == 0 and ratio and ratio & (ratio - 1) == 0 else -1


def _write_core(s: np.ndarray, spec: SystolicSpec, shape: StateShape, index: int) -> None:
    core = spec.cores[index]
    k = s[shape.at["cores"] + index * shape.core_words :][: shape.core_words]
    for word in (sk.CORE.next_tile, sk.CORE.vec, sk.CORE.request, sk.CORE.last_layer, sk.CORE.last_fused):
        k[word] = -1
    k[sk.CORE.height] = core.core_height
    k[sk.CORE.banks] = spec.spad_banks
    k[sk.CORE.ports] = spec.spad_ports
    k[sk.CORE.dataflow] = DATAFLOWS[core.core_type]
    k[sk.CORE.width] = core.core_width
    k[sk.CORE.spad_half] = core.spad_bytes // 2
    k[sk.CORE.acc_half] = core.acc_bytes // 2
    k[sk.CORE.vector_bytes] = core.vector_bytes
    latency = {
        sk.LAT_ADD: core.add_latency,
        sk.LAT_MUL: core.mul_latency,
        sk.LAT_MAC: core.mac_latency,
        sk.LAT_DIV: core.div_latency,
        sk.LAT_EXP: core.exp_latency,
        sk.LAT_GELU: core.gelu_latency,
        sk.LAT_ADDTREE: core.add_tree_latency,
        sk.LAT_SQRT: core.scalar_sqrt_latency,
        sk.LAT_SCALAR_ADD: core.scalar_add_latency,
        sk.LAT_SCALAR_MUL: core.scalar_mul_latency,
    }
    for word, value in latency.items():
        k[sk.CORE.latency + word] = value
    k[sk.CORE.ring] = shape.ring
    place = shape.half_tables
    for half, count in enumerate((shape.spad_entries,) * 2 + (shape.acc_entries,) * 2):
        k[sk.CORE.entries + half] = shape.at["cores"] + index * shape.core_words + place
        place += count * sk.ENTRY.num_words
    entries = k[shape.half_tables : place].reshape(-1, sk.ENTRY.num_words)
    entries[:, sk.ENTRY.left] = -1


def _write_network(s: np.ndarray, spec: SystolicSpec, shape: StateShape) -> None:
    noc = ik.NOC(s, shape.at["noc"])
    noc.latency = spec.config.icnt_latency
    noc.period = spec.noc_period_ps
    noc.sources = shape.sources
    noc.destinations = spec.config.dram_channels
    noc.fifos = shape.at["fifos"]
    noc.ready = shape.at["fifo_ready"]
    noc.masks = shape.at["masks"]
    noc.mask_words = shape.mask_words
    noc.turns = shape.at["turns"]
    noc.active = shape.at["active"]
    noc.pool = shape.at["pool"]
    noc.stride = shape.stride
    noc.capacity = shape.pool
    noc.free = noc.near_free = ik.NONE
    noc.near = NEAR_PACKETS * spec.config.dram_channels
    s[shape.at["fifos"] : shape.at["fifo_ready"]] = ik.EMPTY


def grow_state(s: np.ndarray, old: StateShape, new: StateShape) -> np.ndarray:
    """Copy a state with more room for bursts or packets; everything else keeps its place."""
    grown = new_state(new)
    grown[: old.at["bursts"]] = s[: old.at["bursts"]]
    rings = s[old.at["bursts"] : old.at["flits"]].reshape(old.num_cores, old.bursts, sk.BURST.num_words)
    room = grown[new.at["bursts"] : new.at["flits"]].reshape(new.num_cores, new.bursts, sk.BURST.num_words)
    for index in range(old.num_cores):
        k = old.at["cores"] + index * old.core_words
        count = int(s[k + sk.CORE.burst_count])
        order = (int(s[k + sk.CORE.burst_head]) + np.arange(count)) % old.bursts
        room[index, :count] = rings[index, order]
        grown[k + sk.CORE.burst_head] = 0
    grown[new.at["pool"] : new.at["pool"] + old.pool * old.stride] = s[old.at["pool"] :]
    grown[sk.CHIP.burst_capacity] = new.bursts
    noc = ik.NOC(grown, new.at["noc"])
    noc.pool, noc.capacity = new.at["pool"], new.pool
    if new.dram is not None:
        ck.DRAM(grown, new.at["dram"]).pool = new.at["pool"]
    if new.network is not None:
        words = old.flits * FlitNetwork.flit_words
        grown[new.at["flits"] : new.at["flits"] + words] = s[old.at["flits"] : old.at["pool"]]
        net = fk.NET(grown, new.at["net"])
        net.pool, net.capacity = new.at["flits"], new.flits
    return grown


def build_program_words(spec: SystolicSpec, tables: SystolicTables, dram_memory: int) -> np.ndarray:
    """Build the immutable words that the kernels read: (words,) int64."""
    core_of = assign_cores(tables, spec.num_cores).astype(np.int64)
    heads, following = _core_queues(tables, core_of, spec.num_cores)
    edges_at, edges = consumer_lists(tables)
    hashes = channel_hash_tables(spec.config.dram_channels)[0]
    parts = {
        sk.PROGRAM.code: tables.code,
        sk.PROGRAM.tiles: tables.tiles,
        sk.PROGRAM.layers: tables.layers,
        sk.PROGRAM.entries: tables.entries,
        sk.PROGRAM.launches: tables.launches,
        sk.PROGRAM.next: following,
        sk.PROGRAM.heads: heads,
        sk.PROGRAM.hash: hashes,
        sk.PROGRAM.core_of: core_of,
        sk.PROGRAM.edges_at: edges_at,
        sk.PROGRAM.edges: edges,
        sk.PROGRAM.partition: partition_words(spec),
    }
    p = np.zeros(sk.PROGRAM.num_words + sum(part.size for part in parts.values()), dtype=np.int64)
    p[sk.PROGRAM.dram_memory] = dram_memory
    place = sk.PROGRAM.num_words
    for word, part in parts.items():
        p[word] = place
        p[place : place + part.size] = part.reshape(-1)
        place += part.size
    return p


def _core_queues(
    tables: SystolicTables, core_of: np.ndarray, num_cores: int
) -> tuple[np.ndarray, np.ndarray]:
    """Build linked lists of tiles: first tile per (layer, core), and the next one per tile; -1 ends a
    list."""
    num_tiles = len(tables.tiles)
    heads = np.full((len(tables.layers), num_cores), -1, dtype=np.int64)
    following = np.full(num_tiles, -1, dtype=np.int64)
    if num_tiles:
        group = tables.tiles[:, tk.TILE.layer] * num_cores + core_of
        order = np.argsort(group, kind="stable")
        is_same = group[order][1:] == group[order][:-1]
        following[order[:-1][is_same]] = order[1:][is_same]
        first = np.concatenate(([True], ~is_same))
        heads.reshape(-1)[group[order][first]] = order[first]
    return heads, following
