"""Emit exponentials, logarithms and trigonometry on fp32 tiles, with errors of some units in the last place.

Activation functions are exact within limits only (isa, section 3.4 of the reference): arguments are
clamped or reduced to them here, so that no program reports an argument out of range.
"""

import math
from collections.abc import Callable

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    INFINITY,
    ROUNDING,
    binary,
    clamp,
    compared,
    scalar,
    sign_of,
    temporary,
    where,
)
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

LOG_LOW, LOG_HIGH = 2.0**-64, 2.0**64
PI = 3.1415927410125732
"""pi in fp32."""
FARTHEST = 4.71238899230957
"""3/2 pi: limit of angles, so that mirrored ones are at least -pi/2."""
# 2 pi in three parts of few bits: multiples of the first two are exact.
TWO_PI = (6.28125, 1.93500518798828125e-3, 3.01991664e-7)


def logarithm(b: Builder, dst: View, x: View) -> None:
    """Emit dst = ln x for any x: -inf of 0, NaN of negative numbers, inf of inf."""
    # One logarithm covers 2^-64 .. 2^64; two more, of clamped numbers, add the parts outside.
    total, part = temporary(b, dst), temporary(b, dst)
    b.isa.activation(total, clamp(b, x, LOG_LOW, LOG_HIGH), Activation.LOG)
    b.isa.activation(part, clamp(b, x, LOG_LOW**2, LOG_LOW), Activation.LOG, scale=LOG_HIGH)
    binary(b, total, total, part, Alu.ADD)
    b.isa.activation(part, clamp(b, x, LOG_HIGH, 3.4028234e38), Activation.LOG, scale=LOG_LOW)
    binary(b, total, total, part, Alu.ADD)
    where(b, total, compared(b, x, Alu.EQUAL, INFINITY), x)
    # -(x ^ -0.5) is -inf of 0 and NaN of negative numbers (but not of -inf).
    scalar(b, part, x, Alu.MAXIMUM, -1.0, Alu.POWER, -0.5)
    scalar(b, part, part, Alu.MULTIPLY, -1.0)
    where(b, total, compared(b, x, Alu.LESS_EQUAL, 0.0), part)
    b.isa.copy(dst, total)


def _log_of_one_plus(b: Builder, dst: View, x: View) -> None:
    """Emit dst = ln(1 + x) for x >= 0, precise for small x: ln(w) * x / (w - 1) with w = 1 + x rounded."""
    total, logged, ratio = (temporary(b, dst) for _ in range(3))
    scalar(b, total, x, Alu.ADD, 1.0, Alu.MINIMUM, LOG_HIGH)
    b.isa.activation(logged, clamp(b, total, LOG_LOW, LOG_HIGH), Activation.LOG)
    scalar(b, total, total, Alu.SUBTRACT, 1.0)
    limited = temporary(b, dst)
    scalar(b, limited, x, Alu.MINIMUM, LOG_HIGH)
    binary(b, ratio, limited, total, Alu.DIVIDE)
    binary(b, ratio, ratio, logged, Alu.MULTIPLY)
    where(b, ratio, compared(b, total, Alu.EQUAL, 0.0), x)
    where(b, ratio, compared(b, x, Alu.EQUAL, INFINITY), x)
    b.isa.copy(dst, ratio)


def _sine(b: Builder, dst: View, x: View, quarter: float) -> None:
    """Emit dst = sin(x + quarter * 2 pi), with the argument reduced to -pi/2 .. pi/2.

    Rounding errors in the turns of a large x can leave an angle beyond pi. Angles beyond pi/2 are mirrored,
    which does not change their sine.
    """
    turns, angle, mirrored = (temporary(b, dst) for _ in range(3))
    scalar(b, turns, x, Alu.MULTIPLY, 1.0 / (2.0 * math.pi), Alu.ADD, quarter)
    scalar(b, turns, turns, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING)
    rest = x
    for part in TWO_PI:
        b.isa.scalar_tensor_tensor(angle, turns, Alu.MULTIPLY, -part, Alu.ADD, rest)
        rest = angle
    scalar(b, angle, angle, Alu.ADD, quarter * 2.0 * math.pi, Alu.MINIMUM, FARTHEST)
    scalar(b, mirrored, angle, Alu.MULTIPLY, -1.0, Alu.MINIMUM, FARTHEST)
    b.isa.scalar_tensor_tensor(angle, mirrored, Alu.ADD, PI, Alu.MINIMUM, angle)
    b.isa.scalar_tensor_tensor(angle, mirrored, Alu.SUBTRACT, PI, Alu.MAXIMUM, angle)
    b.isa.activation(dst, angle, Activation.SIN)


