"""Lower reductions and what is made of them, over any axes: the reduced axes become the channels of rows.

CORE adds channels up: a product with a column of ones, whose sum is fp32. Squares and other fp32 values go
there as two numbers of bf16, the second one being what the first leaves out. A maximum is a tournament: EW
takes the larger of two halves of the surfaces until one atom is left, whose 8 channels a product with ones
and zeros turns against each other. The result returns to all channels as a product of one channel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.graph import Node
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, MULTIPLY, Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.exchange import emit_copy, plan_copy
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators import dense
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.operators.functions import logarithm, root
from npuviz.targets.rk3588.compiler.steps import HALF, SINGLE, Steps, bits
from npuviz.targets.rk3588.compiler.strides import Axis, axes_of, split_axes
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES

_GROUP = packing(HALF).channels
_LOW = -16.0
"""Below this, e^x is nothing beside 1 in fp16."""
SPLIT = "bfloat16"


# --- into rows and back -----------------------------------------------------------------------------------


def relaid(
    b: Builder,
    layer: Layer,
    source: Buffer,
    target: Buffer,
    order: Sequence[int] | None = None,
    shape: Sequence[int] = (),
) -> None:
    """Bring all elements to a target, in their order or, for a tensor of a shape, axis by axis in another
    one.

    By a copy of atoms and lanes, or by one product if that takes less. Raises CannotLower if neither works.
    """
    copy, is_small = None, dense.is_dense_faster(b, [source], [target])
    try:
        axes: list[Axis] | None = None
        if order is not None:
            split = split_axes(axes_of(source), shape, packing(source.dtype).channels)
            axes = [axis for number in order for axis in split[number]]
        copy = plan_copy(b.spec, source, target, axes)
    except (CannotLower, ValueError, DoesNotFit, FormatError):
        if not is_small:
            raise
    if copy is not None and (not is_small or copy.cycles(b) <= dense.product_cycles(b, source, target)):
        emit_copy(b, layer.head.id, copy)
    else:
        count = int(np.prod(source.shape))
        numbers = np.arange(count)
        if order is not None:
            numbers = numbers.reshape(tuple(shape)).transpose(tuple(order)).reshape(-1)
        matrix = np.zeros((count, count), np.float16)
        matrix[np.arange(count), numbers] = 1
        dense.multiply(b, layer, (source, target), matrix)
    b.begin_layer()


def rows_of(b: Builder, layer: Layer, source: Buffer, shape: Sequence[int], axes: Sequence[int]) -> Buffer:
    """Return a tensor as rows (others, axes): the axes are the channels. The cube itself if it lies so."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    size = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    wanted = (int(np.prod([shape[axis] for axis in kept], dtype=np.int64)), size)
    order = [*kept, *axes]
    is_last = order == sorted(order)
    if is_last and source.shape == wanted:
        return source
    if is_last and len(source.shape) == 1 and wanted[0] == 1:
        return replace(source, shape=wanted)
    if _is_by_position(source, shape, axes):
        return replace(source, shape=wanted)
    target = b.scratch(f"{layer.head.name or layer.head.op_type} rows", wanted, source.dtype)
    relaid(b, layer, source, target, None if is_last else order, shape)
    return target


