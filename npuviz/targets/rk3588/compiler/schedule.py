"""Order layers for the fewest changes between NPU and Host, each of which costs a call."""

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby

from npuviz.program.graph import Graph
from npuviz.targets.rk3588.compiler.layers import Layer


class Dependencies:
    """Which layers make what others read; layers are given by their places in `layers`."""

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
                # A DequantizeLinear that layers read through is no layer: the tensor that it reads counts.
                waiting += [each for each in self._graph.nodes[producer].inputs if each >= 0]


def turns_of(links: Dependencies) -> Callable[[Collection[int]], list[int]]:
    """Return a function from the places of the Host's layers to an order of all places in which layers can
    run.

    In that order one side continues for as long as it has something to do.
    """

    def order(on_host: Collection[int]) -> list[int]:
        left = [len(makers) for makers in links.before]
        ready: tuple[list[int], list[int]] = ([], [])
        for place, count in enumerate(left):
            if not count:
                heappush(ready[place in on_host], place)
        found: list[int] = []
        side = bool(ready[True])
        while ready[False] or ready[True]:
            side = side if ready[side] else not side
            place = heappop(ready[side])
            found.append(place)
            for reader in links.behind[place]:
                left[reader] -= 1
                if not left[reader]:
                    heappush(ready[reader in on_host], reader)
        assert len(found) == len(left)
        return found

    return order


def turns(graph: Graph, layers: Sequence[Layer], on_host: Collection[int]) -> list[list[Layer]]:
    """Return the layers in an order in which they can run, grouped by side. on_host  heads of the Host's
    layers"""
    sides = [layer.head.id in on_host for layer in layers]
    places = turns_of(Dependencies(graph, layers))({place for place, side in enumerate(sides) if side})
    return [
        [layers[place] for place in group] for _, group in groupby(places, key=lambda place: sides[place])
    ]
