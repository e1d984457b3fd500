"""Joins a draft to one ModelProto again, for reference execution.

Three ways to keep a weight: a repeated value becomes a ConstantOfShape node (the light form), small
models carry their weights, and beyond INLINE_BYTES the weights are named as external data that
`reference` takes from the graph's constants, so they are never held twice.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.draft import KEPT_WEIGHT_BYTES, Draft
from npuviz.onnx.semantics.long_lists import put_back_lists

INLINE_BYTES = 64 << 20
# The `location` of a weight that is kept in the graph's constants.
ELSEWHERE = "npuviz-constants"
_SHAPE_SUFFIX = "__npuviz_shape"


def is_uniform(array: np.ndarray) -> bool:
    """Return whether an array is one value repeated by zero strides."""
    return array.size > 1 and not any(array.strides)


def complete_model(draft: Draft) -> onnx.ModelProto:
    """Return a copy of the light model with its weights, each in one of the three ways above, and its long
    lists."""
    model, weights = onnx.ModelProto(), draft.weights
    model.CopyFrom(draft.proto)
    graph = model.graph
    put_back_lists(graph, draft.lists)
    kept = {tensor.name for tensor in graph.initializer}
    missing = {name: array for name, array in weights.items() if name not in kept}
    for index in reversed(range(len(graph.input))):
        if graph.input[index].name in weights:
            del graph.input[index]
    total = sum(array.nbytes for array in missing.values() if not is_uniform(array))
    nodes = list(graph.node)
    light: list[onnx.NodeProto] = []
    for name, array in missing.items():
        if is_uniform(array) and array.nbytes > KEPT_WEIGHT_BYTES:
            light.append(_light_weight(graph, name, array))
        elif total > INLINE_BYTES and array.nbytes > KEPT_WEIGHT_BYTES:
            graph.initializer.append(_named_elsewhere(name, array))
        else:
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
    if light:
        del graph.node[:]
        graph.node.extend([*light, *nodes])
    # Initialisers that are no inputs need IR version 4.
    model.ir_version = max(model.ir_version, 4)
    return model


def _light_weight(graph: onnx.GraphProto, name: str, array: np.ndarray) -> onnx.NodeProto:
    shape_name = name + _SHAPE_SUFFIX
    graph.initializer.append(numpy_helper.from_array(np.asarray(array.shape, np.int64), shape_name))
    value = numpy_helper.from_array(np.ascontiguousarray(array.reshape(-1)[:1]))
    return helper.make_node("ConstantOfShape", [shape_name], [name], value=value)


def _named_elsewhere(name: str, array: np.ndarray) -> TensorProto:
    tensor = TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
    tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    for key, value in (("location", ELSEWHERE), ("offset", "0"), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return tensor
