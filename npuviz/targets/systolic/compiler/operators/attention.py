"""Attention operators of ONNX (Attention since operator set 23) and com.microsoft (MultiHeadAttention)."""

from math import prod, sqrt

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.attention_writer import (
    AttentionProblem,
    HeadsOperand,
    write_attention,
)
from npuviz.targets.systolic.compiler.operators.copies import Axis, Move, lower_moves
from npuviz.targets.systolic.compiler.tiling.attention import AttentionSizes
from npuviz.targets.systolic.values.storage import FLOATS


def lower_attention(lowering: Lowering, node: Node) -> None:
    """Lower Attention of ONNX: 3-D or 4-D, grouped heads, mask, causal, with a cache of earlier keys and
    values."""
    if node.domain == "com.microsoft":
        raise CannotLower("the fused projection of com.microsoft Attention")
    attributes = node.attributes
    if float(attributes.get("softcap", 0.0)) or (len(node.outputs) > 3 and node.outputs[3] >= 0):
        raise CannotLower("a soft cap, or scores that are asked for")
    if lowering.input(node, 6) >= 0:
        raise CannotLower("lengths of padded keys that are known at run time only")
    heads = int(attributes.get("q_num_heads", 0))
    kv_heads = int(attributes.get("kv_num_heads", 0))
    query, key, value = (
        _heads(lowering, node.inputs[i], count) for i, count in enumerate((heads, kv_heads, kv_heads))
    )
    past_key, past_value = lowering.input(node, 4), lowering.input(node, 5)
    past = 0
    if past_key >= 0:
        past = lowering.tensor(past_key).shape[2]
        if len(node.outputs) < 3 or node.outputs[1] < 0 or node.outputs[2] < 0 or past_value < 0:
            raise CannotLower("a cache whose new content is not asked for")
    scale = float(attributes["scale"]) if attributes.get("scale") is not None else None
    mask = lowering.input(node, 3)
    causal = past if int(attributes.get("is_causal", 0)) else None
    _solve(lowering, node, (query, key, value), mask, scale, causal, (past_key, past_value))


def lower_multi_head_attention(lowering: Lowering, node: Node) -> None:
    """Lower MultiHeadAttention of com.microsoft without bias, padding mask and cache."""
    if any(lowering.input(node, position) >= 0 for position in (3, 4, 6, 7)):
        raise CannotLower("a bias, a padding mask or a cache")
    if any(index >= 0 for index in node.outputs[1:]):
        raise CannotLower("keys and values that are asked for")
    heads = int(node.attributes.get("num_heads", 0))
    if any(lowering.input(node, position) < 0 for position in (1, 2)):
        raise CannotLower("packed queries, keys and values", change="three inputs instead of one")
    operands = tuple(_heads(lowering, node.inputs[position], heads) for position in range(3))
    scale = float(node.attributes["scale"]) if node.attributes.get("scale") else None
    causal = 0 if int(node.attributes.get("unidirectional", 0)) else None
    mask = lowering.input(node, 5)
    _solve(lowering, node, operands, mask, scale, causal, (-1, -1))


Shaped = tuple[HeadsOperand, tuple[int, int, int, int]]
"""A tensor as heads, and its shape (batch, heads, rows, features)."""


def _heads(lowering: Lowering, tensor: int, heads: int) -> Shaped:
    """Describe as heads a 4-D tensor (batch, heads, rows, features) or a 3-D one (batch, rows, heads *
    features)."""
    storage = lowering.storage(tensor)
    if not storage.is_row_major:
        raise CannotLower("an operand of attention does not lie row by row in DRAM")
    item, shape = storage.item_bytes, storage.shape
    if len(shape) == 4:
        batch, count, rows, features = shape
        strides = (count * rows * features, rows * features, features)
    elif len(shape) == 3 and heads > 0 and shape[2] % heads == 0:
        batch, rows, width = shape
        count, features = heads, width // heads
        strides = (rows * width, features, width)
    else:
        raise CannotLower("operands of attention that are neither 3-D with a number of heads nor 4-D")
    operand = HeadsOperand(tensor, *(stride * item for stride in strides))
    return operand, (batch, count, rows, features)


