"""Lower inverse functions of angles and of hyperbolas, made of roots, logarithms and the tables.

Tables are used where a function is smooth: an arc tangent over x / (1 + |x|), which holds all numbers, an arc
sine as the arc tangent of half its angle, which is steep nowhere. Roots and products in between are fp32.
"""

from collections.abc import Callable, Mapping

import numpy as np

from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import MULTIPLY, Stages
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.lookup_table import Function as Curve
from npuviz.targets.rk3588.compiler.operators.functions import (
    Function,
    logarithm,
    lowering_of,
    one_or_none,
    root_of,
)
from npuviz.targets.rk3588.compiler.steps import HALF, Steps, bits, half_bits
from npuviz.targets.rk3588.tables import Buffer

_MOST = 65504.0
"""The largest number of fp16, used for infinity, too."""
_SPAN = (-1, 1)


def arc_tangent(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute atan x = g(x / (1 + |x|)), where g has slope 1 in the middle and at both ends."""
    limited = steps.with_constant(source, dpu.ALU_MIN, _MOST)
    limited = steps.with_constant(limited, dpu.ALU_MAX, -_MOST)
    size = steps.plus(steps.with_constant(limited, dpu.ABSOLUTE), 1.0)
    steps.looked_up(steps.pair(limited, dpu.DIVIDE, size), _unfolded, _SPAN, target)


def _unfolded(part: np.ndarray) -> np.ndarray:
    """Return the arc tangent of x, given x / (1 + |x|)."""
    inside = np.clip(part, -1, 1)
    return np.arctan2(inside, 1 - np.abs(inside))


def _less_square(steps: Steps, wide: Buffer) -> Buffer:
    """Compute 1 - x * x."""
    square = steps.pair(wide, MULTIPLY, wide)
    return steps.run(square, Stages(bias_constant=bits(-1.0), main_factor=half_bits(-1.0)))


def _by_half_angle(curve: Curve) -> Function:
    """Make a function of the tangent of half the angle whose sine is given; NaN beyond 1."""

    def make(steps: Steps, source: Buffer, target: Buffer) -> None:
        wide = steps.wide(source)
        square = _less_square(steps, wide)
        tangent = steps.pair(wide, dpu.DIVIDE, steps.plus(root_of(steps, square), 1.0))
        found = steps.looked_up(tangent, lambda part: curve(np.clip(part, -1, 1)), _SPAN)
        steps.pair(found, MULTIPLY, one_or_none(steps, square), target)

    return make


def _signed(steps: Steps, source: Buffer, found: Buffer, factor: float, target: Buffer) -> None:
    """Multiply a result found for |x| by a factor and the sign of x."""
    negative = steps.is_positive(steps.with_constant(source, dpu.NEGATIVE, dtype=HALF))
    sides = Stages(bias_constant=bits(-0.5), main_factor=half_bits(-2.0 * factor))
    steps.pair(found, MULTIPLY, steps.run(negative, sides, dtype=HALF), target)


def area_tangent(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute atanh x: half of -ln((1 - |x|) / (1 + |x|)), with the sign of x; NaN beyond 1."""
    size = steps.with_constant(steps.wide(source), dpu.ABSOLUTE)
    below = steps.run(size, Stages(bias_constant=bits(-1.0), main_factor=half_bits(-1.0)))
    found = steps.cube(source, HALF)
    logarithm(steps, steps.pair(below, dpu.DIVIDE, steps.plus(size, 1.0)), found)
    _signed(steps, source, found, -0.5, target)


def area_sine(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute asinh x: ln(|x| + sqrt(x * x + 1)), with the sign of x."""
    wide = steps.wide(source)
    size = steps.with_constant(wide, dpu.ABSOLUTE)
    square = steps.plus(steps.pair(wide, MULTIPLY, wide), 1.0)
    found = steps.cube(source, HALF)
    logarithm(steps, steps.pair(size, dpu.ALU_ADD, root_of(steps, square)), found)
    _signed(steps, source, found, 1.0, target)


def area_cosine(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute acosh x: ln(x + sqrt(x * x - 1)); NaN below 1."""
    wide = steps.wide(source)
    square = steps.plus(steps.pair(wide, MULTIPLY, wide), -1.0)
    logarithm(steps, steps.pair(wide, dpu.ALU_ADD, root_of(steps, square)), target)


FUNCTIONS: Mapping[str, Function] = {
    "Atan": arc_tangent,
    "Asin": _by_half_angle(lambda half: 2 * np.arctan(half)),
    "Acos": _by_half_angle(lambda half: np.pi / 2 - 2 * np.arctan(half)),
    "Atanh": area_tangent,
    "Asinh": area_sine,
    "Acosh": area_cosine,
}
"""Operator -> function that makes its tasks."""

LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    name: lowering_of(function) for name, function in FUNCTIONS.items()
}