def _arc_tangent(b: Builder, dst: View, x: View) -> None:
    """Emit dst = atan x: atan |x| up to 1, else pi/2 - atan(1/|x|), with the sign of x."""
    size, inverse, steep, sign = (temporary(b, dst) for _ in range(4))
    scalar(b, size, x, Alu.ABS, 0.0)
    scalar(b, inverse, size, Alu.DIVIDE, 1.0, reverse=True)
    scalar(b, steep, size, Alu.GREATER, 1.0)
    binary(b, size, size, inverse, Alu.MINIMUM)
    b.isa.activation(size, size, Activation.ARCTAN)
    # size + steep * (pi/2 - 2 size)
    scalar(b, inverse, size, Alu.MULTIPLY, -2.0, Alu.ADD, math.pi / 2)
    binary(b, inverse, inverse, steep, Alu.MULTIPLY)
    binary(b, size, size, inverse, Alu.ADD)
    sign_of(b, sign, x)
    binary(b, dst, size, sign, Alu.MULTIPLY)


def _exponential(b: Builder, dst: View, x: View) -> None:
    b.isa.activation(dst, x, Activation.EXP)


def _sin(b: Builder, dst: View, x: View) -> None:
    _sine(b, dst, x, 0.0)


def _cos(b: Builder, dst: View, x: View) -> None:
    _sine(b, dst, x, 0.25)


def _tan(b: Builder, dst: View, x: View) -> None:
    above, below = temporary(b, dst), temporary(b, dst)
    _sine(b, above, x, 0.0)
    _sine(b, below, x, 0.25)
    binary(b, dst, above, below, Alu.DIVIDE)


def _asin(b: Builder, dst: View, x: View) -> None:
    """Emit asin x = atan(x / sqrt((1 - x)(1 + x)))."""
    low, high = temporary(b, dst), temporary(b, dst)
    scalar(b, low, x, Alu.SUBTRACT, 1.0, reverse=True)
    scalar(b, high, x, Alu.ADD, 1.0)
    binary(b, low, low, high, Alu.MULTIPLY)
    scalar(b, low, low, Alu.POWER, 0.5)
    binary(b, low, x, low, Alu.DIVIDE)
    _arc_tangent(b, dst, low)


def _acos(b: Builder, dst: View, x: View) -> None:
    """Emit acos x = 2 atan(sqrt((1 - x) / (1 + x)))."""
    low, high = temporary(b, dst), temporary(b, dst)
    scalar(b, low, x, Alu.SUBTRACT, 1.0, reverse=True)
    scalar(b, high, x, Alu.ADD, 1.0)
    binary(b, low, low, high, Alu.DIVIDE)
    scalar(b, low, low, Alu.POWER, 0.5)
    _arc_tangent(b, high, low)
    scalar(b, dst, high, Alu.MULTIPLY, 2.0)


def _half_exponentials(b: Builder, x: View) -> tuple[View, View]:
    """Emit (e^x / 2, e^-x / 2) as squares of e^(x/2), which overflow only if the result does."""
    made: list[View] = []
    for sign in (0.5, -0.5):
        root, power = temporary(b, x), temporary(b, x)
        b.isa.activation(root, x, Activation.EXP, scale=sign)
        b.isa.scalar_tensor_tensor(power, root, Alu.MULTIPLY, 0.5, Alu.MULTIPLY, root)
        made.append(power)
    return made[0], made[1]


