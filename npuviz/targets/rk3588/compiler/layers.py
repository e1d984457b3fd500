"""Group graph nodes into layers: an operator, what is fused with it, and how its tensors are stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.host_operators import lacking
from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.host_only import DYNAMIC_LSTM, dynamic_lstm_reason, hangs_on_digits
from npuviz.targets.rk3588.compiler.lookup_table import Function
from npuviz.targets.rk3588.compiler.moves.move_chains import with_moves
from npuviz.targets.rk3588.compiler.normalisations.normalisation import Normalisation, Normalisations
from npuviz.targets.rk3588.compiler.normalisations.variances import CANCELS, VARIANCE, variances_by_difference
from npuviz.targets.rk3588.compiler.operator_kinds import (
    CONVERSIONS,
    DENSE,
    LIMITS,
    LOGIC,
    OTHERS,
    PAIRS,
    POOLS,
    PRODUCTS,
    RECURRENT,
    VIEWS,
)
from npuviz.targets.rk3588.compiler.partition.matrices import matrix_fits
from npuviz.targets.rk3588.compiler.pointwise import Chain, PointwiseChains, most_steps_between
from npuviz.targets.rk3588.compiler.quantisation import MOVES, Quantisation, QuantisedGraph, quantisation_of
from npuviz.targets.rk3588.spec import RknnSpec

_REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin")
MOST_STEPS = 2
"""Most steps by which a result may differ if a table takes sums that the model rounds to 8 bits."""
_TIMES_ITSELF = {"Sigmoid": "Silu", "HardSigmoid": "HardSwish"}
"""Operator f -> the name of x * f(x)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as a layer reads or writes it: where it is stored, and how it is scaled (None: fp16)."""

    tensor: int
    quantisation: Quantisation | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation function of a graph: `function` is an operator type, or "Silu" for two nodes.

    node   with the attributes; nodes  all that it stands for; output  tensor after the last
    taken  how the 8-bit tensor before it is scaled, if the head's sums go into the table unrounded
    chain  function of real values of a chain of nodes that is none of the named functions
    """

    function: str
    node: Node
    nodes: tuple[int, ...]
    output: int
    taken: Quantisation | None = None
    chain: Function | None = None


@dataclass(frozen=True)
class Layer:
    """One operator on the NPU, or one node for the Host.

    nodes     graph nodes that it covers, head first; inputs  activations in the head's order
    activation  fused after the head, the head itself if it is one, or None
    is_host   whether nothing was recognised; others  outputs of the head after the first
    normalisation  the normalisation that the nodes form together, if they do
    """

    head: Node
    nodes: tuple[int, ...]
    inputs: tuple[Stored, ...] = ()
    output: Stored = field(default=Stored(-1))
    activation: Activation | None = None
    is_host: bool = False
    others: tuple[Stored, ...] = ()
    normalisation: Normalisation | None = None

    @property
    def is_quantised(self) -> bool:
        """Whether the layer computes in int8."""
        return self.output.quantisation is not None

    @property
    def sums(self) -> Quantisation | None:
        """How the head's results are scaled: before its table, if it has one."""
        taken = self.activation.taken if self.activation is not None else None
        return taken or self.output.quantisation


def upper_limit(constants: Mapping[int, np.ndarray], node: Node) -> float | None:
    """Return the limit of a Relu (inf) or of a Clip from 0 on, None for other nodes."""
    if node.op_type == "Relu":
        return math.inf
    if node.op_type != "Clip":
        return None
    given = [constants.get(tensor) if tensor >= 0 else None for tensor in node.inputs[1:3]]
    low, high = (
        float(np.reshape(value, -1)[0]) if value is not None else float(node.attributes.get(name, default))
        for value, name, default in zip(
            (*given, None, None)[:2], ("min", "max"), (-math.inf, math.inf), strict=True
        )
    )
    if any(tensor >= 0 and value is None for tensor, value in zip(node.inputs[1:3], given, strict=True)):
        return None
    return high if low == 0 and high > 0 else None


