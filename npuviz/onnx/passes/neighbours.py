"""A draft's nodes by what they read and make, and what passes that move operators write into it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from onnx import NodeProto

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import names_read, order_of, replace_nodes, sort_nodes
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
        """Change the nodes and the draft's weights; types and shapes of the tensors that are new."""
        ...


class _Entry(NamedTuple):
    """A node, and the names in it: a message gives them slowly.

    reads  inputs, each once;  inner  what graphs inside of it read
    """

    node: NodeProto
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    inner: frozenset[str]


def _entry_of(node: NodeProto) -> _Entry:
    inner = frozenset[str]().union(*map(names_read, subgraphs(node)))
    return _Entry(node, tuple(dict.fromkeys(node.input)), tuple(node.output), inner)


class Nodes:
    """The nodes of a draft while regions of them are written; the draft has them back at the end."""

    def __init__(self, draft: Draft) -> None:
        self.entries = [_entry_of(node) for node in draft.proto.graph.node]
        self.outputs = frozenset(value.name for value in draft.proto.graph.output)

    def replace(self, placed: Mapping[str, Sequence[NodeProto]], moves: Collection[str]) -> None:
        """Put nodes in place of those that make the given tensors, and take away what nobody reads then.

        placed  first output of a node -> nodes in its place
        moves   kinds of nodes that go where nobody reads what they make
        """
        found: list[_Entry] = []
        for entry in self.entries:
            new = placed.get(entry.makes[0] if entry.makes else "")
            found += [entry] if new is None else map(_entry_of, new)
        order = order_of([({*entry.reads, *entry.inner}, entry.makes) for entry in found])
        found = found if order is None else [found[index] for index in order]
        read = self.outputs.union(*(entry.reads for entry in found), *(entry.inner for entry in found))
        self.entries = [entry for entry in found if entry.node.op_type not in moves or entry.makes[0] in read]

    def give_back(self, draft: Draft) -> None:
        """Make them the draft's."""
        graph = draft.proto.graph
        replace_nodes(graph, (entry.node for entry in self.entries))
        sort_nodes(graph)
        made = {name for entry in self.entries for name in entry.makes}
        infos = [value for value in graph.value_info if value.name in made]
        del graph.value_info[:]
        graph.value_info.extend(infos)


class Neighbours:
    """Who reads and makes each tensor of a draft, as it was when this was made.

    readers, makers  tensor -> nodes that read it, each once, and the node that makes it
    held  tensors that are needed under their names: outputs of the model, and what inner graphs read
    nodes  those of the draft
    """

    def __init__(self, draft: Draft, nodes: Nodes | None = None) -> None:
        self.draft = draft
        self.nodes = nodes or Nodes(draft)
        self.readers: dict[str, list[NodeProto]] = {}
        self.makers: dict[str, NodeProto] = {}
        self.held = set(self.nodes.outputs)
        for entry in self.nodes.entries:
            self.makers.update(dict.fromkeys(entry.makes, entry.node))
            for name in entry.reads:
                self.readers.setdefault(name, []).append(entry.node)
            self.held |= entry.inner


Graph = TypeVar("Graph", bound=Neighbours)


def settle_regions(
    draft: Draft,
    shapes: Shapes,
    graph_of: Callable[[Draft, Shapes, Nodes], Graph],
    find: Callable[[Graph, Collection[str]], tuple[str, Region] | None],
) -> bool:
    """Write each region that is better, in place. Returns whether there was any.

    find  the first region that does not begin with one of the given tensors, and the tensor it begins with
    """
    known = dict(shapes)
    nodes = Nodes(draft)
    refused: set[str] = set()
    graph: Graph | None = None
    is_changed = False
    for _ in range(MOST_ROUNDS):
        # Who reads what changes only when a region is written.
        graph = graph or graph_of(draft, known, nodes)
        found = find(graph, refused)
        if found is None:
            break
        begin, region = found
        if region.is_better():
            known.update(region.write())
            is_changed, graph = True, None
        else:
            refused.add(begin)
    if is_changed:
        nodes.give_back(draft)
    return is_changed


def store_weight(draft: Draft, name: str, values: np.ndarray) -> str:
    """Give a draft a new weight; returns its name, which is another one where `name` is taken."""
    while name in draft.weights:
        name += "_"
    draft.weights[name] = values
    declare_weight(draft.proto.graph, name, values)
    return name