def _sinh(b: Builder, dst: View, x: View) -> None:
    up, down = _half_exponentials(b, x)
    result = temporary(b, dst)
    binary(b, result, up, down, Alu.SUBTRACT)
    # Near 0 the difference cancels: a series, x (1 + z/6 (1 + z/20 (1 + z/42))) with z = x^2.
    square, series = temporary(b, dst), temporary(b, dst)
    limited = clamp(b, x, -1.0, 1.0)
    b.isa.activation(square, limited, Activation.SQUARE)
    scalar(b, series, square, Alu.MULTIPLY, 1.0 / 42, Alu.ADD, 1.0)
    for divisor in (20.0, 6.0):
        b.isa.scalar_tensor_tensor(series, series, Alu.MULTIPLY, 1.0 / divisor, Alu.MULTIPLY, square)
        scalar(b, series, series, Alu.ADD, 1.0)
    binary(b, series, series, limited, Alu.MULTIPLY)
    near = temporary(b, dst, "uint8")
    scalar(b, near, x, Alu.ABS, 0.0, Alu.LESS, 0.5)
    where(b, result, near, series)
    b.isa.copy(dst, result)


def _cosh(b: Builder, dst: View, x: View) -> None:
    up, down = _half_exponentials(b, x)
    binary(b, dst, up, down, Alu.ADD)


def _asinh(b: Builder, dst: View, x: View) -> None:
    """Emit asinh x = sign(x) ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|."""
    size, square, root, sign = (temporary(b, dst) for _ in range(4))
    scalar(b, size, x, Alu.ABS, 0.0, Alu.MINIMUM, 2.0**62)
    b.isa.activation(square, size, Activation.SQUARE)
    scalar(b, root, square, Alu.ADD, 1.0, Alu.POWER, 0.5)
    scalar(b, root, root, Alu.ADD, 1.0)
    binary(b, root, square, root, Alu.DIVIDE)
    binary(b, size, size, root, Alu.ADD)
    _log_of_one_plus(b, root, size)
    sign_of(b, sign, x)
    binary(b, dst, root, sign, Alu.MULTIPLY)


def _acosh(b: Builder, dst: View, x: View) -> None:
    """Emit acosh x = ln(1 + u + sqrt(u (u + 2))) with u = x - 1."""
    above, root = temporary(b, dst), temporary(b, dst)
    scalar(b, above, x, Alu.SUBTRACT, 1.0, Alu.MINIMUM, 2.0**62)
    b.isa.scalar_tensor_tensor(root, above, Alu.ADD, 2.0, Alu.MULTIPLY, above)
    scalar(b, root, root, Alu.POWER, 0.5)
    binary(b, root, root, above, Alu.ADD)
    _log_of_one_plus(b, dst, root)


def _atanh(b: Builder, dst: View, x: View) -> None:
    """Emit atanh x = sign(x) / 2 ln(1 + 2a / (1 - a)) with a = |x|."""
    size, rest, sign = (temporary(b, dst) for _ in range(3))
    scalar(b, size, x, Alu.ABS, 0.0)
    scalar(b, rest, size, Alu.SUBTRACT, 1.0, reverse=True)
    b.isa.scalar_tensor_tensor(rest, size, Alu.MULTIPLY, 2.0, Alu.DIVIDE, rest)
    _log_of_one_plus(b, size, rest)
    sign_of(b, sign, x)
    b.isa.scalar_tensor_tensor(dst, size, Alu.MULTIPLY, 0.5, Alu.MULTIPLY, sign)


TRANSCENDENTAL: dict[str, Callable[[Builder, View, View], None]] = {
    "Exp": _exponential,
    "Log": logarithm,
    "Sin": _sin,
    "Cos": _cos,
    "Tan": _tan,
    "Asin": _asin,
    "Acos": _acos,
    "Atan": _arc_tangent,
    "Sinh": _sinh,
    "Cosh": _cosh,
    "Asinh": _asinh,
    "Acosh": _acosh,
    "Atanh": _atanh,
}
"""{operator: f(b, dst, x)}."""
