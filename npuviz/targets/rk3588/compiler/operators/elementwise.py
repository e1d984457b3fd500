"""Lower operators on two cubes: of one shape, or one with one value per channel; constants that EW reads as
cubes."""

from dataclasses import replace

import numpy as np

from npuviz.formats.rk3588.tensor_layout import pack_features, packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.moves.expanding import expand, spread_channel
from npuviz.targets.rk3588.compiler.moving import Span, move, whole
from npuviz.targets.rk3588.compiler.quantisation import Quantisation
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

FIXED_BITS = 13
"""Bits of the factors that bring two int8 operands to one scale; their sum stays below 2^31."""
_ALU = {
    "Add": dpu.ALU_ADD, "Sum": dpu.ALU_ADD, "Sub": 4, "Max": 0, "Min": 1, "Mul": dpu.MULTIPLY,
    "Div": dpu.DIVIDE,
}  # fmt: skip
"""Codes of EW_CFG. Ref: XML."""
_IN_ANY_ORDER = ("Add", "Sum", "Max", "Min", "Mul")


def lower_pair(b: Builder, layer: Layer) -> None:
    """Lower the sum, difference, product, quotient, maximum or minimum of two cubes.

    One of them may have one value per channel, or one channel for all: CORE spreads that first.
    """
    target = cube_of(b, layer, layer.output)
    inputs = [(cube_of(b, layer, stored), stored.quantisation) for stored in layer.inputs]
    if inputs[0][0].shape != target.shape and layer.head.op_type in _IN_ANY_ORDER:
        inputs.reverse()
    (first, one), (second, two) = inputs
    if first.shape != target.shape:
        raise CannotLower(f"operands of shapes {first.shape} and {second.shape}")
    second = _blocks(b, layer, second, first) or _reaching(b, layer, second, first)
    _emit_pair(b, layer, (first, second, target), (one, two))


def lower_with_constant(b: Builder, layer: Layer, values: np.ndarray, *, is_first: bool) -> None:
    """Lower an operator with a constant of any shape that broadcasting allows. values  real numbers"""
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    kind, taken = layer.head.op_type, layer.inputs[0].quantisation
    if source.shape != target.shape:
        raise CannotLower(f"{source.shape} broadcast to {target.shape}")
    if is_first and kind not in _IN_ANY_ORDER:
        raise CannotLower(f"{kind} of a constant and a tensor")
    shape = b.graph.tensors[layer.head.outputs[0]].shape
    full = np.broadcast_to(values, shape).reshape(source.shape)
    scaled = None
    if taken is not None:
        scaled = _constant_quantisation(full)
        full = np.clip(np.rint(full / scaled.scale), -128, 127)
    elif np.abs(full[np.isfinite(full)]).max(initial=0) > np.finfo(np.float16).max:
        raise CannotLower("a constant that fp16 cannot hold")
    second = _constant_cube(b, f"{layer.head.name or kind} constant", full, source)
    _emit_pair(b, layer, (source, second, target), (taken, scaled))


def _constant_quantisation(values: np.ndarray) -> Quantisation:
    return Quantisation(max(float(np.abs(values).max()), 2.0**-20) / 127, 0)


def _constant_cube(b: Builder, name: str, full: np.ndarray, like: Buffer) -> Buffer:
    """Lay out a constant in the shape of a cube, with one position if positions do not matter."""
    images, channels, height, width = cube_shape(like.shape)
    cubes = full.T if len(like.shape) == 2 else full
    cubes = cubes.reshape(images, channels, height, width).astype(numpy_dtype(like.dtype))
    by_channel = cubes[:1, :, :1, :1]
    if np.all(cubes == by_channel):
        cubes = by_channel
    elif np.all(cubes == cubes[:1]):
        cubes = cubes[:1]
    group = packing(like.dtype).channels
    held = b.constant(name, np.concatenate([pack_features(cube, group) for cube in cubes]), "feature")
    return replace(held, shape=cubes.shape)


def _blocks(b: Builder, layer: Layer, second: Buffer, first: Buffer) -> Buffer | None:
    """Copy rows that repeat block by block (a mask for all heads) one after the other; None if they do not
    repeat."""
    shapes = sorted((b.graph.tensors[tensor].shape for tensor in layer.head.inputs), key=np.prod)
    small, large = (np.array((*[1] * (len(shapes[1]) - len(shape)), *shape)) for shape in shapes)
    ahead = int(np.argmax(small > 1)) if np.any(small > 1) else 0
    if len(first.shape) != 2 or len(second.shape) != 2 or second.shape[0] < 2 or ahead >= len(large) - 1:
        return None
    if np.any(small[ahead:] != large[ahead:]) or first.shape == second.shape:
        return None
    rows, channels = second.shape
    spread = b.scratch(f"{second.name} in blocks", (first.shape[0], channels), second.dtype)
    taken = whole(second)
    for low in range(0, first.shape[0], rows):
        move(b, layer, (second, spread), (taken, replace(taken, rows=Span(low, rows))), dpu.Stages())
    b.begin_layer()
    return spread


def _reaching(b: Builder, layer: Layer, second: Buffer, first: Buffer) -> Buffer:
    """Return the second operand as EW can read it beside the first."""
    wanted, given = cube_shape(first.shape), cube_shape(second.shape)
    # A matrix has its last axis as channels, a picture has not.
    is_alike = len(second.shape) == len(first.shape) or max(given) == 1
    is_fine = is_alike and given[1:] in (wanted[1:], (wanted[1], 1, 1)) and given[0] in (1, wanted[0])
    if is_fine:
        return second
    if is_alike and given[1] == 1 and given[2:] in (wanted[2:], (1, 1)) and given[0] == wanted[0]:
        shape = (given[0], wanted[1], *given[2:])
        spread = b.scratch(f"{second.name} for all channels", shape, second.dtype)
        spread_channel(b, layer, second, spread)
        b.begin_layer()
        return spread
    shapes = sorted((b.graph.tensors[tensor].shape for tensor in layer.head.inputs), key=np.prod)
    repeated = b.scratch(f"{second.name} repeated", first.shape, second.dtype)
    expand(b, layer, (second, repeated), *shapes)
    return repeated


def _emit_pair(
    b: Builder,
    layer: Layer,
    cubes: tuple[Buffer, Buffer, Buffer],
    scales: tuple[Quantisation | None, Quantisation | None],
) -> None:
    first, second, target = cubes
    alu, relu = _ALU[layer.head.op_type], layer.activation is not None
    out, (one, two) = layer.output.quantisation, scales
    if out is None or one is None or two is None:
        emit(b, layer, first, target, second, lambda o: dpu.Stages(operand=replace(o, relu=relu)), alu)
        return
    if alu == dpu.DIVIDE:
        raise CannotLower("a quotient of two tensors in int8: EW truncates it")
    if alu == dpu.MULTIPLY:
        main, factor, step = 0, 1, one.scale * two.scale / out.scale
    else:
        largest = max(one.scale, two.scale)
        main, factor = (round(q.scale / largest * (1 << FIXED_BITS)) for q in (one, two))
        step = largest / out.scale / (1 << FIXED_BITS)

    def stages(operand: dpu.Operand) -> dpu.Stages:
        taken = dpu.Operand(operand.address, alu, operand.stride, 1, -two.zero_point, factor, relu)
        end = dpu.requantisation(step, out.zero_point)
        return dpu.Stages(bias_constant=-one.zero_point, main_factor=main, operand=taken, out=end)

    emit(b, layer, first, target, second, stages, alu)
