"""Element types of NKI and how they go together."""

from typing import Any

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.nki.record.errors import KernelError

Dtype = np.dtype[Any]

NAMES: dict[str, Dtype] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "bool": np.dtype(np.bool_),
}
"""Type of each name of `isa.DTYPE_NAMES` that kernels use."""
PACKED: dict[str, tuple[Dtype, str]] = {
    name: (np.dtype([(name, f"u{np.dtype(carrier).itemsize}")]), carrier)
    for name, carrier in (
        ("float8_e4m3fn_x4", "uint32"),
        ("float8_e5m2_x4", "uint32"),
        ("float4_e2m1fn_x4", "uint16"),
        ("float8_e8m0fnu", "uint8"),
    )
}
"""Microscaled types: (type, the integer whose bits the engines move)."""
_ALIASES = {"bool_": "bool", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_OWN = {dtype: name for name, dtype in NAMES.items()}
FLOAT32 = NAMES["float32"]


def dtype_of(value: object) -> Dtype:
    """The type that a kernel names: a numpy type, a string. Raises KernelError."""
    if isinstance(value, str):
        name = value.rpartition(".")[2]
        name = _ALIASES.get(name, name)
        if name in NAMES:
            return NAMES[name]
        if name in PACKED:
            return PACKED[name][0]
        raise KernelError(f"element type {value!r} is none that npuviz runs")
    try:
        made: Dtype = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        raise KernelError(f"{value!r} is no element type") from None
    if made.name in PACKED:
        return PACKED[made.name][0]
    narrow = {"int64": "int32", "uint64": "uint32", "float64": "float32"}.get(made.name)
    found = NAMES[narrow] if narrow else made
    name_of(found)
    return found


def packed_name(dtype: Dtype) -> str:
    """The name of a microscaled type, "" for any other."""
    name = (dtype.names or ("",))[0]
    return name if name in PACKED else ""


def carrier(dtype: Dtype) -> Dtype:
    """The type that memories hold: the integer of a microscaled type, else itself."""
    name = packed_name(dtype)
    return NAMES[PACKED[name][1]] if name else dtype


def held(values: np.ndarray) -> np.ndarray:
    """Values of the host as memories hold them: the bits of microscaled ones as integers.

    Scales of ml_dtypes are microscaled too.
    """
    kind = values.dtype
    if kind.name not in PACKED and not packed_name(kind):
        return values
    return np.ascontiguousarray(values).view(carrier(dtype_of(kind))).reshape(values.shape)


def name_of(dtype: Dtype) -> str:
    """The name of a type in the instruction set. Raises KernelError."""
    found = _OWN.get(carrier(dtype))
    if found is None:
        raise KernelError(f"element type {dtype} does not go to the engines")
    return found


_FLOATS = frozenset(dtype for name, dtype in NAMES.items() if "float" in name)


def is_float(dtype: Dtype) -> bool:
    """Whether a type holds floats."""
    return dtype in _FLOATS


def promoted(*operands: object) -> Dtype:
    """The type of a result of operands (dtypes or Python numbers). Ref: SHARED, type promotion."""
    dtypes = [each for each in operands if isinstance(each, np.dtype)]
    for each in operands:
        if isinstance(each, bool | np.bool_):
            dtypes.append(NAMES["uint8"])
        elif isinstance(each, int | np.integer):
            dtypes.append(NAMES["int32"])
        elif isinstance(each, float | np.floating):
            dtypes.append(FLOAT32)
    found = dtypes[0]
    for other in dtypes[1:]:
        found = _pair(found, other)
    return found


def _pair(a: Dtype, b: Dtype) -> Dtype:
    if a == b:
        return a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_float(a):
        if a.itemsize != b.itemsize:
            return a if a.itemsize > b.itemsize else b
        return FLOAT32 if a.itemsize == 2 else NAMES["bfloat16"]
    if "bool" in (a.name, b.name):
        return b if a.name == "bool" else a
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    if a.itemsize == b.itemsize == 4:
        return FLOAT32
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    return NAMES["int16"] if unsigned.itemsize == 1 else NAMES["int32"] if unsigned.itemsize == 2 else FLOAT32
