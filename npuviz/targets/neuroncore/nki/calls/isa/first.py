"""nki.isa of the first generation: functions return tiles."""

from collections.abc import Sequence
from typing import Any

from npuviz.targets.neuroncore.nki.calls import accumulating, compute, patterns, products, random_numbers
from npuviz.targets.neuroncore.nki.calls import movement as move
from npuviz.targets.neuroncore.nki.calls.isa import names as isa_names
from npuviz.targets.neuroncore.nki.calls.language import fp32 as fp32
from npuviz.targets.neuroncore.nki.calls.operands import refuse, refuse_unknown, tile
from npuviz.targets.neuroncore.nki.record.element_types import dtype_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Mask
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, Tensor, box_of

engine, reduce_cmd, oob_mode = isa_names.engine, isa_names.reduce_cmd, isa_names.oob_mode
dge_mode, nc_version = isa_names.dge_mode_first, isa_names.nc_version
matmul_perf_mode = isa_names.matmul_perf_mode
tensor_engine, scalar_engine, vector_engine = engine.tensor, engine.scalar, engine.vector
gpsimd_engine, dma_engine, unknown_engine = engine.gpsimd, engine.dma, engine.unknown


def get_nc_version() -> Any:
    """Generation of the core that the kernel is compiled for."""
    from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use

    return nc_version(max(2, spec_in_use().version))


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    mask: Any = None,
    perf_mode: Any = None,
    **_: Any,
) -> Tensor:
    """stationary.T @ moving, in PSUM."""
    if mask is not False:
        stationary, moving = _in_sbuf(stationary), _in_sbuf(moving)
    return products.nc_matmul(
        None, stationary, moving, is_transpose, None, mask, perf_mode, tile_position, tile_size,
        (is_stationary_onezero, is_moving_onezero),
    )  # fmt: skip


def _in_sbuf(operand: Any) -> Any:
    """An operand of a product; a transposed tile that the kernel has put nowhere is copied out of PSUM.

    # Assumed: the compiler does so. Flash attention of nki-samples (0898a77) multiplies such tiles on trn1.
    """
    recording = current()
    if not isinstance(operand, Tensor) or operand.buffer != PSUM:
        return operand
    maker = recording.maker_of(operand)
    if maker is None or maker.op != "transpose":
        return operand
    recording.note("a tile of nc_transpose that nc_matmul reads is copied from PSUM to SBUF first (assumed)")
    return recording.actions.copied(operand, operand.dtype)


def nc_transpose(data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = 0, **_: Any) -> Tensor:
    """[P, F] to [F, P]."""
    return move.nc_transpose(None, data, engine, mask, dtype)


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    mask: Any = None,
    dtype: Any = None,
    **_: Any,
) -> Tensor:
    """op(data * scale + bias)."""
    return compute.activation(None, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, mask, dtype)


def activation_reduce(
    op: Any,
    data: Any,
    *,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    **_: Any,
) -> Tensor:
    """activation with a sum over the free dimensions."""
    return compute.activation(None, op, data, bias, scale, reduce_op, reduce_res, 3, mask, dtype)


def tensor_tensor(
    data1: Any, data2: Any, op: Any, *, dtype: Any = None, mask: Any = None, engine: Any = 0, **_: Any
) -> Tensor:
    """data1 op data2."""
    return compute.tensor_tensor(None, data1, data2, op, engine, mask, dtype)


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = 0,
    **_: Any,
) -> Tensor:
    """(data op0 operand0) op1 operand1."""
    return compute.tensor_scalar(
        None, data, op0, operand0, reverse0, op1, operand1, reverse1, engine, mask, dtype
    )


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **_: Any,
) -> Tensor:
    """(data op0 operand0) op1 tile."""
    return compute.scalar_tensor_tensor(
        None, data, op0, operand0, op1, operand1, reverse0, reverse1, mask, dtype
    )


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    **_: Any,
) -> Tensor:
    """r[i] = (data0[i] op0 r[i-1]) op1 data1[i]."""
    return compute.tensor_tensor_scan(None, data0, data1, initial, op0, op1, reverse0, reverse1, mask, dtype)


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
    **_: Any,
) -> Tensor:
    """op over free dimensions."""
    return compute.tensor_reduce(None, op, data, axis, negate, keepdims, mask, dtype)


def tensor_partition_reduce(op: Any, data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """op over partitions."""
    return patterns.partition_reduce(None, op, data, mask, dtype)


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    **_: Any,
) -> Tensor:
    """data op0 operand0, and its reduction."""
    return accumulating.tensor_scalar_reduce(
        None, data, op0, operand0, reduce_op, reduce_res, reverse0, mask=mask, dtype=dtype
    )


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, **_: Any) -> Tensor:
    """1 / data."""
    return compute.reciprocal(None, data, mask, dtype)


def memset(shape: Any, value: Any, dtype: Any, *, mask: Any = None, engine: Any = 0, **_: Any) -> Tensor:
    """A tile full of a number."""
    return move.memset(None, value, engine, shape, dtype, mask)


