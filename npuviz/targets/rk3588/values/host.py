"""Host calls: layout conversions of inputs and outputs, and nodes that ONNX Runtime computes."""

from collections.abc import Callable, Collection

import numpy as np

from npuviz.onnx.single_node import run_node
from npuviz.program.graph import Graph
from npuviz.targets.rk3588.values.memory import ValueFault

Held = Callable[[int], np.ndarray | None]
"""Tensor id -> its values in the graph's shape and type, None where memory does not hold it."""

_MOST_NODES = 64


def computed_from(graph: Graph, tensors: Collection[int], held: Held) -> dict[int, np.ndarray] | None:
    """Values of tensors by ONNX Runtime, node by node, from the nearest tensors that are held.

    The tensors themselves are computed even if they are held. None where that takes too many nodes, or
    ONNX Runtime refuses one.
    """
    arrays: dict[int, np.ndarray] = {}
    nodes: set[int] = set()
    wanted = [graph.tensors[tensor].producer for tensor in tensors]
    while wanted:
        number = wanted.pop()
        if number in nodes:
            continue
        if number < 0 or len(nodes) >= _MOST_NODES:
            return None
        nodes.add(number)
        for tensor in graph.nodes[number].inputs:
            if tensor < 0 or tensor in arrays:
                continue
            known = held(tensor)
            if known is None and tensor in graph.constants:
                known = np.ascontiguousarray(graph.constants[tensor])
            if known is None:
                wanted.append(graph.tensors[tensor].producer)
            else:
                arrays[tensor] = known
    for number in sorted(nodes):
        made = run_node(graph, graph.nodes[number], arrays)
        for tensor, values in made.items():
            arrays.setdefault(tensor, values)
            if tensor in tensors:
                arrays[tensor] = values
        if not made:
            return None
    found = {tensor: arrays[tensor] for tensor in tensors if tensor in arrays}
    return found if len(found) == len(set(tensors)) else None


def run_host_node(graph: Graph, node: int, held: Held) -> dict[int, np.ndarray]:
    """Results of a node on the CPU. Inputs that memory does not hold are computed from what it holds.

    Raises ValueFault when ONNX Runtime refuses.
    """
    if not 0 <= node < len(graph.nodes):
        raise ValueFault(f"node {node} does not exist")
    found = graph.nodes[node]
    outputs = [tensor for tensor in found.outputs if tensor >= 0]
    made = computed_from(graph, outputs, held)
    if made is None:
        raise ValueFault(f"node {found.name or node} ({found.op_type}) cannot be computed on the host")
    return made
