"""Represent what a lowered expression becomes: something known now, a register, a place in memory.

Operand
 +-- Known   a value of compile time; no code yet
 +-- Held    in a register
 +-- Place   in memory, at an address that may involve registers
 +-- Bits    bits of a packed struct in memory
 +-- Parts   a struct or tuple whose fields are operands (at least one of them exists only at run time)
 +-- Span    a range with run-time bounds
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import RuntimeLocal
from npuviz.targets.wavelet.csl.comptime.values import Value


# No abc, as in values.Value.
class Operand:
    """Base of all operands. `kind` is the type of the value, except for operands known at compile time."""

    __slots__ = ()
    kind: Any

    @property
    def type(self) -> t.Type:
        """Type of the value."""
        return self.kind


@dataclass(frozen=True, slots=True)
class Known(Operand):
    """A value known at compile time."""

    value: Value

    @property
    def type(self) -> t.Type:
        """Type of the value."""
        return self.value.type


@dataclass(frozen=True, slots=True)
class Held(Operand):
    """A scalar, pointer or descriptor in a register; `is_local`: the register is a variable's, which may
    change."""

    kind: t.Type
    register: int
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Place(Operand):
    """A value in PE memory: at r[base] (-1: 0) + offset + r[index] * scale (index -1: no index).

    is_mutable  the program may assign it
    is_stable   nothing can change it while the function uses it, so it need not be copied
    """

    kind: t.Type
    base: int = -1
    offset: int = 0
    index: int = -1
    scale: int = 0
    is_mutable: bool = True
    is_stable: bool = False

    def at(self, offset: int, kind: t.Type) -> "Place":
        """Return the part of another type that lies `offset` bytes further."""
        return replace(self, offset=self.offset + offset, kind=kind)


@dataclass(frozen=True, slots=True)
class Bits(Operand):
    """A field of a packed type: `width` bits, from bit `first` on, of the memory at `base`."""

    kind: t.Type
    base: Place
    first: int
    width: int

    def word(self) -> tuple[Place, int]:
        """Return the smallest integer in memory that holds the field, and how far the field is shifted in
        it."""
        size = self.base.kind.size
        for holder in (t.U8, t.U16, t.U32, t.U64):
            offset = max(0, min(self.first // 16 * 2, size - holder.size))
            shift = self.first - 8 * offset
            if offset + holder.size <= size and shift + self.width <= 8 * holder.size:
                return self.base.at(offset, holder), shift
        return self.base.at(self.first // 16 * 2, t.U64), self.first % 16


def field_of(base: Place | Bits, struct: t.StructType, name: str, kind: t.Type) -> Place | Bits:
    """Return a field, of type `kind`, of a struct in memory: as bits if it takes no words of its own."""
    number = struct.names.index(name)
    if isinstance(base, Place) and not struct.bits:
        return base.at(struct.offsets[number], kind)
    first = struct.bits[number][0] if struct.bits else 8 * struct.offsets[number]
    if isinstance(base, Bits):
        base, first = base.base, base.first + first
    if first % 16 == 0 and t.is_whole_words(kind):
        return base.at(first // 8, kind)
    return Bits(kind, base, first, t.bit_width(kind))


@dataclass(frozen=True, slots=True)
class Parts(Operand):
    """A struct or tuple in pieces."""

    kind: t.StructType
    fields: Mapping[str, Operand]


@dataclass(frozen=True, slots=True)
class Span(Operand):
    """`@range` with bounds that are not all known; all bounds have the type `element`."""

    kind = t.RANGE
    element: t.Type
    start: Operand
    stop: Operand
    step: Operand


@dataclass(slots=True, eq=False)
class Local(RuntimeLocal):
    """A local variable or parameter of the function that is being lowered."""

    operand: Operand


VOID_HELD = Held(t.VOID, -1)
"""The operand of an expression without a result."""
