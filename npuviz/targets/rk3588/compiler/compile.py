"""ONNX graph -> tasks: layer by layer, what the NPU cannot do on the Host."""

from collections.abc import Callable, Collection, Mapping, Sequence

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.base.progress import Progress
from npuviz.onnx.errors import CannotLower, host_reason
from npuviz.onnx.host_work import host_work
from npuviz.onnx.kept_nodes import kept_names, kept_nodes
from npuviz.program.graph import Graph
from npuviz.program.program import HostReason, Note
from npuviz.targets.rk3588.compiler.builder import Builder, Mark
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.compiler.host_calls import give_outputs, run_on_host, take_inputs
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.lines import tensors_of_lines
from npuviz.targets.rk3588.compiler.operator_kinds import CONVERSIONS, DENSE
from npuviz.targets.rk3588.compiler.operators import (
    affine,
    copies,
    dense,
    functions,
    logic,
    pooling,
    products,
    quantising,
    rows,
    single,
    transposed,
)
from npuviz.targets.rk3588.compiler.operators.activation import lower_activation
from npuviz.targets.rk3588.compiler.operators.normalising import lower_normalisation
from npuviz.targets.rk3588.compiler.schedule import islands, turns
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import processor_of

Lower = Callable[[Builder, Layer, Planner], None]
FAMILIES: Mapping[str, Lower] = {
    **products.LOWERINGS,
    **affine.LOWERINGS,
    **copies.LOWERINGS,
    **functions.LOWERINGS,
    **logic.LOWERINGS,
    **pooling.LOWERINGS,
    **quantising.LOWERINGS,
    **rows.LOWERINGS,
    **single.LOWERINGS,
    **transposed.LOWERINGS,
}


_WEIGHED = frozenset(
    (
        dense.lower_dense,
        *functions.LOWERINGS.values(),
        *logic.LOWERINGS.values(),
        *logic.OTHER_WAYS.values(),
        *rows.LOWERINGS.values(),
    )
)
"""What makes many tasks of one operator, and so may take longer than the Host."""
_WEIGHED_PRODUCTS = ("MatMul", "Gemm")


def compile_graph(graph: Graph, spec: RknnSpec, progress: Progress) -> Compiled:
    """Compile a graph. Operators that the NPU cannot run go to the Host, with the reason in a note.

    Raises DoesNotFit when the program needs more than 4 GiB.
    """
    planner = Planner(graph, kept_nodes(graph, kept_names(graph, spec.keep_fp32)), spec)
    layers = planner.layers()
    reasons = {layer.head.id: planner.reason_for_host(layer.head) for layer in layers if layer.is_host}
    while True:
        reasons |= islands(graph, layers, reasons, spec)
        nodes = {node for layer in layers if layer.head.id in reasons for node in layer.nodes}
        lines = tensors_of_lines(graph, nodes)
        builder = Builder(graph, spec, planner.quantised.stored, only_on_host(graph, nodes), lines)
        known = len(reasons)
        compiled = _compile_layers(builder, layers, planner, reasons, progress)
        # Each round knows more layers that no lowering can hold, and leaves more tensors to the Host alone.
        if len(reasons) == known:
            return compiled


def only_on_host(graph: Graph, nodes: Collection[int]) -> frozenset[int]:
    """Tensors that only the Host writes and reads, given the nodes that it runs."""
    readers = graph.consumers()
    return frozenset(
        tensor.id
        for tensor in graph.tensors
        if (tensor.producer in nodes if tensor.producer >= 0 else tensor.id in graph.inputs)
        and all(node in nodes for node in readers[tensor.id])
    )


