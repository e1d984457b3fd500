"""Lower operators that only move elements, mostly to DMA transfers within HBM.

Any rank and any element type: a transfer moves bytes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement.arguments import (
    axis_of,
    copy,
    integer,
    ints,
    known_ints,
    source,
    target,
    text,
)
from npuviz.targets.neuroncore.compiler.operators.movement.maps import FILL, fill, move_by_map, numbers
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

FLOATS = frozenset(("float32", "float16", "bfloat16"))
FEW_ELEMENTS = 2048
"""Smaller movements are always done by DMA, because they take little time."""
COLUMNS = 4096


def lower_same(b: Builder, node: Node) -> None:
    """Lower Reshape, Flatten, Squeeze, Unsqueeze and Identity, which keep the order of elements."""
    to, of = target(b, node), source(b, node)
    if to.num_elements != of.num_elements:
        raise CannotLower(f"{of.shape} does not have the elements of {to.shape}")
    copy(b, to.flatten(), of.flatten())


def lower_bitcast(b: Builder, node: Node) -> None:
    """Lower BitCast, which copies bytes."""
    to, of = target(b, node), source(b, node)
    if to.itemsize != of.itemsize or to.num_elements != of.num_elements:
        raise CannotLower("types of different sizes")
    copy(b, to.flatten(), of.bitcast(to.dtype).flatten())


def lower_transpose(b: Builder, node: Node) -> None:
    """Lower Transpose."""
    of = source(b, node)
    perm = ints(node, "perm") or list(reversed(range(len(of.shape))))
    copy(b, target(b, node), of.permute(*perm))


def lower_expand(b: Builder, node: Node) -> None:
    """Lower Expand (numpy broadcasting); shape inference gives the result's shape."""
    to, of = target(b, node), source(b, node)
    copy(b, to, of.broadcast_to(to.shape))


def lower_tile(b: Builder, node: Node) -> None:
    """Lower Tile, which repeats each axis."""
    to, of = target(b, node), source(b, node)
    if not of.num_elements:
        return
    cut: list[int] = []
    single: list[int] = []
    for size, out in zip(of.shape, to.shape, strict=True):
        cut += [out // size, size]
        single += [1, size]
    copy(b, to.reshape(*cut), of.reshape(*single).broadcast_to(cut))


def lower_concat(b: Builder, node: Node) -> None:
    """Lower Concat: copy each input to its place along the axis."""
    to = target(b, node)
    axis = axis_of(integer(node, "axis", 1), len(to.shape))
    at = 0
    for index in range(len(node.inputs)):
        of = source(b, node, index)
        end = at + of.shape[axis]
        copy(b, to[(slice(None),) * axis + (slice(at, end),)], of)
        at = end


def lower_split(b: Builder, node: Node) -> None:
    """Lower Split, into given sizes or equal parts."""
    of = source(b, node)
    axis = axis_of(integer(node, "axis"), len(of.shape))
    sizes = ints(node, "split") or known_ints(b, node, 1, "the split")
    if sizes is None:
        parts = integer(node, "num_outputs", len(node.outputs))
        each = -(-of.shape[axis] // parts)
        sizes = [max(0, min(each, of.shape[axis] - each * index)) for index in range(parts)]
    at = 0
    for index, size in enumerate(sizes[: len(node.outputs)]):
        if node.outputs[index] >= 0:
            copy(b, target(b, node, index), of[(slice(None),) * axis + (slice(at, at + size),)])
        at += size


def lower_slice(b: Builder, node: Node) -> None:
    """Lower Slice with any steps; starts, ends, axes and steps must be constant."""
    of = source(b, node)
    rank = len(of.shape)
    starts = ints(node, "starts") or known_ints(b, node, 1, "the start of the slice")
    ends = ints(node, "ends") or known_ints(b, node, 2, "the end of the slice")
    if starts is None or ends is None:
        raise CannotLower("a slice without starts or ends")
    axes = ints(node, "axes") or known_ints(b, node, 3, "the axes of the slice") or list(range(len(starts)))
    steps = known_ints(b, node, 4, "the steps of the slice") or [1] * len(starts)
    key: list[slice] = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis_of(axis, rank)
        key[at] = _slice(start, end, step, of.shape[at])
    copy(b, target(b, node), of[tuple(key)])


def _slice(start: int, end: int, step: int, size: int) -> slice:
    """Return a slice clamped as in ONNX: with a negative step, an end before element 0 includes element 0."""
    begin = start + size if start < 0 else start
    stop = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(begin, 0), size), min(max(stop, 0), size), step)
    begin = min(max(begin, 0), size - 1)
    stop = min(max(stop, -1), size - 1)
    return slice(begin, None if stop < 0 else stop, step) if size else slice(0, 0, 1)


