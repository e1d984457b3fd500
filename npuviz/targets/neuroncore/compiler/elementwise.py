"""Elementwise operators over any broadcast shapes: one loop over tiles for a group of nodes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.cast import device_dtype, is_raw
from npuviz.targets.neuroncore.compiler.families import CannotLower
from npuviz.targets.neuroncore.compiler.formulas import FORMULAS, UNREAD_INPUTS, emit
from npuviz.targets.neuroncore.compiler.formulas_core import Operand
from npuviz.targets.neuroncore.compiler.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.strides import merged_together
from npuviz.targets.neuroncore.compiler.view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.compiler.builder import Builder
    from npuviz.targets.neuroncore.compiler.fusion import Group

MAX_WIDTH = 2048
"""Elements of a tile in a partition: 8 KiB of fp32, long rows for the DMA engines."""
SMALL = 512
"""A tensor up to this size goes to one partition: spreading it costs more DMA than it saves."""
WORKING_BYTES = 96 * 1024
"""SBUF bytes of a partition that one tile's intermediate values may take."""
TILE_CYCLES = 1500
"""What a tile costs beside its elements: transfers and instruction latencies. Assumed."""
TEMPORARIES = 10
"""Tiles that the longest formulas take for themselves."""


@dataclass(frozen=True, slots=True)
class Block:
    """A tile of the iteration space: a slice of every side as (partitions, *free) views.

    sides  per side a view of that shape, with free size 1 where the side is broadcast
    """

    partitions: int
    free: tuple[int, ...]
    sides: tuple[HbmView, ...]


def blocks(
    shape: Sequence[int], sides: Sequence[HbmView], width: int = MAX_WIDTH, small: int = SMALL
) -> Iterator[Block]:
    """Tiles of at most 128 partitions and `width` elements that cover `shape` once.

    sides  views that broadcast to `shape` by numpy's rules
    """
    if 0 in shape:
        return
    wide = [side.broadcast_to(shape) for side in sides]
    dims = merged_together(shape, [side.steps for side in wide])
    sizes = [dim[0] for dim in dims]
    steps = [list(dim[1:]) for dim in dims]
    axis, width = _partition_axis(sizes, width, small)
    inner = sizes[axis + 1 :]
    chunk_axis = -1
    if _product(inner) > width:
        chunk_axis = _chunk_axis(sizes, axis, width)
    yield from _walk(wide, sizes, steps, axis, chunk_axis, width, small)


