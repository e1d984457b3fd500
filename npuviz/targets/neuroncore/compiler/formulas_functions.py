"""Formulas of exponentials, logarithms, trigonometry and activation functions, on floats.

Activation functions are exact within limits only (isa, section 3.4 of the reference): arguments are
clamped or reduced to them here, so that no program reports an argument out of range.
"""

import math
from typing import TYPE_CHECKING

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.formulas_arithmetic import Formula, Operands, given, tile
from npuviz.targets.neuroncore.compiler.formulas_core import (
    INFINITY,
    ROUNDING,
    WIDE,
    as_tile,
    binary,
    clamp,
    compared,
    scalar,
    sign_of,
    temporary,
    where,
)
from npuviz.targets.neuroncore.compiler.view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.compiler.builder import Builder

LOG_LOW, LOG_HIGH = 2.0**-64, 2.0**64
PI = 3.1415927410125732
"""pi in fp32, the limit of the sine function."""
# 2 pi in three parts of few bits: multiples of the first two are exact.
TWO_PI = (6.28125, 1.93500518798828125e-3, 3.01991664e-7)


def _attribute(node: Node, name: str, default: float) -> float:
    return float(node.attributes.get(name, default))


def logarithm(b: "Builder", dst: View, x: View) -> None:
    """dst = ln x for any x: -inf of 0, NaN below, inf of inf."""
    # One logarithm covers 2^-64 .. 2^64; two more of the clamped rest add what lies outside.
    total, part = temporary(b, dst), temporary(b, dst)
    b.activation(total, clamp(b, x, LOG_LOW, LOG_HIGH), Activation.LOG)
    b.activation(part, clamp(b, x, LOG_LOW**2, LOG_LOW), Activation.LOG, scale=LOG_HIGH)
    binary(b, total, total, part, Alu.ADD)
    b.activation(part, clamp(b, x, LOG_HIGH, 3.4028234e38), Activation.LOG, scale=LOG_LOW)
    binary(b, total, total, part, Alu.ADD)
    where(b, total, compared(b, x, Alu.EQUAL, INFINITY), x)
    # -(x ^ -0.5) is -inf of 0 and NaN of negative numbers (but not of -inf).
    scalar(b, part, x, Alu.MAXIMUM, -1.0, Alu.POWER, -0.5)
    scalar(b, part, part, Alu.MULTIPLY, -1.0)
    where(b, total, compared(b, x, Alu.LESS_EQUAL, 0.0), part)
    b.copy(dst, total)


def _log_of_one_plus(b: "Builder", dst: View, x: View) -> None:
    """dst = ln(1 + x) for x >= 0, exact also for small x: ln(w) * x / (w - 1) with w = 1 + x rounded."""
    total, logged, ratio = (temporary(b, dst) for _ in range(3))
    scalar(b, total, x, Alu.ADD, 1.0, Alu.MINIMUM, LOG_HIGH)
    b.activation(logged, clamp(b, total, LOG_LOW, LOG_HIGH), Activation.LOG)
    scalar(b, total, total, Alu.SUBTRACT, 1.0)
    limited = temporary(b, dst)
    scalar(b, limited, x, Alu.MINIMUM, LOG_HIGH)
    binary(b, ratio, limited, total, Alu.DIVIDE)
    binary(b, ratio, ratio, logged, Alu.MULTIPLY)
    where(b, ratio, compared(b, total, Alu.EQUAL, 0.0), x)
    where(b, ratio, compared(b, x, Alu.EQUAL, INFINITY), x)
    b.copy(dst, ratio)


def _sine(b: "Builder", dst: View, x: View, quarter: float) -> None:
    """dst = sin(x + quarter * 2 pi), the argument brought to -pi .. pi."""
    turns, angle = temporary(b, dst), temporary(b, dst)
    scalar(b, turns, x, Alu.MULTIPLY, 1.0 / (2.0 * math.pi), Alu.ADD, quarter)
    scalar(b, turns, turns, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING)
    rest = x
    for part in TWO_PI:
        b.scalar_tensor_tensor(angle, turns, Alu.MULTIPLY, -part, Alu.ADD, rest)
        rest = angle
    scalar(b, angle, angle, Alu.ADD, quarter * 2.0 * math.pi, Alu.MINIMUM, PI)
    scalar(b, angle, angle, Alu.MAXIMUM, -PI)
    b.activation(dst, angle, Activation.SIN)


