"""Host operators: one node at a time in ONNX Runtime."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.formats.onnx_reference import run_reference
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.targets.systolic.values_storage import Storage, as_declared

_OBJECTS = frozenset(("string", "opaque"))


def run_on_host(
    graph: Graph, node_id: int, storages: Sequence[Storage], stored: Callable[[int], np.ndarray]
) -> dict[int, np.ndarray]:
    """Results of a node by root tensor id, flat and in DRAM order.

    Inputs are what lies in DRAM (rounded to its element type) in the graph's own types. What ONNX
    Runtime cannot run, and text or sequence values, give zeros.
    """
    node = graph.nodes[node_id]
    outputs = [index for index in node.outputs if index >= 0]
    arrays: dict[int, np.ndarray] = {}
    for index in dict.fromkeys(index for index in node.inputs if index >= 0):
        storage = storages[index]
        values = storage.to_logical(stored(storage.root))
        arrays[index] = np.ascontiguousarray(values.astype(numpy_dtype(graph.tensors[index].dtype)))
    zeros = {
        storages[index].root: np.zeros(
            storages[index].stored_shape, numpy_dtype(storages[index].dtype)
        ).reshape(-1)
        for index in outputs
    }
    if any(graph.tensors[index].dtype in _OBJECTS for index in (*arrays, *outputs)):
        return zeros
    single = single_node_graph(graph, node)
    try:
        results = run_reference(
            single,
            {graph.tensors[index].name: arrays[index] for index in single.inputs},
            outputs,
        )
    except FormatError:
        return zeros
    for index, values in results.items():
        # A shape that depends on values may differ from the declared one: then nothing is known.
        if np.asarray(values).size == graph.tensors[index].num_elements:
            zeros[storages[index].root] = storages[index].to_stored(
                as_declared(np.asarray(values), graph.tensors[index].dtype)
            )
    return zeros


def single_node_graph(graph: Graph, node: Node) -> Graph:
    """A graph of one node; its constant integer inputs stay constants, all others become inputs.

    Operators may demand constants for what decides shapes, which integers do.
    """
    proto = onnx.ModelProto()
    proto.ir_version = 10
    for domain, version in graph.opsets.items():
        proto.opset_import.append(onnx.helper.make_opsetid(domain, version))
    proto.graph.name = node.name or node.op_type
    proto.graph.node.append(_node_proto(graph, node))
    inputs: list[int] = []
    constants: dict[int, np.ndarray] = {}
    for index in dict.fromkeys(index for index in node.inputs if index >= 0):
        tensor = graph.tensors[index]
        if index in graph.constants and numpy_dtype(tensor.dtype).kind in "iub":
            values = np.ascontiguousarray(graph.constants[index])
            proto.graph.initializer.append(onnx.numpy_helper.from_array(values, tensor.name))
            constants[index] = values
        else:
            inputs.append(index)
            proto.graph.input.append(_value_info(graph, index))
    outputs = tuple(index for index in node.outputs if index >= 0)
    proto.graph.output.extend(onnx.ValueInfoProto(name=graph.tensors[index].name) for index in outputs)
    return Graph(
        name=node.name or node.op_type,
        nodes=(),
        tensors=graph.tensors,
        inputs=tuple(inputs),
        outputs=outputs,
        constants=constants,
        opsets=graph.opsets,
        source=proto.SerializeToString(),
    )


def _value_info(graph: Graph, index: int) -> onnx.ValueInfoProto:
    tensor = graph.tensors[index]
    kind = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(tensor.dtype))
    return onnx.helper.make_tensor_value_info(tensor.name, kind, tensor.shape)


def _node_proto(graph: Graph, node: Node) -> onnx.NodeProto:
    first = next(index for index in node.outputs if index >= 0)
    found = _protos(graph.source).get(graph.tensors[first].name)
    if found is not None:
        return found

    def name(index: int) -> str:
        return graph.tensors[index].name if index >= 0 else ""

    inputs, outputs = [name(i) for i in node.inputs], [name(i) for i in node.outputs]
    attributes = {key: value for key, value in node.attributes.items() if key != "captured_inputs"}
    return onnx.helper.make_node(node.op_type, inputs, outputs, node.name, domain=node.domain, **attributes)


@lru_cache(maxsize=4)
def _protos(source: bytes) -> dict[str, onnx.NodeProto]:
    """Output name -> node of a serialised model."""
    model = onnx.ModelProto.FromString(source)
    return {name: node for node in model.graph.node for name in node.output if name}
