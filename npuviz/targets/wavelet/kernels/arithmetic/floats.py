"""Convert floating-point numbers to and from bits, with exactly rounded arithmetic of 16-bit and 32-bit
formats.

Formats by name of isa.py: f16 (5 exponent bits, 10 mantissa bits), bf16 (8, 7), cb16 (6, 9) and f32. A 16-bit
result is computed in 64-bit arithmetic, where sums and products of two 16-bit numbers are exact, and rounded
once to nearest even. Not a number always has the same bits here: on processors, its bits depend on the order
of operands.
"""

import struct
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float32, float64, int64, types

from npuviz.sim.parts.bits_kernels import inlined, intrinsic_or, kernel
from npuviz.targets.wavelet.kernels.isa import T_BF16, T_CB16, T_F16, T_F32


def _double_of(_context: Any, word: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


def _bits_of(_context: Any, value: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _single_of(_context: Any, word: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), generate


def _single_bits(_context: Any, value: Any) -> Any:
    def generate(_code: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float32), generate


def _plain_double_of(word: Any) -> float:
    return struct.unpack("<d", struct.pack("<q", int(word)))[0]


def _plain_bits_of(value: Any) -> int:
    return struct.unpack("<q", struct.pack("<d", float(value)))[0]


def _plain_single_of(word: Any) -> float:
    return struct.unpack("<f", struct.pack("<I", int(word) & 0xFFFF_FFFF))[0]


def _plain_single_bits(value: Any) -> int:
    try:
        return struct.unpack("<I", struct.pack("<f", float(value)))[0]
    except OverflowError:
        return 0x7F80_0000 if value > 0 else 0xFF80_0000


double_of: Any = intrinsic_or(_double_of, _plain_double_of)
"""Return the 64-bit float that has the bits of a word."""

bits_of: Any = intrinsic_or(_bits_of, _plain_bits_of)
"""Return the bits of a 64-bit float, as a signed word."""

_single: Any = intrinsic_or(_single_of, _plain_single_of)
_single_word: Any = intrinsic_or(_single_bits, _plain_single_bits)

# Bits of exponent and mantissa, and bias. With plain ints instead of numpy numbers, numba would compile a
# kernel for each format.
F16_EXPONENT, F16_MANTISSA, F16_BIAS = np.int64(5), np.int64(10), np.int64(15)
BF16_EXPONENT, BF16_MANTISSA, BF16_BIAS = np.int64(8), np.int64(7), np.int64(127)
CB16_EXPONENT, CB16_MANTISSA, CB16_BIAS = np.int64(6), np.int64(9), np.int64(42)

SINGLE_NAN = 0x7FC0_0000


@inlined
def single_of(word):
    """Return the value of f32 bits, as a 64-bit float."""
    return float64(_single(int64(word)))


@inlined
def single_bits(value):
    """Return the f32 bits of a number, rounded to nearest even."""
    return SINGLE_NAN if value != value else int64(_single_word(float32(value)))


@kernel
def widen(word, exponent_bits, mantissa_bits, bias):
    """Return the value of the bits of a 16-bit float."""
    sign = (word >> 15) & 1
    exponent = (word >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = word & ((1 << mantissa_bits) - 1)
    top = (1 << exponent_bits) - 1
    if exponent == top:
        bits = (2047 << 52) | (mantissa << (52 - mantissa_bits))
    elif exponent != 0:
        bits = ((exponent - bias + 1023) << 52) | (mantissa << (52 - mantissa_bits))
    else:
        # Subnormal: an integer times a power of two, exact.
        value = float64(mantissa) * double_of((1 - bias - mantissa_bits + 1023) << 52)
        return -value if sign else value
    value = double_of(bits)
    return -value if sign else value


@kernel
def narrow(value, exponent_bits, mantissa_bits, bias):
    """Return the bits of a 16-bit float for a number, rounded once to nearest even; too large becomes
    infinite."""
    if value != value:
        return ((1 << (exponent_bits + 1)) - 1) << (mantissa_bits - 1)
    bits = bits_of(value)
    sign = 0x8000 if bits < 0 else 0
    bits &= 0x7FFF_FFFF_FFFF_FFFF
    top = (1 << exponent_bits) - 1
    exponent = (bits >> 52) - 1023 + bias
    mantissa = bits & ((1 << 52) - 1)
    if (bits >> 52) == 2047:
        return sign | (top << mantissa_bits)
    if (bits >> 52) == 0:
        return sign
    shift = 52 - mantissa_bits
    if exponent <= 0:
        shift += 1 - exponent
        if shift > 54:
            return sign
        mantissa |= 1 << 52
        exponent = 0
    whole = mantissa >> shift
    rest = mantissa & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    if rest > half or (rest == half and (whole & 1)):
        whole += 1
    result = (exponent << mantissa_bits) + whole
    if result >= top << mantissa_bits:
        return sign | (top << mantissa_bits)
    return sign | result


@kernel
def value_of(word, kind):
    """Return the number that bits of a float type (T_...) stand for, exact."""
    if kind == T_F32:
        return single_of(word)
    if kind == T_F16:
        return widen(word & 0xFFFF, F16_EXPONENT, F16_MANTISSA, F16_BIAS)
    if kind == T_BF16:
        return widen(word & 0xFFFF, BF16_EXPONENT, BF16_MANTISSA, BF16_BIAS)
    return widen(word & 0xFFFF, CB16_EXPONENT, CB16_MANTISSA, CB16_BIAS)


@kernel
def bits_for(value, kind):
    """Return the bits of a number in a float type, rounded once to nearest even."""
    if kind == T_F32:
        return single_bits(value)
    if kind == T_F16:
        return narrow(value, F16_EXPONENT, F16_MANTISSA, F16_BIAS)
    if kind == T_BF16:
        return narrow(value, BF16_EXPONENT, BF16_MANTISSA, BF16_BIAS)
    return narrow(value, CB16_EXPONENT, CB16_MANTISSA, CB16_BIAS)


@inlined
def is_float(kind):
    """Return whether a value type is a float."""
    return kind == T_F32 or kind == T_F16 or kind == T_BF16 or kind == T_CB16


@kernel
def fused(addend, left, right, kind):
    """Return the bits of left * right + addend for numbers of one type, rounded once.

    The product is exact in 64 bits. Where the sum is not, it is rounded to odd first, so that the second
    rounding is that of the exact sum.
    """
    product = left * right
    total = product + addend
    if total - total != 0.0:
        return bits_for(total, kind)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    if error != 0.0:
        bits = bits_of(total)
        if (bits & 1) == 0:
            # One unit in the last place towards the exact sum makes the last bit odd.
            away = (error > 0.0) == (total > 0.0)
            bits = bits + 1 if away else bits - 1
            total = double_of(bits)
    return bits_for(total, kind)
