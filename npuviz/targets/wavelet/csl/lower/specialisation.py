"""Describe how a function is called: which parameters arrive in registers and which are fixed at compile
time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, ModuleValue
from npuviz.targets.wavelet.csl.comptime.values import ArrayValue, PointerValue, StructValue, Value


@dataclass(frozen=True, slots=True)
class Passed:
    """A parameter that arrives in the next register (aggregates: their address)."""

    kind: t.Type


@dataclass(frozen=True, slots=True)
class Fixed:
    """A parameter whose value is known; `key` stands for the value in comparisons."""

    value: Value = field(compare=False)
    key: Hashable


@dataclass(frozen=True, slots=True)
class Pieces:
    """An anonymous struct or tuple, each part of which is passed or fixed."""

    kind: t.StructType
    parts: tuple[Binding, ...]


Binding = Passed | Fixed | Pieces
Specialisation = tuple[Binding, ...]
"""One binding per parameter."""


def registers(bindings: Iterable[Binding]) -> int:
    """Return the number of registers that parameters take."""
    count = 0
    for binding in bindings:
        if isinstance(binding, Pieces):
            count += registers(binding.parts)
        elif isinstance(binding, Passed) and binding.kind is not t.VOID:
            count += 1
    return count


def is_portable(binding: Binding) -> bool:
    """Return whether a parameter means the same on every PE."""
    if isinstance(binding, Pieces):
        return all(map(is_portable, binding.parts))
    return isinstance(binding, Passed) or is_portable_value(binding.value)


def is_portable_value(value: Value) -> bool:
    """Return whether a value means the same on every PE (no addresses, functions or modules)."""
    if isinstance(value, StructValue):
        return all(is_portable_value(part) for part in value.fields.values())
    if isinstance(value, ArrayValue):
        return value.data.dtype != object or all(
            is_portable_value(item) for item in value.data if isinstance(item, Value)
        )
    base = getattr(value, "base", None)
    return base is None and not isinstance(value, PointerValue | FunctionValue | ModuleValue)
