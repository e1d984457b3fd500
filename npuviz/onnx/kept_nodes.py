"""Operators that the user wants computed in fp32, by name."""

from difflib import get_close_matches

from npuviz.base.errors import UsageError
from npuviz.program.graph import Graph


def kept_nodes(graph: Graph, text: str) -> frozenset[int]:
    """Ids of the nodes that `--set keep_fp32=NAME[,NAME]` names: by their own name or that of a result.

    Raises UsageError for a name that the graph has not.
    """
    by_name = {node.name: node.id for node in graph.nodes}
    results = {graph.tensors[index].name: node.id for node in graph.nodes for index in node.outputs if index >= 0}
    found: set[int] = set()
    for name in (part.strip() for part in text.split(",")):
        if not name:
            continue
        node = by_name.get(name, results.get(name))
        if node is None:
            close = get_close_matches(name, [*by_name, *results], n=3)
            hint = f"; close: {', '.join(close)}" if close else ""
            raise UsageError(f"--set keep_fp32={name[:60]}: the model has no such operator or tensor{hint}")
        found.add(node)
    return frozenset(found)


def between_kept(graph: Graph, nodes: frozenset[int]) -> frozenset[int]:
    """Tensors that only these nodes read: what they make of each other, constants of theirs, and results
    that nobody reads."""
    readers = graph.consumers()
    return frozenset(
        tensor.id
        for tensor in graph.tensors
        if (tensor.producer in nodes or tensor.id in graph.constants)
        and all(node in nodes for node in readers[tensor.id])
    )
