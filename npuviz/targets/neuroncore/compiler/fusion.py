"""Group nodes that share a loop over tiles: elementwise nodes, and those that follow a matrix operator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from npuviz.program.graph import Graph, Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.cast import is_raw
from npuviz.targets.neuroncore.compiler.operators.elementwise.chain import TileRun
from npuviz.targets.neuroncore.compiler.operators.elementwise.channel_affine import is_known
from npuviz.targets.neuroncore.compiler.operators.elementwise.formulas import FORMULAS, UNREAD_INPUTS
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import Operand
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View

GroupKind = Literal["single", "elementwise", "epilogue"]
MAX_NODES = 10
"""Most nodes of a group: their tiles must fit into SBUF, and tensors inside a group cannot be viewed."""
HEADS = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm"})
"""Matrix operators, whose results leave PSUM through an epilogue."""
FLOATS = frozenset({"float32", "float16", "bfloat16"})
_TYPES = FLOATS | {"int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"}
# Lowered by itself: its result usually shares the bytes of its input.
_ALONE = frozenset({"Identity"})
_EPILOGUE = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Min", "Max", "Neg", "Abs", "Sqrt", "Pow", "Exp", "Clip"),
        *("PRelu", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Swish", "Gelu"),
        *("Erf", "Elu", "Selu", "Sum", "Mean", "Softplus", "Mish", "Softsign"),
    )
)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are lowered together, at the place of the last one.

    head       the matrix operator of an "epilogue", else the first node
    followers  the others, in graph order; only nodes of the group read the tensors between them
    """

    head: Node
    followers: tuple[Node, ...]
    kind: GroupKind

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes in graph order."""
        return (self.head, *self.followers)

    @property
    def result(self) -> int:
        """The tensor that the group stores: the last node's first output."""
        return self.nodes[-1].outputs[0]


def plan_groups(graph: Graph, epilogues: bool = True) -> list[Group]:
    """Divide all nodes into groups, in an order in which they can be lowered.

    epilogues  whether elementwise nodes may join a matrix operator's group
    """
    consumers = graph.consumers()
    members: dict[int, list[int]] = {node.id: [node.id] for node in graph.nodes}
    root: dict[int, int] = {node.id: node.id for node in graph.nodes}
    heads: set[int] = set()
    # From the end of the graph: a node joins the group of its readers if all of them are in one.
    for node in reversed(graph.nodes):
        found = _group_of_readers(graph, consumers, root, node)
        if found < 0 or found in heads or len(members[found]) >= MAX_NODES:
            continue
        last = graph.nodes[found]
        shape = graph.tensors[last.outputs[0]].shape
        if graph.tensors[node.outputs[0]].shape != shape:
            continue
        group = [graph.nodes[i] for i in members[found]]
        if node.op_type in HEADS:
            first = graph.nodes[min(members[found])]
            fits = epilogues and all(_fits_epilogue(graph, each) for each in group)
            if not fits or node.outputs[0] not in first.inputs:
                continue
            heads.add(found)
        elif not (_fits_loop(graph, node) and all(_fits_loop(graph, each) for each in group)):
            continue
        members[found].append(node.id)
        root[node.id] = found
        del members[node.id]
    return [_group(graph, sorted(members[last]), last in heads) for last in sorted(members)]


def _group_of_readers(graph: Graph, consumers: dict[int, list[int]], root: dict[int, int], node: Node) -> int:
    """Return the group (by its last node) that is the only reader of the node's only output; -1 if none."""
    outputs = [tensor for tensor in node.outputs if tensor >= 0]
    if len(outputs) != 1 or outputs[0] in graph.outputs:
        return -1
    readers = {root[reader] for reader in consumers[outputs[0]]}
    return readers.pop() if len(readers) == 1 else -1


def _group(graph: Graph, ids: list[int], has_head: bool) -> Group:
    nodes = [graph.nodes[i] for i in ids]
    if has_head:
        head = next(node for node in nodes if node.op_type in HEADS)
        return Group(head, tuple(node for node in nodes if node is not head), "epilogue")
    return Group(nodes[0], tuple(nodes[1:]), "elementwise" if len(nodes) > 1 else "single")


def _fits_loop(graph: Graph, node: Node) -> bool:
    """Return whether the node may share a loop with other elementwise nodes."""
    if node.op_type not in FORMULAS or node.op_type in _ALONE:
        return False
    if node.op_type == "BatchNormalization" and not is_known(graph, node):
        return False
    unread = UNREAD_INPUTS.get(node.op_type, frozenset[int]())
    read = [t for position, t in enumerate(node.inputs) if t >= 0 and position not in unread]
    return all(
        graph.tensors[t].dtype in _TYPES and not is_raw(graph.tensors[t].dtype)
        for t in (*read, *(t for t in node.outputs if t >= 0))
    )


def _fits_epilogue(graph: Graph, node: Node) -> bool:
    """Return whether the node may follow a matrix operator: on floats, and cheap on a tile."""
    tensors = (*node.inputs, *node.outputs)
    return node.op_type in _EPILOGUE and all(t < 0 or graph.tensors[t].dtype in FLOATS for t in tensors)


def emit_epilogue(
    b: Builder,
    followers: Sequence[Node],
    values: dict[int, Operand],
    fetch: Callable[[int], Operand],
    dst: View,
) -> None:
    """Emit the followers on one tile; the last one writes `dst`.

    values  operands of tensors on the chip, at least the first follower's input; results are added
    fetch   makes the operand of any other tensor: a tile or a number
    """
    last = followers[-1].outputs[0]

    def make(tensor: int) -> View:
        return dst if tensor == last else b.tiles.sbuf(dst.partitions, dst.shape, "float32")

    with b.tiles.scope():
        TileRun(b, values, fetch, make).run(followers)
