"""Compute the PPU of a task: average, maximum and minimum of windows.

Ref: TRM for fields, NVDLA for the two steps of the average. Maxima and minima ignore padding (NVDLA).
"""

from collections.abc import Mapping

import numpy as np

from npuviz.targets.rk3588.task.work import ATOM_BYTES, Pooling, bits
from npuviz.targets.rk3588.values.cubes import element_type, read_cube
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.rounding import rounded

_AVERAGE, _MAX, _MIN = 0, 1, 2


def pooling_input(memory: Memory, pool: Pooling, registers: Mapping[int, int]) -> np.ndarray:
    """Return the cube that PPU_RDMA fetches: (C, H, W) in its own type."""
    # The reader's field has two bits: int8, int16, fp16, bf16.
    precision = registers.get(0x7030, 0) & 3 if 0x7030 in registers else pool.precision
    dtype = element_type(precision, "pooling input")
    size = (pool.in_channels, pool.in_height, pool.in_width)
    pitches = (pool.source_surface_stride * ATOM_BYTES, pool.source_line_stride * ATOM_BYTES)
    return read_cube(memory, pool.source_address, size, pitches, dtype, "pooling input")[: pool.in_channels]


def pooled(values: np.ndarray, pool: Pooling, registers: Mapping[int, int]) -> np.ndarray:
    """Return the pooled cube (C, OH, OW) in the type of the input."""
    if registers.get(0x6024, 0) >> 30 & 1:
        raise ValueFault("OPERATION_MODE asks for the positions of the maxima: they are not computed")
    if values.shape[1:] != (pool.in_height, pool.in_width):
        raise ValueFault(
            f"the PPU expects {pool.in_height} x {pool.in_width} positions and gets "
            f"{values.shape[1]} x {values.shape[2]}"
        )
    height = (pool.out_height - 1) * pool.stride_y + pool.kernel_height
    width = (pool.out_width - 1) * pool.stride_x + pool.kernel_width
    if height > pool.pad_top + pool.in_height + pool.pad_bottom or (
        width > pool.pad_left + pool.in_width + pool.pad_right
    ):
        raise ValueFault(
            f"{pool.out_height} x {pool.out_width} windows reach over {height} x {width} positions: "
            f"the input with its padding has fewer"
        )
    if values.dtype.itemsize > 2:
        raise ValueFault(f"the PPU pools elements of 1 or 2 bytes, not {values.dtype.name}")
    is_float = values.dtype.kind != "i"
    padded = _padded(values, pool, is_float, (height, width))
    made: np.ndarray | None = None
    for row in range(pool.kernel_height):
        for column in range(pool.kernel_width):
            part = padded[
                :,
                row : row + (pool.out_height - 1) * pool.stride_y + 1 : pool.stride_y,
                column : column + (pool.out_width - 1) * pool.stride_x + 1 : pool.stride_x,
            ]
            if made is None:
                made = part.copy()
            elif pool.method == _AVERAGE:
                made += part
            else:
                (np.maximum if pool.method == _MAX else np.minimum)(made, part, out=made)
    assert made is not None
    if pool.method == _AVERAGE:
        made = _average(made, pool, is_float)
    elif pool.method not in (_MAX, _MIN):
        raise ValueFault("OPERATION_MODE has method 3: 0 average, 1 maximum, 2 minimum exist")
    if not is_float:
        limits = np.iinfo(values.dtype)
        made = np.clip(made, limits.min, limits.max)
    return made.astype(values.dtype)[: pool.out_channels]


def _padded(values: np.ndarray, pool: Pooling, is_float: bool, size: tuple[int, int]) -> np.ndarray:
    if pool.method == _AVERAGE:
        fill = _pad_value(pool, values.dtype) if is_float else pool.pad_value
    else:
        fill = -np.inf if pool.method == _MAX else np.inf
    made = np.full((len(values), *size), fill, np.float32 if is_float else np.float64)
    rows, columns = (
        min(values.shape[1], size[0] - pool.pad_top),
        min(values.shape[2], size[1] - pool.pad_left),
    )
    if rows > 0 and columns > 0:
        made[:, pool.pad_top : pool.pad_top + rows, pool.pad_left : pool.pad_left + columns] = values[
            :, :rows, :columns
        ]
    return made


def _pad_value(pool: Pooling, dtype: np.dtype) -> float:
    return float(np.array([pool.pad_value & 0xFFFF], np.uint16).view(dtype)[0])


def _average(sums: np.ndarray, pool: Pooling, is_float: bool) -> np.ndarray:
    """Return the sums times both reciprocals; integers are rounded after each, halves away from zero
    (Assumed)."""
    for stored, kernel in (
        (pool.reciprocal_width, pool.kernel_width),
        (pool.reciprocal_height, pool.kernel_height),
    ):
        if is_float:
            sums = (sums * np.float32(reciprocal(stored, kernel, is_float))).astype(np.float32)
        else:
            sums = rounded(sums * stored / 65536, True)
    return sums


def reciprocal(stored: int, kernel: int, is_float: bool) -> float:
    """Return the factor that a reciprocal register stands for: 65536ths (TRM).

    A working fp16 stream has 1-6-10 floats (ALLB); that reading is taken where 65536ths would not be 1 /
    kernel (Assumed).
    """
    if not is_float or abs(stored * kernel - 65536) <= kernel:
        return stored / 65536
    sign = -1.0 if stored >> 16 & 1 else 1.0
    exponent, fraction = bits(stored, 15, 10), bits(stored, 9, 0)
    if exponent == 0:
        return sign * float(np.ldexp(fraction, -40))
    return sign * float(np.ldexp(1024 + fraction, exponent - 31 - 10))
