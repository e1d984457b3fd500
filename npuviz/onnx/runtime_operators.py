"""Registers operators that ONNX Runtime adds to the standard's domain with the onnx library.

Exporters for the runtime write some of them (SimplifiedLayerNormalization, LayerNormalization before
operator set 17), and the onnx library refuses operators that it does not know.
"""

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import AttributeProto, defs

from npuviz.onnx.parameters import subgraphs


def learn_operators(model: onnx.ModelProto) -> None:
    """Register the unknown operators of a model with the onnx library, from the schemas of ONNX Runtime."""
    version = standard_version(model)
    names = {node.op_type for node in _undefined(model)}
    if not names:
        return
    from npuviz.onnx.runtime import operator_schemas

    for schema in operator_schemas():
        if schema.name in names and schema.domain in ("", "ai.onnx") and schema.since_version <= version:
            _register(schema)


def standard_version(model: onnx.ModelProto) -> int:
    """Return the version of the standard's operators that a model imports, 0 for none. Of several the onnx
    library takes the last one."""
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    return versions[-1] if versions else 0


def undefined_operator(model: onnx.ModelProto) -> tuple[str, str, int]:
    """Return name, operator and the version that has it (0: none) of the first node of the standard's domain
    whose operator the onnx library does not know in the model's version; ("", "", 0) if there is none."""
    node = next(_undefined(model), None)
    if node is None:
        return "", "", 0
    name = node.name or next(filter(None, node.output), "")
    since = defs.get_schema(node.op_type, "").since_version if defs.has(node.op_type, "") else 0
    return name or node.op_type, node.op_type, since


def unknown_operator(model: onnx.ModelProto) -> tuple[str, str]:
    """Return the name and operator of the first node whose operator is defined nowhere; ("", "") if there is
    none."""
    own = {(function.domain, function.name) for function in model.functions}
    foreign = [
        (number, node)
        for number, node in enumerate(model.graph.node)
        if node.domain not in ("", "ai.onnx") and (node.domain, node.op_type) not in own
    ]
    foreign = [each for each in foreign if not defs.has(each[1].op_type, each[1].domain)]
    if not foreign:
        return "", ""
    from npuviz.onnx.runtime import operator_schemas

    known = {(schema.domain, schema.name) for schema in operator_schemas()}
    for number, node in foreign:
        if (node.domain, node.op_type) not in known:
            return node.name or f"{node.op_type}_{number}", f"{node.domain}.{node.op_type}"
    return "", ""


def _undefined(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the standard's domain, also in subgraphs, whose operator the onnx library does not
    know in the model's version."""
    version = standard_version(model)
    own = {function.name for function in model.functions if function.domain in ("", "ai.onnx")}

    def undefined(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
        for node in graph.node:
            is_standard = node.domain in ("", "ai.onnx") and node.op_type not in own
            if is_standard and not defs.has(node.op_type, version, ""):
                yield node
            for inner in subgraphs(node):
                yield from undefined(inner)

    return undefined(model.graph)


def _register(schema: Any) -> None:
    """Register a schema of the runtime (it has no stubs) with the onnx library, without shape inference."""
    if defs.has(schema.name, schema.since_version, ""):
        return
    defs.register_schema(
        defs.OpSchema(
            schema.name,
            "",
            schema.since_version,
            schema.doc or "",
            inputs=[_parameter(each) for each in schema.inputs],
            outputs=[_parameter(each) for each in schema.outputs],
            type_constraints=[
                (each.type_param_str, list(each.allowed_type_strs), "") for each in schema.type_constraints
            ],
            attributes=[_attribute(each) for each in schema.attributes.values()],
        )
    )


def _parameter(found: Any) -> defs.OpSchema.FormalParameter:
    option = getattr(defs.OpSchema.FormalParameterOption, found.option.name)
    return defs.OpSchema.FormalParameter(found.name, found.typeStr, "", param_option=option)


def _attribute(found: Any) -> defs.OpSchema.Attribute:
    value = AttributeProto.FromString(getattr(found, "_default_value", b""))
    if value.name:
        return defs.OpSchema.Attribute(found.name, value, "")
    kind = getattr(defs.OpSchema.AttrType, found.type.name)
    return defs.OpSchema.Attribute(found.name, kind, "", required=found.required)
