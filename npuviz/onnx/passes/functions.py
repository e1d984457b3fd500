"""Function bodies of ONNX operators: an operator written with other operators.

The standard defines some operators by such a body, fixed or made for given input types. Here a body is
taken from the library and its names are bound to those of one call.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

MAX_BODY_NODES = 4096


def schema_of(node: NodeProto, opsets: Mapping[str, int]) -> Any:
    """Return the schema (onnx.defs.OpSchema, whose stubs lack functions) of an operator, None if it has
    none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, opsets.get("ai.onnx", 0) if not domain else 0)
    try:
        return onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def has_function(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Return whether the standard defines the operator by a body, which may still not fit a given call."""
    schema = schema_of(node, opsets)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def function_of(
    node: NodeProto, opsets: Mapping[str, int], input_types: Sequence[TypeProto]
) -> FunctionProto | None:
    """Return the function body for one call, None if there is none for the model's operator set.

    input_types  one for each input, an empty TypeProto for an absent one
    """
    schema = schema_of(node, opsets)
    if schema is None:
        return None
    wanted = opsets.get(schema.domain, opsets.get("ai.onnx", 0))
    for version in sorted(schema.all_function_opset_versions, reverse=True):
        if version > wanted:
            continue
        body = FunctionProto()
        if version in schema.function_opset_versions:
            body.ParseFromString(schema.get_function_with_opset_version(version))
        else:
            types = [kind.SerializeToString() for kind in input_types]
            made = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
            if not made:
                continue
            body.ParseFromString(made)
        if 0 < len(body.node) <= MAX_BODY_NODES and _fits(body.node, opsets):
            return body
    return None


def _fits(nodes: Sequence[NodeProto], opsets: Mapping[str, int]) -> bool:
    """Return whether the model's operator set has each operator of a body, with its inputs and attributes.

    A body may be older than the model: between the two, attributes may have become inputs.
    """
    for node in nodes:
        schema = schema_of(node, opsets)
        if schema is None or not schema.min_input <= len(node.input) <= schema.max_input:
            return False
        if any(attribute.name not in schema.attributes for attribute in node.attribute):
            return False
    return True


def instantiate(
    node: NodeProto, body: FunctionProto, name: str, opsets: Mapping[str, int]
) -> list[NodeProto]:
    """Return the nodes of a body with the tensors and attributes of a call.

    name  prefix of the new nodes and of the tensors between them
    """
    schema = schema_of(node, opsets)
    attributes = {attribute.name: attribute for attribute in body.attribute_proto}
    if schema is not None:
        for key, declared in schema.attributes.items():
            if declared.default_value.type != AttributeProto.UNDEFINED:
                attributes.setdefault(key, declared.default_value)
    attributes.update({attribute.name: attribute for attribute in node.attribute})
    names = dict.fromkeys(body.input, "")
    names.update(zip(body.input, node.input, strict=False))
    names.update({formal: f"{name}/{formal}" for formal in body.output})
    names.update({formal: actual for formal, actual in zip(body.output, node.output, strict=False) if actual})
    names[""] = ""
    return bind_nodes(body.node, names, attributes, name)


def bind_nodes(
    nodes: Sequence[NodeProto], names: dict[str, str], attributes: Mapping[str, AttributeProto], prefix: str
) -> list[NodeProto]:
    """Copy nodes, with prefixed names of nodes and renamed tensors.

    names       tensor of the source -> tensor of the copy; results of the nodes are added to it
    attributes  attributes of the call, to which attributes of the nodes may refer
    """
    bound: list[NodeProto] = []
    for index, source in enumerate(nodes):
        node = NodeProto(op_type=source.op_type, domain=source.domain)
        node.name = f"{prefix}/{source.name or f'{source.op_type}_{index}'}"
        node.input.extend(names.get(item, item) for item in source.input)
        for item in source.output:
            names.setdefault(item, f"{prefix}/{item}")
        node.output.extend(names[item] for item in source.output)
        for attribute in source.attribute:
            _bind_attribute(node, attribute, names, attributes)
        bound.append(node)
    return bound


def _bind_attribute(
    node: NodeProto,
    attribute: AttributeProto,
    names: Mapping[str, str],
    attributes: Mapping[str, AttributeProto],
) -> None:
    if attribute.ref_attr_name:
        # An attribute that the call leaves out is also left out in the body.
        if attribute.ref_attr_name in attributes:
            made = node.attribute.add()
            made.CopyFrom(attributes[attribute.ref_attr_name])
            made.name = attribute.name
        return
    made = node.attribute.add()
    made.CopyFrom(attribute)
    if attribute.type == AttributeProto.GRAPH:
        made.g.CopyFrom(_bind_graph(attribute.g, names, attributes, f"{node.name}/{attribute.name}"))
    elif attribute.type == AttributeProto.GRAPHS:
        del made.graphs[:]
        made.graphs.extend(
            _bind_graph(graph, names, attributes, f"{node.name}/{attribute.name}")
            for graph in attribute.graphs
        )


def _bind_graph(
    graph: GraphProto, names: Mapping[str, str], attributes: Mapping[str, AttributeProto], prefix: str
) -> GraphProto:
    """Copy a subgraph of a body, with a prefix that keeps its own names distinct from those of the model."""
    inner = dict(names)
    bound = GraphProto()
    bound.CopyFrom(graph)
    for value in (*bound.input, *bound.initializer):
        inner[value.name] = f"{prefix}/{value.name}"
        value.name = inner[value.name]
    nodes = bind_nodes(graph.node, inner, attributes, prefix)
    del bound.node[:]
    bound.node.extend(nodes)
    for value in bound.output:
        value.name = inner.get(value.name, value.name)
    for value in bound.value_info:
        value.name = inner.get(value.name, value.name)
    return bound
