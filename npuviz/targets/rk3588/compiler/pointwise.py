"""Find chains of element-by-element operators on one 8-bit tensor: all of a chain is a table of 256 values.

A quantised hard-swish, for example, is an Add, a Clip, a Div and a Mul, each followed by a QuantizeLinear and
a DequantizeLinear. One task with a table of the DPU does what all of them do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.lookup_table import Function
from npuviz.targets.rk3588.compiler.quantisation import Quantisation, QuantisedGraph, quantisation_of

MOST_NODES = 64
"""Most nodes of a chain: longer ones are cut."""
FEWEST_OPERATORS = 3
"""A task with a table takes as long as two without: from three operators on, one table is faster."""
_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_BINARY: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum,
    "Min": np.minimum,
}  # fmt: skip


@dataclass(frozen=True)
class Chain:
    """Nodes that make an 8-bit tensor of one other, element by element.

    nodes   ids in an order in which they can run, without the QuantizeLinear at the end
    stored  the 8-bit tensor that they begin with
    made    the float tensor that they end with
    """

    graph: Graph
    quantised: QuantisedGraph
    stored: int
    nodes: tuple[int, ...]
    made: int

    @property
    def operators(self) -> int:
        """Number of nodes that compute something."""
        return sum(self.graph.nodes[node].op_type not in _CONVERSIONS for node in self.nodes)

    def function(self) -> Function:
        """The chain as a function of real values of the stored tensor, each step rounded as the model does.

        The last step is rounded, too: a table has not the digits to round values half way again.
        """
        return partial(_evaluated, self)


def between_steps(function: Function, taken: Quantisation) -> Function:
    """Turn a function of 8-bit numbers into one of sums that are not rounded yet, given at quarters of a
    step.

    Near a whole number it has the value there, half way between two the mean of both: a table that is
    straight in between is off by at most half of what the function changes in one step.
    """

    def stepped(real: np.ndarray) -> np.ndarray:
        quarters = np.rint(4 * (real / taken.scale + taken.zero_point))
        below, above = np.ceil(quarters / 4 - 0.5), np.floor(quarters / 4 + 0.5)
        ends = [np.clip(end, -128, 127) for end in (below, above)]
        low, high = (function((end - taken.zero_point) * taken.scale) for end in ends)
        return (low + high) / 2

    return stepped


def most_steps_between(function: Function, taken: Quantisation, out: Quantisation) -> float:
    """Return by how many steps of the result `between_steps` is off at most, the last rounding included."""
    made = out.rounded(function((np.arange(-128, 128) - taken.zero_point) * taken.scale))
    return float(np.abs(np.diff(made)).max()) / out.scale / 2 + 0.5


def _evaluated(chain: Chain, real: np.ndarray) -> np.ndarray:
    """Return real results of real values, in fp32 as ONNX Runtime computes them."""
    first = np.asarray(real, np.float32)
    known: dict[int, np.ndarray] = {}

    def value(tensor: int) -> np.ndarray:
        if tensor in known:
            return known[tensor]
        source = chain.quantised.sources.get(tensor)
        if source is not None and source.stored == chain.stored:
            return first
        constant = _scalar(chain.graph, chain.quantised, tensor)
        assert constant is not None
        return constant

    with np.errstate(all="ignore"):
        for number in chain.nodes:
            node = chain.graph.nodes[number]
            known[node.outputs[0]] = _result(chain.graph, node, value)
    end = chain.quantised.targets[chain.made]
    return _result(chain.graph, end, lambda _: known[chain.made]).astype(np.float64)


def _result(graph: Graph, node: Node, value: Callable[[int], np.ndarray]) -> np.ndarray:
    taken = value(node.inputs[0])
    if node.op_type == "QuantizeLinear":
        scaled = quantisation_of(graph.constants, node)
        assert scaled is not None
        stored = np.rint(taken / np.float32(scaled.scale)) + np.float32(scaled.zero_point)
        # Results stay real numbers, so that a DequantizeLinear has nothing to do.
        return (np.clip(stored, -128, 127) - np.float32(scaled.zero_point)) * np.float32(scaled.scale)
    if node.op_type == "DequantizeLinear":
        return taken
    if node.op_type in _BINARY:
        return _BINARY[node.op_type](taken, value(node.inputs[1]))
    if node.op_type == "Clip":
        low, high = ([*(value(t) if t >= 0 else None for t in node.inputs[1:]), None, None])[:2]
        return np.clip(taken, low, high)
    if node.op_type == "Relu":
        return np.maximum(taken, np.float32(0))
    found = activation_function(node.op_type, attributes_of(node))
    assert found is not None
    return found.function(taken.astype(np.float64)).astype(np.float32)


class PointwiseChains:
    """Find the chains of a graph. `may_compute` says which operators the NPU may take at all."""

    def __init__(self, graph: Graph, quantised: QuantisedGraph, may_compute: Callable[[Node], bool]) -> None:
        self.graph = graph
        self._quantised = quantised
        self._may_compute = may_compute
        self._consumers = graph.consumers()

    def from_node(self, head: Node) -> Chain | None:
        """Return the longest chain whose first node is this one, None if none is worth a table."""
        stored = {
            source.stored
            for tensor in head.inputs
            if tensor >= 0 and (source := self._quantised.sources.get(tensor)) is not None
        }
        if len(stored) != 1 or not self._is_operator(head):
            return None
        found = self._from_stored(stored.pop())
        return found if found is not None and found.nodes[0] == head.id else None

    def behind(self, stored: int) -> Chain | None:
        """Return the chain that is the only reader of an 8-bit tensor, None without one."""
        found = self._from_stored(stored)
        if found is None or stored in self.graph.outputs:
            return None
        for number in self._consumers[stored]:
            floats = self.graph.nodes[number].outputs
            source = self._quantised.sources.get(floats[0]) if floats else None
            if source is None or source.stored != stored or floats[0] in self.graph.outputs:
                return None
            if not set(self._consumers[floats[0]]) <= set(found.nodes):
                return None
        return found

    def _from_stored(self, stored: int) -> Chain | None:
        nodes, tensors = self._region(stored)
        ends = [
            node.outputs[0]
            for node in (self.graph.nodes[number] for number in nodes)
            if node.op_type not in _CONVERSIONS and node.outputs[0] in self._quantised.targets
        ]
        for made in reversed(ends):
            target = self._quantised.targets[made]
            if quantisation_of(self.graph.constants, target) is None:
                continue
            inner = self._inner(made, nodes, tensors)
            if inner is not None:
                chain = Chain(self.graph, self._quantised, stored, inner, made)
                if chain.operators >= FEWEST_OPERATORS:
                    return chain
        return None

    def _region(self, stored: int) -> tuple[list[int], set[int]]:
        """Return nodes that read nothing but the stored tensor, each other and constants; and their
        results."""
        floats = [
            self.graph.nodes[number].outputs[0]
            for number in self._consumers[stored]
            if (source := self._quantised.sources.get(self.graph.nodes[number].outputs[0])) is not None
            and source.stored == stored
        ]
        known = set(floats)
        found: list[int] = []
        waiting = sorted({number for tensor in floats for number in self._consumers[tensor]})
        while waiting and len(found) < MOST_NODES:
            number = waiting.pop(0)
            node = self.graph.nodes[number]
            if number in found or not self._is_pointwise(node, known, stored):
                continue
            found.append(number)
            known.add(node.outputs[0])
            waiting = sorted({*waiting, *self._consumers[node.outputs[0]]})
        return found, known - set(floats)

    def _inner(self, made: int, region: list[int], tensors: set[int]) -> tuple[int, ...] | None:
        """Return the nodes that a result needs, None if other nodes read what they make."""
        needed: set[int] = set()
        wanted = [made]
        while wanted:
            tensor = wanted.pop()
            producer = self.graph.tensors[tensor].producer
            if tensor not in tensors or producer in needed:
                continue
            needed.add(producer)
            wanted += [each for each in self.graph.nodes[producer].inputs if each >= 0]
        for number in needed:
            result = self.graph.nodes[number].outputs[0]
            if result in self.graph.outputs:
                return None
            if result != made and not set(self._consumers[result]) <= needed:
                return None
        return tuple(number for number in region if number in needed)

    def _is_operator(self, node: Node) -> bool:
        if node.op_type in (*_BINARY, "Clip", "Relu"):
            return True
        return activation_function(node.op_type, attributes_of(node)) is not None

    def _is_pointwise(self, node: Node, known: set[int], stored: int) -> bool:
        """Return whether a node computes each element from the same element of the stored tensor alone."""
        if len(node.outputs) != 1 or not node.inputs or node.inputs[0] < 0 or not self._may_compute(node):
            return False
        result, shape = self.graph.tensors[node.outputs[0]], self.graph.tensors[stored].shape
        if result.shape != shape:
            return False
        if node.op_type in _CONVERSIONS:
            scaled = quantisation_of(self.graph.constants, node)
            return scaled is not None and node.inputs[0] in known and self._agrees(node, scaled)
        if not self._is_operator(node) or result.dtype != "float32":
            return False
        if node.op_type in _BINARY and len(node.inputs) != 2:
            return False
        given = [tensor for tensor in node.inputs if tensor >= 0]
        return any(tensor in known for tensor in given) and all(
            tensor in known or _scalar(self.graph, self._quantised, tensor) is not None for tensor in given
        )

    def _agrees(self, node: Node, scaled: Quantisation) -> bool:
        """Return whether a DequantizeLinear scales as the QuantizeLinear before it did."""
        if node.op_type == "QuantizeLinear":
            return True
        return self._quantised.stored.get(node.inputs[0]) == scaled


def _scalar(graph: Graph, quantised: QuantisedGraph, tensor: int) -> np.ndarray | None:
    """Return a constant of one element in fp32, None for other tensors."""
    found = graph.constants.get(tensor)
    stored = quantised.constants.get(tensor)
    if found is None and stored is not None:
        found = stored.values.astype(np.float32) * stored.scales.astype(np.float32).reshape(-1)[:1]
    if found is None or np.size(found) != 1 or np.asarray(found).dtype.kind not in "fiu":
        return None
    return np.asarray(found, np.float32).reshape(())
