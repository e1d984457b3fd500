"""Pack and unpack tensors in the memory layouts of the RK3588 NPU: feature cubes, weights, depthwise weights.

Formulas: section 7 of the RK3588 reference (source: D JAS, MTX, MESA; R x S order M DER). All offsets
count elements from 0.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npuviz.base.errors import FormatError

ATOM_BYTES = 16
DEPTHWISE_GROUP = 64
"""Channels of one group of depthwise weights (source: D MESA)."""
ELEMENT_LIMIT = 1 << 32
"""Most elements: addresses of the NPU have 32 bits, so nothing larger can exist (source: D JAS, HAPPY)."""

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Packing:
    """How elements of one type are grouped.

    `channels` (C2) share an atom of 16 bytes in features. Weights are stored in groups of `kernels`, and
    within them in blocks of `block` channels; both are 0 if the type has no weights.
    """

    name: str
    channels: int
    kernels: int
    block: int


PACKINGS = {
    packing.name: packing
    for packing in (
        Packing("int8", 16, 32, 32),  # D MTX
        Packing("uint8", 16, 32, 32),  # Assumed: as int8
        Packing("float16", 8, 16, 32),  # D MTX
        Packing("bfloat16", 8, 16, 32),  # features D JAS; weights assumed: as float16
        Packing("int16", 8, 16, 32),  # features D JAS; weights assumed: as float16
        Packing("tf32", 4, 16, 16),  # D HAPPY
        Packing("float32", 4, 0, 0),  # outputs only, D MTX
        Packing("int32", 4, 0, 0),  # outputs only, D MTX
    )
}
"""Packings by npuviz's dtype name; tf32 is held in float32 arrays."""


_wrong = partial(FormatError, "RK3588 layout")


def packing(dtype: str) -> Packing:
    """Return the packing of a dtype name. Raises FormatError for a type that the NPU does not hold."""
    found = PACKINGS.get(dtype)
    if found is None:
        raise _wrong(field="dtype", expected=", ".join(PACKINGS), found=dtype)
    return found


