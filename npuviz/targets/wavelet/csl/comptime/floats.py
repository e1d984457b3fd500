"""Round to float formats at compile time, and convert numbers to and from their bits."""

from __future__ import annotations

import math
import struct

from npuviz.targets.wavelet.csl.comptime import types as t

_CB16_BIAS = 42
"""DSD/TYP give 6.0 = 0x5900: 6 exponent bits, 9 mantissa bits, hence this bias."""


def round_to(kind: t.Type, value: float) -> float:
    """Return `value` rounded to nearest even in a format; overflow gives infinity."""
    if kind is t.COMPTIME_FLOAT:
        return value
    return from_bits(kind, to_bits(kind, value))


def to_bits(kind: t.Type, value: float) -> int:
    """Return the bits of `value` in a sized format."""
    if kind is t.F32:
        return _f32_bits(value)
    if kind is t.F16:
        try:
            return int.from_bytes(struct.pack("<e", value), "little")
        except OverflowError:
            return 0xFC00 if value < 0 else 0x7C00
    if kind is t.BF16:
        bits = _f32_bits(value)
        if math.isnan(value):
            return bits >> 16 | 0x40
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return _pack(value, 6, 9, _CB16_BIAS)


def from_bits(kind: t.Type, bits: int) -> float:
    """Return the number that bits stand for in a sized format."""
    if kind is t.F32:
        return struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    if kind is t.F16:
        return struct.unpack("<e", bits.to_bytes(2, "little"))[0]
    if kind is t.BF16:
        return struct.unpack("<f", (bits << 16).to_bytes(4, "little"))[0]
    return _unpack(bits, 6, 9, _CB16_BIAS)


def _f32_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0xFF800000 if value < 0 else 0x7F800000


def _pack(value: float, exponent_bits: int, mantissa_bits: int, bias: int) -> int:
    """Return the bits of a format with the usual codes for zero, subnormals, infinity and NaN."""
    sign = (1 if math.copysign(1.0, value) < 0 else 0) << (exponent_bits + mantissa_bits)
    top = (1 << exponent_bits) - 1
    if math.isnan(value):
        return sign | top << mantissa_bits | 1 << (mantissa_bits - 1)
    if math.isinf(value):
        return sign | top << mantissa_bits
    if value == 0:
        return sign
    exponent = max(math.frexp(abs(value))[1] - 1, 1 - bias)
    scaled = round(math.ldexp(abs(value), mantissa_bits - exponent))
    if scaled >> (mantissa_bits + 1):
        scaled >>= 1
        exponent += 1
    if scaled >> mantissa_bits == 0:
        return sign | scaled
    if exponent + bias >= top:
        return sign | top << mantissa_bits
    return sign | (exponent + bias) << mantissa_bits | scaled & ((1 << mantissa_bits) - 1)


def _unpack(bits: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    sign = -1.0 if bits >> (exponent_bits + mantissa_bits) & 1 else 1.0
    top = (1 << exponent_bits) - 1
    exponent = bits >> mantissa_bits & top
    mantissa = bits & ((1 << mantissa_bits) - 1)
    if exponent == top:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa | 1 << mantissa_bits, exponent - bias - mantissa_bits)
