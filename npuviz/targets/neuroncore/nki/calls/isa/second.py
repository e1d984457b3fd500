"""nki.isa of the second generation: functions write `dst`."""

from collections.abc import Sequence
from math import prod
from typing import Any

from npuviz.targets.neuroncore.nki.calls import (
    accumulating,
    compute,
    exchange,
    patterns,
    products,
    random_numbers,
)
from npuviz.targets.neuroncore.nki.calls import movement as move
from npuviz.targets.neuroncore.nki.calls.dynamic import VirtualRegister as VirtualRegister
from npuviz.targets.neuroncore.nki.calls.dynamic import register_alloc as register_alloc
from npuviz.targets.neuroncore.nki.calls.dynamic import register_load as register_load
from npuviz.targets.neuroncore.nki.calls.dynamic import register_move as register_move
from npuviz.targets.neuroncore.nki.calls.dynamic import register_store as register_store
from npuviz.targets.neuroncore.nki.calls.isa import names as isa_names
from npuviz.targets.neuroncore.nki.calls.isa.newest import activate2 as activate2
from npuviz.targets.neuroncore.nki.calls.isa.newest import exponential as exponential
from npuviz.targets.neuroncore.nki.calls.isa.newest import nc_matmul_mx as nc_matmul_mx
from npuviz.targets.neuroncore.nki.calls.isa.newest import quantize_mx as quantize_mx
from npuviz.targets.neuroncore.nki.calls.isa.newest import rand2 as rand2
from npuviz.targets.neuroncore.nki.calls.ordering import NkiInstruction as NkiInstruction
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.tensors import Tensor

engine, reduce_cmd, oob_mode = isa_names.engine, isa_names.reduce_cmd, isa_names.oob_mode
dge_mode, nc_version = isa_names.dge_mode_second, isa_names.nc_version
matmul_perf_mode, dma_engine = isa_names.matmul_perf_mode, isa_names.dma_engine
tensor_engine, scalar_engine, vector_engine = engine.tensor, engine.scalar, engine.vector
gpsimd_engine, unknown_engine = engine.gpsimd, engine.unknown


class NkiValidationError(KernelError):
    """An operand rule that a call breaks."""


def get_nc_version() -> Any:
    """Generation of the core that the kernel is compiled for."""
    return nc_version(max(2, spec_in_use().version))


def get_nc_sub_version() -> int:
    """Variant of the core."""
    return 0


def dma_copy(
    dst: Any,
    src: Any,
    priority: Any = None,
    oob_mode: Any = 0,
    dge_mode: Any = 0,
    engine: Any = 0,
    name: Any = None,
) -> None:
    """dst = src by DMA."""
    move.dma_copy(dst, src, oob_mode=oob_mode)


def dma_transpose(
    dst: Any,
    src: Any,
    axes: Any = None,
    priority: Any = None,
    dge_mode: Any = 0,
    oob_mode: Any = 0,
    name: Any = None,
) -> None:
    """A transposing DMA."""
    move.dma_transpose(dst, src, axes)


def tensor_copy(dst: Any, src: Any, engine: Any = 0, name: Any = None) -> None:
    """dst = src, cast."""
    move.tensor_copy(dst, src, engine)


def tensor_copy_predicated(
    dst: Any, src: Any, predicate: Any, reverse_pred: bool = False, name: Any = None
) -> None:
    """dst = src where predicate."""
    move.tensor_copy_predicated(dst, src, predicate, reverse_pred)


def memset(dst: Any, value: Any, engine: Any = 0, name: Any = None) -> None:
    """dst = value."""
    move.memset(dst, value, engine)


def nc_transpose(dst: Any, data: Any, engine: Any = 0, name: Any = None) -> None:
    """[P, F] to [F, P]."""
    move.nc_transpose(dst, data, engine)


def nc_stream_shuffle(dst: Any, src: Any, shuffle_mask: Any, name: Any = None) -> None:
    """Partitions reordered in each quadrant."""
    move.nc_stream_shuffle(dst, src, shuffle_mask)


def nc_n_gather(dst: Any, data: Any, indices: Any, name: Any = None) -> None:
    """Elements of each partition by index."""
    patterns.gather_free(dst, data, indices)


