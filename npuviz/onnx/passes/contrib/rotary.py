"""Rewrites rotary position embedding, which rotates pairs of features by an angle that depends on the
position."""

import numpy as np
from onnx import NodeProto

from npuviz.onnx.passes.contrib.writer import CannotWrite, Writer, standard

Shape = tuple[int, ...]


def write_rotary(writer: Writer, node: NodeProto) -> None:
    """Rewrite RotaryEmbedding of com.microsoft and of the standard (since operator set 23)."""
    source = writer.given(0)
    if standard(node):
        cos, sin, positions = writer.given(1), writer.given(2), writer.given(3)
    else:
        positions, cos, sin = writer.given(1), writer.given(2), writer.given(3)
        if float(writer.attribute("scale", 1.0)) != 1.0 or int(writer.attribute("is_packed_batching", 0)):
            raise CannotWrite
    shape = writer.shape(source)
    heads, partial = (int(writer.attribute(key, 0)) for key in ("num_heads", "rotary_embedding_dim"))
    placed, whole, axis = source, shape, 1
    if len(shape) == 3:
        if not heads and partial:
            raise CannotWrite
        heads = heads or shape[2] // (2 * writer.shape(cos)[-1])
        whole, axis = (*shape[:2], heads, shape[2] // heads), 2
        placed = writer.reshape(source, whole)
    size = (whole[0], whole[3 - axis])
    if positions:
        at = positions
        if writer.shape(positions) == (1,):
            at = _counted_from(writer, positions, size[1])
            size = (1, size[1])
        angles = angles_at(writer, (cos, sin), at, size, axis)
    else:
        angles = (writer.widened(cos, [axis]), writer.widened(sin, [axis]))
    is_paired = bool(writer.attribute("interleaved", 0))
    turned = turn(writer, (placed, whole), angles, partial or whole[-1], is_paired)
    writer.reshape(turned, shape, writer.wanted(0))


def _counted_from(writer: Writer, first: str, rows: int) -> str:
    """Compute the positions of all rows, (rows,), from the first one, (1,)."""
    return writer.add("Add", [first, writer.constant("rows", np.arange(rows, dtype=np.int64))])


def angles_at(
    writer: Writer, tables: tuple[str, str], positions: str, size: tuple[int, int], axis: int
) -> tuple[str, str]:
    """Look up cosines and sines of positions, (batch, 1, rows, pairs), or (batch, rows, 1, pairs) for axis 2.

    tables  names of the cosines and sines of all positions, (positions, pairs);  size  batch and rows
    """
    key = ("angles", *tables, positions, size, axis)
    known = writer.shared((*key, "cos"))
    if known:
        return known, writer.shared((*key, "sin"))
    pairs = writer.shape(tables[0])[-1]
    shape = (size[0], 1, size[1], pairs) if axis == 1 else (size[0], size[1], 1, pairs)
    made = [writer.reshape(writer.add("Gather", [table, positions], axis=0), shape) for table in tables]
    return writer.share((*key, "cos"), made[0]), writer.share((*key, "sin"), made[1])


def turn(
    writer: Writer, source: tuple[str, Shape], angles: tuple[str, str], turned: int, is_paired: bool
) -> str:
    """Rotate the first `turned` features of a tensor's last axis. Returns the name of the result.

    source     name and shape of the tensor
    is_paired  neighbouring features form pairs; else feature i of the first half pairs with i of the second
    half
    """
    name, shape = source
    rest = shape[-1] - turned
    parts = writer.split(name, [turned, rest] if rest else [turned], -1)
    half = turned // 2
    if is_paired:
        pairs = writer.reshape(parts[0], (*shape[:-1], half, 2))
        single = [writer.reshape(each, (*shape[:-1], half)) for each in writer.split(pairs, [1, 1], -1)]
        first, second = single
    else:
        first, second = writer.split(parts[0], [half, half], -1)
    cos, sin = angles
    left = writer.add("Sub", [writer.add("Mul", [first, cos]), writer.add("Mul", [second, sin])])
    right = writer.add("Add", [writer.add("Mul", [first, sin]), writer.add("Mul", [second, cos])])
    if not is_paired:
        return writer.add("Concat", [left, right, *parts[1:]], axis=-1)
    wide = [writer.reshape(each, (*shape[:-1], half, 1)) for each in (left, right)]
    both = writer.reshape(writer.add("Concat", wide, axis=-1), (*shape[:-1], turned))
    return writer.add("Concat", [both, *parts[1:]], axis=-1) if rest else both
