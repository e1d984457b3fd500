"""Configure a flit-level network: its rules, its topology, and the words of its tables.

The kernels are in flit_kernels. A network is configured by the values of a BookSim-style
description (npuviz.formats.onnxim.booksim); values that are not modelled are refused, with those that are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.sim.network import records_kernels as fk
from npuviz.sim.network.topology import TOPOLOGIES, Topology, build_topology

KINDS = ("read_request", "write_request", "read_reply", "write_reply")
MAX_INPUT_VCS = 1 << 20
MAX_VCS = 64

# Settings whose other values change the router in ways that are not modelled.
_ONLY: Mapping[str, tuple[int | float | str, ...]] = {
    "router": ("iq",),
    "buffer_policy": ("private",),
    "priority": ("none",),
    "subnets": (1,),
    "speculative": (0,),
    "noq": (0,),
    "hold_switch_for_packet": (0,),
    "vc_busy_when_full": (0,),
    "vc_prioritize_empty": (0,),
    "vc_shuffle_requests": (0,),
    "vc_priority_donation": (0,),
    "routing_delay": (0, 1),
    "vc_alloc_delay": (1,),
    "sw_alloc_delay": (1,),
    "st_prepare_delay": (0,),
    "st_final_delay": (0, 1),
    "output_speedup": (1,),
    "output_buffer_size": (-1,),
    "link_failures": (0,),
    "use_map": (0,),
}


@dataclass(frozen=True, slots=True)
class FlitConfig:
    """Rules of a network.

    first_vc, last_vc  VCs that each of KINDS may use; sizes  flits of a packet of each kind
    buffer             flits per VC of an input
    source_limit       flits that a node keeps to send; boundary  flits per VC that wait there to be taken
    speedup            router cycles per network cycle
    """

    topology: Topology
    num_vcs: int
    first_vc: tuple[int, ...]
    last_vc: tuple[int, ...]
    sizes: tuple[int, ...]
    buffer: int
    source_limit: int
    boundary: int
    vc_iterations: int
    switch_iterations: int
    routing_delay: int
    credit_delay: int
    speedup: Fraction
    input_speedup: int
    is_waiting_for_tail: bool


def flit_config(values: Mapping[str, int | float | str], packet_bytes: tuple[int, ...]) -> FlitConfig:
    """Make the rules from the complete values of a BookSim-style description.

    packet_bytes  bytes of a packet of each of KINDS
    Raises TargetError with the rule that is broken, or with the setting that is not modelled.
    """
    for name, allowed in _ONLY.items():
        if values[name] not in allowed:
            known = " or ".join(str(value) for value in allowed)
            raise TargetError(f"network: {name} = {values[name]} is not modelled; {known} is")
    routing = f"{values['routing_function']}_{values['topology']}"
    if routing not in TOPOLOGIES:
        raise TargetError(
            f"network: topology {values['topology']} with routing_function {values['routing_function']} "
            f"is not modelled; {', '.join(TOPOLOGIES)} are (routing_function_topology)"
        )
    topology = build_topology(routing, values)
    vcs = _number(values, "num_vcs", 1, MAX_VCS)
    first, last = _vc_ranges(values, vcs)
    if topology.code == fk.TOPOLOGY_TORUS and any(b == a for a, b in zip(first, last, strict=True)):
        raise TargetError("network: a torus needs two VCs for each kind of packet, one for each ring half")
    if topology.num_routers * topology.ports * vcs > MAX_INPUT_VCS:
        raise TargetError(
            f"network: {topology.num_routers} routers with {topology.ports} ports and {vcs} VCs; "
            f"at most {MAX_INPUT_VCS} input VCs in all"
        )
    sizes, buffer, source, boundary = _buffers(values, vcs, packet_bytes)
    speedup = Fraction(float(values["internal_speedup"])).limit_denominator(1000)
    if not 1 <= speedup <= 8:
        raise TargetError(f"network: internal_speedup = {values['internal_speedup']}; expected 1 to 8")
    return FlitConfig(
        topology,
        vcs,
        first,
        last,
        sizes,
        buffer,
        source,
        boundary,
        _iterations(values, "vc_allocator"),
        _iterations(values, "sw_allocator"),
        int(values["routing_delay"]),
        _number(values, "credit_delay", 0, 1000),
        speedup,
        _number(values, "input_speedup", 1, 8),
        bool(values["wait_for_tail_credit"]),
    )


def _buffers(
    values: Mapping[str, int | float | str], vcs: int, packet_bytes: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int, int]:
    """Return (flits of a packet of each kind, flits of a VC's buffer, of a source queue,
    of a boundary buffer)."""
    flit_size = _number(values, "flit_size", 1, 1 << 20)
    sizes = tuple(max(1, -(-size // flit_size)) for size in packet_bytes)
    shared = int(values["buf_size"])
    buffer = shared // vcs if shared > 0 else _number(values, "vc_buf_size", 1, 1 << 16)
    if buffer < 1:
        raise TargetError(f"network: buf_size = {shared} leaves no flit for each of {vcs} VCs")
    ejection = int(values["ejection_buffer_size"])
    if 0 < ejection < buffer:
        raise TargetError(
            f"network: ejection_buffer_size = {ejection} is smaller than a VC's buffer of {buffer} flits, "
            "which is what the last router counts on"
        )
    boundary = _number(values, "boundary_buffer_size", 1, 1 << 16)
    source = int(values["input_buffer_size"]) or 9  # Ref: BOOK Interconnect.cpp
    if max(sizes) > min(boundary, source):
        raise TargetError(
            f"network: a packet of {max(sizes)} flits does not fit into boundary_buffer_size = {boundary} "
            f"and input_buffer_size = {source}; make them larger, or flit_size"
        )
    return sizes, buffer, source, boundary


def _number(values: Mapping[str, int | float | str], name: str, low: int, high: int) -> int:
    value = values[name]
    if not isinstance(value, int) or not low <= value <= high:
        raise TargetError(f"network: {name} = {value}; expected a whole number from {low} to {high}")
    return value


def _iterations(values: Mapping[str, int | float | str], name: str) -> int:
    """Return the passes of an iSLIP allocator: `islip` one, `islip(n)` n.
    BookSim ignores `alloc_iters` here."""
    text = str(values[name])
    digits = text.removeprefix("islip(").removesuffix(")")
    if text == "islip":
        return 1
    if text == f"islip({digits})" and digits.isascii() and digits.isdigit() and 1 <= int(digits[:4]) <= 64:
        return int(digits[:4])
    raise TargetError(f"network: {name} = {text[:40]} is not modelled; islip or islip(passes), 1 to 64, is")


def _vc_ranges(values: Mapping[str, int | float | str], vcs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and the last VC of each kind; -1 stands for half of the VCs (Ref:
    BOOK routefunc.cpp)."""
    first: list[int] = []
    last: list[int] = []
    for kind in KINDS:
        is_reply = kind.endswith("reply")
        begin, end = int(values[f"{kind}_begin_vc"]), int(values[f"{kind}_end_vc"])
        begin = begin if begin >= 0 else vcs // 2 * is_reply
        end = end if end >= 0 else vcs - 1 if is_reply else vcs // 2 - 1
        if not 0 <= begin <= end < vcs:
            raise TargetError(
                f"network: {kind}_begin_vc = {begin}, {kind}_end_vc = {end}; expected begin <= end < num_vcs "
                f"= {vcs}"
            )
        first.append(begin)
        last.append(end)
    return tuple(first), tuple(last)


