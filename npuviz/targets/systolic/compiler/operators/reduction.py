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
    Walk,
    choose_walk,
    lower_chunks,
    middle_axes,
)
from npuviz.targets.systolic.compiler.operators.columns import columns_of_tile, lower_columns
from npuviz.targets.systolic.compiler.operators.long_integers import (
    LONG,
    MAX_SUMMED,
    ROW_SUM_WORDS,
    Passes,
    write_row_sums,
)
from npuviz.targets.systolic.compiler.operators.pooling import lower_global_pool
from npuviz.targets.systolic.compiler.tiling.resources import ACC_BYTES, Resources, ceil_div, round_up
from npuviz.targets.systolic.kernels import program_records as tk

_KINDS: dict[str, Callable[..., np.ndarray]] = {
    "ReduceMean": np.sum,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "GlobalAveragePool": np.sum,
    "GlobalMaxPool": np.max,
}


_OF_INTEGERS = {
    "int32": ("ReduceSum", "ReduceMax", "ReduceMin"),
    **dict.fromkeys(LONG, ("ReduceSum",)),
}
"""Assumed: the adder tree sums int32 as the accumulators of quantised layers hold it, and compares it."""

_COMBINED: dict[str, tuple[int, Callable[..., np.ndarray]]] = {
    "ReduceMean": (tk.OP_ADD, np.add),
    "ReduceSum": (tk.OP_ADD, np.add),
    "ReduceMax": (tk.OP_COMP, np.maximum),
    "ReduceMin": (tk.OP_COMP, np.minimum),
    "GlobalAveragePool": (tk.OP_ADD, np.add),
    "GlobalMaxPool": (tk.OP_COMP, np.maximum),
}
"""Opcode and function that combine two rows."""

_POOLED = frozenset(("GlobalAveragePool", "GlobalMaxPool"))

MAX_POSITIONS = 256
"""Images up to this size are pooled position by position, which splits channels over the cores."""

TILE_CYCLES = 32
"""Assumed: cycles between two tiles of a core, of which an estimate takes no account otherwise."""

Extents = tuple[int, int, int]
"""Elements before, in and behind the axes that are reduced, in DRAM order."""


def lower_reduction(lowering: Lowering, node: Node) -> None:
    """Reduce one run of neighbouring axes (in DRAM order) to single values."""
    source, output = node.inputs[0], node.outputs[0]
    kind = lowering.tensor(source).dtype
    if node.op_type not in _OF_INTEGERS.get(kind, ()):
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
    extents = (outer, middle, inner)
    is_mean = node.op_type in ("ReduceMean", "GlobalAveragePool")
    if kind in LONG:
        _lower_long_sum(lowering, node, extents)
        return
    walk = _tree_walk(lowering, source, extents)
    if middle > 1 and inner > 1 and _are_halves_faster(lowering, source, extents, walk):
        _lower_by_halves(lowering, node, extents, is_mean)
    elif walk is None:
        raise CannotLower("one row is larger than half of the scratchpad or accumulator")
    else:
        _lower_by_tree(lowering, node, extents, walk, is_mean)


def _lower_long_sum(lowering: Lowering, node: Node, extents: Extents) -> None:
    """Write the layer that sums integers of 64 bits, a word of which is not enough for what it carries."""
    outer, middle, inner = extents
    source, output = node.inputs[0], node.outputs[0]
    if lowering.tensor(source).num_elements == 0 or middle > MAX_SUMMED:
        raise CannotLower(f"sums of 1 to {MAX_SUMMED} integers of 64 bits", str(middle))
    items = [(extents, lowering.storage(source).item_bytes)]
    walk = choose_walk(
        lowering, extents, items, lambda elements: ROW_SUM_WORDS * (elements * ACC_BYTES + 64), whole=2
    )

    def write(chunk: Chunk) -> None:
        write_row_sums(Passes(lowering, chunk, chunk.shape[0] * inner), middle)

    lower_chunks(lowering, node, output, [Operand(source, extents)], walk, write, (outer, 1, inner))


