"""Name the parts of the instruction set that CSL is lowered to, and pack and unpack descriptor words.

A PE runs one function at a time on its main thread, with a frame of 64-bit registers; DSD operations run on
the main thread (synchronous) or on one of eight microthreads. Register words hold integers extended by their
sign (or zero), floats as raw bits, and descriptors (DSDs) packed into one word.
"""

from dataclasses import dataclass
from functools import cache

from npuviz.targets.wavelet.kernels import isa as k


@dataclass(frozen=True, slots=True)
class Field:
    """The bits of a descriptor word that hold one field."""

    shift: int
    mask: int
    is_signed: bool = False


FIELDS: dict[int, Field] = {
    k.F_KIND: Field(k.SHIFT_KIND, k.MASK_KIND),
    k.F_BASE: Field(k.SHIFT_BASE, k.MASK_BASE),
    k.F_EXTENT: Field(k.SHIFT_EXTENT, k.MASK_EXTENT),
    k.F_STRIDE: Field(k.SHIFT_STRIDE, k.MASK_STRIDE, is_signed=True),
    k.F_QUEUE: Field(k.SHIFT_QUEUE, k.MASK_QUEUE),
    k.F_COLOR: Field(k.SHIFT_COLOR, k.MASK_COLOR),
    k.F_INDEX_OFFSET: Field(k.SHIFT_INDEX_OFFSET, 1),
    k.F_CONTROL: Field(k.SHIFT_CONTROL, 1),
    k.F_CONTROL_TRANSFORM: Field(k.SHIFT_CONTROL_TRANSFORM, 1),
    k.F_SIMD: Field(k.SHIFT_SIMD, 3),
    k.F_PRIORITY: Field(k.SHIFT_PRIORITY, 3),
    k.F_ADVANCE_SWITCH: Field(k.SHIFT_ADVANCE_SWITCH, 1),
    k.F_ZERO: Field(k.SHIFT_ZERO, 3),
    k.F_DSR_FILE: Field(k.SHIFT_DSR_FILE, 3),
    k.F_DSR_ID: Field(k.SHIFT_DSR_ID, 0x1F),
}
"""Field (F_...) -> its bits. Queue and color share bits with the base address, which fabric words lack."""


NO_QUEUE = 15
NO_COLOR = 31
"""Values of the queue and color fields of a descriptor word that has none."""


def pack(kind: int, **values: int) -> int:
    """Return a descriptor word, as in `pack(KIND_MEM1D, base=64, extent=8)`; keywords are names of F_
    constants."""
    word = kind
    for name, value in values.items():
        place = FIELDS[getattr(k, f"F_{name.upper()}")]
        word |= (value & place.mask) << place.shift
    return word


def unpack(word: int, field: int) -> int:
    """Return the value of a field (F_...) of a descriptor word."""
    place = FIELDS[field]
    value = (word >> place.shift) & place.mask
    if place.is_signed and value > place.mask >> 1:
        value -= place.mask + 1
    return value


@cache
def name_of(prefix: str, value: int) -> str:
    """Return the name of the constant with a prefix and a value: `name_of("D_", 22)` is "fmach"."""
    for name, number in vars(k).items():
        if name.startswith(prefix) and number == value:
            return name.removeprefix(prefix).lower()
    return f"{prefix.lower()}{value}"
