"""Repeat cubes along any axes, as broadcasting has it: CORE spreads one channel to all, and the DPU copies
what is there behind itself until an axis is full, twice as much each time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import cube_of
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.moves.row_parts import is_rows
from npuviz.targets.rk3588.compiler.moving import Span, Window, move, whole
from npuviz.targets.rk3588.compiler.operators.conv import Operands, convolve_into
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_shape


def lower_expand(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Expand to a known shape."""
    if layer.inputs[0].quantisation != layer.output.quantisation:
        raise CannotLower("Expand to another scale")
    source, target = cube_of(b, layer, layer.inputs[0]), cube_of(b, layer, layer.output)
    shapes = (b.graph.tensors[stored.tensor].shape for stored in (layer.inputs[0], layer.output))
    expand(b, layer, (source, target), *shapes)


def expand(
    b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], given: Sequence[int], wanted: Sequence[int]
) -> None:
    """Repeat a cube to fill another one. given, wanted  shapes of the tensors before and after

    Raises CannotLower if the two do not lie in the same way.
    """
    source, target = ends
    given = (*[1] * (len(wanted) - len(given)), *given)
    if len(given) != len(wanted) or any(one not in (1, two) for one, two in zip(given, wanted, strict=True)):
        raise CannotLower(f"{tuple(given)} broadcast to {tuple(wanted)}")
    made = _axes(target, wanted)
    taken = (1, 1, [1] * len(made[2])) if prod(given) == 1 else _axes(source, given)
    if len(taken[2]) != len(made[2]) or taken[1] not in (1, made[1]):
        raise CannotLower(f"{source.shape} repeated as {target.shape}, which lies otherwise")
    if taken[1] != made[1]:
        source = _with_channels(b, layer, source, taken, made[1])
    # A single image, or as many as there will be, is filled; then whole images are repeated.
    images, channels, places = taken[0], made[1], list(taken[2])
    for number in reversed(range(len(places))):
        if places[number] == made[2][number]:
            continue
        before = prod(places[:number]), prod(places[number + 1 :])
        places[number] = made[2][number]
        is_last = places == made[2] and images == made[0]
        shape = images, channels, before[0], places[number] * before[1]
        place = target if is_last else b.scratch(_name(layer, "repeated"), shape, target.dtype)
        _fill(
            b, layer, (replace(source, shape=(*shape[:3], before[1])), replace(place, shape=shape)), "columns"
        )
        source = place
    if images != made[0]:
        shape = made[0], channels, 1, prod(places)
        _fill(b, layer, (replace(source, shape=(images, *shape[1:])), replace(target, shape=shape)), "images")
    elif taken[2] == made[2]:
        shape = images, channels, 1, prod(places)
        move(b, layer, (replace(source, shape=shape), replace(target, shape=shape)), _both(shape), Stages())
        b.begin_layer()


def _axes(cube: Buffer, shape: Sequence[int]) -> tuple[int, int, list[int]]:
    """Return images, channels and the axes of positions of a cube that holds a tensor."""
    if is_rows(shape, cube) or len(cube.shape) == len(shape) == 2:
        return 1, shape[-1], list(shape[:-1])
    if tuple(cube.shape) == tuple(shape) and len(shape) in (3, 4):
        return shape[0], shape[1], list(shape[2:])
    if len(cube.shape) < 2 and prod(shape[:-1]) == 1:
        return 1, shape[-1], list(shape[:-1])
    raise CannotLower(f"{tuple(shape)} is stored as {cube.shape}")


def _both(shape: tuple[int, ...]) -> tuple[Window, Window]:
    found = Window(*(Span(0, size) for size in shape))
    return found, found


def _with_channels(
    b: Builder, layer: Layer, source: Buffer, axes: tuple[int, int, list[int]], channels: int
) -> Buffer:
    """Return a cube of one channel with as many channels that are equal to it."""
    images, _, places = axes
    shape = images, channels, 1, prod(places)
    spread = b.scratch(_name(layer, "for all channels"), shape, source.dtype)
    spread_channel(b, layer, replace(source, shape=(images, 1, *shape[2:])), spread)
    b.begin_layer()
    return spread


def _fill(b: Builder, layer: Layer, ends: tuple[Buffer, Buffer], axis: str) -> None:
    """Copy a cube to the beginning of another one, and then what is there behind itself, along one axis."""
    source, target = ends
    taken = whole(source)
    have, full = (getattr(whole(end), axis).count for end in ends)
    move(b, layer, ends, (taken, taken), Stages())
    b.begin_layer()
    while have < full:
        more = min(have, full - have)
        first, behind = (replace(whole(target), **{axis: Span(low, more)}) for low in (0, have))
        move(b, layer, (target, target), (first, behind), Stages())
        b.begin_layer()
        have += more


def spread_channel(b: Builder, layer: Layer, source: Buffer, target: Buffer) -> None:
    """Copy one channel to all: a product with a column of ones."""
    _, channels, height, width = cube_shape(target.shape)
    rows, columns = (WindowAxis(size, size) for size in (height, width))
    kind = numpy_dtype(source.dtype)
    bias = np.zeros(channels, np.float32 if kind.kind == "f" else np.int32)
    factors = None if kind.kind == "f" else np.ones(channels)
    operands = Operands(np.ones((channels, 1, 1, 1), kind), bias, factors)
    convolve_into(b, layer, Shape(rows, columns), operands, (source, target))


def _name(layer: Layer, what: str) -> str:
    return f"{layer.head.name or layer.head.op_type} {what}"


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {"Expand": lower_expand}
