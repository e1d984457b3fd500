"""Removes functions, constant nodes, identities and batch normalisation, which no machine should run.

This file has the passes that need no library; the others are in `library`, which takes half a second to
import and is therefore imported only for models that need it.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from npuviz.base.late_module import late_module
from npuviz.base.reading import reading
from npuviz.onnx.draft import KEPT_WEIGHT_BYTES, Draft, declare_weight
from npuviz.onnx.node_order import names_read
from npuviz.onnx.passes.empty_parts import drop_empty_parts
from npuviz.onnx.passes.looked_up import read_rows_first
from npuviz.onnx.passes.unrolling import unroll_model
from npuviz.onnx.passes.weight_moves import moved_weights
from npuviz.onnx.passes.weight_values import weight_values
from npuviz.onnx.stored_tensors import MAX_TENSOR_ELEMENTS

# Operators that a pass may replace or remove. Others change only if all their inputs are constant.
_REPLACEABLE = frozenset(
    {
        "BatchNormalization",
        "Cast",
        "CastLike",
        "Constant",
        "Dropout",
        "Expand",
        "Identity",
        "If",
        "Loop",
        "Scan",
        "SequenceAt",
        "Shape",
        "Size",
        "SplitToSequence",
    }
)

MAX_COUNT = 1 << 16
"""Most elements of a Range that is folded."""
MAX_ROUNDS = 4
"""Most rounds of passes: each round unrolls one level of nested loops."""
KEEP_NODES = ("npuviz.optimize", "none")
"""Key and value of a model's metadata that keep its nodes unchanged, also those that only read weights; for
conformance tests of single operators."""


def uniform_weights(proto: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of ConstantOfShape nodes with constant shapes, as arrays of zero strides, in node
    order.

    This is how light models store weights: the values take no memory.
    """
    found: dict[str, np.ndarray] = {}
    for node in proto.graph.node:
        if node.op_type != "ConstantOfShape" or node.domain not in ("", "ai.onnx"):
            continue
        shape = weights.get(node.input[0])
        if shape is None:
            continue
        dims = tuple(int(dim) for dim in shape.reshape(-1))
        if min(dims, default=0) < 0 or math.prod(dims) > MAX_TENSOR_ELEMENTS:
            continue
        value = np.zeros(1, np.float32)
        for attribute in node.attribute:
            if attribute.name == "value":
                value = numpy_helper.to_array(attribute.t).reshape(-1)
        if value.size == 1:
            found[node.output[0]] = np.broadcast_to(value[0], dims)
    return found


def keeps_nodes(draft: Draft) -> bool:
    """Return whether the model's metadata has KEEP_NODES."""
    return KEEP_NODES in [(item.key, item.value) for item in draft.proto.metadata_props]


def optimize(draft: Draft, *, float_weights: bool = False) -> Draft:
    """Return a draft with the same results and fewer nodes. The given draft may be changed: do not use it
    afterwards.

    float_weights  store weights behind DequantizeLinear as dequantised floats
    A model whose metadata has KEEP_NODES is returned as it is.
    """
    if keeps_nodes(draft):
        return draft
    with reading(draft.path, "optimisation"):
        outputs = {value.name for value in draft.proto.graph.output}
        found = uniform_weights(draft.proto, draft.weights).items()
        light = {name: array for name, array in found if name not in outputs}
        _drop_producers(draft.proto.graph, light)
        draft.weights.update(light)
        _drop_unread_weights(draft)
    if _is_plain(draft):
        return draft
    # Onnx-ir needs sympy for arithmetic of symbolic dimensions only; it takes as long to import as the rest.
    with late_module("sympy"):
        from npuviz.onnx.passes.library import run_passes

    for _ in range(MAX_ROUNDS):
        draft = run_passes(draft)
        with reading(draft.path, "optimisation"):
            if not _write_out(draft, float_weights):
                break
    if not float_weights:
        with reading(draft.path, "optimisation"):
            read_rows_first(draft)
    return draft


def _write_out(draft: Draft, float_weights: bool) -> bool:
    """Unroll loops, fold constant nodes the library leaves, drop empty parts. Returns whether it changed."""
    has_dropped = drop_empty_parts(draft)
    graph = draft.proto.graph
    outputs = {value.name for value in graph.output}
    known = {**_known_pieces(draft), **moved_weights(draft), **_widened(draft, float_weights)}
    known |= weight_values(draft)
    made = {name: array for name, array in known.items() if name not in outputs}
    for index in reversed(range(len(graph.node))):
        if graph.node[index].output and all(not name or name in made for name in graph.node[index].output):
            del graph.node[index]
    made.update(unroll_model(draft.proto, draft.weights))
    for name, array in made.items():
        declare_weight(graph, name, array)
    draft.weights.update(made)
    return bool(made) or has_dropped


