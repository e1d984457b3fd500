"""Merges operator graphs into one."""

from collections.abc import Sequence
from dataclasses import replace

from npuviz.onnx.passes.merging import merge_sources
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor


def merge_graphs(
    named: Sequence[tuple[str, Graph]], *, has_source: bool = False
) -> tuple[Graph, list[Graph]]:
    """Merge graphs: return one graph with the renumbered nodes and tensors of all, and a view of it per given
    graph.

    has_source  keep what reference execution needs, if the models can be put together

    A view has the nodes, inputs, outputs and constants of its graph, and the tensors of all. A single
    graph is returned as it is.
    """
    if len(named) == 1:
        return named[0][1], [named[0][1]]
    tensors: list[Tensor] = []
    nodes: list[Node] = []
    views: list[Graph] = []
    for number, (name, graph) in enumerate(named):
        at, first_node = len(tensors), len(nodes)
        prefix = f"{name}#{number}/"
        tensors += [_moved_tensor(tensor, prefix, at, first_node) for tensor in graph.tensors]
        own = [_moved_node(node, prefix, at, first_node) for node in graph.nodes]
        nodes += own
        views.append(
            replace(
                graph,
                nodes=tuple(own),
                inputs=tuple(tensor + at for tensor in graph.inputs),
                outputs=tuple(tensor + at for tensor in graph.outputs),
                constants={tensor + at: array for tensor, array in graph.constants.items()},
                source=b"",
            )
        )
    views = [replace(view, tensors=tuple(tensors)) for view in views]
    source = b""
    if has_source:
        source = merge_sources(
            [(f"{name}#{number}/", graph.source) for number, (name, graph) in enumerate(named)]
        )
    merged = Graph(
        name=", ".join(name for name, _ in named)[:200],
        nodes=tuple(nodes),
        tensors=tuple(tensors),
        inputs=tuple(tensor for view in views for tensor in view.inputs),
        outputs=tuple(tensor for view in views for tensor in view.outputs),
        constants={tensor: array for view in views for tensor, array in view.constants.items()},
        opsets=named[0][1].opsets,
        source=source,
        assumptions=tuple(text for view in views for text in view.assumptions),
    )
    return merged, views


def _moved_tensor(tensor: Tensor, prefix: str, at: int, first_node: int) -> Tensor:
    producer = tensor.producer + first_node if tensor.producer >= 0 else -1
    return replace(tensor, id=tensor.id + at, name=prefix + tensor.name, producer=producer)


def _moved_node(node: Node, prefix: str, at: int, first_node: int) -> Node:
    return replace(
        node,
        id=node.id + first_node,
        name=prefix + node.name,
        inputs=tuple(tensor + at if tensor >= 0 else -1 for tensor in node.inputs),
        outputs=tuple(tensor + at if tensor >= 0 else -1 for tensor in node.outputs),
    )
