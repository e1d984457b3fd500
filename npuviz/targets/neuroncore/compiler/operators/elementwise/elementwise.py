"""Lower elementwise operators over any broadcast shapes, with one loop over tiles for a group of nodes."""

from collections.abc import Callable, Sequence

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.fusion import Group
from npuviz.targets.neuroncore.compiler.operators.elementwise.cast import device_dtype, is_raw
from npuviz.targets.neuroncore.compiler.operators.elementwise.chain import TileRun
from npuviz.targets.neuroncore.compiler.operators.elementwise.channel_affine import (
    parameter_keys,
    slope_and_offset,
)
from npuviz.targets.neuroncore.compiler.operators.elementwise.formulas import FORMULAS, UNREAD_INPUTS
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import MAX_WIDTH, Block, blocks
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import Operand
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View

WORKING_BYTES = 96 * 1024
"""Most SBUF bytes of a partition for the intermediate values of one tile."""
TEMPORARIES = 10
"""Temporary tiles of the longest formulas."""


def home(b: Builder, tensor: int) -> HbmView:
    """Return the tensor's home in a type that DMA and tiles have: bytes for types the engines lack."""
    found = b.hbm[tensor]
    device_dtype(found.dtype)
    return found.bitcast("uint8") if is_raw(found.dtype) or found.dtype == "bool" else found


def number(b: Builder, tensor: int) -> float | int | None:
    """Return the value of a constant of one element if the engines take it as a number, else None."""
    data = b.graph.constants.get(tensor)
    if data is None or data.size != 1 or is_raw(b.graph.tensors[tensor].dtype):
        return None
    value = data.reshape(-1)[0]
    if data.dtype.kind in "iub":
        return int(value)
    return float(value)


def tile_dtype(b: Builder, tensor: int) -> str:
    """Return the element type of tiles for a tensor that stays on the chip."""
    dtype = b.graph.tensors[tensor].dtype
    if dtype == "float32" and tensor not in b.graph.outputs:
        return b.hbm.compute_dtype
    return device_dtype(dtype)


def lower_nodes(b: Builder, nodes: Sequence[Node]) -> None:
    """Emit one loop over tiles for elementwise nodes of one output shape, in graph order.

    The last node's result is stored; the other tensors never leave SBUF, and no node outside may read them.
    Raises CannotLower before anything is emitted.
    """
    for node in nodes:
        check_types(b, node)
        _note_words(b, node)
    made = {tensor for node in nodes for tensor in node.outputs if tensor >= 0}
    views: dict[int, HbmView] = {}
    numbers: dict[int, float | int] = {}
    for node in nodes:
        for position, tensor in enumerate(node.inputs):
            unread = position in UNREAD_INPUTS.get(node.op_type, ())
            if tensor < 0 or unread or tensor in made or tensor in views or tensor in numbers:
                continue
            value = number(b, tensor)
            if value is None:
                views[tensor] = home(b, tensor)
            else:
                numbers[tensor] = value
        if node.op_type == "BatchNormalization":
            for key, array in zip(parameter_keys(node), slope_and_offset(b.graph, node), strict=True):
                views[key] = b.hbm.constant(array, f"{b.graph.tensors[node.outputs[0]].name}.affine{key & 1}")
    result = nodes[-1].outputs[0]
    shape = b.graph.tensors[result].shape
    sides = [*views.values(), home(b, result)]
    live = len(sides) + len(made) + TEMPORARIES
    width = max(256, min(MAX_WIDTH, WORKING_BYTES // (4 * live) // 64 * 64))
    for block in blocks(shape, sides, width, by_channel=True):
        with b.tiles.scope():
            _lower_block(b, nodes, block, list(views), result, numbers)


def _lower_block(
    b: Builder,
    nodes: Sequence[Node],
    block: Block,
    read: list[int],
    result: int,
    numbers: dict[int, float | int],
) -> None:
    places = dict(zip(read, block.sides, strict=False))

    def fetch(tensor: int) -> Operand:
        return b.dma.fetch(places[tensor])

    def make(tensor: int) -> View:
        return b.tiles.sbuf(block.partitions, block.free, tile_dtype(b, tensor))

    # Loads and results belong to the last node: their tiles must outlive the nodes in between.
    with b.node(nodes[-1].id):
        run = TileRun(b, dict(numbers), fetch, make, (result,))
        run.run(nodes)
        value = run.values[result]
        assert isinstance(value, View)
        b.dma.store(block.sides[-1], value)


def check_types(b: Builder, node: Node) -> None:
    """Raise CannotLower if the engines cannot compute with one of the node's element types."""
    for position, tensor in enumerate((*node.inputs, *node.outputs)):
        if tensor < 0 or position in UNREAD_INPUTS.get(node.op_type, ()):
            continue
        dtype = b.graph.tensors[tensor].dtype
        device_dtype(dtype)
        if is_raw(dtype) and node.op_type not in ("Cast", "CastLike"):
            raise CannotLower(f"engines compute nothing in {dtype}")


def _note_words(b: Builder, node: Node) -> None:
    """Note that 64-bit integers are computed with 32 bits."""
    kinds = {b.graph.tensors[t].dtype for t in (*node.inputs, *node.outputs) if t >= 0}
    if kinds & {"int64", "uint64"}:
        b.note("wide-integers", "64-bit integers are computed as their low 32 bits, extended when stored")


def lower_elementwise(b: Builder, node: Node) -> None:
    """Lower one elementwise node."""
    lower_nodes(b, (node,))


def _lower_cast(b: Builder, node: Node) -> None:
    source, target = b.hbm[node.inputs[0]], b.hbm[node.outputs[0]]
    from_type, to_type = source.dtype, target.dtype
    if from_type == to_type:
        b.dma.copy(target, source)
    elif {from_type, to_type} in _SAME_BITS:
        b.dma.copy(target, source.bitcast(to_type))
    elif from_type == "uint32" and to_type in ("int64", "uint64"):
        # The engines would repeat the top bit as a sign.
        words = target.flatten().bitcast("uint32").reshape(source.num_elements, 2)
        b.dma.copy(words[:, 0], source.flatten())
        zeros = b.hbm.constant(np.zeros((1,), np.uint32), "zero.uint32")
        b.dma.copy(words[:, 1], zeros.broadcast_to((source.num_elements,)))
    elif to_type == "uint64" and from_type in ("int8", "int16", "int32"):
        _extend_sign(b, source, target.bitcast("int64"))
    else:
        lower_nodes(b, (node,))


def _extend_sign(b: Builder, source: HbmView, target: HbmView) -> None:
    """Extend signed integers to 64 bits."""
    for block in blocks(source.shape, (source, target)):
        with b.tiles.scope():
            words = b.tiles.sbuf(block.partitions, block.free, "int32")
            b.isa.copy(words, b.dma.fetch(block.sides[0]))
            b.dma.store(block.sides[1], words)


_SAME_BITS = tuple({f"int{bits}", f"uint{bits}"} for bits in (8, 16, 32, 64))


def lower_group(b: Builder, group: Group) -> None:
    """Lower all nodes of a group of kind "elementwise"."""
    lower_nodes(b, (group.head, *group.followers))


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    **dict.fromkeys(
        (op for op in FORMULAS if op not in ("BatchNormalization", "Identity")), lower_elementwise
    ),
    "Cast": _lower_cast,
    "CastLike": _lower_cast,
}
