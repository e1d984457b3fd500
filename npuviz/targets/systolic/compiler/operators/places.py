"""Places along an axis: ArgMax and ArgMin find them, OneHot marks them.

Assumed: the comparator has the number of an element along the axis as an operand.
"""

from functools import partial
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.chunks import (
    Chunk,
    Operand,
    choose_walk,
    lower_chunks,
    middle_axes,
)
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES
from npuviz.targets.systolic.kernels import program_records as tk

_WORDS = 2
"""Words of the accumulator for an integer of 64 bits."""


def lower_extreme(lowering: Lowering, node: Node) -> None:
    """Lower ArgMax and ArgMin: the extreme of a row, the places that hold it, and the first or last of
    these."""
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source,))
    attributes = attributes_of(node)
    storage, result = lowering.storage(source), lowering.storage(output)
    axis = attributes.axis(len(storage.shape))
    if not storage.is_row_major or not result.is_row_major:
        raise CannotLower("the input or the result lies in another order in DRAM")
    extents = middle_axes(storage, (axis,))
    outer, middle, inner = extents
    is_last = bool(attributes.given.get("select_last_index", 0))
    extreme = np.max if node.op_type == "ArgMax" else np.min

    def room(elements: int) -> int:
        return (elements + (_WORDS + 2) * max(1, elements // middle)) * ACC_BYTES + 4 * 64

    walk = choose_walk(lowering, extents, [(extents, storage.item_bytes)], room, whole=2)

    def write(chunk: Chunk) -> None:
        count = chunk.shape[0] * inner
        values, found = chunk.temporary("extreme", count), chunk.temporary("place", count)
        places = chunk.temporary("places", count * middle)
        key = (node.op_type, middle, inner, is_last)
        aux = lowering.function((*key, "extreme"), lambda a, _: extreme(a, axis=1, keepdims=True), "extreme")
        chunk.vector(tk.OP_ADDTREE, (chunk.words[0],), values, aux, middle, count, count)
        aux = lowering.function((*key, "places"), partial(_places, is_last), "places of the extreme")
        chunk.vector(tk.OP_COMP, (chunk.words[0], values), places, aux, count * middle)
        chosen = np.max if is_last else np.min
        aux = lowering.function((*key, "place"), lambda a, _: chosen(a, axis=1, keepdims=True), "place")
        chunk.vector(tk.OP_ADDTREE, (places,), found, aux, middle, count, count)
        aux = lowering.function("long place", lambda a, _: a.astype(np.int64), "place of 64 bits")
        chunk.vector(tk.OP_COMP, (found,), chunk.out, aux, count, result=_WORDS * count)

    lower_chunks(lowering, node, output, [Operand(source, extents)], walk, write, (outer, 1, inner))


def _places(is_last: bool, values: np.ndarray, extremes: np.ndarray) -> np.ndarray:
    """Return the places (rows, size, columns) of the extremes, elsewhere one behind or before all places."""
    numbers = np.arange(values.shape[1], dtype=np.int32)[:, None]
    return np.where(values == extremes, numbers, np.int32(-1 if is_last else values.shape[1]))


def lower_one_hot(lowering: Lowering, node: Node) -> None:
    """Lower OneHot with constant values: each index is compared with the numbers of the new axis."""
    indices, output = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    values = lowering.constant(node.inputs[2])
    if values is None:
        raise CannotLower("values are known at run time only", change="constant values")
    if not indices.is_row_major or not output.is_row_major or not prod(output.shape):
        raise CannotLower("indices or the result lie in another order in DRAM, or are empty")
    kind = numpy_dtype(lowering.tensor(node.outputs[0]).dtype)
    if kind.itemsize > ACC_BYTES and kind.kind != "i":
        raise CannotLower("numbers of 32 bits, and integers", str(kind), "float32 values")
    axis = int(node.attributes.get("axis", -1)) % len(output.shape)
    depth, inner = output.shape[axis], prod(output.shape[axis + 1 :])
    axes, rows = (prod(output.shape[:axis]), depth, inner), (prod(output.shape[:axis]), 1, inner)
    words = _WORDS if output.item_bytes > ACC_BYTES else 1

    def room(elements: int) -> int:
        return (words * elements + max(1, elements // depth)) * ACC_BYTES + 2 * 64

    walk = choose_walk(lowering, axes, [(rows, indices.item_bytes)], room, whole=2)
    off, on = (kind.type(each) for each in values.reshape(-1))

    def write(chunk: Chunk) -> None:
        count = chunk.shape[0] * inner
        front = chunk.temporary("front", count)
        read = _WORDS if indices.item_bytes > ACC_BYTES else 1
        aux = lowering.function(("front", depth), partial(_from_the_front, depth), "index from the front")
        chunk.vector(tk.OP_COMP, (chunk.words[0],), front, aux, read * count, result=count)
        key = ("one hot", depth, inner, chunk.shape, off, on)
        aux = lowering.function(key, partial(_marked, depth, off, on), "marks")
        number = words * chunk.num_elements
        chunk.vector(tk.OP_COMP, (front,), chunk.out, aux, chunk.num_elements, result=number)

    lower_chunks(lowering, node, output.tensor, [Operand(indices.tensor, rows)], walk, write)


def _from_the_front(depth: int, given: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return indices that count from the front, -1 for those outside of the axis."""
    whole = np.trunc(given).astype(np.int64)
    made = np.where(whole < 0, whole + depth, whole)
    return np.where((made >= 0) & (made < depth), made, -1).astype(np.int32)


def _marked(depth: int, off: np.generic, on: np.generic, front: np.ndarray, _: np.ndarray) -> np.ndarray:
    numbers = np.arange(depth, dtype=np.int32)[:, None]
    return np.where(front == numbers, on, off)


LOWERINGS = {"ArgMax": lower_extreme, "ArgMin": lower_extreme, "OneHot": lower_one_hot}
