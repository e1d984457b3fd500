"""Building blocks of formulas: a few instructions on any mix of tiles and numbers."""

import math

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import BITVEC, Alu, Space

Operand = View | float | int
"""A tile of the destination's shape, one value a partition (free size 1), or a number."""

INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"})
WIDE = frozenset({"int32", "uint32"})
"""Integer types that fp32 cannot hold exactly."""
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "bool"})
BITS = {"int8": 8, "uint8": 8, "bool": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32}

_COMPARISONS = frozenset(range(Alu.EQUAL, Alu.LESS_EQUAL + 1))

ROUNDING = 12582912.0
"""1.5 * 2^23: adding and subtracting it rounds an fp32 number below 2^22 half to even."""
ROUNDING_LIMIT = 4194304.0


def temporary(b: Builder, like: View, dtype: str = "float32") -> View:
    """Open a tile of `like`'s partitions and shape for an intermediate value."""
    return b.tiles.sbuf(like.partitions, like.shape, dtype)


def row_of(x: View) -> View | None:
    """Return `x` as one value a partition (P, 1) if it repeats one element in each partition, else None."""
    if any(size > 1 and step for size, step in zip(x.shape, x.steps, strict=True)):
        return None
    return x[(slice(None), *(slice(0, 1) for _ in x.shape))].reshape(1)


def column_of(x: Operand, dst: View) -> View | None:
    """Return `x` as one value a partition if it is that and `dst` has more elements, else None."""
    return row_of(x) if isinstance(x, View) and dst.free_size > 1 else None


def spread(x: View, dst: View) -> View:
    """Return `x` broadcast to the shape of `dst`."""
    if x.shape == dst.shape:
        return x
    if x.free_size == 1:
        return x.reshape(*(1,) * max(1, len(dst.shape))).broadcast(*dst.shape)
    return x.broadcast(*dst.shape)


def as_tile(b: Builder, x: Operand, dst: View, dtype: str = "") -> View:
    """Return `x` as a tile of the shape of `dst`; a number fills a new tile."""
    if isinstance(x, View):
        return spread(x, dst)
    filled = temporary(b, dst, dtype or dst.dtype)
    b.isa.memset(filled, x)
    return filled


def in_sbuf(b: Builder, x: View) -> View:
    """Return `x`, copied to SBUF if it is in PSUM: instructions cannot read PSUM twice, and GpSimd not at
    all.
    """
    if x.space == Space.SBUF:
        return x
    copied = temporary(b, x)
    b.isa.copy(copied, x)
    return copied


def binary(b: Builder, dst: View, x: Operand, y: Operand, op: Alu, *, integer: bool = False) -> None:
    """Emit dst = x op y, in fp32 or, with `integer`, in 32-bit integers on GpSimd."""
    if not isinstance(x, View):
        if not isinstance(y, View):
            x = as_tile(b, x, dst)
        else:
            scalar(b, dst, y, op, x, reverse=True, integer=integer)
            return
    if not isinstance(y, View):
        scalar(b, dst, x, op, y, integer=integer)
        return
    column, other = column_of(x, dst), column_of(y, dst)
    if not integer and other is not None and column is None and other.dtype == "float32":
        b.isa.tensor_scalar(dst, spread(x, dst), op, other)
    elif not integer and column is not None and other is None and column.dtype == "float32":
        b.isa.tensor_scalar(dst, spread(y, dst), op, column, reverse0=True)
    else:
        x, y = spread(x, dst), spread(y, dst)
        if integer:
            _whole_binary(b, dst, x, y, op)
            return
        if x.space == Space.PSUM and y.space == Space.PSUM:
            x = in_sbuf(b, x)
        b.isa.tensor_tensor(dst, x, y, op)


def _whole_binary(b: Builder, dst: View, x: View, y: View, op: Alu) -> None:
    """Emit dst = x op y in 32-bit integers; narrower results are the low bits."""
    x, y = widened(b, x), widened(b, y)
    if dst.dtype in WIDE or op in _COMPARISONS:
        b.isa.tensor_tensor(dst, x, y, op)
        return
    result = temporary(b, dst, x.dtype)
    b.isa.tensor_tensor(result, x, y, op)
    low_bits(b, dst, result)


def widened(b: Builder, x: View) -> View:
    """Return integers as 32-bit words in SBUF, copied into a new tile if necessary."""
    if x.dtype in WIDE and x.space == Space.SBUF:
        return x
    made = temporary(b, x, "uint32" if x.dtype == "uint32" else "int32")
    b.isa.copy(made, x)
    return made


