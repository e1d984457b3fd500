"""Find normalisations over the last axis or of channels: an operator, or the sums and roots of exporters."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.normalisations.differences import (
    Difference,
    axis_of,
    is_along,
    number_of,
    square_of,
)

OPERATORS = ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")


@dataclass(frozen=True, slots=True)
class Normalisation:
    """y = (x - mean) / sqrt(mean of squares + epsilon) * scale + bias along the last axis, or another.

    nodes    ids, in their order
    source, output  tensors x and y
    centres  whether the mean is subtracted
    scale, bias  constant tensors, -1 where there is none
    axis     of x, -1 for the last
    """

    nodes: tuple[int, ...]
    source: int
    output: int
    epsilon: float
    centres: bool
    scale: int = -1
    bias: int = -1
    axis: int = -1


class Normalisations:
    """Find the normalisations of a graph. kept  nodes that must stay single"""

    def __init__(self, graph: Graph, kept: Collection[int] = ()) -> None:
        self._graph = graph
        self._kept = frozenset(kept)
        self._consumers = graph.consumers()
        self._by_difference = self._differences()

    def from_node(self, node: Node) -> Normalisation | None:
        """Return the normalisation that begins with a node, None if there is none."""
        if node.id in self._by_difference:
            found = self._by_difference[node.id]
        elif node.op_type in OPERATORS:
            found = self._operator(node)
        elif node.op_type == "ReduceMean":
            found = self._centred(node)
        else:
            square = self._squared(node)
            found = self._rest(square, (node.id,), node.outputs[0], centres=False) if square >= 0 else None
        if found is None or self._kept.intersection(found.nodes):
            return None
        kinds = {self._graph.tensors[tensor].dtype for tensor in (found.source, found.output)}
        return found if kinds <= {"float32", "float16"} else None

    def _differences(self) -> dict[int, Normalisation]:
        """Find those whose variance is a difference, by the first of their nodes."""
        found: dict[int, Normalisation] = {}
        for node in self._graph.nodes:
            axis = axis_of(self._graph, node) if node.op_type in ("ReduceMean", "ReduceSum") else -1
            rank = len(self._graph.tensors[node.inputs[0]].shape) if axis >= 0 else 0
            if axis < 0 or not (axis == rank - 1 or (axis == 1 and rank > 2)):
                continue
            made = Difference(self._graph, self._consumers, node, axis).found()
            if made is not None:
                found[min(made.nodes)] = self._scaled(
                    Normalisation(
                        made.nodes, made.source, made.output, made.epsilon, centres=True,
                        scale=made.factor, axis=-1 if axis == rank - 1 else axis,
                    )
                )  # fmt: skip
        return found

    def _operator(self, node: Node) -> Normalisation | None:
        shape = self._graph.tensors[node.inputs[0]].shape
        axis = int(node.attributes.get("axis", -1))
        scale, bias = (*node.inputs[1:3], -1, -1)[:2]
        if (
            not shape
            or axis % len(shape) != len(shape) - 1
            or any(tensor >= 0 and self._consumers[tensor] for tensor in node.outputs[1:])
            or any(tensor in self._graph.outputs for tensor in node.outputs[1:])
            or any(tensor >= 0 and not self._is_vector(tensor, shape[-1]) for tensor in (scale, bias))
        ):
            return None
        epsilon = attributes_of(node).real("epsilon")
        centres = node.op_type == "LayerNormalization"
        return Normalisation((node.id,), node.inputs[0], node.outputs[0], epsilon, centres, scale, bias)

    def _centred(self, mean: Node) -> Normalisation | None:
        """Return the normalisation from the mean of x on: the nodes that subtract it, then those of
        `_rest`."""
        difference = self._only_reader(mean.outputs[0], "Sub")
        if not self._is_mean(mean) or difference is None:
            return None
        if difference.inputs != (mean.inputs[0], mean.outputs[0]):
            return None
        centred = difference.outputs[0]
        for number in self._consumers[centred]:
            square = self._graph.nodes[number]
            if self._squared(square) == centred:
                nodes = (mean.id, difference.id, square.id)
                found = self._rest(centred, nodes, square.outputs[0], centres=True)
                inside = found is not None and set(self._consumers[centred]) <= set(found.nodes)
                return found if inside and centred not in self._graph.outputs else None
        return None

    def _rest(
        self, taken: int, nodes: tuple[int, ...], squares: int, *, centres: bool
    ) -> Normalisation | None:
        """Return the normalisation from the squares of a tensor on, which is x or x less its mean."""
        mean = self._only_reader(squares, "ReduceMean")
        total = (
            self._only_reader(mean.outputs[0], "Add") if mean is not None and self._is_mean(mean) else None
        )
        if mean is None or total is None:
            return None
        epsilon = next((value for each in total.inputs if (value := self._number(each)) is not None), None)
        inverse = self._inverse_root(total.outputs[0])
        if epsilon is None or not epsilon > 0 or inverse is None:
            return None
        *roots, last = inverse
        wanted = {taken, (roots[-1] if roots else total).outputs[0]}
        is_quotient = last.op_type == "Div" and last.inputs[0] == taken
        if set(last.inputs) != wanted or not (is_quotient or last.op_type == "Mul"):
            return None
        nodes = (*nodes, mean.id, total.id, *(root.id for root in roots), last.id)
        first = self._graph.nodes[nodes[0]]
        found = Normalisation(nodes, first.inputs[0], last.outputs[0], epsilon, centres)
        return self._scaled(found)

    def _inverse_root(self, total: int) -> list[Node] | None:
        """Return the nodes that take the root of a sum, and the one that divides by the root; None
        without."""
        root = self._only_reader(total)
        if root is None:
            return None
        if root.op_type == "Pow" and self._number(root.inputs[1]) == -0.5:
            product = self._only_reader(root.outputs[0], "Mul")
            return None if product is None else [root, product]
        is_root = root.op_type == "Sqrt" or (root.op_type == "Pow" and self._number(root.inputs[1]) == 0.5)
        divided = self._only_reader(root.outputs[0]) if is_root else None
        if divided is None:
            return None
        is_inverse = divided.op_type == "Div" and self._number(divided.inputs[0]) == 1
        if divided.op_type == "Reciprocal" or is_inverse:
            product = self._only_reader(divided.outputs[0], "Mul")
            return None if product is None else [root, divided, product]
        return [root, divided] if divided.op_type == "Div" else None

    def _scaled(self, found: Normalisation) -> Normalisation:
        """Extend a normalisation by the product and the sum after it, if each has one constant per
        channel."""
        nodes, output = list(found.nodes), found.output
        constants = {"Mul": found.scale, "Add": -1}
        for operator in [each for each, tensor in constants.items() if tensor < 0]:
            node = self._only_reader(output, operator)
            others = [each for each in node.inputs if each != output] if node is not None else []
            if node is None or len(others) != 1 or not self._is_channels(others[0], found):
                continue
            constants[operator] = others[0]
            nodes.append(node.id)
            output = node.outputs[0]
        scale, bias = constants["Mul"], constants["Add"]
        return replace(found, nodes=tuple(nodes), output=output, scale=scale, bias=bias)

    # --- what operators are --------------------------------------------------------------------------

    def _squared(self, node: Node) -> int:
        """Return the tensor that a node squares, -1 if it does not."""
        return square_of(self._graph, node)

    def _is_mean(self, node: Node) -> bool:
        """Return whether a node takes the mean along the last axis and keeps that axis."""
        taken, made = (self._graph.tensors[tensor].shape for tensor in (node.inputs[0], node.outputs[0]))
        return node.op_type == "ReduceMean" and len(taken) > 0 and made == (*taken[:-1], 1)

    def _only_reader(self, tensor: int, op_type: str = "") -> Node | None:
        readers = self._consumers[tensor]
        if len(readers) != 1 or tensor in self._graph.outputs:
            return None
        node = self._graph.nodes[readers[0]]
        return node if op_type in ("", node.op_type) else None

    def _number(self, tensor: int) -> float | None:
        return number_of(self._graph, tensor)

    def _is_channels(self, tensor: int, found: Normalisation) -> bool:
        """Return whether a tensor is one constant for all channels, or one for each."""
        shape = self._graph.tensors[found.source].shape
        if found.axis < 0:
            return self._is_vector(tensor, shape[-1])
        values = self._graph.constants.get(tensor)
        if values is None or values.dtype.kind != "f":
            return False
        return math.prod(values.shape) == 1 or is_along(values.shape, shape, found.axis)

    def _is_vector(self, tensor: int, size: int) -> bool:
        """Return whether a tensor is one constant for all channels, or one for each."""
        values = self._graph.constants.get(tensor)
        if values is None or values.dtype.kind != "f":
            return False
        return math.prod(values.shape) == 1 or (values.shape[-1] == size and math.prod(values.shape) == size)
