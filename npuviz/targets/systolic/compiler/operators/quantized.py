"""Quantised operators: integer products in int32 accumulators, requantised by the vector unit.

Assumed: the array subtracts zero points from its operands at no cost, as integer accelerators do.
"""

from dataclasses import replace

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators.conv import conv_problem
from npuviz.targets.systolic.compiler.operators.conv_writer import ChannelVector, write_convolution
from npuviz.targets.systolic.compiler.operators.elementwise import lower_steps
from npuviz.targets.systolic.compiler.operators.formulas import Step
from npuviz.targets.systolic.compiler.operators.gemm import batched_problem, solve_matrix
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.values.storage import FLOATS

_BYTES = ("int8", "uint8")


def _number(lowering: Lowering, node: Node, position: int, default: float) -> float:
    """Return a constant with one element, or the default where the input is absent."""
    index = lowering.input(node, position)
    if index < 0:
        return default
    values = lowering.constant(index)
    if values is None:
        raise CannotLower(
            "scales or zero points are computed at run time", change="quantise with constant scales (static)"
        )
    # Quantisers write one for each column of a symmetric weight, too: all of them 0.
    if not values.size or np.any(values != values.reshape(-1)[0]):
        raise CannotLower(
            "a scale or zero point per row or channel", change="one scale and zero point for the tensor"
        )
    return float(values.reshape(-1)[0])


