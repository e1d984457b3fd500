"""Compile an ONNX graph to tasks, layer by layer; the Host runs what the NPU cannot."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.base.progress import Progress
from npuviz.onnx.errors import CannotLower, host_reason
from npuviz.onnx.kept_nodes import kept_names, kept_nodes
from npuviz.onnx.passes.expansion import can_expand
from npuviz.onnx.passes.missing import expand_missing
from npuviz.onnx.passes.unrolling import LOOPS
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason, Note
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.compiler.host_calls import finish_copies, give_outputs, run_on_host, take_inputs
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.lines import tensors_of_lines
from npuviz.targets.rk3588.compiler.moves import copies, expanding, regrouping
from npuviz.targets.rk3588.compiler.moves.move_chains import is_chain
from npuviz.targets.rk3588.compiler.operator_kinds import CONVERSIONS, DENSE, LIMITS, PRODUCTS, VIEWS
from npuviz.targets.rk3588.compiler.operators import (
    affine,
    dense,
    functions,
    inverses,
    logic,
    padding,
    pooling,
    products,
    quantising,
    recurrent,
    rows,
    single,
    transposed,
)
from npuviz.targets.rk3588.compiler.operators.activation import lower_activation
from npuviz.targets.rk3588.compiler.operators.normalising import lower_normalisation
from npuviz.targets.rk3588.compiler.partition.costs import Measured, host_cycles_of, weigh
from npuviz.targets.rk3588.compiler.partition.share import Found
from npuviz.targets.rk3588.compiler.schedule import turns
from npuviz.targets.rk3588.spec import RknnSpec

Lower = Callable[[Builder, Layer, Planner], None]
FAMILIES: Mapping[str, Lower] = {
    **products.LOWERINGS,
    **affine.LOWERINGS,
    **copies.LOWERINGS,
    **expanding.LOWERINGS,
    **functions.LOWERINGS,
    **inverses.LOWERINGS,
    **logic.LOWERINGS,
    **padding.LOWERINGS,
    **pooling.LOWERINGS,
    **quantising.LOWERINGS,
    **recurrent.LOWERINGS,
    **regrouping.LOWERINGS,
    **rows.LOWERINGS,
    **single.LOWERINGS,
    **transposed.LOWERINGS,
}


_COMPOSED = frozenset(
    (
        dense.lower_dense,
        *functions.LOWERINGS.values(),
        *inverses.LOWERINGS.values(),
        *logic.LOWERINGS.values(),
        *logic.OTHER_WAYS.values(),
        *recurrent.LOWERINGS.values(),
        *rows.LOWERINGS.values(),
    )
)
"""Lowerings that make many tasks of an operator that the NPU does not have."""


def compile_graph(graph: Graph, spec: RknnSpec, progress: Progress) -> Compiled:
    """Compile a graph. Operators that the NPU cannot run go to the Host, with the reason in a note, or are
    written as their function bodies, where some of those operators run on the NPU.

    The graph of the result has the expanded nodes. Raises DoesNotFit when the program needs more than 4 GiB.
    """
    kept = kept_names(graph, spec.keep_fp32)
    compiled, lacking = _compile_as_it_is(graph, spec, kept, progress)
    wanted = {graph.nodes[node].name for node in lacking if _has_body(graph, graph.nodes[node])}
    while wanted:
        whole = frozenset(node.name for node in graph.nodes) - wanted
        expanded = expand_missing(graph, lambda node, whole=whole: node.name in whole or _is_known(node))
        if expanded is graph:
            break
        tried, _ = _compile_as_it_is(expanded, spec, kept, progress)
        names = [expanded.nodes[node].name for node, place in tried.placement.items() if place == "Core"]
        useful = {name for name in wanted if any(each.startswith(f"{name}/") for each in names)}
        if useful == wanted:
            return tried
        wanted = useful
    return compiled


_NOT_IN_RUNTIME = ("Swish",)
"""Activations without a kernel in ONNX Runtime: they are expanded in a body, so that it can compute them."""


_FASTER_WHOLE = ("InstanceNormalization",)
"""Operators that stay on the Host whole. Measured: networks with them in parts took 1.05 to 1.27 times as
long (shvit_s1, poolformer_s12, a style transfer)."""


def _has_body(graph: Graph, node: Node) -> bool:
    is_lacking = node.op_type not in (*LOOPS, *_NOT_IN_RUNTIME, *_FASTER_WHOLE) and not _is_known(node)
    return is_lacking and can_expand(graph, node)


def _is_known(node: Node) -> bool:
    """Return whether the NPU has operators of this kind; loops count, so that they stay whole."""
    kind = node.op_type
    if kind in _NOT_IN_RUNTIME:
        return False
    return kind in (*FAMILIES, *logic.OTHER_WAYS, *DENSE, *VIEWS, *LIMITS, *LOOPS) or (
        activation_function(kind, attributes_of(node)) is not None
    )


def _compile_as_it_is(
    graph: Graph, spec: RknnSpec, kept: frozenset[str], progress: Progress
) -> tuple[Compiled, Collection[int]]:
    """Compile a graph without expanding nodes; return the program and heads of layers that the NPU cannot
    run."""
    planner = Planner(graph, kept_nodes(graph, kept), spec)
    layers = planner.layers()
    reasons = {layer.head.id: planner.reason_for_host(layer.head) for layer in layers if layer.is_host}
    moved: dict[int, HostReason] | None = None
    weighed: Found | None = None
    while True:
        on_host = {**reasons, **(moved or {})}
        builder = _builder(planner, spec, layers, on_host)
        measured: dict[int, Measured] = {}
        compiled = _compile_layers(builder, layers, planner, on_host, progress, measured)
        refused = {head: reason for head, reason in on_host.items() if head not in (moved or {})}
        is_known = len(refused) == len(reasons)
        reasons = refused
        # The first round finds what every layer takes; each may find more layers that no lowering can hold.
        if moved is None:
            # Layers refused just now are the Host's, too: tensors beside them may lie as it has them.
            fresh = _builder(planner, spec, layers, reasons)
            moved, weighed = weigh(fresh, layers, planner, reasons, measured)
            is_known = is_known and not moved
        if is_known:
            return replace(compiled, weighed=weighed), reasons


def _builder(planner: Planner, spec: RknnSpec, layers: Sequence[Layer], on_host: Collection[int]) -> Builder:
    """Return a builder for a program. on_host  heads of the layers that the Host runs"""
    graph = planner.graph
    nodes = {node for layer in layers if layer.head.id in on_host for node in layer.nodes}
    through = planner.quantised.read_through()
    made = nodes | (through - {node for layer in layers for node in layer.nodes})
    read = {each.tensor for layer in layers if layer.head.id not in on_host for each in layer.inputs}
    lines = tensors_of_lines(graph, nodes)
    kept = only_on_host(graph, made, made & through) - read
    return Builder(graph, spec, planner.quantised.stored, kept, lines)


def only_on_host(graph: Graph, nodes: Collection[int], through: Collection[int] = ()) -> frozenset[int]:
    """Return the tensors that only nodes of the Host write and read.

    nodes    those that it runs
    through  DequantizeLinear nodes among them, whose readers on the NPU take the integers instead
    """
    readers = graph.consumers()
    return frozenset(
        tensor.id
        for tensor in graph.tensors
        if (tensor.producer in nodes if tensor.producer >= 0 else tensor.id in graph.inputs)
        and (tensor.producer in through or all(node in nodes for node in readers[tensor.id]))
    )


def _compile_layers(
    builder: Builder,
    layers: Sequence[Layer],
    planner: Planner,
    reasons: dict[int, HostReason],
    progress: Progress,
    measured: dict[int, Measured],
) -> Compiled:
    """Compile layers to one program.

    reasons   head of a layer -> why the Host runs it; reasons found while lowering are added
    measured  what layers of the NPU take; added
    """
    graph, spec = builder.graph, builder.spec
    if spec.dtype == "int8" and any(
        layer
        for layer in layers
        if not (layer.is_host or layer.is_quantised or layer.head.op_type in CONVERSIONS)
    ):
        text = "operators without quantised inputs and outputs run in fp16"
        builder.notes.append(Note("info", "half-precision", text))
    copies = take_inputs(builder, graph.inputs)
    groups = turns(graph, layers, reasons)
    if not groups or groups[0][0].head.id not in reasons:
        finish_copies(builder, copies)
        copies = []
    number = 0
    for turn, group in enumerate(groups):
        if group[0].head.id in reasons:
            calls = [call for layer in group for call in _calls(builder, layer, planner, reasons)]
            run_on_host(builder, calls, graph.outputs if turn == len(groups) - 1 else ())
            finish_copies(builder, copies)
            copies = []
            number += len(group)
            continue
        for layer in group:
            head = layer.head
            progress.report(number / max(1, len(layers)), f"compiling {head.op_type} {head.name}")
            _lower(builder, layer, planner, reasons, measured)
            number += 1
    outputs = {tensor: builder.place_output(tensor) for tensor in graph.outputs}
    give_outputs(builder, outputs)
    return builder.finish(outputs)


def _lower(
    builder: Builder,
    layer: Layer,
    planner: Planner,
    reasons: dict[int, HostReason],
    measured: dict[int, Measured],
) -> None:
    """Lower one layer to the NPU, or its nodes one by one to the Host."""
    try:
        cycles, lower = _lower_best(builder, layer, planner)
    except (CannotLower, ValueError, DoesNotFit, FormatError) as refused:
        reasons[layer.head.id] = host_reason(refused)
        run_on_host(builder, _calls(builder, layer, planner, reasons))
        return
    is_run_time = layer.head.op_type in PRODUCTS and len(layer.inputs) > 1
    is_composed = lower in _COMPOSED or is_run_time
    is_product = layer.head.op_type in PRODUCTS and not is_composed
    measured[layer.head.id] = Measured(cycles, is_product, is_composed)
    builder.end_layer()
    for node in layer.nodes:
        builder.placement[node] = "Core"


def _lower_best(builder: Builder, layer: Layer, planner: Planner) -> tuple[int, Lower]:
    """Add the tasks of a layer in the fastest way; return their cycles, and the lowering that made them.

    Other ways are tried only if the Host alone would be faster. Raises the first refusal if no way works.
    """
    host = host_cycles_of(builder.graph, planner, layer, builder.spec)
    mark = builder.mark()
    best: tuple[int, Lower] | None = None
    placed: Lower | None = None
    refused: Exception | None = None
    for lower in _lowerings_of(builder.graph, layer):
        is_dense = lower is dense.lower_dense
        if best and (best[0] <= host or (is_dense and best[0] <= dense.least_cycles(builder, layer))):
            continue
        if placed is not None:
            builder.roll_back(mark)
            placed = None
        try:
            cycles = _attempt(builder, layer, planner, lower)
        except (CannotLower, ValueError, DoesNotFit, FormatError) as error:
            builder.roll_back(mark)
            refused = refused or error
            continue
        placed = lower
        if best is None or cycles < best[0]:
            best = cycles, lower
    if best is None:
        assert refused is not None
        raise refused
    if placed is not best[1]:
        if placed is not None:
            builder.roll_back(mark)
        _attempt(builder, layer, planner, best[1])
    return best


def _attempt(builder: Builder, layer: Layer, planner: Planner, lower: Lower) -> int:
    """Add the tasks of a layer by one lowering; return their cycles."""
    mark = builder.mark()
    builder.begin_layer()
    lower(builder, layer, planner)
    return builder.cycles_since(mark)


def _lowerings_of(graph: Graph, layer: Layer) -> list[Lower]:
    """Return the lowerings that may make tasks of a layer, the best first."""
    if layer.normalisation is not None:
        return [lower_normalisation]
    if layer.activation is not None and layer.activation.node is layer.head:
        return [lower_activation]
    if is_chain(graph, layer.nodes):
        return [copies.lower_chain, regrouping.lower_regrouped, copies.lower_one_by_one]
    kind = layer.head.op_type
    ways = [ways[kind] for ways in (FAMILIES, logic.OTHER_WAYS) if kind in ways]
    if pooling.reduces_planes(graph, layer.head):
        ways.insert(0, pooling.lower_plane)
    return [*ways, *([dense.lower_dense] if kind in DENSE else [])]


def _calls(
    builder: Builder, layer: Layer, planner: Planner, reasons: Mapping[int, HostReason]
) -> list[tuple[int, HostReason | None]]:
    """Return the nodes of a layer for the Host and why, with the DequantizeLinear nodes that make their
    inputs float."""
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
