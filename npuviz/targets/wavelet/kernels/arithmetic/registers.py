"""Compute operations of the scalar pipeline on register words: integers extended by their sign, floats as
bits."""

import math

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.arithmetic.elements import leading_zeros, scaled
from npuviz.targets.wavelet.kernels.arithmetic.floats import bits_for, is_float, value_of
from npuviz.targets.wavelet.kernels.memory import wrapped

INFINITE = math.inf
WHOLE = 2.0**52
"""Floats of this size and larger have no fraction."""


@kernel
def float_operation(op, left, right):
    """Return the result of a float operation on numbers; the caller rounds it once."""
    if op == isa.OP_ADD:
        return left + right
    if op == isa.OP_SUB:
        return left - right
    if op == isa.OP_MUL:
        return left * right
    if op == isa.OP_DIV:
        if right == 0.0:
            if left == 0.0 or left != left:
                return INFINITE - INFINITE
            return INFINITE if (left > 0.0) == (math.copysign(1.0, right) > 0.0) else -INFINITE
        return left / right
    if op == isa.OP_MIN:
        return left if left < right or right != right else right
    if op == isa.OP_MAX:
        return left if left > right or right != right else right
    if right == 0.0 or left - left != 0.0:
        return INFINITE - INFINITE
    rest = math.fabs(left) % math.fabs(right)
    return -rest if left < 0.0 else rest


@kernel
def integer_operation(op, left, right):
    """Return the result of an integer operation; the caller wraps it. Division by zero gives 0 (assumed)."""
    if op == isa.OP_ADD:
        return left + right
    if op == isa.OP_SUB:
        return left - right
    if op == isa.OP_MUL:
        return left * right
    if op == isa.OP_AND:
        return left & right
    if op == isa.OP_OR:
        return left | right
    if op == isa.OP_XOR:
        return left ^ right
    if op == isa.OP_SHL:
        return left << right if right >= 0 and right < 64 else 0
    if op == isa.OP_SHR:
        if right < 0 or right > 63:
            return -1 if left < 0 else 0
        return left >> right
    if op == isa.OP_MIN:
        return left if left < right else right
    if op == isa.OP_MAX:
        return left if left > right else right
    if right == 0:
        return 0
    if right == -1:
        return -left if op == isa.OP_DIV else 0
    quotient = left // right
    if quotient < 0 and quotient * right != left:
        quotient += 1
    return quotient if op == isa.OP_DIV else left - quotient * right


@kernel
def binary(op, kind, left, right):
    """Return the result of OP_ADD .. OP_MAX on register words of a type."""
    if is_float(kind):
        return bits_for(float_operation(op, value_of(left, kind), value_of(right, kind)), kind)
    return wrapped(integer_operation(op, left, right), kind)


@kernel
def unary(op, kind, word):
    """Return the result of OP_NEG .. OP_ABS on a register word of a type."""
    if op == isa.OP_NOT:
        return 1 if word == 0 else 0
    if is_float(kind):
        sign = 0x8000_0000 if kind == isa.T_F32 else 0x8000
        return word ^ sign if op == isa.OP_NEG else word & ~sign
    if op == isa.OP_NEG:
        return wrapped(-word, kind)
    if op == isa.OP_INV:
        return wrapped(~word, kind)
    return wrapped(-word if word < 0 else word, kind)


@kernel
def _compared(op, a, b):
    if op == isa.OP_EQ:
        return 1 if a == b else 0
    if op == isa.OP_NE:
        return 1 if a != b else 0
    if op == isa.OP_LT:
        return 1 if a < b else 0
    if op == isa.OP_LE:
        return 1 if a <= b else 0
    if op == isa.OP_GT:
        return 1 if a > b else 0
    return 1 if a >= b else 0


@kernel
def compare(op, kind, left, right):
    """Return the result of OP_EQ .. OP_GE: 1 or 0."""
    if is_float(kind):
        return _compared(op, value_of(left, kind), value_of(right, kind))
    return _compared(op, left, right)


@kernel
def _truncated(value, kind):
    """Return a float truncated to an integer type.

    Beyond 64 bits it gives about the nearest 64-bit bound, not a number gives 0.
    """
    if value != value:
        return 0
    if value >= 9.2e18:
        return 0x7FFF_FFFF_FFFF_F000
    if value <= -9.2e18:
        return -0x7FFF_FFFF_FFFF_F000
    return wrapped(int(value), kind)


