"""A draft's nodes by what they read and make, and what passes that move operators write into it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from onnx import NodeProto

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import names_read, replace_nodes, sort_nodes
from npuviz.onnx.parameters import subgraphs

Shapes = Mapping[str, tuple[int, tuple[int, ...]]]
"""Tensor -> element type and shape."""
MOST_ROUNDS = 256
"""Of looking at a region."""


class Region(Protocol):
    """Operators that could work in another form, which a pass may write."""

    def is_better(self) -> bool:
        """Whether the other form has less to move."""
        ...

    def write(self) -> Mapping[str, tuple[int, tuple[int, ...]]]:
        """Change the draft; types and shapes of the tensors that are new."""
        ...


class Neighbours:
    """Who reads and makes each tensor of a draft, as it was when this was made.

    readers, makers  tensor -> nodes that read it, each once, and the node that makes it
    held  tensors that are needed under their names: outputs of the model, and what inner graphs read
    """

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.readers: dict[str, list[NodeProto]] = {}
        self.makers: dict[str, NodeProto] = {}
        self.held = {value.name for value in draft.proto.graph.output}
        for node in draft.proto.graph.node:
            self.makers.update(dict.fromkeys(node.output, node))
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(node)
            for inner in subgraphs(node):
                self.held |= names_read(inner)


Graph = TypeVar("Graph", bound=Neighbours)


def settle_regions(
    draft: Draft,
    shapes: Shapes,
    graph_of: Callable[[Draft, Shapes], Graph],
    find: Callable[[Graph, Collection[str]], tuple[str, Region] | None],
) -> bool:
    """Write each region that is better, in place. Returns whether there was any.

    find  the first region that does not begin with one of the given tensors, and the tensor it begins with
    """
    known = dict(shapes)
    refused: set[str] = set()
    graph: Graph | None = None
    is_changed = False
    for _ in range(MOST_ROUNDS):
        # Who reads what changes only when a region is written.
        graph = graph or graph_of(draft, known)
        found = find(graph, refused)
        if found is None:
            break
        begin, region = found
        if region.is_better():
            known.update(region.write())
            is_changed, graph = True, None
        else:
            refused.add(begin)
    return is_changed


def store_weight(draft: Draft, name: str, values: np.ndarray) -> str:
    """Give a draft a new weight; returns its name, which is another one where `name` is taken."""
    while name in draft.weights:
        name += "_"
    draft.weights[name] = values
    declare_weight(draft.proto.graph, name, values)
    return name


def replace_makers(draft: Draft, placed: Mapping[str, Sequence[NodeProto]], moves: Collection[str]) -> None:
    """Put nodes in place of those that make the given tensors, and take away what nobody reads then.

    placed  first output of a node -> nodes in its place
    moves   kinds of nodes that go where nobody reads what they make
    """
    graph = draft.proto.graph
    old = [(node, node.output[0] if node.output else "") for node in graph.node]
    replace_nodes(graph, (new for node, name in old for new in placed.get(name, [node])))
    sort_nodes(graph)
    read = names_read(graph)
    left = [node for node in graph.node if node.op_type not in moves or node.output[0] in read]
    made = {name for node in left for name in node.output}
    replace_nodes(graph, left)
    infos = [value for value in graph.value_info if value.name in made]
    del graph.value_info[:]
    graph.value_info.extend(infos)