class Planner:
    """Decide layer by layer, in graph order, what the NPU runs.

    kept  nodes that the Host computes in fp32; spec  rates, if one way is faster than another
    matrices  matrices of `dense` by node, so that they are found once
    """

    def __init__(
        self, graph: Graph, kept: frozenset[int] = frozenset(), spec: RknnSpec | None = None
    ) -> None:
        self.graph = graph
        self._kept = kept
        self._spec = spec or RknnSpec()
        self.quantised = QuantisedGraph(graph)
        self._consumers = graph.consumers()
        self._left: set[int] = set()
        self._normalisations = Normalisations(graph, kept)
        self._variances = variances_by_difference(graph)
        self._chains = PointwiseChains(graph, self.quantised, lambda node: node.id not in kept)
        self.matrices: dict[int, Any] = {}

    def layers(self) -> list[Layer]:
        """Return all layers in an order in which they can run; nodes that a layer covers are not repeated.

        DequantizeLinear nodes of constants and of tensors that only NPU layers read vanish: a node is kept
        for the Host only if a Host node, or the graph's output, needs its float tensor.
        """
        covered: set[int] = set()
        found: list[Layer] = []
        for node in self.graph.nodes:
            if node.id in covered or self._is_read_through(node):
                continue
            layer = self._layer(node)
            covered |= set(layer.nodes)
            self._left |= set(layer.nodes if layer.is_host else ())
            found.append(layer)
        return self._with_floats(found, covered)

    def is_activation(self, node: Node) -> bool:
        """Return whether the NPU has the operator as an activation, and may compute it."""
        if node.id in self._kept:
            return False
        if node.op_type in LIMITS:
            return upper_limit(self.graph.constants, node) is not None
        return activation_function(node.op_type, attributes_of(node)) is not None

    def is_constant(self, tensor: int) -> bool:
        """Return whether a tensor is known before the program runs; an omitted one is."""
        return tensor < 0 or tensor in self.graph.constants or tensor in self.quantised.constants

    def reason_for_host(self, node: Node) -> HostReason:
        """Return why a node does not become a layer of the NPU."""
        if node.id in self._kept:
            return HostReason("keep_fp32 names it, and the NPU stores fp16", change="take it off keep_fp32")
        if self._is_empty(node):
            return HostReason("it has a tensor without elements")
        if self._cancels(node):
            return VARIANCE if node.id in self._variances else CANCELS
        if hangs_on_digits(self.graph, self._consumers, node):
            return HostReason("a rounded number or a choice hangs on it, which fp16 or a NaN turns over")
        if self._activations(node):
            if any(t >= 0 and self.graph.tensors[t].dtype == "float64" for t in node.inputs):
                return HostReason("the NPU has no float64", change="float32 tensors")
            kinds = ", ".join(dict.fromkeys(self.graph.tensors[t].dtype for t in node.inputs if t >= 0))
            return HostReason(
                "its tensors are neither floats nor all quantised",
                kinds,
                "float32 tensors, or QuantizeLinear and DequantizeLinear with constant scales around it",
            )
        if node.op_type == DYNAMIC_LSTM:
            return dynamic_lstm_reason(self.graph, node, self._spec)
        return lacking(node, "the NPU has")

    # --- what belongs together -----------------------------------------------------------------------

    def _is_read_through(self, node: Node) -> bool:
        """Return whether this is a DequantizeLinear whose readers may take the stored integers instead."""
        output = node.outputs[0] if node.outputs else -1
        return output in self.quantised.sources or output in self.quantised.constants

    def _layer(self, node: Node) -> Layer:
        alone = Layer(node, (node.id,), is_host=True)
        if self._is_empty(node) or node.id in self._kept:
            return alone
        normal = self._normalisations.from_node(node)
        if normal is not None and not self.is_constant(normal.source):
            ends = Stored(normal.source), Stored(normal.output)
            return Layer(node, normal.nodes, ends[:1], ends[1], normalisation=normal)
        if self._cancels(node) or hangs_on_digits(self.graph, self._consumers, node):
            return alone
        if node.op_type in CONVERSIONS:
            return self._conversion(node) or alone
        operands = self._activations(node)
        if not operands:
            return alone
        return (
            self._quantised(node, operands)
            or self._half(node, operands)
            or self._moved(node, operands)
            or alone
        )

    def _is_empty(self, node: Node) -> bool:
        """Return whether a node has a tensor without elements; an empty constant counts as left out."""
        names = [tensor for tensor in node.inputs if not self.is_constant(tensor)]
        found = [self.graph.tensors[tensor] for tensor in (*names, *node.outputs) if tensor >= 0]
        return any(tensor.num_elements == 0 for tensor in found)

    def _cancels(self, node: Node) -> bool:
        """Return whether fp16 would lose what is left: a Sub takes a reduction off its own tensor, made by
        the Host. Leading digits cancel, and fp16 has rounded away those after them. The reduction, which
        would have the tensor stored as fp16, stays there, too, and so do a Softmax and such a variance."""
        if node.id in self._variances:
            return True
        if node.op_type in ("Softmax", "LogSoftmax"):
            return self._is_exact(node.inputs[0])
        if node.op_type in _REDUCTIONS:
            readers = [self.graph.nodes[reader] for reader in self._consumers[node.outputs[0]]]
            taken = [
                reader for reader in readers if reader.op_type == "Sub" and reader.inputs[0] == node.inputs[0]
            ]
            return bool(taken) and self._is_exact(node.inputs[0])
        if node.op_type != "Sub" or self.is_constant(node.inputs[0]):
            return False
        whole, part = (self.graph.tensors[tensor] for tensor in node.inputs)
        reduction = self.graph.nodes[part.producer] if part.producer >= 0 else None
        if reduction is None or reduction.op_type not in _REDUCTIONS or reduction.inputs[0] != whole.id:
            return False
        return self._is_exact(whole.id)

    def _is_exact(self, tensor: int) -> bool:
        """Return whether a tensor comes from the Host, in fp32."""
        producer = self.graph.tensors[tensor].producer
        return producer < 0 or producer in self._left

    def _activations(self, node: Node) -> list[int]:
        """Return the inputs of an operator of the NPU that are no constants; none if it cannot be one."""
        kind, names = node.op_type, node.inputs
        if kind in (*PRODUCTS, *PAIRS, *LOGIC):
            operands = [tensor for tensor in names if not self.is_constant(tensor)]
        elif kind == "Concat":
            operands = names
        elif kind in RECURRENT:
            states = [tensor for tensor in names[5:7] if not self.is_constant(tensor)]
            operands = [*names[:1], *states]
        elif kind in VIEWS or kind in POOLS or kind in OTHERS or self.is_activation(node):
            operands = names[:1]
        elif kind in DENSE:
            operands = [tensor for tensor in names if not self.is_constant(tensor)]
            is_any_size = node.op_type == "Pad"
            operands = operands if is_any_size or self._is_small(operands, node) else []
        else:
            operands = []
        return [] if any(self.is_constant(tensor) for tensor in operands) else list(operands)

    def _is_small(self, operands: list[int], node: Node) -> bool:
        """Return whether a matrix over all elements is small enough."""
        taken, given = (
            sum(self.graph.tensors[tensor].num_elements for tensor in tensors if tensor >= 0)
            for tensors in (operands, node.outputs)
        )
        return matrix_fits(self._spec, taken, given)

    def _activation(self, tensor: int) -> Activation | None:
        """Return the only activation that reads a float tensor, None if there is none."""
        readers = self._consumers[tensor]
        if tensor in self.graph.outputs:
            return None
        if len(readers) == 1:
            node = self.graph.nodes[readers[0]]
            found = Activation(node.op_type, node, (node.id,), node.outputs[0])
            return found if self.is_activation(node) and node.inputs[0] == tensor else None
        for number in readers:
            pair = self._times_itself(self.graph.nodes[number])
            if pair is not None and sorted(readers) == sorted((pair.nodes[0], pair.nodes[-1])):
                return pair
        return None

    def _times_itself(self, node: Node) -> Activation | None:
        """Return x * f(x) from the node of f on, maybe with integers in between; None if none."""
        name = _TIMES_ITSELF.get(node.op_type)
        if name is None or node.outputs[0] in self.graph.outputs:
            return None
        if name == "HardSwish" and not _is_hard_swish(node):
            return None
        nodes, made = [node.id], node.outputs[0]
        target = self.quantised.targets.get(made)
        if target is not None:
            back = self._only_reader(target.outputs[0])
            if back is None or back.op_type != "DequantizeLinear":
                return None
            nodes += [target.id, back.id]
            made = back.outputs[0]
        product = self._only_reader(made)
        if product is None or product.op_type != "Mul" or sorted(product.inputs) != sorted(
            (node.inputs[0], made)
        ):  # fmt: skip
            return None
        return Activation(name, node, (*nodes, product.id), product.outputs[0])

    def _only_reader(self, tensor: int) -> Node | None:
        readers = self._consumers[tensor]
        if len(readers) != 1 or tensor in self.graph.outputs:
            return None
        return self.graph.nodes[readers[0]]

    def _body(self, node: Node, may_look_up: bool) -> tuple[tuple[int, ...], Activation | None, int]:
        """Return an operator's nodes with its activation, the activation, and the tensor after them."""
        if self.is_activation(node):
            found = self._times_itself(node) or Activation(node.op_type, node, (node.id,), node.outputs[0])
            return found.nodes, found, found.output
        behind = self._activation(node.outputs[0])
        if behind is None or not _may_follow(node.op_type, behind.function, may_look_up):
            return (node.id,), None, node.outputs[0]
        return (node.id, *behind.nodes), behind, behind.output

    def _quantised(self, node: Node, operands: list[int]) -> Layer | None:
        """Return the operator as an int8 layer, if its activations and its result are int8; else None."""
        if node.op_type in RECURRENT or (node.op_type in PRODUCTS and len(operands) > 1):
            return None
        inputs: list[Stored] = []
        for tensor in operands:
            source = self.quantised.sources.get(tensor)
            if source is None:
                return None
            inputs.append(Stored(source.stored, source.quantisation))
        nodes, activation, made = (
            self._looked_up(node) or self._chained(node) or self._body(node, may_look_up=False)
        )
        target = self.quantised.targets.get(made)
        scaled = quantisation_of(self.graph.constants, target) if target is not None else None
        if target is None or scaled is None:
            return None
        covered, others = [*nodes, target.id], []
        for tensor in node.outputs[1:]:
            target_of = self.quantised.targets.get(tensor)
            end = quantisation_of(self.graph.constants, target_of) if target_of is not None else None
            if target_of is None or end is None:
                return None
            covered.append(target_of.id)
            others.append(Stored(target_of.outputs[0], end))
        output = Stored(target.outputs[0], scaled)
        return Layer(node, tuple(covered), tuple(inputs), output, activation, others=tuple(others))

    def _chained(self, node: Node) -> tuple[tuple[int, ...], Activation, int] | None:
        """Return a chain that begins with a node, as `_body` does."""
        chain = self._chains.from_node(node)
        if chain is None:
            return None
        return chain.nodes, _activation_of(chain), chain.made

    def _looked_up(self, node: Node) -> tuple[tuple[int, ...], Activation, int] | None:
        """Return a product in int8 whose sums go directly into a table, as `_body` does."""
        between = self.quantised.targets.get(node.outputs[0])
        back = self._only_reader(between.outputs[0]) if between is not None else None
        if node.op_type not in PRODUCTS or between is None or back is None:
            return None
        if back.op_type != "DequantizeLinear":
            return None
        chain = self._chains.behind(between.outputs[0])
        if chain is not None and not self._gains(node):
            return None
        found = _activation_of(chain) if chain is not None else self._activation(back.outputs[0])
        end = self.quantised.targets.get(found.output) if found is not None else None
        if found is None or end is None or found.function in LIMITS:
            return None
        taken, out = (quantisation_of(self.graph.constants, scaled) for scaled in (between, end))
        if taken is None or out is None or self._steps_off(found, taken, out) > MOST_STEPS + 0.5:
            return None
        nodes = (node.id, between.id, back.id, *found.nodes)
        return nodes, replace(found, taken=taken), found.output

    def _gains(self, product: Node) -> bool:
        """Return whether a table after a product beats one of its own, which skips filled-up kernels."""
        shape = self.graph.tensors[product.outputs[0]].shape
        channels = shape[1] if len(shape) > 2 else shape[len(shape) - 1]
        is_depthwise = product.op_type == "Conv" and attributes_of(product).integer("group") == channels > 1
        size = self._spec.channels_depthwise if is_depthwise else self._spec.kernels_int8
        plain, table = 1 / self._spec.output_rate, 1 / self._spec.table_rate
        filled = -(-channels // size) * size
        return filled * table <= filled * plain + channels * table

    def _steps_off(self, activation: Activation, taken: Quantisation, out: Quantisation) -> float:
        """Return how many steps of its result an activation of unrounded numbers is off at most."""
        if activation.chain is not None:
            return most_steps_between(activation.chain, taken, out)
        exact = (np.arange(-128, 127, 1 / 16) - taken.zero_point) * taken.scale
        rounded = taken.rounded(exact)
        attributes = attributes_of(activation.node)
        whole = activation_function(activation.function, attributes)
        inner = activation_function(activation.node.op_type, attributes)
        if whole is None or inner is None:
            return math.inf
        made = inner.function(rounded)
        if len(activation.nodes) > 2:
            between = quantisation_of(self.graph.constants, self.graph.nodes[activation.nodes[1]])
            made = made if between is None else between.rounded(made)
        if activation.function != activation.node.op_type:
            made = made * rounded
        return float(np.abs(out.rounded(whole.function(exact)) - out.rounded(made)).max()) / out.scale

    def _conversion(self, node: Node) -> Layer | None:
        """Return a layer for a single QuantizeLinear or DequantizeLinear between fp16 and int8."""
        scaled = quantisation_of(self.graph.constants, node)
        ends = Stored(node.inputs[0]), Stored(node.outputs[0])
        is_down = node.op_type == "QuantizeLinear"
        kinds = [self.graph.tensors[end.tensor].dtype for end in (ends if is_down else ends[::-1])]
        if (
            scaled is None
            or self.is_constant(ends[0].tensor)
            or kinds[0] not in ("float32", "float16")
            or kinds[1] not in ("int8", "uint8")
        ):
            return None
        if is_down:
            return Layer(node, (node.id,), (ends[0],), Stored(ends[1].tensor, scaled))
        return Layer(node, (node.id,), (Stored(ends[0].tensor, scaled),), ends[1])

    def _half(self, node: Node, operands: list[int]) -> Layer | None:
        """Return the operator as a layer in fp16."""
        if not self._is_of_floats(operands, taken=node.op_type in (*LOGIC, "Cast")):
            return None
        inputs = tuple(Stored(tensor) for tensor in operands)
        if node.op_type in RECURRENT:
            ends = tuple(Stored(tensor) for tensor in node.outputs if tensor >= 0)
            return Layer(node, (node.id,), inputs, ends[0], others=ends[1:])
        if not self._is_of_floats(node.outputs[:1], taken=node.op_type in LOGIC):
            return None
        nodes, activation, made = self._body(node, may_look_up=True)
        nodes, made = with_moves(self.graph, self._only_reader, (node, nodes, made), self._kept)
        others = tuple(Stored(tensor) for tensor in node.outputs[1:] if node.op_type == "Split")
        return Layer(node, nodes, inputs, Stored(made), activation, others=others)

    def _is_of_floats(self, tensors: Sequence[int], *, taken: bool) -> bool:
        """Return whether all tensors are stored as fp16. taken: booleans, too, as 0 and 1"""
        kinds = ("float32", "float16", "bool") if taken else ("float32", "float16")
        return all(self.graph.tensors[tensor].dtype in kinds for tensor in tensors)

    def _moved(self, node: Node, operands: list[int]) -> Layer | None:
        """Return a layer for an operator that moves 8-bit tensors of one scale without conversions."""
        tensors = [tensor for tensor in (*operands, *node.outputs) if tensor >= 0]
        scales = {self.quantised.stored.get(tensor) for tensor in tensors}
        if node.op_type not in MOVES or len(scales) != 1 or None in scales:
            return None
        if any(self.graph.tensors[tensor].dtype not in ("int8", "uint8") for tensor in tensors):
            return None
        stored = [Stored(tensor, self.quantised.stored[tensor]) for tensor in tensors]
        ends = stored[len(operands) :]
        return Layer(node, (node.id,), tuple(stored[: len(operands)]), ends[0], others=tuple(ends[1:]))

    def _with_floats(self, layers: list[Layer], covered: set[int]) -> list[Layer]:
        """Put back the DequantizeLinear nodes whose float tensors are read."""
        needed = set(self.graph.outputs)
        for layer in layers:
            if layer.is_host:
                needed |= {tensor for tensor in layer.head.inputs if tensor >= 0}
            else:
                needed |= {stored.tensor for stored in layer.inputs if stored.quantisation is None}
        kept = [
            self._layer(node)
            for node in self.graph.nodes
            if self._is_read_through(node) and node.id not in covered and node.outputs[0] in needed
        ]
        return sorted([*layers, *kept], key=lambda layer: max(layer.nodes))


def _activation_of(chain: Chain) -> Activation:
    node = chain.graph.nodes[chain.nodes[0]]
    return Activation("chain", node, chain.nodes, chain.made, chain=chain.function())


def _is_hard_swish(node: Node) -> bool:
    attributes = attributes_of(node)
    return math.isclose(attributes.real("alpha"), 1 / 6, rel_tol=1e-4) and attributes.real("beta") == 0.5


def _may_follow(head: str, function: str, may_look_up: bool) -> bool:
    """Return whether the tasks of an operator can end with an activation."""
    if head in PRODUCTS:
        return function in LIMITS or may_look_up
    return head in (*PAIRS, "BatchNormalization") and function == "Relu"
