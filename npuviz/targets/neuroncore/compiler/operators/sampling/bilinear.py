"""Sample bilinearly at places known only at run time: indices and weights on Vector, gathers on GpSimd."""

from dataclasses import dataclass

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import floored
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu

EXACT_INDEX = 1 << 24
"""Limit below which indices are exact in fp32."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One of the two neighbours of each place along an axis: index within the axis, and weight; fp32
    tiles.
    """

    index: View
    weight: View


def with_zeros_outside(b: Builder, places: View, size: int) -> tuple[Neighbour, Neighbour]:
    """Compute the neighbours of places on an axis of `size`; those outside get weight 0."""
    below = _like(b, places)
    floored(b, below, places)
    part = _like(b, places)
    b.isa.tensor_tensor(part, places, below, Alu.SUBTRACT)
    rest = _like(b, places)
    b.isa.tensor_scalar(rest, part, Alu.MULTIPLY, -1.0, Alu.ADD, 1.0)
    above = _like(b, places)
    b.isa.tensor_scalar(above, below, Alu.ADD, 1.0)
    return _inside(b, below, rest, size), _inside(b, above, part, size)


def _inside(b: Builder, index: View, weight: View, size: int) -> Neighbour:
    clamped = _like(b, index)
    b.isa.tensor_scalar(clamped, index, Alu.MAXIMUM, 0.0, Alu.MINIMUM, float(size - 1))
    is_inside = _like(b, index)
    b.isa.tensor_tensor(is_inside, clamped, index, Alu.EQUAL)
    b.isa.tensor_tensor(weight, weight, is_inside, Alu.MULTIPLY)
    return Neighbour(clamped, weight)


def clamped_to_border(b: Builder, places: View, size: int) -> tuple[Neighbour, Neighbour]:
    """Compute neighbours as in RoiAlign: places from -1 to `size` are clamped, others get weight 0."""
    is_near = _like(b, places)
    b.isa.tensor_scalar(is_near, places, Alu.GREATER_EQUAL, -1.0)
    upper = _like(b, places)
    b.isa.tensor_scalar(upper, places, Alu.LESS_EQUAL, float(size))
    b.isa.tensor_tensor(is_near, is_near, upper, Alu.MULTIPLY)
    inside = _like(b, places)
    b.isa.tensor_scalar(inside, places, Alu.MAXIMUM, 0.0, Alu.MINIMUM, float(size - 1))
    below = _like(b, places)
    floored(b, below, inside)
    part = _like(b, places)
    b.isa.tensor_tensor(part, inside, below, Alu.SUBTRACT)
    rest = _like(b, places)
    b.isa.tensor_scalar(rest, part, Alu.MULTIPLY, -1.0, Alu.ADD, 1.0)
    above = _like(b, places)
    b.isa.tensor_scalar(above, below, Alu.ADD, 1.0, Alu.MINIMUM, float(size - 1))
    for weight in (part, rest):
        b.isa.tensor_tensor(weight, weight, is_near, Alu.MULTIPLY)
    return Neighbour(below, rest), Neighbour(above, part)


def sample(
    b: Builder,
    plane: View,
    rows: tuple[Neighbour, Neighbour],
    columns: tuple[Neighbour, Neighbour],
    width: int,
    combine: Alu = Alu.ADD,
    base: View | None = None,
) -> View:
    """Combine the four weighted neighbours in a plane [P, elements] (rows of `width`); by default, add them.

    rows, columns  tiles of one shape, which the result (fp32) has too
    base           index of the plane's first element, one a partition
    """
    shape = rows[0].index.shape
    total = b.tiles.sbuf(plane.partitions, shape, "float32")
    is_first = True
    for row in rows:
        for column in columns:
            with b.tiles.scope():
                flat = _like(b, total)
                b.isa.scalar_tensor_tensor(flat, row.index, Alu.MULTIPLY, float(width), Alu.ADD, column.index)
                index = b.tiles.sbuf(plane.partitions, shape, "int32")
                if base is None:
                    b.isa.copy(index, flat)
                else:
                    b.isa.tensor_scalar(index, flat, Alu.ADD, base)
                found = _like(b, total, plane.dtype)
                b.isa.gather_free(found, plane, index)
                weight = _like(b, total)
                b.isa.tensor_tensor(weight, row.weight, column.weight, Alu.MULTIPLY)
                if is_first:
                    b.isa.tensor_tensor(total, found, weight, Alu.MULTIPLY)
                else:
                    b.isa.tensor_tensor(weight, found, weight, Alu.MULTIPLY)
                    b.isa.tensor_tensor(total, total, weight, combine)
            is_first = False
    return total


def _like(b: Builder, view: View, dtype: str = "float32") -> View:
    return b.tiles.sbuf(view.partitions, view.shape, dtype)