def nc_matmul(
    dst: Any,
    stationary: Any,
    moving: Any,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: Any = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    perf_mode: Any = None,
    name: Any = None,
) -> None:
    """dst = or += stationary.T @ moving."""
    products.nc_matmul(
        dst, stationary, moving, is_transpose, accumulate, None, perf_mode, tile_position, tile_size,
        (is_stationary_onezero, is_moving_onezero),
    )  # fmt: skip


def activation(
    dst: Any,
    op: Any,
    data: Any,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    name: Any = None,
) -> None:
    """dst = op(data * scale + bias)."""
    compute.activation(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd)


def activation_reduce(
    dst: Any,
    op: Any,
    data: Any,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    name: Any = None,
) -> None:
    """activation with a sum over the free dimensions."""
    compute.activation(dst, op, data, bias, scale, reduce_op, reduce_res, 3)


def tensor_tensor(dst: Any, data1: Any, data2: Any, op: Any, engine: Any = 0, name: Any = None) -> None:
    """dst = data1 op data2."""
    compute.tensor_tensor(dst, data1, data2, op, engine)


def tensor_scalar(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: Any = 0,
    name: Any = None,
) -> None:
    """dst = (data op0 operand0) op1 operand1."""
    compute.tensor_scalar(dst, data, op0, operand0, reverse0, op1, operand1, reverse1, engine)


def scalar_tensor_tensor(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: Any = None,
) -> None:
    """dst = (data op0 operand0) op1 tile."""
    compute.scalar_tensor_tensor(dst, data, op0, operand0, op1, operand1, reverse0, reverse1)


def tensor_tensor_scan(
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: Any = None,
) -> None:
    """r[i] = (data0[i] op0 r[i-1]) op1 data1[i]."""
    compute.tensor_tensor_scan(dst, data0, data1, initial, op0, op1, reverse0, reverse1)


def tensor_reduce(
    dst: Any, op: Any, data: Any, axis: Any, negate: bool = False, keepdims: bool = False, name: Any = None
) -> None:
    """dst = op over free dimensions."""
    compute.tensor_reduce(dst, op, data, axis, negate, keepdims)


def tensor_partition_reduce(dst: Any, op: Any, data: Any, name: Any = None) -> None:
    """dst = op over partitions."""
    patterns.partition_reduce(dst, op, data)


def tensor_scalar_reduce(
    dst: Any,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any = None,
    reverse0: bool = False,
    reduce_cmd: Any = 3,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: Any = None,
) -> None:
    """data op0 operand0, and its reduction."""
    accumulating.tensor_scalar_reduce(
        dst, data, op0, operand0, reduce_op, reduce_res, reverse0, reduce_cmd, reduce_init, reduce_res_negate
    )


def reciprocal(dst: Any, data: Any, name: Any = None) -> None:
    """1 / data."""
    compute.reciprocal(dst, data)


def iota(dst: Any, pattern: Any, offset: int = 0, channel_multiplier: int = 0, name: Any = None) -> None:
    """offset + channel_multiplier * partition + sum of index * step."""
    steps = [int(step) for step, _ in pattern]
    sizes = [int(count) for _, count in pattern]
    target: Tensor = dst if dst.shape[1:] == tuple(sizes) else dst.reshape(dst.shape[0], *sizes)
    patterns.iota(target, int(offset), steps, int(channel_multiplier), target.shape, dst.dtype)


def affine_select(
    dst: Any,
    pattern: Any,
    channel_multiplier: int,
    on_true_tile: Any,
    on_false_value: Any,
    cmp_op: Any = "equal",
    offset: int = 0,
    name: Any = None,
) -> None:
    """on_true_tile where the expression compares with 0."""
    steps = [int(step) for step, _ in pattern]
    sizes = [int(count) for _, count in pattern]
    shape = (dst.shape[0], *sizes)
    if prod(shape) != dst.size:
        raise KernelError(f"affine_select: pattern {pattern} does not fit {dst!r}")
    target = dst if dst.shape == shape else dst.reshape(*shape)
    source = on_true_tile if on_true_tile.shape == shape else on_true_tile.reshape(*shape)
    patterns.affine_select(
        target, source, int(offset), steps, int(channel_multiplier), cmp_op, on_false_value
    )


def bn_stats(dst: Any, data: Any, name: Any = None) -> None:
    """Statistics of each partition."""
    compute.statistics(dst, data)