def lower_pad(b: Builder, node: Node) -> None:
    """Lower Pad: constant, edge, reflect and wrap; negative pads cut."""
    to, of = target(b, node), source(b, node)
    rank = len(of.shape)
    pads = ints(node, "pads") or ints(node, "paddings") or known_ints(b, node, 1, "the padding")
    if pads is None:
        raise CannotLower("padding without amounts")
    axes = known_ints(b, node, 3, "the axes of the padding") or list(range(rank))
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        before[axis_of(axis, rank)] = pads[index]
        after[axis_of(axis, rank)] = pads[index + len(axes)]
    mode = text(node, "mode", "constant")
    if mode == "constant":
        _pad_with(b, node, before)
        return
    cut = numbers(of.shape)[
        tuple(
            slice(max(0, -low), size + min(0, high))
            for size, low, high in zip(of.shape, before, after, strict=True)
        )
    ]
    amounts = [(max(0, low), max(0, high)) for low, high in zip(before, after, strict=True)]
    if mode not in ("edge", "reflect", "wrap"):
        raise CannotLower(f"padding mode {mode}")
    if cut.size == 0:
        raise CannotLower(f"padding mode {mode} of nothing")
    # numpy's names of the modes are the same.
    named: Any = mode
    move_by_map(b, to, of, np.pad(cut, amounts, mode=named))


def _pad_with(b: Builder, node: Node, before: list[int]) -> None:
    to, of = target(b, node), source(b, node)
    inside: list[slice] = []
    taken: list[slice] = []
    for size, out, low in zip(of.shape, to.shape, before, strict=True):
        first, last = max(0, low), min(out, low + size)
        inside.append(slice(first, max(first, last)))
        taken.append(slice(first - low, max(first, last) - low))
    if to[tuple(inside)].shape != to.shape:
        if len(node.inputs) > 2 and node.inputs[2] >= 0:
            copy(b, to, b.hbm[node.inputs[2]].reshape(1).broadcast_to(to.shape))
        else:
            fill(b, to, np.array([node.attributes.get("value", 0)]).astype(numpy_dtype(to.dtype)))
    copy(b, to[tuple(inside)], of[tuple(taken)])