def _compile_layers(
    builder: Builder,
    layers: Sequence[Layer],
    planner: Planner,
    reasons: dict[int, HostReason],
    progress: Progress,
) -> Compiled:
    """One program. reasons  head of a layer -> why the Host runs it; what turns out is added"""
    graph, spec = builder.graph, builder.spec
    if spec.dtype == "int8" and any(
        layer
        for layer in layers
        if not (layer.is_host or layer.is_quantised or layer.head.op_type in CONVERSIONS)
    ):
        text = "operators without quantised inputs and outputs run in fp16"
        builder.notes.append(Note("info", "half-precision", text))
    take_inputs(builder, graph.inputs)
    groups = turns(graph, layers, reasons)
    number = 0
    for turn, group in enumerate(groups):
        if group[0].head.id in reasons:
            calls = [call for layer in group for call in _calls(builder, layer, planner, reasons)]
            run_on_host(builder, calls, graph.outputs if turn == len(groups) - 1 else ())
            number += len(group)
            continue
        for layer in group:
            head = layer.head
            progress.report(number / max(1, len(layers)), f"compiling {head.op_type} {head.name}")
            _lower(builder, layer, planner, reasons)
            number += 1
    outputs = {tensor: builder.place_output(tensor) for tensor in graph.outputs}
    give_outputs(builder, outputs)
    return builder.finish(outputs)


def _lower(builder: Builder, layer: Layer, planner: Planner, reasons: dict[int, HostReason]) -> None:
    """One layer on the NPU, or its nodes one by one on the Host."""
    refused: Exception | None = None
    for lower in _lowerings_of(layer):
        mark = builder.mark()
        try:
            builder.begin_layer()
            lower(builder, layer, planner)
            if lower in _WEIGHED or (layer.head.op_type in _WEIGHED_PRODUCTS and len(layer.inputs) > 1):
                _weigh(builder, mark, layer, reasons)
        except (CannotLower, ValueError, DoesNotFit, FormatError) as error:
            builder.roll_back(mark)
            refused = refused or error
            continue
        builder.end_layer()
        for node in layer.nodes:
            builder.placement[node] = "Core"
        return
    assert refused is not None
    reasons[layer.head.id] = host_reason(refused)
    run_on_host(builder, _calls(builder, layer, planner, reasons))


def _weigh(builder: Builder, mark: Mark, layer: Layer, reasons: Mapping[int, HostReason]) -> None:
    """Raises CannotLower where a layer takes longer than the Host, which is reached already where it works
    before or behind."""
    graph, spec = builder.graph, builder.spec
    nodes = [graph.nodes[node] for node in layer.nodes]
    around = {graph.tensors[tensor].producer for node in nodes for tensor in node.inputs if tensor >= 0}
    readers = graph.consumers()
    around |= {each for node in nodes for tensor in node.outputs if tensor >= 0 for each in readers[tensor]}
    is_reached = any(node in reasons for node in around - set(layer.nodes))
    ends = {tensor for node in nodes for tensor in (*node.inputs, *node.outputs) if tensor >= 0}
    places = [builder.home(tensor) for tensor in ends if tensor not in graph.constants]
    converted = sum(place.size_bytes for place in places if place.layout == "feature")
    taken = converted / spec.host_convert_bytes_per_ns + (0 if is_reached else spec.host_call_ns)
    processor = processor_of(spec)
    taken += sum(processor.nanoseconds(host_work(graph, node)) + spec.host_operator_ns for node in nodes)
    cycles = builder.cycles_since(mark)
    if cycles > spec.to_cycles(taken):
        raise CannotLower("the Host is faster", f"{cycles:,} cycles here, {spec.to_cycles(taken):,} there")


def _lowerings_of(layer: Layer) -> list[Lower]:
    """What may make tasks of a layer, the best first."""
    if layer.normalisation is not None:
        return [lower_normalisation]
    if layer.activation is not None and layer.activation.node is layer.head:
        return [lower_activation]
    kind = layer.head.op_type
    ways = [ways[kind] for ways in (FAMILIES, logic.OTHER_WAYS) if kind in ways]
    return [*ways, *([dense.lower_dense] if kind in DENSE else [])]


def _calls(
    builder: Builder, layer: Layer, planner: Planner, reasons: Mapping[int, HostReason]
) -> list[tuple[int, HostReason | None]]:
    """Nodes of a layer for the Host and why, with the DequantizeLinear nodes that make their inputs float."""
    graph = builder.graph
    found: list[tuple[int, HostReason | None]] = []
    for number, index in enumerate(sorted(layer.nodes)):
        for tensor in graph.nodes[index].inputs:
            source = planner.quantised.sources.get(tensor) or planner.quantised.constants.get(tensor)
            if source is not None and builder.placement.get(source.node) is None:
                builder.placement[source.node] = "Host"
                found.append((source.node, None))
        found.append((index, reasons[layer.head.id] if number == 0 else None))
    return found
