"""Lower normalisation along the channels of rows: CORE sums them up, the DPU does the rest.

A mean is a product with one kernel; it returns to all channels as a product of one channel with as many
kernels, in whose DPU stages it meets the tensor. Squares are bf16, which has the range of fp32, and their
sums fp32. The inverse root of these begins as the known guess from their bits, taken as integers, and two of
Newton's steps in fp32 refine it. Ref: TRM: CORE multiplies bf16, the DPU alone has int32 and fp32.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import ALU_ADD, MULTIPLY, Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

GUESS = 0x5F3759DF
"""Minus half of a number's bits, gives about the bits of its inverse root (3.4 % off). Known since 1986."""
NEWTON_STEPS = 2
"""0.034 becomes 1.7e-3, then 4.7e-6: a hundredth of fp16's rounding."""


def lower_normalisation(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower LayerNormalization and RMS normalisation of rows, as one operator or several."""
    found = layer.normalisation
    assert found is not None
    source, target = (
        _rows(cube_of(b, layer, stored), found.axis) for stored in (layer.inputs[0], layer.output)
    )
    if source.shape != target.shape:
        raise CannotLower("a normalisation of what does not lie as rows of channels", str(source.shape))
    channels = source.shape[1]
    scale, bias = (
        _vector(b, tensor, channels, default) for tensor, default in ((found.scale, 1), (found.bias, 0))
    )
    if found.centres:
        source = _centred(b, layer, source)
    inverse, share = _inverse_roots(b, layer, source, found.epsilon)
    factors = scale * share
    if np.abs(factors).max() > np.finfo(np.float16).max:
        raise CannotLower("a scale that fp16 cannot hold")
    has_bias = bool(np.any(bias))
    scaled = _scratch(b, layer, "scaled", source.shape, "float16") if has_bias else target
    _spread(b, layer, factors, (inverse, scaled), (source, MULTIPLY))
    if has_bias:
        b.begin_layer()
        held = b.constant(f"{_name(layer)} bias", filled_up(bias.astype(np.float32)), "bias")
        emit(b, layer, scaled, target, None, lambda _: Stages(sum_address=held.address))


def _rows(cube: Buffer, axis: int) -> Buffer:
    """Return a cube as rows of channels, the normalised axis. Raises CannotLower if it lies otherwise."""
    if (len(cube.shape) == 2) != (axis < 0):
        raise CannotLower("a normalisation of what does not lie as rows of channels", str(cube.shape))
    images, channels, height, width = cube_shape(cube.shape)
    if images > 1:
        raise CannotLower("a normalisation of the channels of several images", str(cube.shape))
    return replace(cube, shape=(height * width, channels))


def _name(layer: Layer) -> str:
    return layer.head.name or layer.head.op_type


def _scratch(b: Builder, layer: Layer, what: str, shape: tuple[int, ...], dtype: str) -> Buffer:
    return b.scratch(f"{_name(layer)} {what}", shape, dtype)


def _vector(b: Builder, tensor: int, channels: int, default: float) -> np.ndarray:
    """Return a constant as (C,) float64."""
    values = np.asarray(b.graph.constants[tensor], np.float64) if tensor >= 0 else np.float64(default)
    return np.broadcast_to(np.reshape(values, -1), (channels,))


def _shape(rows: int) -> Shape:
    return Shape(WindowAxis(rows, rows), WindowAxis(1, 1))


def _centred(b: Builder, layer: Layer, source: Buffer) -> Buffer:
    """Return the rows minus their means."""
    rows, channels = source.shape
    means = _scratch(b, layer, "negative means", (rows, 1), "float16")
    column = np.full((1, channels, 1, 1), -1 / channels, np.float16)
    convolve_into(b, layer, _shape(rows), Operands(column, np.zeros(1, np.float32)), (source, means))
    b.begin_layer()
    centred = _scratch(b, layer, "centred", source.shape, "float16")
    _spread(b, layer, np.ones(channels), (means, centred), (source, ALU_ADD))
    b.begin_layer()
    return centred


def _spread(
    b: Builder, layer: Layer, factors: np.ndarray, ends: tuple[Buffer, Buffer], second: tuple[Buffer, int]
) -> None:
    """Multiply one channel by the factors of all channels, joined to a second cube."""
    weights = factors.astype(np.float16)[:, None, None, None]
    bias = np.zeros(len(weights), np.float32)
    convolve_into(b, layer, _shape(ends[0].shape[0]), Operands(weights, bias), ends, second=second)


def _inverse_roots(b: Builder, layer: Layer, source: Buffer, epsilon: float) -> tuple[Buffer, float]:
    """Return the inverse roots of the mean squares, as rows of one channel; and a factor that makes them
    exact."""
    rows, channels = source.shape
    squares = _scratch(b, layer, "squares", source.shape, "bfloat16")
    emit(b, layer, source, squares, source, lambda o: Stages(operand=o), MULTIPLY)
    b.begin_layer()
    sums = _scratch(b, layer, "mean squares", (rows, 1), "float32")
    column = np.full((1, channels, 1, 1), 1 / channels).astype(ml_dtypes.bfloat16)
    bias = np.array([epsilon], np.float32)
    convolve_into(b, layer, _shape(rows), Operands(column, bias), (squares, sums))
    b.begin_layer()
    # The factor corrects the rounding of the weight.
    return inverse_root(b, layer, sums), float(np.sqrt(np.float64(column.flat[0]) * channels))


def inverse_root(b: Builder, layer: Layer, sums: Buffer, dtype: str = "float16") -> Buffer:
    """Compute 1 / sqrt of numbers of fp32, as a type: r = r * (3 - x * r * r) / 2 from the guess on."""
    guess = _scratch(b, layer, "guess", sums.shape, "float32")
    channels = cube_shape(sums.shape)[1]
    constant = b.constant(f"{_name(layer)} bits", filled_up(np.full(channels, GUESS, np.int32)), "bias")
    halved = Stages(main_factor=-1, main_shift=1, sum_address=constant.address)
    emit(b, layer, _as(sums, "int32"), _as(guess, "int32"), None, lambda _: halved)
    three, half = _bits(np.float32(-3)), _bits(np.float16(-0.5))
    for step in range(NEWTON_STEPS):
        b.begin_layer()
        product = _times(b, layer, sums, guess, f"product {step}")
        square = _times(b, layer, product, guess, f"square {step}")
        is_last = step == NEWTON_STEPS - 1
        better = _scratch(b, layer, f"root {step}", sums.shape, dtype if is_last else "float32")
        emit(
            b, layer, square, better, guess,
            lambda o: Stages(bias_constant=three, main_factor=half, operand=o), MULTIPLY,
        )  # fmt: skip
        guess = better
    b.begin_layer()
    return guess


def _times(b: Builder, layer: Layer, one: Buffer, two: Buffer, what: str) -> Buffer:
    made = _scratch(b, layer, what, one.shape, "float32")
    emit(b, layer, one, made, two, lambda o: Stages(operand=o), MULTIPLY)
    b.begin_layer()
    return made


def _as(buffer: Buffer, dtype: str) -> Buffer:
    """Return the same bytes as another type."""
    return replace(buffer, dtype=dtype)


def _bits(value: np.floating) -> int:
    """Return the bits of a number as a register holds them."""
    return int(np.array([value]).view(f"i{value.itemsize}")[0])
