"""Compute how long Host calls take: operators on the CPU, and conversions of the NPU's layouts."""

from collections.abc import Iterable

from npuviz.onnx.host_work import HostWork, Processor, gives_same_memory, host_work
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer, HostCall, Tables
from npuviz.targets.rk3588.task.cube import held_bytes


def host_cycles(spec: RknnSpec, tables: Tables, graph: Graph) -> list[int]:
    """Return the NPU cycles of each Host call.

    The way from the driver and back is paid once if several calls follow each other with no job of the NPU in
    between: the runtime then only calls its next operator. A tensor in the NPU's layout is converted by the
    first call that reads or writes it. Assumed: the runtime keeps what it converted, or wrote, for its later
    operators. A node that only gives a tensor another shape is not called beside other operators: its readers
    are given the same memory.
    """
    found: list[int] = []
    converted: set[int] = set()
    is_view = [0 <= call.node < len(graph.nodes) and is_free(graph, call.node) for call in tables.hosts]
    working = {call.job for call, view in zip(tables.hosts, is_view, strict=True) if not view}
    before = -1
    for call, view in zip(tables.hosts, is_view, strict=True):
        is_called = not view or (call.job not in working and call.job != before)
        reaching = spec.host_operator_ns if call.job == before else spec.host_call_ns
        reaching *= is_called
        places = {*call.reads, *call.writes}
        new = [tables.buffers[number] for number in sorted(places - converted)]
        converted |= places
        found.append(max(1, spec.to_cycles(reaching + _nanoseconds(spec, graph, call, new))))
        before = call.job if is_called else before
    return found


def change_cycles(spec: RknnSpec) -> int:
    """Return the cycles of going from the NPU to the Host and back.

    These are a call, less what each operator there takes anyway, and a new start of the NPU. How often the
    NPU starts otherwise (`submit`, `cores`) does not move layers to the Host.
    """
    return spec.to_cycles(max(0.0, spec.host_call_ns - spec.host_operator_ns) + spec.job_driver_ns)


def is_free(graph: Graph, node: int) -> bool:
    """Return whether the Host runs a node by giving its readers the same memory under another shape."""
    return gives_same_memory(graph, graph.nodes[node])


def work_of(graph: Graph, call: HostCall) -> HostWork | None:
    """Return what a call asks of the processor, None for a conversion."""
    return host_work(graph, graph.nodes[call.node]) if 0 <= call.node < len(graph.nodes) else None


def conversion_ns(spec: RknnSpec, places: Iterable[Buffer]) -> float:
    """Return the time in which the Host converts tensors from the NPU's layout into its own, or back."""
    held = sum(held_bytes(place) for place in places if place.layout == "feature")
    return held / spec.host_convert_bytes_per_ns


def _nanoseconds(spec: RknnSpec, graph: Graph, call: HostCall, new: list[Buffer]) -> float:
    """Return the time of one call, once it is reached. new  places that no earlier call has read or
    written"""
    work = work_of(graph, call)
    converting = conversion_ns(spec, new)
    if work is not None:
        return processor_of(spec).nanoseconds(work) + converting
    return converting or call.num_bytes / spec.host_bytes_per_ns


def processor_of(spec: RknnSpec) -> Processor:
    """Return the processor that runs Host operators, without the time to reach it."""
    return Processor(
        spec.host_processor,
        0.0,
        spec.host_operator_ns,
        spec.host_operations_per_ns,
        spec.host_bytes_per_ns,
        spec.host_cache_bytes,
    )
