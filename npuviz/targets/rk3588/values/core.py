"""Compute CORE of a task: the convolution of its features and weights, as sums.

int8 sums are exact: products are added in float32 only as far as every partial sum is below 2^24, and the
parts in float64, in which integers are exact below 2^53. fp16, bf16 and tf32 are multiplied and added in
fp32; in which order the chip adds is not known (Assumed: any). Zero times infinity is zero.
"""

from collections.abc import Mapping

import numpy as np

from npuviz.targets.rk3588.task.channel_operands import BS, data_use, takes_weight_offsets
from npuviz.targets.rk3588.task.work import (
    BF16,
    FLOATS,
    FP16,
    FP32,
    INT16,
    PRECISION_NAMES,
    Convolution,
    signed,
)
from npuviz.targets.rk3588.task.work import INT32 as INT32_CODE
from npuviz.targets.rk3588.values import operands
from npuviz.targets.rk3588.values.cubes import MAX_ELEMENTS, NUMPY_TYPES, element_type
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.rounding import INT32, shifted

_EXACT32 = 1 << 24
_COLUMN_ELEMENTS = 1 << 23


def _padded(cube: np.ndarray, conv: Convolution) -> np.ndarray:
    """Return the cube with its padding; below and right as far as the output reaches."""
    height = (conv.out_height - 1) * conv.stride_y + (conv.kernel_height - 1) * conv.dilation_y + 1
    width = (conv.out_width - 1) * conv.stride_x + (conv.kernel_width - 1) * conv.dilation_x + 1
    below, right = height - conv.pad_top - cube.shape[1], width - conv.pad_left - cube.shape[2]
    reach = (conv.kernel_height * conv.dilation_y, conv.kernel_width * conv.dilation_x)
    # Padding has 4 bits (XML); more than that and a window means sizes that do not belong together.
    if below > reach[0] + 15 or right > reach[1] + 15 or len(cube) * height * width > MAX_ELEMENTS:
        raise ValueFault(
            f"the output of CORE reaches over {height} x {width} positions: the input has "
            f"{cube.shape[1]} x {cube.shape[2]}"
        )
    if (cube.shape[1], cube.shape[2]) == (height, width) and not (conv.pad_top or conv.pad_left):
        return cube
    made = np.full((len(cube), height, width), _pad_value(conv), cube.dtype)
    used_y, used_x = min(cube.shape[1], height - conv.pad_top), min(cube.shape[2], width - conv.pad_left)
    if used_y > 0 and used_x > 0:
        top, left = conv.pad_top, conv.pad_left
        made[:, top : top + used_y, left : left + used_x] = cube[:, :used_y, :used_x]
    return made


def _pad_value(conv: Convolution) -> float:
    if conv.precision in (FP16, BF16):
        raw = np.array([conv.pad_value & 0xFFFF], np.uint16)
        return float(raw.view(NUMPY_TYPES[conv.precision])[0])
    if conv.precision in FLOATS:
        return float(np.array([conv.pad_value & 0xFFFFFFFF], np.uint32).view(np.float32)[0])
    return (
        signed(conv.pad_value & 0xFFFF, 16) if conv.precision == INT16 else signed(conv.pad_value & 0xFF, 8)
    )


def convolve(
    memory: Memory, conv: Convolution, addresses: tuple[int, int], registers: Mapping[int, int]
) -> np.ndarray:
    """Return the results of CORE: (K, OH, OW), float64 that holds integers, or float32 of floats.

    addresses  of features and weights
    Integers are shifted by CLIP_TRUNCATE and saturate to 32 bits (Assumed, as NVDLA).
    """
    if conv.stride_x == 0 or conv.stride_y == 0:
        raise ValueFault("CONV_CON3 has a stride of 0")
    dtype = element_type(conv.precision, "weights")
    if conv.precision in (INT32_CODE, FP32):
        # Ref: TRM: these two exist in the DPU only.
        raise ValueFault(
            f"CONV_CON1 has precision {PRECISION_NAMES[conv.precision]}: CORE multiplies no such numbers"
        )
    count = conv.out_kernels if conv.is_depthwise else conv.kernels
    if count * conv.out_height * conv.out_width > MAX_ELEMENTS:
        raise ValueFault(f"CORE's output of {count} x {conv.out_height} x {conv.out_width} is too large")
    cube = _padded(operands.features_of(memory, conv, addresses[0], registers), conv)
    data = np.array(operands.weight_bytes(memory, conv, addresses[1]))
    if conv.is_depthwise:
        count = min(count, len(cube))
        sums = _depthwise(cube[:count], operands.depthwise_weights(conv, data, dtype, count), conv)
    else:
        sums = _dense(cube, operands.dense_weights(conv, data, dtype).astype(np.float32), conv)
    if conv.precision in FLOATS:
        return sums.astype(np.float32, copy=False)
    sums = sums.astype(np.float64, copy=False)
    if not registers.get(0x4050, 2) & 2:
        _compensate(sums, cube, conv, _weight_offsets(memory, len(sums), registers))
    if conv.truncate:
        sums = shifted(sums, conv.truncate, bool(registers.get(0x301C, 0) & 0x40))
    return np.clip(sums, *INT32)


def _taps(conv: Convolution) -> list[tuple[int, int, slice, slice]]:
    """Return row and column of each tap, and the rows and columns of the padded input that it meets."""
    found: list[tuple[int, int, slice, slice]] = []
    for row in range(conv.kernel_height):
        for column in range(conv.kernel_width):
            y, x = row * conv.dilation_y, column * conv.dilation_x
            rows = slice(y, y + (conv.out_height - 1) * conv.stride_y + 1, conv.stride_y)
            columns = slice(x, x + (conv.out_width - 1) * conv.stride_x + 1, conv.stride_x)
            found.append((row, column, rows, columns))
    return found


