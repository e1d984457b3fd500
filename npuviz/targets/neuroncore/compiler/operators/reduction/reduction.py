"""Lower reductions over any axes: sums, means, norms, extremes, products."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import blocks
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    INTEGERS,
    WIDE,
    binary,
    scalar,
    temporary,
)
from npuviz.targets.neuroncore.compiler.operators.elementwise.transcendental import logarithm
from npuviz.targets.neuroncore.compiler.operators.reduction.axis_tiles import store_as
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Activation, Alu

TILE_ELEMENTS = 4096
"""Most elements of a partition that are reduced at once."""
Step = Callable[[Builder, View, View], None]
"""Function step(b, dst, src) that emits an elementwise step on a tile."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """The steps of a reduction.

    op        associative operator; identity  its result for no elements
    before    applied to every element first; after  to every result, with the count of elements
    """

    op: Alu
    identity: float
    before: Step | None = None
    after: Callable[[Builder, View, View, int], None] | None = None


def constant_input(b: Builder, node: Node, index: int) -> np.ndarray | None:
    """Return the constant value of input `index`, None if absent. Raises CannotLower if it is no constant."""
    if index >= len(node.inputs) or node.inputs[index] < 0:
        return None
    found = b.graph.constants.get(node.inputs[index])
    if found is None:
        raise CannotLower(f"input {index} of {node.op_type} is not known at compile time")
    return np.asarray(found)


def reduced_axes(b: Builder, node: Node, rank: int) -> tuple[int, ...] | None:
    """Return the axes of a Reduce operator, rising; None if it reduces none (noop_with_empty_axes)."""
    given = constant_input(b, node, 1)
    axes = given.reshape(-1).tolist() if given is not None else list(node.attributes.get("axes") or [])
    if not axes:
        if int(node.attributes.get("noop_with_empty_axes", 0)):
            return None
        axes = list(range(rank))
    return tuple(sorted({int(axis) % rank if rank else 0 for axis in axes}))


def merged_dims(shape: Sequence[int], axes: Sequence[int]) -> list[tuple[int, bool]]:
    """Merge dimensions to runs (size, is reduced); the first is kept, if necessary with size 1."""
    dims: list[tuple[int, bool]] = [(1, False)]
    for axis, size in enumerate(shape):
        flag = axis in axes
        if dims[-1][1] == flag:
            dims[-1] = (dims[-1][0] * size, flag)
        elif size != 1:
            dims.append((size, flag))
    return dims


def _slices(size: int, length: int) -> list[slice]:
    return [slice(start, min(start + length, size)) for start in range(0, size, length)]


def _tile_slices(sizes: Sequence[int], limit: int) -> list[list[slice]]:
    """Return slices of each dimension that keep a tile within `limit` elements and 4 dimensions."""
    cuts: list[list[slice]] = []
    inside = 1
    for position, size in enumerate(reversed(sizes)):
        length = max(1, min(size, limit // inside)) if position < 4 else 1
        cuts.append(_slices(size, length))
        inside *= length
    return cuts[::-1]


def reduce_view(
    b: Builder,
    source: HbmView,
    axes: Sequence[int],
    target: HbmView,
    how: Reduction,
    limit: int = TILE_ELEMENTS,
) -> None:
    """Reduce `source` over `axes` to `target`; both dense in HBM, the target without axes or with size 1."""
    dims = merged_dims(source.shape, axes)
    count = math.prod(size for size, flag in dims if flag)
    source = source.reshape(*(size for size, _ in dims))
    kept = [size for size, flag in dims if not flag]
    target = target.reshape(*kept)
    if 0 in kept:
        return
    if count == 0:
        _fill_identity(b, target, how)
        return
    total = math.prod(size for size, _ in dims[1:])
    is_float = source.dtype not in INTEGERS and source.dtype not in ("int64", "uint64")
    if dims[0][0] == 1 and len(dims) > 1 and total > limit and is_float and b.spec.has_pool:
        _reduce_across(b, source, dims, target, how, count, limit)
        return
    flags = [flag for _, flag in dims[1:]]
    cuts = _tile_slices([size for size, _ in dims[1:]], limit)
    for rows in _slices(dims[0][0], NUM_PARTITIONS):
        for kept_key, pieces in _pieces(cuts, flags):
            with b.tiles.scope():
                total_tile: View | None = None
                for key in pieces:
                    total_tile = _accumulate(b, source[(rows, *key)], flags, how, total_tile)
                assert total_tile is not None
                _finish(b, total_tile, target[(rows, *kept_key)], how, count)


def _pieces(
    cuts: list[list[slice]], flags: list[bool]
) -> Iterator[tuple[tuple[slice, ...], list[tuple[slice, ...]]]]:
    """Yield (slices of the kept dimensions, keys of all pieces that are reduced to them)."""
    kept = [cut for cut, flag in zip(cuts, flags, strict=True) if not flag]
    gone = [cut for cut, flag in zip(cuts, flags, strict=True) if flag]
    for chosen in product(*kept):
        keys: list[tuple[slice, ...]] = []
        for reduced in product(*gone):
            at, back = iter(chosen), iter(reduced)
            keys.append(tuple(next(back) if flag else next(at) for flag in flags))
        yield tuple(chosen), keys


def _accumulate(b: Builder, piece: HbmView, flags: list[bool], how: Reduction, total: View | None) -> View:
    """Reduce a piece (partitions, *dims) into the running total (partitions, kept elements), and return
    it.
    """
    kept = math.prod(size for size, flag in zip(piece.shape[1:], flags, strict=True) if not flag)
    dtype = _total_dtype(piece.dtype)
    if total is None:
        total = b.tiles.sbuf(piece.shape[0], (kept,), dtype)
        reduce_tile(b, total, b.dma.fetch(piece), flags, how)
        return total
    with b.tiles.scope():
        part = b.tiles.sbuf(piece.shape[0], (kept,), dtype)
        reduce_tile(b, part, b.dma.fetch(piece), flags, how)
        mine = total[0 : piece.shape[0]]
        binary(b, mine, mine, part, how.op, integer=dtype in WIDE)
    return total


def _total_dtype(dtype: str) -> str:
    if dtype in ("int32", "int64"):
        return "int32"
    return "uint32" if dtype in ("uint32", "uint64") else "float32"


def reduce_tile(b: Builder, dst: View, x: View, flags: Sequence[bool], how: Reduction) -> None:
    """Reduce the tile `x` (P, *dims) over the dims whose flag is set, to `dst` (P, kept)."""
    with b.tiles.scope():
        if how.before is not None:
            made = b.tiles.sbuf(x.partitions, x.shape, dst.dtype)
            how.before(b, made, x)
            x = made
        kept = [axis for axis, flag in enumerate(flags) if not flag]
        gone = [axis for axis, flag in enumerate(flags) if flag]
        if not gone:
            b.isa.copy(dst, x)
            return
        arranged = x.permute(*kept, *gone)
        b.isa.tensor_reduce(dst.reshape(*arranged.shape[: len(kept)]), arranged, how.op, len(gone))


def _finish(b: Builder, total: View, target: HbmView, how: Reduction, count: int) -> None:
    result = total
    if how.after is not None:
        result = temporary(b, total, total.dtype)
        how.after(b, result, total, count)
    store_as(b, target, result)


def _fill_identity(b: Builder, target: HbmView, how: Reduction) -> None:
    """Fill the result of a reduction of no elements with the identity."""
    flat = target.flatten()
    if 0 in flat.shape:
        return
    dtype = _total_dtype(target.dtype)
    identity = how.identity
    if math.isinf(identity) and (dtype in WIDE or target.dtype in (*INTEGERS, "int64", "uint64")):
        identity = _integer_limit(target.dtype, identity > 0)
    for piece in _slices(flat.shape[0], TILE_ELEMENTS):
        with b.tiles.scope():
            value = b.tiles.sbuf(1, (piece.stop - piece.start,), dtype)
            b.isa.memset(value, int(identity) if dtype in WIDE else identity)
            _finish(b, value, flat[piece].reshape(1, piece.stop - piece.start), how, 0)


def _integer_limit(dtype: str, largest: bool) -> float:
    if dtype == "bool":
        return 1.0 if largest else 0.0
    info = np.iinfo(dtype)
    return info.max if largest else info.min


def _reduce_across(
    b: Builder,
    source: HbmView,
    dims: list[tuple[int, bool]],
    target: HbmView,
    how: Reduction,
    count: int,
    limit: int,
) -> None:
    """Reduce the outermost dimension too: spread it over partitions, which GpSimd reduces at last."""
    source = source[0]
    outer = dims[1][0]
    rest, flags = [size for size, _ in dims[2:]], [flag for _, flag in dims[2:]]
    if not rest:
        _reduce_flat(b, source, target, how, count, limit)
        return
    cuts = _tile_slices(rest, limit)
    for kept_key, pieces in _pieces(cuts, flags):
        with b.tiles.scope():
            total: View | None = None
            for rows in _slices(outer, NUM_PARTITIONS):
                for key in pieces:
                    total = _accumulate(b, source[(rows, *key)], flags, how, total)
            assert total is not None
            _finish_across(b, total, target[(slice(0, 1), *kept_key)], how, count)


def _reduce_flat(
    b: Builder, source: HbmView, target: HbmView, how: Reduction, count: int, limit: int
) -> None:
    size = source.shape[0]
    rows = size // NUM_PARTITIONS
    with b.tiles.scope():
        total: View | None = None
        whole = source[0 : rows * NUM_PARTITIONS].reshape(NUM_PARTITIONS, rows)
        for key in _slices(rows, limit):
            total = _accumulate(b, whole[:, key], [True], how, total)
        left = size - rows * NUM_PARTITIONS
        if left:
            total = _accumulate(b, source[size - left : size].reshape(left, 1), [True], how, total)
        assert total is not None
        _finish_across(b, total, target, how, count)


def _finish_across(b: Builder, total: View, target: HbmView, how: Reduction, count: int) -> None:
    single = b.tiles.sbuf(1, total.shape, total.dtype)
    b.isa.partition_reduce(single, total, how.op)
    _finish(b, single, target, how, count)


# The operators -----------------------------------------------------------------------------------


def _absolute(b: Builder, dst: View, x: View) -> None:
    if x.dtype in INTEGERS:
        negative = temporary(b, x, "int32")
        scalar(b, negative, x, Alu.MULTIPLY, -1, integer=True)
        binary(b, dst, x, negative, Alu.MAXIMUM, integer=True)
    else:
        scalar(b, dst, x, Alu.ABS, 0.0)


def _squared(b: Builder, dst: View, x: View) -> None:
    if x.dtype in INTEGERS:
        binary(b, dst, x, x, Alu.MULTIPLY, integer=True)
    else:
        b.isa.activation(dst, x, Activation.SQUARE)


def _divided(b: Builder, dst: View, x: View, count: int) -> None:
    if x.dtype in WIDE:
        scalar(b, dst, x, Alu.DIVIDE, max(count, 1), integer=True)
    else:
        scalar(b, dst, x, Alu.DIVIDE, float(count))


def _rooted(b: Builder, dst: View, x: View, count: int) -> None:
    if x.dtype in WIDE:
        raise CannotLower("the root of an integer")
    scalar(b, dst, x, Alu.POWER, 0.5)


def _logged(b: Builder, dst: View, x: View, count: int) -> None:
    if x.dtype in WIDE:
        raise CannotLower("the logarithm of an integer")
    logarithm(b, dst, x)


REDUCTIONS = {
    "ReduceSum": Reduction(Alu.ADD, 0.0),
    "ReduceMean": Reduction(Alu.ADD, 0.0, after=_divided),
    "ReduceMax": Reduction(Alu.MAXIMUM, -math.inf),
    "ReduceMin": Reduction(Alu.MINIMUM, math.inf),
    "ReduceProd": Reduction(Alu.MULTIPLY, 1.0),
    "ReduceL1": Reduction(Alu.ADD, 0.0, before=_absolute),
    "ReduceL2": Reduction(Alu.ADD, 0.0, before=_squared, after=_rooted),
    "ReduceSumSquare": Reduction(Alu.ADD, 0.0, before=_squared),
    "ReduceLogSum": Reduction(Alu.ADD, 0.0, after=_logged),
}
_NARROW = frozenset({"int8", "uint8", "int16", "uint16", "bool"})


def lower_reduce(b: Builder, node: Node) -> None:
    """Lower all Reduce operators except ReduceLogSumExp."""
    how = REDUCTIONS[node.op_type]
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    axes = reduced_axes(b, node, len(source.shape))
    if source.dtype in _NARROW and how.op not in (Alu.MAXIMUM, Alu.MINIMUM):
        raise CannotLower(f"{node.op_type} of {source.dtype}")
    if axes is None or not source.shape:
        # Without axes every element is its own group: `before` and `after` still apply.
        axes = ()
    if not axes and how.before is None and how.after is None:
        b.dma.copy(target, source)
        return
    reduce_view(b, source, axes, target, how)


def lower_log_sum_exp(b: Builder, node: Node) -> None:
    """Lower ReduceLogSumExp; subtract the maximum first, so that no exponential overflows."""
    source, target = home(b, node.inputs[0]), home(b, node.outputs[0])
    if source.dtype not in ("float32", "float16", "bfloat16"):
        raise CannotLower(f"ReduceLogSumExp of {source.dtype}")
    axes = reduced_axes(b, node, len(source.shape)) or ()
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
    if 0 in shape:
        return
    if 0 in source.shape:
        reduce_view(b, source, axes, target, REDUCTIONS["ReduceLogSum"])
        return
    largest, sums = b.hbm.scratch(shape, "float32"), b.hbm.scratch(shape, "float32")
    shifted = b.hbm.scratch(source.shape, "float32")
    reduce_view(b, source, axes, largest, REDUCTIONS["ReduceMax"])
    _exponentials(b, source, largest, shifted)
    reduce_view(b, shifted, axes, sums, REDUCTIONS["ReduceLogSum"])
    _added(b, sums, largest, target.reshape(*shape))


def _exponentials(b: Builder, source: HbmView, largest: HbmView, target: HbmView) -> None:
    for block in blocks(source.shape, (source, largest, target)):
        with b.tiles.scope():
            x, peak = b.dma.fetch(block.sides[0]), b.dma.fetch(block.sides[1])
            made = b.tiles.sbuf(block.partitions, block.free, "float32")
            limit = temporary(b, peak)
            # An infinite maximum would give inf - inf.
            scalar(b, limit, peak, Alu.MAXIMUM, -3.0e38, Alu.MINIMUM, 3.0e38)
            binary(b, made, x, limit, Alu.SUBTRACT)
            b.isa.activation(made, made, Activation.EXP)
            b.dma.store(block.sides[2], made)


def _added(b: Builder, x: HbmView, y: HbmView, target: HbmView) -> None:
    for block in blocks(target.shape, (x, y, target)):
        with b.tiles.scope():
            made = b.tiles.sbuf(block.partitions, block.free, "float32")
            limit = temporary(b, made)
            scalar(b, limit, b.dma.fetch(block.sides[1]), Alu.MAXIMUM, -3.0e38, Alu.MINIMUM, 3.0e38)
            binary(b, made, b.dma.fetch(block.sides[0]), limit, Alu.ADD)
            store_as(b, block.sides[2], made)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    **dict.fromkeys(REDUCTIONS, lower_reduce),
    "ReduceLogSumExp": lower_log_sum_exp,
}
