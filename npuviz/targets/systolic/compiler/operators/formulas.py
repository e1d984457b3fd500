"""Element-wise operators as sequences of vector instructions, each with what it computes.

A step is (opcode, function name, function of the running value and the second source). The sequences
are the cost: a machine without a logarithm or square root unit does it with its EXP or DIV unit.
Assumed: ONNXim has no rule for these operators; one instruction per arithmetic step.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.semantics.attributes import Attributes
from npuviz.targets.systolic.kernels import program_records as tk

Array = np.ndarray
Function = Callable[[Array, Array], Array]
"""Running value and the value the sequence began with -> the new running value."""


@dataclass(frozen=True)
class Step:
    """One vector instruction of a sequence.

    uses_input  its second source is the operator's input instead of the running value alone
    key         determines what `apply` computes
    """

    opcode: int
    key: Hashable
    apply: Function
    uses_input: bool = False


def _exp_scaled(scale: float) -> Step:
    return Step(tk.OP_EXP, ("exp", scale), lambda a, _: np.exp(np.float32(scale) * a))


def _plus(value: float) -> Step:
    return Step(tk.OP_ADD, ("add", value), lambda a, _: a + np.float32(value))


def _times(value: float) -> Step:
    return Step(tk.OP_MUL, ("mul", value), lambda a, _: a * np.float32(value))


def _clamp(low: float, high: float) -> Step:
    return Step(tk.OP_COMP, ("clamp", low, high), lambda a, _: np.clip(a, np.float32(low), np.float32(high)))


def _unary(opcode: int, name: str, apply: Callable[[Array], Array]) -> tuple[Step, ...]:
    return (Step(opcode, (name,), lambda a, _: apply(a)),)


_RECIPROCAL = Step(tk.OP_DIV, ("reciprocal",), lambda a, _: np.float32(1) / a)
_BY_INPUT = Step(tk.OP_MUL, ("mul", "input"), lambda a, x: a * x, uses_input=True)


def erf(values: Array) -> Array:
    """Compute the error function. Ref: Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7."""
    x = np.abs(values).astype(np.float64)
    t = 1.0 / (1.0 + 0.3275911 * x)
    tail = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    return (np.sign(values) * (1.0 - tail * t * np.exp(-x * x))).astype(np.float32)


def gelu(values: Array) -> Array:
    """Compute GELU: x times the normal distribution function at x."""
    return np.float32(0.5) * values * (np.float32(1) + erf(values / np.float32(np.sqrt(2))))


def gelu_tanh(values: Array) -> Array:
    """Compute the tanh form of GELU."""
    inner = np.float32(np.sqrt(2 / np.pi)) * (values + np.float32(0.044715) * values**3)
    return np.float32(0.5) * values * (np.float32(1) + np.tanh(inner))


def _sigmoid() -> tuple[Step, ...]:
    return (_exp_scaled(-1.0), _plus(1.0), _RECIPROCAL)


def _leaky(attributes: Attributes) -> tuple[Step, ...]:
    alpha = attributes.real("alpha")
    pick = Step(tk.OP_COMP, ("leaky",), lambda a, x: np.where(x < 0, a, x), uses_input=True)
    return (_times(alpha), pick)


def _elu(attributes: Attributes) -> tuple[Step, ...]:
    return _elu_steps(attributes.real("alpha"))


def _elu_steps(alpha: float) -> tuple[Step, ...]:
    pick = Step(tk.OP_COMP, ("elu",), lambda a, x: np.where(x < 0, a, x), uses_input=True)
    return (_exp_scaled(1.0), _plus(-1.0), _times(alpha), pick)


def _selu(attributes: Attributes) -> tuple[Step, ...]:
    return (*_elu_steps(attributes.real("alpha")), _times(attributes.real("gamma")))


def _hard_sigmoid(attributes: Attributes) -> tuple[Step, ...]:
    return (_times(attributes.real("alpha")), _plus(attributes.real("beta")), _clamp(0.0, 1.0))


def _gelu(attributes: Attributes) -> tuple[Step, ...]:
    if attributes.text("approximate") == "tanh":
        return _unary(tk.OP_GELU, "gelu_tanh", gelu_tanh)
    return _unary(tk.OP_GELU, "gelu", gelu)


_RELU = _unary(tk.OP_COMP, "relu", lambda a: np.maximum(a, np.float32(0)))
_TANH = (
    _clamp(-44.0, 44.0),
    _exp_scaled(-2.0),
    _plus(1.0),
    _RECIPROCAL,
    _times(2.0),
    _plus(-1.0),
)

_PLAIN: Mapping[str, tuple[Step, ...]] = {
    "Relu": _RELU,
    "Sigmoid": _sigmoid(),
    "Tanh": _TANH,
    "Erf": _unary(tk.OP_GELU, "erf", erf),
    "FastGelu": _unary(tk.OP_GELU, "gelu_tanh", gelu_tanh),
    "QuickGelu": _unary(tk.OP_SWISH, "quick_gelu", lambda a: a / (1 + np.exp(np.float32(-1.702) * a))),
    "Silu": _unary(tk.OP_SWISH, "swish", lambda a: a / (1 + np.exp(-a))),
    "Exp": (_exp_scaled(1.0),),
    "Log": _unary(tk.OP_EXP, "log", np.log),
    "Sqrt": _unary(tk.OP_DIV, "sqrt", np.sqrt),
    "Reciprocal": (_RECIPROCAL,),
    "Neg": (_times(-1.0),),
    "Abs": _unary(tk.OP_COMP, "abs", np.abs),
    "Floor": _unary(tk.OP_COMP, "floor", np.floor),
    "Ceil": _unary(tk.OP_COMP, "ceil", np.ceil),
    "Round": _unary(tk.OP_COMP, "round", np.rint),
    "Sign": _unary(tk.OP_COMP, "sign", np.sign),
    "Softplus": (
        *_unary(tk.OP_COMP, "abs", np.abs),
        _exp_scaled(-1.0),
        _plus(1.0),
        *_unary(tk.OP_EXP, "log", np.log),
        Step(tk.OP_ADD, ("add positive",), lambda a, x: a + np.maximum(x, 0), uses_input=True),
    ),
    "Softsign": (
        *_unary(tk.OP_COMP, "abs", np.abs),
        _plus(1.0),
        _RECIPROCAL,
        _BY_INPUT,
    ),
    "HardSwish": (_times(1 / 6), _plus(0.5), _clamp(0.0, 1.0), _BY_INPUT),
    "Mish": (
        *_unary(tk.OP_EXP, "softplus", lambda a: np.logaddexp(np.float32(0), a)),
        *_unary(tk.OP_EXP, "tanh", np.tanh),
        _BY_INPUT,
    ),
}


def _swish(attributes: Attributes) -> tuple[Step, ...]:
    alpha = np.float32(attributes.real("alpha"))
    return (Step(tk.OP_SWISH, ("swish", float(alpha)), lambda a, _: a / (1 + np.exp(-alpha * a))),)


_WITH_ATTRIBUTES: Mapping[str, Callable[[Attributes], tuple[Step, ...]]] = {
    "LeakyRelu": _leaky,
    "Elu": _elu,
    "Selu": _selu,
    "HardSigmoid": _hard_sigmoid,
    "Gelu": _gelu,
    "Swish": _swish,
}

UNARY = frozenset((*_PLAIN, *_WITH_ATTRIBUTES))
"""Operator types that `unary_steps` knows."""


def unary_steps(op_type: str, attributes: Attributes) -> tuple[Step, ...]:
    """Return the vector instructions of a one-input operator. Raises KeyError for an unknown one."""
    if op_type in _WITH_ATTRIBUTES:
        return _WITH_ATTRIBUTES[op_type](attributes)
    return _PLAIN[op_type]


def clip_steps(low: float, high: float) -> tuple[Step, ...]:
    """Return the vector instructions to clip between two numbers, which may be infinite."""
    return (_clamp(low, high),)


def power_steps(exponent: float) -> tuple[Step, ...]:
    """Return the instructions of x to a constant power: multiplications for 2 and 3, a root by DIV for 0.5,
    else EXP twice."""
    if exponent == 2.0:
        return (Step(tk.OP_MUL, ("square",), lambda a, _: a * a),)
    if exponent == 3.0:
        return (Step(tk.OP_MUL, ("square",), lambda a, _: a * a), _BY_INPUT)
    if exponent == 0.5:
        return _unary(tk.OP_DIV, "sqrt", np.sqrt)
    # A power of a negative base cannot go through a logarithm: the value is computed in one go.
    power = Step(tk.OP_EXP, ("power", exponent), lambda a, _: np.power(a, np.float32(exponent)))
    return (power, Step(tk.OP_EXP, ("same",), lambda a, _: a))


BINARY: Mapping[str, tuple[int, Function]] = {
    "Add": (tk.OP_ADD, np.add),
    "Sum": (tk.OP_ADD, np.add),
    "Sub": (tk.OP_ADD, np.subtract),
    "Mul": (tk.OP_MUL, np.multiply),
    "Div": (tk.OP_DIV, np.divide),
    "Max": (tk.OP_COMP, np.maximum),
    "Min": (tk.OP_COMP, np.minimum),
    "Mean": (tk.OP_ADD, np.add),
    "Pow": (tk.OP_EXP, np.power),
    "PRelu": (tk.OP_COMP, lambda a, slope: np.where(a < 0, a * slope, a)),
}
"""Operators of two or more inputs: opcode and function of the running value and the next input."""
