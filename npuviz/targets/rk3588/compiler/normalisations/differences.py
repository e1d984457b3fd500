"""Find normalisations whose variance is the mean of squares less the square of the mean, as some exporters
write them out: with sums and factors for means, and changes of shape in between."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.program.graph import Graph, Node

_SAME_NUMBERS = ("Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze")

Found = tuple[list[int], int]
"""Nodes, and the tensor behind them."""


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """(x - mean) / sqrt(mean of squares - mean * mean + epsilon) * factor along an axis of x.

    nodes  ids, the last one behind the others; factor  a constant tensor, -1 where there is none
    """

    nodes: tuple[int, ...]
    source: int
    output: int
    axis: int
    epsilon: float
    factor: int


def axis_of(graph: Graph, node: Node) -> int:
    """Return the only axis of a reduction, -1 where that is not known, or where there are several."""
    rank = len(graph.tensors[node.inputs[0]].shape)
    axes = node.attributes.get("axes")
    if axes is None and len(node.inputs) > 1:
        values = graph.constants.get(node.inputs[1])
        axes = None if values is None else np.reshape(values, -1).tolist()
    return int(axes[0]) % rank if axes is not None and len(axes) == 1 and rank else -1


def is_along(shape: Sequence[int], like: Sequence[int], axis: int) -> bool:
    """Return whether a constant's shape is one value for each index of an axis."""
    padded = (*[1] * (len(like) - len(shape)), *shape)
    return padded == tuple(size if place == axis else 1 for place, size in enumerate(like))


def number_of(graph: Graph, tensor: int) -> float | None:
    """Return the value of a constant of one element, None for anything else."""
    values = graph.constants.get(tensor)
    return float(np.reshape(values, -1)[0]) if values is not None and np.size(values) == 1 else None


def square_of(graph: Graph, node: Node) -> int:
    """Return the tensor that a node squares, -1 if it does not."""
    if node.op_type == "Mul" and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]:
        return node.inputs[0]
    is_square = node.op_type == "Pow" and number_of(graph, node.inputs[1]) == 2
    return node.inputs[0] if is_square else -1