def _weight_offsets(memory: Memory, channels: int, registers: Mapping[int, int]) -> np.ndarray:
    """Return the CPEND operands: numbers added to every weight of a kernel, (K, 1, 1), or (1, 1, 1) of a
    constant."""
    if takes_weight_offsets(registers):
        use, address = data_use(registers, BS, set()), registers.get(BS.address, 0)
        held = operands.read_operands(memory, address, channels, use, False, "BS operands")
        return held["cpend"]
    return np.full((1, 1, 1), signed(registers.get(0x4054, 0) & 0xFFFF, 16), np.float64)


def _compensate(sums: np.ndarray, cube: np.ndarray, conv: Convolution, offsets: np.ndarray) -> None:
    """Add CPEND: the sum of the window times a number, which stands for weights with a zero point.

    Measured in vendor int8 files: the operands are the negated medians of their kernels, and the biases are
    -128 times the sums of the weights with them. MESA writes 0x80 - zero point of unsigned weights.
    """
    if not offsets.any():
        return
    plane = cube.astype(np.float64) if conv.is_depthwise else cube.sum(0, dtype=np.float64, keepdims=True)
    for _, _, rows, columns in _taps(conv):
        sums += offsets * plane[: len(sums), rows, columns]


def _depthwise(cube: np.ndarray, weights: np.ndarray, conv: Convolution) -> np.ndarray:
    sums = np.zeros((len(cube), conv.out_height, conv.out_width), _sum_type(conv))
    with np.errstate(invalid="ignore"):
        for row, column, rows, columns in _taps(conv):
            factors = weights[:, row, column].astype(sums.dtype)[:, None, None]
            features = cube[:, rows, columns]
            products = features * factors
            if not np.isfinite(products).all():
                gated = (np.isinf(features) & (factors == 0)) | (np.isinf(factors) & (features == 0))
                products[gated] = 0
            sums += products
    return sums


def _sum_type(conv: Convolution) -> type[np.float32] | type[np.float64]:
    return np.float32 if conv.precision in FLOATS else np.float64


def _dense(cube: np.ndarray, weights: np.ndarray, conv: Convolution) -> np.ndarray:
    """Return the products, a few taps and channels at a time: (K, OH, OW)."""
    kernels = len(weights)
    channels = min(len(cube), weights.shape[1])
    pixels = conv.out_height * conv.out_width
    work, depth = _exact_depth(cube, weights, conv)
    depth = max(1, min(depth, max(64, _COLUMN_ELEMENTS // pixels)))
    sums = np.zeros((kernels, pixels), _sum_type(conv))
    parts: list[np.ndarray] = []
    factors: list[np.ndarray] = []
    held = 0

    def flush() -> None:
        nonlocal held
        if parts:
            columns = parts[0] if len(parts) == 1 else np.concatenate(parts)
            factor = factors[0] if len(factors) == 1 else np.concatenate(factors, axis=1)
            products = _product(factor.astype(work, copy=False), columns.astype(work, copy=False))
            with np.errstate(invalid="ignore"):
                np.add(sums, products, out=sums)
            parts.clear()
            factors.clear()
            held = 0

    for row, column, rows, cols in _taps(conv):
        for start in range(0, channels, depth):
            stop = min(start + depth, channels)
            if held + stop - start > depth:
                flush()
            parts.append(cube[start:stop, rows, cols].reshape(stop - start, pixels))
            factors.append(weights[:, start:stop, row, column])
            held += stop - start
    flush()
    return sums.reshape(kernels, conv.out_height, conv.out_width)


def _product(factors: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the matrix product (K, N) of (K, C) and (C, N) in which zero times infinity is zero.

    Ref: NVDLA's open hardware, from which CORE comes: csc sends a mask of the elements that are not zero, and
    CMAC_CORE_MAC_mul passes a product on only where both bits are set; a NaN is found beside the multipliers
    and spoils the sum whatever it meets. Assumed: RK3588 does the same.
    """
    with np.errstate(invalid="ignore"):
        plain = factors @ columns
        if np.isfinite(plain).all():
            return plain
        rising = _meets(factors == np.inf, columns > 0) | _meets(factors == -np.inf, columns < 0)
        rising |= _meets(factors > 0, columns == np.inf) | _meets(factors < 0, columns == -np.inf)
        falling = _meets(factors == np.inf, columns < 0) | _meets(factors == -np.inf, columns > 0)
        falling |= _meets(factors > 0, columns == -np.inf) | _meets(factors < 0, columns == np.inf)
        finite = np.where(np.isinf(factors), 0, factors) @ np.where(np.isinf(columns), 0, columns)
        finite[rising] += np.inf
        finite[falling] -= np.inf
    return finite


def _meets(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return (K, N) of bool: whether a set element of row k of (K, C) meets a set one of column n of (C,
    N)."""
    if not left.any() or not right.any():
        return np.zeros((left.shape[0], right.shape[1]), np.bool_)
    return left.astype(np.float32) @ right.astype(np.float32) > 0


def _exact_depth(cube: np.ndarray, weights: np.ndarray, conv: Convolution) -> tuple[type, int]:
    """Return the type in which to multiply, and how many products may be added in it."""
    if conv.precision in FLOATS:
        return np.float32, 1 << 14
    largest = float(np.abs(cube).max(initial=1)) * float(np.abs(weights).max(initial=1))
    depth = int(_EXACT32 // max(1.0, largest))
    return (np.float32, depth) if depth >= 64 else (np.float64, 1 << 14)