def _arc_tangent(b: "Builder", dst: View, x: View) -> None:
    """dst = atan x: of x up to 1, else pi/2 - atan(1/x), with the sign put back."""
    size, inverse, steep, sign = (temporary(b, dst) for _ in range(4))
    scalar(b, size, x, Alu.ABS, 0.0)
    scalar(b, inverse, size, Alu.DIVIDE, 1.0, reverse=True)
    scalar(b, steep, size, Alu.GREATER, 1.0)
    binary(b, size, size, inverse, Alu.MINIMUM)
    b.activation(size, size, Activation.ARCTAN)
    # size + steep * (pi/2 - 2 size)
    scalar(b, inverse, size, Alu.MULTIPLY, -2.0, Alu.ADD, math.pi / 2)
    binary(b, inverse, inverse, steep, Alu.MULTIPLY)
    binary(b, size, size, inverse, Alu.ADD)
    sign_of(b, sign, x)
    binary(b, dst, size, sign, Alu.MULTIPLY)


def _on_float(function: str) -> Formula:
    """A formula of one tile, called by name so that the table reads as the operators do."""
    emit = _FUNCTIONS[function]

    def formula(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
        emit(b, dst, tile(b, operands, 0, dst))

    return formula


def _exponential(b: "Builder", dst: View, x: View) -> None:
    b.activation(dst, x, Activation.EXP)


def _sin(b: "Builder", dst: View, x: View) -> None:
    _sine(b, dst, x, 0.0)


def _cos(b: "Builder", dst: View, x: View) -> None:
    _sine(b, dst, x, 0.25)


def _tan(b: "Builder", dst: View, x: View) -> None:
    above, below = temporary(b, dst), temporary(b, dst)
    _sine(b, above, x, 0.0)
    _sine(b, below, x, 0.25)
    binary(b, dst, above, below, Alu.DIVIDE)


def _asin(b: "Builder", dst: View, x: View) -> None:
    """asin x = atan(x / sqrt((1 - x)(1 + x)))."""
    low, high = temporary(b, dst), temporary(b, dst)
    scalar(b, low, x, Alu.SUBTRACT, 1.0, reverse=True)
    scalar(b, high, x, Alu.ADD, 1.0)
    binary(b, low, low, high, Alu.MULTIPLY)
    scalar(b, low, low, Alu.POWER, 0.5)
    binary(b, low, x, low, Alu.DIVIDE)
    _arc_tangent(b, dst, low)


def _acos(b: "Builder", dst: View, x: View) -> None:
    """acos x = 2 atan(sqrt((1 - x) / (1 + x)))."""
    low, high = temporary(b, dst), temporary(b, dst)
    scalar(b, low, x, Alu.SUBTRACT, 1.0, reverse=True)
    scalar(b, high, x, Alu.ADD, 1.0)
    binary(b, low, low, high, Alu.DIVIDE)
    scalar(b, low, low, Alu.POWER, 0.5)
    _arc_tangent(b, high, low)
    scalar(b, dst, high, Alu.MULTIPLY, 2.0)


def _half_exponentials(b: "Builder", x: View) -> tuple[View, View]:
    """(e^x / 2, e^-x / 2); halves are squares of e^(x/2), which overflow with the result only."""
    made: list[View] = []
    for sign in (0.5, -0.5):
        root, power = temporary(b, x), temporary(b, x)
        b.activation(root, x, Activation.EXP, scale=sign)
        b.scalar_tensor_tensor(power, root, Alu.MULTIPLY, 0.5, Alu.MULTIPLY, root)
        made.append(power)
    return made[0], made[1]


def _sinh(b: "Builder", dst: View, x: View) -> None:
    up, down = _half_exponentials(b, x)
    result = temporary(b, dst)
    binary(b, result, up, down, Alu.SUBTRACT)
    # Near 0 the difference cancels: a series, x (1 + z/6 (1 + z/20 (1 + z/42))) with z = x^2.
    square, series = temporary(b, dst), temporary(b, dst)
    limited = clamp(b, x, -1.0, 1.0)
    b.activation(square, limited, Activation.SQUARE)
    scalar(b, series, square, Alu.MULTIPLY, 1.0 / 42, Alu.ADD, 1.0)
    for divisor in (20.0, 6.0):
        b.scalar_tensor_tensor(series, series, Alu.MULTIPLY, 1.0 / divisor, Alu.MULTIPLY, square)
        scalar(b, series, series, Alu.ADD, 1.0)
    binary(b, series, series, limited, Alu.MULTIPLY)
    near = temporary(b, dst, "uint8")
    scalar(b, near, x, Alu.ABS, 0.0, Alu.LESS, 0.5)
    where(b, result, near, series)
    b.copy(dst, result)


def _cosh(b: "Builder", dst: View, x: View) -> None:
    up, down = _half_exponentials(b, x)
    binary(b, dst, up, down, Alu.ADD)


def _asinh(b: "Builder", dst: View, x: View) -> None:
    """asinh x = sign(x) ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|."""
    size, square, root, sign = (temporary(b, dst) for _ in range(4))
    scalar(b, size, x, Alu.ABS, 0.0, Alu.MINIMUM, 2.0**62)
    b.activation(square, size, Activation.SQUARE)
    scalar(b, root, square, Alu.ADD, 1.0, Alu.POWER, 0.5)
    scalar(b, root, root, Alu.ADD, 1.0)
    binary(b, root, square, root, Alu.DIVIDE)
    binary(b, size, size, root, Alu.ADD)
    _log_of_one_plus(b, root, size)
    sign_of(b, sign, x)
    binary(b, dst, root, sign, Alu.MULTIPLY)


def _acosh(b: "Builder", dst: View, x: View) -> None:
    """acosh x = ln(1 + u + sqrt(u (u + 2))) with u = x - 1."""
    above, root = temporary(b, dst), temporary(b, dst)
    scalar(b, above, x, Alu.SUBTRACT, 1.0, Alu.MINIMUM, 2.0**62)
    b.scalar_tensor_tensor(root, above, Alu.ADD, 2.0, Alu.MULTIPLY, above)
    scalar(b, root, root, Alu.POWER, 0.5)
    binary(b, root, root, above, Alu.ADD)
    _log_of_one_plus(b, dst, root)


def _atanh(b: "Builder", dst: View, x: View) -> None:
    """atanh x = sign(x) / 2 ln(1 + 2a / (1 - a)) with a = |x|."""
    size, rest, sign = (temporary(b, dst) for _ in range(3))
    scalar(b, size, x, Alu.ABS, 0.0)
    scalar(b, rest, size, Alu.SUBTRACT, 1.0, reverse=True)
    b.scalar_tensor_tensor(rest, size, Alu.MULTIPLY, 2.0, Alu.DIVIDE, rest)
    _log_of_one_plus(b, size, rest)
    sign_of(b, sign, x)
    b.scalar_tensor_tensor(dst, size, Alu.MULTIPLY, 0.5, Alu.MULTIPLY, sign)


_FUNCTIONS = {
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


def _exponential_below(b: "Builder", x: View, scale: float, factor: float) -> View:
    """factor * (e^(scale * min(x, 0)) - 1) in a new tile."""
    made = temporary(b, x)
    scalar(b, made, x, Alu.MINIMUM, 0.0)
    b.activation(made, made, Activation.EXP, scale=scale)
    scalar(b, made, made, Alu.SUBTRACT, 1.0, Alu.MULTIPLY, factor)
    return made


def _elu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    below = _exponential_below(b, x, 1.0, _attribute(node, "alpha", 1.0))
    b.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _celu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    alpha = _attribute(node, "alpha", 1.0)
    below = _exponential_below(b, x, 1.0 / alpha, alpha)
    b.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _selu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    alpha = _attribute(node, "alpha", 1.67326319217681884765625)
    gamma = _attribute(node, "gamma", 1.05070102214813232421875)
    below, above = _exponential_below(b, x, 1.0, alpha * gamma), temporary(b, dst)
    scalar(b, above, x, Alu.MAXIMUM, 0.0, Alu.MULTIPLY, gamma)
    binary(b, dst, above, below, Alu.ADD)


def _parametric_relu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x, slope = tile(b, operands, 0, dst), given(operands, 1)
    below = temporary(b, dst)
    scalar(b, below, x, Alu.MINIMUM, 0.0)
    binary(b, below, below, slope, Alu.MULTIPLY)
    b.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _hard_sigmoid(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    line = temporary(b, dst)
    alpha, beta = _attribute(node, "alpha", 0.2), _attribute(node, "beta", 0.5)
    scalar(b, line, tile(b, operands, 0, dst), Alu.MULTIPLY, alpha, Alu.ADD, beta)
    scalar(b, dst, line, Alu.MAXIMUM, 0.0, Alu.MINIMUM, 1.0)


def _hard_swish(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x, line = tile(b, operands, 0, dst), temporary(b, dst)
    scalar(b, line, x, Alu.MULTIPLY, 1.0 / 6.0, Alu.ADD, 0.5)
    scalar(b, line, line, Alu.MAXIMUM, 0.0, Alu.MINIMUM, 1.0)
    binary(b, dst, line, x, Alu.MULTIPLY)


def _swish(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x, alpha = tile(b, operands, 0, dst), _attribute(node, "alpha", 1.0)
    if alpha == 1.0:
        b.activation(dst, x, Activation.SILU)
        return
    gate = temporary(b, dst)
    b.activation(gate, x, Activation.SIGMOID, scale=alpha)
    binary(b, dst, gate, x, Alu.MULTIPLY)


def _softsign(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x, size = tile(b, operands, 0, dst), temporary(b, dst)
    scalar(b, size, x, Alu.ABS, 0.0, Alu.ADD, 1.0)
    binary(b, dst, x, size, Alu.DIVIDE)


def _thresholded_relu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x, kept = tile(b, operands, 0, dst), temporary(b, dst)
    b.memset(kept, 0.0)
    where(b, kept, compared(b, x, Alu.GREATER, _attribute(node, "alpha", 1.0)), x)
    b.copy(dst, kept)


def _shrink(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    limit, bias = _attribute(node, "lambd", 0.5), _attribute(node, "bias", 0.0)
    kept, moved = temporary(b, dst), temporary(b, dst)
    b.memset(kept, 0.0)
    scalar(b, moved, x, Alu.SUBTRACT, bias)
    where(b, kept, compared(b, x, Alu.GREATER, limit), moved)
    scalar(b, moved, x, Alu.ADD, bias)
    where(b, kept, compared(b, x, Alu.LESS, -limit), moved)
    b.copy(dst, kept)


def _swiglu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    gate = temporary(b, dst)
    _swish(b, node, operands, gate)
    binary(b, dst, gate, as_tile(b, given(operands, 1), dst), Alu.MULTIPLY)


def single_activation(node: Node) -> tuple[Activation, float] | None:
    """The activation function, and its slope, that alone computes the node's operator."""
    kind = node.op_type
    if kind in _SINGLE:
        return _SINGLE[kind], 0.0
    if kind == "LeakyRelu":
        return Activation.PRELU, _attribute(node, "alpha", 0.01)
    if kind == "Gelu":
        approximate = node.attributes.get("approximate", "none")
        exact = approximate in ("none", b"none")
        return (Activation.GELU if exact else Activation.GELU_APPRX_TANH), 0.0
    if kind in ("Swish", "Silu") and _attribute(node, "alpha", 1.0) == 1.0:
        return Activation.SILU, 0.0
    return None


_SINGLE = {
    "Sigmoid": Activation.SIGMOID,
    "Tanh": Activation.TANH,
    "Relu": Activation.RELU,
    "Erf": Activation.ERF,
    "Exp": Activation.EXP,
    "Softplus": Activation.SOFTPLUS,
    "Mish": Activation.MISH,
}


def _activated(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    single = single_activation(node)
    assert single is not None
    b.activation(dst, tile(b, operands, 0, dst), single[0], alpha=single[1])


def _relu(b: "Builder", node: Node, operands: Operands, dst: View) -> None:
    # Not as an activation: the builder may then choose the vector engine when that one is free.
    x = tile(b, operands, 0, dst)
    scalar(b, dst, x, Alu.MAXIMUM, 0.0, integer=x.dtype in WIDE)


FUNCTIONS: dict[str, Formula] = {
    **{name: _on_float(name) for name in _FUNCTIONS},
    **dict.fromkeys((*_SINGLE, "LeakyRelu", "Gelu"), _activated),
    "Relu": _relu,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "PRelu": _parametric_relu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Swish": _swish,
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded_relu,
    "Shrink": _shrink,
    "SwiGLU": _swiglu,
}
