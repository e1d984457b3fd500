"""In which order layers run: every change of sides costs a call."""

from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby

from npuviz.program.graph import Graph
from npuviz.targets.rk3588.compiler.layers import Layer


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


def turns_of(links: Dependencies) -> Callable[[Collection[int]], list[int]]:
    """An order in which layers can run, by their places, for the places that the Host runs: as long as one
    side has something to do, it goes on."""

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
    """The layers in an order in which they can run, those of one side together. on_host  heads of layers that
    the Host runs"""
    sides = [layer.head.id in on_host for layer in layers]
    places = turns_of(Dependencies(graph, layers))({place for place, side in enumerate(sides) if side})
    return [
        [layers[place] for place in group] for _, group in groupby(places, key=lambda place: sides[place])
    ]