def low_bits(b: Builder, dst: View, words: View) -> None:
    """Emit dst = the low bits of `words`, a dense tile of 32-bit integers (little-endian)."""
    if dst.dtype in WIDE:
        b.isa.copy(dst, words.bitcast(dst.dtype))
        return
    parts = 4 // dst.itemsize
    split = words.bitcast(dst.dtype).reshape(*words.shape, parts)
    b.isa.copy(dst, split[(slice(None), *(slice(None) for _ in words.shape), 0)])


def scalar(
    b: Builder,
    dst: View,
    x: View,
    op: Alu,
    value: float | int | View,
    op1: Alu = Alu.BYPASS,
    value1: float | int | View = 0.0,
    *,
    reverse: bool = False,
    reverse1: bool = False,
    integer: bool = False,
) -> None:
    """Emit dst = (x op value) op1 value1."""
    x = spread(x, dst)
    patterns = op in BITVEC
    if integer or patterns:
        value = value if isinstance(value, View) else signed_bits(value)
        value1 = value1 if isinstance(value1, View) else signed_bits(value1)
        x = in_sbuf(b, x)
    if (
        integer
        and not patterns
        and ((dst.dtype not in WIDE and op not in _COMPARISONS) or x.dtype not in WIDE)
    ):
        words = widened(b, x)
        result = temporary(b, dst, words.dtype)
        b.isa.tensor_scalar(result, words, op, value, op1, value1, reverse, reverse1, integer=True)
        low_bits(b, dst, result)
        return
    if patterns:
        # Every engine takes small numbers; large ones need integer immediates, which only GpSimd has.
        integer = any(not isinstance(each, View) and abs(each) >= 1 << 24 for each in (value, value1))
    b.isa.tensor_scalar(dst, x, op, value, op1, value1, reverse0=reverse, reverse1=reverse1, integer=integer)


def signed_bits(value: float) -> int:
    """Return the int32 with the low 32 bits of a number."""
    low = int(value) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def clamp(b: Builder, x: View, low: float, high: float) -> View:
    """Emit min(max(x, low), high) to a new tile."""
    clamped = temporary(b, x)
    scalar(b, clamped, x, Alu.MAXIMUM, low, Alu.MINIMUM, high)
    return clamped


def rounded(b: Builder, dst: View, x: View) -> None:
    """Emit dst = x rounded half to even; infinities, NaN and large numbers stay."""
    # d = x within the limit, r = round(d); x + (r - d) is exact: r - d is at most one half.
    limited = clamp(b, x, -ROUNDING_LIMIT, ROUNDING_LIMIT)
    whole = temporary(b, x)
    scalar(b, whole, limited, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING)
    binary(b, whole, whole, limited, Alu.SUBTRACT)
    binary(b, dst, x, whole, Alu.ADD)


def floored(b: Builder, dst: View, x: View) -> None:
    """Emit dst = the largest whole number not above x."""
    fraction = temporary(b, x)
    scalar(b, fraction, clamp(b, x, -16777216.0, 16777216.0), Alu.MOD, 1.0)
    binary(b, dst, x, fraction, Alu.SUBTRACT)


def truncated(b: Builder, dst: View, x: View) -> None:
    """Emit dst = x without its fraction."""
    size = temporary(b, x)
    scalar(b, size, x, Alu.ABS, 0.0, Alu.MINIMUM, 16777216.0)
    scalar(b, size, size, Alu.MOD, 1.0)
    # Subtract the fraction with the sign of x: (x >= 0) * 2 - 1.
    sign = temporary(b, x)
    sign_of(b, sign, x)
    binary(b, size, size, sign, Alu.MULTIPLY)
    binary(b, dst, x, size, Alu.SUBTRACT)


def sign_of(b: Builder, dst: View, x: View) -> None:
    """Emit dst = 1 where x >= 0, else -1 (also for NaN)."""
    scalar(b, dst, x, Alu.GREATER_EQUAL, 0.0, Alu.MULTIPLY, 2.0)
    scalar(b, dst, dst, Alu.SUBTRACT, 1.0)


def where(b: Builder, dst: View, condition: View, value: Operand) -> None:
    """Emit dst = value where the condition is not 0, else unchanged."""
    b.isa.copy_predicated(dst, as_tile(b, value, dst), spread(condition, dst))


def compared(b: Builder, x: View, op: Alu, value: float) -> View:
    """Emit x op value to a new tile of 0 and 1."""
    found = temporary(b, x, "uint8")
    scalar(b, found, x, op, value)
    return found


INFINITY = math.inf
