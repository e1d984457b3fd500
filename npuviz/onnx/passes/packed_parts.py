"""Replaces a Gather behind Reshapes and Transposes of a whole tensor by a Slice of the tensor.

Attention layers compute queries, keys and values in one product; exporters then give the parts a separate
axis, transpose it to the front and pick from it. Each part is a slice of the product's columns. Networks that
shuffle their channels do the same; each part is then every second channel.
"""

import math
from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft, declare_weight
from npuviz.onnx.node_order import replace_nodes

Shapes = Mapping[str, tuple[int, tuple[int, ...]]]
MOST_ELEMENTS = 1 << 22
"""Largest tensor whose elements are tracked through moves."""
MOST_MOVES = 8
OLDEST_OPSET = 10
"""The first operator set in which Slice has its limits as inputs."""
_MOVES = frozenset(("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))


def slice_packed_parts(draft: Draft, shapes: Shapes) -> bool:
    """Replace each Gather of consecutive indices, behind moves that contain a Transpose, by Slice and Reshape
    of the tensor before the moves, in place. Returns whether there was any.

    shapes  element type and shape of every tensor
    """
    graph = draft.proto.graph
    opsets = {item.domain: item.version for item in draft.proto.opset_import}
    if opsets.get("", opsets.get("ai.onnx", 0)) < OLDEST_OPSET:
        return False
    makers = {name: node for node in graph.node for name in node.output if name}
    nodes: list[NodeProto] = []
    for node in graph.node:
        nodes += _sliced(draft, shapes, makers, node) or [node]
    if len(nodes) == len(graph.node):
        return False
    replace_nodes(graph, nodes)
    return True


def _sliced(
    draft: Draft, shapes: Shapes, makers: Mapping[str, NodeProto], node: NodeProto
) -> list[NodeProto] | None:
    """Return Slice and Reshape to replace a Gather; None if it picks no slice."""
    if node.op_type != "Gather" or node.domain not in ("", "ai.onnx") or node.input[1] not in draft.weights:
        return None
    moves: list[NodeProto] = []
    source = node.input[0]
    while source in makers and makers[source].op_type in _MOVES and len(moves) < MOST_MOVES:
        moves.append(makers[source])
        source = moves[-1].input[0]
    if source not in shapes or not any(_moves_elements(shapes, move) for move in moves):
        return None
    if any(name not in shapes for name in (node.output[0], *(move.output[0] for move in moves))):
        return None
    found = _slice_of(draft, shapes, source, moves, node)
    if found is None:
        return None
    target = node.output[0]
    limits = zip(("starts", "ends", "axes", "steps"), found if found[3] > 1 else found[:3], strict=False)
    reads = [_weight(draft, f"{target}__{key}", [value]) for key, value in limits]
    sizes = _weight(draft, f"{target}__shape", list(shapes[target][1]))
    name = node.name or target
    return [
        helper.make_node("Slice", [source, *reads], [f"{target}__part"], name=name),
        helper.make_node("Reshape", [f"{target}__part", sizes], [target], name=f"{name}__view"),
    ]


def _moves_elements(shapes: Shapes, move: NodeProto) -> bool:
    """Return whether a move changes the order of elements in memory."""
    if move.op_type != "Transpose" or move.input[0] not in shapes:
        return False
    shape = shapes[move.input[0]][1]
    moved = [axis for axis in _order_of(move, len(shape)) if shape[axis] > 1]
    return moved != sorted(moved)


def _order_of(move: NodeProto, rank: int) -> list[int]:
    found = next((list(item.ints) for item in move.attribute if item.name == "perm"), None)
    return list(range(rank))[::-1] if found is None else found


def _slice_of(
    draft: Draft, shapes: Shapes, source: str, moves: list[NodeProto], node: NodeProto
) -> tuple[int, int, int, int] | None:
    """Return start, end, axis and step of the slice of a tensor that a Gather behind moves picks; None if it
    is no slice.

    Computed by moving an array of element numbers.
    """
    shape = shapes[source][1]
    if not 0 < math.prod(shape) <= MOST_ELEMENTS:
        return None
    numbers = np.arange(math.prod(shape)).reshape(shape)
    moved = numbers
    for move in reversed(moves):
        if move.op_type == "Transpose":
            moved = moved.transpose(_order_of(move, moved.ndim))
        else:
            moved = moved.reshape(shapes[move.output[0]][1])
    axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
    indices = draft.weights[node.input[1]]
    if not indices.size or not -moved.shape[axis] <= indices.min() <= indices.max() < moved.shape[axis]:
        return None
    picked = np.take(moved, indices, axis=axis).reshape(-1)
    for place, size in enumerate(shape):
        inner = math.prod(shape[place + 1 :])
        if picked.size % (numbers.size // size):
            continue
        count = picked.size // (numbers.size // size)
        begin, second = (int(picked[at * inner]) // inner % size for at in (0, min(1, count - 1)))
        step = max(1, second - begin)
        part = numbers.take(range(begin, min(begin + count * step, size), step), axis=place)
        if count < size and np.array_equal(part.reshape(-1), picked):
            return begin, begin + (count - 1) * step + 1, place, step
    return None


def _weight(draft: Draft, name: str, values: list[int]) -> str:
    array = np.array(values, np.int64)
    draft.weights[name] = array
    declare_weight(draft.proto.graph, name, array)
    return name