def _is_by_position(cube: Buffer, shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether a picture lies as rows of its channels, position by position."""
    return len(cube.shape) == len(shape) > 2 and list(axes) == [1] and shape[0] == 1


# --- sums -------------------------------------------------------------------------------------------------


def _rows(count: int) -> Shape:
    return Shape(WindowAxis(count, count), WindowAxis(1, 1))


def summed(b: Builder, layer: Layer, rows: Buffer, factor: float = 1.0, kernels: int = 1) -> Buffer:
    """Return the sum of the channels of each row (fp16 or fp32) in each made channel: (M, kernels) in fp32.

    factor  of all, a power of two if it is to be exact
    """
    steps = Steps(b, layer)
    if rows.dtype == SINGLE:
        high = steps.run(rows, Stages(), dtype=SPLIT)
        back = steps.run(high, Stages())
        low = steps.run(steps.pair(rows, 4, back), Stages(), dtype=SPLIT)
        second = _column(b, layer, low, factor, kernels, None)
        return _column(b, layer, high, factor, kernels, second)
    return _column(b, layer, rows, factor, kernels, None)


def _column(
    b: Builder, layer: Layer, rows: Buffer, factor: float, kernels: int, second: Buffer | None
) -> Buffer:
    count, channels = rows.shape
    kind = ml_dtypes.bfloat16 if rows.dtype == SPLIT else np.float16
    weights = np.full((kernels, channels, 1, 1), factor).astype(kind)
    made = b.scratch(f"{layer.head.name or layer.head.op_type} sums", (count, kernels), SINGLE)
    bias = np.zeros(kernels, np.float32)
    joined = None if second is None else (second, ALU_ADD)
    convolve_into(b, layer, _rows(count), Operands(weights, bias), (rows, made), second=joined)
    b.begin_layer()
    return made


def spread(
    b: Builder,
    layer: Layer,
    column: Buffer,
    target: Buffer,
    factor: float = 1.0,
    second: tuple[Buffer, int] | None = None,
) -> None:
    """Write the first channel of a cube of fp16 to all channels of another, times a factor, joined to a
    second."""
    count, channels = target.shape
    weights = np.zeros((channels, column.shape[1], 1, 1), np.float16)
    weights[:, 0] = factor
    bias = np.zeros(channels, np.float32)
    convolve_into(b, layer, _rows(count), Operands(weights, bias), (column, target), second=second)
    b.begin_layer()


# --- extremes ---------------------------------------------------------------------------------------------


def extreme(b: Builder, layer: Layer, rows: Buffer, alu: int) -> Buffer:
    """Return the largest (ALU_MAX) or smallest of the channels of each row, in all channels: (M, 8) in
    fp16."""
    steps = Steps(b, layer)
    count, channels = rows.shape
    left = channels // _GROUP
    if channels % _GROUP:
        # The last atom is not full: the last channels, some of them repeated, replace it.
        first = max(0, left - 1)
        tail = _surfaces(rows, first, channels - first * _GROUP)
        inside = channels - first * _GROUP
        chosen = [(inside - _GROUP + lane) % inside for lane in range(_GROUP)]
        last = b.scratch(f"{layer.head.name or layer.head.op_type} last", (count, _GROUP), HALF)
        _picked(b, layer, (tail, last), chosen)
        found = steps.pair(_surfaces(rows, 0, _GROUP), alu, last, dtype=HALF) if left == 1 else last
        if left > 1:
            whole = _tournament(steps, _surfaces(rows, 0, left * _GROUP), alu)
            found = steps.pair(whole, alu, last, dtype=HALF)
    else:
        found = _tournament(steps, rows, alu)
    for distance in (4, 2, 1):
        turned = b.scratch(f"{layer.head.name or layer.head.op_type} turned", (count, _GROUP), HALF)
        chosen = [(lane + distance) % _GROUP for lane in range(_GROUP)]
        _picked(b, layer, (found, turned), chosen, (found, alu))
        found = turned
    return found


def _surfaces(rows: Buffer, first: int, channels: int) -> Buffer:
    """Return the channels of rows from an atom on."""
    count = rows.shape[0]
    return replace(rows, shape=(count, channels), address=rows.address + first * count * ATOM_BYTES)


def _tournament(steps: Steps, rows: Buffer, alu: int) -> Buffer:
    """Return one atom of each row, from whole ones: the first half against the last.

    If the number is odd, the middle atom meets itself.
    """
    left = rows.shape[1] // _GROUP
    while left > 1:
        half = -(-left // 2)
        one = _surfaces(rows, 0, half * _GROUP)
        two = _surfaces(rows, left - half, half * _GROUP)
        rows = steps.pair(one, alu, two, dtype=HALF)
        left = half
    return rows


def _picked(
    b: Builder,
    layer: Layer,
    ends: tuple[Buffer, Buffer],
    chosen: Sequence[int],
    second: tuple[Buffer, int] | None = None,
) -> None:
    source, _ = ends
    weights = np.zeros((len(chosen), source.shape[1], 1, 1), np.float16)
    weights[np.arange(len(chosen)), list(chosen)] = 1
    bias = np.zeros(len(chosen), np.float32)
    convolve_into(b, layer, _rows(source.shape[0]), Operands(weights, bias), ends, second=second)
    b.begin_layer()


# --- Softmax ----------------------------------------------------------------------------------------------


def _apart(b: Builder, layer: Layer, rows: Buffer) -> tuple[Buffer, Buffer, Buffer]:
    """Return (rows minus their largest, e to that, the largest), in fp16."""
    steps = Steps(b, layer)
    largest = extreme(b, layer, rows, dpu.ALU_MAX)
    below = steps.cube(rows, HALF)
    spread(b, layer, largest, below, -1.0, (rows, ALU_ADD))
    # BS moves the span of the table to 0 and cuts off below it: minus infinity has no slope there.
    moved = Stages(bias_constant=bits(-_LOW), relu=True)
    grown = steps.looked_up(below, lambda x: np.exp(x + _LOW), (0, int(-_LOW)), steps.cube(rows, HALF), moved)
    return below, grown, largest


def lower_softmax(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Softmax and LogSoftmax along one axis, or from one on (before opset 13)."""
    node, kind = layer.head, layer.head.op_type
    source, target = _ends(b, layer)
    shape = b.graph.tensors[layer.inputs[0].tensor].shape
    axes, order = _softmax_axes(b, node, shape)
    rows = rows_of(b, layer, source, shape, axes)
    steps = Steps(b, layer)
    readers = b.graph.consumers()[node.outputs[0]]
    if rows.address != source.address and any(b.graph.nodes[each].op_type == "IsNaN" for each in readers):
        raise CannotLower("somebody looks for NaN in it, which the copies into rows would spread")
    is_by_position = _is_by_position(target, shape, axes)
    is_placed = is_by_position or (rows.shape == target.shape and order == sorted(order))
    made = replace(target, shape=rows.shape) if is_placed else steps.cube(rows, HALF)
    below, grown, _ = _apart(b, layer, rows)
    if kind == "Softmax":
        sums = summed(b, layer, grown)
        total = steps.cube(rows, HALF)
        spread(b, layer, steps.run(sums, Stages(), dtype=HALF), total)
        steps.pair(grown, dpu.DIVIDE, total, made)
    else:
        sums = summed(b, layer, grown)
        log = steps.cube(sums, HALF)
        logarithm(steps, sums, log)
        spread(b, layer, log, made, -1.0, (below, ALU_ADD))
    if not is_placed:
        moved = [shape[axis] for axis in order]
        back = [order.index(axis) for axis in range(len(shape))]
        relaid(b, layer, made, target, None if order == sorted(order) else back, moved)


def _softmax_axes(b: Builder, node: Node, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    version = b.graph.opsets.get("", b.graph.opsets.get("ai.onnx", 13))
    axis = int(node.attributes.get("axis", -1 if version >= 13 else 1)) % max(1, len(shape))
    axes = [axis] if version >= 13 else list(range(axis, len(shape)))
    if len(axes) == 0 or not shape:
        raise CannotLower("a single number")
    return axes, [*(each for each in range(len(shape)) if each not in axes), *axes]


# --- reductions -------------------------------------------------------------------------------------------


def lower_reduction(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower ReduceSum, ReduceMax and the like, over any constant axes."""
    node, kind = layer.head, layer.head.op_type
    source, target = _ends(b, layer)
    shape = b.graph.tensors[layer.inputs[0].tensor].shape
    axes = _reduced_axes(b, node, len(shape))
    if not axes:
        raise CannotLower("a reduction over no axis")
    rows = rows_of(b, layer, source, shape, axes)
    made = b.scratch(f"{node.name or kind} column", (rows.shape[0], 1), HALF)
    _REDUCTIONS[kind](Steps(b, layer), rows, made)
    relaid(b, layer, made, target)


def _reduced_axes(b: Builder, node: Node, rank: int) -> list[int]:
    given = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1] >= 0:
        values = b.graph.constants.get(node.inputs[1])
        if values is None:
            raise CannotLower("axes that are no constants", change="constant axes")
        given = np.reshape(values, -1).astype(np.int64).tolist()
    if given is None or not len(given):
        return [] if node.attributes.get("noop_with_empty_axes") else list(range(rank))
    return sorted({int(axis) % max(1, rank) for axis in given}) if rank else []


def _ends(b: Builder, layer: Layer) -> tuple[Buffer, Buffer]:
    if layer.is_quantised:
        raise CannotLower(f"{layer.head.op_type} in int8", change="fp16 around it")
    return cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)


def _largest(steps: Steps, rows: Buffer, made: Buffer, alu: int) -> None:
    found = extreme(steps.b, steps.layer, rows, alu)
    steps.narrow(replace(found, shape=made.shape), made)


def _sum(steps: Steps, rows: Buffer, made: Buffer) -> None:
    steps.narrow(summed(steps.b, steps.layer, rows), made)


def _mean(steps: Steps, rows: Buffer, made: Buffer) -> None:
    steps.scaled(summed(steps.b, steps.layer, rows), 1 / rows.shape[1], made)


def _sizes(steps: Steps, rows: Buffer, made: Buffer) -> None:
    _sum(steps, steps.with_constant(rows, dpu.ABSOLUTE, dtype=HALF), made)


def _squares(steps: Steps, rows: Buffer) -> Buffer:
    return summed(steps.b, steps.layer, steps.pair(rows, MULTIPLY, rows))


def _length(steps: Steps, rows: Buffer, made: Buffer) -> None:
    root(steps, _squares(steps, rows), made)


def _log_sum(steps: Steps, rows: Buffer, made: Buffer) -> None:
    logarithm(steps, summed(steps.b, steps.layer, rows), made)


def _log_sum_exp(steps: Steps, rows: Buffer, made: Buffer) -> None:
    _, grown, largest = _apart(steps.b, steps.layer, rows)
    log = steps.cube(made, HALF)
    logarithm(steps, summed(steps.b, steps.layer, grown), log)
    steps.pair(log, ALU_ADD, replace(largest, shape=made.shape), made)


def _product(steps: Steps, rows: Buffer, made: Buffer) -> None:
    """Multiply channels: fill up with ones to a power of two, then half by half, down to lanes."""
    count, channels = rows.shape
    if channels > _GROUP:
        raise CannotLower("a product of that many numbers soon leaves fp16's range", str(channels))
    wide = _GROUP
    while wide < channels:
        wide *= 2
    weights = np.zeros((wide, channels, 1, 1), np.float16)
    weights[np.arange(channels), np.arange(channels)] = 1
    bias = (np.arange(wide) >= channels).astype(np.float32)
    filled = steps.b.scratch("factors", (count, wide), HALF)
    convolve_into(steps.b, steps.layer, _rows(count), Operands(weights, bias), (rows, filled))
    steps.b.begin_layer()
    found = _tournament(steps, filled, MULTIPLY)
    for distance in (4, 2, 1):
        turned = steps.b.scratch("turned", (count, _GROUP), HALF)
        chosen = [(lane + distance) % _GROUP for lane in range(_GROUP)]
        _picked(steps.b, steps.layer, (found, turned), chosen, (found, MULTIPLY))
        found = turned
    steps.narrow(replace(found, shape=made.shape), made)


_Reduce = Callable[[Steps, Buffer, Buffer], None]
_REDUCTIONS: Mapping[str, _Reduce] = {
    "ReduceMax": lambda steps, rows, made: _largest(steps, rows, made, dpu.ALU_MAX),
    "ReduceMin": lambda steps, rows, made: _largest(steps, rows, made, dpu.ALU_MIN),
    "ReduceProd": _product,
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceL1": _sizes,
    "ReduceL2": _length,
    "ReduceSumSquare": lambda steps, rows, made: steps.narrow(_squares(steps, rows), made) and None,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}

LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(_REDUCTIONS, lower_reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax"), lower_softmax),
}
