"""Replaces operators without a lowering by their function bodies of the ONNX standard."""

from collections.abc import Callable, Collection

from npuviz.base.errors import FormatError
from npuviz.onnx.passes import expansion as onnx_expansion
from npuviz.program.graph import Graph, Node

# A body may use operators that have bodies themselves. Deeper nesting is a cycle of definitions.
MAX_DEPTH = 8


def expand_missing(graph: Graph, has_lowering: Callable[[Node], bool], is_precise: bool = False) -> Graph:
    """Return the graph with every node without a lowering replaced by its function body, recursively.

    is_precise  whether the machine computes in fp32
    Nodes with neither stay as they are. Ids of nodes and tensors may be new.
    """
    for _ in range(MAX_DEPTH):
        missing = [node.id for node in graph.nodes if not has_lowering(node)]
        expanded = expand_nodes(graph, missing, is_precise)
        if expanded is None:
            break
        graph = expanded
    return graph


def expand_nodes(graph: Graph, node_ids: Collection[int], is_precise: bool = False) -> Graph | None:
    """Return the graph with the given nodes replaced by function bodies; None if none has a usable one."""
    wanted = [
        node_id for node_id in node_ids if onnx_expansion.can_expand(graph, graph.nodes[node_id], is_precise)
    ]
    if not wanted:
        return None
    try:
        return onnx_expansion.expand_nodes(graph, wanted)
    except FormatError:
        # The shapes of a body could not be inferred: the nodes stay as they are.
        return None
