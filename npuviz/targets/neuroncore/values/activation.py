"""The functions of the activation instruction, in fp32, and the ranges of their valid inputs.

Ref: SHARED (names and ranges), ACTDOC; the formulas are the usual ones. The hardware approximates them by
piecewise polynomials, so its results differ from these in the last bits.
"""

import math
from collections.abc import Callable

import numpy as np

from npuviz.targets.neuroncore.isa import Activation
from npuviz.targets.neuroncore.kernels import values as vk

Function = Callable[[np.ndarray, np.ndarray, float], object]
"""f(x, out, alpha) writes into out; x is a contiguous temporary that may be overwritten; out may be x."""

RANGES: dict[int, tuple[float, float]] = {
    Activation.LOG: (2.0**-64, 2.0**64),
    Activation.SIN: (-float(np.float32(math.pi)), float(np.float32(math.pi))),
    Activation.ARCTAN: (-float(np.float32(math.pi / 2)), float(np.float32(math.pi / 2))),
    Activation.SQRT: (2.0**-116, 2.0**118),
    Activation.RSQRT: (2.0**-87, 2.0**97),
    Activation.RECIPROCAL: (2.0**-42, 2.0**42),
}
"""Valid inputs, ends included; for RECIPROCAL their magnitude. Other functions take any input."""


def outside_range(function: int, values: np.ndarray) -> tuple[int, float] | None:
    """Return flat index and value of the first input outside the function's range, or None."""
    valid = RANGES.get(function)
    if valid is None:
        return None
    checked = np.abs(values) if function == Activation.RECIPROCAL else values
    low, high = np.float32(valid[0]), np.float32(valid[1])
    if checked.min() >= low and checked.max() <= high:
        return None
    wrong = ~((checked >= low) & (checked <= high))
    index = int(wrong.reshape(-1).argmax())
    return index, float(values.reshape(-1)[index])


def range_text(function: int) -> str:
    """Return the valid range as text."""
    low, high = RANGES[function]
    if function == Activation.SIN:
        return "[-pi, pi]"
    if function == Activation.ARCTAN:
        return "[-pi/2, pi/2]"
    text = f"[2^{round(math.log2(low))}, 2^{round(math.log2(high))}]"
    return f"magnitude in {text}" if function == Activation.RECIPROCAL else text


def _copy(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    if x is not out:
        np.copyto(out, x)


def _prelu(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    np.copyto(out, np.where(x > 0, x, x * np.float32(alpha)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^-x)."""
    return np.divide(1.0, np.add(np.exp(-x), 1.0))


def _normal(function: int) -> Function:
    def run(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
        vk.normal_functions(x.reshape(-1), function)
        _copy(x, out, alpha)

    return run


def _erf_dx(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    np.multiply(np.exp(-np.square(x)), np.float32(2.0 / math.sqrt(math.pi)), out=out)


def _gelu_tanh(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    inner = np.float32(math.sqrt(2.0 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    np.multiply(np.float32(0.5) * x, np.tanh(inner) + np.float32(1.0), out=out)


def _times_sigmoid(factor: float) -> Function:
    def run(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
        np.multiply(x, sigmoid(x * np.float32(factor)), out=out)

    return run


def _times_sigmoid_dx(factor: float) -> Function:
    def run(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
        scaled = x * np.float32(factor)
        share = sigmoid(scaled)
        # Where the sigmoid is exactly 0 or 1 it is the derivative, too (the formula gives NaN for an
        # infinite x).
        slope = np.where((share == 0) | (share == 1), 0, scaled * (np.float32(1.0) - share))
        np.multiply(share, slope + np.float32(1.0), out=out)

    return run


def softplus(x: np.ndarray) -> np.ndarray:
    """Return ln(1 + e^x), without overflow for large x."""
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def _mish(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    np.multiply(x, np.tanh(softplus(x)), out=out)


def _sin(x: np.ndarray, out: np.ndarray, alpha: float) -> None:
    """Compute sin; beyond +-pi continue the last polynomial, a cubic. Ref: ACTDOC (sin(9.0) is about
    27.65).
    """
    pi = np.float32(math.pi)
    beyond = np.abs(x) > pi
    if beyond.any():
        d = x - np.copysign(pi, x)
        np.copyto(out, np.where(beyond, d * d * d / np.float32(6.0) - d, np.sin(x)))
    else:
        np.sin(x, out=out)


FUNCTIONS: dict[int, Function] = {
    Activation.COPY: _copy,
    Activation.SQUARE: lambda x, out, alpha: np.square(x, out=out),
    Activation.SIGN: lambda x, out, alpha: np.sign(x, out=out),
    Activation.ABS: lambda x, out, alpha: np.abs(x, out=out),
    Activation.SIGMOID: lambda x, out, alpha: np.copyto(out, sigmoid(x)),
    Activation.TANH: lambda x, out, alpha: np.tanh(x, out=out),
    Activation.EXP: lambda x, out, alpha: np.exp(x, out=out),
    Activation.RELU: lambda x, out, alpha: np.maximum(x, 0, out=out),
    Activation.PRELU: _prelu,
    Activation.GELU: _normal(vk.GELU),
    Activation.GELU_DX: _normal(vk.GELU_DX),
    Activation.ERF: _normal(vk.ERF),
    Activation.ERF_DX: _erf_dx,
    Activation.GELU_APPRX_TANH: _gelu_tanh,
    Activation.GELU_APPRX_SIGMOID: _times_sigmoid(1.702),
    Activation.GELU_APPRX_SIGMOID_DX: _times_sigmoid_dx(1.702),
    Activation.SILU: _times_sigmoid(1.0),
    Activation.SILU_DX: _times_sigmoid_dx(1.0),
    Activation.SOFTPLUS: lambda x, out, alpha: np.copyto(out, softplus(x)),
    Activation.MISH: _mish,
    Activation.LOG: lambda x, out, alpha: np.log(x, out=out),
    Activation.SIN: _sin,
    Activation.ARCTAN: lambda x, out, alpha: np.arctan(x, out=out),
    Activation.SQRT: lambda x, out, alpha: np.sqrt(x, out=out),
    Activation.RSQRT: lambda x, out, alpha: np.divide(1.0, np.sqrt(x), out=out),
    Activation.RECIPROCAL: lambda x, out, alpha: np.divide(1.0, x, out=out),
}