def aligned(count: int, group: int) -> int:
    """Return the smallest multiple of `group` that is not below `count`."""
    return -(-count // group) * group


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise _wrong(field=name, expected="at least 1", found=str(size))


def _checked_total(total: int, name: str) -> int:
    """Return a number of elements. Raises FormatError if no memory of the chip can hold them."""
    if total > ELEMENT_LIMIT:
        raise _wrong(field=name, expected=f"at most {ELEMENT_LIMIT} elements", found=str(total))
    return total


def _check_packed(packed: Array, expected: int) -> None:
    if packed.ndim != 1 or len(packed) < expected:
        least = f"at least {expected} elements in one row"
        raise _wrong(field="packed elements", expected=least, found=f"shape {packed.shape}")


def check_rank(array: Array, rank: int, names: str) -> None:
    """Raise FormatError unless an array has `rank` dimensions, which `names` lists."""
    if array.ndim != rank:
        raise _wrong(field="array", expected=f"the dimensions {names}", found=f"shape {array.shape}")


# --- features: NC1HWC2 ---------------------------------------------------------------------------


def feature_elements(channels: int, height: int, width: int, group: int) -> int:
    """Return the elements of a packed feature cube: channels are padded to a multiple of `group`."""
    _check_sizes(channels=channels, height=height, width=width, group=group)
    return _checked_total(aligned(channels, group) * height * width, "features")


def pack_features(cube: Array, group: int, *, channels: int = 0) -> Array:
    """Pack a feature cube (C, H, W) as memory holds it: one row of elements, a new array.

    `channels` pads with zeros to at least that many channels. Raises FormatError for other ranks
    and empty dimensions.
    """
    check_rank(cube, 3, "C, H, W")
    count, height, width = cube.shape
    size = feature_elements(max(count, channels), height, width, group)
    surfaces = size // (height * width * group)
    full = np.zeros((surfaces * group, height, width), cube.dtype)
    full[:count] = cube
    return full.reshape(surfaces, group, height, width).transpose(0, 2, 3, 1).reshape(-1)


def unpack_features(packed: Array, channels: int, height: int, width: int, group: int) -> Array:
    """Unpack the cube (C, H, W) from a packed row, a new array; elements after it are ignored.

    Raises FormatError if the row is too short.
    """
    size = feature_elements(channels, height, width, group)
    _check_packed(packed, size)
    cube = packed[:size].reshape(-1, height, width, group).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(cube.reshape(-1, height, width)[:channels])


# --- weights: [K / G][C / B][R][S][G][B] -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeightShape:
    """Kernels (K), channels (C) and kernel size (R, S) of a dense convolution."""

    kernels: int
    channels: int
    height: int = 1
    width: int = 1


def weight_elements(shape: WeightShape, group: int, block: int = 32) -> int:
    """Return the elements of packed weights: C is padded to a multiple of `block`, K is not padded."""
    _check_sizes(
        kernels=shape.kernels,
        channels=shape.channels,
        height=shape.height,
        width=shape.width,
        group=group,
        block=block,
    )
    channels = aligned(shape.channels, block)
    return _checked_total(shape.kernels * channels * shape.height * shape.width, "weights")


def unpack_weights(packed: Array, shape: WeightShape, group: int, block: int = 32) -> Array:
    """Unpack the weights (K, C, R, S) from a packed row, a new array.

    Raises FormatError if the row is too short.
    """
    size = weight_elements(shape, group, block)
    _check_packed(packed, size)
    channels = aligned(shape.channels, block)
    full = np.empty((shape.kernels, channels, shape.height, shape.width), packed.dtype)
    kernel_size = size // shape.kernels
    for first, count, width in kernel_groups(shape.kernels, group):
        part = packed[first * kernel_size : (first + count) * kernel_size].reshape(
            -1, channels // block, shape.height, shape.width, width, block
        )
        full[first : first + count] = part.transpose(0, 4, 1, 5, 2, 3).reshape(
            count, channels, shape.height, shape.width
        )
    return np.ascontiguousarray(full[:, : shape.channels])


def kernel_groups(kernels: int, group: int) -> list[tuple[int, int, int]]:
    """Return (first kernel, kernels, kernels of a group) of the full groups and of the rest."""
    whole = kernels // group * group
    parts = [(0, whole, group), (whole, kernels - whole, kernels - whole)]
    return [part for part in parts if part[1]]


# --- depthwise weights: [C / 64][R][S][64] ------------------------------------------------------------


def depthwise_elements(channels: int, height: int, width: int) -> int:
    """Return the elements of packed depthwise weights: channels are padded to a multiple of 64."""
    _check_sizes(channels=channels, height=height, width=width)
    return _checked_total(aligned(channels, DEPTHWISE_GROUP) * height * width, "depthwise weights")


def pack_depthwise(weights: Array) -> Array:
    """Pack depthwise weights (C, R, S) as memory holds them: one row of elements, a new array.

    Groups have 64 channels (source: D MESA); that taps come before channels inside a group is inferred from
    the dense order. Raises FormatError for other ranks and empty dimensions.
    """
    check_rank(weights, 3, "C, R, S")
    channels, height, width = weights.shape
    depthwise_elements(channels, height, width)
    full = np.zeros((aligned(channels, DEPTHWISE_GROUP), height, width), weights.dtype)
    full[:channels] = weights
    return full.reshape(-1, DEPTHWISE_GROUP, height, width).transpose(0, 2, 3, 1).reshape(-1)


# --- bytes of an image ---------------------------------------------------------------------------------


def image_bytes(elements: Array) -> bytes:
    """Return the little-endian bytes of packed elements, in the order of addresses."""
    return elements.astype(elements.dtype.newbyteorder("<"), copy=False).tobytes()
