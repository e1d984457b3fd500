"""Instructions of Scalar and Vector, with a target or making their result."""

from math import prod
from typing import Any

from npuviz.targets.neuroncore.isa import Activation, Alu, ReduceCmd
from npuviz.targets.neuroncore.nki.calls.operands import (
    command_of,
    engine_of,
    operand,
    run,
    same_partitions,
    tile,
)
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, NAMES, is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Boxes
from npuviz.targets.neuroncore.nki.record.names import COMPARISONS, function, name_of, operator
from npuviz.targets.neuroncore.nki.record.numbers import needed_number, number
from npuviz.targets.neuroncore.nki.record.recording import current, result_dtype
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor, box_of, boxes_of

# --- Scalar engine -----------------------------------------------------------------------------------


def _check_columns(bias: Tensor | None, scale: Tensor | None) -> None:
    """Raise KernelError for types that Scalar does not read as bias or scale."""
    if bias is not None and not is_float(bias.dtype):
        raise KernelError(
            f"activation bias: {bias!r} is no float32, float16 or bfloat16",
            "err_activation_bias_invalid_type",
        )
    if scale is not None and scale.dtype != FLOAT32:
        raise KernelError(
            f"activation scale: {scale!r} is no float32; copy it to a float32 tile",
            "err_activation_scale_invalid_type",
        )


def activation(
    dst: object,
    op: object,
    data: object,
    bias: object = None,
    scale: object = 1.0,
    reduce_op: object = None,
    reduce_res: object = None,
    reduce_cmd: object = 0,
    mask: object = None,
    dtype: object = None,
    relu_param: object = 0.0,
) -> Tensor:
    """dst = op(data * scale + bias), with accumulators; `relu_param`: the slope of prelu below 0."""
    source = tile(data, "activation data")
    if isinstance(bias, Tensor) and (bias.shape[0] != source.shape[0] or prod(bias.shape[1:]) != 1):
        raise KernelError(f"activation: bias shape {tuple(bias.shape)} must be {source.shape[0]}x1")
    if bias is None and current().is_placed and current().version == 1:
        raise KernelError(
            "activation without bias= needs a hidden tile of zeros, in a kernel that places its tiles",
            "err_bias_tensor_must_be_specified_in_allocation",
        )
    bias_column, bias_value = operand(bias, source, "activation bias", "err_activation_bias_invalid_type")
    scale_column, scale_value = operand(
        scale, source, "activation scale", "err_activation_scale_scalar_or_vector"
    )
    _check_columns(bias_column, scale_column)
    command = command_of(reduce_cmd)
    accumulators = None
    if reduce_op is not None and operator(reduce_op) != Alu.ADD:
        raise KernelError(f"activation reduce_op {name_of(reduce_op)!r}: Scalar adds only")
    if reduce_res is not None:
        accumulators = tile(reduce_res, "activation reduce_res")
        command = command or ReduceCmd.REDUCE
    more = (accumulators,) if accumulators is not None else ()
    recording = current()
    box = boxes_of(mask, source.shape)
    values: dict[str, Any] = {
        "func": function(op), "scale": scale_value, "bias": bias_value, "cmd": command,
    }  # fmt: skip
    if values["func"] == Activation.PRELU:
        slope = number(relu_param)
        if slope is None:
            if command or accumulators is not None or mask is not None:
                raise KernelError("prelu with a slope for each partition, and accumulators or a mask")
            return _prelu(dst, activation(None, "copy", source, bias, scale, dtype=FLOAT32), relu_param)
        values["alpha"] = slope
    sources = (source, scale_column, bias_column)
    made = recording.new(source.shape, dtype or source.dtype, SBUF, result=True) if dst is None else dst
    target = tile(made, "activation dst")
    step = recording.step("activation", target, sources, box, more, **values)
    if dst is None:
        recording.keep_result(target, step)
    return target


