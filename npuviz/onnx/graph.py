"""Builds the operator graph from a draft with known shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import Draft
from npuviz.onnx.parameters import subgraphs
from npuviz.onnx.serialization import complete_model
from npuviz.onnx.shape_inference import TypeAndShape, element_name
from npuviz.program.graph import NEWEST_OPSET, Graph, Node
from npuviz.program.tensor import Tensor, TensorKind


def make_graph(draft: Draft, shapes: Mapping[str, TypeAndShape], known: Mapping[str, np.ndarray]) -> Graph:
    """Build the graph of a draft.

    Tensors come in the order: inputs, initialisers as stored, node outputs. `known` holds values of
    node outputs that are constant although a node makes them.
    """
    proto = draft.proto.graph
    inputs = [value.name for value in proto.input if value.name not in draft.weights]
    outputs = [value.name for value in proto.output]
    builder = _Builder(draft, shapes, frozenset(outputs))
    for name in inputs:
        builder.add_tensor(name, "input", -1)
    for name in draft.weights:
        builder.add_tensor(name, "weight", -1)
    nodes = tuple(builder.add_node(index, node) for index, node in enumerate(proto.node))
    for name in outputs:
        builder.require(name, "graph output")
    constants = {builder.ids[name]: array for name, array in draft.weights.items()}
    constants.update({builder.ids[name]: array for name, array in known.items() if name in builder.ids})
    return Graph(
        name=proto.name,
        nodes=nodes,
        tensors=tuple(builder.tensors),
        inputs=tuple(builder.ids[name] for name in inputs),
        outputs=tuple(builder.ids[name] for name in outputs),
        constants=constants,
        opsets={opset.domain or "ai.onnx": opset.version for opset in draft.proto.opset_import},
        source=complete_model(draft).SerializeToString(),
        assumptions=tuple(dict.fromkeys(draft.assumptions)),
        file=draft.path,
    )


class _Builder:
    """Assigns ids to tensors while nodes are read in order."""

    def __init__(self, draft: Draft, shapes: Mapping[str, TypeAndShape], outputs: frozenset[str]) -> None:
        self._draft = draft
        self._shapes = shapes
        self._outputs = outputs
        self._opsets = {_domain(each.domain): each.version for each in draft.proto.opset_import}
        self.tensors: list[Tensor] = []
        self.ids: dict[str, int] = {}

    def add_tensor(self, name: str, kind: TensorKind, producer: int) -> int:
        """Give a tensor its id. Raises FormatError when the name is taken."""
        if name in self.ids:
            raise FormatError(self._draft.path, field=f"tensor {name}", found="the name twice")
        elem_type, shape = self._shapes[name]
        dtype = element_name(elem_type)
        self.ids[name] = len(self.tensors)
        self.tensors.append(Tensor(len(self.tensors), name, shape, dtype, kind, producer))
        return self.ids[name]

    def require(self, name: str, where: str) -> int:
        """Return the id of a tensor. Raises FormatError if nothing before has produced it."""
        if name not in self.ids:
            raise FormatError(
                self._draft.path, field=where, found=f"{name!r}, which nothing before it produces"
            )
        return self.ids[name]

    def add_node(self, index: int, node: onnx.NodeProto) -> Node:
        """Read one node; its inputs must be known."""
        name = node.name or f"{node.op_type}_{index}"
        inputs = [self.require(item, f"node {name}") if item else -1 for item in node.input]
        attributes = {attribute.name: _plain(self._draft, attribute) for attribute in node.attribute}
        captured = sorted(_captured(node) & self.ids.keys())
        if captured:
            attributes["captured_inputs"] = len(captured)
            inputs += [self.ids[item] for item in captured]
        # An output without a known shape is read by nothing: it counts as absent.
        stored = [item if item in self._shapes else "" for item in node.output]
        while stored and not stored[-1]:
            stored.pop()
        outputs = tuple(
            self.add_tensor(item, "output" if item in self._outputs else "activation", index) if item else -1
            for item in stored
        )
        domain = _domain(node.domain)
        opset = self._opsets.get(domain, NEWEST_OPSET)
        return Node(index, name, node.op_type, domain, tuple(inputs), outputs, attributes, opset)


def _domain(name: str) -> str:
    """Return the name of a domain, "" for both names of the standard's domain."""
    return "" if name == "ai.onnx" else name


def _captured(node: onnx.NodeProto) -> set[str]:
    """Return the outer names that the subgraphs of a node read."""
    found: set[str] = set()
    for graph in subgraphs(node):
        inner = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        for child in graph.node:
            found |= {name for name in (*child.input, *_captured(child)) if name and name not in inner}
            inner |= set(child.output)
        found |= {value.name for value in graph.output if value.name not in inner}
    return found


def _plain(draft: Draft, attribute: onnx.AttributeProto) -> Any:
    """Convert the value of an attribute to plain Python and numpy types; graphs become serialised bytes."""
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return numpy_helper.to_array(attribute.t)
    if kind == AttributeProto.TENSORS:
        return [numpy_helper.to_array(tensor) for tensor in attribute.tensors]
    if kind == AttributeProto.GRAPH:
        return attribute.g.SerializeToString()
    if kind == AttributeProto.GRAPHS:
        return [graph.SerializeToString() for graph in attribute.graphs]
    if kind == AttributeProto.STRING:
        return _text(attribute.s)
    if kind == AttributeProto.STRINGS:
        return [_text(item) for item in attribute.strings]
    if kind in (AttributeProto.INT, AttributeProto.FLOAT):
        return helper.get_attribute_value(attribute)
    if kind in (AttributeProto.INTS, AttributeProto.FLOATS):
        return list(helper.get_attribute_value(attribute))
    value = helper.get_attribute_value(attribute)
    if isinstance(value, (list, tuple)):
        return [item.SerializeToString() for item in value]
    return value.SerializeToString()


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
