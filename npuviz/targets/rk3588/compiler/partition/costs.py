"""Find what layers take on the NPU and on the Host, and tensors between them: the question for
`best_sides`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.host_work import host_work
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.program import HostReason, Note
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.host_calls import conversion_cycles
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.partition.share import Found, within_share
from npuviz.targets.rk3588.compiler.partition.sides import (
    Choice,
    Exchange,
    Question,
    Times,
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


_HALF = 2
"""Bytes of an element of fp16."""
_CONVOLUTIONS = frozenset(("Conv", "ConvInteger", "ConvTranspose", "FusedConv", "QLinearConv", "DeformConv"))
_OTHERS = frozenset(
    ("Attention", "DynamicQuantizeLSTM", "Einsum", "FusedMatMul", "GRU", "Gemm", "GroupQueryAttention",
     "LSTM", "Loop", "MatMul", "MatMulInteger", "MatMulNBits", "MultiHeadAttention", "QGemm", "QLinearMatMul",
     "RNN", "Scan")
)  # fmt: skip


def is_convolutional(graph: Graph) -> bool:
    """Return whether convolutions do more of a network's operations than matrix products and recurrent
    operators."""
    work = [
        sum(host_work(graph, node).operations for node in graph.nodes if node.op_type in kinds)
        for kinds in (_CONVOLUTIONS, _OTHERS)
    ]
    return work[0] > work[1]


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
) -> tuple[dict[int, HostReason], Found | None]:
    """Return heads of layers that the NPU can run, but that are better on the Host together with others
    there; and the partition that this makes, None if there is nothing to choose.

    on_host   heads of layers that only the Host can run
    measured  of the others
    """
    graph, spec = builder.graph, builder.spec
    if spec.partition == "most-npu":
        return {}, None
    choices: list[Choice] = []
    for layer in layers:
        found = measured.get(layer.head.id)
        npu = found.cycles if found is not None and layer.head.id not in on_host else None
        is_held = found is not None and found.is_product
        host = None if npu is not None and is_held else host_cycles_of(graph, planner, layer, spec)
        choices.append(Choice(npu, host, found is not None and found.is_composed))
    if not on_host and not any(choice.host is None for choice in choices):
        # No layer needs a certain side; a model is not compiled for an NPU with nothing to do.
        return {}, None
    exchanges = list(_exchanges(builder, layers, planner, choices))
    question = Question(
        choices,
        [exchange for exchange in exchanges if _is_open(exchange, choices)],
        change_cycles(spec),
        turns_of(Dependencies(graph, layers)),
        change_cycles(spec) - spec.to_cycles(spec.job_driver_ns),
        _ends(builder, [exchange for exchange in exchanges if not _is_open(exchange, choices)]),
    )
    share = 1.0 if spec.partition == "least-time" else wanted_share(graph, spec)
    found = within_share(question, share, spec.host_price)
    return {
        layers[place].head.id: _reason(choices[place], spec)
        for place in sorted(found.sides)
        if layers[place].head.id not in on_host
    }, found


def wanted_share(graph: Graph, spec: RknnSpec) -> float:
    """Return the largest share of a run that the Host should have."""
    return spec.host_share if is_convolutional(graph) else spec.host_share_others


def told(found: Found, share: float) -> Note:
    """Return the note that says what a partition of little Host costs."""
    text = (
        f"partition: estimated to take {found.times.total:,} cycles, {found.times.share:.0%} of them on the "
        f"Host (goal: {share:.0%}); the fastest takes {found.least.total:,}, {found.least.share:.0%} on the "
        "Host (--set partition=least-time)"
    )
    return Note("info", "partition", text)


def _is_open(exchange: Exchange, choices: Sequence[Choice]) -> bool:
    """Return whether the maker or a reader of a tensor may go to either side."""
    ends = [choices[place] for place in (exchange.maker, *exchange.readers) if place >= 0]
    return any(end.npu is not None and end.host is not None for end in ends)


def _ends(builder: Builder, fixed: Sequence[Exchange]) -> Times:
    """Return what a run takes in any partition: calls for inputs and outputs, the first start of the NPU, and
    conversions of tensors whose ends are fixed."""
    spec, graph = builder.spec, builder.graph
    calls = sum(
        spec.host_call_ns + spec.host_operator_ns * (len(tensors) - 1)
        for tensors in (graph.inputs, graph.outputs)
        if tensors
    )
    # The NPU makes cubes and rows of most of them; the Host changes the type.
    calls += (
        sum(
            graph.tensors[tensor].num_elements * (numpy_dtype(graph.tensors[tensor].dtype).itemsize + _HALF)
            for tensor in (*graph.inputs, *graph.outputs)
        )
        / spec.host_bytes_per_ns
    )
    host = spec.to_cycles(calls) + sum(each.cycles for each in fixed if not each.is_npus)
    start = spec.to_cycles(spec.job_driver_ns)
    return Times(host + start + sum(each.cycles for each in fixed if each.is_npus), host)


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
    """Yield the tensors that change sides, or may."""
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
        found = Exchange(0, makers.get(tensor, -1), tuple(sorted(places)))
        if not _is_open(found, choices):
            sides = {place < 0 or choices[place].npu is None for place in (found.maker, *found.readers)}
            if len(sides) == 1:
                continue
        cycles, is_npus = _conversion(builder, tensor)
        if cycles:
            yield replace(found, cycles=cycles, is_npus=is_npus)


def _stored(planner: Planner, makers: Mapping[int, int], tensor: int) -> int:
    """Return the tensor that is read: for a DequantizeLinear that is no layer, its 8-bit tensor."""
    source = planner.quantised.sources.get(tensor)
    return source.stored if source is not None and tensor not in makers else tensor


def _conversion(builder: Builder, tensor: int) -> tuple[int, bool]:
    """Return the cycles of a tensor's conversion between the layouts, in the faster way, and whether that is
    the NPU's."""
    try:
        return conversion_cycles(builder, tensor)
    except (CannotLower, DoesNotFit, FormatError, ValueError):
        return 0, False
