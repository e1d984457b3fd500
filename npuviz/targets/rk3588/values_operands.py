"""Operands in memory as arrays: feature cubes read and written, weights, and the input convert of CNA."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from npuviz.formats.rk3588_layout import DEPTHWISE_GROUP, PACKINGS, WeightShape, unpack_weights
from npuviz.targets.rk3588.values_memory import Memory, ValueFault
from npuviz.targets.rk3588.values_round import shifted
from npuviz.targets.rk3588.work import (
    ATOM_BYTES,
    BF16,
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    PRECISION_BYTES,
    PRECISION_NAMES,
    TF32,
    Convolution,
    bits,
    signed,
)

NUMPY_TYPES = {
    INT8: np.dtype(np.int8),
    INT16: np.dtype(np.int16),
    FP16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    INT32: np.dtype(np.int32),
    FP32: np.dtype(np.float32),
    TF32: np.dtype(np.float32),
}
"""Element types by precision code; int4 is not here."""

FLOATS = frozenset((FP16, BF16, FP32, TF32))
"""Precision codes that are calculated in fp32."""

MAX_ELEMENTS = 1 << 28
"""Elements of one operand of a task; more is a wild size in a register."""


def element_type(precision: int, what: str) -> np.dtype:
    """The numpy type of a precision code. Raises ValueFault for int4."""
    if precision not in NUMPY_TYPES:
        raise ValueFault(f"{what}: values of precision {PRECISION_NAMES[precision]} are not computed")
    return NUMPY_TYPES[precision]


def read_cube(
    memory: Memory,
    address: int,
    size: tuple[int, int, int],
    pitches: tuple[int, int],
    dtype: np.dtype,
    what: str,
) -> np.ndarray:
    """A feature cube (C, H, W) in NC1HWC2, a new array of `dtype`; channels are filled up to whole atoms.

    size     channels, height, width; pitches  bytes between surfaces and between rows
    """
    atoms = cube_atoms(memory, address, size, pitches, dtype.itemsize, what)
    surfaces, height, width, _ = atoms.shape
    cube = np.ascontiguousarray(atoms).view(dtype).transpose(0, 3, 1, 2)
    return cube.reshape(surfaces * (ATOM_BYTES // dtype.itemsize), height, width)


def cube_atoms(
    memory: Memory, address: int, size: tuple[int, int, int], pitches: tuple[int, int], item: int, what: str
) -> np.ndarray:
    """The atoms of a cube where they lie: uint8 (surfaces, H, W, 16), read-only."""
    channels, height, width = size
    surfaces = -(-channels * item // ATOM_BYTES)
    if min(surfaces, height, width) < 1:
        raise ValueFault(f"{what}: a cube of {channels} x {height} x {width} holds nothing")
    if surfaces * height * width * (ATOM_BYTES // item) > MAX_ELEMENTS:
        raise ValueFault(f"{what}: a cube of {channels} x {height} x {width} is too large")
    surface, row = pitches
    surface = surface if surfaces > 1 else 0
    row = row if height > 1 else 0
    if surface < 0 or row < 0:
        raise ValueFault(f"{what}: {surface} bytes between surfaces, {row} between rows: they lead back")
    span = (surfaces - 1) * surface + (height - 1) * row + width * ATOM_BYTES
    data = memory.view(address, span, what)
    return np.lib.stride_tricks.as_strided(
        data, (surfaces, height, width, ATOM_BYTES), (surface, row, ATOM_BYTES, 1), writeable=False
    )


def feature_atoms(memory: Memory, conv: Convolution, address: int) -> np.ndarray:
    """What CNA fetches of the features: uint8 (surfaces, H, W, 16).

    LINE_STRIDE counts 4 bytes here: it is 4 * W in atoms of 16 bytes where rows are W atoms apart.
    Ref: ALLB, DER.
    """
    pitches = ((conv.line_stride + conv.surface_stride) * ATOM_BYTES, conv.line_stride * (ATOM_BYTES // 4))
    item = PRECISION_BYTES[conv.precision]
    size = (conv.channels, conv.height, conv.width)
    return cube_atoms(memory, address, size, pitches, item, "features")


def weight_bytes(memory: Memory, conv: Convolution, address: int) -> np.ndarray:
    """What CNA fetches of the weights, uint8."""
    if not 0 < conv.weight_bytes <= MAX_ELEMENTS:
        raise ValueFault(f"WEIGHT_SIZE0 has {conv.weight_bytes} bytes")
    return memory.view(address, conv.weight_bytes, "weights")


# --- weights ---------------------------------------------------------------------------------------


def dense_weights(conv: Convolution, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Packed weights as (K, C, R, S).

    C is that of the packed weights, from the bytes a kernel has. Where K fills no whole group or C no
    whole block, what WEIGHT_SIZE0 covers decides: filled up, or narrower (Assumed).
    """
    taps = conv.kernel_height * conv.kernel_width
    name = "tf32" if conv.precision == TF32 else PRECISION_NAMES[conv.precision]
    packing = PACKINGS[name]
    channels = conv.kernel_bytes // max(1, taps * dtype.itemsize)
    if taps == 0 or channels == 0 or conv.kernels == 0:
        raise ValueFault(
            f"{conv.kernels} kernels of {conv.kernel_bytes} bytes and {conv.kernel_height} x "
            f"{conv.kernel_width} taps hold no weights"
        )
    elements = data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
    if len(elements) < conv.kernels * channels * taps:
        raise ValueFault(
            f"WEIGHT_SIZE0 has {len(data)} bytes: {conv.kernels} kernels need "
            f"{conv.kernels * conv.kernel_bytes}"
        )
    group, block = packing.kernels, packing.block
    full = -(-conv.kernels // group) * group
    if len(elements) >= full * channels * taps and channels % block == 0:
        shape = WeightShape(conv.kernels, channels, conv.kernel_height, conv.kernel_width)
        return unpack_weights(elements, shape, group, block)
    made = np.empty((conv.kernels, channels, conv.kernel_height, conv.kernel_width), dtype)
    is_filled = len(elements) >= full * channels * taps
    at = 0
    for kernel in range(0, conv.kernels, group):
        held = min(group, conv.kernels - kernel)
        wide = group if is_filled else held
        for channel in range(0, channels, block):
            deep = min(block, channels - channel)
            size = taps * wide * deep
            part = elements[at : at + size].reshape(conv.kernel_height, conv.kernel_width, wide, deep)
            made[kernel : kernel + held, channel : channel + deep] = part[:, :, :held].transpose(2, 3, 0, 1)
            at += size
    return made


def depthwise_weights(conv: Convolution, data: np.ndarray, dtype: np.dtype, channels: int) -> np.ndarray:
    """Packed depthwise weights as (C, R, S); the last group of 64 is narrower if the bytes end earlier."""
    taps = conv.kernel_height * conv.kernel_width
    elements = data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
    held = len(elements) // max(1, taps)
    if taps == 0 or held < channels:
        raise ValueFault(
            f"depthwise weights of {len(data)} bytes: {channels} channels of {taps} taps need more"
        )
    made = np.empty((channels, conv.kernel_height, conv.kernel_width), dtype)
    for channel in range(0, channels, DEPTHWISE_GROUP):
        wide = min(DEPTHWISE_GROUP, held - channel)
        used = min(wide, channels - channel)
        part = elements[channel * taps : (channel + wide) * taps]
        part = part.reshape(conv.kernel_height, conv.kernel_width, wide)
        made[channel : channel + used] = part[:, :, :used].transpose(2, 0, 1)
    return made


# --- features --------------------------------------------------------------------------------------


def features_of(memory: Memory, conv: Convolution, address: int, registers: Mapping[int, int]) -> np.ndarray:
    """The features as CORE multiplies them: (C, H, W) after the input convert, not padded."""
    dtype = element_type(conv.precision, "features")
    if bits(registers.get(0x100C, 0), 15, 12) & 8:
        raise ValueFault("CONV_CON1 asks for pixels of an image (ARGB): their values are not computed")
    atoms = feature_atoms(memory, conv, address)
    cube = np.ascontiguousarray(atoms).view(dtype).transpose(0, 3, 1, 2)
    cube = cube.reshape(-1, conv.height, conv.width)[: conv.channels]
    config = registers.get(0x104C, 1)
    if config & 1 or conv.precision in FLOATS:
        return cube.astype(np.float32)
    return _converted(cube, config, registers).astype(np.float32)


def _converted(cube: np.ndarray, config: int, registers: Mapping[int, int]) -> np.ndarray:
    """The input convert of integers. Ref: TRM: scale, offset and shift for channel c mod 4.

    Assumed: which of the four a channel uses, and that results saturate to the type of the features.
    """
    limits = np.iinfo(cube.dtype)
    if not config & 8:
        cube = cube.view(np.dtype(f"u{cube.dtype.itemsize}"))
    made = cube.astype(np.float64)
    for lane, low in enumerate((4, 10, 16, 22)):
        word = registers.get(0x1050 + 4 * lane, 0x10000)
        scale, offset = signed(word >> 16 & 0xFFFF, 16), signed(word & 0xFFFF, 16)
        shift, part = bits(config, low + 5, low), made[lane::4]
        if config & 2:
            part = shifted((part + offset) * scale, shift, bool(config & 4))
        else:
            part = shifted(part * scale, shift, bool(config & 4)) + offset
        made[lane::4] = part
    return np.clip(made, limits.min, limits.max)


def write_cube(
    memory: Memory, address: int, values: np.ndarray, surface_stride: int, what: str, row_stride: int = 0
) -> None:
    """Write a cube (C, H, W) as NC1HWC2; strides in atoms, row_stride 0: rows lie one after the other.

    Atoms are written whole: channels that fill up the last one are 0 (Assumed).
    """
    item = values.dtype.itemsize
    group = ATOM_BYTES // item
    channels, height, width = values.shape
    surfaces = -(-channels // group)
    pixels = height * width
    row = row_stride or width
    if surfaces > 1 and surface_stride < (height - 1) * row + width:
        raise ValueFault(
            f"{what}: surfaces of {pixels} atoms are {surface_stride} atoms apart and overwrite each other"
        )
    span = ((surfaces - 1) * surface_stride + (height - 1) * row + width) * ATOM_BYTES
    data = memory.target(address, span, what)
    packed = np.zeros((surfaces, group, height, width), values.dtype)
    packed.reshape(-1, height, width)[:channels] = values
    atoms = np.ascontiguousarray(packed.transpose(0, 2, 3, 1)).view(np.uint8)
    pitches = (surface_stride * ATOM_BYTES, row * ATOM_BYTES, ATOM_BYTES, 1)
    place = np.lib.stride_tricks.as_strided(data, (surfaces, height, width, ATOM_BYTES), pitches)
    place[:] = atoms
