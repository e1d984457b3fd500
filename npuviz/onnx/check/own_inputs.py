"""What the reference makes of a machine's own inputs, operator by operator."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.single_node import Held, computed_from, evaluate_node, run_reference_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node


class OwnInputs:
    """Results of operators on what the machine had before them.

    held    tensor -> its values in the machine, None where it does not hold it
    stored  tensor and its result -> the same as the machine's memory would hold it
    """

    def __init__(
        self, graph: Graph, held: Held, stored: Callable[[int, np.ndarray], np.ndarray] | None = None
    ) -> None:
        self._graph = graph
        self._held = held
        self._stored = stored
        self._last: tuple[int, dict[int, np.ndarray]] = (-1, {})

    def values(self, tensor: int) -> np.ndarray | None:
        """What ONNX Runtime makes of it, None where it cannot tell."""
        producer = self._graph.tensors[tensor].producer
        if self._last[0] != producer:
            outputs = [index for index in self._graph.nodes[producer].outputs if index >= 0]
            self._last = producer, computed_from(self._graph, outputs, self._held) or {}
        found = self._last[1].get(tensor)
        return found if found is None or self._stored is None else self._stored(tensor, found)

    def exact(self, tensor: int) -> np.ndarray | None:
        """The same in float64, None where nobody can tell or it would take too long."""
        found = computed_from(self._graph, [tensor], self._held, run_exactly)
        return None if found is None else found[tensor]


def run_exactly(graph: Graph, node: Node, arrays: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Results of a node by tensor id with all floats in float64, by ONNX's evaluator, or by ONNX Runtime
    where that fails or would take too long. Raises FormatError where both do."""
    wide = {index: _widened(values, graph.tensors[index].dtype) for index, values in arrays.items()}
    try:
        return evaluate_node(graph, node, wide)
    except FormatError:
        return run_reference_of(_widened_graph(graph, node), node, wide)


def _widened_graph(graph: Graph, node: Node) -> Graph:
    """The graph with the floats that a node reads and makes in float64."""
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
