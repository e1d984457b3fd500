"""Generates references for streams and memory images: the task of a matrix product, packed weights,
offsets."""

from dataclasses import replace

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.conv_task import BANK_BYTES, BLOCK, ConvTask, banks_of
from npuviz.formats.rk3588.tensor_layout import (
    Array,
    WeightShape,
    aligned,
    check_rank,
    kernel_groups,
    packing,
    weight_elements,
)


def matmul_task(
    rows: int,
    inner: int,
    columns: int,
    in_dtype: str,
    out_dtype: str = "",
    *,
    addresses: tuple[int, int, int],
) -> ConvTask:
    """Make the task of C[rows x columns] = A[rows x inner] x B[inner x columns] as a 1x1 convolution.

    `in_dtype` is float16 or int8; the output float32 or int32 unless `out_dtype` says otherwise.
    `addresses` are those of features, weights and output. Limits (source: D MTX, ORK): float16 rows 1
    or a multiple of 4, inner a multiple of 32, columns of 16; int8 inner and columns of 32; features
    at most 11 banks, a kernel at most one of 32 KB. Raises FormatError beyond them.
    """
    group = _matmul_group(in_dtype)
    checks = (
        (
            rows == 1 or (rows > 1 and (in_dtype == "int8" or rows % 4 == 0)),
            "rows",
            "1 or a multiple of 4",
            rows,
        ),
        (inner >= 1 and inner % BLOCK == 0, "inner", f"a multiple of {BLOCK}", inner),
        (columns >= 1 and columns % group == 0, "columns", f"a multiple of {group}", columns),
    )
    for fine, name, expected, found in checks:
        if not fine:
            raise FormatError("matmul task", field=name, expected=expected, found=str(found))
    task = ConvTask(
        in_dtype,
        out_dtype or ("float32" if in_dtype == "float16" else "int32"),
        width=1,
        height=rows,
        channels=inner,
        kernels=columns,
        out_height=rows,
        feature_grains=rows + 1,  # D MTX
        quantised=in_dtype == "float16",  # bit 0 is 1 for fp16, 0 for int8 (D MTX)
        feature_address=addresses[0],
        weight_address=addresses[1],
        output_address=addresses[2],
    )
    if task.kernel_bytes > BANK_BYTES:
        raise FormatError(
            "matmul task",
            field="inner",
            expected=f"a kernel of at most {BANK_BYTES} bytes",
            found=f"{task.kernel_bytes} bytes",
        )
    return replace(task, data_banks=banks_of(task)[0])


def _matmul_group(in_dtype: str) -> int:
    if in_dtype not in ("float16", "int8"):
        raise FormatError("matmul task", field="dtype", expected="float16 or int8", found=in_dtype)
    return packing(in_dtype).kernels


def feature_offset(channel: int, row: int, column: int, *, height: int, width: int, group: int) -> int:
    """Return the element offset in a feature cube with `group` (C2) channels per atom; coordinates from 0."""
    surface = channel // group * height * width * group
    return surface + (row * width + column) * group + channel % group


def weight_offset(
    kernel: int, channel: int, row: int, column: int, *, shape: WeightShape, group: int, block: int = 32
) -> int:
    """Return the element offset of a weight; coordinates from 0, C padded to a multiple of `block`.

    The last group holds only the remaining kernels: a vendor model with 1001 kernels stores
    1001, not 1008 (size measured; the order inside of that group is inferred).
    """
    taps = shape.height * shape.width
    first = kernel // group * group
    present = min(group, shape.kernels - first)
    inner = (channel // block * taps + row * shape.width + column) * present * block
    return first * aligned(shape.channels, block) * taps + inner + (kernel - first) * block + channel % block


def pack_weights(weights: Array, group: int, block: int = 32) -> Array:
    """Pack dense weights (K, C, R, S) as memory holds them, to a new flat array.

    Padding channels are zeros. Raises FormatError for other ranks and empty dimensions.
    """
    check_rank(weights, 4, "K, C, R, S")
    shape = WeightShape(*weights.shape)
    weight_elements(shape, group, block)
    channels = aligned(shape.channels, block)
    full = np.zeros((shape.kernels, channels, shape.height, shape.width), weights.dtype)
    full[:, : shape.channels] = weights
    parts: list[Array] = []
    for first, count, width in kernel_groups(shape.kernels, group):
        part = full[first : first + count].reshape(
            -1, width, channels // block, block, shape.height, shape.width
        )
        parts.append(part.transpose(0, 2, 4, 5, 1, 3).reshape(-1))
    return np.concatenate(parts)
