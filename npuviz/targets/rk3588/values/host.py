"""Run host calls: nodes that ONNX Runtime computes."""

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.single_node import Held, compute_from
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.values.memory import ValueFault


def run_host_node(graph: Graph, node: int, held: Held) -> dict[int, np.ndarray]:
    """Return the results of a node on the CPU. Inputs that memory does not hold are computed from what it
    holds.

    Raises ValueFault when ONNX Runtime refuses.
    """
    if not 0 <= node < len(graph.nodes):
        raise ValueFault(f"node {node} does not exist")
    found = graph.nodes[node]
    outputs = [tensor for tensor in found.outputs if tensor >= 0]
    try:
        return compute_from(graph, outputs, held)
    except FormatError as error:
        raise ValueFault(f"node {found.name or node} ({found.op_type}): {error.found}") from error