def _solve(
    lowering: Lowering,
    node: Node,
    operands: tuple[Shaped, ...],
    mask: int,
    scale: float | None,
    causal: int | None,
    past: tuple[int, int],
) -> None:
    (query, q_shape), (key, k_shape), (value, v_shape) = operands
    out = node.outputs[0]
    lowering.require_floats(node, (query.tensor, key.tensor, value.tensor, out))
    items = {lowering.storage(each.tensor).item_bytes for each in (query, key, value)}
    if len(items) > 1 or k_shape[1] == 0 or q_shape[1] % k_shape[1]:
        raise CannotLower("operands of different element types, or heads that do not divide")
    keys = k_shape[2]
    if past[0] >= 0:
        before = lowering.tensor(past[0]).shape[2]
        key = _cache(lowering, (past[0], key.tensor, node.outputs[1]), k_shape, before)
        value = _cache(lowering, (past[1], value.tensor, node.outputs[2]), v_shape, before)
        keys += before
    masked = _mask(lowering, mask, (q_shape[0], q_shape[1], q_shape[2], keys))
    target, _ = _heads(lowering, out, q_shape[1])
    sizes = AttentionSizes(
        batch=q_shape[0],
        kv_heads=k_shape[1],
        group=q_shape[1] // k_shape[1],
        queries=q_shape[2],
        keys=keys,
        features=q_shape[3],
        value_features=v_shape[3],
        item=items.pop(),
        mask_item=lowering.storage(mask).item_bytes if masked else 0,
    )
    factor = 1 / sqrt(q_shape[3]) if scale is None else scale
    problem = AttentionProblem(sizes, query, key, value, target, factor, masked, causal)
    if past[0] >= 0:
        _append(lowering, node, past, k_shape, v_shape)
    write_attention(lowering, node, problem)


def _cache(
    lowering: Lowering, tensors: tuple[int, int, int], shape: tuple[int, int, int, int], before: int
) -> HeadsOperand:
    """Return the operand of the whole cache with its new rows. Raises CannotLower if it does not lie as
    expected."""
    _, heads, rows, features = shape
    storage = lowering.storage(tensors[2])
    expected = (shape[0], heads, before + rows, features)
    if storage.shape != expected or any(len(lowering.tensor(t).shape) != 4 for t in tensors):
        raise CannotLower("a cache that is not 4-D")
    if not all(lowering.storage(tensor).is_row_major for tensor in tensors):
        raise CannotLower("a cache does not lie row by row in DRAM")
    item, total = storage.item_bytes, before + rows
    return HeadsOperand(tensors[2], heads * total * features * item, total * features * item, features * item)


def _append(
    lowering: Lowering,
    node: Node,
    past: tuple[int, int],
    k_shape: tuple[int, int, int, int],
    v_shape: tuple[int, int, int, int],
) -> None:
    """Write one layer that puts the cached rows and the new ones side by side."""
    moves: list[Move] = []
    for number, (batch, heads, rows, features) in enumerate((k_shape, v_shape)):
        new, target = node.inputs[1 + number], node.outputs[1 + number]
        before = lowering.tensor(past[number]).shape[2]
        item = lowering.storage(target).item_bytes
        row, total = features * item, before + rows
        for source, count, offset in ((past[number], before, 0), (new, rows, before * row)):
            axes = (
                Axis(batch * heads, count * row, total * row),
                Axis(count, row, row),
                Axis(features, item, item),
            )
            moves.append(Move(source, target, axes, 0, offset))
    lower_moves(lowering, node, moves)


def _mask(lowering: Lowering, mask: int, full: tuple[int, int, int, int]) -> HeadsOperand | None:
    """Return the operand of a mask that is added to the scores, broadcast to (batch, heads, queries,
    keys)."""
    if mask < 0:
        return None
    storage = lowering.storage(mask)
    if lowering.tensor(mask).dtype not in FLOATS:
        raise CannotLower("a mask of truth values", change="a mask of floats that is added")
    shape = (1,) * (4 - len(storage.shape)) + storage.shape
    if len(shape) != 4 or shape[3] != full[3] or not storage.is_row_major:
        raise CannotLower("a mask that does not have a column for every key")
    if any(size not in (1, whole) for size, whole in zip(shape, full, strict=True)):
        raise CannotLower("a mask that does not broadcast")
    strides = [0 if shape[axis] == 1 else prod(shape[axis + 1 :]) * storage.item_bytes for axis in range(3)]
    return HeadsOperand(mask, *strides)


LOWERINGS = {"Attention": lower_attention, "MultiHeadAttention": lower_multi_head_attention}
