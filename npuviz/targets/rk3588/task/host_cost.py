"""How long Host calls take: operators on the CPU, and conversions of the NPU's layouts."""

from npuviz.onnx.host_work import HostWork, Processor, host_work
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import HostCall, Tables


def host_cycles(spec: RknnSpec, tables: Tables, graph: Graph) -> list[int]:
    """NPU cycles of each Host call.

    The way from the driver and back is paid once where several calls follow each other with no job of the
    NPU in between: the runtime then only calls its next operator.
    """
    found: list[int] = []
    before = -1
    for call in tables.hosts:
        reaching = spec.host_operator_ns if call.job == before else spec.host_call_ns
        found.append(max(1, spec.to_cycles(reaching + _nanoseconds(spec, tables, graph, call))))
        before = call.job
    return found


def work_of(graph: Graph, call: HostCall) -> HostWork | None:
    """What a call asks of the processor, None of a conversion."""
    return host_work(graph, graph.nodes[call.node]) if 0 <= call.node < len(graph.nodes) else None


def _nanoseconds(spec: RknnSpec, tables: Tables, graph: Graph, call: HostCall) -> float:
    """Of one call, once it is reached; what an operator reads or writes in the NPU's layout is converted
    first or last."""
    work = work_of(graph, call)
    places = [tables.buffers[number] for number in (*call.reads, *call.writes)]
    converted = sum(place.size_bytes for place in places if place.layout == "feature")
    if work is None:
        is_cast = places and not converted
        rate = spec.host_bytes_per_ns if is_cast else spec.host_convert_bytes_per_ns
        return call.num_bytes / rate
    return processor_of(spec).nanoseconds(work) + converted / spec.host_convert_bytes_per_ns


def processor_of(spec: RknnSpec) -> Processor:
    """What runs Host operators, once it is reached."""
    return Processor(
        spec.host_processor,
        0.0,
        spec.host_operator_ns,
        spec.host_operations_per_ns,
        spec.host_bytes_per_ns,
    )
