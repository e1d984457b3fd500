"""Cast between all element types, also those the engines lack.

Types the engines lack (fp8 of other biases, e8m0, fp6, fp4, 4-bit and 2-bit integers) are held as
bytes, and decoded and encoded by shifts and fp32 arithmetic.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    BITS,
    INTEGERS,
    ROUNDING,
    WIDE,
    Operand,
    as_tile,
    binary,
    compared,
    in_sbuf,
    low_bits,
    scalar,
    temporary,
    truncated,
    where,
)
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A float type of a byte or less: sign, exponent and `mantissa` bits.

    largest  code of the largest finite number; nan  code of NaN
    signed_zero  whether -0 exists; overflow  code of larger numbers if they do not saturate
    """

    mantissa: int
    bias: int
    bits: int
    largest: int
    nan: int
    signed_zero: bool
    overflow: int = -1

    @property
    def maximum(self) -> float:
        """The largest finite number."""
        exponent = max(self.largest >> self.mantissa, 1)
        return ((self.largest & ((1 << self.mantissa) - 1)) + (1 << self.mantissa)) * 2.0 ** (
            exponent - self.bias - self.mantissa
        )


SMALL_FLOATS = {
    "float8_e4m3fnuz": SmallFloat(3, 8, 8, 0x7F, 0x80, signed_zero=False),
    "float8_e5m2fnuz": SmallFloat(2, 16, 8, 0x7F, 0x80, signed_zero=False),
    "float6_e2m3fn": SmallFloat(3, 1, 6, 0x1F, 0x20, signed_zero=True),
    "float6_e3m2fn": SmallFloat(2, 3, 6, 0x1F, 0x20, signed_zero=True),
    "float4_e2m1fn": SmallFloat(1, 1, 4, 0x07, 0x08, signed_zero=True),
}
_UNSATURATED = {
    "float8_e4m3fn": SmallFloat(3, 7, 8, 0x7E, 0x7F, signed_zero=True, overflow=0x7F),
    "float8_e5m2": SmallFloat(2, 15, 8, 0x7B, 0x7F, signed_zero=True, overflow=0x7C),
}
"""Types that the engines have, with ONNX's codes for numbers that overflow without saturation."""
SMALL_INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
_NATIVE = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int32": "int32",
    "uint32": "uint32",
    "int16": "int16",
    "uint16": "uint16",
    "int8": "int8",
    "uint8": "uint8",
    "bool": "uint8",
    "int64": "int32",
    "uint64": "uint32",
}


def is_raw(dtype: str) -> bool:
    """Return whether tiles hold a type as coded bytes, which only `cast` decodes."""
    return dtype in SMALL_FLOATS or dtype in SMALL_INTEGERS or dtype == "float8_e8m0fnu"


def device_dtype(dtype: str) -> str:
    """Return the element type of tiles for a tensor type. Raises CannotLower if the engines cannot hold
    it.
    """
    if is_raw(dtype):
        return "uint8"
    found = _NATIVE.get(dtype)
    if found is None:
        raise CannotLower(f"engines have no {dtype}", dtype, "float32 or int32 tensors")
    return found


def cast(
    b: Builder, dst: View, x: View, source: str, target: str, *, saturate: bool = True, mode: str = "up"
) -> None:
    """Emit dst = x converted between tensor types by ONNX's rules (both views in their device types).

    mode  rounding of float8_e8m0fnu: "up", "down" or "nearest"
    Integers of 64 bits are their low 32 bits.
    """
    device_dtype(source)
    device_dtype(target)
    value = decoded(b, x, source) if is_raw(source) else x
    if target == "float8_e8m0fnu":
        _encode_exponent(b, dst, value, saturate, mode)
    elif target in SMALL_FLOATS:
        _encode_float(b, dst, value, SMALL_FLOATS[target], saturate)
    elif target in SMALL_INTEGERS:
        mask = (1 << SMALL_INTEGERS[target]) - 1
        scalar(b, dst, _as_int32(b, value), Alu.BITWISE_AND, mask)
    elif target == "bool":
        wide = value.dtype in WIDE
        scalar(b, dst, value, Alu.NOT_EQUAL, 0 if wide else 0.0, integer=wide)
    elif dst.dtype in INTEGERS:
        _to_integer(b, dst, value)
    elif target in _UNSATURATED and not saturate:
        _encode_float(b, dst.bitcast("uint8"), value, _UNSATURATED[target], saturate)
    elif target in _UNSATURATED:
        limited = temporary(b, dst)
        limit = _UNSATURATED[target].maximum
        scalar(b, limited, value, Alu.MAXIMUM, -limit, Alu.MINIMUM, limit)
        b.isa.copy(dst, limited)
    else:
        b.isa.copy(dst, value)