def _prelu(dst: object, data: Tensor, slopes: object) -> Tensor:
    """dst = data, below 0 times one slope for each partition."""
    current().note(
        "prelu with a slope for each partition is charged as relu on Scalar and two calls of Vector (assumed)"
    )
    above = activation(None, "relu", data)
    below = tensor_scalar(None, data, "minimum", 0.0, op1="multiply", operand1=slopes)
    return tensor_tensor(dst, above, below, "add")


Stage = tuple[object, object, bool]
"""(operator, operand, whether the operand comes first)"""
_STAGES = {
    (Alu.MULTIPLY, Alu.ADD), (Alu.MULTIPLY, Alu.SUBTRACT), (Alu.MULTIPLY, Alu.BYPASS),
    (Alu.ADD, Alu.BYPASS), (Alu.SUBTRACT, Alu.BYPASS), (Alu.BYPASS, Alu.BYPASS),
}  # fmt: skip


def linear(data: object, first: Stage, second: Stage) -> tuple[Any, Any]:
    """(scale, bias): data * scale + bias is what two stages of Scalar compute. Raises KernelError."""
    stages = (operator(first[0]), operator(second[0]))
    if stages not in _STAGES:
        names = ", ".join(each.name.lower() for each in stages)
        raise KernelError(f"activate2: ({names}) is no pair of operators that Scalar computes")
    scale: Any = 1.0
    bias: Any = None
    for alu, (_, given, reverse) in zip(stages, (first, second), strict=True):
        if alu == Alu.MULTIPLY:
            scale = given
        elif alu == Alu.ADD:
            bias = given
        elif alu == Alu.SUBTRACT:
            bias = given if reverse else _negated(given)
            scale = _negated(scale) if reverse else scale
    return scale, bias


def _negated(value: Any) -> Any:
    found = number(value)
    if found is not None:
        return -found
    return tensor_scalar(None, value, "multiply", -1.0)


# --- Vector engine -----------------------------------------------------------------------------------


