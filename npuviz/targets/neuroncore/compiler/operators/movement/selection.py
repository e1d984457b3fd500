"""Refuse operators that no engine can run, each with the reason; lower Compress and Col2Im.

The result sizes of NonZero, Unique or NonMaxSuppression depend on values, while programs of the chip have
fixed sizes: these operators stay on the Host.
"""

from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.host_operators import HOST_OPERATORS
from npuviz.program.graph import Node
from npuviz.program.program import HostReason
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement import arguments
from npuviz.targets.neuroncore.compiler.operators.movement.maps import move_by_map, numbers
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.tile_view import DTYPE_CODES
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

VALUE_DEPENDENT = "the size of the result depends on values"


def lower_compress(b: Builder, node: Node) -> None:
    """Lower Compress if its condition is known when compiling."""
    to, of = arguments.target(b, node), arguments.source(b, node)
    value = b.graph.constants.get(node.inputs[1])
    if value is None:
        raise CannotLower(VALUE_DEPENDENT)
    condition = np.asarray(value).astype(bool)
    axis = node.attributes.get("axis")
    flat = numbers(of.shape)
    if axis is None:
        move_by_map(b, to, of, flat.reshape(-1)[: condition.size][condition[: flat.size]])
        return
    at = arguments.axis_of(int(axis), len(of.shape))
    move_by_map(b, to, of, np.compress(condition, flat, axis=at))


def lower_col2im(b: Builder, node: Node) -> None:
    """Lower Col2Im: Vector adds the shifted, strided copies of the picture, one for each block element."""
    to, of = arguments.target(b, node), arguments.source(b, node)
    image = arguments.known_ints(b, node, 1, "the shape of the picture")
    block = arguments.known_ints(b, node, 2, "the shape of a block")
    if image is None or block is None or to.dtype not in DTYPE_CODES:
        raise CannotLower(f"a sum of {to.dtype}")
    rank = len(block)
    dilations = arguments.ints(node, "dilations", [1] * rank) or [1] * rank
    strides = arguments.ints(node, "strides", [1] * rank) or [1] * rank
    pads = arguments.ints(node, "pads", [0] * (2 * rank)) or [0] * (2 * rank)
    batch, channels = to.shape[:2]
    counts = [
        (image[at] + pads[at] + pads[at + rank] - dilations[at] * (block[at] - 1) - 1) // strides[at] + 1
        for at in range(rank)
    ]
    if rank > 3:
        raise CannotLower(f"{rank} spatial axes")
    columns = of.reshape(batch * channels, int(np.prod(block)), *counts)
    planes = to.reshape(batch * channels, *image)
    for begin, end in blocks(batch * channels, NUM_PARTITIONS):
        with b.tiles.scope():
            total = b.tiles.sbuf(end - begin, tuple(image), to.dtype)
            b.isa.memset(total, 0.0)
            for tap, place in enumerate(np.ndindex(*block)):
                key, taken = _overlap(image, counts, place, (dilations, strides, pads[:rank]))
                if key is None:
                    continue
                part = b.dma.fetch(columns[begin:end, tap])[(slice(None), *taken)]
                where = total[(slice(None), *key)]
                b.isa.tensor_tensor(where, where, part, Alu.ADD)
            b.dma.store(planes[begin:end], total)


def _overlap(
    image: list[int],
    counts: list[int],
    place: tuple[int, ...],
    geometry: tuple[list[int], list[int], list[int]],
) -> tuple[list[slice] | None, list[slice]]:
    """Return the places in the picture of one element of all blocks, and the blocks that lie inside."""
    key: list[slice] = []
    taken: list[slice] = []
    for size, count, tap, dilation, stride, pad in zip(image, counts, place, *geometry, strict=True):
        shift = tap * dilation - pad
        first = max(0, -(shift // stride)) if shift < 0 else 0
        last = min(count - 1, (size - 1 - shift) // stride)
        if last < first:
            return None, []
        start = first * stride + shift
        key.append(slice(start, start + (last - first) * stride + 1, stride))
        taken.append(slice(first, last + 1))
    return key, taken


def _refuse(reason: HostReason) -> Callable[[Builder, Node], None]:
    def lower(b: Builder, node: Node) -> None:
        del b
        raise CannotLower(reason.limit, node.op_type, reason.change)

    return lower


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    **{op_type: _refuse(reason) for op_type, reason in HOST_OPERATORS.items()},
    "Compress": lower_compress,
    "Col2Im": lower_col2im,
}
