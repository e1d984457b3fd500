"""Refuses models with tensors of negative size, some of which make ONNX's shape inference abort the
process."""

from collections.abc import Mapping

import onnx
from onnx import TensorProto, TypeProto, inliner

from npuviz.base.errors import FormatError
from npuviz.base.names import echo
from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, open_hint
from npuviz.onnx.parameters import all_nodes, subgraphs

_ENDS = frozenset({"Slice"})
"""Operators for which ONNX 1.23 aborts the process if a dimension is negative (a failed assertion in
std::clamp); all others pass negative sizes on."""
_NEVER_NEGATIVE = {"GatherND": "batch_dims"}
"""Operator -> attribute whose negative values also make ONNX abort (an access out of bounds)."""


def refuse_deadly_sizes(draft: Draft) -> None:
    """Refuse a negative size in a model with operators for which shape inference would abort the process.

    Negative sizes result from a window larger than its input, or from negative padding of more than the input
    has, often because an open dimension was assumed to be 1. Branches are checked too. Raises FormatError
    that names the operator, its inputs and the dimensions to set.
    """
    nodes = [*all_nodes(draft.proto.graph), *(n for each in draft.proto.functions for n in each.node)]
    for node in nodes:
        name = _NEVER_NEGATIVE.get(node.op_type)
        found = next((each.i for each in node.attribute if each.name == name), 0) if name else 0
        if found < 0:
            where = f"node {echo(node.name or node.op_type)}"
            raise FormatError(draft.path, field=where, expected=f"{name} of at least 0", found=str(found))
    if any(node.op_type in _ENDS for node in nodes):
        _refuse(draft, with_branches=True)


def refuse_negative_sizes(draft: Draft) -> None:
    """Refuse a negative size in the main graph. Raises FormatError as `refuse_deadly_sizes` does."""
    _refuse(draft, with_branches=False)


def _refuse(draft: Draft, with_branches: bool) -> None:
    proto = draft.proto
    with reading(draft.path, "shape inference"):
        if proto.functions:
            proto = inliner.inline_local_functions(proto)
        versions = {opset.domain: opset.version for opset in proto.opset_import}
        found = _Sizes(versions, with_branches).negative(proto.graph, {})
    if found is None:
        return
    node, inputs, output = found
    raise FormatError(
        draft.path,
        field=f"node {echo(node.name or node.output[0])}",
        expected=f"inputs of which {node.op_type} leaves something",
        found=f"{' and '.join(inputs)}, of which {output} is left",
        hint=open_hint(draft.assumptions) or "the sizes are those of the file: export it with a larger input",
    )


_Found = tuple[onnx.NodeProto, list[str], str]
"""Operator that makes a negative size, its inputs and that output as text."""


class _Sizes:
    """Infers shapes operator by operator, to find the first negative size.

    versions       of the operator sets, by domain
    with_branches  also look into subgraphs of operators, where only a negative size that reaches an operator
                   for which ONNX aborts counts: a branch that never runs may hold sizes that make no sense
    """

    def __init__(self, versions: Mapping[str, int], with_branches: bool) -> None:
        self._versions, self._with_branches = versions, with_branches
        self._first: _Found | None = None

    def negative(
        self, graph: onnx.GraphProto, outer: Mapping[str, TypeProto], is_branch: bool = False
    ) -> _Found | None:
        """Return the first operator of a graph with a negative size, and its inputs and output as text; None
        if there is none.

        outer  types of the tensors of the surrounding graph; is_branch  the graph is one of a node's
        """
        types = dict(outer)
        values = {tensor.name: tensor for tensor in graph.initializer}
        types |= {name: _type_of(tensor) for name, tensor in values.items()}
        types |= {value.name: value.type for value in graph.input}
        for node in graph.node:
            if node.op_type in _ENDS and any(
                _is_negative(types[name]) for name in node.input if name in types
            ):
                return self._first
            for inner in subgraphs(node) if self._with_branches else ():
                found = self.negative(inner, types, is_branch=True)
                if found is not None:
                    return found
            outputs = self._outputs(node, types, values)
            left = next((name for name, kind in outputs.items() if _is_negative(kind)), None)
            if left is not None:
                read = [f"{echo(each)} of {_text(types[each])}" for each in node.input if each in types]
                made = node, read, f"{echo(left)} of {_text(outputs[left])}"
                self._first = self._first or made
                if not is_branch:
                    return made
            types |= outputs
        return None

    def _outputs(
        self, node: onnx.NodeProto, types: Mapping[str, TypeProto], values: dict[str, TensorProto]
    ) -> dict[str, TypeProto]:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensor = values[node.output[0]] = node.attribute[0].t
            return {node.output[0]: _type_of(tensor)}
        read = [name for name in node.input if name]
        if node.domain not in self._versions or any(name not in types for name in read):
            return {}
        try:
            schema = onnx.defs.get_schema(node.op_type, self._versions[node.domain], node.domain)
            return onnx.shape_inference.infer_node_outputs(
                schema, node, {name: types[name] for name in read},
                {name: values[name] for name in read if name in values},
            )  # fmt: skip
        except (onnx.defs.SchemaError, onnx.shape_inference.InferenceError, RuntimeError):
            # The error is reported by shape inference of the whole model.
            return {}


def _type_of(tensor: TensorProto) -> TypeProto:
    return onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))


def _dims(kind: TypeProto) -> list[onnx.TensorShapeProto.Dimension]:
    return list(kind.tensor_type.shape.dim) if kind.HasField("tensor_type") else []


def _is_negative(kind: TypeProto) -> bool:
    return any(dim.HasField("dim_value") and dim.dim_value < 0 for dim in _dims(kind))


def _text(kind: TypeProto) -> str:
    return "x".join(str(dim.dim_value) if dim.HasField("dim_value") else "?" for dim in _dims(kind)) or "()"