def tensor_tensor(
    dst: object,
    data1: object,
    data2: object,
    op: object,
    engine: object = None,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """dst = data1 op data2."""
    a, b = tile(data1, "tensor_tensor data1"), tile(data2, "tensor_tensor data2")
    same_partitions(a, b, "tensor_tensor data1 and data2")
    if a.buffer == b.buffer == PSUM:
        raise KernelError("tensor_tensor: data1 and data2 both lie in PSUM", "err_unsupported_memory")
    shape = a.shape
    if a.shape != b.shape and prod(a.shape) != prod(b.shape):
        from npuviz.targets.neuroncore.nki.calls.elementwise import _shape

        shape = _shape(a, b)
        a, b = a.free_broadcast(shape), b.free_broadcast(shape)
    default = (
        NAMES["uint8"] if name_of(op) in COMPARISONS and current().version == 1 else result_dtype(None, a, b)
    )
    return run(
        "tensor_tensor", dst, shape, dtype or default, (a, b), mask, op=operator(op), engine=engine_of(engine)
    )


def tensor_scalar(
    dst: object,
    data: object,
    op0: object,
    operand0: object,
    reverse0: bool = False,
    op1: object = None,
    operand1: object = None,
    reverse1: bool = False,
    engine: object = None,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """dst = (data op0 operand0) op1 operand1."""
    source = tile(data, "tensor_scalar data")
    column0, x0 = operand(operand0, source, "tensor_scalar operand0")
    column1, x1 = operand(operand1, source, "tensor_scalar operand1")
    return run(
        "tensor_scalar",
        dst,
        source.shape,
        dtype or source.dtype,
        (source, column0, column1),
        mask,
        op0=operator(op0),
        x0=x0,
        reverse0=bool(reverse0),
        op1=operator(op1),
        x1=x1,
        reverse1=bool(reverse1),
        engine=engine_of(engine),
    )


def scalar_tensor_tensor(
    dst: object,
    data: object,
    op0: object,
    operand0: object,
    op1: object,
    operand1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """dst = (data op0 operand0) op1 operand1, where operand1 is a tile."""
    source, other = tile(data, "scalar_tensor_tensor data"), tile(operand1, "scalar_tensor_tensor operand1")
    same_partitions(source, other, "scalar_tensor_tensor data and operand1")
    column, x0 = operand(operand0, source, "scalar_tensor_tensor operand0")
    other = other if other.size == source.size else other.free_broadcast(source.shape)
    return run(
        "scalar_tensor_tensor",
        dst,
        source.shape,
        dtype or result_dtype(None, source, other),
        (source, other, column),
        mask,
        op0=operator(op0),
        x0=x0,
        op1=operator(op1),
        reverse0=bool(reverse0),
        reverse1=bool(reverse1),
    )


def tensor_tensor_scan(
    dst: object,
    data0: object,
    data1: object,
    initial: object,
    op0: object,
    op1: object,
    reverse0: bool = False,
    reverse1: bool = False,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """r[i] = (data0[i] op0 r[i-1]) op1 data1[i]; reversed operators have their operands swapped."""
    a, b = tile(data0, "tensor_tensor_scan data0"), tile(data1, "tensor_tensor_scan data1")
    same_partitions(a, b, "tensor_tensor_scan data0 and data1")
    column, x = operand(initial, a, "tensor_tensor_scan initial")
    return run(
        "scan", dst, a.shape, dtype or result_dtype(None, a, b), (a, b, column), mask,
        op0=operator(op0), op1=operator(op1), initial=x, reverse=(bool(reverse0), bool(reverse1)),
    )  # fmt: skip


def reduced_axes(data: Tensor, axis: object, op: str) -> tuple[int, ...]:
    """The free dimensions that a reduction takes, rising. Raises KernelError unless they are the last."""
    chosen = [axis] if isinstance(axis, int) else list(axis)  # type: ignore[call-overload]
    axes = sorted(int(each) % data.ndim for each in chosen)
    if axes and axes[0] == 0:
        raise KernelError(f"{op} over the partition dimension of {data!r}; use tensor_partition_reduce")
    if axes != list(range(data.ndim - len(axes), data.ndim)):
        return tuple(axes)
    return tuple(axes)


_NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": float("-inf"), "minimum": float("inf")}


def _beside_neutral(source: Tensor, parts: Boxes, op: str) -> Tensor:
    """A tile of float32: these parts of a tile, and elsewhere what a reduction does not see."""
    if op not in _NEUTRAL:
        raise KernelError(
            f"a reduction by {op} of {source!r} under a mask that cuts it along a diagonal",
            "err_unsupported_expression_in_mask",
        )
    recording = current()
    recording.note(
        "a reduction under a mask along a diagonal is one of a copy of what the mask leaves, beside the "
        "neutral value (assumed)"
    )
    made = recording.new(source.shape, FLOAT32, SBUF)
    recording.step("memset", made, (), value=_NEUTRAL[op])
    recording.step("tensor_copy", made, (source,), parts)
    return made


def tensor_reduce(
    dst: object,
    op: object,
    data: object,
    axis: object,
    negate: bool = False,
    keepdims: bool = False,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """dst = op over free dimensions."""
    source = tile(data, "tensor_reduce data")
    axes = reduced_axes(source, axis, "tensor_reduce")
    kept = [dim for dim in range(source.ndim) if dim not in axes]
    if isinstance(parts := boxes_of(mask, source.shape), Boxes):
        source, mask = _beside_neutral(source, parts, name_of(op)), None
    box = box_of(mask, source.shape) or tuple((0, size) for size in source.shape)
    if keepdims:
        shape = tuple(1 if dim in axes else size for dim, size in enumerate(source.shape))
        part = tuple((0, 1) if dim in axes else each for dim, each in enumerate(box))
    else:
        shape = (*(source.shape[dim] for dim in kept), *(1,) * (len(kept) == 1))
        part = (*(box[dim] for dim in kept), *((0, 1),) * (len(kept) == 1))
    recording = current()
    made = recording.new(shape, dtype or source.dtype, SBUF, result=True) if dst is None else dst
    target = tile(made, "tensor_reduce dst")
    arranged = source.boxed(box).permute((*kept, *axes))
    values: dict[str, Any] = {"op": operator(op), "axes": len(axes), "negate": bool(negate)}
    step = recording.step(
        "tensor_reduce", target.boxed(part) if mask is not None else target, (arranged,), **values
    )
    if dst is None and mask is None:
        recording.keep_result(target, step)
    return target


def reciprocal(dst: object, data: object, mask: object = None, dtype: object = None) -> Tensor:
    """1 / data."""
    source = tile(data, "reciprocal data")
    return run("reciprocal", dst, source.shape, dtype or source.dtype, (source,), mask)


def statistics(dst: object, data: object, mask: object = None, dtype: object = None) -> Tensor:
    """bn_stats: [P, 6]."""
    source = tile(data, "bn_stats data")
    return run("bn_stats", dst, (source.shape[0], 6), dtype or FLOAT32, (source,), mask)


def aggregate(dst: object, data: object, mask: object = None, dtype: object = None) -> Tensor:
    """bn_aggr: [P, 2]."""
    source = tile(data, "bn_aggr data")
    return run("bn_aggr", dst, (source.shape[0], 2), dtype or FLOAT32, (source,), mask)


def max8(dst: object, src: object, mask: object = None, dtype: object = None) -> Tensor:
    """The eight largest of each partition, falling."""
    source = tile(src, "max8 src")
    shape = (source.shape[0], 8)
    return _eight("max8", dst, shape, dtype or source.dtype, (source,), mask)


def _eight(
    kind: str, dst: object, shape: tuple[int, ...], dtype: object, sources: tuple[Tensor, ...], mask: object
) -> Tensor:
    """A step on eight values a partition; a mask over the first source leaves partitions of the others."""
    source, *others = sources
    made = tile(current().new(shape, dtype, SBUF) if dst is None else dst, f"{kind} dst")
    box = box_of(mask, source.shape)
    if box is None:
        current().step(kind, made, sources)
        return made
    lanes = box[:1]
    current().step(
        kind,
        made.boxed((*lanes, *((0, size) for size in shape[1:]))),
        (source.boxed(box), *(each.boxed((*lanes, *((0, n) for n in each.shape[1:]))) for each in others)),
    )
    return made


def find_index8(dst: object, data: object, vals: object, mask: object = None, dtype: object = None) -> Tensor:
    """Position of the first of each of eight values."""
    source, values = tile(data, "nc_find_index8 data"), tile(vals, "nc_find_index8 vals")
    return _eight("find_index8", dst, (source.shape[0], 8), dtype or NAMES["uint32"], (source, values), mask)


def match_replace8(
    dst: object,
    data: object,
    vals: object,
    imm: object,
    dst_idx: object = None,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """The first of each of eight values replaced."""
    what = needed_number(imm, "nc_match_replace8")
    source, values = tile(data, "nc_match_replace8 data"), tile(vals, "nc_match_replace8 vals")
    box = box_of(mask, source.shape)
    made = tile(
        current().new(source.shape, dtype or source.dtype, SBUF) if dst is None else dst, "nc_match_replace8"
    )
    more: tuple[Tensor, ...] = ()
    if dst_idx is not None:
        more = (tile(dst_idx, "nc_match_replace8 dst_idx"),)
    if box is not None:
        lanes = box[:1]
        values = values.boxed((*lanes, *((0, n) for n in values.shape[1:])))
        more = tuple(each.boxed((*lanes, *((0, n) for n in each.shape[1:]))) for each in more)
    current().step("match_replace8", made.boxed(box), (source.boxed(box), values), None, more, value=what)
    return made


def unary(op: str, x: object, dtype: object = None, mask: object = None) -> Tensor:
    """A function of nl on Scalar."""
    return activation(None, op, x, dtype=dtype, mask=mask)
