"""Lower QuantizeLinear and DequantizeLinear: by tensor, by axis or by block."""

from collections.abc import Callable
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.cast import (
    SMALL_FLOATS,
    SMALL_INTEGERS,
    cast,
    decoded,
    device_dtype,
    is_raw,
)
from npuviz.targets.neuroncore.compiler.operators.elementwise.elementwise import home
from npuviz.targets.neuroncore.compiler.operators.elementwise.iteration import blocks
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    ROUNDING,
    WIDE,
    binary,
    rounded,
    scalar,
    spread,
    temporary,
    widened,
)
from npuviz.targets.neuroncore.compiler.operators.quantized.requantize import number_of
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu

RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "uint4": (0, 15),
    "int4": (-8, 7),
    "uint2": (0, 3),
    "int2": (-2, 1),
}
_BYTES = ("uint8", "int8")
_FLOATS = ("float32", "float16", "bfloat16")
WIDTH = 1024
"""Most elements of a tile in a partition, because the formulas hold a dozen tiles."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Views of equal rank whose broadcast is the iteration space.

    zero  zero points, or None; views have the tensors' types, or "uint8" for types the engines lack
    """

    shape: tuple[int, ...]
    source: HbmView
    scale: HbmView
    zero: HbmView | None
    target: HbmView

    @property
    def sides(self) -> tuple[HbmView, ...]:
        """All views, the target last."""
        return tuple(v for v in (self.source, self.scale, self.zero, self.target) if v is not None)


def _layout(b: Builder, node: Node) -> Layout:
    source, scale, target = home(b, node.inputs[0]), home(b, node.inputs[1]), home(b, node.outputs[0])
    zero = home(b, node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] >= 0 else None
    shape = source.shape
    rank = len(shape)
    axis = int(node.attributes.get("axis", 1)) % max(1, rank)
    size = int(node.attributes.get("block_size", 0))
    if size and len(scale.shape) == rank and rank:
        if shape[axis] % size:
            raise CannotLower("the last block is not whole")
        split = (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])
        each = (*scale.shape[: axis + 1], 1, *scale.shape[axis + 1 :])
        zeros = zero.reshape(*each) if zero is not None else None
        return Layout(split, source.reshape(*split), scale.reshape(*each), zeros, target.reshape(*split))
    if scale.num_elements == 1:
        each = (1,) * rank
    elif len(scale.shape) == 1 and rank and scale.shape[0] == shape[axis]:
        each = tuple(shape[axis] if i == axis else 1 for i in range(rank))
    else:
        raise CannotLower(f"a scale of shape {scale.shape} for a tensor of shape {shape}")
    if zero is not None and zero.num_elements != scale.num_elements:
        raise CannotLower("scales and zero points differ in shape")
    zeros = zero.reshape(*each) if zero is not None else None
    return Layout(shape, source, scale.reshape(*each), zeros, target)


def _value(b: Builder, tile: View, dtype: str) -> View:
    """Return the numbers of a tile, decoded if the engines lack its type."""
    return decoded(b, tile, dtype) if is_raw(dtype) else tile


def _numbers(b: Builder, node: Node) -> tuple[float, float] | None:
    """Return scale and zero point if they are known and one number each."""
    scale, point = (*node.inputs, -1)[1:3]
    scale, zero = number_of(b, scale), 0.0 if point < 0 else number_of(b, point)
    return None if scale is None or zero is None else (scale, zero)


def _quantize_by_numbers(b: Builder, layout: Layout, kind: str, numbers: tuple[float, float]) -> None:
    """Quantize to 8 bits with a known scale and zero point, in three instructions.

    Saturating before rounding gives the same: the limits are whole numbers. Sums with ROUNDING stay exact.
    """
    scale, zero = numbers
    low, high = RANGES[kind]
    for block in blocks(layout.shape, (layout.source, layout.target), WIDTH):
        with b.tiles.scope():
            x = b.dma.fetch(block.sides[0])
            made = b.tiles.sbuf(block.partitions, block.free, kind)
            ratio = temporary(b, made)
            scalar(b, ratio, x, Alu.DIVIDE, scale, Alu.MAXIMUM, low - zero)
            scalar(b, ratio, ratio, Alu.MINIMUM, high - zero, Alu.ADD, ROUNDING)
            scalar(b, made, ratio, Alu.SUBTRACT, ROUNDING, Alu.ADD, zero)
            b.dma.store(block.sides[-1], made)