def decoded(b: Builder, x: View, source: str) -> View:
    """Decode the codes `x` of a type held as bytes to a new fp32 tile, also for small integers."""
    codes = temporary(b, x, "int32")
    made = temporary(b, x)
    if source in SMALL_INTEGERS:
        bits = SMALL_INTEGERS[source]
        scalar(b, codes, x, Alu.BITWISE_AND, (1 << bits) - 1)
        if not source.startswith("u"):
            half = 1 << (bits - 1)
            scalar(b, codes, codes, Alu.BITWISE_XOR, half)
            scalar(b, made, codes, Alu.SUBTRACT, float(half))
        else:
            b.isa.copy(made, codes)
        return made
    if source == "float8_e8m0fnu":
        b.isa.copy(codes, x)
        scalar(b, codes, codes, Alu.LEFT_SHIFT, 23)
        b.isa.copy(made, codes.bitcast("float32"))
        where(b, made, compared(b, x, Alu.EQUAL, 0.0), 2.0**-127)
        where(b, made, compared(b, x, Alu.EQUAL, 255.0), math.nan)
        return made
    form = SMALL_FLOATS[source]
    # The magnitude, shifted to the bits of an fp32 number, is smaller by 2^(127 - bias): multiply, exactly.
    sign = temporary(b, x, "int32")
    b.isa.copy(codes, x)
    scalar(b, sign, codes, Alu.RIGHT_SHIFT, form.bits - 1)
    scalar(b, sign, sign, Alu.LEFT_SHIFT, 31)
    scalar(b, codes, codes, Alu.BITWISE_AND, (1 << (form.bits - 1)) - 1)
    scalar(b, codes, codes, Alu.LEFT_SHIFT, 23 - form.mantissa)
    binary(b, codes, codes, sign, Alu.BITWISE_OR)
    scalar(b, made, codes.bitcast("float32"), Alu.MULTIPLY, 2.0 ** (127 - form.bias))
    if not form.signed_zero:
        where(b, made, compared(b, x, Alu.EQUAL, float(form.nan)), math.nan)
    return made


def _as_int32(b: Builder, x: View) -> View:
    """Truncate to int32 in a new tile."""
    made = temporary(b, x, "int32")
    if x.dtype in INTEGERS:
        low_bits(b, made, _copied_words(b, x))
    else:
        truncated(b, made, x)
    return made


def _to_integer(b: Builder, dst: View, x: View) -> None:
    if x.dtype in INTEGERS:
        if x.dtype == dst.dtype:
            b.isa.copy(dst, x)
        elif BITS[x.dtype] <= 16 and dst.dtype in WIDE:
            b.isa.copy(dst.bitcast("int32"), x)
        else:
            low_bits(b, dst, in_sbuf(b, x) if x.is_contiguous and x.dtype in WIDE else _copied_words(b, x))
    elif dst.dtype in WIDE:
        truncated(b, dst, x)
    else:
        # Out of range, keep the low bits of the 32-bit number, as numpy does.
        low_bits(b, dst, _as_int32(b, x))


def _copied_words(b: Builder, x: View) -> View:
    words = temporary(b, x, "uint32" if x.dtype == "uint32" else "int32")
    b.isa.copy(words, x)
    return words


