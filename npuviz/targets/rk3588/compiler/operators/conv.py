"""Emit the convolution tasks of Conv, Gemm and MatMul: weights packed, tiles cut to CBUF and to the cores."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import frexp, log2

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.conv_words import conv_task_words
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import aligned, pack_depthwise, packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import (
    SCALE_BITS,
    Operand,
    Stages,
    rdma_word,
    requantisation,
    with_zeros,
)
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, with_table
from npuviz.targets.rk3588.compiler.layers import Activation, Layer, Planner
from npuviz.targets.rk3588.compiler.lookup_table import INPUT_FACTOR, ActivationTable
from npuviz.targets.rk3588.compiler.operators.activation import (
    held_limit,
    limit_of,
    slope_of,
    table_of_halves,
    table_of_sums,
)
from npuviz.targets.rk3588.compiler.tiles.folding import Fold, folds, plain_fold
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape, image_bytes
from npuviz.targets.rk3588.task.work import FP16, INT8

CONV_ENABLES = 0x0D
CONV_RDMA_ENABLES = 0x1D
FINEST_SHARE = 2048
"""How many times smaller than the largest factor of a kernel another one may be: each is a number of 15 bits.
Weights with smaller ones are rounded to this."""


@dataclass(frozen=True)
class Operands:
    """Weights (K, C, R, S) and bias (K,) in the numbers that the NPU computes with.

    factors    (K,) by which sums are multiplied at the end (None: fp16); offset  added then
    out_scale  real value of a step of the result
    held       makes the buffer of run-time weights from the numbers of their elements in memory's order;
               `weights` then has these numbers, from 1 on, and 0 where there is no element
    bias_held  the bias as fp32 in memory, instead of `bias`
    """

    weights: np.ndarray
    bias: np.ndarray
    factors: np.ndarray | None = None
    offset: int = 0
    pad_value: int = 0
    out_scale: float = 1.0
    held: Callable[[np.ndarray], Buffer] | None = None
    bias_held: Buffer | None = None


# --- operands ------------------------------------------------------------------------------------------


def weights_of(b: Builder, planner: Planner, tensor: int) -> tuple[np.ndarray, np.ndarray]:
    """Return stored integers with their scales, or floats with a scale of 1. Raises CannotLower."""
    stored = planner.quantised.constants.get(tensor)
    if stored is not None:
        return stored.values, stored.scales
    if tensor not in b.graph.constants:
        raise CannotLower("weights that only a run tells", change="constant weights")
    return np.asarray(b.graph.constants[tensor]), np.ones(1)


def bias_of(b: Builder, planner: Planner, tensor: int, kernels: int) -> np.ndarray:
    """Return the bias in real numbers: (K,) float64. Raises CannotLower."""
    if tensor < 0:
        return np.zeros(kernels)
    if not planner.is_constant(tensor):
        raise CannotLower("a bias that only a run tells", change="a constant bias")
    values = planner.quantised.constant(tensor).reshape(-1)
    if values.size not in (1, kernels):
        raise CannotLower("a bias that is not one value a kernel")
    return np.broadcast_to(values, (kernels,))


def operands_of(layer: Layer, weights: np.ndarray, scales: np.ndarray, bias: np.ndarray) -> Operands:
    """Return the numbers of a layer: int8 with folded zero point, or fp16. Raises CannotLower."""
    quantisation, source = layer.sums, layer.inputs[0].quantisation
    if quantisation is None or source is None:
        real = weights.astype(np.float64) * scales.reshape(-1, *[1] * (weights.ndim - 1))
        return Operands(real.astype(np.float16), bias.astype(np.float32))
    if weights.dtype != np.int8:
        raise CannotLower("weights that are not stored as int8", str(weights.dtype), "weights of type int8")
    kernels = weights.shape[0]
    if scales.size not in (1, kernels):
        raise CannotLower("weight scales that are not one a kernel")
    own = np.broadcast_to(scales, (kernels,)) * source.scale / quantisation.scale
    factors = np.maximum(own, own.max() / FINEST_SHARE)
    weights = np.rint(weights * (own / factors).reshape(-1, *[1] * (weights.ndim - 1))).astype(np.int8)
    unit = _unit(factors, looks_up=layer.sums is not layer.output.quantisation)
    # A bias may be far larger than the products of a kernel with a small factor, which its few bits change.
    used = factors if unit is None else np.rint(factors / unit) * unit
    whole = np.rint(bias / (used * quantisation.scale))
    # sum(w * (x - z)) = sum(w * x) - z * sum(w); padding then holds z.
    sums = weights.reshape(kernels, -1).astype(np.int64).sum(axis=1)
    folded = np.clip(whole - source.zero_point * sums, -(1 << 31), (1 << 31) - 1)
    return Operands(
        weights, folded.astype(np.int32), factors, quantisation.zero_point,
        source.zero_point, quantisation.scale,
    )  # fmt: skip


def _unit(factors: np.ndarray, *, looks_up: bool) -> float | None:
    """Return what 1 in the share of a kernel stands for; None where all kernels have one factor for OUT_CVT.

    looks_up  whether sums go into a table: one step of int8 is INPUT_FACTOR units there
    """
    largest = float(factors.max())
    if looks_up:
        return 2.0 ** (frexp(largest * INPUT_FACTOR)[1] - SCALE_BITS) / INPUT_FACTOR
    return largest / (1 << SCALE_BITS) if np.ptp(factors) > 0 else None


# --- tasks ---------------------------------------------------------------------------------------------


def pack_dense(weights: np.ndarray, group: int) -> np.ndarray:
    """Return weights (K, C, R, S) in the order [K/G][C/32][R][S][G][32]; the last block may be narrower."""
    parts: list[np.ndarray] = []
    for first in range(0, weights.shape[0], group):
        kernels = weights[first : first + group]
        for low in range(0, weights.shape[1], 32):
            parts.append(kernels[:, low : low + 32].transpose(2, 3, 0, 1).reshape(-1))
    return np.concatenate(parts)


def emit_convolution(b: Builder, layer: Layer, shape: Shape, operands: Operands) -> None:
    """Emit all tasks of the layer: images of the batch, cores, tiles."""
    ends = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    convolve_into(b, layer, shape, operands, ends, fuses=True)


def convolve_into(
    b: Builder,
    layer: Layer,
    shape: Shape,
    operands: Operands,
    ends: tuple[Buffer, Buffer],
    *,
    fuses: bool = False,
    second: tuple[Buffer, int] | None = None,
    stages: Stages | None = None,
) -> None:
    """Emit tasks from one cube to another, which may be of fp32.

    fuses   whether the layer's activation follows the sums
    second  a cube as large as the target and the ALU code (or MULTIPLY) by which EW joins it to the sums
    stages  what follows the bias, without an activation
    """
    source, target = ends
    dtype = source.dtype
    activation = layer.activation if fuses else None
    name = layer.head.name or layer.head.op_type
    table = None
    slope = slope_of(activation) if operands.factors is None else 0
    if activation is not None and not slope and limit_of(b.graph.constants, activation) is None:
        taken, out = activation.taken, layer.output.quantisation
        table = table_of_halves(activation) if not (taken and out) else table_of_sums(activation, taken, out)
    images = cube_shape(source.shape)[0]
    whole = _base_task(ends, shape, operands)
    is_plain = second is not None or stages is not None or not (operands.held is operands.bias_held is None)
    parts = [plain_fold(shape)] if is_plain else folds(b.spec, whole, shape)
    made: list[tuple[Fold, int, Stages]] = []
    for part in parts:
        own = _of_fold(operands, part, packing(dtype).channels)
        packed = _packed(part.shape, own, dtype)
        weights = b.constant(f"{name} weights", packed) if own.held is None else own.held(packed)
        found = stages_of(b, name, activation, own, table)
        if stages is not None:
            found = replace(stages, bias_address=found.bias_address)
        made.append((part, weights.address, found))
    for image in range(images):
        base = replace(
            whole,
            feature_address=source.address + image * image_bytes(source.shape, dtype),
            output_address=target.address + image * image_bytes(target.shape, target.dtype),
        )
        if image and base.out_channels > aligned(base.kernels, packing(target.dtype).channels):
            # The channels that fill up one image lie where the next image begins.
            b.begin_layer()
        for part, address, found in made:
            for tile in part.tiles(b.spec, replace(base, weight_address=address)):
                own_stages = _from_kernel(found, tile.kernel)
                if second is not None:
                    plane = shape.rows.out * shape.columns.out
                    own_stages = _joining(own_stages, second, (target, tile.task.output_address), plane)
                words = conv_words(tile.task, own_stages)
                if table is not None:
                    fills = b.needs_table(tile.core, table)
                    words = with_table(words, table, fills, to_half=dtype == "float16")
                b.task(layer.head.id, tile.core, words, enables_of(own_stages))


def _base_task(ends: tuple[Buffer, Buffer], shape: Shape, operands: Operands) -> ConvTask:
    """Return the task of a whole convolution, without addresses."""
    (source, target), (rows, columns) = ends, (shape.rows, shape.columns)
    dtype = source.dtype
    channels = operands.weights.shape[0 if shape.is_depthwise else 1]
    filling = operands.pad_value if any(shape.pads) else 0
    return ConvTask(
        in_dtype=dtype, out_dtype=target.dtype, width=columns.size, height=rows.size,
        channels=aligned(channels, packing(dtype).channels),
        kernels=operands.weights.shape[0], kernel_height=rows.kernel, kernel_width=columns.kernel,
        out_width=columns.out, out_height=rows.out, stride_y=rows.stride, stride_x=columns.stride,
        dilation_y=rows.dilation - 1, dilation_x=columns.dilation - 1,
        pad_top=rows.before, pad_left=columns.before, pad_value=filling & 0xFFFFFFFF,
        depthwise=shape.is_depthwise, layer_height=rows.size,
        surface_stride=rows.out * columns.out, real_channels=channels,
        quantised=dtype != "int8",
    )  # fmt: skip


def _of_fold(operands: Operands, part: Fold, group: int) -> Operands:
    """Return the numbers of a part of a convolution. group  channels of an atom"""
    factors = operands.factors
    return replace(
        operands,
        weights=part.change(operands.weights),
        bias=part.numbers(operands.bias, group),
        factors=None if factors is None else part.numbers(factors, group),
    )


def _packed(shape: Shape, operands: Operands, dtype: str) -> np.ndarray:
    """Return the weights as memory holds them, with channels filled up to whole atoms."""
    weights = operands.weights
    if shape.is_depthwise:
        return pack_depthwise(np.ascontiguousarray(weights[:, 0]))
    group = packing(dtype)
    full = np.zeros((len(weights), aligned(weights.shape[1], group.channels), *shape.kernel), weights.dtype)
    full[:, : weights.shape[1]] = weights
    return pack_dense(full, group.kernels)


def enables_of(stages: Stages) -> int:
    """Return the blocks of a convolution task, with the readers if its stages need them."""
    return CONV_RDMA_ENABLES if stages.reads_memory else CONV_ENABLES


def stages_of(
    b: Builder,
    name: str,
    activation: Activation | None,
    operands: Operands,
    table: ActivationTable | None = None,
) -> Stages:
    """Return the stages of the DPU after the sums, without the table."""
    bias = None if operands.bias_held is None else operands.bias_held.address
    if bias is None and np.any(operands.bias):
        bias = b.constant(f"{name} bias", filled_up(operands.bias), "bias").address
    limit = limit_of(b.graph.constants, activation)
    relu = limit is not None
    if operands.factors is None and slope_of(activation):
        return Stages(bias_address=bias, main_factor=slope_of(activation), negative_only="BS")
    if operands.factors is None:
        return Stages(bias_address=bias, relu=relu, limit=held_limit(limit) if limit is not None else 0)
    largest = float(operands.factors.max())
    unit = _unit(operands.factors, looks_up=table is not None)
    scales = None
    if unit is not None:
        shares = np.rint(operands.factors / unit).astype(np.int16)
        scales = b.constant(f"{name} scales", filled_up(shares), "bias").address
    if table is not None and unit is not None:
        shift = round(-log2(unit * INPUT_FACTOR))
        return Stages(bias_address=bias, scale_address=scales, scale_shift=shift)
    held = held_limit(limit, largest * operands.out_scale) if limit is not None else 0
    end = requantisation(largest, operands.offset)
    stages = Stages(bias_address=bias, relu=relu, limit=held, out=end)
    if scales is not None:
        stages = replace(stages, scale_address=scales, scale_shift=SCALE_BITS)
    return stages


def _from_kernel(stages: Stages, low: int) -> Stages:
    """Return the stages of the kernels from `low` on: with their part of bias and scales."""
    bias, scales, operand = stages.bias_address, stages.scale_address, stages.operand
    if operand is not None and operand.constant is None and not operand.stride:
        operand = replace(operand, address=operand.address + operand.item * low)
    return replace(
        stages,
        operand=operand,
        bias_address=None if bias is None else bias + 4 * low,
        scale_address=None if scales is None else scales + 2 * low,
    )


def _joining(stages: Stages, second: tuple[Buffer, int], written: tuple[Buffer, int], plane: int) -> Stages:
    """Return the stages with a second operand of EW laid out as the target. written  target, address in it"""
    (cube, alu), (target, address) = second, written
    place = cube.address + address - target.address
    return replace(stages, operand=Operand(place, alu, plane, numpy_dtype(cube.dtype).itemsize))


def conv_words(task: ConvTask, stages: Stages) -> list[Word]:
    """Return the words of a convolution task with its stages; words of readers come last."""
    stream = conv_task_words(task)
    words = list(stream.words)
    places = {(word.target, word.offset): index for index, word in enumerate(words)}
    extra: list[Word] = []
    changed = stages.words(to_half=task.out_dtype == "float16")
    if task.depthwise:
        # The weights of the last group are filled up, the features are not.
        size = task.kernel_bytes // task.channels * task.out_channels
        changed.append(registers().encode("CNA", "WEIGHT_SIZE0", weight_bytes=size))
        changed.append(registers().encode("CNA", "WEIGHT_SIZE1", kernel_bytes=size))
    if stages.reads_memory:
        changed += stages.reader_words()
        sizes = {
            "DATA_CUBE_WIDTH": {"width": task.out_width - 1},
            "DATA_CUBE_HEIGHT": {"height": task.out_height - 1},
            "DATA_CUBE_CHANNEL": {"channels": task.out_channels - 1},
        }
        changed += [rdma_word(name, **fields) for name, fields in sizes.items()]
        precision = INT8 if task.in_dtype == "int8" else FP16
        mode = {"in_precision": precision, "proc_precision": precision, "burst": 15, "main_disable": 1}
        changed.append(rdma_word("FEATURE_MODE_CFG", mode=3 * task.depthwise, **mode))
    for word in changed:
        place = places.get((word.target, word.offset))
        if place is None:
            extra.append(word)
        else:
            words[place] = word
    return with_zeros(words + extra, "DPU_RDMA") if stages.reads_memory else words + extra
