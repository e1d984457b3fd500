"""Host operators: one node at a time in ONNX Runtime."""

from collections.abc import Callable, Sequence

import numpy as np

from npuviz.base.errors import FormatError, SimulationError
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.systolic.values.storage import Storage

_OBJECTS = frozenset(("string", "opaque"))


def run_on_host(
    graph: Graph, node_id: int, storages: Sequence[Storage], stored: Callable[[int], np.ndarray]
) -> dict[int, np.ndarray]:
    """Results of a node by root tensor id, flat and in DRAM order.

    Inputs are what lies in DRAM (rounded to its element type) in the graph's own types. Text and sequence
    values give zeros. Raises SimulationError for what ONNX Runtime cannot run.
    """
    node = graph.nodes[node_id]
    outputs = [index for index in node.outputs if index >= 0]
    arrays: dict[int, np.ndarray] = {}
    for index in dict.fromkeys(index for index in node.inputs if index >= 0):
        storage = storages[index]
        values = storage.to_logical(stored(storage.root))
        arrays[index] = np.asarray(values.astype(numpy_dtype(graph.tensors[index].dtype)), order="C")
    zeros = {
        storages[index].root: np.zeros(
            storages[index].stored_shape, numpy_dtype(storages[index].dtype)
        ).reshape(-1)
        for index in outputs
    }
    if any(graph.tensors[index].dtype in _OBJECTS for index in (*arrays, *outputs)):
        return zeros
    try:
        made = run_node(graph, node, arrays)
    except FormatError as error:
        name = f"{node.op_type} {node.name}".strip()
        raise SimulationError(f"{name} failed on the Host: {error.found}") from error
    for index, values in made.items():
        # A shape that depends on values may differ from the declared one: then nothing is known.
        if values.size == graph.tensors[index].num_elements:
            zeros[storages[index].root] = storages[index].to_stored(values)
    return zeros