def _tree_walk(lowering: Lowering, source: int, extents: Extents) -> Walk | None:
    """Return how to cut a reduction by the adder tree, whose tiles have whole rows; None if none fits."""
    # The accumulator holds the result only; the input stays in the scratchpad.
    try:
        return choose_walk(
            lowering,
            extents,
            [(extents, lowering.storage(source).item_bytes)],
            lambda elements: max(1, elements // extents[1]) * ACC_BYTES + 64,
            whole=2,
        )
    except CannotLower:
        return None


def _are_halves_faster(lowering: Lowering, source: int, extents: Extents, walk: Walk | None) -> bool:
    """Estimate whether rows are combined by halves sooner than the tree reduces the columns one by one."""
    resources, item = lowering.resources, lowering.storage(source).item_bytes
    outer, middle, inner = extents
    try:
        width = columns_of_tile(lowering, extents, item, partial(_needed_by_halves, middle))
    except CannotLower:
        return False
    if walk is None:
        return True
    rows = walk.chunk * inner * ceil_div(middle * ACC_BYTES, resources.vector_bytes)
    by_tree = _cycles(resources, walk.num_tiles, rows, walk.chunk * middle * inner * item)
    steps = ceil_div(middle * width * ACC_BYTES, resources.vector_bytes) + middle.bit_length()
    loaded = middle * round_up(width * item, resources.request_bytes)
    return _cycles(resources, outer * ceil_div(inner, width), steps, loaded) < by_tree


def _cycles(resources: Resources, tiles: int, steps: int, loaded: int) -> float:
    """Estimate the cycles of equal tiles with `steps` of the vector unit and `loaded` bytes each."""
    rounds = ceil_div(tiles, resources.num_cores)
    memory = max(tiles * loaded / resources.bytes_per_cycle, rounds * loaded / resources.core_bytes_per_cycle)
    return max(rounds * steps, memory) + loaded / resources.core_bytes_per_cycle + TILE_CYCLES * rounds


def _lower_by_tree(lowering: Lowering, node: Node, extents: Extents, walk: Walk, is_mean: bool) -> None:
    """Write the layer that reduces each run of elements by the adder tree, one after the other."""
    source, output = node.inputs[0], node.outputs[0]
    outer, middle, inner = extents
    reduce = _KINDS[node.op_type]
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


def _lower_by_halves(lowering: Lowering, node: Node, extents: Extents, is_mean: bool) -> None:
    """Write the layer that combines the first half of the rows with the second until one row is left."""
    middle = extents[1]
    opcode, combine = _COMBINED[node.op_type]
    scale = np.float32(1 / middle)

    def write(chunk: Chunk) -> None:
        width, rows, running = chunk.shape[2], middle, chunk.words[0]
        while rows > 1:
            half = rows // 2
            left = rows - half
            target = chunk.out if left == 1 else chunk.temporary("halves", ceil_div(middle, 2) * width)
            aux = lowering.function((node.op_type, "halves", rows), partial(_halve, combine, half))
            chunk.vector(opcode, (running,), target, aux, half * width, result=left * width)
            rows, running = left, target
        if is_mean:
            times = lowering.function(("mul", float(scale)), lambda a, _: a * scale)
            chunk.vector(tk.OP_MUL, (chunk.out,), chunk.out, times, width)

    lower_columns(lowering, node, extents, partial(_needed_by_halves, middle), write, rows_out=1)


def _needed_by_halves(middle: int, elements: int) -> int:
    """Return the accumulator bytes of a tile: half of its rows and the result."""
    return (ceil_div(middle, 2) + 1) * (elements // middle) * ACC_BYTES + 2 * 64


def _halve(combine: Callable[..., np.ndarray], half: int, values: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Combine the last `half` rows (1, rows, columns) with the first ones; one between them stays."""
    rows = values.shape[1]
    made = values[:, : rows - half].copy()
    made[:, :half] = combine(made[:, :half], values[:, rows - half :])
    return made


def _reduce(reduce: Callable[..., np.ndarray], values: np.ndarray, _: np.ndarray) -> np.ndarray:
    made = reduce(values, axis=1, keepdims=True)
    return made if values.dtype.kind == "f" else made.astype(values.dtype)


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
