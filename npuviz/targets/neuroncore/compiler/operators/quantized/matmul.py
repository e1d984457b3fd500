"""Lower MatMulInteger and QLinearMatMul: PE multiplies 8-bit integers in bfloat16."""

import itertools
from collections.abc import Callable
from math import prod

import numpy as np

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import binary
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import Matrix
from npuviz.targets.neuroncore.compiler.operators.matmul.product import Region, multiply
from npuviz.targets.neuroncore.compiler.operators.quantized.requantize import (
    OPERAND_DTYPE,
    Requantize,
    centred,
    exact_pieces,
    is_exact,
    known_factor,
    largest_sum,
    largest_value,
    number_of,
    require_bytes,
)
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu


def lower_matmul_integer(b: Builder, node: Node) -> None:
    """Lower MatMulInteger: add int32 sums of as many products at a time as fp32 sums exactly."""
    left, right, *zeros = (*node.inputs, -1, -1)
    require_bytes(b, left, right)
    first, second = (left, zeros[0]), (right, zeros[1])
    operands = _operands(b, first, second)
    axis = max(-2, -len(b.graph.tensors[right].shape))
    depth = b.graph.tensors[left].shape[-1]
    pieces = [(0, depth)]
    if not is_exact(largest_sum(b, first, second, (axis,), -1)):
        pieces = exact_pieces(largest_value(b, *first) * largest_value(b, *second), depth)
    out = b.hbm[node.outputs[0]]
    for begin, end in pieces:
        part = (operands[0][..., begin:end], operands[1][..., begin:end, :])
        _products(b, part, out, None, is_added=begin > 0)


def lower_qlinear_matmul(b: Builder, node: Node) -> None:
    """Lower QLinearMatMul: scale, round and saturate the sums to 8 bits."""
    left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = node.inputs
    require_bytes(b, left, right, node.outputs[0])
    operands = _operands(b, (left, left_zero), (right, right_zero))
    out = b.hbm[node.outputs[0]]
    factor = known_factor(b, (left_scale, right_scale), scale)
    requantize = Requantize(
        b,
        node.outputs[0],
        (
            b.hbm[left_scale].reshape(*_left_shape(b, left_scale)).broadcast_to(out.shape),
            b.hbm[right_scale].reshape(*_right_shape(b, right_scale)).broadcast_to(out.shape),
        ),
        b.hbm[scale].reshape(*_left_shape(b, scale)).broadcast_to(out.shape),
        b.hbm[zero].reshape(*_left_shape(b, zero)).broadcast_to(out.shape),
        float(factor[0]) if factor is not None and factor.size == 1 else None,
        number_of(b, zero),
    )
    _products(b, operands, out, requantize)


def _left_shape(b: Builder, tensor: int) -> tuple[int, ...]:
    """Return the shape of a scale or zero point by row: [M] becomes [M, 1]."""
    shape = b.graph.tensors[tensor].shape
    return (*shape, 1) if len(shape) == 1 else shape or (1,)


def _right_shape(b: Builder, tensor: int) -> tuple[int, ...]:
    """Return the shape of a scale or zero point by column: [N] stays."""
    return b.graph.tensors[tensor].shape or (1,)


def _operands(b: Builder, left: tuple[int, int], right: tuple[int, int]) -> tuple[HbmView, HbmView]:
    left_shape = _left_shape(b, left[1]) if left[1] >= 0 else ()
    right_shape = _right_shape(b, right[1]) if right[1] >= 0 else ()
    first, second = centred(b, *left, left_shape), centred(b, *right, right_shape)
    if len(first.shape) == 1:
        first = first.reshape(1, *first.shape)
    if len(second.shape) == 1:
        second = second.reshape(*second.shape, 1)
    return first, second


def _products(
    b: Builder,
    operands: tuple[HbmView, HbmView],
    out: HbmView,
    requantize: Requantize | None,
    is_added: bool = False,
) -> None:
    """Emit the products, requantised or not; is_added  add them to the contents of `out`."""
    left, right = operands
    if requantize is None and prod(right.shape[:-2]) == 1:
        # One product of all rows, instead of many small products for the matrices of a batch.
        left = left.reshape(1, -1, left.shape[-1])
        right = right.reshape(1, *right.shape[-2:])
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, columns = left.shape[-2], right.shape[-1]
    left = left.broadcast_to((*batch, *left.shape[-2:]))
    right = right.broadcast_to((*batch, *right.shape[-2:]))
    target = out.reshape(*batch, rows, columns)
    for where in itertools.product(*(range(size) for size in batch)):
        finish = None
        if requantize is not None:
            finish = _finish(requantize, lambda view, at=where: view.reshape(*batch, rows, columns)[at])
        elif is_added:
            finish = _add_to(b, target[where])
        multiply(
            b, Matrix(left[where], False), Matrix(right[where], True), target[where], finish, OPERAND_DTYPE
        )


def _finish(
    requantize: Requantize, matrix: Callable[[HbmView], HbmView]
) -> Callable[[View, View, Region], None]:
    def finish(target: View, source: View, region: Region) -> None:
        requantize.apply(target, source, lambda view: region.of(matrix(view)))

    return finish


def _add_to(b: Builder, out: HbmView) -> Callable[[View, View, Region], None]:
    """Return a function that adds sums to an int32 matrix, as integers."""

    def finish(target: View, source: View, region: Region) -> None:
        with b.tiles.scope():
            sums = b.tiles.sbuf(source.partitions, source.shape, out.dtype)
            b.isa.copy(sums, source)
            before = b.dma.fetch(region.of(out), out.dtype)
            binary(b, target, before, sums, Alu.ADD, integer=True)

    return finish


LOWERINGS = {"MatMulInteger": lower_matmul_integer, "QLinearMatMul": lower_qlinear_matmul}
