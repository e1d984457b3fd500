"""Removal of what no machine should run: functions, constants, identities, batch normalisation.

Here is what needs no library; the library passes are in `onnx_passes`, which takes half a second to
import and is therefore imported only for models that need it.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from npuviz.formats.onnx_draft import MAX_TENSOR_ELEMENTS, Draft, foreign_errors, names_read

# Operators that a pass may replace or remove. Anything else changes only when all its inputs are known.
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

KEEP_NODES = ("npuviz.optimize", "none")
"""Key and value of a model's metadata: its nodes are to run as they are, also those that only read
weights. A conformance test of one operator needs it."""


def uniform_weights(proto: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ConstantOfShape nodes over stored shapes, as arrays of zero strides, in node order.

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
        count = 1
        for dim in dims:
            count *= dim
        if min(dims, default=0) < 0 or count > MAX_TENSOR_ELEMENTS:
            continue
        value = np.zeros(1, np.float32)
        for attribute in node.attribute:
            if attribute.name == "value":
                value = numpy_helper.to_array(attribute.t).reshape(-1)
        if value.size == 1:
            found[node.output[0]] = np.broadcast_to(value[0], dims)
    return found


def optimize(draft: Draft) -> Draft:
    """A new draft with the same results and fewer nodes. The given draft is used up.

    A model whose metadata has KEEP_NODES is returned as it is.
    """
    if KEEP_NODES in [(item.key, item.value) for item in draft.proto.metadata_props]:
        return draft
    with foreign_errors(draft.path, "optimisation"):
        outputs = {value.name for value in draft.proto.graph.output}
        found = uniform_weights(draft.proto, draft.weights).items()
        light = {name: array for name, array in found if name not in outputs}
        _drop_producers(draft.proto.graph, light)
        draft.weights.update(light)
        _drop_unread_weights(draft)
    if _is_plain(draft):
        return draft
    from npuviz.formats.onnx_passes import run_passes

    return run_passes(draft)


def _is_plain(draft: Draft) -> bool:
    """Whether no pass would change anything."""
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
    """Make inputs of what ConstantOfShape nodes produced; as initialisers their values are known."""
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.op_type == "ConstantOfShape" and node.output[0] in light:
            array = light[node.output[0]]
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], kind, array.shape))
            del graph.node[index]
