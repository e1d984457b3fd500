"""Element types by name: the one place that knows their numpy types and sizes."""

import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int64": np.dtype(np.int64),
    "uint64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
    # Rarer ONNX types, and float8_e4m3 with infinities. Types below one byte take one byte per element in
    # arrays (ml_dtypes does not pack them); "string" and "opaque" (sequences, maps, optionals) hold objects.
    "int4": np.dtype(ml_dtypes.int4),
    "uint4": np.dtype(ml_dtypes.uint4),
    "int2": np.dtype(ml_dtypes.int2),
    "uint2": np.dtype(ml_dtypes.uint2),
    "float4_e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
    "float6_e2m3fn": np.dtype(ml_dtypes.float6_e2m3fn),
    "float6_e3m2fn": np.dtype(ml_dtypes.float6_e3m2fn),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "string": np.dtype(np.object_),
    "opaque": np.dtype(np.object_),
}


def numpy_dtype(name: str) -> np.dtype:
    """Return the numpy type of an element type name. Raises ValueError for an unknown name."""
    try:
        return DTYPES[name]
    except KeyError:
        raise ValueError(f"unknown element type {name!r}; known: {', '.join(DTYPES)}") from None


def dtype_name(dtype: np.dtype) -> str:
    """Return the element type name of a numpy type, or numpy's own name for an unknown type."""
    for name, known in DTYPES.items():
        if known == dtype:
            return name
    return dtype.name
