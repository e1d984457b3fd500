"""Instructions of Vector with accumulators, and GpSimd's gathers and bounds of sequences."""

from collections.abc import Sequence
from math import prod
from typing import Any

from npuviz.targets.neuroncore.isa import Alu, Flag, Opcode, ReduceCmd
from npuviz.targets.neuroncore.nki.calls.operands import command_of, operand, run, same_partitions, tile
from npuviz.targets.neuroncore.nki.record.element_types import NAMES, is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.names import operator
from npuviz.targets.neuroncore.nki.record.numbers import number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor, boxes_of

_REDUCTIONS = frozenset((Alu.ADD, Alu.MULTIPLY, Alu.MAXIMUM, Alu.MINIMUM))
_RUNNING = _REDUCTIONS | {Alu.SUBTRACT}
_COMPARED = frozenset((Alu.EQUAL, Alu.LESS, Alu.LESS_EQUAL, Alu.GREATER, Alu.GREATER_EQUAL))
FP32_MIN = -3.4028234663852886e38


def _accumulate(
    opcode: Opcode,
    dst: object,
    sources: Sequence[Tensor],
    arguments: tuple[tuple[Tensor | None, float | int], tuple[Tensor | None, float | int]],
    result: object,
    mask: object,
    **values: Any,
) -> Tensor:
    """Append a step; operands that are numbers or columns come as (column, number)."""
    recording = current()
    source = sources[0]
    name = opcode.name.lower()
    made = recording.new(source.shape, values.pop("dtype") or source.dtype, SBUF, result=True) if (
        dst is None
    ) else tile(dst, f"{name} dst")  # fmt: skip
    same_partitions(made, source, f"{name} dst and source")
    more = () if result is None else (tile(result, f"{name} reduce_res"),)
    if more and (more[0].shape[0] != source.shape[0] or prod(more[0].shape[1:]) != 1):
        raise KernelError(f"{name}: reduce_res {more[0]!r} is no tile [{source.shape[0]}, 1]")
    values.pop("dtype", None)
    (first, x), (second, y) = arguments
    padded = (*sources, *(None,) * (2 - len(sources)), first, second)
    step = recording.step(
        "accumulating",
        made,
        padded,
        boxes_of(mask, source.shape),
        more,
        opcode=opcode,
        numbers=(x, y),
        **values,
    )
    if dst is None:
        recording.keep_result(made, step)
    return made


def _combined(op: object, allowed: frozenset[Alu], what: str) -> Alu:
    found = operator(op)
    if found not in allowed:
        raise KernelError(f"{what}: {found.name.lower()} does not accumulate")
    return found


