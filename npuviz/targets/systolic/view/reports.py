"""Tables about a run so far: latency by request, roofline by operator, energy by part."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.units import format_bytes, format_count, format_share
from npuviz.program.graph import Graph
from npuviz.program.instruction import DetailTable
from npuviz.sim.machine import Peak
from npuviz.targets.systolic.hardware import energy
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan
from npuviz.targets.systolic.view.layer_counts import LayerCounts, layer_counts

NO_TIME = "-"
VECTOR_ITEM = 4
"""Bytes of an element of a vector instruction."""


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak rates of the chip per core cycle.

    operations  of all PEs, a MAC being two; vector  elements of all vector lanes; num_bytes  to and from DRAM
    """

    operations: float
    vector: float
    num_bytes: float


@dataclass(frozen=True, slots=True)
class OperatorRoof:
    """The work and cycles of an operator that has ended, all its layers together.

    cycles    from its start until the last of its bytes has crossed to or from DRAM
    products  operations of the array, two for each multiply-accumulate
    vector    elements of vector instructions
    num_bytes  of its requests to DRAM, each as large as the chip's requests are
    """

    name: str
    op_type: str
    cycles: int
    products: float
    vector: float
    num_bytes: int

    @property
    def operations(self) -> float:
        """Operations of the array and the vector unit."""
        return self.products + self.vector

    def least_cycles(self, roof: Roof) -> dict[str, float]:
        """Return the cycles that array, vector lanes and DRAM need at least, each at its peak rate."""
        return {
            "compute": self.products / roof.operations,
            "vector": self.vector / roof.vector,
            "memory": self.num_bytes / roof.num_bytes,
        }

    def share(self, roof: Roof) -> float:
        """Return the share of its lowest roof that the work reached, 0..1."""
        return max(self.least_cycles(roof).values()) / self.cycles


def roof_of(spec: SystolicSpec) -> Roof:
    """Return the roofs of a machine: all PEs and vector lanes busy, and every channel at its best."""
    config = spec.config
    pace = min(config.dram_freq, config.icnt_freq) / config.core_freq
    macs = sum(core.core_height * core.core_width for core in spec.cores)
    lanes = sum(core.vector_bytes for core in spec.cores) / VECTOR_ITEM
    return Roof(2.0 * macs, lanes, config.dram_channels * config.dram_req_size * pace)


