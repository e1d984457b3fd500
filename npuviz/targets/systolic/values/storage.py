"""Storage of the graph's tensors in the machine's DRAM: element type, order of axes, place."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from npuviz.program.dtypes import numpy_dtype

FLOATS = frozenset(
    ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
)

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class Storage:
    """Where and how a tensor is stored.

    shape    logical shape of the tensor (the graph's)
    dtype    element type name in DRAM
    order    axes of the tensor from outermost to innermost in DRAM; (0, 1, ...) is row-major
    root     the tensor whose bytes these are: itself, or the one that a view re-shapes
    address  DRAM byte address; size_bytes its length
    """

    tensor: int
    shape: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]
    root: int
    address: int
    size_bytes: int

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return numpy_dtype(self.dtype).itemsize

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Dimensions in the order in which they lie in DRAM."""
        return tuple(self.shape[axis] for axis in self.order)

    @property
    def is_row_major(self) -> bool:
        """Whether the elements lie in the graph's own order (axes of size 1 do not matter)."""
        long_axes = [axis for axis in self.order if self.shape[axis] > 1]
        return long_axes == sorted(long_axes)

    def lies_like(self, other: "Storage") -> bool:
        """Return whether a tensor of the same shape has its elements in the same order (axes of size 1
        aside)."""
        return [axis for axis in self.order if self.shape[axis] > 1] == [
            axis for axis in other.order if self.shape[axis] > 1
        ]

    def strides(self) -> tuple[int, ...]:
        """Return the byte stride of each logical axis."""
        found = [0] * len(self.shape)
        step = self.item_bytes
        for axis in reversed(self.order):
            found[axis] = step
            step *= self.shape[axis]
        return tuple(found)

    def to_stored(self, values: np.ndarray) -> np.ndarray:
        """Convert an array of the logical shape to a flat new array of `dtype` in DRAM order."""
        placed = np.asarray(values).reshape(self.shape).transpose(self.order)
        return np.ascontiguousarray(convert(placed, numpy_dtype(self.dtype))).reshape(-1)

    def to_logical(self, stored: np.ndarray) -> np.ndarray:
        """Convert a flat array in DRAM order to the logical shape (element type of DRAM); may be a view."""
        back = np.argsort(self.order) if self.order else ()
        return stored.reshape(self.stored_shape).transpose(tuple(int(axis) for axis in back))


def convert(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Change the element type as the machine does: floats round to nearest, integers saturate.

    A float8 value beyond the range becomes the largest finite one.
    """
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == np.dtype(ml_dtypes.float8_e4m3fn) and values.dtype.kind in "fV":
            wide = values.astype(np.float32)
            limit = np.float32(ml_dtypes.finfo(ml_dtypes.float8_e4m3fn).max)
            return np.clip(wide, -limit, limit).astype(dtype)
        if dtype.kind in "iu" and values.dtype.kind == "f":
            info = np.iinfo(dtype)
            return np.clip(np.rint(values), info.min, info.max).astype(dtype)
        return values.astype(dtype)


def saturated(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Limit what the Host stores to the range of `dtype`: finite numbers stay finite, as compilers narrow
    weights. Returns the array itself if it is within the range.

    The mask of a transformer, -3.4e38, would become -inf in bfloat16, and 0 times that is NaN.
    """
    if values.dtype.kind != "f" or dtype not in (_BFLOAT16, np.dtype(np.float16)):
        return values
    limit = float(ml_dtypes.finfo(dtype).max)
    beyond = np.isfinite(values) & (np.abs(values) > limit)
    return (
        np.where(beyond, np.copysign(limit, values), values).astype(values.dtype) if beyond.any() else values
    )


def widen(values: np.ndarray) -> np.ndarray:
    """Return an array of floating-point numbers or integers as float32; float32 itself is returned as it
    is."""
    if values.dtype == _BFLOAT16:
        # The bits of a bfloat16 are the upper half of a float32; far faster than a converting loop.
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32, copy=False)


def stored_dtype(graph_dtype: str, precision: int) -> str:
    """Return the element type in DRAM of a tensor of the graph.

    precision 4: float32; 2: bfloat16 (float16 for float16 tensors); 1: float8_e4m3fn.
    Integers and booleans keep their own type.
    """
    if graph_dtype not in FLOATS:
        return graph_dtype
    if precision >= 4:
        return "float32"
    if precision == 2:
        return "float16" if graph_dtype == "float16" else "bfloat16"
    return "float8_e4m3fn"
