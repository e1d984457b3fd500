"""Replaces nodes of a graph by the function bodies of their operators.

The result is a new graph with newly inferred shapes and a new `source`, so that the reference execution also
knows the tensors inside of a body.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TypeProto, numpy_helper

from npuviz.base.reading import reading
from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.graph import make_graph
from npuviz.onnx.node_order import replace_nodes
from npuviz.onnx.passes.contrib.writer import opset_of
from npuviz.onnx.passes.functions import function_of, has_function, instantiate
from npuviz.onnx.passes.optimization import optimize
from npuviz.onnx.passes.own_bodies.bodies import USED_OPSET, has_own_body, own_body
from npuviz.onnx.passes.unrolling import LOOPS, unroll
from npuviz.onnx.shape_inference import infer_shapes
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor


def can_expand(graph: Graph, node: Node, is_precise: bool = False) -> bool:
    """Return whether the operator may have a body, of the standard or of `own_bodies`, or is a loop that may
    be unrolled.

    is_precise  whether the machine computes in fp32
    """
    if has_own_body(graph, node, is_precise) or (node.op_type in LOOPS and not node.domain):
        return bool(graph.source)
    proto = NodeProto(op_type=node.op_type, domain=node.domain)
    return bool(graph.source) and has_function(proto, _opsets(graph))


def expand_nodes(graph: Graph, nodes: Collection[int]) -> Graph | None:
    """Return the graph with the given nodes (by id) replaced by bodies, constants folded; None if none has
    one.

    The nodes of a body are named after the node they come from: "conv_7/Mul_2". Ids of nodes and
    tensors are new; tensors that remain keep their names. Raises FormatError if the shapes of the new graph
    cannot be inferred.
    """
    if not graph.source or not nodes:
        return None
    path = Path(graph.name or "model")
    draft = draft_of(graph, path)
    proto = draft.proto.graph
    if len(proto.node) != len(graph.nodes):
        return None
    made: list[NodeProto] = []
    expanded = 0
    with reading(path, "function bodies"):
        for node, source in zip(graph.nodes, proto.node, strict=True):
            inside = _body_of(graph, node, source, draft) if node.id in nodes else None
            made += [source] if inside is None else inside
            expanded += inside is not None
        if not expanded:
            return None
        replace_nodes(proto, made)
    # Without the metadata (KEEP_NODES), so that constants in the bodies are folded.
    del draft.proto.metadata_props[:]
    draft = optimize(draft)
    shapes = infer_shapes(draft)
    with reading(path, "graph"):
        return replace(make_graph(draft, shapes, {}), file=graph.file)


def _body_of(graph: Graph, node: Node, source: NodeProto, draft: Draft) -> list[NodeProto] | None:
    proto = NodeProto()
    proto.CopyFrom(source)
    proto.name = node.name
    if node.op_type in LOOPS:
        return _turns_of(graph, proto, draft)
    if has_own_body(graph, node, is_precise=True):
        return _own_body_of(graph, node, proto, draft)
    types = [
        type_of(graph.tensors[tensor]) if tensor >= 0 else TypeProto()
        for tensor in node.inputs[: len(source.input)]
    ]
    opsets = _opsets(graph)
    function = function_of(proto, opsets, types)
    return None if function is None else instantiate(proto, function, node.name, opsets)


def _own_body_of(graph: Graph, node: Node, source: NodeProto, draft: Draft) -> list[NodeProto] | None:
    opset = opset_of(draft.proto)
    done = own_body(graph, node, source, opset or USED_OPSET)
    if done is None:
        return None
    if not opset:
        draft.proto.opset_import.append(onnx.helper.make_opsetid("", USED_OPSET))
    _store(draft, done.weights)
    return done.nodes


def _store(draft: Draft, weights: Mapping[str, np.ndarray]) -> None:
    """Store the constants that new nodes read."""
    for name, array in weights.items():
        draft.weights[name] = array
        draft.proto.graph.initializer.append(numpy_helper.from_array(array, name))


def _turns_of(graph: Graph, loop: NodeProto, draft: Draft) -> list[NodeProto] | None:
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}
    done = unroll(loop, _opsets(graph).get("", 0), shapes.get, draft.weights.get)
    if done is None:
        return None
    _store(draft, done[1])
    return done[0]


def type_of(tensor: Tensor) -> TypeProto:
    """Return the type of a tensor in the words of ONNX."""
    if tensor.dtype in ("opaque", "string"):
        kind = onnx.TensorProto.STRING if tensor.dtype == "string" else onnx.TensorProto.UNDEFINED
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(tensor.dtype))
    return onnx.helper.make_tensor_type_proto(kind, list(tensor.shape))


def _opsets(graph: Graph) -> dict[str, int]:
    return {"" if domain == "ai.onnx" else domain: version for domain, version in graph.opsets.items()}


def draft_of(graph: Graph, path: Path) -> Draft:
    """Return the draft of the model that a graph was made from; its nodes are those of the graph, in
    order."""
    with reading(path, "source"):
        model = onnx.ModelProto.FromString(graph.source)
    proto = model.graph
    weights = {
        graph.tensors[tensor].name: array
        for tensor, array in graph.constants.items()
        if graph.tensors[tensor].kind == "weight"
    }
    # Light weights are ConstantOfShape nodes in the source; here they are weights again.
    replace_nodes(
        proto, (node for node in proto.node if not (len(node.output) == 1 and node.output[0] in weights))
    )
    del proto.initializer[:]
    for name, array in weights.items():
        declare_weight(proto, name, array)
    return Draft(path, model, weights, list(graph.assumptions))
