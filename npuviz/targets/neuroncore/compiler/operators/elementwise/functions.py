"""Formulas of activation functions and transcendental functions, on floats."""

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.arithmetic import Formula, Operands, given, tile
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    WIDE,
    as_tile,
    binary,
    compared,
    scalar,
    temporary,
    where,
)
from npuviz.targets.neuroncore.compiler.operators.elementwise.transcendental import TRANSCENDENTAL
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu


def _attribute(node: Node, name: str, default: float) -> float:
    return float(node.attributes.get(name, default))


def _on_float(function: str) -> Formula:
    """Make the formula of a transcendental operator, by name."""
    emit = TRANSCENDENTAL[function]

    def formula(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        emit(b, dst, tile(b, operands, 0, dst))

    return formula


def _exponential_below(b: Builder, x: View, scale: float, factor: float) -> View:
    """Emit factor * (e^(scale * min(x, 0)) - 1) to a new tile."""
    made = temporary(b, x)
    scalar(b, made, x, Alu.MINIMUM, 0.0)
    b.isa.activation(made, made, Activation.EXP, scale=scale)
    scalar(b, made, made, Alu.SUBTRACT, 1.0, Alu.MULTIPLY, factor)
    return made


def _elu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    below = _exponential_below(b, x, 1.0, _attribute(node, "alpha", 1.0))
    b.isa.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _celu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    alpha = _attribute(node, "alpha", 1.0)
    below = _exponential_below(b, x, 1.0 / alpha, alpha)
    b.isa.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _selu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    alpha = _attribute(node, "alpha", 1.67326319217681884765625)
    gamma = _attribute(node, "gamma", 1.05070102214813232421875)
    below, above = _exponential_below(b, x, 1.0, alpha * gamma), temporary(b, dst)
    scalar(b, above, x, Alu.MAXIMUM, 0.0, Alu.MULTIPLY, gamma)
    binary(b, dst, above, below, Alu.ADD)


def _parametric_relu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, slope = tile(b, operands, 0, dst), given(operands, 1)
    below = temporary(b, dst)
    scalar(b, below, x, Alu.MINIMUM, 0.0)
    binary(b, below, below, slope, Alu.MULTIPLY)
    b.isa.scalar_tensor_tensor(dst, x, Alu.MAXIMUM, 0.0, Alu.ADD, below)


def _hard_sigmoid(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    line = temporary(b, dst)
    alpha, beta = _attribute(node, "alpha", 0.2), _attribute(node, "beta", 0.5)
    scalar(b, line, tile(b, operands, 0, dst), Alu.MULTIPLY, alpha, Alu.ADD, beta)
    scalar(b, dst, line, Alu.MAXIMUM, 0.0, Alu.MINIMUM, 1.0)


def _hard_swish(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, line = tile(b, operands, 0, dst), temporary(b, dst)
    scalar(b, line, x, Alu.MULTIPLY, 1.0 / 6.0, Alu.ADD, 0.5)
    scalar(b, line, line, Alu.MAXIMUM, 0.0, Alu.MINIMUM, 1.0)
    binary(b, dst, line, x, Alu.MULTIPLY)


def _swish(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, alpha = tile(b, operands, 0, dst), _attribute(node, "alpha", 1.0)
    if alpha == 1.0:
        b.isa.activation(dst, x, Activation.SILU)
        return
    gate = temporary(b, dst)
    b.isa.activation(gate, x, Activation.SIGMOID, scale=alpha)
    binary(b, dst, gate, x, Alu.MULTIPLY)


def _softsign(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, size = tile(b, operands, 0, dst), temporary(b, dst)
    scalar(b, size, x, Alu.ABS, 0.0, Alu.ADD, 1.0)
    binary(b, dst, x, size, Alu.DIVIDE)


def _thresholded_relu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, kept = tile(b, operands, 0, dst), temporary(b, dst)
    b.isa.memset(kept, 0.0)
    where(b, kept, compared(b, x, Alu.GREATER, _attribute(node, "alpha", 1.0)), x)
    b.isa.copy(dst, kept)


def _shrink(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    limit, bias = _attribute(node, "lambd", 0.5), _attribute(node, "bias", 0.0)
    kept, moved = temporary(b, dst), temporary(b, dst)
    b.isa.memset(kept, 0.0)
    scalar(b, moved, x, Alu.SUBTRACT, bias)
    where(b, kept, compared(b, x, Alu.GREATER, limit), moved)
    scalar(b, moved, x, Alu.ADD, bias)
    where(b, kept, compared(b, x, Alu.LESS, -limit), moved)
    b.isa.copy(dst, kept)


def _swiglu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    gate = temporary(b, dst)
    _swish(b, node, operands, gate)
    binary(b, dst, gate, as_tile(b, given(operands, 1), dst), Alu.MULTIPLY)


def single_activation(node: Node) -> tuple[Activation, float] | None:
    """Return (function, slope) of the single activation that computes the node's operator, else None."""
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


def _activated(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    single = single_activation(node)
    assert single is not None
    b.isa.activation(dst, tile(b, operands, 0, dst), single[0], alpha=single[1])


def _relu(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    # Not an activation, so that the builder can also choose the vector engine.
    x = tile(b, operands, 0, dst)
    scalar(b, dst, x, Alu.MAXIMUM, 0.0, integer=x.dtype in WIDE)


FUNCTIONS: dict[str, Formula] = {
    **{name: _on_float(name) for name in TRANSCENDENTAL},
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