def lower_center_crop_pad(b: Builder, node: Node) -> None:
    """Lower CenterCropPad: cut or pad each axis with zeros around its middle."""
    to, of = target(b, node), source(b, node)
    inside: list[slice] = []
    taken: list[slice] = []
    for size, out in zip(of.shape, to.shape, strict=True):
        kept = min(size, out)
        # Ref: ONNX CenterCropPad: with an odd difference, one more element is cut or added at the end.
        inside.append(slice((out - kept) // 2, (out - kept) // 2 + kept))
        taken.append(slice((size - kept) // 2, (size - kept) // 2 + kept))
    if to[tuple(inside)].shape != to.shape:
        fill(b, to, np.zeros(1, numpy_dtype(to.dtype)))
    copy(b, to[tuple(inside)], of[tuple(taken)])


def lower_depth_to_space(b: Builder, node: Node) -> None:
    """Lower DepthToSpace, in both modes."""
    to, of = target(b, node), source(b, node)
    n, channels, height, width = of.shape
    block = integer(node, "blocksize", 1)
    depth = channels // (block * block)
    if text(node, "mode", "DCR") == "DCR":
        moved = of.reshape(n, block, block, depth, height, width).permute(0, 3, 4, 1, 5, 2)
    else:
        moved = of.reshape(n, depth, block, block, height, width).permute(0, 1, 4, 2, 5, 3)
    copy(b, to.reshape(n, depth, height, block, width, block), moved)


def lower_space_to_depth(b: Builder, node: Node) -> None:
    """Lower SpaceToDepth, in both modes (CRD from operator set 27 on)."""
    to, of = target(b, node), source(b, node)
    n, channels, height, width = of.shape
    block = integer(node, "blocksize", 1)
    cut = of.reshape(n, channels, height // block, block, width // block, block)
    if text(node, "mode", "DCR") == "DCR":
        moved = cut.permute(0, 3, 5, 1, 2, 4)
        copy(b, to.reshape(n, block, block, channels, height // block, width // block), moved)
    else:
        moved = cut.permute(0, 1, 3, 5, 2, 4)
        copy(b, to.reshape(n, channels, block, block, height // block, width // block), moved)


def lower_trilu(b: Builder, node: Node) -> None:
    """Lower Trilu: move one half of each matrix, and fill the rest with zeros."""
    to, of = target(b, node), source(b, node)
    given = known_ints(b, node, 1, "the diagonal")
    diagonal = given[0] if given else 0
    if not of.num_elements:
        return
    is_upper = bool(integer(node, "upper", 1))
    if of.dtype in FLOATS and of.num_elements >= FEW_ELEMENTS and b.spec.has_pool:
        _select_half(b, to, of, diagonal, is_upper)
        return
    rows, columns = of.shape[-2:]
    inside = np.tri(rows, columns, diagonal - 1 if is_upper else diagonal, dtype=bool) ^ is_upper
    batch = of.num_elements // (rows * columns)
    plane = numbers((rows, columns)) + np.arange(batch)[:, None, None] * (rows * columns)
    move_by_map(b, to, of, np.where(inside, plane, FILL), np.zeros(1, numpy_dtype(to.dtype)))


def _select_half(b: Builder, to: HbmView, of: HbmView, diagonal: int, is_upper: bool) -> None:
    """Emit Trilu by GpSimd: keep elements (r, c) with c - r >= diagonal, or <= diagonal."""
    rows, columns = of.shape[-2:]
    planes, results = of.reshape(-1, rows, columns), to.reshape(-1, rows, columns)
    sign = 1 if is_upper else -1
    for at in range(planes.shape[0]):
        for first, last in blocks(rows, NUM_PARTITIONS):
            for begin, end in blocks(columns, COLUMNS):
                with b.tiles.scope():
                    held = b.dma.fetch(planes[at, first:last, begin:end])
                    made = b.tiles.sbuf(last - first, (end - begin,), held.dtype)
                    base = sign * (begin - first - diagonal)
                    b.isa.affine_select(made, held, base, [sign], -sign, Alu.GREATER_EQUAL, 0.0)
                    b.dma.store(results[at, first:last, begin:end], made)


LOWERINGS: Mapping[str, Callable[[Builder, Node], None]] = {
    "Identity": lower_same,
    "Reshape": lower_same,
    "Flatten": lower_same,
    "Squeeze": lower_same,
    "Unsqueeze": lower_same,
    "BitCast": lower_bitcast,
    "Transpose": lower_transpose,
    "Expand": lower_expand,
    "Tile": lower_tile,
    "Concat": lower_concat,
    "Split": lower_split,
    "Slice": lower_slice,
    "Pad": lower_pad,
    "CenterCropPad": lower_center_crop_pad,
    "DepthToSpace": lower_depth_to_space,
    "SpaceToDepth": lower_space_to_depth,
    "Trilu": lower_trilu,
}
