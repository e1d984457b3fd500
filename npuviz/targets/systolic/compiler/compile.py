"""Compiles any operator graph for the cores: true mode, in which every flaw of ONNXim is repaired."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npuviz.base.names import printable
from npuviz.base.progress import NoProgress, Progress
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.host_work import host_work
from npuviz.onnx.passes.narrow_floats import NOTE, WIDE, held_text
from npuviz.onnx.semantics.host_operators import lacking
from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.systolic.compiler.bodies import DOMAINS
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.families import LOWERINGS
from npuviz.targets.systolic.compiler.placement import nodes_in_fp32, place_tensors
from npuviz.targets.systolic.compiler.tiling.choices import Choices, read_choices
from npuviz.targets.systolic.compiler.tiling.resources import resources_of
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan
from npuviz.targets.systolic.values.plan import LayerPlan


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """Nodes that run as one launch, in the order in which the simple scheduler starts them.

    earliest, delay, partition  as `ProgramBuilder.begin_launch` takes them
    """

    nodes: Sequence[Node]
    earliest: int = 0
    delay: int = 0
    partition: int = 0


def compile_true(
    graph: Graph,
    spec: SystolicSpec,
    dram: int = 0,
    progress: Progress | None = None,
    launches: Sequence[LaunchPlan] = (),
    requests: Sequence[RequestPlan] = (),
    choices: Choices | None = None,
) -> Compiled:
    """Lower every node to one layer, launch by launch; without launches, all nodes are one launch.

    dram     memory id of the DRAM in the machine description
    choices  tilings to use instead of the estimate's; default: those of the spec's file, if it names one
    """
    watch = progress or NoProgress()
    kept = nodes_in_fp32(graph, spec)
    lacking = {node.id for node in graph.nodes if _has_no_lowering(node)}
    storages, memory_map = place_tensors(graph, spec, dram, kept | lacking)
    builder = ProgramBuilder()
    if choices is None:
        choices = Choices(read_choices(Path(spec.tilings)) if spec.tilings else {})
    lowering = Lowering(graph, storages, resources_of(spec), builder, choices=choices)
    placement: dict[int, str] = {}
    for launch in launches or (LaunchPlan(scheduled(graph)),):
        first = builder.num_layers
        builder.begin_launch(launch.earliest, launch.delay, launch.partition)
        for node in launch.nodes:
            if len(placement) % 16 == 0:
                watch.report(len(placement) / max(1, len(graph.nodes)), f"compiling {_title(node)}")
            if node.id in kept:
                _lower_on_host(
                    lowering, node, HostReason("keep_fp32 names it", change="take it off keep_fp32")
                )
            placement[node.id] = "Host" if node.id in kept else _lower(lowering, node)
        if builder.num_layers == first:
            builder.add_skip_layer("nothing to run")
            lowering.layer_plans.append(LayerPlan(-1, (), ()))
        builder.add_edges(_edges(lowering.layer_plans, first))
    state_assumptions(lowering)
    _state_narrow_floats(lowering)
    tables = builder.finish(lowering.plan())
    served = tuple(requests) or (RequestPlan(printable(graph.name) or "model", 0, (0,)),)
    return Compiled(tables, graph, memory_map, tuple(lowering.notes), placement, served)


def _title(node: Node) -> str:
    return node.name or node.op_type


def _edges(plans: Sequence[LayerPlan], first: int) -> list[tuple[int, int]]:
    """Return pairs of a layer and a later one that reads or overwrites its results, from layer `first` on."""
    maker: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for layer in range(first, len(plans)):
        plan = plans[layer]
        found += [(maker[root], layer) for root in {*plan.inputs, *plan.outputs} if root in maker]
        maker |= dict.fromkeys(plan.outputs, layer)
    return sorted(set(found))


def _lower(lowering: Lowering, node: Node) -> str:
    if is_placed_as_view(lowering, node):
        return "View"
    if _has_no_lowering(node):
        _lower_on_host(lowering, node, lacking(node, "the cores have"))
        return "Host"
    made = [index for index in node.outputs if index >= 0]
    if made and not any(lowering.tensor(index).num_elements for index in made):
        lowering.builder.add_skip_layer(node.name or node.op_type, node.id)
        lowering.add_layer(node, node.inputs, made)
        return "Core"
    try:
        LOWERINGS[node.op_type](lowering, node)
    except CannotLower as reason:
        _lower_on_host(lowering, node, reason.reason)
        return "Host"
    return "Core"


def _has_no_lowering(node: Node) -> bool:
    return node.domain not in DOMAINS or node.op_type not in LOWERINGS


def _lower_on_host(lowering: Lowering, node: Node, reason: HostReason) -> None:
    """Add the Host layer of a node, and a note with the reason.

    Assumed: its cycles, see `SystolicSpec`.
    """
    work = host_work(lowering.graph, node, lambda index: lowering.storage(index).size_bytes)
    host = lowering.resources.host
    cycles = math.ceil(host.nanoseconds(work))
    name = node.name or node.op_type
    lowering.builder.add_host_layer(name, node.id, cycles)
    lowering.add_layer(node, node.inputs, node.outputs, is_host=True)
    lowering.note(
        "host-operator",
        f"{node.op_type} {name} runs on the host: {reason}; assumed {cycles} cycles "
        f"for {work.text} on {host.name}",
        node.id,
        reason=reason,
    )


def is_placed_as_view(lowering: Lowering, node: Node) -> bool:
    """Return whether the node's result shares the bytes of its input."""
    return (
        bool(node.outputs)
        and node.outputs[0] >= 0
        and (lowering.storage(node.outputs[0]).root != node.outputs[0])
    )