@kernel
def converted(word, source, target):
    """Return a register word of one type as another type; floats to integers truncate."""
    if is_float(source):
        if is_float(target):
            return word if source == target else bits_for(value_of(word, source), target)
        return _truncated(value_of(word, source), target)
    if is_float(target):
        return bits_for(float(word), target)
    return wrapped(word, target)


@kernel
def _integer_function(number, word, kind):
    size = 16 if kind == isa.T_U16 or kind == isa.T_I16 else (8 if kind <= isa.T_I8 else 32)
    bits = word & ((1 << size) - 1)
    if number == isa.M_CLZ:
        if size == 32:
            high = leading_zeros(bits >> 16)
            return high if high < 16 else 16 + leading_zeros(bits)
        return leading_zeros(bits) - (16 - size)
    count = 0
    if number == isa.M_POPCOUNT:
        while bits:
            count += bits & 1
            bits >>= 1
        return count
    if bits == 0:
        return size
    while (bits & 1) == 0:
        bits >>= 1
        count += 1
    return count


@kernel
def _float_function(number, value, other):
    if number == isa.M_SQRT:
        return math.sqrt(value) if value >= 0.0 else INFINITE - INFINITE
    if number == isa.M_EXP:
        return math.exp(value) if value < 700.0 else INFINITE
    if number == isa.M_LOG:
        if value == 0.0:
            return -INFINITE
        return math.log(value) if value > 0.0 else INFINITE - INFINITE
    if number == isa.M_SIN:
        return math.sin(value)
    if number == isa.M_COS:
        return math.cos(value)
    if number == isa.M_TANH:
        return math.tanh(value)
    if number == isa.M_RSQRT:
        if value == 0.0:
            return INFINITE
        return 1.0 / math.sqrt(value) if value > 0.0 else INFINITE - INFINITE
    if number == isa.M_SIGMOID:
        return 1.0 / (1.0 + math.exp(-value)) if value > -700.0 else 0.0
    if number == isa.M_INVERSE:
        if value == 0.0:
            return INFINITE if math.copysign(1.0, value) > 0.0 else -INFINITE
        return 1.0 / value
    if number == isa.M_POW:
        return power(value, other)
    if math.fabs(value) >= WHOLE:
        return value
    whole = math.floor(value)
    if number == isa.M_CEIL and whole < value:
        return whole + 1.0
    return float(whole)


@kernel
def power(base, exponent):
    """Return base ** exponent with the special cases of C."""
    if exponent == 0.0 or base == 1.0:
        return 1.0
    if base != base or exponent != exponent:
        return base + exponent
    if base == 0.0:
        return 0.0 if exponent > 0.0 else INFINITE
    if base < 0.0 and exponent - exponent == 0.0 and exponent % 1.0 != 0.0:
        return INFINITE - INFINITE
    size = exponent * math.log(math.fabs(base))
    if size > 709.0:
        return INFINITE
    result = math.fabs(base) ** exponent
    if base < 0.0 and math.fabs(exponent) % 2.0 == 1.0:
        return -result
    return result


@kernel
def function_of(number, kind, word, other):
    """Return function `number` of OP_MATH of register words of a type; computed in 64 bits and rounded
    once."""
    if number == isa.M_CLZ or number == isa.M_CTZ or number == isa.M_POPCOUNT:
        return _integer_function(number, word, kind)
    if not is_float(kind):
        return word
    value = value_of(word, kind)
    if number == isa.M_LDEXP:
        return bits_for(scaled(value, other), kind)
    if value != value:
        return word
    if value - value != 0.0 and number != isa.M_POW:
        return bits_for(_of_infinite(number, value), kind)
    return bits_for(
        _float_function(number, value, value_of(other, kind) if number == isa.M_POW else 0.0), kind
    )


@kernel
def _of_infinite(number, value):
    if number == isa.M_EXP:
        return value if value > 0.0 else 0.0
    if number == isa.M_TANH:
        return 1.0 if value > 0.0 else -1.0
    if number == isa.M_SIGMOID:
        return 1.0 if value > 0.0 else 0.0
    if number == isa.M_INVERSE or number == isa.M_RSQRT:
        return 0.0
    if number == isa.M_SIN or number == isa.M_COS or (value < 0.0 and number <= isa.M_LOG):
        return INFINITE - INFINITE
    return value
