"""Find what layers take on the NPU and on the Host, and tensors between them: the question for
`best_sides`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.host_work import host_work
from npuviz.program.graph import Graph
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.host_calls import conversion_cycles
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.partition.sides import (
    Choice,
    Exchange,
    Question,
    best_sides,
    fewest_on_host,
)
from npuviz.targets.rk3588.compiler.schedule import Dependencies, turns_of
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import change_cycles, is_free, processor_of


@dataclass(frozen=True, slots=True)
class Measured:
    """A layer on the NPU: cycles of its tasks.

    is_product   whether it is a product with constants, which the NPU is for: it never goes to the Host
    is_composed  as of Choice
    """

    cycles: int
    is_product: bool
    is_composed: bool


def host_cycles_of(graph: Graph, planner: Planner, layer: Layer, spec: RknnSpec) -> int:
    """Return a layer's time on the Host when that works already; its integers are made floats first."""
    processor = processor_of(spec)
    nodes = [*layer.nodes]
    for node in layer.nodes:
        for tensor in graph.nodes[node].inputs:
            source = planner.quantised.sources.get(tensor) or planner.quantised.constants.get(tensor)
            nodes += [source.node] if source is not None else []
    works = (host_work(graph, graph.nodes[node]) for node in dict.fromkeys(nodes) if not is_free(graph, node))
    return spec.to_cycles(sum(processor.nanoseconds(work) + spec.host_operator_ns for work in works))


def weigh(
    builder: Builder,
    layers: Sequence[Layer],
    planner: Planner,
    on_host: Collection[int],
    measured: Mapping[int, Measured],
) -> dict[int, HostReason]:
    """Return heads of layers that the NPU can run, but that take less on the Host together with others there.

    on_host   heads of layers that only the Host can run
    measured  of the others
    """
    graph, spec = builder.graph, builder.spec
    if spec.partition == "most-npu":
        return {}
    choices: list[Choice] = []
    for layer in layers:
        found = measured.get(layer.head.id)
        npu = found.cycles if found is not None and layer.head.id not in on_host else None
        is_held = found is not None and found.is_product
        host = None if npu is not None and is_held else host_cycles_of(graph, planner, layer, spec)
        choices.append(Choice(npu, host, found is not None and found.is_composed))
    if not on_host and not any(choice.host is None for choice in choices):
        # No layer needs a certain side; a model is not compiled for an NPU with nothing to do.
        return {}
    question = Question(
        choices,
        list(_exchanges(builder, layers, planner, choices)),
        change_cycles(spec),
        turns_of(Dependencies(graph, layers)),
    )
    sides = (best_sides if spec.partition == "least-time" else fewest_on_host)(question)
    return {
        layers[place].head.id: _reason(choices[place], spec)
        for place in sorted(sides)
        if layers[place].head.id not in on_host
    }


def _reason(choice: Choice, spec: RknnSpec) -> HostReason:
    assert choice.npu is not None
    assert choice.host is not None
    figures = f"{choice.npu:,} cycles here, {choice.host:,} there"
    if choice.host < choice.npu:
        return HostReason("the Host is faster", figures)
    return HostReason(
        "it stands between operators of the Host, which is done with it before the NPU is reached",
        f"{figures}, {change_cycles(spec):,} and conversions to change sides",
        "operators of the NPU before and behind it",
    )


def _exchanges(
    builder: Builder, layers: Sequence[Layer], planner: Planner, choices: Sequence[Choice]
) -> Iterator[Exchange]:
    """Yield the tensors between layers of which at least one may go to either side."""
    graph = builder.graph
    makers = {
        tensor: place
        for place, layer in enumerate(layers)
        for node in layer.nodes
        for tensor in graph.nodes[node].outputs
        if tensor >= 0
    }
    readers: dict[int, set[int]] = {tensor: {-1} for tensor in graph.outputs}
    for place, layer in enumerate(layers):
        for node in layer.nodes:
            for tensor in graph.nodes[node].inputs:
                read = _stored(planner, makers, tensor)
                if read >= 0 and not planner.is_constant(read) and makers.get(read) != place:
                    readers.setdefault(read, set()).add(place)
    for tensor, places in readers.items():
        maker = makers.get(tensor, -1)
        ends = [choices[place] for place in (maker, *places) if place >= 0]
        if all(end.npu is None or end.host is None for end in ends):
            continue
        cycles = _conversion(builder, tensor)
        if cycles:
            yield Exchange(cycles, maker, tuple(sorted(places)))


def _stored(planner: Planner, makers: Mapping[int, int], tensor: int) -> int:
    """Return the tensor that is read: for a DequantizeLinear that is no layer, its 8-bit tensor."""
    source = planner.quantised.sources.get(tensor)
    return source.stored if source is not None and tensor not in makers else tensor


def _conversion(builder: Builder, tensor: int) -> int:
    """Return the cycles of a tensor's conversion between the layouts, in the faster way."""
    try:
        return conversion_cycles(builder, tensor)
    except (CannotLower, DoesNotFit, FormatError, ValueError):
        return 0