def scheduled(graph: Graph) -> list[Node]:
    """Return nodes in the order in which the simple scheduler starts them.

    Ref: systolic.md section 4: nodes ready at the start in graph order; later the consumers of a
    finished node's results, in graph order, as soon as all their inputs are there.
    """
    consumers = graph.consumers()
    missing = [
        len({index for index in node.inputs if index >= 0 and graph.tensors[index].producer >= 0})
        for node in graph.nodes
    ]
    ready = [node.id for node in graph.nodes if missing[node.id] == 0]
    order: list[Node] = []
    for position in ready:
        node = graph.nodes[position]
        order.append(node)
        counted: set[int] = set()
        for index in node.outputs:
            for consumer in consumers.get(index, ()) if index >= 0 else ():
                missing[consumer] -= 1
                if missing[consumer] == 0:
                    counted.add(consumer)
        ready += sorted(counted)
    return order


def _state_narrow_floats(lowering: Lowering) -> None:
    """Note how many tensors of float64 lie in DRAM in a narrower type."""
    held = [
        storage.dtype
        for storage in lowering.storages
        if lowering.graph.tensors[storage.tensor].dtype == WIDE and storage.dtype != WIDE
    ]
    if held:
        kinds = " and ".join(sorted(set(held)))
        widest = "" if kinds == "float32" else "--set element_type=float32 keeps more of it"
        lowering.note(NOTE, held_text(len(held), kinds, widest), is_warning=True)


def state_assumptions(lowering: Lowering) -> None:
    """Note the assumptions of true mode, and its deviations from ONNXim."""
    lowering.note(
        "assumed",
        "vector instructions work on 4-byte accumulator elements; an operator without a rule of its own "
        "takes one instruction per arithmetic step",
    )
    lowering.note(
        "deviation",
        "unlike ONNXim: work is split over all cores (F1-F3), all weights and exact windows are read and "
        "stores are cut at the tile (F4-F6), normalisation, softmax, pooling, concatenation, bias and "
        "activation cost time and traffic (F9-F12), entries have their real size (F13); a layer still "
        "ends when its stores are queued (F14)",
    )
    lowering.note("assumed", "loads and stores reorder and transpose rows at no cost")
