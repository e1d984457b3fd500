"""Runs a model in float64, to measure the error of the reference itself."""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.check.own_inputs import run_exactly
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph

MAX_NODES = 4096


def exact_values(
    graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Collection[int]
) -> Iterator[tuple[int, np.ndarray]]:
    """Compute tensors with all floats in float64, by ONNX's evaluator; yield each with its id when it is
    known, in the order of the nodes.

    A node that the evaluator cannot run, or that is too large for it, runs in ONNX Runtime in the node's own
    types. Yields nothing for a model of more than MAX_NODES nodes, and nothing from a node on that cannot be
    run alone.
    """
    if len(graph.nodes) > MAX_NODES:
        return
    held: dict[int, np.ndarray] = {index: inputs[graph.tensors[index].name] for index in graph.inputs}
    last = {index: node.id for node in graph.nodes for index in node.inputs}
    for node in graph.nodes:
        arrays = {
            index: held[index] if index in held else np.asarray(graph.constants[index])
            for index in node.inputs
            if index in held or index in graph.constants
        }
        try:
            made = run_exactly(graph, node, arrays)
        except FormatError:
            try:
                made = run_node(
                    graph, node, {index: _declared(graph, index, arrays[index]) for index in arrays}
                )
            except FormatError:
                return
        yield from ((index, values) for index, values in made.items() if index in tensors)
        held.update({index: values for index, values in made.items() if index in last})
        for index in node.inputs:
            if last.get(index) == node.id:
                held.pop(index, None)


def _declared(graph: Graph, tensor: int, values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(numpy_dtype(graph.tensors[tensor].dtype)), order="C")
