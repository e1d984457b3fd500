"""In which order layers run, and which of them go along with the Host: every change of sides costs a call."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import groupby

from npuviz.onnx.host_work import host_work
from npuviz.program.graph import Graph
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.operator_kinds import PRODUCTS
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.host_cost import processor_of


class Dependencies:
    """Which layers make what others read; places in `layers` stand for them."""

    def __init__(self, graph: Graph, layers: Sequence[Layer]) -> None:
        self._graph = graph
        self._maker = {
            tensor: place
            for place, layer in enumerate(layers)
            for node in layer.nodes
            for tensor in graph.nodes[node].outputs
            if tensor >= 0
        }
        self.before = [sorted(set(self._makers(layer)) - {place}) for place, layer in enumerate(layers)]
        self.behind: list[list[int]] = [[] for _ in layers]
        for place, makers in enumerate(self.before):
            for maker in makers:
                self.behind[maker].append(place)

    def _makers(self, layer: Layer) -> Iterator[int]:
        waiting = [tensor for node in layer.nodes for tensor in self._graph.nodes[node].inputs if tensor >= 0]
        while waiting:
            tensor = waiting.pop()
            producer = self._graph.tensors[tensor].producer
            if tensor in self._maker:
                yield self._maker[tensor]
            elif producer >= 0:
                # A DequantizeLinear that layers read through is no layer: what it reads counts.
                waiting += [each for each in self._graph.nodes[producer].inputs if each >= 0]


def turns(graph: Graph, layers: Sequence[Layer], on_host: Collection[int]) -> list[list[Layer]]:
    """The layers in an order in which they can run, those of one side together: as long as one side has
    something to do, it goes on. on_host  heads of layers that the Host runs"""
    links = Dependencies(graph, layers)
    left = [len(makers) for makers in links.before]
    ready: tuple[list[int], list[int]] = ([], [])
    sides = [layer.head.id in on_host for layer in layers]
    for place, count in enumerate(left):
        if not count:
            heappush(ready[sides[place]], place)
    found: list[int] = []
    side = bool(ready[True])
    while ready[False] or ready[True]:
        side = side if ready[side] else not side
        place = heappop(ready[side])
        found.append(place)
        for reader in links.behind[place]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready[sides[reader]], reader)
    assert len(found) == len(layers)
    return [[layers[place] for place in group] for _, group in groupby(found, key=lambda place: sides[place])]


def islands(
    graph: Graph, layers: Sequence[Layer], on_host: Mapping[int, HostReason], spec: RknnSpec
) -> dict[int, HostReason]:
    """Heads of layers that the NPU could run, but that stand between operators of the Host, which is done
    before the NPU is reached. Products are none: they are what the NPU is for.
    """
    links = Dependencies(graph, layers)
    found: dict[int, HostReason] = {}
    seen: set[int] = set()
    for place, layer in enumerate(layers):
        if place in seen or layer.head.id in on_host:
            continue
        inside, has_before, has_behind = {place}, False, False
        waiting = [place]
        while waiting:
            here = waiting.pop()
            for others, is_before in ((links.before[here], True), (links.behind[here], False)):
                for other in others:
                    if layers[other].head.id in on_host:
                        has_before |= is_before
                        has_behind |= not is_before
                    elif other not in inside:
                        inside.add(other)
                        waiting.append(other)
        seen |= inside
        if not (has_before and has_behind) or any(layers[each].head.op_type in PRODUCTS for each in inside):
            continue
        processor = processor_of(spec)
        nodes = [graph.nodes[node] for each in inside for node in layers[each].nodes]
        taken = sum(processor.nanoseconds(host_work(graph, node)) + spec.host_operator_ns for node in nodes)
        if taken < spec.host_call_ns:
            reason = HostReason(
                "it stands between operators of the Host, which is done with it before the NPU is reached",
                f"{taken:.0f} ns",
                "operators of the NPU before and behind it",
            )
            found |= {layers[each].head.id: reason for each in inside}
    return found
