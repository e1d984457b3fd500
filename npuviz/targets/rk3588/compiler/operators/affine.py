"""Lower operators of one cube with constants per channel: sums, products, normalisation, PReLU.

All become y = x * factor + summand: BS multiplies, BN adds.
"""

from collections.abc import Callable, Mapping

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import SCALE_BITS, Stages, requantisation
from npuviz.targets.rk3588.compiler.dpu_task import cube_of, emit, homes
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators import elementwise
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape

HALF_LIMIT = 65504.0
PRODUCT_BITS = 13
"""Bits that an int8 input gains before a factor of PReLU is applied to it."""


def lower_pair(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Add, Sub, Mul, Div, Max, Min: of two cubes, or of a cube and a constant."""
    node = layer.head
    if len(node.inputs) != 2:
        raise CannotLower(f"{len(node.inputs)} operands", str(len(node.inputs)))
    if len(layer.inputs) == 2:
        elementwise.lower_pair(b, layer)
        return
    place = next(place for place, tensor in enumerate(node.inputs) if planner.is_constant(tensor))
    constant = planner.quantised.constant(node.inputs[place])
    found = _of_pair(b, layer, constant, place)
    if found is None:
        elementwise.lower_with_constant(b, layer, constant, is_first=place == 0)
    else:
        _emit(b, layer, *found)


def lower_normalisation(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower BatchNormalization with known statistics."""
    node = layer.head
    if node.attributes.get("training_mode") or not all(planner.is_constant(t) for t in node.inputs[1:5]):
        raise CannotLower("statistics that are not constant")
    scale, bias, mean, variance = (
        planner.quantised.constant(tensor).reshape(-1) for tensor in node.inputs[1:5]
    )
    factor = scale / np.sqrt(variance + attributes_of(node).real("epsilon"))
    _emit(b, layer, factor, bias - mean * factor)


def lower_prelu(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower PRelu with a slope per channel."""
    source, target = homes(b, layer)
    node = layer.head
    if not planner.is_constant(node.inputs[1]):
        raise CannotLower("a slope that is no constant")
    channels = cube_shape(source.shape)[1]
    found = by_channel(planner.quantised.constant(node.inputs[1]), source)
    if found is None:
        raise CannotLower("slopes that change along more than the channels")
    slope = np.broadcast_to(found, (channels,))
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    if taken is None or out is None:
        held = b.constant(f"{node.name} slopes", filled_up(slope.astype(np.float16)), "bias")
        stages = Stages(scale_address=held.address, negative_only="BN")
    else:
        if np.abs(slope).max() >= 2:
            raise CannotLower("a slope of 2 or more in int8")
        whole = np.rint(slope * (1 << SCALE_BITS)).astype(np.int16)
        held = b.constant(f"{node.name} slopes", filled_up(whole), "bias")
        end = requantisation(taken.scale / out.scale / (1 << PRODUCT_BITS), out.zero_point)
        stages = Stages(
            bias_constant=-taken.zero_point,
            main_factor=1 << PRODUCT_BITS,
            scale_address=held.address,
            scale_shift=SCALE_BITS,
            negative_only="BN",
            out=end,
        )
    emit(b, layer, source, target, None, lambda _: stages)


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **dict.fromkeys(("Add", "Sum", "Sub", "Mul", "Div", "Max", "Min"), lower_pair),
    "BatchNormalization": lower_normalisation,
    "PRelu": lower_prelu,
}


def by_channel(values: np.ndarray, cube: Buffer) -> np.ndarray | None:
    """Return a constant broadcast to channels, (C,) or (1,); None if it varies along other axes."""
    channels = cube_shape(cube.shape)[1]
    axis = max(len(cube.shape) - 1, 0) if len(cube.shape) < 3 else 1
    rank = max(len(cube.shape), values.ndim)
    shape = (*[1] * (rank - values.ndim), *values.shape)
    axis += rank - len(cube.shape)
    if any(size != 1 for place, size in enumerate(shape) if place != axis):
        return None
    flat = values.reshape(-1)
    return flat if flat.size in (1, channels) else None


def _of_pair(
    b: Builder, layer: Layer, constant: np.ndarray, place: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (factors, summands) of an operator with one constant, None if it is no such product or sum."""
    source, kind = cube_of(b, layer, layer.inputs[0]), layer.head.op_type
    values = by_channel(constant, source)
    if values is None:
        return None
    one, none = np.ones(1), np.zeros(1)
    if kind in ("Add", "Sum"):
        return one, values
    if kind == "Sub":
        return (one, -values) if place == 1 else (-one, values)
    if kind == "Mul":
        return values, none
    if kind == "Div" and place == 1 and np.all(values != 0):
        return 1 / values, none
    return None


def _emit(b: Builder, layer: Layer, factor: np.ndarray, summand: np.ndarray) -> None:
    """Emit tasks for x * factor + summand, each (C,) or (1,)."""
    source, target = homes(b, layer)
    channels = cube_shape(source.shape)[1]
    factor, summand = (np.broadcast_to(values, (channels,)) for values in (factor, summand))
    if not (np.isfinite(factor).all() and np.isfinite(summand).all()):
        raise CannotLower("a constant that is not finite")
    make = _in_halves if layer.output.quantisation is None else _in_integers
    stages = make(b, layer, layer.head, factor, summand)
    emit(b, layer, source, target, None, lambda _: stages)


def _in_halves(b: Builder, layer: Layer, node: Node, factor: np.ndarray, summand: np.ndarray) -> Stages:
    if np.abs(factor).max() > HALF_LIMIT:
        raise CannotLower("a factor that fp16 cannot hold")
    main = sums = None
    if np.any(factor != 1):
        main = b.constant(f"{node.name} factors", filled_up(factor.astype(np.float16)), "bias").address
    if np.any(summand != 0):
        sums = b.constant(f"{node.name} summands", filled_up(summand.astype(np.float32)), "bias").address
    return Stages(main_address=main, sum_address=sums, relu=layer.activation is not None)


def _in_integers(b: Builder, layer: Layer, node: Node, factor: np.ndarray, summand: np.ndarray) -> Stages:
    """Return stages for ((x - zero) * share + summand) * step, with shares of the largest factor in 14
    bits."""
    taken, out = layer.inputs[0].quantisation, layer.output.quantisation
    assert taken is not None
    assert out is not None
    largest = float(np.abs(factor).max())
    if largest == 0:
        raise CannotLower("a factor of 0")
    shares = np.rint(factor / largest * (1 << SCALE_BITS)).astype(np.int16)
    step = taken.scale * largest / (1 << SCALE_BITS)
    main = b.constant(f"{node.name} factors", filled_up(shares), "bias").address
    sums = None
    if np.any(summand != 0):
        whole = np.rint(summand / step)
        if np.abs(whole).max() >= 1 << 30:
            raise CannotLower("a summand that is far larger than the input's scale")
        sums = b.constant(f"{node.name} summands", filled_up(whole.astype(np.int32)), "bias").address
    return Stages(
        bias_constant=-taken.zero_point,
        main_address=main,
        sum_address=sums,
        relu=layer.activation is not None,
        out=requantisation(step / out.scale, out.zero_point),
    )
