"""Read how tensors of a quantised graph are scaled, from its QuantizeLinear and DequantizeLinear nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Graph, Node

MOVES = (
    "Concat", "Flatten", "Identity", "MaxPool", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze", "DepthToSpace", "SpaceToDepth",
)  # fmt: skip
"""Operators whose results are elements of their inputs: 8-bit tensors keep their scale."""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """real = (stored - zero_point) * scale, with one of each for the whole tensor."""

    scale: float
    zero_point: int

    def rounded(self, real: np.ndarray) -> np.ndarray:
        """Round real numbers to those that 8 bits hold."""
        stored = np.clip(np.rint(real / self.scale) + self.zero_point, -128, 127)
        return (stored - self.zero_point) * self.scale


@dataclass(frozen=True, slots=True)
class QuantisedSource:
    """A float tensor that is nothing but an int8 tensor made float.

    stored  tensor id of the int8 tensor
    node    the DequantizeLinear
    """

    stored: int
    node: int
    quantisation: Quantisation


@dataclass(frozen=True, slots=True)
class QuantisedConstant:
    """A float constant that is stored in integers: values, and one scale per channel (or one for all)."""

    values: np.ndarray
    scales: np.ndarray
    node: int


class QuantisedGraph:
    """How the Q and DQ nodes of a graph scale its tensors.

    sources    float tensor -> the 8-bit tensor that it stands for
    constants  float tensor -> stored integers
    targets    float tensor -> QuantizeLinear node, if that is its only reader
    stored     8-bit tensor -> how it is scaled

    Tensors of uint8 are held as int8, 128 less; the zero points here are those of int8.
    """

    def __init__(self, graph: Graph) -> None:
        self.sources: dict[int, QuantisedSource] = {}
        self.constants: dict[int, QuantisedConstant] = {}
        self.targets: dict[int, Node] = {}
        self.stored: dict[int, Quantisation] = {}
        self._fixed = graph.constants
        consumers = graph.consumers()
        for node in graph.nodes:
            if node.op_type == "DequantizeLinear":
                self._dequantise(graph, node)
            elif node.op_type in MOVES:
                self._move(graph, node)
            elif node.op_type == "QuantizeLinear":
                scaled = quantisation_of(graph.constants, node)
                if scaled is not None:
                    self.stored[node.outputs[0]] = scaled
                readers = consumers[node.inputs[0]]
                if readers == [node.id] and node.inputs[0] not in graph.outputs:
                    self.targets[node.inputs[0]] = node

    def constant(self, tensor: int) -> np.ndarray:
        """Return the real numbers (float64, the tensor's shape) of a tensor known before the program runs.

        Raises CannotLower for a quantised one with some scales, but not one for each element.
        """
        stored = self.constants.get(tensor)
        if stored is None:
            return np.asarray(self._fixed[tensor]).astype(np.float64)
        values, scales = stored.values.astype(np.float64), stored.scales
        if scales.size not in (1, values.size):
            raise CannotLower("an operand with several scales")
        return values * (scales.reshape(values.shape) if scales.size > 1 else scales.reshape(-1)[0])

    def read_through(self) -> set[int]:
        """Return the DequantizeLinear nodes whose readers on the NPU take the stored integers instead."""
        return {found.node for found in (*self.sources.values(), *self.constants.values())}

    def _move(self, graph: Graph, node: Node) -> None:
        taken = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        scales = {self.stored.get(tensor) for tensor in taken}
        scaled = scales.pop() if len(scales) == 1 else None
        for tensor in node.outputs:
            if scaled is not None and tensor >= 0 and graph.tensors[tensor].dtype in ("int8", "uint8"):
                self.stored[tensor] = scaled

    def _dequantise(self, graph: Graph, node: Node) -> None:
        stored = graph.tensors[node.inputs[0]]
        values = graph.constants.get(stored.id)
        if values is not None:
            found = _constant(graph.constants, node, np.asarray(values))
            if found is not None:
                self.constants[node.outputs[0]] = found
            return
        scaled = quantisation_of(graph.constants, node)
        if scaled is not None and stored.dtype in ("int8", "uint8"):
            self.stored[stored.id] = scaled
            self.sources[node.outputs[0]] = QuantisedSource(stored.id, node.id, scaled)


def _constant(
    constants: Mapping[int, np.ndarray], node: Node, values: np.ndarray
) -> QuantisedConstant | None:
    """Return the stored integers of a DequantizeLinear with one zero point for all; None for others."""
    scale = constants.get(node.inputs[1])
    zero = constants.get(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1, np.int32)
    if scale is None or zero is None or values.dtype.name not in ("int8", "uint8", "int32"):
        return None
    if np.any(zero):
        if np.ptp(np.reshape(zero, -1)):
            return None
        values = values.astype(np.int32) - _first(zero)
        if values.size and values.min() >= -128 and values.max() <= 127:
            values = values.astype(np.int8)
    return QuantisedConstant(values, np.array(scale, np.float64).flatten(), node.id)


def quantisation_of(constants: Mapping[int, np.ndarray], node: Node) -> Quantisation | None:
    """Return scale and zero point of a Q or DQ node with one of each for 8 bits, else None.

    A scale that is no positive number, as files may hold, is no scale: the Host does what ONNX makes of it.
    """
    scale = constants.get(node.inputs[1])
    # Without a zero point the type is uint8, the point 0. Ref: ONNX.
    zero = constants.get(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1, np.uint8)
    if scale is None or zero is None or np.size(scale) != 1:
        return None
    kind = np.asarray(zero).dtype.name
    if kind not in ("int8", "uint8"):
        return None
    step = float(np.reshape(scale, -1)[0])
    if not 0 < step < np.inf:
        return None
    return Quantisation(step, _first(zero) - (128 if kind == "uint8" else 0))


def _first(values: np.ndarray) -> int:
    return int(np.reshape(values, -1).astype(np.int64)[0])
