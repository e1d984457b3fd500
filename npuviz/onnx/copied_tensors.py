"""Gives some nodes tensors of their own, so that a machine may keep these in another order than others."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from onnx import NodeProto, helper

from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.graph import make_graph
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.passes.expansion import draft_of, type_of
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

SUFFIX = "/own_order"
"""What the name of a copy ends with."""


def with_copies(graph: Graph, apart: Collection[int], tensors: Collection[int]) -> Graph:
    """Return the graph in which some nodes read and write copies of tensors, which no other node touches.

    A copy is made by a Transpose that keeps the axes in place; that of a constant is a constant, and a result
    that only nodes `apart` read needs none.

    apart    ids of the nodes
    tensors  ids of the tensors that they read or write, without those of subgraphs
    """
    path = Path(graph.name or "model")
    draft = draft_of(graph, path)
    proto = draft.proto.graph
    if len(proto.node) != len(graph.nodes):
        return graph
    copied = _Copies(graph, draft, frozenset(apart), frozenset(tensors))
    with reading(path, "copied tensors"):
        replace_nodes(proto, copied.nodes())
        return replace(make_graph(draft, copied.shapes, {}), file=graph.file)


class _Copies:
    """Writes the nodes of the new graph; `shapes` has the types of all its tensors by name."""

    def __init__(self, graph: Graph, draft: Draft, apart: frozenset[int], tensors: frozenset[int]) -> None:
        self._graph = graph
        self._draft = draft
        self._apart = apart
        self._tensors = tensors
        self._consumers = graph.consumers()
        self._made: dict[int, str] = {}
        self.shapes = {
            tensor.name: (type_of(tensor).tensor_type.elem_type, tensor.shape) for tensor in graph.tensors
        }

    def nodes(self) -> list[NodeProto]:
        """Return all nodes in order, with the copies between them."""
        made: list[NodeProto] = []
        for node, source in zip(self._graph.nodes, list(self._draft.proto.graph.node), strict=True):
            if node.id not in self._apart:
                made.append(source)
                continue
            proto = NodeProto()
            proto.CopyFrom(source)
            names = self._names(node.inputs, made)
            proto.input[:] = [names.get(name, name) for name in proto.input]
            names, after = self._results(node)
            proto.output[:] = [names.get(name, name) for name in proto.output]
            made += [proto, *after]
        return made

    def _names(self, inputs: Collection[int], made: list[NodeProto]) -> Mapping[str, str]:
        """Return the copies of inputs by the names of these; writes those that are missing."""
        names: dict[str, str] = {}
        for index in inputs:
            if index not in self._tensors:
                continue
            tensor = self._graph.tensors[index]
            if index not in self._made and tensor.producer not in self._apart:
                copy = self._declare(tensor)
                if index in self._graph.constants:
                    declare_weight(self._draft.proto.graph, copy, self._graph.constants[index])
                    self._draft.weights[copy] = self._graph.constants[index]
                else:
                    made.append(_copy(tensor, tensor.name, copy))
            if index in self._made:
                names[tensor.name] = self._made[index]
        return names

    def _results(self, node: Node) -> tuple[Mapping[str, str], list[NodeProto]]:
        """Return the copies that the node writes, by the names of its results, and what makes the results of
        them."""
        names: dict[str, str] = {}
        after: list[NodeProto] = []
        for index in node.outputs:
            tensor = self._graph.tensors[index]
            is_asked = index in self._graph.outputs or not self._apart.issuperset(self._consumers[index])
            if index in self._tensors and is_asked:
                names[tensor.name] = self._declare(tensor)
                after.append(_copy(tensor, names[tensor.name], tensor.name))
        return names, after

    def _declare(self, tensor: Tensor) -> str:
        name = self._made[tensor.id] = tensor.name + SUFFIX
        self.shapes[name] = self.shapes[tensor.name]
        return name


def _copy(tensor: Tensor, source: str, target: str) -> NodeProto:
    return helper.make_node(
        "Transpose", [source], [target], name=f"{tensor.name}/reorder", perm=range(len(tensor.shape))
    )
