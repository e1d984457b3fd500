"""Finds the body of an operator for which the standard defines none: by a rule, or because it is known."""

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer
from npuviz.onnx.passes.own_bodies.branches import write_if
from npuviz.onnx.passes.own_bodies.determinant import write_det
from npuviz.onnx.passes.own_bodies.images import (
    write_affine,
    write_crop,
    write_image_scaler,
    write_instance_normalization,
)
from npuviz.onnx.passes.own_bodies.resizing import write_resize
from npuviz.onnx.passes.own_bodies.trees import write_tree_ensemble
from npuviz.onnx.semantics.operators import RANDOM
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node

MAX_KNOWN_ELEMENTS = 1 << 20
"""Most elements of a result that is computed when compiling."""
USED_OPSET = 18
"""Version of the standard's operators in a model that names none."""


def write_array_feature_extractor(writer: Writer, node: NodeProto) -> None:
    """Rewrite ArrayFeatureExtractor: columns by number."""
    del node
    source, numbers = writer.given(0), writer.given(1)
    shape = writer.shape(source)
    made = writer.shape(writer.wanted(0))
    count = int(np.prod(writer.shape(numbers)))
    rows = writer.reshape(source, (1, *shape)) if len(shape) == 1 else source
    if not made or made[-1] != count:
        raise CannotWrite
    found = writer.add("Gather", [rows, writer.reshape(numbers, (count,))], axis=-1)
    writer.reshape(found, made, writer.wanted(0))


Write = Callable[[Writer, NodeProto], None]
_STANDARD: Mapping[str, Write] = {
    "Affine": write_affine,
    "Crop": write_crop,
    "Det": write_det,
    "If": write_if,
    "ImageScaler": write_image_scaler,
    "InstanceNormalization": write_instance_normalization,
    "Resize": write_resize,
    "Upsample": write_resize,
}
_TABULAR: Mapping[str, Write] = {
    "ArrayFeatureExtractor": write_array_feature_extractor,
    "TreeEnsemble": write_tree_ensemble,
}
_DOMAINS: Mapping[str, Mapping[str, Write]] = {"": _STANDARD, "ai.onnx": _STANDARD, "ai.onnx.ml": _TABULAR}
PRECISE = frozenset(("Det", "TreeEnsemble"))
"""Operators that compute something else where numbers are coarser than in the model: for machines in fp32."""
_NO_NUMBERS = ("string", "opaque")


def has_own_body(graph: Graph, node: Node, is_precise: bool) -> bool:
    """Return whether `own_body` may have one. is_precise  whether the machine computes in fp32"""
    if node.op_type in PRECISE and not is_precise:
        return False
    return node.op_type in _DOMAINS.get(node.domain, {}) or _is_known(graph, node)


def own_body(graph: Graph, node: Node, source: NodeProto, opset: int) -> Writer | None:
    """Return the nodes of a body and the constants that they read; None if there is none for this call.

    source  the node, as the model has it;  opset  version of the standard's operators
    """
    types = {
        tensor.name: (helper.np_dtype_to_tensor_dtype(numpy_dtype(tensor.dtype)), tensor.shape)
        for tensor in graph.tensors
        if tensor.dtype not in _NO_NUMBERS
    }
    weights = {graph.tensors[index].name: array for index, array in graph.constants.items()}
    writer = Writer(types, weights, opset, {})
    writer.begin(source, node.name)
    try:
        if _is_known(graph, node):
            _write_known(writer, graph, node)
            return writer
        _DOMAINS[node.domain][node.op_type](writer, source)
    except (CannotWrite, FormatError):
        return None
    return writer


def _is_known(graph: Graph, node: Node) -> bool:
    """Return whether a node computes the same small numbers in each run."""
    results = [graph.tensors[tensor] for tensor in node.outputs if tensor >= 0]
    return (
        all(tensor < 0 or tensor in graph.constants for tensor in node.inputs)
        and node.op_type not in RANDOM
        and not any(isinstance(value, bytes) and value for value in node.attributes.values())
        and all(tensor.dtype not in _NO_NUMBERS for tensor in results)
        and sum(tensor.num_elements for tensor in results) <= MAX_KNOWN_ELEMENTS
    )


def _write_known(writer: Writer, graph: Graph, node: Node) -> None:
    """Write the results of a node as constants. Raises FormatError if it cannot be computed."""
    arrays = {tensor: np.asarray(graph.constants[tensor], order="C") for tensor in node.inputs if tensor >= 0}
    for tensor, values in run_node(graph, node, arrays).items():
        found = graph.tensors[tensor]
        writer.weights[found.name] = np.asarray(values).reshape(found.shape)
