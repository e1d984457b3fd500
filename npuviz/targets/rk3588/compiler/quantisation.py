"""How tensors of a quantised graph are scaled: read from its QuantizeLinear and DequantizeLinear nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class Quantisation:
    """real = (stored - zero_point) * scale, one of each for the whole tensor."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class QuantisedSource:
    """A float tensor that is nothing but an int8 tensor made float.

    stored  tensor id of the int8 tensor; node  the DequantizeLinear
    """

    stored: int
    node: int
    quantisation: Quantisation


@dataclass(frozen=True, slots=True)
class QuantisedConstant:
    """A float constant that is stored in integers: values, and scale by channel (or one)."""

    values: np.ndarray
    scales: np.ndarray
    node: int


class QuantisedGraph:
    """What the Q and DQ nodes of a graph say about its tensors.

    sources    float tensor -> the int8 tensor it stands for
    constants  float tensor -> stored integers
    targets    float tensor -> QuantizeLinear node, where that is its only reader
    """

    def __init__(self, graph: Graph) -> None:
        self.sources: dict[int, QuantisedSource] = {}
        self.constants: dict[int, QuantisedConstant] = {}
        self.targets: dict[int, Node] = {}
        consumers = graph.consumers()
        for node in graph.nodes:
            if node.op_type == "DequantizeLinear":
                self._dequantise(graph, node)
            elif node.op_type == "QuantizeLinear":
                readers = consumers[node.inputs[0]]
                if readers == [node.id] and node.inputs[0] not in graph.outputs:
                    self.targets[node.inputs[0]] = node

    def _dequantise(self, graph: Graph, node: Node) -> None:
        scale = graph.constants.get(node.inputs[1])
        zero = graph.constants.get(node.inputs[2]) if len(node.inputs) > 2 else np.array([0], np.int32)
        stored = graph.tensors[node.inputs[0]]
        if scale is None or zero is None:
            return
        values = graph.constants.get(stored.id)
        scales = np.array(scale, np.float64).flatten()
        if values is not None:
            if not np.any(zero) and stored.dtype in ("int8", "int32"):
                self.constants[node.outputs[0]] = QuantisedConstant(values, scales, node.id)
        elif stored.dtype == "int8" and scales.size == 1:
            found = Quantisation(float(scales.item()), int(np.ravel(zero).item()))
            self.sources[node.outputs[0]] = QuantisedSource(stored.id, node.id, found)


def quantisation_of(constants: Mapping[int, np.ndarray], node: Node) -> Quantisation | None:
    """Scale and zero point of a QuantizeLinear with one of each, else None."""
    scale = constants.get(node.inputs[1])
    zero = constants.get(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1, np.int8)
    if scale is None or zero is None or np.size(scale) != 1:
        return None
    if np.asarray(zero).dtype != np.int8:
        return None
    return Quantisation(float(np.reshape(scale, -1)[0]), int(np.reshape(zero, -1)[0]))
