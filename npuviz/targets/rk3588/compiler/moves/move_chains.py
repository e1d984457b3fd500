"""Find views and Transposes one after the other: one copy, whatever shapes lie in between.

An attention splits the columns of a product into heads and brings these to the front. The tensor in between
would cut through atoms; from end to end atoms stay whole.
"""

from collections.abc import Callable, Collection, Sequence

from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.operator_kinds import VIEWS

_FLOATS = ("float32", "float16")
_MOVES = frozenset((*VIEWS, "Transpose")) - {"Cast"}


def is_chain(graph: Graph, nodes: Sequence[int]) -> bool:
    """Return whether nodes of a layer are several such moves."""
    return len(nodes) > 1 and all(graph.nodes[node].op_type in _MOVES for node in nodes)


def with_moves(
    graph: Graph,
    only_reader: Callable[[int], Node | None],
    body: tuple[Node, tuple[int, ...], int],
    kept: Collection[int],
) -> tuple[tuple[int, ...], int]:
    """Return the nodes of a layer with the moves that belong to it, and the tensor after the last.

    body  the layer's head, its nodes without moves, and the tensor after them
    """
    node, nodes, made = body
    apart = _written_apart(graph, only_reader, node, made, kept)
    if apart is not None:
        return (*nodes, apart.id), apart.outputs[0]
    moves = _chain_of_moves(graph, only_reader, node, kept)
    return (nodes, made) if len(moves) < 2 else (tuple(each.id for each in moves), moves[-1].outputs[0])


def _chain_of_moves(
    graph: Graph, only_reader: Callable[[int], Node | None], node: Node, kept: Collection[int]
) -> list[Node]:
    """Return a move and those after it, each the only reader of the one before.

    Returns the node alone if none of them changes the order of elements, or if it is no move.

    only_reader  of a tensor that is no output
    kept         nodes that stay alone
    """
    found = [node]
    while found[-1].op_type in _MOVES:
        reader = only_reader(found[-1].outputs[0])
        if reader is None or reader.op_type not in _MOVES or reader.inputs[0] != found[-1].outputs[0]:
            break
        if reader.id in kept:
            break
        if graph.tensors[reader.outputs[0]].dtype not in _FLOATS:
            break
        found.append(reader)
    return found if any(each.op_type == "Transpose" for each in found) else [node]


def _written_apart(
    graph: Graph, only_reader: Callable[[int], Node | None], node: Node, made: int, kept: Collection[int]
) -> Node | None:
    """Return the DepthToSpace behind a dense Conv whose kernels can be in its order, None if there is none.

    The channels of one place must fill atoms: more kernels than the Conv has would take longer.

    made  tensor after the Conv's activation
    """
    reader = only_reader(made) if node.op_type == "Conv" and len(node.inputs) > 1 else None
    if reader is None or reader.op_type != "DepthToSpace" or reader.id in kept:
        return None
    if any(tensor >= 0 and tensor not in graph.constants for tensor in node.inputs[1:]):
        return None
    fills = graph.tensors[reader.outputs[0]].shape[1] % packing("float16").channels == 0
    return reader if fills and attributes_of(node).integer("group") == 1 else None
