"""Emit a run of nodes on one tile; func(x * a + c) becomes one instruction where possible."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from npuviz.program.graph import Graph, Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.channel_affine import parameter_keys
from npuviz.targets.neuroncore.compiler.operators.elementwise.formulas import (
    UNREAD_INPUTS,
    as_activation,
    emit,
)
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import Operand, row_of
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

_FLOATS = frozenset({"float32", "float16", "bfloat16"})


@dataclass(slots=True)
class TileRun:
    """Emits nodes on one tile, one after the other.

    values  operands of tensors on the chip; results are added
    fetch   makes the operand of any other tensor: a tile, one value a partition, or a number
    make    makes the tile of a node's result
    kept    tensors that are also read by other code
    """

    b: Builder
    values: dict[int, Operand]
    fetch: Callable[[int], Operand]
    make: Callable[[int], View]
    kept: Collection[int] = ()

    def run(self, nodes: Sequence[Node]) -> None:
        """Emit all nodes, in graph order."""
        at = 0
        while at < len(nodes):
            chain = self._chain(nodes, at)
            if len(chain) < 2 or not self._emit_chain(chain):
                chain = nodes[at : at + 1]
                self._emit_node(chain[0])
            at += len(chain)
            made = chain[-1].outputs[0]
            value = self.values[made]
            if isinstance(value, View):
                if at < len(nodes):
                    self.b.shown.show(made, value)
                else:
                    self.b.shown.belong_to(value)

    def operand(self, tensor: int) -> Operand:
        """Return the operand of a tensor, fetched at its first use."""
        if tensor not in self.values:
            self.values[tensor] = self.fetch(tensor)
        return self.values[tensor]

    def _emit_node(self, node: Node) -> None:
        unread = UNREAD_INPUTS.get(node.op_type, frozenset[int]())
        operands: list[Operand | None] = [
            None if tensor < 0 or position in unread else self.operand(tensor)
            for position, tensor in enumerate(node.inputs)
        ]
        if node.op_type == "BatchNormalization":
            operands += [self.operand(key) for key in parameter_keys(node)]
        made = self.make(node.outputs[0])
        with self.b.node(node.id):
            emit(self.b, node, operands, made)
        self.values[node.outputs[0]] = made

    def _chain(self, nodes: Sequence[Node], at: int) -> Sequence[Node]:
        """Return the run of Mul, Add and activation (any of them may be missing) that starts at node `at`."""
        graph = self.b.graph
        wanted = ["Mul", "Add", "function"]
        found = 0
        while wanted and at + found < len(nodes):
            node = nodes[at + found]
            if found and not self._continues(nodes, at + found):
                break
            while wanted and not _is_a(graph, node, wanted[0]):
                wanted.pop(0)
            if not wanted:
                break
            wanted.pop(0)
            found += 1
        return nodes[at : at + found]

    def _continues(self, nodes: Sequence[Node], at: int) -> bool:
        """Return whether node `at` is the only reader of the result of the node before it, and reads it
        once.
        """
        made = nodes[at - 1].outputs[0]
        if made in self.kept or nodes[at].inputs.count(made) != 1:
            return False
        return not any(made in node.inputs for node in nodes[at + 1 :])

    def _emit_chain(self, chain: Sequence[Node]) -> bool:
        """Emit func(x * scale + bias) as one instruction; return False if an operand forbids it."""
        x: View | None = None
        scale: float | View = 1.0
        bias: float | View = 0.0
        func: tuple[Activation, float] | None = None
        made = -1
        for node in chain:
            kind = as_activation(self.b.graph, node)
            if kind is not None:
                func = kind
                if x is None:
                    return False
            else:
                pair = self._main_and_parameter(node, made)
                if pair is None:
                    return False
                x = x or pair[0]
                if node.op_type == "Mul":
                    scale = pair[1]
                else:
                    bias = pair[1]
            made = node.outputs[0]
        if x is None:
            return False
        dst = self.make(made)
        with self.b.node(chain[-1].id):
            if func is not None:
                self.b.isa.activation(dst, x, func[0], scale=scale, bias=bias, alpha=func[1])
            else:
                self.b.isa.tensor_scalar(dst, x, Alu.MULTIPLY, scale, Alu.ADD, bias)
        self.values[made] = dst
        return True

    def _main_and_parameter(self, node: Node, made: int) -> tuple[View | None, float | View] | None:
        """Return (tile, number or fp32 row) of a product or sum; no tile if it is `made` by the node
        before.
        """
        if made >= 0:
            other = node.inputs[1] if node.inputs[0] == made else node.inputs[0]
            parameter = _parameter(self.operand(other))
            return None if parameter is None else (None, parameter)
        for main, other in (node.inputs, node.inputs[::-1]):
            tile, parameter = self.operand(main), _parameter(self.operand(other))
            if isinstance(tile, View) and parameter is not None and _parameter(tile) is None:
                return tile, parameter
        return None


def _is_a(graph: Graph, node: Node, kind: str) -> bool:
    if graph.tensors[node.outputs[0]].dtype not in _FLOATS:
        return False
    if kind == "function":
        return as_activation(graph, node) is not None
    return node.op_type == kind and len(node.inputs) == 2


def _parameter(operand: Operand) -> float | View | None:
    """Return the operand if it is a number or one fp32 value a partition, else None."""
    if not isinstance(operand, View):
        return float(operand)
    row = row_of(operand)
    return row if row is not None and row.dtype == "float32" else None
