"""Indexes a draft's nodes by the tensors they read and make, and rewrites regions of them for passes."""

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
"""Most regions that a pass looks at."""


class Region(Protocol):
    """Operators that a pass can rewrite to another form."""

    def is_better(self) -> bool:
        """Return whether the other form moves less data."""
        ...

    def write(self) -> Mapping[str, tuple[int, tuple[int, ...]]]:
        """Rewrite the nodes and the draft's weights. Returns types and shapes of the new tensors."""
        ...


class _Entry(NamedTuple):
    """A node with a copy of its names, since reading them from the message is slow.

    reads  inputs, each once;  makes  outputs;  inner  names that its subgraphs read
    """

    node: NodeProto
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    inner: frozenset[str]


def _entry_of(node: NodeProto) -> _Entry:
    inner = frozenset[str]().union(*map(names_read, subgraphs(node)))
    return _Entry(node, tuple(dict.fromkeys(node.input)), tuple(node.output), inner)


class Nodes:
    """The nodes of a draft while regions are rewritten; `give_back` stores them in the draft."""

    def __init__(self, draft: Draft) -> None:
        self.entries = [_entry_of(node) for node in draft.proto.graph.node]
        self.outputs = frozenset(value.name for value in draft.proto.graph.output)

    def replace(self, placed: Mapping[str, Sequence[NodeProto]], moves: Collection[str]) -> None:
        """Replace nodes, sort all nodes, and remove those of the types `moves` whose results are no longer
        read.

        placed  first output of a node -> nodes to replace it
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
        """Store the nodes in the draft, and remove shape information of tensors that no longer exist."""
        graph = draft.proto.graph
        replace_nodes(graph, (entry.node for entry in self.entries))
        sort_nodes(graph)
        made = {name for entry in self.entries for name in entry.makes}
        infos = [value for value in graph.value_info if value.name in made]
        del graph.value_info[:]
        graph.value_info.extend(infos)


class Neighbours:
    """Readers and makers of each tensor of a draft, at the time of construction.

    readers, makers  tensor -> nodes that read it, each once, and the node that makes it
    held   tensors that must keep their names: outputs of the model, and outer tensors that subgraphs read
    nodes  of the draft
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
    """Rewrite each region that becomes better, in place. Returns whether there was any.

    find  (graph, tensors) -> the first region that begins with none of the tensors, and the tensor it begins
    with
    """
    known = dict(shapes)
    nodes = Nodes(draft)
    refused: set[str] = set()
    graph: Graph | None = None
    is_changed = False
    for _ in range(MOST_ROUNDS):
        # The index changes only if a region is rewritten.
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
    """Store a new weight in a draft. Returns its name, which is `name` with "_" appended while that is
    taken."""
    while name in draft.weights:
        name += "_"
    draft.weights[name] = values
    declare_weight(draft.proto.graph, name, values)
    return name
