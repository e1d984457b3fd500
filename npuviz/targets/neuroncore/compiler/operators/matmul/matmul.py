"""Lower MatMul and Gemm of any rank, with transposed operands, scale and a broadcast addend."""

import itertools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.builder.hbm import recast
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Epilogue, fetch_repeated
from npuviz.targets.neuroncore.compiler.operators.matmul.panels import FLOATS, Matrix, operand_dtype
from npuviz.targets.neuroncore.compiler.operators.matmul.product import Finish, Region, multiply
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu


def lower_matmul(b: Builder, node: Node) -> None:
    """Lower MatMul, with numpy's rules for ranks and batches."""
    matmul_group(b, node, ())


def lower_gemm(b: Builder, node: Node) -> None:
    """Lower Gemm: alpha * A' B' + beta * C."""
    gemm_group(b, node, ())


def matmul_group(b: Builder, node: Node, followers: Sequence[Node]) -> None:
    """Lower a MatMul and element-wise operators on its result."""
    require_floats(b, node.inputs)
    result = followers[-1].outputs[0] if followers else node.outputs[0]
    epilogue = Epilogue(b, node, followers, result)
    left, right = matmul_views(b, node.inputs[0], node.inputs[1])
    sizes = (left.shape[-2], right.shape[-1])
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    count = prod(batch)
    is_shared = prod(right.shape[:-2]) == 1 and prod(left.shape[:-2]) == count

    def full(view: HbmView) -> HbmView:
        """Return a tensor of the result's shape as a batch of matrices."""
        if is_shared:
            return view.reshape(1, count * sizes[0], sizes[1])
        return view.reshape(count, *sizes)

    if is_shared:
        left = left.reshape(1, count * sizes[0], left.shape[-1])
        right = right.reshape(1, *right.shape[-2:])
        batch = (1,)
    left = left.broadcast_to((*batch, *left.shape[-2:]))
    right = right.broadcast_to((*batch, *right.shape[-2:]))
    out = full(b.hbm[result])
    stored = _weight_turned(b, node.inputs[0]) if len(left.shape) == 3 and left.shape[0] == 1 else None
    for index, where in enumerate(itertools.product(*(range(size) for size in batch))):
        a = Matrix(left[where], False) if stored is None else Matrix(stored, True)
        finish = _finish(epilogue, full, index) if followers else None
        multiply(b, a, Matrix(right[where], True), out[index], finish)


def gemm_group(b: Builder, node: Node, followers: Sequence[Node]) -> None:
    """Lower a Gemm and element-wise operators on its result."""
    require_floats(b, [tensor for tensor in node.inputs if tensor >= 0])
    attributes = node.attributes
    result = followers[-1].outputs[0] if followers else node.outputs[0]
    beta = float(attributes.get("beta", 1.0))
    epilogue = Epilogue(b, node, followers, result, float(attributes.get("alpha", 1.0)))
    left = _gemm_operand(b, node.inputs[0], bool(attributes.get("transA", 0)))
    right = _gemm_operand(b, node.inputs[1], not attributes.get("transB", 0))
    addend = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] >= 0 and beta != 0.0 else -1
    out = b.hbm[result]
    bias = _addend(b, addend, beta, out.shape) if addend >= 0 else None
    is_plain = bias is None and not followers and epilogue.scale == 1.0
    finish = None if is_plain else _gemm_finish(epilogue, bias, 1.0 if addend in b.graph.constants else beta)
    multiply(b, left, right, out, finish)


def require_floats(b: Builder, tensors: Sequence[int]) -> None:
    """Raise CannotLower if a tensor is empty, or of a type that PE does not sum in fp32."""
    for tensor in tensors:
        dtype = b.graph.tensors[tensor].dtype
        if dtype not in FLOATS:
            raise CannotLower(f"a product of {dtype}")
        if 0 in b.graph.tensors[tensor].shape:
            raise CannotLower("an empty operand")


def matmul_views(b: Builder, left: int, right: int) -> tuple[HbmView, HbmView]:
    """Return MatMul's operands with at least two dimensions: [..., M, K] and [..., K, N]."""
    first, second = b.hbm[left], b.hbm[right]
    if len(first.shape) == 1:
        first = first.reshape(1, *first.shape)
    if len(second.shape) == 1:
        second = second.reshape(*second.shape, 1)
    return first, second


def _weight_turned(b: Builder, tensor: int) -> HbmView | None:
    """Return the constant [K, M] of a constant two-dimensional left operand, else None."""
    array = b.graph.constants.get(tensor)
    if array is None or array.ndim != 2:
        return None
    return turned_constant(b, array, b.graph.tensors[tensor].name)


def turned_constant(b: Builder, array: np.ndarray, name: str) -> HbmView:
    """Add the transpose of a constant matrix as a constant, of the type that PE reads."""
    kind = operand_dtype(b, str(array.dtype))
    return b.hbm.constant(recast(array, kind).T, f"{name}/transposed")


def _gemm_operand(b: Builder, tensor: int, is_k_major: bool) -> Matrix:
    array = b.graph.constants.get(tensor)
    if array is not None and not is_k_major:
        return Matrix(turned_constant(b, array, b.graph.tensors[tensor].name), True)
    return Matrix(b.hbm[tensor], is_k_major)


def _addend(b: Builder, tensor: int, beta: float, shape: tuple[int, ...]) -> HbmView:
    """Return C of a Gemm, broadcast; if C is a constant, multiplied by beta."""
    array = b.graph.constants.get(tensor)
    view = b.hbm[tensor]
    if array is not None and beta != 1.0:
        scaled = (array.astype(np.float32) * np.float32(beta)).astype(np.float32)
        view = b.hbm.constant(scaled, f"{b.graph.tensors[tensor].name}/scaled")
    return view.reshape(*(1,) * (2 - len(view.shape)), *view.shape).broadcast_to(shape)


def _gemm_finish(epilogue: Epilogue, bias: HbmView | None, beta: float) -> Finish:
    b = epilogue.b

    def finish(target: View, source: View, region: Region) -> None:
        column = tile = None
        if bias is not None and bias.steps[1] == 0 and bias.shape[1] > 1:
            column = _scaled(b, b.dma.fetch(region.column(bias[:, :1]), "float32"), beta)
        elif bias is not None:
            tile = _scaled(b, fetch_repeated(b, region.of(bias)), beta)
        epilogue.apply(target, source, region.of, column, tile)

    return finish


def _scaled(b: Builder, view: View, factor: float) -> View:
    if factor == 1.0:
        return view
    tile = b.tiles.sbuf(view.partitions, view.shape, "float32")
    b.isa.tensor_scalar(tile, view, Alu.MULTIPLY, factor)
    return tile


def _finish(epilogue: Epilogue, full: Callable[[HbmView], HbmView], index: int) -> Finish:
    def finish(target: View, source: View, region: Region) -> None:
        epilogue.apply(target, source, lambda view: region.of(full(view)[index]))

    return finish


LOWERINGS = {"MatMul": lower_matmul, "Gemm": lower_gemm}
EPILOGUES = {"MatMul": matmul_group, "Gemm": gemm_group}
