"""Describe activation operators as functions, with the domain that a table has to cover."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.semantics.attributes import Attributes
from npuviz.targets.rk3588.compiler.lookup_table import Function


@dataclass(frozen=True, slots=True)
class ActivationFunction:
    """The function of one operator; outside `low` to `high` it is so straight that its slope is continued."""

    function: Function
    low: int
    high: int


def activation_function(op_type: str, attributes: Attributes) -> ActivationFunction | None:
    """Return a function with its attributes, None if it is no activation for a table.

    op_type  of a node, or "Silu" for x * Sigmoid(x), which ONNX has as two operators
    """
    maker = _MAKERS.get(op_type)
    if maker is None:
        return None
    make, half_width = maker
    return ActivationFunction(make(attributes), -half_width, half_width)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -60, 60)))


def _gelu(attributes: Attributes) -> Function:
    if attributes.text("approximate") == "tanh":
        factor = math.sqrt(2 / math.pi)
        return lambda x: 0.5 * x * (1 + np.tanh(factor * (x + 0.044715 * x**3)))
    return lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(value) for value in np.reshape(x, -1).tolist()]).reshape(np.shape(x))


def _elu(attributes: Attributes) -> Function:
    alpha = attributes.real("alpha")
    return lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _selu(attributes: Attributes) -> Function:
    alpha, gamma = attributes.real("alpha"), attributes.real("gamma")
    return lambda x: gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(attributes: Attributes) -> Function:
    alpha = attributes.real("alpha")
    return lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _leaky(attributes: Attributes) -> Function:
    alpha = attributes.real("alpha")
    return lambda x: np.where(x > 0, x, alpha * x)


def _hard_sigmoid(attributes: Attributes) -> Function:
    alpha, beta = attributes.real("alpha"), attributes.real("beta")
    return lambda x: np.clip(alpha * x + beta, 0, 1)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, x)


def _plain(function: Function) -> Callable[[Attributes], Function]:
    return lambda attributes: function


_MAKERS: Mapping[str, tuple[Callable[[Attributes], Function], int]] = {
    # At 8 it is still 3.4e-4 from level, seven times the error of the table itself.
    "Sigmoid": (_plain(_sigmoid), 16),
    "Tanh": (_plain(np.tanh), 8),
    "Silu": (_plain(lambda x: x * _sigmoid(x)), 16),
    "Swish": (_plain(lambda x: x * _sigmoid(x)), 16),
    "HardSwish": (_plain(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)), 8),
    "HardSigmoid": (_hard_sigmoid, 8),
    "Gelu": (_gelu, 8),
    "Elu": (_elu, 8),
    "Selu": (_selu, 8),
    "Celu": (_celu, 8),
    "LeakyRelu": (_leaky, 8),
    "Softplus": (_plain(_softplus), 8),
    "Mish": (_plain(lambda x: x * np.tanh(_softplus(x))), 16),
    "Erf": (_plain(_erf), 4),
}
"""Operator -> function, and half the width of its domain."""
