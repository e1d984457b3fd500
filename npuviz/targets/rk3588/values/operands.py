"""Read what CNA and the per-channel readers fetch: features, weights, operands of BS and BN, the input
convert."""

from collections.abc import Mapping

import numpy as np

from npuviz.formats.rk3588.tensor_layout import DEPTHWISE_GROUP, PACKINGS, WeightShape, unpack_weights
from npuviz.targets.rk3588.task.channel_operands import BLOCK, operand_bytes, sizes_of
from npuviz.targets.rk3588.task.work import (
    ATOM_BYTES,
    FLOATS,
    PRECISION_BYTES,
    PRECISION_NAMES,
    TF32,
    Convolution,
    bits,
    signed,
)
from npuviz.targets.rk3588.values.cubes import MAX_ELEMENTS, cube_atoms, element_type
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.rounding import shifted


def feature_atoms(memory: Memory, conv: Convolution, address: int) -> np.ndarray:
    """Return the features that CNA fetches: uint8 (surfaces, H, W, 16).

    LINE_STRIDE counts 4 bytes here: it is 4 * W in atoms of 16 bytes where rows are W atoms apart. Ref: ALLB,
    DER.
    """
    pitches = ((conv.line_stride + conv.surface_stride) * ATOM_BYTES, conv.line_stride * (ATOM_BYTES // 4))
    item = PRECISION_BYTES[conv.precision]
    size = (conv.channels, conv.height, conv.width)
    return cube_atoms(memory, address, size, pitches, item, "features")


def pixel_channels(registers: Mapping[int, int]) -> int:
    """Return the channels of the packed pixels that CNA reads, 0 if it reads feature cubes. Ref: TRM
    (argb_in)."""
    code = bits(registers.get(0x100C, 0), 15, 12)
    return code - 7 if 8 <= code <= 11 else 0


def pixel_rows(memory: Memory, conv: Convolution, address: int, channels: int) -> np.ndarray:
    """Return the image that CNA fetches: uint8 (H, bytes of a row), the channels of a pixel side by side.

    LINE_STRIDE counts pixels here (measured: vendor files, rows of an image cut into tasks).
    """
    depth = channels * PRECISION_BYTES[conv.precision]
    pitch = conv.line_stride * depth if conv.height > 1 else 0
    row = conv.width * depth
    if conv.height < 1 or conv.width < 1:
        raise ValueFault(f"features: an image of {conv.height} x {conv.width} pixels holds nothing")
    data = memory.view(address, (conv.height - 1) * pitch + row, "features")
    return np.lib.stride_tricks.as_strided(data, (conv.height, row), (pitch, 1), writeable=False)


def fetched_features(
    memory: Memory, conv: Convolution, address: int, registers: Mapping[int, int]
) -> np.ndarray:
    """Return the bytes that CNA fetches of the features, in their order; a copy."""
    pixels = pixel_channels(registers)
    if pixels:
        return np.array(pixel_rows(memory, conv, address, pixels)).reshape(-1)
    return np.array(feature_atoms(memory, conv, address)).reshape(-1)


def weight_bytes(memory: Memory, conv: Convolution, address: int) -> np.ndarray:
    """Return the bytes (uint8) that CNA fetches of the weights."""
    if not 0 < conv.weight_bytes <= MAX_ELEMENTS:
        raise ValueFault(f"WEIGHT_SIZE0 has {conv.weight_bytes} bytes")
    return memory.view(address, conv.weight_bytes, "weights")


# --- weights ---------------------------------------------------------------------------------------


def dense_weights(conv: Convolution, data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return packed weights as (K, C, R, S).

    C is that of the packed weights, from the bytes of a kernel. Where K fills no whole group or C no whole
    block, what WEIGHT_SIZE0 covers decides: filled up, or narrower (Assumed).
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
    """Return packed depthwise weights as (C, R, S); the last group of 64 is narrower if the bytes end
    earlier."""
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


# --- operands of BS and BN -------------------------------------------------------------------------


def read_operands(
    memory: Memory, address: int, channels: int, use: int, is_float: bool, what: str
) -> dict[str, np.ndarray]:
    """Return per-channel operands: kind -> (C, 1, 1), float64 of integers or float32.

    use  bits of data_use (TRM): 0 ALU (32 bits), 1 CPEND (16), 2 MUL (16), 3 shift (8)
    """
    dtypes = {
        "alu": np.dtype(np.float32 if is_float else np.int32),
        "cpend": np.dtype(np.int16),
        "mul": np.dtype(np.float16 if is_float else np.int16),
        "shift": np.dtype(np.uint8),
    }
    present = [(kind, dtypes[kind]) for kind, _ in sizes_of(use)]
    block = sum(dtype.itemsize for _, dtype in present) * BLOCK
    blocks = -(-channels // BLOCK)
    # Of the last block only what its channels need must exist.
    size = operand_bytes(channels, use)
    data = np.zeros(blocks * block, np.uint8)
    data[:size] = memory.view(address, size, what)
    found: dict[str, np.ndarray] = {}
    start = 0
    for kind, dtype in present:
        stop = start + dtype.itemsize * BLOCK
        part = np.ascontiguousarray(data.reshape(blocks, block)[:, start:stop]).view(dtype)
        found[kind] = part.reshape(-1)[:channels].astype(np.float32 if is_float else np.float64)[
            :, None, None
        ]
        start = stop
    return found


# --- features --------------------------------------------------------------------------------------


def features_of(memory: Memory, conv: Convolution, address: int, registers: Mapping[int, int]) -> np.ndarray:
    """Return the features as CORE multiplies them: (C, H, W) after the input convert, not padded."""
    dtype = element_type(conv.precision, "features")
    pixels = pixel_channels(registers)
    if pixels:
        rows = np.array(pixel_rows(memory, conv, address, pixels)).view(dtype)
        cube = rows.reshape(conv.height, conv.width, pixels).transpose(2, 0, 1)
    else:
        atoms = feature_atoms(memory, conv, address)
        cube = np.ascontiguousarray(atoms).view(dtype).transpose(0, 3, 1, 2)
        cube = cube.reshape(-1, conv.height, conv.width)[: conv.channels]
    config = registers.get(0x104C, 1)
    if config & 1 or conv.precision in FLOATS:
        return cube.astype(np.float32)
    return _converted(cube, config, registers).astype(np.float32)


def _converted(cube: np.ndarray, config: int, registers: Mapping[int, int]) -> np.ndarray:
    """Apply the input convert of integers. Ref: TRM: scale, offset and shift for channel c mod 4.

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
