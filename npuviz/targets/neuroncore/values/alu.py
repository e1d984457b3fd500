"""The ALU operators: in fp32, on bit patterns, or in integers. Ref: SHARED (section 2.4).

Every function is `f(x, y, out)`; x and y are arrays or numbers that broadcast to `out`, which may be x
or y. Numpy's warnings must be off.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from npuviz.targets.neuroncore.isa import Alu

Values = Any
"""An array or a Python number."""
ALL_OPERATORS = frozenset(Alu)
Binary = Callable[[Values, Values, np.ndarray], object]


def _ufunc(function: np.ufunc) -> Binary:
    return lambda x, y, out: function(x, y, out=out, casting="unsafe")


def _unary(function: Callable[[Values], Values]) -> Binary:
    return lambda x, y, out: np.copyto(out, function(x), casting="unsafe")


def _bypass(x: Values, y: Values, out: np.ndarray) -> None:
    np.copyto(out, x, casting="unsafe")


def _magnitudes(function: np.ufunc) -> Binary:
    return lambda x, y, out: function(np.abs(x), np.abs(y), out=out)


def _average(x: Values, y: Values, out: np.ndarray) -> None:
    np.multiply(np.add(x, y), 0.5, out=out)


FLOAT_OPERATORS: dict[int, Binary] = {
    Alu.BYPASS: _bypass,
    Alu.ADD: _ufunc(np.add),
    Alu.SUBTRACT: _ufunc(np.subtract),
    Alu.MULTIPLY: _ufunc(np.multiply),
    Alu.DIVIDE: _ufunc(np.divide),
    Alu.MAXIMUM: _ufunc(np.maximum),
    Alu.MINIMUM: _ufunc(np.minimum),
    Alu.MOD: _ufunc(np.remainder),
    Alu.POWER: _ufunc(np.power),
    Alu.EQUAL: _ufunc(np.equal),
    Alu.NOT_EQUAL: _ufunc(np.not_equal),
    Alu.GREATER: _ufunc(np.greater),
    Alu.GREATER_EQUAL: _ufunc(np.greater_equal),
    Alu.LESS: _ufunc(np.less),
    Alu.LESS_EQUAL: _ufunc(np.less_equal),
    Alu.LOGICAL_AND: _ufunc(np.logical_and),
    Alu.LOGICAL_OR: _ufunc(np.logical_or),
    Alu.LOGICAL_XOR: _ufunc(np.logical_xor),
    Alu.ABS_MAX: _magnitudes(np.maximum),
    Alu.ABS_MIN: _magnitudes(np.minimum),
    Alu.AVERAGE: _average,
    Alu.ABS: _unary(np.abs),
    Alu.SQUARE: _unary(np.square),
    Alu.RELU: lambda x, y, out: np.maximum(x, 0, out=out),
    Alu.RSQRT: lambda x, y, out: np.divide(1.0, np.sqrt(x), out=out),
    Alu.RECIPROCAL: lambda x, y, out: np.divide(1.0, x, out=out),
    Alu.LOGICAL_NOT: _unary(np.logical_not),
}
"""Arithmetic operators on float32."""


def _wide(values: Values) -> Values:
    return values.astype(np.int64) if isinstance(values, np.ndarray) else int(values)


def _divide_whole(x: Values, y: Values, out: np.ndarray) -> None:
    """Compute the quotient, rounded towards 0; division by 0 gives 0 (assumed)."""
    a, b = np.broadcast_arrays(_wide(x), _wide(y))
    quotient = np.floor_divide(np.abs(a), np.maximum(np.abs(b), 1))
    np.copyto(out, np.where(b == 0, 0, np.sign(a) * np.sign(b) * quotient), casting="unsafe")


def _remainder_whole(x: Values, y: Values, out: np.ndarray) -> None:
    """Compute the remainder with the sign of the divisor; 0 for a divisor of 0 (assumed)."""
    a, b = np.broadcast_arrays(_wide(x), _wide(y))
    found = np.remainder(a, np.where(b == 0, 1, b))
    np.copyto(out, np.where(b == 0, 0, found), casting="unsafe")


def _power_whole(x: Values, y: Values, out: np.ndarray) -> None:
    """Compute the power modulo 2**32; a negative exponent gives the quotient rounded towards 0."""
    base, exponent = np.broadcast_arrays(_wide(x), _wide(y))
    square = base.astype(np.uint64)
    left = np.maximum(exponent, 0).astype(np.uint64)
    made = np.ones(base.shape, np.uint64)
    while left.any():
        np.copyto(made, made * square, where=(left & np.uint64(1)).astype(np.bool_))
        square = square * square
        left = left >> np.uint64(1)
    inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2 == 0, 1, -1), 0))
    np.copyto(out, np.where(exponent < 0, inverse, made.astype(np.int64)), casting="unsafe")


def _relu_whole(x: Values, y: Values, out: np.ndarray) -> None:
    np.maximum(x, 0, out=out)


INTEGER_OPERATORS: dict[int, Binary] = {
    **{op: apply for op, apply in FLOAT_OPERATORS.items() if op not in (Alu.RSQRT, Alu.RECIPROCAL)},
    Alu.DIVIDE: _divide_whole,
    Alu.MOD: _remainder_whole,
    Alu.POWER: _power_whole,
    Alu.AVERAGE: lambda x, y, out: np.copyto(out, (_wide(x) + _wide(y)) >> 1, casting="unsafe"),
    Alu.RELU: _relu_whole,
}
"""Operators of GpSimd on int32 (or uint32) with wraparound; there is no rsqrt and no reciprocal."""


def _shift(function: np.ufunc, fill_sign: bool = False) -> Binary:
    def shifted(x: Values, y: Values, out: np.ndarray) -> None:
        # Numpy does not define shifts by the width or more.
        amount = np.minimum(np.asarray(y).astype(np.uint32), 63).astype(np.int64)
        wide = np.asarray(x).astype(np.int64)
        if not fill_sign:
            wide = wide & 0xFFFFFFFF
        np.copyto(out, function(wide, amount), casting="unsafe")

    return shifted


PATTERN_OPERATORS: dict[int, Binary] = {
    Alu.BITWISE_AND: _ufunc(np.bitwise_and),
    Alu.BITWISE_OR: _ufunc(np.bitwise_or),
    Alu.BITWISE_XOR: _ufunc(np.bitwise_xor),
    Alu.LEFT_SHIFT: _shift(np.left_shift),
    Alu.RIGHT_SHIFT: _shift(np.right_shift),
    Alu.ARITHMETIC_RIGHT_SHIFT: _shift(np.right_shift, fill_sign=True),
    Alu.INVERT: _unary(np.invert),
}
"""Operators on bit patterns. Ref: SHARED; the arithmetic right shift fills with the sign."""

REDUCTIONS: dict[int, np.ufunc] = {
    Alu.ADD: np.add,
    Alu.SUBTRACT: np.subtract,
    Alu.MULTIPLY: np.multiply,
    Alu.MAXIMUM: np.maximum,
    Alu.MINIMUM: np.minimum,
    Alu.LOGICAL_AND: np.logical_and,
    Alu.LOGICAL_OR: np.logical_or,
    Alu.LOGICAL_XOR: np.logical_xor,
    Alu.BITWISE_AND: np.bitwise_and,
    Alu.BITWISE_OR: np.bitwise_or,
    Alu.BITWISE_XOR: np.bitwise_xor,
}
"""Operators that are legal as a reduction. Ref: SHARED. Also abs_max and abs_min (of magnitudes)."""


def reduce_values(op: int, values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Reduce `values` over trailing axes; the result has the same type, also for logical operators.

    Raises KeyError for an operator that is no reduction.
    """
    if op in (Alu.ABS_MAX, Alu.ABS_MIN):
        values, op = np.abs(values), Alu.MAXIMUM if op == Alu.ABS_MAX else Alu.MINIMUM
    function = REDUCTIONS[op]
    if op == Alu.SUBTRACT:
        flat = values.reshape(*values.shape[: values.ndim - len(axes)], -1)
        return flat[..., 0] - np.add.reduce(flat[..., 1:], axis=-1, dtype=values.dtype)
    if op in (Alu.LOGICAL_AND, Alu.LOGICAL_OR, Alu.LOGICAL_XOR):
        if op == Alu.LOGICAL_XOR:
            values = values.reshape(*values.shape[: values.ndim - len(axes)], -1)
            axes = (values.ndim - 1,)
        return function.reduce(values, axis=axes).astype(values.dtype)
    if op == Alu.MULTIPLY and len(axes) > 1:
        values = values.reshape(*values.shape[: values.ndim - len(axes)], -1)
        axes = (values.ndim - 1,)
    if op in (Alu.ADD, Alu.MULTIPLY):
        return function.reduce(values, axis=axes, dtype=values.dtype)
    return function.reduce(values, axis=axes)
