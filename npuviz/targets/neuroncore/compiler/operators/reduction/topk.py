"""Lower TopK, ArgMax and ArgMin: find the extremes of an axis in turn, of long axes in two stages."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise import primitives
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.normalization.softmax import along_axis, ramp, reduce_axis
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import axis_tiles, split_at, store_as
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

LIMIT = 4096
"""Most elements of a partition; about nine such tiles are held at a time."""
MAX_RANKED = 256
"""Largest k; every rank is a pass over the axis."""
MAX_INDEX = 1 << 24
"""Largest axis, because indices are fp32 numbers."""
_KINDS = ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32")


@dataclass(frozen=True, slots=True)
class Order:
    """The ranking: largest or smallest value first, and of equal values the first or the last place."""

    largest: bool = True
    prefers_last: bool = False

    @property
    def op(self) -> Alu:
        """The reduction that finds the extreme."""
        return Alu.MAXIMUM if self.largest else Alu.MINIMUM

    def worst(self, kind: str) -> float | int:
        """Return a value that ranks last."""
        if kind in primitives.WIDE:
            info = np.iinfo(kind)
            return int(info.min if self.largest else info.max)
        return float("-inf") if self.largest else float("inf")


def _kind(dtype: str) -> str:
    """Return the type in which values are compared."""
    return dtype if dtype in primitives.WIDE else "float32"


def rank(b: Builder, x: View, k: int, order: Order, names: View | None = None) -> tuple[View, View]:
    """Find the first `k` of a tile (P, axis, inner): values and places, each (P, k, inner).

    names  the numbers to return as places, whole numbers (P, axis, inner); None: 0, 1, ...
    """
    kind, size = _kind(x.dtype), x.shape[0]
    inner = x.shape[1]
    found = b.tiles.sbuf(x.partitions, (k, inner), kind)
    places = b.tiles.sbuf(x.partitions, (k, inner), "int32")
    preferred = ramp(b, x.partitions, size, is_falling=not order.prefers_last).broadcast(*x.shape)
    left, alive = x, None
    for step in range(k):
        with b.tiles.scope():
            peak = reduce_axis(b, left, order.op, kind)
            marks = b.tiles.sbuf(x.partitions, x.shape, "float32")
            primitives.binary(b, marks, left, along_axis(peak, x), Alu.EQUAL, integer=kind in primitives.WIDE)
            primitives.binary(b, marks, marks, preferred, Alu.MULTIPLY)
            if alive is not None:
                # Taken values may equal those left: only elements that are not taken count.
                primitives.binary(b, marks, marks, alive, Alu.MULTIPLY)
            best = reduce_axis(b, marks, Alu.MAXIMUM)
            b.isa.copy(found[:, step], peak)
            taken: View | None = None
            if names is not None or step + 1 < k:
                taken = b.tiles.sbuf(x.partitions, x.shape, "float32")
                primitives.binary(b, taken, preferred, along_axis(best, x), Alu.EQUAL)
            _name_place(b, places[:, step], best, size, order, taken, names)
        if step + 1 < k and alive is None:
            left, alive = (
                b.tiles.sbuf(x.partitions, x.shape, kind),
                b.tiles.sbuf(x.partitions, x.shape, "float32"),
            )
            b.isa.copy(left, x)
            b.isa.memset(alive, 1.0)
        if step + 1 < k:
            assert taken is not None
            assert alive is not None
            with b.tiles.scope():
                primitives.binary(b, alive, alive, taken, Alu.SUBTRACT)
                primitives.where(b, left, taken, order.worst(kind))
    return found, places


def _name_place(
    b: Builder, dst: View, best: View, size: int, order: Order, taken: View | None, names: View | None
) -> None:
    """Compute dst = the place with the mark `best`, or its name."""
    if names is not None:
        assert taken is not None
        chosen = primitives.temporary(b, taken)
        primitives.binary(b, chosen, taken, names, Alu.MULTIPLY)
        b.isa.copy(dst, reduce_axis(b, chosen, Alu.ADD))
    elif order.prefers_last:
        primitives.scalar(b, dst, best, Alu.SUBTRACT, 1.0)
    else:
        primitives.scalar(b, dst, best, Alu.SUBTRACT, float(size), reverse=True)


def _find(
    b: Builder, source: HbmView, axis: int, k: int, order: Order, values: HbmView | None, indices: HbmView
) -> None:
    """Store the first `k` along an axis in `values` and `indices`, which have an axis of k elements."""
    before, size, behind = split_at(source.shape, axis)
    if size > LIMIT and behind == 1:
        _find_in_two_stages(b, source.reshape(before, size), k, order, values, indices)
        return
    sides = [source, *([values] if values is not None else []), indices]
    for tile in axis_tiles(source.shape, axis, sides, LIMIT):
        with b.tiles.scope():
            found, places = rank(b, tile.fetch(b, 0), k, order)
            if values is not None:
                tile.store(b, 1, found)
            tile.store(b, len(sides) - 1, places)


def _find_in_two_stages(
    b: Builder, source: HbmView, k: int, order: Order, values: HbmView | None, indices: HbmView
) -> None:
    """Rank long rows: first in chunks, one a partition, then the first `k` of all chunks again."""
    before, size = source.shape
    if size > MAX_INDEX:
        raise CannotLower(f"an axis of {size} elements (at most {MAX_INDEX})")
    chunks = min(NUM_PARTITIONS, max(-(-size // LIMIT), (LIMIT - k) // k))
    length = size // chunks
    tail = size - chunks * length
    each, last = min(k, length), min(k, tail)
    total = chunks * each + last
    if length > LIMIT or total > LIMIT:
        raise CannotLower(f"the first {k} of {size} elements do not fit into a partition")
    kind = _kind({"int64": "int32", "uint64": "uint32"}.get(source.dtype, source.dtype))
    candidates, names = b.hbm.scratch((before, total), kind), b.hbm.scratch((before, total), "float32")
    offsets = b.hbm.constant((np.arange(chunks) * length).astype(np.float32).reshape(chunks, 1))
    for row in range(before):
        pieces = [(source[row, : chunks * length].reshape(chunks, length), slice(0, chunks * each), each)]
        if tail:
            pieces.append((source[row, size - tail :].reshape(1, tail), slice(chunks * each, total), last))
        for piece, part, count in pieces:
            with b.tiles.scope():
                x = b.dma.fetch(piece)
                found, places = rank(b, x.reshape(x.free_size, 1), count, order)
                named = b.tiles.sbuf(x.partitions, (count, 1), "float32")
                offset = b.dma.fetch(offsets) if x.partitions == chunks else float(size - tail)
                b.isa.tensor_scalar(named, places, Alu.ADD, offset)
                b.dma.store(candidates[row, part].reshape(x.partitions, count, 1), found)
                b.dma.store(names[row, part].reshape(x.partitions, count, 1), named)
    for start in range(0, before, NUM_PARTITIONS):
        rows = slice(start, min(start + NUM_PARTITIONS, before))
        count = rows.stop - start
        with b.tiles.scope():
            x = b.dma.fetch(candidates[rows].reshape(count, total, 1))
            found, places = rank(b, x, k, order, b.dma.fetch(names[rows].reshape(count, total, 1)))
            if values is not None:
                store_as(b, values.reshape(before, k, 1)[rows], found)
            store_as(b, indices.reshape(before, k, 1)[rows], places)


def _check_type(view: HbmView) -> None:
    if view.dtype not in (*_KINDS, "int64", "uint64"):
        raise CannotLower(f"comparing {view.dtype}")


def lower_top_k(b: Builder, node: Node) -> None:
    """Lower TopK by a pass over the axis for each rank; of equal values, the first ranks first."""
    source = home(b, node.inputs[0])
    values, indices = home(b, node.outputs[0]), home(b, node.outputs[1])
    _check_type(source)
    axis = int(node.attributes.get("axis", -1)) % max(1, len(source.shape))
    k = values.shape[axis]
    if k > MAX_RANKED:
        raise CannotLower(f"TopK of more than {MAX_RANKED} elements")
    _find(b, source, axis, k, Order(bool(node.attributes.get("largest", 1))), values, indices)


def lower_arg(b: Builder, node: Node) -> None:
    """Lower ArgMax and ArgMin, without special treatment of NaN."""
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    _check_type(source)
    axis = int(node.attributes.get("axis", 0)) % max(1, len(source.shape))
    kept = tuple(1 if i == axis else size for i, size in enumerate(source.shape))
    order = Order(node.op_type == "ArgMax", bool(node.attributes.get("select_last_index", 0)))
    _find(b, source, axis, 1, order, None, target.reshape(*kept))


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "TopK": lower_top_k,
    "ArgMax": lower_arg,
    "ArgMin": lower_arg,
}
