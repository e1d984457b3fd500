"""Compute how many bytes a tensor takes as feature cubes: (N, C, H, W), channels in whole atoms."""

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.tables import Buffer


def cube_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return (N, C, H, W) of a graph shape: (M, C) has H = M; (N, C, L) has H = 1."""
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) == 3:
        return shape[0], shape[1], 1, shape[2]
    return (1, shape[1], shape[0], 1) if len(shape) == 2 else (1, shape[0], 1, 1)


WRITTEN_CHANNELS = 64
"""Most channels to which tasks fill up what they write: a group of kernels, 64 for depthwise tasks."""


def image_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of one image of a tensor as a feature cube: channels in whole atoms."""
    _, channels, height, width = cube_shape(shape)
    return aligned(channels, packing(dtype).channels) * height * width * numpy_dtype(dtype).itemsize


def cube_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a tensor as feature cubes, with room after the last for channels that fill it
    up."""
    count, channels, height, width = cube_shape(shape)
    filled = aligned(channels, WRITTEN_CHANNELS) * height * width * numpy_dtype(dtype).itemsize
    return (count - 1) * image_bytes(shape, dtype) + filled


def held_bytes(buffer: Buffer) -> int:
    """Return the bytes of a buffer's data, without the room for channels that fill it up."""
    if buffer.layout != "feature":
        return buffer.size_bytes
    return min(buffer.size_bytes, cube_shape(buffer.shape)[0] * image_bytes(buffer.shape, buffer.dtype))
