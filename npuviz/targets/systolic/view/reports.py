"""The run so far in tables: latency by request, roofline by operator, energy by part."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.units import format_bytes, format_count
from npuviz.program.graph import Graph
from npuviz.program.instruction import DetailTable
from npuviz.targets.systolic.hardware import energy
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan
from npuviz.targets.systolic.view.layer_counts import LayerCounts, layer_counts

NO_TIME = "-"


@dataclass(frozen=True, slots=True)
class Roof:
    """What the chip can do at most: operations and DRAM bytes per core cycle (a MAC is two operations)."""

    operations: float
    num_bytes: float

    def attainable(self, intensity: float) -> float:
        """Operations per cycle that so many operations per byte allow."""
        return min(self.operations, intensity * self.num_bytes)

    def bound(self, intensity: float) -> str:
        """Which of the two roofs is lower."""
        return "compute" if intensity * self.num_bytes >= self.operations else "memory"


def roof_of(spec: SystolicSpec) -> Roof:
    """The roofs of a machine: all PEs busy, and every channel at its best."""
    config = spec.config
    pace = min(config.dram_freq, config.icnt_freq) / config.core_freq
    macs = sum(core.core_height * core.core_width for core in spec.cores)
    return Roof(2.0 * macs, config.dram_channels * config.dram_req_size * pace)


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
        """(layers, 2) int64: start and end cycle of every layer, -1 while unknown (a view)."""
        s, count = self._engine.state, len(self._engine.tables.layers)
        return s[int(s[sk.CHIP.times]) :][: 2 * count].reshape(count, 2)

    def tables(self) -> tuple[DetailTable, ...]:
        """All tables about what has finished up to now."""
        made = (self.latency(), self.roofline(), self.energy())
        return tuple(table for table in made if table.rows)

    # --- requests ----------------------------------------------------------------------------------

    def launch_span(self, launch: int) -> tuple[int, int]:
        """(start, end) cycle of a launch, -1 while unknown."""
        row = self._engine.tables.launches[launch]
        first, count = int(row[tk.LAUNCH.first_layer]), int(row[tk.LAUNCH.num_layers])
        times = self.times()[first : first + count]
        started = times[times[:, 0] >= 0, 0]
        start = int(started.min()) if len(started) else -1
        return start, (int(times[:, 1].max()) if (times[:, 1] >= 0).all() else -1)

    def latency(self) -> DetailTable:
        """One row a request: when it came, began, gave its first result, ended."""
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

    def roofline(self) -> DetailTable:
        """One row an operator that has ended: work, traffic, and how near it came to its roof."""
        times, layers, counts = self.times(), self._engine.tables.layers, self._counts
        roof = roof_of(self._engine.spec)
        ended = (times[:, 1] >= 0) & (layers[:, tk.LAYER.host_cycles] == 0)
        rows: list[tuple[str, ...]] = []
        for node, members in _by_node(layers[:, tk.LAYER.node], ended).items():
            cycles = int((times[members, 1] - times[members, 0]).sum())
            operations = 2 * float(counts.macs[members].sum()) + float(counts.vector_bytes[members].sum()) / 4
            moved = float((counts.loads + counts.stores)[members].sum())
            if cycles <= 0 or not (operations or moved):
                continue
            intensity = operations / moved if moved else float("inf")
            achieved, limit = operations / cycles, roof.attainable(intensity)
            name, kind = self._node_name(node, int(members[0]))
            rows.append(
                (
                    name, kind, format_count(cycles), format_count(round(operations)),
                    format_bytes(round(moved)), f"{intensity:.2f}", f"{achieved:.1f}", f"{limit:.1f}",
                    f"{achieved / limit:.1%}" if limit else NO_TIME, roof.bound(intensity),
                )
            )  # fmt: skip
        columns = ("Operator", "Type", "Cycles", "Operations", "DRAM bytes", "Op/byte", "Op/cycle")
        columns += ("Roof op/cycle", "Of roof", "Bound")
        ridge = f"{roof.operations:.0f} op/cycle, {roof.num_bytes:.1f} B/cycle"
        return DetailTable(f"Roofline ({ridge})", columns, tuple(rows))

    def _node_name(self, node: int, layer: int) -> tuple[str, str]:
        if 0 <= node < len(self._graph.nodes):
            found = self._graph.nodes[node]
            return found.name or found.op_type, found.op_type
        return self._engine.tables.layer_names[layer], ""

    # --- energy ------------------------------------------------------------------------------------

    def energy(self) -> DetailTable:
        """One row a part of the chip: events of the layers that have ended, energy an event, sum."""
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
                f"{count * each.picojoules / total:.1%}" if total else NO_TIME, each.source,
            )
            for name, unit, count, each in parts
        ]  # fmt: skip
        rows.append(("Total", "", "", f"{total / 1e6:.3f} uJ", "100.0%" if total else NO_TIME, "estimated"))
        columns = ("Part", "Events", "Each", "Energy", "Share", "Source")
        return DetailTable("Energy (estimated)", columns, tuple(rows))


def _cycle(value: int) -> str:
    return format_count(value) if value >= 0 else NO_TIME


def _by_node(nodes: np.ndarray, chosen: np.ndarray) -> dict[int, np.ndarray]:
    """Layers of each graph node among the chosen ones, in order of their first; layers of none apart."""
    keys = np.where(nodes >= 0, nodes, -1 - np.arange(len(nodes)))
    found: dict[int, list[int]] = {}
    for layer in np.flatnonzero(chosen).tolist():
        found.setdefault(int(keys[layer]), []).append(layer)
    return {node: np.array(layers) for node, layers in found.items()}