def iota(expr: Any, dtype: Any, *, mask: Any = None, **_: Any) -> Tensor:
    """The values of an index expression."""
    return patterns.iota_of(expr, dtype, mask)


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """on_true_tile where the comparison of indices holds."""
    if not isinstance(pred, Mask) or len(pred.conditions) != 1:
        raise KernelError("affine_select: pred is one comparison of index expressions")
    source = tile(on_true_tile, "affine_select on_true_tile")
    return patterns.select_where(pred.conditions[0], source, on_false_value, mask, dtype)


def tensor_copy(src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = 0, **_: Any) -> Tensor:
    """A copy."""
    return move.tensor_copy(None, src, engine, mask, dtype)


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = 0, **_: Any
) -> Tensor:
    """A copy of a tile from where elements of the chip say; the subscript has found that."""
    return move.tensor_copy(None, src, engine, mask, dtype)


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, dtype: Any = None, engine: Any = 0, **_: Any
) -> None:
    """A copy of a tile to where elements of the chip say."""
    move.tensor_copy(dst, src, engine, mask, dtype)


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    mask: Any = None,
    dtype: Any = None,
    reverse_pred: bool = False,
    **_: Any,
) -> None:
    """dst = src where predicate."""
    move.tensor_copy_predicated(dst, src, predicate, reverse_pred, mask)


def dma_copy(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: Any = 0,
    dge_mode: Any = 3,
    **_: Any,
) -> None:
    """dst = src by DMA."""
    move.dma_copy(dst, src, mask, dst_rmw_op, oob_mode)


def dma_transpose(src: Any, *, axes: Any = None, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """A transposing DMA."""
    return move.dma_transpose(None, src, axes, dtype, mask)


def builtin_custom_op(*_: Any, **__: Any) -> None:
    """Not simulated. Raises KernelError."""
    raise KernelError("nisa.builtin_custom_op runs compiled C on GpSimd, which is not simulated")


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Statistics of each partition."""
    return compute.statistics(None, data, mask, dtype)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """Mean and variance of statistics."""
    return compute.aggregate(None, data, mask, dtype)


def max8(*, src: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """The eight largest of each partition."""
    return compute.max8(None, src, mask, dtype)


def nc_find_index8(*, data: Any, vals: Any, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """First positions of eight values."""
    return compute.find_index8(None, data, vals, mask, dtype)


def nc_match_replace8(
    *, data: Any, vals: Any, imm: Any, dst_idx: Any = None, mask: Any = None, dtype: Any = None, **_: Any
) -> Tensor:
    """The first of each of eight values replaced."""
    return compute.match_replace8(None, data, vals, imm, dst_idx, mask, dtype)


def nc_stream_shuffle(
    src: Any, dst: Any, shuffle_mask: Any, *, dtype: Any = None, mask: Any = None, **_: Any
) -> None:
    """Partitions reordered in each quadrant."""
    move.nc_stream_shuffle(dst, src, shuffle_mask, mask, dtype)


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    reduce_op: Any = "max",
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    **_: Any,
) -> None:
    """where(predicate, on_true, on_false), and its maximum."""
    if dtype is not None and dtype_of(dtype) != dst.dtype:
        raise KernelError(f"select_reduce: dtype={dtype_of(dtype)} of {dst!r}; results have the type of dst")
    accumulating.select_reduce(
        dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred, mask
    )


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = 3,
    reduce_res: Any = None,
    reduce_op: Any = "max",
    range_start: Any = 0,
    on_false_value: Any = accumulating.FP32_MIN,
    mask: Any = None,
    dtype: Any = None,
    **_: Any,
) -> Tensor:
    """on_true_tile where its columns lie between bounds, and its maximum."""
    return accumulating.range_select(
        None, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op,
        range_start, on_false_value, mask, dtype,
    )  # fmt: skip


def tensor_scalar_cumulative(
    *,
    src: Any,
    dst: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = 3,
    mask: Any = None,
    **_: Any,
) -> None:
    """Running results of src op0 imm0 under op1."""
    accumulating.tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1, reduce_cmd, mask=mask)


def local_gather(
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: Any = None,
    *,
    mask: Any = None,
    **_: Any,
) -> Tensor:
    """Elements by indices that groups of 16 partitions share."""
    refuse("local_gather", mask=mask)
    return accumulating.local_gather(None, src_buffer, index, num_elem_per_idx, num_valid_indices)


def sequence_bounds(*, segment_ids: Any, dtype: Any = None, **_: Any) -> Tensor:
    """First and end of each element's segment."""
    return accumulating.sequence_bounds(None, segment_ids, dtype)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, **_: Any) -> Tensor:
    """data, with elements set to 0 with a probability."""
    return random_numbers.dropout(None, data, prob, box_of(mask, data.shape), dtype)


refuse_unknown(globals(), "nisa")
