"""Convert between the element types of the machine's memories and fp32 or integers.

Casts to a narrower float round to nearest even. What is too large becomes infinite (Ref: SDK isa,
range_select); float8_e4m3fn, which has no infinity, saturates. Casts of floats to integers round to nearest
even and saturate, NaN becomes 0; bool is 0 or 1. Assumed except for infinity: the vendor documents that
engines cast, not how.
"""

from collections.abc import Callable
from functools import lru_cache

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.isa import Dtype

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_FLOAT8 = {np.dtype(ml_dtypes.float8_e4m3fn): float(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max)}
_BOOL = np.dtype(np.bool_)

NUMPY_DTYPES: tuple[np.dtype, ...] = tuple(
    np.dtype(kind)
    for kind in (
        np.float32,
        ml_dtypes.bfloat16,
        np.float16,
        np.float32,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        np.int32,
        np.uint32,
        np.int16,
        np.uint16,
        np.int8,
        np.uint8,
        np.bool_,
    )
)
"""numpy types by isa.Dtype. tfloat32 is stored as a float32."""

INTEGERS = frozenset(
    (Dtype.INT32, Dtype.UINT32, Dtype.INT16, Dtype.UINT16, Dtype.INT8, Dtype.UINT8, Dtype.BOOL)
)

Load = Callable[[], object]


def loader(view: np.ndarray, out: np.ndarray) -> Load:
    """Return a function that copies `view` (any element type) into `out` (float32 of the same shape)."""
    if view.dtype == np.float16:
        # A table is three times as fast as the processor's conversion, one element at a time.
        bits, table = view.view(np.uint16), half_table()
        return lambda: np.take(table, bits, out=out, mode="clip")
    return lambda: np.copyto(out, view, casting="unsafe")


@lru_cache(maxsize=1)
def half_table() -> np.ndarray:
    """Return the float32 value of every float16 bit pattern."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def storer(source: np.ndarray, view: np.ndarray, rounds_tf32: bool = False) -> Load:
    """Return a function that writes `source` (float32) to `view` (any element type) of the same shape."""
    if rounds_tf32:
        return lambda: np.copyto(view, round_tf32(source))
    if view.dtype == np.float32:
        return lambda: np.copyto(view, source)
    return lambda: convert_into(view, source)


def convert_into(out: np.ndarray, values: np.ndarray) -> None:
    """Write `values` into `out` of the same shape, cast as the module's docstring says.

    From integers to integers the low bits are kept. Numpy's warnings of overflow must be off.
    """
    to, kind = out.dtype, values.dtype.kind
    if to == values.dtype or to.kind in "fc" or to == _BFLOAT16:
        np.copyto(out, values, casting="unsafe")
    elif to == _BOOL:
        np.not_equal(values, 0, out=out)
    elif to in _FLOAT8:
        limit = _FLOAT8[to]
        np.copyto(out, np.clip(values.astype(np.float32), -limit, limit), casting="unsafe")
    elif to.kind in "iu" and kind not in "iub":
        np.copyto(out, _whole(values, to), casting="unsafe")
    else:
        np.copyto(out, values, casting="unsafe")


def converted(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a new contiguous array of another type, cast as the module's docstring says."""
    made = np.empty(values.shape, dtype)
    with np.errstate(all="ignore"):
        convert_into(made, values)
    return made


def _whole(values: np.ndarray, to: np.dtype) -> np.ndarray:
    info = np.iinfo(to)
    # float32 cannot hold the limits of 32-bit integers.
    wide = values.astype(np.float32 if to.itemsize <= 2 and values.dtype.itemsize <= 4 else np.float64)
    np.rint(wide, out=wide)
    np.copyto(wide, 0, where=wide != wide)
    if to.itemsize < 8:
        return np.clip(wide, info.min, info.max, out=wide)
    made = np.zeros(wide.shape, to)
    inside = (wide >= info.min) & (wide < float(info.max))
    made[inside] = wide[inside].astype(to)
    made[wide >= float(info.max)] = info.max
    made[wide < info.min] = info.min
    return made


def round_tf32(values: np.ndarray) -> np.ndarray:
    """Round float32 values to the 10 mantissa bits of tf32, to nearest even."""
    bits = values.view(np.uint32) if values.flags.c_contiguous else values.copy().view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.where(special, bits, rounded).view(np.float32)


def as_int32(values: np.ndarray) -> np.ndarray:
    """Convert to int32: uint32 wraps, floats are rounded and saturated; int32 itself is returned uncopied."""
    if values.dtype.kind in "iub":
        return values.astype(np.int32, copy=False)
    made = np.empty(values.shape, np.int32)
    convert_into(made, values)
    return made


def bits_of(values: np.ndarray) -> np.ndarray:
    """Return the bit patterns of the elements, zero-extended to uint32."""
    kind = np.dtype(f"u{values.dtype.itemsize}")
    return values.view(kind).astype(np.uint32, copy=False)


def signed_bits_of(values: np.ndarray) -> np.ndarray:
    """Return the bit patterns of the elements, sign-extended to int32."""
    kind = np.dtype(f"i{values.dtype.itemsize}")
    return values.view(kind).astype(np.int32, copy=False)


def store_bits(out: np.ndarray, values: np.ndarray) -> None:
    """Write the low bits of integer `values` as the bit patterns of `out`."""
    np.copyto(out.view(np.dtype(f"u{out.dtype.itemsize}")), values, casting="unsafe")
