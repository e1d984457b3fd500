"""Make integer operands for PE, and requantise its sums.

8-bit integers minus zero points are exact in bfloat16, their products and sums below 2^24 in fp32.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import ROUNDING
from npuviz.targets.neuroncore.compiler.operators.matmul.epilogue import Part, fetch_repeated
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, Alu

OPERAND_DTYPE = "bfloat16"
_EXACT_SUM = 1 << 24
_RANGES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}


def require_bytes(b: Builder, *tensors: int) -> None:
    """Raise CannotLower unless all tensors are of 8-bit integers."""
    for tensor in tensors:
        dtype = b.graph.tensors[tensor].dtype
        if dtype not in _RANGES:
            raise CannotLower(f"an integer product of {dtype}")


def largest_sum(
    b: Builder, left: tuple[int, int], right: tuple[int, int], axes: tuple[int, ...], column: int
) -> float:
    """Return the largest magnitude of a sum of products, and of any part of it.

    left, right  a tensor of 8-bit integers and its zero point (-1: none)
    axes         axes of the right tensor that are summed;  column  axis of its zero points

    Constants have known values; other tensors may have any.
    """
    weights = centred_array(b, *right, column)
    if weights is None:
        depth = prod(b.graph.tensors[right[0]].shape[axis] for axis in axes)
        return depth * largest_value(b, *left) * largest_value(b, *right)
    sums = np.abs(weights.astype(np.float64)).sum(axis=axes)
    return largest_value(b, *left) * float(sums.max(initial=0))


def is_exact(largest: float) -> bool:
    """Return whether fp32 holds all sums up to this magnitude exactly."""
    return largest < _EXACT_SUM


def exact_pieces(largest: float, depth: int) -> list[tuple[int, int]]:
    """Divide a sum's depth into ranges whose sums fp32 holds exactly, even if all products are the largest.

    largest  largest magnitude of a product of 8-bit integers
    """
    most = max(1, int((_EXACT_SUM - 1) // largest)) if largest else depth
    return blocks(depth, most)


def require_exact(largest: float) -> None:
    """Raise CannotLower if fp32 does not hold all sums up to this magnitude exactly."""
    if not is_exact(largest):
        raise CannotLower(
            f"sums of its products may reach {largest:,.0f}, fp32 is exact below {_EXACT_SUM:,}"
        )


def largest_value(b: Builder, tensor: int, zero_point: int) -> float:
    """Return the largest magnitude of an 8-bit tensor minus its zero point."""
    low, high = _RANGES[b.graph.tensors[tensor].dtype]
    zero = b.graph.constants.get(zero_point) if zero_point >= 0 else np.zeros(1)
    if zero is None:
        return high - low
    zeros = zero.astype(np.float64)
    return float(max(np.abs(low - zeros).max(), np.abs(high - zeros).max()))


def centred_array(b: Builder, tensor: int, zero_point: int, axis: int) -> np.ndarray | None:
    """Return a constant tensor minus its zero point (-1: none) as bfloat16; None if either is no constant.

    axis  axis of a zero point of several values
    """
    array = b.graph.constants.get(tensor)
    if array is None:
        return None
    values = array.astype(np.float32)
    if zero_point >= 0:
        zero = b.graph.constants.get(zero_point)
        if zero is None:
            return None
        shape = [1] * array.ndim
        if zero.size > 1:
            shape[axis] = zero.size
        values = values - zero.astype(np.float32).reshape(shape)
    return values.astype(numpy_dtype(OPERAND_DTYPE))


def number_of(b: Builder, tensor: int) -> float | None:
    """Return the value of a constant of one element, None for other tensors."""
    known = b.graph.constants.get(tensor)
    return None if known is None or known.size != 1 else float(known.reshape(-1)[0])


def known_factor(b: Builder, scales: tuple[int, int], divisor: int) -> np.ndarray | None:
    """Return product of two scales by the divisor, flat, rounded as the engines do it; None unless all are
    constants."""
    found = [b.graph.constants.get(tensor) for tensor in (*scales, divisor)]
    flat = [each.reshape(-1).astype(np.float32) for each in found if each is not None]
    return flat[0] * flat[1] / flat[2] if len(flat) == len(found) else None


def centred(b: Builder, tensor: int, zero_point: int, zero_shape: tuple[int, ...]) -> HbmView:
    """Return a tensor minus its zero point (-1: none) as bfloat16: a constant if both are, else a buffer.

    zero_shape  the zero point's shape, broadcast to the tensor's
    """
    array, point = b.graph.constants.get(tensor), b.graph.constants.get(zero_point)
    if array is not None and (zero_point < 0 or point is not None):
        less = np.zeros(1) if point is None else point.astype(np.float32).reshape(zero_shape)
        return b.hbm.made_once(
            ("centred", tensor, zero_point),
            lambda: (array.astype(np.float32) - less).astype(numpy_dtype(OPERAND_DTYPE)),
            f"{b.graph.tensors[tensor].name}/centred",
        )
    source = b.hbm[tensor]
    out = b.hbm.scratch(source.shape, OPERAND_DTYPE)
    number = 0.0 if zero_point < 0 else number_of(b, zero_point)
    zero = None
    if number is None:
        zero = b.hbm[zero_point].reshape(*zero_shape).broadcast_to(source.shape)
    rows, width = _table_shape(source, zero)
    table, target = source.reshape(rows, width), out.reshape(rows, width)
    step = max(1, b.spec.sbuf_usable_bytes // 8 // 4)
    for first, end in blocks(rows, NUM_PARTITIONS):
        for c0, c1 in blocks(width, step):
            with b.tiles.scope():
                tile = b.tiles.sbuf(end - first, (c1 - c0,), OPERAND_DTYPE)
                values = b.dma.fetch(table[first:end, c0:c1])
                if number is not None:
                    b.isa.tensor_scalar(tile, values, Alu.SUBTRACT, number)
                elif zero is not None:
                    part = zero.reshape(rows, width)[first:end, c0:c1]
                    b.isa.tensor_tensor(tile, values, fetch_repeated(b, part), Alu.SUBTRACT)
                b.dma.store(target[first:end, c0:c1], tile)
    return out


def _table_shape(source: HbmView, zero: HbmView | None) -> tuple[int, int]:
    """Return (rows, columns) to which both a tensor and its zero point can be reshaped."""
    count = source.num_elements
    for width in (source.shape[-1], count // source.shape[0]):
        try:
            if zero is not None:
                zero.reshape(count // width, width)
        except ValueError:
            continue
        return count // width, width
    raise CannotLower("a zero point for each row of a batch")


@dataclass(frozen=True, slots=True)
class Requantize:
    """Epilogue of integer products: round(sums * scales / divisor) + zero point, saturated.

    result   tensor that is stored
    scales   scales of the operands, broadcast to the shape of the result
    divisor, zero_point  scale and zero point of the result, broadcast likewise; None: a zero point of 0
    factor  scales by divisor, where these are constants: one number, or broadcast likewise;  point  the zero
    point, if it is one number. With both, nothing but a factor of several numbers is loaded
    """

    b: Builder
    result: int
    scales: tuple[HbmView, ...]
    divisor: HbmView
    zero_point: HbmView | None
    factor: float | HbmView | None = None
    point: float | None = None

    def apply(
        self, target: View, source: View, part: Part, column: View | None = None, tile: View | None = None
    ) -> None:
        """Write `target` from `source`; column  bias by partition, added to the sums first."""
        assert tile is None
        if self.factor is not None and self.point is not None:
            self._apply_known(target, source, part, column)
            return
        b = self.b
        value = b.tiles.sbuf(target.partitions, target.shape, "float32")
        if column is not None:
            b.isa.tensor_scalar(value, source, Alu.ADD, column)
            source = value
        factor = b.tiles.sbuf(target.partitions, (1,), "float32")
        rest = [part(scale) for scale in self.scales]
        columns = [scale for scale in rest if _is_column(scale)]
        for scale in rest:
            if not _is_column(scale):
                self._by(value, source, Alu.MULTIPLY, scale)
                source = value
        # Multiply the scales to one factor first, rounded as a product of numbers.
        b.isa.memset(factor, 1.0)
        for scale in columns:
            self._by(factor, factor, Alu.MULTIPLY, scale)
        self._by(factor, factor, Alu.DIVIDE, part(self.divisor))
        b.isa.tensor_scalar(value, source, Alu.MULTIPLY, factor)
        b.isa.tensor_scalar(value, value, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING)
        if self.zero_point is not None:
            self._by(value, value, Alu.ADD, part(self.zero_point))
        low, high = _RANGES[target.dtype]
        b.isa.tensor_scalar(target, value, Alu.MAXIMUM, low, Alu.MINIMUM, high)

    def _apply_known(self, target: View, source: View, part: Part, column: View | None) -> None:
        """Write `target` as `apply` does, with `factor` and `point`."""
        b, factor = self.b, self.factor
        value = b.tiles.sbuf(target.partitions, target.shape, "float32")
        scale = part(factor) if isinstance(factor, HbmView) else factor
        if isinstance(scale, HbmView) and not _is_column(scale):
            if column is not None:
                b.isa.tensor_scalar(value, source, Alu.ADD, column)
                source = value
            b.isa.tensor_tensor(value, source, fetch_repeated(b, scale, "float32"), Alu.MULTIPLY)
        else:
            by = self._column(scale) if isinstance(scale, HbmView) else scale or 1.0
            if column is None:
                b.isa.tensor_scalar(value, source, Alu.MULTIPLY, by)
            else:
                b.isa.tensor_scalar(value, source, Alu.ADD, column, Alu.MULTIPLY, by)
        b.isa.tensor_scalar(value, value, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING - (self.point or 0.0))
        low, high = _RANGES[target.dtype]
        b.isa.tensor_scalar(target, value, Alu.MAXIMUM, low, Alu.MINIMUM, high)

    def _column(self, factor: HbmView) -> View:
        """Load one element a partition."""
        found = fetch_repeated(self.b, factor, "float32")
        return found[(slice(None), *(0,) * len(found.shape))].reshape(1)

    def _by(self, target: View, source: View, op: Alu, factor: HbmView) -> None:
        """Compute target = source op factor; the factor may be one value a partition."""
        if _is_column(factor):
            self.b.isa.tensor_scalar(target, source, op, self._column(factor))
        else:
            self.b.isa.tensor_tensor(target, source, fetch_repeated(self.b, factor, "float32"), op)


def _is_column(view: HbmView) -> bool:
    """Return whether each partition repeats one element."""
    return not any(step for size, step in zip(view.shape[1:], view.steps[1:], strict=True) if size > 1)