def _zero_points(lowering: Lowering, node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the tensors of zero points known only at run time (-1: none), and the values of the others."""
    tensors, constants = [-1, -1], [0, 0]
    for side, position in enumerate((2, 3)):
        index = lowering.input(node, position)
        if index < 0 or lowering.constant(index) is not None:
            constants[side] = int(_number(lowering, node, position, 0.0))
        elif lowering.tensor(index).num_elements == 1:
            tensors[side] = index
        else:
            raise CannotLower("a zero point per row or channel", change="one zero point for the tensor")
    return (tensors[0], tensors[1]), (constants[0], constants[1])


def _require_bytes(lowering: Lowering, *tensors: int) -> None:
    for index in tensors:
        tensor = lowering.tensor(index)
        if tensor.dtype not in _BYTES or tensor.num_elements == 0:
            raise CannotLower(f"operands of type {tensor.dtype}")


def _scaled(factor: float) -> Step:
    scale = np.float32(factor)
    return Step(tk.OP_MUL, ("scaled", float(scale)), lambda a, _: a.astype(np.float32) * scale)


def _rounded(dtype: str, zero: float) -> Step:
    """Round to nearest even, add the zero point, saturate."""
    limits = np.iinfo(numpy_dtype(dtype))
    low, high = np.float32(limits.min), np.float32(limits.max)

    def apply(values: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(values) + np.float32(zero), low, high)

    return Step(tk.OP_COMP, ("rounded", dtype, zero), apply)


def lower_quantize(lowering: Lowering, node: Node) -> None:
    """Lower QuantizeLinear with one scale."""
    output = lowering.tensor(node.outputs[0])
    lowering.require_floats(node, node.inputs[:1])
    _require_bytes(lowering, node.outputs[0])
    scale, zero = _number(lowering, node, 1, 1.0), _number(lowering, node, 2, 0.0)
    # A quotient, not a product with the inverse: results on a rounding boundary must match.
    factor = np.float32(scale)
    divide = Step(tk.OP_DIV, ("divided", float(factor)), lambda a, _: a / factor)
    lower_steps(lowering, node, (divide, _rounded(output.dtype, zero)))


def lower_dequantize(lowering: Lowering, node: Node) -> None:
    """Lower DequantizeLinear with one scale."""
    source, output = node.inputs[0], node.outputs[0]
    if lowering.tensor(source).dtype not in (*_BYTES, "int32") or lowering.tensor(output).dtype not in FLOATS:
        raise CannotLower(f"operands of type {lowering.tensor(source).dtype}")
    if lowering.tensor(source).num_elements == 0:
        raise CannotLower("an empty tensor")
    scale, zero = _number(lowering, node, 1, 1.0), _number(lowering, node, 2, 0.0)
    shift = Step(tk.OP_ADD, ("shifted by", zero), lambda a, _: a.astype(np.float32) - np.float32(zero))
    lower_steps(lowering, node, (shift, _scaled(scale)))


def lower_matmul_integer(lowering: Lowering, node: Node) -> None:
    """Lower MatMulInteger with one zero point per operand."""
    left, right = node.inputs[:2]
    _require_bytes(lowering, left, right)
    problem = batched_problem(lowering, left, right, node.outputs[0])
    zeros, constants = _zero_points(lowering, node)
    made = replace(problem, dtype="int32", left_zero=constants[0], right_zero=constants[1], zeros=zeros)
    solve_matrix(lowering, node, made)


def lower_qlinear_matmul(lowering: Lowering, node: Node) -> None:
    """Lower QLinearMatMul with one scale and zero point per operand."""
    left, right, output = node.inputs[0], node.inputs[3], node.outputs[0]
    _require_bytes(lowering, left, right, output)
    problem = batched_problem(lowering, left, right, output)
    scales = [_number(lowering, node, position, 1.0) for position in (1, 4, 6)]
    zeros = [_number(lowering, node, position, 0.0) for position in (2, 5, 7)]
    epilogue = (
        _scaled(scales[0] * scales[1] / scales[2]),
        _rounded(lowering.tensor(output).dtype, zeros[2]),
    )
    made = replace(
        problem, dtype="int32", left_zero=int(zeros[0]), right_zero=int(zeros[1]), epilogue=epilogue
    )
    solve_matrix(lowering, node, made)


def lower_conv_integer(lowering: Lowering, node: Node) -> None:
    """Lower ConvInteger with one zero point per operand."""
    source, weights = node.inputs[:2]
    _require_bytes(lowering, source, weights)
    zeros, constants = _zero_points(lowering, node)
    problem = conv_problem(lowering, node, source, weights, zeros=zeros)
    if not problem.shape.is_array:
        raise CannotLower("a depthwise convolution in int32")
    made = replace(problem, dtype="int32", source_zero=constants[0], weight_zero=constants[1])
    write_convolution(lowering, node, made)


def lower_qlinear_conv(lowering: Lowering, node: Node) -> None:
    """Lower QLinearConv; weight scales may differ per output channel."""
    source, weights, output = node.inputs[0], node.inputs[3], node.outputs[0]
    _require_bytes(lowering, source, weights, output)
    problem = conv_problem(lowering, node, source, weights)
    source_scale, output_scale = _number(lowering, node, 1, 1.0), _number(lowering, node, 6, 1.0)
    zeros = [_number(lowering, node, position, 0.0) for position in (2, 7)]
    weight_zero = lowering.constant(node.inputs[5])
    if weight_zero is None or not (weight_zero == weight_zero.reshape(-1)[0]).all():
        raise CannotLower("a weight zero point per channel", change="symmetric weights (zero point 0)")
    vectors: list[ChannelVector] = []
    bias = lowering.input(node, 8)
    if bias >= 0:
        vectors.append(ChannelVector(bias, tk.OP_ADD, "add", np.add))
    factor = source_scale / output_scale
    scales = lowering.constant(node.inputs[4])
    if scales is None:
        raise CannotLower(
            "scales or zero points are computed at run time", change="quantise with constant scales (static)"
        )
    if scales.size == 1:
        factor *= float(scales.reshape(-1)[0])
    else:
        vectors.append(ChannelVector(node.inputs[4], tk.OP_MUL, "scales", _times_scales))
    made = replace(
        problem,
        vectors=tuple(vectors),
        dtype="int32",
        source_zero=int(zeros[0]),
        weight_zero=int(weight_zero.reshape(-1)[0]),
        epilogue=(_scaled(factor), _rounded(lowering.tensor(output).dtype, zeros[1])),
    )
    if not made.shape.is_array:
        raise CannotLower("a depthwise convolution in int32")
    write_convolution(lowering, node, made)


def _times_scales(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) * scales


LOWERINGS = {
    "QuantizeLinear": lower_quantize,
    "DequantizeLinear": lower_dequantize,
    "MatMulInteger": lower_matmul_integer,
    "QLinearMatMul": lower_qlinear_matmul,
    "ConvInteger": lower_conv_integer,
    "QLinearConv": lower_qlinear_conv,
}