def check_nodes(config: FlitConfig, needed: int, what: str = "", *, is_exact: bool = True) -> None:
    """Refuse a network with fewer nodes than the chip has, if `is_exact` also one with more.

    `what` explains the needed number in the error. Raises TargetError.
    """
    have = config.topology.num_nodes
    if have < needed or (is_exact and have != needed):
        reason = f" ({what})" if what else ""
        raise TargetError(
            f"network: {config.topology.name} has {have} nodes, the chip needs {needed}{reason}; "
            "every port of a core and every DRAM channel is a node of its own"
        )


class FlitNetwork:
    """Sizes of one network's tables, and the words that they begin with."""

    flit_words = fk.FLIT.num_words

    def __init__(self, config: FlitConfig) -> None:
        self.config = config
        topology = config.topology
        self.num_nodes = topology.num_nodes
        self.num_outputs = topology.num_routers * topology.ports
        self._mask_words = -(-topology.ports * config.num_vcs // 64)
        latency = max(topology.latencies) + 2
        # With internal speedup flits and credits may queue up behind a link.
        lag = config.num_vcs * config.buffer if config.speedup != 1 else 0
        self._slots = _power_of_two(latency + lag)
        self._credit_slots = _power_of_two(latency + lag + config.credit_delay)
        self._credit_words = 1 + self.num_outputs * config.input_speedup + self.num_nodes
        self._ejected_words = -(-config.num_vcs * config.buffer // 8)
        self._at: dict[int, int] = {}
        place = fk.NET.num_words
        for word, size in self._sizes().items():
            self._at[word] = place
            place += size
        self.table_words = place
        """Number of words of header and tables."""
        if place >= 1 << 27:
            raise TargetError(f"network: {topology.name} would take {place * 8 >> 20} MiB; make it smaller")

    def _sizes(self) -> dict[int, int]:
        config, topology = self.config, self.config.topology
        inputs, vcs = self.num_outputs, config.num_vcs
        per_router = topology.ports * vcs
        expanded_in = topology.ports * config.input_speedup
        masks = topology.num_routers * self._mask_words
        nodes = -(-self.num_nodes // 64)
        return {
            fk.NET.links: (inputs + self.num_nodes) * fk.LINK.num_words,
            fk.NET.back: inputs,
            fk.NET.input_vcs: inputs * vcs * fk.INPUT_VC.num_words,
            fk.NET.output_vcs: (inputs + self.num_nodes) * vcs * fk.OUTPUT_VC.num_words,
            fk.NET.switch_grant: inputs,
            fk.NET.switch_accept: topology.num_routers * expanded_in,
            fk.NET.switch_offset: topology.num_routers * expanded_in,
            fk.NET.vc_grant: inputs * vcs,
            fk.NET.vc_accept: inputs * vcs,
            fk.NET.route_masks: masks,
            fk.NET.alloc_masks: masks,
            fk.NET.switch_masks: masks,
            fk.NET.active: -(-topology.num_routers // 64),
            fk.NET.node_table: self.num_nodes * fk.NODE.num_words,
            fk.NET.node_queues: self.num_nodes * vcs * fk.NODE_QUEUES.num_words,
            fk.NET.ejected: self.num_nodes * self._ejected_words,
            fk.NET.sources: nodes,
            fk.NET.ejecting: nodes,
            fk.NET.ready: nodes,
            fk.NET.wheel: self._slots,
            fk.NET.credit_wheel: self._credit_slots * self._credit_words,
            fk.NET.scratch: 4 * topology.ports + 4 * per_router + 2 * expanded_in,
            fk.NET.winners: 3 * expanded_in,
            fk.NET.alloc_scratch: 3 * topology.ports + 4 * per_router,
            fk.NET.departure: inputs,
            fk.NET.credit_last: 2 * inputs,
        }

    def write(self, state: np.ndarray, at: int, pool_at: int, pool_capacity: int) -> None:
        """Write header and tables of cycle 0.

        state  (words,) int64, changed from word `at` on, `table_words` words
        pool_at, pool_capacity  first word of `pool_capacity * flit_words` zero words for flits
        """
        s = state[at : at + self.table_words]
        s[:] = 0
        config, topology = self.config, self.config.topology
        for word, place in self._at.items():
            s[word] = at + place
        net = self._write_header(s, pool_at, pool_capacity)
        net.sizes[:] = config.sizes
        net.first_vc[:] = config.first_vc
        net.last_vc[:] = config.last_vc
        links = self.table(s, 0, fk.NET.links).reshape(-1, fk.LINK.num_words)
        links[:, fk.LINK.to] = topology.targets
        links[:, fk.LINK.latency] = topology.latencies
        back = self.table(s, 0, fk.NET.back)
        for link, target in enumerate(topology.targets):
            if target < self.num_outputs:
                back[target] = link
        inputs = self.table(s, 0, fk.NET.input_vcs).reshape(-1, fk.INPUT_VC.num_words)
        inputs[:, (fk.INPUT_VC.head, fk.INPUT_VC.tail)] = fk.NIL
        nodes = self.table(s, 0, fk.NET.node_table).reshape(-1, fk.NODE.num_words)
        nodes[:, fk.NODE.vc] = -1
        for output, target in enumerate(topology.targets[: self.num_outputs]):
            if target >= self.num_outputs:
                nodes[target - self.num_outputs, fk.NODE.output] = output
        node_vcs = self.table(s, 0, fk.NET.node_queues).reshape(-1, fk.NODE_QUEUES.num_words)
        node_vcs[:, fk.NODE_QUEUES.head] = fk.NIL
        for word in (fk.NET.wheel, fk.NET.scratch, fk.NET.alloc_scratch):
            self.table(s, 0, word)[:] = fk.NIL
        for word in (fk.NET.departure, fk.NET.credit_last):
            self.table(s, 0, word)[:] = -1
        # BookSim: the rotation of the VCs of input i of the switch begins at i modulo the speedup.
        offsets = self.table(s, 0, fk.NET.switch_offset)
        offsets[:] = np.arange(len(offsets)) % config.input_speedup

    def _write_header(self, s: np.ndarray, pool_at: int, pool_capacity: int) -> Any:
        """Write the header's fields other than the tables' places; return the header."""
        config, topology = self.config, self.config.topology
        net = fk.NET(s)
        net.nodes = self.num_nodes
        net.routers = topology.num_routers
        net.ports = topology.ports
        net.vcs = config.num_vcs
        net.topology = topology.code
        net.radix = topology.radix
        net.dimensions = topology.dimensions
        net.concentration = topology.concentration
        net.router_columns = topology.router_columns
        net.node_columns = topology.node_columns
        net.node_rows = topology.node_rows
        net.buffer = config.buffer
        net.source_limit = config.source_limit
        net.boundary = config.boundary
        net.vc_iterations = config.vc_iterations
        net.switch_iterations = config.switch_iterations
        net.routing_delay = config.routing_delay
        net.credit_delay = config.credit_delay
        net.speedup = config.speedup.numerator
        net.speedup_unit = config.speedup.denominator
        net.input_speedup = config.input_speedup
        net.wait_tail = int(config.is_waiting_for_tail)
        net.mask_words = self._mask_words
        net.slots = self._slots
        net.credit_slots = self._credit_slots
        net.credit_words = self._credit_words
        net.ejected_words = self._ejected_words
        net.node_masks = -(-self.num_nodes // 64)
        net.router_masks = -(-topology.num_routers // 64)
        net.pool = pool_at
        net.capacity = pool_capacity
        net.free = fk.NIL
        return net

    def table(self, state: np.ndarray, at: int, word: int) -> np.ndarray:
        """Return the words of the table that a header word names (a view);
        the header is at word `at` of `state`."""
        place = at + self._at[word]
        return state[place : place + self._sizes()[word]]


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