def lower_quantize(b: Builder, node: Node) -> None:
    """Lower QuantizeLinear: round x / scale half to even, add the zero point, saturate."""
    tensors = b.graph.tensors
    kind = tensors[node.outputs[0]].dtype
    if (
        tensors[node.inputs[0]].dtype not in (*_FLOATS, "int32")
        or tensors[node.inputs[1]].dtype not in _FLOATS
    ):
        raise CannotLower(f"quantizing {tensors[node.inputs[0]].dtype}")
    device_dtype(kind)
    layout = _layout(b, node)
    numbers = _numbers(b, node)
    if numbers is not None and kind in _BYTES:
        _quantize_by_numbers(b, layout, kind, numbers)
        return
    saturate = bool(node.attributes.get("saturate", 1))
    for block in blocks(layout.shape, layout.sides, WIDTH):
        with b.tiles.scope():
            x, scale = (b.dma.fetch(side) for side in block.sides[:2])
            made = b.tiles.sbuf(block.partitions, block.free, device_dtype(kind))
            ratio = temporary(b, made)
            binary(b, ratio, x, scale, Alu.DIVIDE)
            zero = None
            if layout.zero is not None:
                zero = _value(b, b.dma.fetch(block.sides[2]), kind)
            if kind in RANGES:
                rounded(b, ratio, ratio)
                if zero is not None:
                    binary(b, ratio, ratio, spread(zero, ratio), Alu.ADD)
                low, high = RANGES[kind]
                scalar(b, ratio, ratio, Alu.MAXIMUM, float(low), Alu.MINIMUM, float(high))
                cast(b, made, ratio, "float32", kind) if is_raw(kind) else b.isa.copy(made, ratio)
            else:
                if zero is not None and kind in SMALL_FLOATS:
                    binary(b, ratio, ratio, spread(zero, ratio), Alu.ADD)
                cast(b, made, ratio, "float32", kind, saturate=saturate)
            b.dma.store(block.sides[-1], made)


def lower_dequantize(b: Builder, node: Node) -> None:
    """Lower DequantizeLinear: (x - zero point) * scale."""
    tensors = b.graph.tensors
    kind = tensors[node.inputs[0]].dtype
    known = kind in RANGES or kind in SMALL_INTEGERS or kind in SMALL_FLOATS
    if not (known or kind in ("int32", "float8_e4m3fn", "float8_e5m2")):
        raise CannotLower(f"dequantizing {kind}")
    if tensors[node.outputs[0]].dtype not in _FLOATS:
        raise CannotLower(f"dequantizing to {tensors[node.outputs[0]].dtype}")
    layout = _layout(b, node)
    numbers = _numbers(b, node)
    if numbers is not None and kind in _BYTES:
        scale, zero = numbers
        for block in blocks(layout.shape, (layout.source, layout.target), WIDTH):
            with b.tiles.scope():
                made = b.tiles.sbuf(block.partitions, block.free, layout.target.dtype)
                scalar(b, made, b.dma.fetch(block.sides[0]), Alu.SUBTRACT, zero, Alu.MULTIPLY, scale)
                b.dma.store(block.sides[-1], made)
        return
    for block in blocks(layout.shape, layout.sides, WIDTH):
        with b.tiles.scope():
            x, scale = (b.dma.fetch(side) for side in block.sides[:2])
            x = _value(b, x, kind)
            made = b.tiles.sbuf(block.partitions, block.free, layout.target.dtype)
            if layout.zero is not None:
                zero = _value(b, b.dma.fetch(block.sides[2]), kind)
                moved = temporary(b, made, "int32" if kind in WIDE else "float32")
                if kind in WIDE:
                    binary(b, moved, widened(b, x), spread(zero, moved), Alu.SUBTRACT, integer=True)
                else:
                    binary(b, moved, x, spread(zero, moved), Alu.SUBTRACT)
                x = moved
            binary(b, made, x, scale, Alu.MULTIPLY)
            b.dma.store(block.sides[-1], made)


LOWERINGS: dict[str, Callable[[Builder, Node], None]] = {
    "QuantizeLinear": lower_quantize,
    "DequantizeLinear": lower_dequantize,
}
