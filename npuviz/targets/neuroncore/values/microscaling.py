"""Plan the instructions on microscaled types: four packed elements, one scale for each 8 partitions of them.


The scale of partitions 8g to 8g + 7 is in partition 32 * (g // 4) + g % 4 of the scales. Ref: SDK isa.
"""

from collections.abc import Callable

import ml_dtypes
import numpy as np

from npuviz.targets.neuroncore.isa import ARG0, ARG1, DST, RES, SRC0, SRC1, MxFormat
from npuviz.targets.neuroncore.values.matrix import product_of
from npuviz.targets.neuroncore.values.memory import Operand, ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Plan

GROUP = 8
"""Partitions that share a scale."""
_PACKED = 4
_BIAS = 127
_ELEMENTS = {
    MxFormat.FLOAT8_E4M3FN: (np.dtype(ml_dtypes.float8_e4m3fn), 8, 448.0),
    MxFormat.FLOAT8_E5M2: (np.dtype(ml_dtypes.float8_e5m2), 15, 57344.0),
}
"""Format -> type of an element, its largest exponent and its largest finite number."""
_FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def scale_rows(partitions: int) -> np.ndarray:
    """Return, for each partition of elements, the partition of the scales that holds its scale."""
    group = np.arange(partitions) // GROUP
    return 32 * (group // 4) + group % 4


def quantize_mx(build: Build) -> Plan:
    """Plan DST [P, N/4] = SRC0 [P, N] packed in format op0, RES their scales."""
    source, target, scales = build.source(SRC0), build.target(DST), build.target(RES)
    kind, largest_exponent, largest = _element_of(build.ins.op0)
    partitions, count = source.partitions, source.count
    rows = scale_rows(partitions)[::GROUP]
    if partitions % 32 or count != target.count * _PACKED or target.partitions != partitions:
        raise ValueFault(f"QUANTIZE_MX of {partitions} x {count} to {target.partitions} x {target.count}")
    if scales.count != target.count or scales.partitions <= rows[-1]:
        raise ValueFault(
            f"QUANTIZE_MX: {scales.partitions} x {scales.count} scales for {partitions} x {count}"
        )
    values = build.matrix(source)
    out, places = target.view, scales.view

    def run() -> None:
        groups = values.reshape(partitions // GROUP, GROUP, count // _PACKED, _PACKED)
        highest = np.abs(groups).max(axis=(1, 3))
        _, exponents = np.frexp(highest)
        power = np.where(highest > 0, exponents - 1 - (largest_exponent - 1), -_BIAS)
        power = np.clip(power, -_BIAS, _BIAS)
        scaled = np.ldexp(groups, -power[:, None, :, None])
        packed = np.clip(scaled, -largest, largest).astype(kind).view(np.uint32)
        np.copyto(out, packed.reshape(out.shape))
        places.reshape(scales.partitions, scales.count)[rows] = (power + _BIAS).astype(np.uint8)

    return build.finish(run)


def nc_matmul_mx(build: Build) -> Plan:
    """Plan DST [M,N] = or += SRC0 [K,M] ^T @ SRC1 [K,N] of packed elements with scales ARG0 and ARG1."""
    target = build.target(DST)
    found: list[np.ndarray] = []
    sizes: list[tuple[int, int]] = []
    for position, at, form in ((SRC0, ARG0, build.ins.op0), (SRC1, ARG1, build.ins.op1)):
        data, scales = build.source(position), build.source(at)
        if data.partitions % 32 or scales.count != data.count:
            raise ValueFault(
                f"NC_MATMUL_MX: {scales.partitions} x {scales.count} scales for "
                f"{data.partitions} x {data.count}"
            )
        if scales.partitions <= scale_rows(data.partitions)[-1]:
            raise ValueFault(f"NC_MATMUL_MX: {scales.partitions} partitions of scales for {data.partitions}")
        sizes.append((data.partitions, data.count))
        made = build.scratch((_PACKED, data.partitions, data.count))
        build.before.append(_unpacker(data, scales, form, made))
        found.append(made.reshape(_PACKED * data.partitions, data.count))
    if sizes[0] != (sizes[1][0], target.partitions) or sizes[1][1] != target.count:
        raise ValueFault(f"{sizes[0]} and {sizes[1]} do not give {target.partitions} x {target.count}")
    return product_of(build, target, found[0].T, found[1])


def _unpacker(data: Operand, scales: Operand, form: int, made: np.ndarray) -> Callable[[], object]:
    rows = scale_rows(data.partitions)
    shape = (data.partitions, data.count)

    def run() -> None:
        packed = np.ascontiguousarray(data.view).reshape(shape)
        if form == MxFormat.FLOAT4_E2M1FN:
            parts = [_FLOAT4[packed >> 4 * place & 15] for place in range(_PACKED)]
        else:
            elements = packed.view(_element_of(form)[0]).reshape(*shape, _PACKED)
            parts = [elements[..., place].astype(np.float32) for place in range(_PACKED)]
        powers = np.ascontiguousarray(scales.view).reshape(scales.partitions, -1)[rows].astype(np.int32)
        for place, part in enumerate(parts):
            np.ldexp(part, powers - _BIAS, out=made[place])

    return run


def _element_of(form: int) -> tuple[np.dtype, int, float]:
    found = _ELEMENTS.get(MxFormat(form)) if form in frozenset(MxFormat) else None
    if found is None:
        raise ValueFault(f"{form} is no format of 8-bit elements")
    return found
