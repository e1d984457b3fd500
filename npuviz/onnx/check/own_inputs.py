"""What the reference makes of a machine's own inputs, operator by operator."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from npuviz.base.errors import FormatError
from npuviz.onnx.single_node import Held, computed_from, single_node_graph
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node

MAX_EXACT_ELEMENTS = 1 << 21
"""Inputs and results of a node that is evaluated in float64; above, that takes too long."""


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
    """Results of a node by tensor id with all floats in float64, by ONNX's evaluator. Raises FormatError
    where it fails or would take too long."""
    outputs = [index for index in node.outputs if index >= 0]
    sizes = [arrays[index].size for index in node.inputs if index >= 0]
    if sum(sizes) + sum(graph.tensors[index].num_elements for index in outputs) > MAX_EXACT_ELEMENTS:
        raise FormatError(graph.name, field=f"node {node.name}", found="too many elements for float64")
    single = single_node_graph(graph, node)
    tensors = [graph.tensors[index] for index in single.inputs]
    given = {tensor.name: _widened(arrays[tensor.id], tensor.dtype) for tensor in tensors}
    model = onnx.ModelProto.FromString(single.source)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run([graph.tensors[index].name for index in outputs], given)
    except Exception as error:
        # An evaluator in Python raises whatever its operators raise: then there is no better reference.
        raise FormatError(graph.name, field=f"node {node.name}", found=str(error)[:200]) from error
    made = {index: np.asarray(values) for index, values in zip(outputs, results, strict=True)}
    # The evaluator takes some attributes otherwise than the standard has them.
    if any(values.shape != graph.tensors[index].shape for index, values in made.items()):
        raise FormatError(graph.name, field=f"node {node.name}", found="results of another shape")
    return made


def _widened(values: np.ndarray, dtype: str) -> np.ndarray:
    is_float = numpy_dtype(dtype).kind == "f" or dtype.startswith(("bfloat", "float"))
    return values.astype(np.float64) if is_float else values
