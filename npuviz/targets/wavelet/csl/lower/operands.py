"""What an expression becomes when it is lowered: something known now, a register, a place in memory.

Operand
 +-- Known   a value of compile time; no code yet
 +-- Held    in a register
 +-- Place   in memory, at an address that may involve registers
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
    """Base of all operands. `kind` is the type of the value, but for those known at compile time."""

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
    """A scalar, pointer or descriptor in a register; `is_local`: that of a variable, which may change."""

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
        """The part of another type that lies `offset` bytes further."""
        return replace(self, offset=self.offset + offset, kind=kind)


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
"""The result of what has none."""
