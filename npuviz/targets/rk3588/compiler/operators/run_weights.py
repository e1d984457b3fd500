"""Lower products of two run-time tensors: the NPU itself lays out the second one as weights.

Weights of a product lie in groups of 16 kernels and blocks of 32 channels, kernel by kernel in atoms of 8
channels. A matrix lies in rows of channels, so that these are copies: of whole atoms where its channels are
those of the product, of turned squares of lanes where they are the kernels. For small tensors one product
with ones and zeros makes weights in any order, those of convolutions, too.
"""

import math
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np

from npuviz.base.errors import DoesNotFit, FormatError
from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.exchange import Copy, copy_of_axes, emit_copy
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators.activation import emit_activation
from npuviz.targets.rk3588.compiler.operators.alike import alike
from npuviz.targets.rk3588.compiler.operators.conv import CONV_ENABLES, Operands, conv_words, pack_dense
from npuviz.targets.rk3588.compiler.operators.dense import is_dense_faster, place, product_cycles
from npuviz.targets.rk3588.compiler.operators.rows import relaid, rows_of
from npuviz.targets.rk3588.compiler.steps import HALF, Steps
from npuviz.targets.rk3588.compiler.strides import Axis
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape, tiles
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES

_GROUP = packing(HALF)
_KERNELS, _LANES = _GROUP.kernels, _GROUP.channels
_ITEM = 2
_BLOCK = 32
"""Channels of a block of weights. Ref: MTX."""


