"""Instructions on microscaled types: packed elements, and scales of 8 partitions of them."""

from math import prod
from typing import Any

from npuviz.targets.neuroncore.isa import MxFormat
from npuviz.targets.neuroncore.nki.calls.operands import tile
from npuviz.targets.neuroncore.nki.calls.psum_sums import accumulates
from npuviz.targets.neuroncore.nki.record.element_types import NAMES, packed_name
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor

_FORMATS = {
    "float8_e4m3fn_x4": MxFormat.FLOAT8_E4M3FN,
    "float8_e5m2_x4": MxFormat.FLOAT8_E5M2,
    "float4_e2m1fn_x4": MxFormat.FLOAT4_E2M1FN,
}


def _packed(value: object, what: str) -> tuple[Tensor, MxFormat]:
    found = tile(value, what)
    form = _FORMATS.get(packed_name(found.dtype))
    if form is None or found.shape[0] % 32 or found.buffer != SBUF:
        raise KernelError(
            f"{what}: {found!r} is no tile of SBUF with 32, 64, 96 or 128 partitions of {', '.join(_FORMATS)}"
        )
    return found, form


def _scales(value: object, data: Tensor, what: str) -> Tensor:
    found = tile(value, what)
    is_scale = found.dtype == NAMES["uint8"] or packed_name(found.dtype) == "float8_e8m0fnu"
    needed = 32 * (data.shape[0] // 32 - 1) + 4
    if not is_scale or found.shape[0] < needed or prod(found.shape[1:]) != prod(data.shape[1:]):
        raise KernelError(
            f"{what}: {found!r} is no tile of uint8 or float8_e8m0fnu with {needed} partitions and "
            f"{prod(data.shape[1:])} elements in each"
        )
    return found


def _check_machine(call: str) -> None:
    if spec_in_use().version < 4:
        raise KernelError(f"{call} needs NeuronCore-v4 (trn3)")


def quantize_mx(dst: object, src: object, dst_scale: object) -> None:
    """dst, dst_scale = src in a microscaled type. Raises KernelError."""
    _check_machine("quantize_mx")
    target, form = _packed(dst, "quantize_mx dst")
    source, scales = tile(src, "quantize_mx src"), _scales(dst_scale, target, "quantize_mx dst_scale")
    if form == MxFormat.FLOAT4_E2M1FN:
        raise KernelError("quantize_mx: dst is float8_e4m3fn_x4 or float8_e5m2_x4")
    if source.dtype not in (NAMES["float16"], NAMES["bfloat16"]):
        raise KernelError(f"quantize_mx: src {source!r} is float16 or bfloat16")
    if source.shape[0] != target.shape[0] or source.size != 4 * target.size:
        raise KernelError(f"quantize_mx: {source!r} does not become {target!r}: four elements are packed")
    current().step("quantize_mx", target, (source,), None, (scales,), form=form)


def nc_matmul_mx(
    dst: object, operands: tuple[object, object], scales: tuple[object, object], accumulate: Any, tiled: bool
) -> None:
    """dst = or += stationary.T @ moving of microscaled tiles. Raises KernelError."""
    _check_machine("nc_matmul_mx")
    a, first = _packed(operands[0], "nc_matmul_mx stationary")
    b, second = _packed(operands[1], "nc_matmul_mx moving")
    by_a = _scales(scales[0], a, "nc_matmul_mx stationary_scale")
    by_b = _scales(scales[1], b, "nc_matmul_mx moving_scale")
    target = tile(dst, "nc_matmul_mx dst")
    rows, columns = prod(a.shape[1:]), prod(b.shape[1:])
    if target.buffer != PSUM or a.shape[0] != b.shape[0] or rows % 2 or rows > 128:
        raise KernelError(
            f"nc_matmul_mx of {a!r} and {b!r} to {target!r}: equal partitions, at most 128 and an even "
            "number of stationary columns, a result in PSUM"
        )
    if target.shape[0] != rows or prod(target.shape[1:]) != columns:
        raise KernelError(f"nc_matmul_mx: the product is {[rows, columns]}, dst is {list(target.shape)}")
    recording = current()
    if tiled:
        recording.note("nc_matmul tiles of PE (tile_position) run one after the other (assumed)")
    recording.step(
        "matmul_mx", target, (a, b, by_a, by_b), formats=(first, second),
        accumulate=accumulates(target, accumulate),
    )  # fmt: skip