def tensor_scalar_reduce(
    dst: object,
    data: object,
    op0: object,
    operand0: object,
    reduce_op: object,
    reduce_res: object,
    reverse0: bool = False,
    reduce_cmd: object = 3,
    reduce_init: object = None,
    negate: bool = False,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """data op0 operand0, and its reduction over all free dimensions."""
    source = tile(data, "tensor_scalar_reduce data")
    return _accumulate(
        Opcode.TENSOR_SCALAR_REDUCE, dst, (source,),
        (operand(operand0, source, "tensor_scalar_reduce operand0"),
         operand(reduce_init, source, "tensor_scalar_reduce reduce_init")),
        reduce_res, mask, dtype=dtype,
        ops=(operator(op0), _combined(reduce_op, _REDUCTIONS, "tensor_scalar_reduce reduce_op")),
        cmd=command_of(reduce_cmd), flags=Flag.REVERSE0 * bool(reverse0) | Flag.NEGATE * bool(negate),
    )  # fmt: skip


def tensor_scalar_cumulative(
    dst: object,
    src: object,
    op0: object,
    op1: object,
    imm0: object,
    imm1: object = None,
    reduce_cmd: object = 3,
    reverse0: bool = False,
    mask: object = None,
) -> Tensor:
    """register = (src op0 imm0) op1 register, written for each element."""
    source = tile(src, "tensor_scalar_cumulative src")
    for each in (source, dst):
        if isinstance(each, Tensor) and each.dtype in (NAMES["int32"], NAMES["uint32"]):
            raise KernelError(f"tensor_scalar_cumulative: {each!r} has a type that it does not take")
    return _accumulate(
        Opcode.TENSOR_SCALAR_CUMULATIVE, dst, (source,),
        (operand(imm0, source, "tensor_scalar_cumulative imm0"),
         operand(imm1, source, "tensor_scalar_cumulative imm1")),
        None, mask, dtype=None,
        ops=(operator(op0), _combined(op1, _RUNNING, "tensor_scalar_cumulative op1")),
        cmd=command_of(reduce_cmd), flags=Flag.REVERSE0 * bool(reverse0),
    )  # fmt: skip


def select_reduce(
    dst: object,
    predicate: object,
    on_true: object,
    on_false: object,
    reduce_res: object = None,
    reduce_cmd: object = 0,
    reduce_op: object = "max",
    reverse_pred: bool = False,
    mask: object = None,
) -> Tensor:
    """where(predicate, on_true, on_false), and its maximum."""
    source, chosen = tile(on_true, "select_reduce on_true"), tile(predicate, "select_reduce predicate")
    if source.buffer == chosen.buffer == PSUM:
        raise KernelError("select_reduce: predicate and on_true both lie in PSUM", "err_unsupported_memory")
    if operator(reduce_op) != Alu.MAXIMUM:
        raise KernelError("select_reduce: reduce_op is nl.maximum")
    if reduce_res is not None and not int(reduce_cmd):  # type: ignore[call-overload]
        reduce_cmd = ReduceCmd.RESET_REDUCE
    return _accumulate(
        Opcode.SELECT_REDUCE, dst, (source, chosen),
        (operand(on_false, source, "select_reduce on_false"), (None, 0.0)), reduce_res, mask, dtype=None,
        ops=(Alu.BYPASS, Alu.BYPASS), cmd=command_of(reduce_cmd), flags=Flag.REVERSE0 * bool(reverse_pred),
    )  # fmt: skip


def range_select(
    dst: object,
    on_true_tile: object,
    comp_op0: object,
    comp_op1: object,
    bound0: object,
    bound1: object,
    reduce_cmd: object = 3,
    reduce_res: object = None,
    reduce_op: object = "max",
    range_start: object = 0,
    on_false_value: object = FP32_MIN,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """on_true_tile where range_start + column compares with both bounds, else FP32_MIN; its maximum."""
    source = tile(on_true_tile, "range_select on_true_tile")
    if spec_in_use().version < 3:
        raise KernelError("range_select needs NeuronCore-v3 (trn2) or newer")
    if not is_float(source.dtype):
        raise KernelError(f"range_select: {source!r} is no tile of floats")
    ops = operator(comp_op0), operator(comp_op1)
    if not _COMPARED.issuperset(ops):
        raise KernelError("range_select compares with equal, less, less_equal, greater or greater_equal")
    fill, start = number(on_false_value), number(range_start)
    if on_false_value is not ... and (fill is None or abs(fill - FP32_MIN) > 1e32):
        raise KernelError(f"range_select: on_false_value {on_false_value!r} must be FP32_MIN")
    if operator(reduce_op) != Alu.MAXIMUM:
        raise KernelError("range_select: reduce_op is nl.maximum")
    if not isinstance(start, int):
        raise KernelError(f"range_select: range_start {range_start!r} is no integer")
    bounds = tuple(operand(each, source, "range_select bound") for each in (bound0, bound1))
    return _accumulate(
        Opcode.RANGE_SELECT, dst, (source,), (bounds[0], bounds[1]), reduce_res, mask, dtype=dtype,
        ops=ops, cmd=command_of(reduce_cmd), flags=0, start=float(start),
    )  # fmt: skip


def exponential(
    dst: object,
    src: object,
    max_value: object = 0.0,
    reduce_res: object = None,
    reduce_cmd: object = 0,
    reduce_init: object = 0.0,
) -> Tensor:
    """exp(src - max_value), and its sum."""
    source = tile(src, "exponential src")
    if spec_in_use().version < 4:
        raise KernelError("exponential needs NeuronCore-v4 (trn3); use activation with nl.exp")
    return _accumulate(
        Opcode.EXPONENTIAL, dst, (source,),
        (operand(max_value, source, "exponential max_value"),
         operand(reduce_init, source, "exponential reduce_init")),
        reduce_res, None, dtype=None, ops=(Alu.BYPASS, Alu.BYPASS), cmd=command_of(reduce_cmd), flags=0,
    )  # fmt: skip


_EACH = (1, 2, 4, 8, 16, 32)
_MAX_INDICES = 4096


def local_gather(
    dst: object, src_buffer: object, index: object, each: int = 1, valid: int | None = None
) -> Tensor:
    """`each` elements at each of the `valid` indices that 16 partitions hold together."""
    source, chosen = tile(src_buffer, "local_gather src_buffer"), tile(index, "local_gather index")
    same_partitions(source, chosen, "local_gather src_buffer and index")
    partitions = source.shape[0]
    held = prod(chosen.shape[1:]) * 16
    count = held if valid is None else int(valid)
    if partitions % 16 or chosen.dtype != NAMES["uint16"] or each not in _EACH:
        raise KernelError(
            f"local_gather: {partitions} partitions (a multiple of 16), index {chosen.dtype} (uint16), "
            f"num_elem_per_idx={each} (1 to 32, a power of 2)"
        )
    if not 0 < count <= min(held, _MAX_INDICES):
        raise KernelError(f"local_gather: {count} indices, at most {min(held, _MAX_INDICES)} are possible")
    # Ref: SDK226, test_nki_isa_local_gather.py: of indices [128, 4] all elements are [128, 4, 16, 4]
    taken = (*chosen.shape[1:], 16) if count == held else (count,)
    shape = (partitions, *taken, each) if each > 1 else (partitions, *taken)
    return run("local_gather", dst, shape, source.dtype, (source, chosen), each=each, count=count)


def sequence_bounds(dst: object, segment_ids: object, dtype: object = None) -> Tensor:
    """[1, 2, n]: first and end of the segment of each element."""
    source = tile(segment_ids, "sequence_bounds segment_ids")
    if source.shape[0] != 1 or source.dtype not in (NAMES["float32"], NAMES["int32"]):
        raise KernelError(f"sequence_bounds: {source!r} is no tile [1, n] of float32 or int32")
    shape = (1, 2, prod(source.shape[1:]))
    return run("sequence_bounds", dst, shape, dtype or source.dtype, (source,))