def bn_aggr(dst: Any, data: Any, name: Any = None) -> None:
    """Mean and variance of statistics."""
    compute.aggregate(dst, data)


def max8(dst: Any, src: Any, name: Any = None) -> None:
    """The eight largest of each partition."""
    compute.max8(dst, src)


def nc_find_index8(dst: Any, data: Any, vals: Any, name: Any = None) -> None:
    """First positions of eight values."""
    compute.find_index8(dst, data, vals)


def nc_match_replace8(
    dst: Any, data: Any, vals: Any, imm: Any, dst_idx: Any = None, name: Any = None
) -> None:
    """The first of each of eight values replaced."""
    compute.match_replace8(dst, data, vals, imm, dst_idx)


def select_reduce(
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = 0,
    reduce_op: Any = "max",
    reverse_pred: bool = False,
    name: Any = None,
) -> None:
    """where(predicate, on_true, on_false), and its maximum."""
    accumulating.select_reduce(
        dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred
    )


def range_select(
    dst: Any,
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
    name: Any = None,
) -> None:
    """on_true_tile where its columns lie between bounds, and its maximum."""
    accumulating.range_select(
        dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op,
        range_start, on_false_value,
    )  # fmt: skip


def tensor_scalar_cumulative(
    dst: Any,
    src: Any,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: Any = 3,
    name: Any = None,
) -> None:
    """Running results of src op0 imm0 under op1."""
    accumulating.tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1, reduce_cmd)


def local_gather(
    dst: Any,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: Any = None,
    name: Any = None,
) -> None:
    """Elements by indices that groups of 16 partitions share."""
    accumulating.local_gather(dst, src_buffer, index, num_elem_per_idx, num_valid_indices)


def sequence_bounds(dst: Any, segment_ids: Any, name: Any = None) -> None:
    """First and end of each element's segment."""
    accumulating.sequence_bounds(dst, segment_ids)


def core_barrier(data: Any, cores: Any, engine: Any = 0, name: Any = None) -> None:
    """Both cores arrive."""
    exchange.core_barrier(tuple(int(core) for core in cores))


def sendrecv(
    src: Any,
    dst: Any,
    send_to_rank: Any,
    recv_from_rank: Any,
    pipe_id: Any,
    dma_engine: Any = 1,
    name: Any = None,
) -> None:
    """A tile to the other core, and one from it."""
    exchange.sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id)


def dma_compute(
    dst: Any,
    srcs: Any,
    reduce_op: Any = "add",
    scales: Any = None,
    unique_indices: bool = True,
    oob_mode: Any = 0,
    dge_mode: Any = 0,
    name: Any = None,
) -> None:
    """dst = the sum of tensors by DMA."""
    exchange.dma_compute(dst, srcs, reduce_op, scales, oob_mode)


def dropout(dst: Any, data: Any, prob: Any, name: Any = None) -> None:
    """dst = data, with elements set to 0 with a probability."""
    random_numbers.dropout(dst, data, prob)


def rng(dst: Any, engine: Any = 0, name: Any = None) -> None:
    """dst = random bits."""
    random_numbers.bits(dst, engine)


def set_rng_seed(src_seeds: Any, name: Any = None) -> None:
    """The seed of the generators."""
    random_numbers.seed(src_seeds)


def rand_set_state(src_seeds: Any, engine: Any = 0, name: Any = None) -> None:
    """The state of the generators."""
    random_numbers.set_state(src_seeds)


def rand_get_state(dst: Any, engine: Any = 0, name: Any = None) -> None:
    """dst = the state of the generators."""
    if spec_in_use().version < 3:
        raise KernelError("rand_get_state needs NeuronCore-v3 (trn2) or newer")
    random_numbers.get_state(dst)


def nonzero_with_count(
    dst: Any, src: Any, index_offset: int = 0, padding_val: int = -1, name: Any = None
) -> None:
    """Positions of elements that are not 0, and their count."""
    patterns.nonzero_with_count(dst, src, index_offset, padding_val)


def topk(val_dst: Any, idx_dst: Any, src: Any, n: Any, name: Any = None) -> None:
    """The largest of n elements of each 16 partitions, and where they are."""
    patterns.topk(val_dst, idx_dst, src, n)


tensor_copy_dynamic_src = tensor_copy_dynamic_dst = tensor_copy
