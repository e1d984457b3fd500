"""Convert buffers to and from arrays: NC1HWC2 and row-major bytes, quantised numbers, the graph's own
types."""

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned, pack_features, packing, unpack_features
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.values.memory import ValueFault


def cubes_of(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (batches, C, H, W) of the feature cubes that hold a tensor.

    (N, C, H, W) and (N, C, L) as they stand; the rows of a matrix are H (Ref: MTX), a vector is C.
    """
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) == 3:
        return shape[0], shape[1], 1, shape[2]
    if len(shape) == 2:
        return 1, shape[1], shape[0], 1
    if len(shape) < 2:
        return 1, int(np.prod(shape)), 1, 1
    raise ValueFault(f"a feature buffer cannot hold the shape {shape}")


def holds_numbers(buffer: Buffer) -> bool:
    """Return whether a buffer holds a tensor of numbers: text, sequences and optionals are on the Host
    only."""
    return not numpy_dtype(buffer.dtype).hasobject


def decoded(buffer: Buffer, data: np.ndarray) -> np.ndarray:
    """Return the elements of a buffer in its dtype and the shape of the graph, a new array.

    data  uint8, the bytes of the buffer

    Raises ValueFault if layout and size do not agree, or if it holds no tensor of numbers.
    """
    dtype = numpy_dtype(buffer.dtype)
    _refuse_objects(buffer)
    elements = data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
    count = int(np.prod(buffer.shape, dtype=np.int64))
    if buffer.layout == "rows":
        rows, length = buffer.shape
        pitch = _row_elements(buffer)
        return elements[: rows * pitch].reshape(rows, pitch)[:, :length].copy()
    if buffer.layout != "feature":
        if len(elements) < count:
            raise ValueFault(
                f"buffer {buffer.name} of {len(data)} bytes cannot hold the shape {buffer.shape}"
            )
        return elements[:count].reshape(buffer.shape).copy()
    if count == 0:
        return np.zeros(buffer.shape, dtype)
    batches, channels, height, width = cubes_of(buffer.shape)
    group = packing(buffer.dtype).channels
    size = -(-channels // group) * group * height * width
    if len(elements) < batches * size:
        raise ValueFault(
            f"buffer {buffer.name} of {len(data)} bytes cannot hold {batches} cubes of {size} elements"
        )
    made = np.stack(
        [
            unpack_features(elements[at * size : (at + 1) * size], channels, height, width, group)
            for at in range(batches)
        ]
    )
    if len(buffer.shape) == 2:
        return np.ascontiguousarray(made[0, :, :, 0].T)
    return made.reshape(buffer.shape)


def encoded(buffer: Buffer, values: np.ndarray) -> np.ndarray:
    """Return the bytes (uint8) that hold values of the buffer's dtype and shape.

    Raises ValueFault if they do not fit, or if the buffer holds no tensor of numbers.
    """
    _refuse_objects(buffer)
    values = np.ascontiguousarray(values)
    if buffer.layout == "feature" and values.size:
        batches, channels, height, width = cubes_of(buffer.shape)
        group = packing(buffer.dtype).channels
        cubes = values.T[None, :, :, None] if len(buffer.shape) == 2 else values
        cubes = cubes.reshape(batches, channels, height, width)
        values = np.concatenate([pack_features(cube, group) for cube in cubes])
    if buffer.layout == "rows":
        rows = np.zeros((buffer.shape[0], _row_elements(buffer)), values.dtype)
        rows[:, : buffer.shape[1]] = values
        values = rows
    data = values.reshape(-1).view(np.uint8)
    if len(data) > buffer.size_bytes:
        raise ValueFault(f"buffer {buffer.name} has {buffer.size_bytes} bytes: {len(data)} are needed")
    return data


def _refuse_objects(buffer: Buffer) -> None:
    if not holds_numbers(buffer):
        raise ValueFault(f"{buffer.name} is text, a sequence or an optional, which memory does not hold")


def _row_elements(buffer: Buffer) -> int:
    """Return the elements from one row to the next, if rows begin with atoms."""
    return aligned(buffer.shape[1], packing(buffer.dtype).channels)


def is_quantized(buffer: Buffer) -> bool:
    """Return whether the buffer's integers stand for real numbers."""
    return numpy_dtype(buffer.dtype).kind in "iu" and (buffer.scale != 1.0 or buffer.zero_point != 0)


def to_graph(buffer: Buffer, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert elements of a buffer to the type that the graph gives the tensor.

    Integers for a float tensor are dequantised; int8 for a uint8 tensor is the value less 128.
    """
    if values.dtype == dtype:
        return values
    if values.dtype == np.int8 and dtype == np.uint8:
        return (values.astype(np.int16) + 128).astype(np.uint8)
    if values.dtype.kind in "iu" and dtype.kind not in "iub":
        return ((values.astype(np.float64) - buffer.zero_point) * buffer.scale).astype(dtype)
    return as_type(values, dtype)


def from_graph(buffer: Buffer, values: np.ndarray) -> np.ndarray:
    """Convert values of the graph's type to the buffer's type and shape: the inverse of `to_graph`."""
    dtype = numpy_dtype(buffer.dtype)
    if values.size != int(np.prod(buffer.shape, dtype=np.int64)):
        raise ValueFault(f"buffer {buffer.name} of shape {buffer.shape} cannot hold {values.shape}")
    values = values.reshape(buffer.shape)
    if values.dtype == dtype:
        return values
    if values.dtype == np.uint8 and dtype == np.int8:
        return (values.astype(np.int16) - 128).astype(np.int8)
    if values.dtype.kind not in "iub" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        # As QuantizeLinear: halves go to even.
        made = np.rint(values.astype(np.float64) / buffer.scale) + buffer.zero_point
        return np.clip(np.nan_to_num(made, nan=0), limits.min, limits.max).astype(dtype)
    return as_type(values, dtype)


def as_type(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast values; those that a float type cannot hold become infinite."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values.astype(dtype, copy=False))
