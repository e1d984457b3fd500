"""Compute one element of a DSD operation, on raw bits."""

import numpy as np

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.floats import bits_for, fused, single_bits, single_of, value_of

T_F32 = np.int64(isa.T_F32)


@inlined
def signed_16(word):
    """Return the signed value of a 16-bit word."""
    return ((word & 0xFFFF) ^ 0x8000) - 0x8000


@kernel
def operand_bytes(op, which):
    """Return the bytes of an element of an operand: which 0 destination, 1 first source, 2 second source, 3
    third.

    faddhs adds an f16 (first) to an f32 (second source); fmachs multiplies f16 (second) and adds to f32.
    """
    if op == isa.D_FADDHS:
        return 2 if which == 1 else 4
    if op == isa.D_FMACHS:
        return 4 if which < 2 else 2
    if op == isa.D_FH2S or op == isa.D_XP162FS:
        return 4 if which == 0 else 2
    if op == isa.D_FS2H or op == isa.D_FS2XP16:
        return 2 if which == 0 else 4
    if (
        op == isa.D_MOV32 or op == isa.D_FMOVS or op == isa.D_FADDS or op == isa.D_FSUBS
        or op == isa.D_FMULS or op == isa.D_FMAXS or op == isa.D_FMACS or op == isa.D_FNEGS
        or op == isa.D_FABSS or op == isa.D_FNORMS or op == isa.D_FSCALES or op == isa.D_DFILT
    ):  # fmt: skip
        return 4
    return 2


@inlined
def to_integer(value, low, high):
    """Return a float truncated to an integer within bounds; not a number gives 0."""
    if value != value:
        return 0
    if value <= low:
        return int(low)
    if value >= high:
        return int(high)
    return int(value)


@kernel
def leading_zeros(word):
    """Return the number of leading zero bits of a 16-bit word."""
    count = 16
    word &= 0xFFFF
    while word:
        word >>= 1
        count -= 1
    return count


@inlined
def integer_element(op, a, b):
    """Return the result of a 16-bit integer operation; bit 16 of the result of addc16 is the carry."""
    if op == isa.D_ADD16:
        return (a + b) & 0xFFFF
    if op == isa.D_SUB16:
        return (a - b) & 0xFFFF
    if op == isa.D_AND16:
        return a & b & 0xFFFF
    if op == isa.D_OR16:
        return (a | b) & 0xFFFF
    if op == isa.D_XOR16:
        return (a ^ b) & 0xFFFF
    if op == isa.D_SLL16:
        return (a << (b & 31)) & 0xFFFF
    if op == isa.D_SLR16:
        return (a & 0xFFFF) >> (b & 31)
    if op == isa.D_SAR16:
        return (signed_16(a) >> (b & 31)) & 0xFFFF
    if op == isa.D_CLZ:
        return leading_zeros(a)
    count = 0
    a &= 0xFFFF
    if op == isa.D_POPCNT:
        while a:
            count += a & 1
            a >>= 1
        return count
    if a == 0:
        return 16
    while (a & 1) == 0:
        a >>= 1
        count += 1
    return count


@kernel
def scaled(value, exponent):
    """Return a number times a power of two."""
    while exponent > 0 and value - value == 0.0 and value != 0.0 and exponent < 5000:
        step = exponent if exponent < 500 else 500
        value *= 2.0**step
        exponent -= step
    while exponent < 0 and value != 0.0:
        step = -exponent if exponent > -500 else 500
        value *= 2.0**-step
        exponent += step
    return value


@inlined
def normal_exponent(value):
    """Return the exponent e with 1 <= |value| / 2**e < 2; 0 for zero, infinities and not a number."""
    if value == 0.0 or value - value != 0.0:
        return 0
    exponent = 0
    if value < 0.0:
        value = -value
    while value >= 2.0:
        value *= 0.5
        exponent += 1
    while value < 1.0:
        value *= 2.0
        exponent -= 1
    return exponent


@kernel
def other_element(op, a, b, half):
    """Return the bits of the result of a conversion or of a rare operation."""
    if op == isa.D_FH2S:
        return single_bits(value_of(a, half))
    if op == isa.D_FS2H:
        return bits_for(single_of(a), half)
    if op == isa.D_XP162FH:
        return bits_for(1.0 * signed_16(a), half)
    if op == isa.D_XP162FS:
        return single_bits(1.0 * signed_16(a))
    if op == isa.D_FH2XP16:
        return to_integer(value_of(a, half), -32768.0, 32767.0) & 0xFFFF
    if op == isa.D_FS2XP16:
        return to_integer(single_of(a), -32768.0, 32767.0) & 0xFFFF
    kind = T_F32 if op == isa.D_FNORMS or op == isa.D_FSCALES else half
    value = value_of(a, kind)
    if op == isa.D_FNORMS or op == isa.D_FNORMH:
        return bits_for(scaled(value, -normal_exponent(value)), kind)
    if op == isa.D_FSCALES or op == isa.D_FSCALEH:
        return bits_for(scaled(value, signed_16(b)), kind)
    return integer_element(op, a, b)


@inlined
def _single_element(op, a, b):
    left, right = single_of(a), single_of(b)
    if op == isa.D_FADDS:
        return single_bits(left + right)
    if op == isa.D_FSUBS:
        return single_bits(left - right)
    if op == isa.D_FMULS:
        return single_bits(left * right)
    return a if left > right or right != right else b


@inlined
def element(op, operands, half, is_fused):
    """Return the bits of the result of one element from the bits of its three operands.

    half      16-bit float type of the program
    is_fused  whether fmacs rounds once
    A sum of two f32 in 64 bits, rounded to 32, is the correctly rounded sum; so are difference and product.
    """
    a, b, c = operands
    if op == isa.D_FMACS:
        if is_fused:
            return fused(single_of(a), single_of(b), single_of(c), T_F32)
        return single_bits(single_of(a) + single_of(single_bits(single_of(b) * single_of(c))))
    if op >= isa.D_FADDS and op <= isa.D_FMAXS and (op & 1) == 0:
        return _single_element(op, a, b)
    if op == isa.D_MOV32 or op == isa.D_FMOVS:
        return a
    if op == isa.D_MOV16 or op == isa.D_FMOVH:
        return a & 0xFFFF
    if op == isa.D_FADDH:
        return bits_for(value_of(a, half) + value_of(b, half), half)
    if op == isa.D_FSUBH:
        return bits_for(value_of(a, half) - value_of(b, half), half)
    if op == isa.D_FMULH:
        return bits_for(value_of(a, half) * value_of(b, half), half)
    if op == isa.D_FMACH:
        return fused(value_of(a, half), value_of(b, half), value_of(c, half), half)
    if op == isa.D_FMAXH:
        left, right = value_of(a, half), value_of(b, half)
        return a if left > right or right != right else b
    if op == isa.D_FMACHS:
        return single_bits(single_of(a) + value_of(b, half) * value_of(c, half))
    if op == isa.D_FADDHS:
        return single_bits(value_of(a, half) + single_of(b))
    if op == isa.D_FNEGS:
        return (a ^ 0x8000_0000) & 0xFFFF_FFFF
    if op == isa.D_FNEGH:
        return (a ^ 0x8000) & 0xFFFF
    if op == isa.D_FABSS:
        return a & 0x7FFF_FFFF
    if op == isa.D_FABSH:
        return a & 0x7FFF
    return other_element(op, a, b, half)
