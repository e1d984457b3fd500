"""How long Host calls take: operators on the CPU, and conversions of the NPU's layouts."""

from npuviz.onnx.host_work import HostWork, Processor, host_work
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import HostCall, Tables


def host_cycles(spec: RknnSpec, tables: Tables, graph: Graph) -> list[int]:
    """NPU cycles of each Host call."""
    return [max(1, spec.to_cycles(_nanoseconds(spec, tables, graph, call))) for call in tables.hosts]


def work_of(graph: Graph, call: HostCall) -> HostWork | None:
    """What a call asks of the processor, None of a conversion."""
    return host_work(graph, graph.nodes[call.node]) if 0 <= call.node < len(graph.nodes) else None


def _nanoseconds(spec: RknnSpec, tables: Tables, graph: Graph, call: HostCall) -> float:
    """Of one call; what an operator reads or writes in the NPU's layout is converted first or last."""
    work = work_of(graph, call)
    places = [tables.buffers[number] for number in (*call.reads, *call.writes)]
    converted = sum(place.size_bytes for place in places if place.layout == "feature")
    if work is None:
        is_cast = places and not converted
        rate = spec.host_bytes_per_ns if is_cast else spec.host_convert_bytes_per_ns
        return spec.host_call_ns + call.num_bytes / rate
    processor = Processor(
        spec.host_processor,
        spec.host_call_ns,
        spec.host_operator_ns,
        spec.host_operations_per_ns,
        spec.host_bytes_per_ns,
    )
    return processor.nanoseconds(work) + converted / spec.host_convert_bytes_per_ns