class Reports:
    """Tables about one machine; the work of the program is counted at the first question."""

    def __init__(self, engine: Engine, graph: Graph, requests: Sequence[RequestPlan]) -> None:
        self._engine = engine
        self._graph = graph
        self._requests = requests
        self._counted: LayerCounts | None = None

    @property
    def _counts(self) -> LayerCounts:
        if self._counted is None:
            self._counted = layer_counts(self._engine.tables, self._engine.spec.precision)
        return self._counted

    def times(self) -> np.ndarray:
        """Return (layers, 2) int64: start and end cycle of every layer, -1 while unknown (a view)."""
        s, count = self._engine.state, len(self._engine.tables.layers)
        return s[int(s[sk.CHIP.times]) :][: 2 * count].reshape(count, 2)

    def traffic(self) -> np.ndarray:
        """Return (layers, 3) int64: read and write requests of every layer, end of its last write (a
        view)."""
        s, count, width = self._engine.state, len(self._engine.tables.layers), sk.TRAFFIC.num_words
        return s[int(s[sk.CHIP.traffic]) :][: width * count].reshape(count, width)

    def tables(self) -> tuple[DetailTable, ...]:
        """Return all tables about what has finished up to now."""
        made = (self.latency(), self.roofline(), self.energy())
        return tuple(table for table in made if table.rows)

    # --- requests ----------------------------------------------------------------------------------

    def launch_span(self, launch: int) -> tuple[int, int]:
        """Return the (start, end) cycle of a launch, -1 while unknown."""
        row = self._engine.tables.launches[launch]
        first, count = int(row[tk.LAUNCH.first_layer]), int(row[tk.LAUNCH.num_layers])
        times = self.times()[first : first + count]
        started = times[times[:, 0] >= 0, 0]
        start = int(started.min()) if len(started) else -1
        return start, (int(times[:, 1].max()) if (times[:, 1] >= 0).all() else -1)

    def latency(self) -> DetailTable:
        """Return one row per request: arrival, start, first result, end."""
        speaks = any(request.prompt for request in self._requests)
        columns = ["Request", "Arrival", "Start", *(["First token"] if speaks else []), "End", "Latency"]
        columns += ["Latency us", *(["Tokens", "Cycles a token"] if speaks else [])]
        rows = [self._latency_row(request, speaks) for request in self._requests]
        return DetailTable("Requests", tuple(columns), tuple(rows))

    def _latency_row(self, request: RequestPlan, speaks: bool) -> tuple[str, ...]:
        start = self.launch_span(request.launches[0])[0]
        first = self.launch_span(request.launches[0])[1]
        end = self.launch_span(request.launches[-1])[1]
        took = end - request.arrival if end >= 0 else -1
        micro = f"{took * self._engine.spec.core_period_ps / 1e6:.3f}" if took >= 0 else NO_TIME
        row = [request.name, format_count(request.arrival), _cycle(start)]
        row += [_cycle(first)] if speaks else []
        row += [_cycle(end), _cycle(took), micro]
        if speaks:
            later = len(request.launches) - 1
            each = f"{(end - first) / later:.0f}" if end >= 0 and later > 0 else NO_TIME
            row += [f"{request.prompt}+{request.output}", each]
        return tuple(row)

    # --- roofline ----------------------------------------------------------------------------------

    def roofs(self) -> list[OperatorRoof]:
        """Return how near each operator that has ended came to its roof."""
        times, traffic = self.times(), self.traffic()
        layers, counts = self._engine.tables.layers, self._counts
        size = self._engine.spec.req_size
        ended = (times[:, 1] >= 0) & (layers[:, tk.LAYER.host_cycles] == 0)
        found: list[OperatorRoof] = []
        for node, members in _by_node(layers[:, tk.LAYER.node], ended).items():
            # Nobody waits for the last writes: what crosses to DRAM after the end belongs to it.
            until = np.maximum(times[members, 1], traffic[members, sk.TRAFFIC.drained])
            cycles = _covered(times[members, 0], until)
            products = 2 * float(counts.macs[members].sum())
            vector = float(counts.vector_bytes[members].sum()) / VECTOR_ITEM
            requests = int(traffic[members, : sk.TRAFFIC.drained].sum())
            if cycles > 0 and (products or vector or requests):
                name, kind = self._node_name(node, int(members[0]))
                found.append(OperatorRoof(name, kind, cycles, products, vector, requests * size))
        return found

    def roofline(self) -> DetailTable:
        """Return one row per operator that has ended: work, traffic, and how near it came to its roof."""
        roof = roof_of(self._engine.spec)
        rows = [_roof_row(each, roof) for each in self.roofs()]
        columns = ("Operator", "Type", "Cycles", "Operations", "DRAM bytes", "Op/byte", "Op/cycle")
        columns += ("Roof op/cycle", "Of roof", "Bound")
        ridge = f"{roof.operations:.0f} op/cycle, {roof.num_bytes:.1f} B/cycle"
        return DetailTable(f"Roofline ({ridge})", columns, tuple(rows))

    def _node_name(self, node: int, layer: int) -> tuple[str, str]:
        if 0 <= node < len(self._graph.nodes):
            found = self._graph.nodes[node]
            return found.name or found.op_type, found.op_type
        return self._engine.tables.layer_names[layer], ""

    def peaks(self) -> list[Peak]:
        """Return the use of array, vector lanes and DRAM by operators and the whole run, and a check that no
        byte is lost."""
        roof, s = roof_of(self._engine.spec), self._engine.state
        found: list[Peak] = []
        for each in self.roofs():
            for what, cycles in each.least_cycles(roof).items():
                found.append(Peak(f"{each.name}: {what}", cycles, each.cycles, "cycles"))
        if int(s[sk.CHIP.status]) != sk.STATUS_FINISHED:
            return found  # requests are on their way that have not crossed to DRAM
        total = (int(s[sk.CHIP.reads]) + int(s[sk.CHIP.writes])) * self._engine.spec.req_size
        found.append(Peak("DRAM", total, roof.num_bytes * int(s[sk.CHIP.cycle]), "bytes"))
        layers = int(self.traffic()[:, : sk.TRAFFIC.drained].sum()) * self._engine.spec.req_size
        found.append(Peak("DRAM, by operators", layers, total, "bytes", is_exact=True))
        return found

    # --- energy ------------------------------------------------------------------------------------

    def energy(self) -> DetailTable:
        """Return one row per part of the chip: events of the layers that have ended, energy per event,
        sum."""
        spec, s, counts = self._engine.spec, self._engine.state, self._counts
        done = self.times()[:, 1] >= 0
        if not done.any():
            return DetailTable("Energy (estimated)", (), ())
        core = spec.cores[0]
        requests = (int(s[sk.CHIP.reads]) + int(s[sk.CHIP.writes])) * spec.req_size
        parts = (
            ("Array", "MACs", float(counts.macs[done].sum()), energy.mac(spec.precision)),
            ("Vector unit", "bytes", float(counts.vector_bytes[done].sum()), energy.VECTOR_BYTE),
            ("Scratchpad", "bytes", float(counts.spad_bytes[done].sum()), energy.sram_byte(core.spad_bytes)),
            ("Accumulator", "bytes", float(counts.acc_bytes[done].sum()), energy.sram_byte(core.acc_bytes)),
            ("NoC", "bytes", float(requests), energy.NOC_BYTE),
            ("DRAM", "bytes", float(requests), energy.dram_byte(spec.config.dram_channels)),
        )
        total = sum(count * each.picojoules for _, _, count, each in parts)
        rows = [
            (
                name, f"{format_count(round(count))} {unit}", f"{each.picojoules:.2f} pJ",
                f"{count * each.picojoules / 1e6:.3f} uJ",
                format_share(count * each.picojoules / total) if total else NO_TIME, each.source,
            )
            for name, unit, count, each in parts
        ]  # fmt: skip
        rows.append(
            ("Total", "", "", f"{total / 1e6:.3f} uJ", format_share(1) if total else NO_TIME, "estimated")
        )
        columns = ("Part", "Events", "Each", "Energy", "Share", "Source")
        return DetailTable("Energy (estimated)", columns, tuple(rows))


