"""Variances written as the mean of squares less the square of the mean, of which fp16 leaves nothing."""

from collections.abc import Iterator

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.operator_kinds import VIEWS

CANCELS = HostReason("what it takes off is a maximum or mean of the same tensor: fp16 loses the rest")
VARIANCE = HostReason(
    "it is part of a variance that is the difference of two means: fp16 loses what is left",
    change="the mean of squares of what the mean is taken off",
)

_SUMS = ("ReduceMean", "ReduceSum", "GlobalAveragePool")
_SAME_NUMBERS = (*(view for view in VIEWS if view != "Cast"), "Expand", "Tile")


def variances_by_difference(graph: Graph) -> frozenset[int]:
    """Return the nodes from the squares and the sum of a tensor on to the difference.

    Where a mean is far from 0, its square and that of the tensor are nearly equal, and what they differ by is
    in digits that fp16 has not.
    """
    found: set[int] = set()
    for node in graph.nodes:
        if node.op_type == "Sub":
            found |= _variance(graph, node)
    return frozenset(found)


def _variance(graph: Graph, difference: Node) -> set[int]:
    """Return the nodes of a variance that ends with a difference, none where it is something else."""
    whole, part = (_Way(graph, tensor) for tensor in difference.inputs)
    squared = part.squared()
    if squared < 0:
        return set()
    mean = _Way(graph, squared)
    squares = whole.reduced()
    of = mean.reduced()
    if squares < 0 or of < 0:
        return set()
    square = _Way(graph, squares)
    if square.squared() != of:
        return set()
    return {difference.id, *whole.nodes, *part.nodes, *mean.nodes, *square.nodes}


class _Way:
    """A way back from a tensor; nodes are those passed."""

    def __init__(self, graph: Graph, tensor: int) -> None:
        self._graph = graph
        self._tensor = tensor
        self.nodes: list[int] = []

    def squared(self) -> int:
        """Return the tensor whose square this is, -1 if it is none."""
        for node in self._producers():
            if node.op_type == "Mul" and len(set(node.inputs)) == 1:
                return node.inputs[0]
            is_square = node.op_type == "Pow" and self._number(node.inputs[1]) == 2
            return node.inputs[0] if is_square else -1
        return -1

    def reduced(self) -> int:
        """Return the tensor of which this is a mean, or a sum with a factor; -1 if it is neither."""
        for node in self._producers():
            if node.op_type in _SUMS:
                return node.inputs[0]
            if node.op_type not in ("Mul", "Div"):
                return -1
            tensors = [tensor for tensor in node.inputs if self._number(tensor) is None]
            if len(tensors) != 1 or (node.op_type == "Div" and tensors[0] != node.inputs[0]):
                return -1
            self._tensor = tensors[0]
        return -1

    def _producers(self) -> Iterator[Node]:
        """Yield the operators before the tensor, without those that only give it another shape."""
        while self._tensor >= 0 and self._graph.tensors[self._tensor].producer >= 0:
            node = self._graph.nodes[self._graph.tensors[self._tensor].producer]
            self.nodes.append(node.id)
            if node.op_type not in _SAME_NUMBERS:
                yield node
            else:
                self._tensor = node.inputs[0]

    def _number(self, tensor: int) -> float | None:
        values = self._graph.constants.get(tensor)
        return float(np.reshape(values, -1)[0]) if values is not None and np.size(values) == 1 else None
