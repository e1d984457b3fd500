"""Operators without a lowering become the function bodies that the ONNX standard gives them."""

from collections.abc import Callable, Collection

from npuviz.base.errors import FormatError
from npuviz.onnx.passes import expansion as onnx_expansion
from npuviz.program.graph import Graph, Node

# A body may use operators that have bodies themselves. Deeper nesting is a cycle of definitions.
MAX_DEPTH = 8


def expand_missing(graph: Graph, has_lowering: Callable[[Node], bool]) -> Graph:
    """The graph with every node that has no lowering written as a function body, recursively.

    Nodes that have neither stay as they are. Ids of nodes and tensors may be new.
    """
    for _ in range(MAX_DEPTH):
        missing = [node.id for node in graph.nodes if not has_lowering(node)]
        expanded = expand_nodes(graph, missing)
        if expanded is None:
            break
        graph = expanded
    return graph


def expand_nodes(graph: Graph, node_ids: Collection[int]) -> Graph | None:
    """The graph with the given nodes written as function bodies; None if none of them has one."""
    wanted = [node_id for node_id in node_ids if onnx_expansion.can_expand(graph, graph.nodes[node_id])]
    if not wanted:
        return None
    try:
        return onnx_expansion.expand_nodes(graph, wanted)
    except FormatError:
        # A body that the library makes but cannot type: the nodes stay whole.
        return None
