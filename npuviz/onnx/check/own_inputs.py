"""Runs the reference operator by operator on the machine's own values of the inputs."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.single_node import Held, computed_from, evaluate_node, run_reference_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node


class OwnInputs:
    """Reference results of operators on the machine's own inputs.

    held    tensor -> its values in the machine, None if the machine does not hold it
    stored  tensor and its result -> the result as the machine's memory would hold it
    """

    def __init__(
        self, graph: Graph, held: Held, stored: Callable[[int, np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._graph = graph
        self._held = held
        self._stored = stored
        self._last: tuple[int, dict[int, np.ndarray]] = (-1, {})

    def values(self, tensor: int) -> np.ndarray | None:
        """Compute a tensor with ONNX Runtime from the machine's inputs of its operator, None if that is not
        possible."""
        producer = self._graph.tensors[tensor].producer
        if self._last[0] != producer:
            outputs = [index for index in self._graph.nodes[producer].outputs if index >= 0]
            self._last = producer, computed_from(self._graph, outputs, self._held) or {}
        found = self._last[1].get(tensor)
        return found if found is None or self._stored is None else self._stored(tensor, found)

    def exact(self, tensor: int) -> np.ndarray | None:
        """Compute a tensor in float64 from the machine's inputs, None if that is not possible or would take
        too long."""
        found = computed_from(self._graph, [tensor], self._held, run_exactly)
        return None if found is None else found[tensor]


def run_exactly(graph: Graph, node: Node, arrays: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Compute the results of a node by tensor id with all floats in float64, by ONNX's evaluator, or by ONNX
    Runtime if the evaluator fails or would take too long. Raises FormatError if both do."""
    wide = {index: _widened(values, graph.tensors[index].dtype) for index, values in arrays.items()}
    try:
        return evaluate_node(graph, node, wide)
    except FormatError:
        return run_reference_of(_widened_graph(graph, node), node, wide)


def _widened_graph(graph: Graph, node: Node) -> Graph:
    """Return the graph with float64 as the type of all floats that a node reads and makes."""
    tensors = list(graph.tensors)
    for index in (*node.inputs, *node.outputs):
        if index >= 0 and _is_float(tensors[index].dtype):
            tensors[index] = replace(tensors[index], dtype="float64")
    return replace(graph, tensors=tuple(tensors))


def _widened(values: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaNs are values like others
        return values.astype(np.float64) if _is_float(dtype) else values


def _is_float(dtype: str) -> bool:
    return numpy_dtype(dtype).kind == "f" or dtype.startswith(("bfloat", "float"))
