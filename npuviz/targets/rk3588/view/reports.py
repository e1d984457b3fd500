"""Report on each operator of a run: time, bottleneck, MACs lost to padding, against measurements.

The closed forms of the vendor's tool (NPU and DDR cycles) are shown beside the simulated time; they come from
the same costs that the machine runs, and follow from it rather than decide it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npuviz.base.units import format_bytes, format_share
from npuviz.program.graph import Graph
from npuviz.program.instruction import DetailTable
from npuviz.sim.machine import Peak
from npuviz.targets.rk3588.kernels.records import CHIP
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.cost import Cost
from npuviz.targets.rk3588.task.work import INT8

ESTIMATED_OUTPUT_RATE = 8
"""Output elements per cycle in the vendor's estimate. Ref: PROF, exact on all int8 convolution rows."""


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One operator, all its tasks together; cycles of the NPU clock.

    cycles    from the start of its first task to the end of its last
    mac_cycles, out_cycles, bus_cycles, overhead_cycles  what each resource would need alone: CORE and
              DPU of the busiest core, the shared DDR bus, the starts of tasks
    estimate  the vendor's "NPU" closed form
    padding   share of MACs spent on padding
    """

    name: str
    op_type: str
    num_tasks: int
    num_cores: int
    cycles: int
    mac_cycles: int
    out_cycles: int
    bus_cycles: int
    overhead_cycles: int
    estimate: int
    padding: float
    num_bytes: int

    @property
    def bottleneck(self) -> str:
        """The resource that needs the most cycles."""
        needs = {
            "MAC": self.mac_cycles,
            "DPU output": self.out_cycles,
            "DDR": self.bus_cycles,
            "task overhead": self.overhead_cycles,
        }
        return max(needs, key=lambda name: needs[name])


def estimated_cycles(task: Task, cost: Cost) -> int:
    """Return the vendor's closed form for a task: the larger of MAC and output cycles. Ref: PROF."""
    conv = task.work.convolution
    if conv is None or cost.factor == 0:
        return 0
    if conv.is_depthwise:
        return cost.mac_cycles
    return max(cost.mac_cycles, cost.atoms * (-(-conv.out_kernels // 32) * 32) // ESTIMATED_OUTPUT_RATE)


def _macs(task: Task) -> int:
    """Return the multiply-accumulates that the model needs of a task, counting real channels."""
    conv = task.work.convolution
    if conv is None:
        return 0
    taps = conv.kernel_height * conv.kernel_width * conv.out_width * conv.out_height
    return taps * (conv.real_channels if conv.is_depthwise else conv.kernels * conv.real_channels)


def _rate(task: Task, spec: RknnSpec) -> int:
    """Return the multiply-accumulates per cycle of one core's array in a task."""
    conv = task.work.convolution
    if conv is None:
        return 1
    if conv.is_depthwise:
        return spec.channels_depthwise
    return spec.channels_per_atomic * (spec.kernels_int8 if conv.precision == INT8 else spec.kernels_fp16)


def layer_reports(engine: Engine, graph: Graph) -> tuple[LayerReport, ...]:
    """Return a report for every operator all of whose tasks have finished, in program order."""
    spec, found = engine.spec, list[LayerReport]()
    by_node: dict[int, list[Task]] = {}
    for task in engine.tables.tasks:
        # Tasks of a dump belong to no operator: each gets a row.
        by_node.setdefault(task.node if task.node >= 0 else -1 - task.index, []).append(task)
    overhead = spec.to_cycles(spec.task_ns) + spec.to_cycles(spec.task_driver_ns)
    for node, tasks in by_node.items():
        records = [engine.record(task.index) for task in tasks]
        if any(int(record.end) == 0 for record in records):
            continue
        costs = [engine.costs[task.index] for task in tasks]
        macs = sum(_macs(task) for task in tasks)
        room = sum(cost.mac_cycles * _rate(t, spec) for t, cost in zip(tasks, costs, strict=True))
        moved = sum(int(record.bytes) for record in records)
        cores = sorted({task.core for task in tasks})

        def busiest(values: Sequence[int], tasks: list[Task] = tasks, cores: list[int] = cores) -> int:
            return max(sum(v for v, t in zip(values, tasks, strict=True) if t.core == core) for core in cores)

        found.append(
            LayerReport(
                name=graph.nodes[node].name if node >= 0 else f"task {tasks[0].index}",
                op_type=graph.nodes[node].op_type if node >= 0 else "",
                num_tasks=len(tasks),
                num_cores=len(cores),
                cycles=max(int(r.end) for r in records) - min(int(r.start) for r in records),
                mac_cycles=busiest([int(r.mac) for r in records]),
                out_cycles=busiest([int(r.out) for r in records]),
                bus_cycles=round(moved / spec.bytes_per_cycle),
                overhead_cycles=busiest([overhead] * len(tasks)),
                estimate=busiest([estimated_cycles(t, cost) for t, cost in zip(tasks, costs, strict=True)]),
                padding=1 - macs / room if room else 0.0,
                num_bytes=moved,
            )
        )
    return tuple(found)


def report_peaks(engine: Engine, graph: Graph) -> list[Peak]:
    """Return the use of the bus, the array and the DPU by operator; the bytes that tasks moved must be those
    of the bus."""
    chip, found = CHIP(engine.state), list[Peak]()
    per_cycle = engine.spec.bytes_per_cycle
    for each in layer_reports(engine, graph):
        found.append(Peak(f"{each.name}: DDR", each.num_bytes, each.cycles * per_cycle, "bytes"))
        found.append(Peak(f"{each.name}: MAC", each.mac_cycles, each.cycles, "cycles"))
        found.append(Peak(f"{each.name}: DPU output", each.out_cycles, each.cycles, "cycles"))
    moved = int(chip.read_bytes) + int(chip.write_bytes)
    found.append(Peak("DDR", moved, int(chip.cycle) * per_cycle, "bytes"))
    records = [engine.record(task.index) for task in engine.tables.tasks]
    if all(int(record.end) for record in records):
        total = sum(int(record.bytes) for record in records)
        found.append(Peak("DDR, by tasks", total, moved, "bytes", is_exact=True))
    return found


def report_tables(
    engine: Engine, graph: Graph, measured: Mapping[str, float] | None = None
) -> tuple[DetailTable, ...]:
    """Return the reports as a table; with measured times (us by operator name), also the errors against
    them."""
    reports = layer_reports(engine, graph)
    if not reports:
        return ()
    per_us = engine.spec.npu_hz / 1e6
    columns = ["operator", "type", "tasks", "cores", "us", "bottleneck", "MAC", "DPU output", "DDR",
               "overhead", "vendor NPU", "padding", "bytes"]  # fmt: skip
    if measured:
        columns += ["measured us", "error"]
    rows: list[tuple[str, ...]] = []
    for r in reports:
        time = r.cycles / per_us
        row = [r.name, r.op_type, str(r.num_tasks), str(r.num_cores), f"{time:.1f}", r.bottleneck,
               str(r.mac_cycles), str(r.out_cycles), str(r.bus_cycles), str(r.overhead_cycles),
               str(r.estimate), format_share(r.padding, 0), format_bytes(r.num_bytes)]  # fmt: skip
        if measured:
            known = measured.get(r.name)
            row += [f"{known:.1f}", f"{time / known - 1:+.0%}"] if known else ["", ""]
        rows.append(tuple(row))
    return (DetailTable("Operators", tuple(columns), tuple(rows)),)