def _encode_float(b: Builder, dst: View, x: View, form: SmallFloat, saturate: bool) -> None:
    """Encode x: (exponent - lowest) * 2^mantissa + the magnitude in units of its last place."""
    size, value = temporary(b, dst), temporary(b, dst)
    exponent, unit = temporary(b, dst, "int32"), temporary(b, dst, "int32")
    b.isa.copy(value, x)
    # Limit to four times the maximum: it cannot round into the range, yet is finite.
    scalar(b, size, value, Alu.ABS, 0.0, Alu.MINIMUM, form.maximum * 4.0)
    lowest = 128 - form.bias
    scalar(b, exponent, size.bitcast("int32"), Alu.RIGHT_SHIFT, 23)
    scalar(b, exponent, exponent, Alu.MAXIMUM, float(lowest))
    # 1 / unit of the last place = 2^(mantissa - (exponent - 127)), built as fp32 bits.
    scalar(b, unit, exponent, Alu.MULTIPLY, -1.0, Alu.ADD, 254.0 + form.mantissa)
    scalar(b, unit, unit, Alu.LEFT_SHIFT, 23)
    binary(b, size, size, unit.bitcast("float32"), Alu.MULTIPLY)
    scalar(b, size, size, Alu.ADD, ROUNDING, Alu.SUBTRACT, ROUNDING)
    above = temporary(b, dst)
    scalar(b, above, exponent, Alu.SUBTRACT, float(lowest), Alu.MULTIPLY, 2.0**form.mantissa)
    binary(b, size, size, above, Alu.ADD)
    overflow: View | None = None
    if form.overflow >= 0:
        scalar(b, size, size, Alu.MINIMUM, float(form.overflow))
    elif saturate or form.signed_zero:
        scalar(b, size, size, Alu.MINIMUM, float(form.largest))
    else:
        overflow = compared(b, size, Alu.GREATER, float(form.largest))
    # The sign bit; none on zero if the code of -0 is NaN.
    scalar(b, unit, value.bitcast("int32"), Alu.RIGHT_SHIFT, 31)
    scalar(b, above, unit, Alu.MULTIPLY, float(1 << (form.bits - 1)))
    if not form.signed_zero:
        b.isa.scalar_tensor_tensor(above, size, Alu.GREATER, 0.0, Alu.MULTIPLY, above)
    binary(b, size, size, above, Alu.ADD)
    if overflow is not None:
        where(b, size, overflow, float(form.nan))
    unordered = temporary(b, dst, "uint8")
    binary(b, unordered, value, value, Alu.NOT_EQUAL)
    where(b, size, unordered, float(form.nan))
    b.isa.copy(dst, size)


def _encode_exponent(b: Builder, dst: View, x: View, saturate: bool, mode: str) -> None:
    """Encode x as float8_e8m0fnu: the exponent of fp32, rounded by `mode`."""
    size = temporary(b, dst)
    scalar(b, size, x, Alu.ABS, 0.0)
    bits, code = temporary(b, dst, "uint32"), temporary(b, dst, "int32")
    raw = size.bitcast("uint32")
    if mode == "up":
        scalar(b, bits, raw, Alu.ADD, 0x7FFFFF, integer=True)
    elif mode == "nearest":
        # Halves round up, except that of 2^-127, which has a separate code.
        normal = temporary(b, dst, "uint32")
        scalar(b, normal, raw, Alu.GREATER_EQUAL, 0x800000, integer=True)
        scalar(b, bits, raw, Alu.ADD, 0x3FFFFF, integer=True)
        binary(b, bits, bits, normal, Alu.ADD, integer=True)
    else:
        b.isa.copy(bits, raw)
    scalar(b, code, bits, Alu.RIGHT_SHIFT, 23)
    scalar(b, code, code, Alu.MINIMUM, 254.0 if saturate else 255.0)
    special = temporary(b, dst, "int32")
    scalar(b, special, raw.bitcast("int32"), Alu.RIGHT_SHIFT, 23)
    where(b, code, compared(b, special, Alu.EQUAL, 255.0), as_tile(b, 255, dst, "int32"))
    b.isa.copy(dst, code)


def emit_cast(b: Builder, node: Node, operands: "Sequence[Operand | None]", dst: View) -> None:
    """Emit the formula of Cast and CastLike."""
    source = b.graph.tensors[node.inputs[0]].dtype
    target = b.graph.tensors[node.outputs[0]].dtype
    x = operands[0]
    if x is None:
        raise CannotLower("input 0 is missing")
    mode = node.attributes.get("round_mode", "up")
    mode = mode.decode() if isinstance(mode, bytes) else str(mode)
    if not isinstance(x, View):
        x = as_tile(b, x, dst, device_dtype(source))
    saturate = bool(node.attributes.get("saturate", 1))
    cast(b, dst, as_tile(b, x, dst), source, target, saturate=saturate, mode=mode)
