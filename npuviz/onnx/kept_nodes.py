"""Finds the operators that the user wants computed in fp32: `--set keep_fp32=NAME[,NAME]`."""

from collections.abc import Collection
from difflib import get_close_matches

from npuviz.base.errors import UsageError
from npuviz.program.graph import Graph


def kept_names(graph: Graph, text: str) -> frozenset[str]:
    """Return the names of the nodes in a setting, which lists names of nodes or of their results.

    Raises UsageError for a name that the graph does not have.
    """
    known = {node.name: node.name for node in graph.nodes}
    for node in graph.nodes:
        known.update({graph.tensors[index].name: node.name for index in node.outputs if index >= 0})
    found: set[str] = set()
    for name in (part.strip() for part in text.split(",")):
        if name and name not in known:
            close = get_close_matches(name, known, n=3)
            hint = f"; close: {', '.join(close)}" if close else ""
            raise UsageError(f"--set keep_fp32={name[:60]}: the model has no such operator or tensor{hint}")
        if name:
            found.add(known[name])
    return frozenset(found)


def kept_nodes(graph: Graph, names: Collection[str]) -> frozenset[int]:
    """Return the ids of the nodes with these names, and of the nodes that function bodies made from them."""
    prefixes = tuple(f"{name}/" for name in names)
    return frozenset(
        node.id for node in graph.nodes if node.name in names or (prefixes and node.name.startswith(prefixes))
    )


def only_among(graph: Graph, nodes: Collection[int]) -> frozenset[int]:
    """Return the tensors that only these nodes read and that they make, and constants that only they read."""
    readers = graph.consumers()
    return frozenset(
        tensor.id
        for tensor in graph.tensors
        if (tensor.producer in nodes or (tensor.id in graph.constants and readers[tensor.id]))
        and all(node in nodes for node in readers[tensor.id])
    )


def kept_tensors(graph: Graph, nodes: Collection[int]) -> frozenset[int]:
    """Return the tensors that these nodes make, and constants that only they read."""
    readers = graph.consumers()
    constants = {index for index in graph.constants if all(node in nodes for node in readers[index])}
    return frozenset(
        constants | {index for node in nodes for index in graph.nodes[node].outputs if index >= 0}
    )