class Difference:
    """Look for one. reduction  of x; axis  along which"""

    def __init__(
        self, graph: Graph, consumers: Mapping[int, Sequence[int]], reduction: Node, axis: int
    ) -> None:
        self._graph = graph
        self._consumers = consumers
        self._reduction = reduction
        self._source = reduction.inputs[0]
        self._axis = axis
        self._shape = tuple(graph.tensors[self._source].shape)
        self._kept = tuple(1 if place == axis else size for place, size in enumerate(self._shape))

    def found(self) -> WrittenOut | None:
        """Return the normalisation, None if the nodes are something else."""
        mean = self._mean(self._reduction)
        squares = self._mean_of_squares()
        if mean is None or squares is None:
            return None
        centred = self._reach(mean[1], self._takes_off, "Sub")
        squared = self._reach(mean[1], lambda node, tensor: square_of(self._graph, node) == tensor)
        if centred is None or squared is None:
            return None
        difference = self._reach(squares[1], lambda node, tensor: node.inputs[0] == tensor, "Sub")
        other = None
        if difference is not None:
            last = difference[0][-1]
            other = self._reach(squared[1], lambda node, tensor: node.id == last and node.inputs[1] == tensor)
        end = None if difference is None else self._rest(difference[1], centred[1])
        if other is None or difference is None or end is None:
            return None
        nodes, epsilon, factor = end
        parts = (mean[0], centred[0], squared[0], squares[0], other[0], difference[0], nodes)
        whole = tuple(dict.fromkeys(each for part in parts for each in part))
        output = self._graph.nodes[nodes[-1]].outputs[0]
        found = WrittenOut(whole, self._source, output, self._axis, epsilon, factor)
        return found if self._is_closed(whole) else None

    # --- its parts -------------------------------------------------------------------------------------

    def _mean(self, node: Node) -> Found | None:
        """Follow a mean along the axis: ReduceMean, or ReduceSum and a factor."""
        if node.op_type not in ("ReduceMean", "ReduceSum") or axis_of(self._graph, node) != self._axis:
            return None
        if node.op_type == "ReduceMean":
            return [node.id], node.outputs[0]
        found = self._reach(node.outputs[0], self._divides)
        return None if found is None else ([node.id, *found[0]], found[1])

    def _divides(self, node: Node, tensor: int) -> bool:
        if node.op_type not in ("Mul", "Div") or len(node.inputs) != 2:
            return False
        other = node.inputs[1] if node.inputs[0] == tensor else node.inputs[0]
        number, size = number_of(self._graph, other), self._shape[self._axis]
        if number is None or (node.op_type == "Div" and other != node.inputs[1]):
            return False
        return math.isclose(number, size if node.op_type == "Div" else 1 / size, rel_tol=1e-5)

    def _takes_off(self, node: Node, tensor: int) -> bool:
        return node.inputs == (self._source, tensor) and self._is_spread(tensor)

    def _mean_of_squares(self) -> Found | None:
        for number in self._consumers[self._source]:
            square = self._graph.nodes[number]
            if square_of(self._graph, square) != self._source:
                continue
            for reader in self._consumers[square.outputs[0]]:
                mean = self._mean(self._graph.nodes[reader])
                if mean is not None:
                    return [square.id, *mean[0]], mean[1]
        return None

    def _rest(self, variance: int, centred: int) -> tuple[list[int], float, int] | None:
        """Follow what comes after the variance: a limit, epsilon, the inverse root, factors, the product."""
        nodes: list[int] = []
        limited = self._reach(variance, lambda node, _: self._is_limit(node))
        if limited is not None:
            nodes, variance = limited
        total = self._reach(variance, lambda node, tensor: self._number_beside(node, tensor) > 0, "Add")
        root = None if total is None else self._reach(total[1], lambda node, _: node.op_type == "Sqrt")
        if total is None or root is None:
            return None
        epsilon = self._number_beside(self._graph.nodes[total[0][-1]], -1)
        nodes += [*total[0], *root[0]]
        last = self._reach(root[1], lambda node, tensor: self._ends(node, tensor, centred), "Div")
        if last is not None:
            return [*nodes, *last[0]], epsilon, -1
        inverse = self._reach(root[1], self._is_inverse)
        if inverse is None:
            return None
        nodes, factor = [*nodes, *inverse[0]], -1
        scaled = self._reach(inverse[1], lambda node, tensor: self._factor(node, tensor) >= 0, "Mul")
        if scaled is not None:
            nodes, inverse = [*nodes, *scaled[0]], scaled
            factor = self._factor(self._graph.nodes[scaled[0][-1]], -1)
        last = self._reach(inverse[1], lambda node, tensor: self._ends(node, tensor, centred), "Mul")
        return None if last is None else ([*nodes, *last[0]], epsilon, factor)

    def _is_limit(self, node: Node) -> bool:
        """Return whether a node only keeps what it reads from being less than 0."""
        if node.op_type == "Relu":
            return True
        return node.op_type == "Max" and any(number_of(self._graph, each) == 0 for each in node.inputs)

    def _is_inverse(self, node: Node, tensor: int) -> bool:
        is_quotient = node.op_type == "Div" and node.inputs[1] == tensor
        is_of_one = is_quotient and number_of(self._graph, node.inputs[0]) == 1
        return node.op_type == "Reciprocal" or is_of_one

    def _factor(self, node: Node, tensor: int) -> int:
        """Return the constant of one value a channel in a product with a tensor, -1 where there is none."""
        if tensor >= 0 and not self._is_spread(tensor):
            return -1
        others = [each for each in node.inputs if each in self._graph.constants]
        is_one = len(others) == 1 and is_along(
            np.shape(self._graph.constants[others[0]]), self._shape, self._axis
        )
        return others[0] if is_one else -1

    def _ends(self, node: Node, tensor: int, centred: int) -> bool:
        """Return whether a node is the product, or the quotient, of what is centred and a tensor."""
        wanted = ((centred, tensor),) if node.op_type == "Div" else ((centred, tensor), (tensor, centred))
        return node.inputs in wanted and self._is_spread(tensor)

    # --- ways through the graph ------------------------------------------------------------------------

    def _reach(self, tensor: int, accept: Callable[[Node, int], bool], op_type: str = "") -> Found | None:
        """Return the nodes up to the first accepted reader, also behind changes of shape, and its result."""
        waiting: list[tuple[int, list[int]]] = [(tensor, [])]
        while waiting:
            here, way = waiting.pop(0)
            for number in self._consumers[here]:
                node = self._graph.nodes[number]
                if op_type in ("", node.op_type) and accept(node, here):
                    return [*way, number], node.outputs[0]
                if self._only_reshapes(node, here):
                    waiting.append((node.outputs[0], [*way, number]))
        return None

    def _only_reshapes(self, node: Node, tensor: int) -> bool:
        """Return whether a node gives all means in another shape, or spreads them along the axis."""
        if node.op_type not in _SAME_NUMBERS or node.inputs[0] != tensor:
            return False
        if node.op_type == "Expand":
            return self._padded(tensor) == self._kept
        return self._graph.tensors[tensor].num_elements == math.prod(self._kept)

    def _is_spread(self, tensor: int) -> bool:
        """Return whether what a tensor holds of each mean meets x along the axis."""
        return self._padded(tensor) in (self._kept, self._shape)

    def _padded(self, tensor: int) -> tuple[int, ...]:
        shape = tuple(self._graph.tensors[tensor].shape)
        return (*[1] * (len(self._shape) - len(shape)), *shape)

    def _number_beside(self, node: Node, tensor: int) -> float:
        """Return the single number that a node has beside a tensor (-1: any), NaN if it has none."""
        numbers = [number_of(self._graph, each) for each in node.inputs if each != tensor]
        found = [number for number in numbers if number is not None]
        return found[0] if len(found) == 1 else math.nan

    def _is_closed(self, nodes: Sequence[int]) -> bool:
        """Return whether nobody else reads what nodes make, but for the last."""
        inside = set(nodes)
        made = [tensor for node in nodes[:-1] for tensor in self._graph.nodes[node].outputs]
        return all(
            tensor not in self._graph.outputs and inside.issuperset(self._consumers[tensor])
            for tensor in made
        )