def _cycle(value: int) -> str:
    return format_count(value) if value >= 0 else NO_TIME


def _roof_row(found: OperatorRoof, roof: Roof) -> tuple[str, ...]:
    needed = found.least_cycles(roof)
    bound = max(needed, key=lambda name: needed[name])
    intensity = f"{found.operations / found.num_bytes:.2f}" if found.num_bytes else NO_TIME
    return (
        found.name, found.op_type, format_count(found.cycles), format_count(round(found.operations)),
        format_bytes(found.num_bytes), intensity, f"{found.operations / found.cycles:.1f}",
        f"{found.operations / needed[bound]:.1f}", format_share(found.share(roof)), bound,
    )  # fmt: skip


def _covered(start: np.ndarray, end: np.ndarray) -> int:
    """Count the cycles that at least one of these ranges covers."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    before = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
    return int(np.maximum(end - np.maximum(start, before), 0).sum())


def _by_node(nodes: np.ndarray, chosen: np.ndarray) -> dict[int, np.ndarray]:
    """Group the chosen layers by graph node, in order of their first layers; layers without a node are
    separate."""
    keys = np.where(nodes >= 0, nodes, -1 - np.arange(len(nodes)))
    found: dict[int, list[int]] = {}
    for layer in np.flatnonzero(chosen).tolist():
        found.setdefault(int(keys[layer]), []).append(layer)
    return {node: np.array(layers) for node, layers in found.items()}
