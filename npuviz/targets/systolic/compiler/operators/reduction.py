"""Reductions over axes that lie innermost or in the middle: sums by the adder tree, global pooling."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.axes import reduced_axes
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.chunks import (
    Chunk,
    Operand,
    choose_walk,
    lower_chunks,
    middle_axes,
)
from npuviz.targets.systolic.compiler.operators.pooling import lower_global_pool
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES
from npuviz.targets.systolic.kernels import program_records as tk

_KINDS: dict[str, Callable[..., np.ndarray]] = {
    "ReduceMean": np.sum,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "GlobalAveragePool": np.sum,
    "GlobalMaxPool": np.max,
}


_POOLED = frozenset(("GlobalAveragePool", "GlobalMaxPool"))

MAX_POSITIONS = 256
"""Images up to this size are pooled position by position, which splits channels over the cores."""


def lower_reduction(lowering: Lowering, node: Node) -> None:
    """Reduce one run of neighbouring axes (in DRAM order) to single values."""
    source, output = node.inputs[0], node.outputs[0]
    lowering.require_floats(node, (source, output))
    if node.op_type in _POOLED and prod(lowering.tensor(source).shape[2:]) <= MAX_POSITIONS:
        lower_global_pool(lowering, node)
        return
    reduced = _reduced_axes(lowering, node)
    storage = lowering.storage(source)
    outer, middle, inner = middle_axes(storage, reduced)
    kept = [axis for axis in storage.order if axis not in reduced and storage.shape[axis] > 1]
    if not _keeps_kept_order(lowering, node, kept):
        raise CannotLower("the result lies in another order than the input")
    item = storage.item_bytes
    extents = (outer, middle, inner)
    is_mean = node.op_type in ("ReduceMean", "GlobalAveragePool")
    reduce = _KINDS[node.op_type]

    # The accumulator holds the result only; the input stays in the scratchpad.
    walk = choose_walk(
        lowering,
        extents,
        [(extents, item)],
        lambda elements: max(1, elements // middle) * ACC_BYTES + 64,
        whole=2,
    )
    scale = np.float32(1 / middle)

    def write(chunk: Chunk) -> None:
        count = chunk.shape[0] * inner
        function = lowering.function((node.op_type, middle, inner), partial(_reduce, reduce))
        chunk.vector(tk.OP_ADDTREE, (chunk.words[0],), chunk.out, function, middle, count, count)
        if is_mean:
            times = lowering.function(("mul", float(scale)), lambda a, _: a * scale)
            chunk.vector(tk.OP_MUL, (chunk.out,), chunk.out, times, count)

    lower_chunks(
        lowering,
        node,
        output,
        [Operand(source, extents)],
        walk,
        write,
        out_extents=(outer, 1, inner),
    )


def _reduce(reduce: Callable[..., np.ndarray], values: np.ndarray, _: np.ndarray) -> np.ndarray:
    return reduce(values, axis=1, keepdims=True)


def _reduced_axes(lowering: Lowering, node: Node) -> tuple[int, ...]:
    rank = len(lowering.tensor(node.inputs[0]).shape)
    if node.op_type.startswith("Global"):
        return tuple(range(2, rank))
    index = lowering.input(node, 1)
    values = lowering.constant(index)
    if index >= 0 and values is None:
        raise CannotLower("axes are computed at run time", change="constant axes")
    axes = reduced_axes(node, rank, None if values is None else values.reshape(-1).tolist())
    if axes is None:
        raise CannotLower("it does nothing")
    return axes


def _keeps_kept_order(lowering: Lowering, node: Node, kept: list[int]) -> bool:
    """Return whether the result holds the remaining axes in the input's DRAM order."""
    source, result = lowering.storage(node.inputs[0]), lowering.storage(node.outputs[0])
    if len(result.shape) == len(source.shape):
        return [axis for axis in result.order if result.shape[axis] > 1] == kept
    return result.is_row_major and kept == sorted(kept)


LOWERINGS = dict.fromkeys(_KINDS, lower_reduction)