def _known_pieces(draft: Draft) -> dict[str, np.ndarray]:
    """Compute the results of ConstantOfShape, Range and Split nodes whose inputs are all weights."""
    found = uniform_weights(draft.proto, draft.weights)
    for node in draft.proto.graph.node:
        if node.op_type not in ("Split", "Range") or node.domain not in ("", "ai.onnx"):
            continue
        given = [draft.weights[name] for name in node.input if name in draft.weights]
        if len(given) != len(node.input) or given[0].nbytes > KEPT_WEIGHT_BYTES:
            continue
        parts = _counted(given) if node.op_type == "Range" else _cut(node, given)
        found.update({name: part for name, part in zip(node.output, parts, strict=False) if name})
    return found


_ON_WEIGHTS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add, "Mul": np.multiply, "Sub": np.subtract,
}  # fmt: skip
"""Operators that NumPy rounds as ONNX Runtime does, for float32."""


def _widened(draft: Draft, float_weights: bool) -> dict[str, np.ndarray]:
    """Compute the results of Cast nodes from integer weights to float32, and of sums and products of these
    with other weights, of any size: the library folds small ones only.

    float_weights  also compute DequantizeLinear nodes
    """
    found: dict[str, np.ndarray] = {}
    for node in draft.proto.graph.node:
        names = [name for name in node.input if name in draft.weights or name in found]
        if node.domain not in ("", "ai.onnx") or not names or len(names) < len(node.input):
            continue
        given = [found[name] if name in found else draft.weights[name] for name in names]
        if node.op_type == "Cast":
            kind = next(item.i for item in node.attribute if item.name == "to")
            if given[0].dtype.kind in "iu" and given[0].dtype.itemsize < 4 and kind == onnx.TensorProto.FLOAT:
                found[node.output[0]] = given[0].astype(np.float32)
        elif node.op_type == "DequantizeLinear" and float_weights:
            made = _dequantised(node, given)
            if made is not None:
                found[node.output[0]] = made
        elif node.op_type in _ON_WEIGHTS and any(name in found for name in names):
            one, other = given
            shape = np.broadcast_shapes(one.shape, other.shape)
            if one.dtype == other.dtype == np.float32 and shape in (one.shape, other.shape):
                found[node.output[0]] = _ON_WEIGHTS[node.op_type](one, other)
    return found


def _dequantised(node: onnx.NodeProto, given: Sequence[np.ndarray]) -> np.ndarray | None:
    """Compute DequantizeLinear with one scale, or one per index of an axis; None for other forms."""
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    stored, scale, *points = given
    axis = int(attributes.get("axis", 1))
    if stored.dtype.kind not in "iu" or scale.dtype != np.float32 or attributes.get("block_size"):
        return None
    shape = [1] * stored.ndim
    if scale.size > 1:
        if scale.ndim != 1 or not -stored.ndim <= axis < stored.ndim or stored.shape[axis] != scale.size:
            return None
        shape[axis] = scale.size
    whole = stored.astype(np.int64)
    if points:
        whole -= points[0].astype(np.int64).reshape(shape if points[0].size > 1 else ())
    return whole.astype(np.float32) * scale.reshape(shape if scale.size > 1 else ())


def _counted(given: list[np.ndarray]) -> list[np.ndarray]:
    """Compute Range, whose inputs may be scalars or have one element. Returns [] if the result is too
    long."""
    start, limit, step = (array.reshape(-1)[0] for array in given)
    count = np.ceil((np.float64(limit) - np.float64(start)) / np.float64(step)) if step else np.inf
    if not count <= MAX_COUNT:
        return []
    return [(start + np.arange(max(0, int(count))).astype(given[0].dtype) * step).astype(given[0].dtype)]


def _cut(node: onnx.NodeProto, given: list[np.ndarray]) -> list[np.ndarray]:
    """Compute the results of Split."""
    attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
    axis = int(attributes.get("axis", 0))
    sizes = given[1] if len(given) > 1 else attributes.get("split")
    if sizes is None:
        each = -(-given[0].shape[axis] // len(node.output))
        sizes = np.minimum(each, given[0].shape[axis] - each * np.arange(len(node.output)))
    return np.split(given[0], np.cumsum(np.asarray(sizes))[:-1], axis)


def _is_plain(draft: Draft) -> bool:
    """Return whether the library's passes would change nothing."""
    if draft.proto.functions:
        return False
    read = names_read(draft.proto.graph)
    for node in draft.proto.graph.node:
        if node.op_type in _REPLACEABLE or not any(name in read for name in node.output):
            return False
        if all(name in draft.weights for name in node.input if name):
            return False
    return True


def _drop_unread_weights(draft: Draft) -> None:
    graph = draft.proto.graph
    read = names_read(graph)
    unread = {name for name in draft.weights if name not in read}
    for values in (graph.initializer, graph.input):
        for index in reversed(range(len(values))):
            if values[index].name in unread:
                del values[index]
    for name in unread:
        del draft.weights[name]


def _drop_producers(graph: onnx.GraphProto, light: Mapping[str, np.ndarray]) -> None:
    """Replace ConstantOfShape nodes by graph inputs; their values become weights."""
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.op_type == "ConstantOfShape" and node.output[0] in light:
            array = light[node.output[0]]
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], kind, array.shape))
            del graph.node[index]