def _product(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _chunk_axis(sizes: Sequence[int], axis: int, width: int) -> int:
    """The axis behind `axis` that is cut: all further ones fit into `width` together."""
    inside = 1
    for index in range(len(sizes) - 1, axis, -1):
        if inside * sizes[index] > width:
            return index
        inside *= sizes[index]
    return axis


def _partition_axis(sizes: Sequence[int], width: int, small: int) -> tuple[int, int]:
    """The axis that is spread over partitions, by the fewest engine cycles; -1 for none."""
    if _product(sizes) <= small and len(sizes) <= 4:
        return -1, max(width, small)
    best, choice = float("inf"), 0
    for axis in range(len(sizes)):
        inner = _product(sizes[axis + 1 :])
        if min(inner, width) < inner or len(sizes) - axis - 1 > 3:
            cut = _chunk_axis(sizes, axis, width)
            inside = min(_product(sizes[cut + 1 :]) * sizes[cut], width) if cut > axis else inner
            tiles = -(-sizes[axis] // NUM_PARTITIONS) * -(-inner // max(1, inside))
            elements = inside
        else:
            rows = max(1, min(-(-sizes[axis] // NUM_PARTITIONS), width // inner))
            tiles = -(-sizes[axis] // (NUM_PARTITIONS * rows))
            elements = rows * inner
        cost = _product(sizes[:axis]) * tiles * (TILE_CYCLES + max(64, elements))
        if cost < best:
            best, choice = cost, axis
    return choice, width


def _walk(
    sides: Sequence[HbmView],
    sizes: list[int],
    steps: list[list[int]],
    axis: int,
    chunk_axis: int,
    width: int,
    small: int,
) -> Iterator[Block]:
    """All tiles: loops over the axes before `axis` and between it and the chunk, then the pieces."""
    loops = list(range(axis)) if axis > 0 else []
    if chunk_axis > axis:
        loops += range(axis + 1, chunk_axis)
    first_free = chunk_axis if chunk_axis > axis else axis + 1
    free = list(range(first_free, len(sizes)))
    while len(free) > 3:
        loops.append(free.pop(0))
    whole_rows = chunk_axis <= axis
    inner = _product([sizes[i] for i in free])
    for index in np.ndindex(*(sizes[i] for i in loops)):
        base = [
            side.offset + sum(at * steps[i][s] for at, i in zip(index, loops, strict=True))
            for s, side in enumerate(sides)
        ]
        if whole_rows:
            for start, partitions, rows in _row_pieces(sizes[axis] if axis >= 0 else 1, inner, width):
                dims = [(partitions, axis, rows), (rows, axis, 1)] + [(sizes[i], i, 1) for i in free]
                yield _block(sides, steps, base, dims, axis, start)
            continue
        step = max(1, width // _product([sizes[i] for i in free[1:]]))
        for at in range(0, sizes[chunk_axis], step):
            count = min(step, sizes[chunk_axis] - at)
            moved = [offset + at * steps[chunk_axis][s] for s, offset in enumerate(base)]
            for start in range(0, sizes[axis], NUM_PARTITIONS):
                partitions = min(NUM_PARTITIONS, sizes[axis] - start)
                dims = [(partitions, axis, 1), (count, chunk_axis, 1)]
                dims += [(sizes[i], i, 1) for i in free[1:]]
                yield _block(sides, steps, moved, dims, axis, start)


def _row_pieces(size: int, inner: int, width: int) -> Iterator[tuple[int, int, int]]:
    """(start, partitions, rows in each) that cover `size` rows of `inner` elements."""
    start = 0
    while start < size:
        left = size - start
        rows = max(1, min(-(-left // NUM_PARTITIONS), max(1, width // inner)))
        if inner * rows < 64 and left * inner > 64:
            rows = min(left, max(1, -(-64 // inner)))
        partitions = min(NUM_PARTITIONS, left // rows)
        yield start, partitions, rows
        start += partitions * rows


def _block(
    sides: Sequence[HbmView],
    steps: list[list[int]],
    base: list[int],
    dims: list[tuple[int, int, int]],
    axis: int,
    start: int,
) -> Block:
    """The block whose dimensions are (size, axis, multiple of the axis' step), partitions first."""
    kept = [dims[0], *(dim for dim in dims[1:] if dim[0] > 1)]
    if len(kept) == 1:
        kept.append((1, -1, 0))
    views: list[HbmView] = []
    for s, side in enumerate(sides):
        offset = base[s] + (start * steps[axis][s] if axis >= 0 else 0)
        shape: list[int] = []
        strides: list[int] = []
        for position, (size, i, multiple) in enumerate(kept):
            step = steps[i][s] * multiple if i >= 0 else 0
            shape.append(size if position == 0 or step else 1)
            strides.append(step)
        views.append(HbmView(side.variable, offset, side.dtype, tuple(shape), tuple(strides)))
    return Block(kept[0][0], tuple(size for size, _, _ in kept[1:]), tuple(views))


def home(b: "Builder", tensor: int) -> HbmView:
    """The tensor in HBM in a type that DMA and tiles know: bytes for types the engines lack."""
    found = b.hbm(tensor)
    device_dtype(found.dtype)
    return found.bitcast("uint8") if is_raw(found.dtype) or found.dtype == "bool" else found


def number(b: "Builder", tensor: int) -> float | int | None:
    """The value of a constant of one element, if the engines take it as a number."""
    data = b.graph.constants.get(tensor)
    if data is None or data.size != 1 or is_raw(b.graph.tensors[tensor].dtype):
        return None
    value = data.reshape(-1)[0]
    if data.dtype.kind in "iub":
        return int(value)
    return float(value)


def tile_dtype(b: "Builder", tensor: int) -> str:
    """The type of tiles of a tensor that stays on the chip."""
    dtype = b.graph.tensors[tensor].dtype
    if dtype == "float32" and tensor not in b.graph.outputs:
        return b.compute_dtype
    return device_dtype(dtype)


def lower_nodes(b: "Builder", nodes: Sequence[Node]) -> None:
    """One loop over tiles for elementwise nodes of one output shape, in graph order.

    Tensors read by other nodes and graph outputs are stored; the others never leave SBUF.
    Raises CannotLower before anything is emitted.
    """
    for node in nodes:
        check_types(b, node)
        _note_words(b, node)
    made = {tensor for node in nodes for tensor in node.outputs if tensor >= 0}
    inside = {node.id for node in nodes}
    consumers = b.graph.consumers()
    stored = [t for t in sorted(made) if t in b.graph.outputs or any(c not in inside for c in consumers[t])]
    read: list[int] = []
    for node in nodes:
        for position, tensor in enumerate(node.inputs):
            unread = position in UNREAD_INPUTS.get(node.op_type, ())
            if tensor >= 0 and tensor not in made and tensor not in read and not unread:
                read.append(tensor)
    numbers = {t: value for t in read if (value := number(b, t)) is not None}
    fetched = [t for t in read if t not in numbers]
    shape = b.graph.tensors[nodes[-1].outputs[0]].shape
    sides = [home(b, t) for t in (*fetched, *stored)]
    live = len(fetched) + len(made) + TEMPORARIES
    width = max(256, min(MAX_WIDTH, WORKING_BYTES // (4 * live) // 64 * 64))
    for block in blocks(shape, sides, width):
        with b.tiles():
            _lower_block(b, nodes, block, fetched, stored, numbers)


def _lower_block(
    b: "Builder",
    nodes: Sequence[Node],
    block: Block,
    fetched: list[int],
    stored: list[int],
    numbers: dict[int, float | int],
) -> None:
    values: dict[int, Operand] = dict(numbers)
    places = dict(zip(fetched, block.sides, strict=False))
    targets = dict(zip(stored, block.sides[len(fetched) :], strict=True))
    # Loads and results belong to the last node: their tiles must outlive the nodes in between.
    with b.node(nodes[-1].id):
        for node in nodes:
            run_node(b, node, values, lambda tensor: b.fetch(places[tensor]), block)
            for tensor in node.outputs:
                if tensor in targets:
                    value = values[tensor]
                    assert isinstance(value, View)
                    b.store(targets[tensor], value)


def run_node(
    b: "Builder",
    node: Node,
    values: dict[int, Operand],
    fetch: Callable[[int], Operand],
    block: Block,
    dst: View | None = None,
) -> None:
    """The node on one tile: operands from `values` or `fetch`, which `values` then keeps."""
    operands: list[Operand | None] = []
    for position, tensor in enumerate(node.inputs):
        if tensor < 0 or position in UNREAD_INPUTS.get(node.op_type, ()):
            operands.append(None)
            continue
        if tensor not in values:
            values[tensor] = fetch(tensor)
        operands.append(values[tensor])
    output = node.outputs[0]
    made = dst or b.sbuf(block.partitions, block.free, tile_dtype(b, output))
    with b.node(node.id):
        emit(b, node, operands, made)
    values[output] = made


def check_types(b: "Builder", node: Node) -> None:
    """Raises CannotLower if the engines cannot compute with one of the node's element types."""
    for position, tensor in enumerate((*node.inputs, *node.outputs)):
        if tensor < 0 or position in UNREAD_INPUTS.get(node.op_type, ()):
            continue
        dtype = b.graph.tensors[tensor].dtype
        device_dtype(dtype)
        if is_raw(dtype) and node.op_type not in ("Cast", "CastLike"):
            raise CannotLower(f"engines compute nothing in {dtype}")


def _note_words(b: "Builder", node: Node) -> None:
    """Say that 64-bit results are made of 32 bits."""
    kinds = {b.graph.tensors[t].dtype for t in (*node.inputs, *node.outputs) if t >= 0}
    if kinds & {"int64", "uint64"}:
        b.note("wide-integers", "64-bit integers are computed as their low 32 bits, extended when stored")


def lower_elementwise(b: "Builder", node: Node) -> None:
    """One elementwise node."""
    lower_nodes(b, (node,))


def lower_copy(b: "Builder", node: Node) -> None:
    """Identity, and casts that change no bit: a copy by DMA, for every type."""
    b.dma(b.hbm(node.outputs[0]), b.hbm(node.inputs[0]))


def _lower_cast(b: "Builder", node: Node) -> None:
    source, target = b.hbm(node.inputs[0]), b.hbm(node.outputs[0])
    from_type, to_type = source.dtype, target.dtype
    if from_type == to_type:
        lower_copy(b, node)
    elif {from_type, to_type} in _SAME_BITS:
        b.dma(target, source.bitcast(to_type))
    elif from_type == "uint32" and to_type in ("int64", "uint64"):
        # The engines would repeat the top bit as a sign.
        words = target.flatten().bitcast("uint32").reshape(source.num_elements, 2)
        b.dma(words[:, 0], source.flatten())
        zeros = b.constant(np.zeros((1,), np.uint32), "zero.uint32")
        b.dma(words[:, 1], zeros.broadcast_to((source.num_elements,)))
    elif to_type == "uint64" and from_type in ("int8", "int16", "int32"):
        _extend_sign(b, source, target.bitcast("int64"))
    else:
        lower_nodes(b, (node,))


def _extend_sign(b: "Builder", source: HbmView, target: HbmView) -> None:
    """target (64 bits) = signed integers."""
    for block in blocks(source.shape, (source, target)):
        with b.tiles():
            words = b.sbuf(block.partitions, block.free, "int32")
            b.copy(words, b.fetch(block.sides[0]))
            b.store(block.sides[1], words)


_SAME_BITS = tuple({f"int{bits}", f"uint{bits}"} for bits in (8, 16, 32, 64))


def _lower_bit_cast(b: "Builder", node: Node) -> None:
    target = b.hbm(node.outputs[0])
    source = b.hbm(node.inputs[0])
    if source.itemsize != target.itemsize:
        raise CannotLower("elements of another size")
    b.dma(target, source.bitcast(target.dtype))


def lower_group(b: "Builder", group: "Group") -> None:
    """All nodes of a group of kind "elementwise"."""
    lower_nodes(b, (group.head, *group.followers))


LOWERINGS: dict[str, Callable[["Builder", Node], None]] = {
    **dict.fromkeys(FORMULAS, lower_elementwise),
    "Identity": lower_copy,
    "Cast": _lower_cast,
    "CastLike": _lower_cast,
    "BitCast": _lower_bit_cast,
}
