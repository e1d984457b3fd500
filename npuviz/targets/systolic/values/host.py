"""Computes Host operators: one node at a time in ONNX Runtime."""

from collections.abc import Callable, Sequence

import numpy as np

from npuviz.base.errors import FormatError, TargetError
from npuviz.onnx.draft import other_shape
from npuviz.onnx.single_node import compute_from
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.systolic.values.storage import Storage


def run_on_host(
    graph: Graph,
    node_id: int,
    storages: Sequence[Storage],
    stored: Callable[[int], np.ndarray],
    limited: Callable[[int, np.ndarray], np.ndarray],
) -> dict[int, np.ndarray]:
    """Compute a node with ONNX Runtime; returns its results by root tensor id, flat and in DRAM order.

    Inputs are the contents of DRAM (rounded to its element type) in the graph's types. Text is an array of
    objects; a sequence or optional is no array: its readers compute it again from arrays.
    limited  tensor and its result -> the result within the range of its type in DRAM
    Raises TargetError for what ONNX Runtime cannot run.
    """

    def held(index: int) -> np.ndarray | None:
        if graph.tensors[index].dtype == "opaque":
            return None
        values = storages[index].to_logical(stored(storages[index].root))
        return np.asarray(values.astype(numpy_dtype(graph.tensors[index].dtype)), order="C")

    node = graph.nodes[node_id]
    name = f"{node.op_type} {node.name}".strip()
    outputs = [index for index in node.outputs if index >= 0]
    arrays = [index for index in outputs if graph.tensors[index].dtype != "opaque"]
    results = {storages[index].root: np.zeros(1, np.object_) for index in outputs if index not in arrays}
    try:
        made = compute_from(graph, arrays, held)
    except FormatError as error:
        raise TargetError(f"{name} failed on the Host: {error.found}") from error
    for index, values in made.items():
        tensor = graph.tensors[index]
        if values.size != tensor.num_elements:
            found = other_shape(values.shape, tensor.shape, graph.assumptions)
            raise TargetError(f"{name} failed on the Host: {found}")
        results[storages[index].root] = storages[index].to_stored(limited(index, values))
    return results
