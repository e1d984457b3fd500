"""Sorts nodes so that each stands behind those it reads: ONNX demands it, but converters violate it."""

from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush

import onnx

from npuviz.onnx.parameters import subgraphs


def names_read(graph: onnx.GraphProto) -> set[str]:
    """Return the names that any node, subgraph or graph output reads."""
    found = {value.name for value in graph.output}
    for node in graph.node:
        found.update(node.input)
        for inner in subgraphs(node):
            found |= names_read(inner)
    return found


def replace_nodes(graph: onnx.GraphProto | onnx.FunctionProto, nodes: Iterable[onnx.NodeProto]) -> None:
    """Replace the nodes of a graph; the new ones may be some of its own."""
    made = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(made)


def sort_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Sort the nodes of a graph and its subgraphs so that each stands behind those it reads. Returns whether
    the order has changed.

    The sort is stable. A graph with a cycle is left as it is.
    """
    is_changed = False
    for node in graph.node:
        for inner in subgraphs(node):
            is_changed |= sort_nodes(inner)
    order = order_of([(reads_of(node), node.output) for node in graph.node])
    if order is not None:
        replace_nodes(graph, [graph.node[index] for index in order])
        is_changed = True
    return is_changed


def order_of(nodes: Sequence[tuple[Collection[str], Collection[str]]]) -> list[int] | None:
    """Return the indices of nodes in topological order; None if they are in order already, or there is a
    cycle.

    nodes  names that each node reads (see `reads_of`) and makes
    """
    producers = {name: index for index, (_, made) in enumerate(nodes) for name in made if name}
    needed = [
        {producers[name] for name in reads if name in producers} - {index}
        for index, (reads, _) in enumerate(nodes)
    ]
    if all(max(each, default=-1) < index for index, each in enumerate(needed)):
        return None
    readers: dict[int, list[int]] = {}
    for index, each in enumerate(needed):
        for producer in each:
            readers.setdefault(producer, []).append(index)
    missing = [len(each) for each in needed]
    ready = [index for index, count in enumerate(missing) if not count]
    heapify(ready)
    found: list[int] = []
    while ready:
        index = heappop(ready)
        found.append(index)
        for reader in readers.get(index, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return found if len(found) == len(nodes) else None


def reads_of(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node and its subgraphs read."""
    names = set(node.input)
    for inner in subgraphs(node):
        names |= names_read(inner)
    return names