def lower_run_product(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower MatMul and Gemm with a run-time second operand."""
    node = layer.head
    if layer.is_quantised:
        raise CannotLower("a product of two tensors in int8", change="fp16 around it")
    attributes = attributes_of(node)
    is_gemm = node.op_type == "Gemm"
    turns = tuple(is_gemm and attributes.flag(name) for name in ("transA", "transB"))
    shapes = _as_matrices(*(b.graph.tensors[tensor].shape for tensor in node.inputs[:2]))
    one = operand_cube(b, layer, planner, node.inputs[0])
    first = rows_of(b, layer, one, shapes[0], [0 if turns[0] else len(shapes[0]) - 1])
    target = cube_of(b, layer, layer.output)
    count, size = _size(shapes[0], shapes[1], turns)
    batches = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    total = math.prod(batches)
    is_last = not is_gemm or (attributes.real("alpha") == 1 and len(node.inputs) < 3)
    is_placed = target.shape == (total * count, size) and is_last and layer.activation is None
    made = target
    if not is_placed:
        made = b.scratch(f"{node.name or node.op_type} product", (total * count, size), HALF)
    packed = _second(b, layer, planner, shapes[1], (math.prod(shapes[1][:-2]), first.shape[1], size))
    b.begin_layer()
    matrix = aligned(size, _KERNELS) * aligned(first.shape[1], _LANES) * _ITEM
    for number, at in enumerate(product(*(range(each) for each in batches))):
        taken, held = (_batch(shape[:-2], at) for shape in shapes)
        weights = replace(packed, address=packed.address + held * matrix)
        _multiply(b, layer, (first, made), weights, (taken * count, number * count, count))
    b.begin_layer()
    if is_placed:
        return
    _finish(b, layer, planner, made, target, is_gemm)


def operand_cube(b: Builder, layer: Layer, planner: Planner, tensor: int) -> Buffer:
    """Return an operand as a cube; a constant is laid out as one."""
    found = next((stored for stored in layer.inputs if stored.tensor == tensor), None)
    if found is not None:
        return cube_of(b, layer, found)
    shape = b.graph.tensors[tensor].shape
    like = Buffer("", 0, 0, "feature", shape=(math.prod(shape[:-1]), shape[-1]), dtype=HALF)
    return alike(b, layer, planner, tensor, like, shape)


def _as_matrices(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of both operands with a vector as the matrix of one row, or of one column."""
    return ((1, *one) if len(one) == 1 else one), ((*two, 1) if len(two) == 1 else two)


def _size(one: tuple[int, ...], two: tuple[int, ...], turns: tuple[bool, ...]) -> tuple[int, int]:
    """Return the rows and columns of one product."""
    return one[-1] if turns[0] else one[-2], two[-2] if turns[1] else two[-1]


def _batch(shape: tuple[int, ...], at: tuple[int, ...]) -> int:
    """Return which matrix of an operand belongs to a place of the result's batches."""
    own = at[len(at) - len(shape) :]
    found = 0
    for size, index in zip(shape, own, strict=True):
        found = found * size + (index if size > 1 else 0)
    return found


def numbers_of(b: Builder, layer: Layer, tensor: int) -> np.ndarray:
    """Return the numbers of a tensor's elements from 1 on, in its shape, which stand for run-time weights.

    Raises CannotLower for int8.
    """
    if layer.is_quantised:
        raise CannotLower("weights in int8 that are no constants", change="constant weights")
    shape = b.graph.tensors[tensor].shape
    return np.arange(1, math.prod(shape) + 1, dtype=np.int64).reshape(shape)


def operands_at_run(
    b: Builder, layer: Layer, planner: Planner, numbers: np.ndarray, tensors: tuple[int, int]
) -> Operands:
    """Return run-time weights and bias of a convolution. tensors  of both, -1 where there is no bias"""
    weights, bias = tensors
    kernels = numbers.shape[0]
    like = Buffer("", 0, 0, "feature", shape=(1, kernels), dtype=HALF)
    source = operand_cube(b, layer, planner, weights)

    def laid_out(packed: np.ndarray) -> Buffer:
        name = f"{layer.head.name or layer.head.op_type} weights"
        target = b.scratch(name, (1, packed.size), HALF)
        place(b, layer, source, target, packed.astype(np.int64) - 1)
        b.begin_layer()
        return target

    summands = None
    if bias >= 0:
        summands = Steps(b, layer).wide(alike(b, layer, planner, bias, like, (kernels,)))
    return Operands(numbers, np.zeros(kernels, np.float32), held=laid_out, bias_held=summands)


# --- weights ----------------------------------------------------------------------------------------------


def _second(
    b: Builder, layer: Layer, planner: Planner, shape: tuple[int, ...], which: tuple[int, int, int]
) -> Buffer:
    """Return the weights of a product's second operand. which  how many, channels and kernels of each"""
    node, (count, channels, kernels) = layer.head, which
    is_turned = node.op_type == "Gemm" and attributes_of(node).flag("transB")
    if not planner.is_constant(node.inputs[1]):
        rows = rows_of(b, layer, operand_cube(b, layer, planner, node.inputs[1]), shape, [len(shape) - 1])
        return _packed(b, layer, rows, which, is_turned)
    values = planner.quantised.constant(node.inputs[1]).reshape(count, *shape[-2:])
    if not np.abs(values).max(initial=0) <= np.finfo(np.float16).max:
        raise CannotLower("a constant that fp16 cannot hold")
    filled = np.zeros((count, aligned(kernels, _KERNELS), aligned(channels, _LANES)), np.float16)
    filled[:, :kernels, :channels] = values if is_turned else values.transpose(0, 2, 1)
    parts = [pack_dense(matrix[:, :, None, None], _KERNELS) for matrix in filled]
    return b.constant(f"{node.name or node.op_type} weights", np.concatenate(parts))


def _packed(b: Builder, layer: Layer, rows: Buffer, which: tuple[int, int, int], is_turned: bool) -> Buffer:
    """Return the weights of all matrices. which  how many, channels and kernels of each; is_turned  rows are
    kernels"""
    count, channels, kernels = which
    filled = aligned(kernels, _KERNELS), aligned(channels, _LANES)
    name = f"{layer.head.name or layer.head.op_type} weights"
    held = b.scratch(name, (1, count * filled[0] * filled[1]), HALF)
    copies: list[Copy] | None = None
    with suppress(CannotLower, ValueError, DoesNotFit, FormatError):
        copies = _copies(b, rows, held, which, is_turned)
    is_small = is_dense_faster(b, [rows], [held])
    if copies is not None and not (
        is_small and product_cycles(b, rows, held) < sum(copy.cycles(b) for copy in copies)
    ):
        for copy in copies:
            emit_copy(b, layer.head.id, copy)
        return held
    shape = (kernels, channels) if is_turned else (channels, kernels)
    numbers = np.arange(1, 1 + count * math.prod(shape)).reshape(count, *shape)
    parts = []
    for matrix in numbers:
        dense = np.zeros(filled, np.int64)
        dense[:kernels, :channels] = matrix if is_turned else matrix.T
        parts.append(pack_dense(dense[:, :, None, None], _KERNELS))
    place(b, layer, rows, held, np.concatenate(parts) - 1)
    return held


def _copies(
    b: Builder, rows: Buffer, held: Buffer, which: tuple[int, int, int], is_turned: bool
) -> list[Copy]:
    """Return copies of the whole blocks of 32 channels, and of the narrower one after them, for all
    matrices."""
    count, channels, kernels = which
    total = rows.shape[0]
    atoms = aligned(channels, _LANES) // _LANES
    group, block = _KERNELS * atoms, _KERNELS * _BLOCK // _LANES
    whole = channels // _BLOCK * _BLOCK, kernels // _KERNELS * _KERNELS
    each = Axis(count, kernels if is_turned else channels), Axis(count, aligned(kernels, _KERNELS) * atoms)
    found: list[Copy] = []
    # A group of kernels that is not full takes the room of a full one: the rest stays 0.
    for (low, high), (first, last) in product(
        ((0, whole[0]), (whole[0], channels)), ((0, whole[1]), (whole[1], kernels))
    ):
        if high <= low or last <= first:
            continue
        wide, size = min(_BLOCK, high - low), min(_KERNELS, last - first)
        kernel = Axis((last - first) // size, group), Axis(size, aligned(wide, _LANES) // _LANES)
        channel = Axis((high - low) // wide, block), Axis(wide, 1, has_lanes=True)
        if is_turned:
            taken = [Axis(last - first, 1), Axis(high - low, total, has_lanes=True)]
            offset = first + low // _LANES * total
        else:
            taken = [Axis(last - first, total, has_lanes=True), Axis(high - low, 1)]
            offset = low + first // _LANES * total
        source = replace(rows, address=rows.address + offset * ATOM_BYTES)
        at = first // _KERNELS * group + low // _BLOCK * block
        target = replace(held, address=held.address + at * ATOM_BYTES)
        given = [each[1], *kernel, *channel]
        found.append(copy_of_axes(b.spec, (source, target), [each[0], *taken], given))
    return found


def _multiply(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], weights: Buffer, which: tuple[int, int, int]
) -> None:
    """Emit one product of some rows. which  first row of the operand and of the result, and how many"""
    (source, target), (taken, given, count) = ends, which
    channels, kernels = source.shape[1], target.shape[1]
    one = WindowAxis(1, 1)
    base = ConvTask(
        in_dtype=HALF, out_dtype=HALF, width=1, height=count, channels=aligned(channels, _LANES),
        kernels=aligned(kernels, _KERNELS), kernel_height=1, kernel_width=1, out_width=1, out_height=count,
        stride_y=1, stride_x=1, dilation_y=0, dilation_x=0, pad_top=0, pad_left=0, pad_value=0,
        depthwise=False, layer_height=source.shape[0], surface_stride=target.shape[0],
        real_channels=channels, quantised=True,
        feature_address=source.address + taken * ATOM_BYTES, weight_address=weights.address,
        output_address=target.address + given * ATOM_BYTES,
    )  # fmt: skip
    for tile in tiles(b.spec, base, Shape(WindowAxis(count, count), one)):
        b.task(layer.head.id, tile.core, conv_words(tile.task, Stages()), CONV_ENABLES)


def _finish(b: Builder, layer: Layer, planner: Planner, made: Buffer, target: Buffer, is_gemm: bool) -> None:
    """Apply factors and the third operand of a Gemm, the activation, and the layout of the result."""
    node, steps = layer.head, Steps(b, layer)
    shape = b.graph.tensors[node.outputs[0]].shape
    attributes = attributes_of(node)
    if is_gemm and attributes.real("alpha") != 1:
        made = _times(steps, made, attributes.real("alpha"))
    if is_gemm and len(node.inputs) > 2 and node.inputs[2] >= 0:
        third = alike(b, layer, planner, node.inputs[2], made, shape)
        if attributes.real("beta") != 1:
            third = _times(steps, third, attributes.real("beta"))
        made = steps.pair(made, ALU_ADD, third, dtype=HALF)
    if layer.activation is not None:
        place_of = steps.cube(made, HALF)
        emit_activation(b, layer, made, place_of)
        b.begin_layer()
        made = place_of
    if made.shape == target.shape:
        steps.narrow(made, target)
    else:
        relaid(b, layer, made, target)


def _times(steps: Steps, cube: Buffer, factor: float) -> Buffer:
    if factor <= 0:
        raise CannotLower(f"a factor of {factor:g}", f"{factor:g}", "a factor above 0")
    return steps.scaled(cube, factor, steps.cube(cube, HALF))
