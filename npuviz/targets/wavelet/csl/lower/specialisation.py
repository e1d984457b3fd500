"""How a function is called: which parameters arrive in registers and which are fixed at compile time."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Value
from npuviz.targets.wavelet.csl.lower.memo import is_plain


@dataclass(frozen=True, slots=True)
class Passed:
    """A parameter that arrives in the next register (aggregates: their address)."""

    kind: t.Type

    @property
    def is_plain(self) -> bool:
        """True if it means the same on every PE."""
        return True

    @property
    def count(self) -> int:
        """Registers it takes."""
        return 0 if self.kind is t.VOID else 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """A parameter whose value is known; `key` stands for the value in comparisons."""

    value: Value
    key: Hashable

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_plain(self) -> bool:
        """True if it means the same on every PE."""
        return is_plain(self.value)

    @property
    def count(self) -> int:
        """Registers it takes."""
        return 0


@dataclass(frozen=True, slots=True)
class Pieces:
    """An anonymous struct or tuple in pieces, each passed or fixed."""

    kind: t.StructType
    parts: tuple[Binding, ...]

    @property
    def is_plain(self) -> bool:
        """True if all its pieces are."""
        return all(part.is_plain for part in self.parts)

    @property
    def count(self) -> int:
        """Registers it takes."""
        return sum(part.count for part in self.parts)


Binding = Passed | Fixed | Pieces
Specialisation = tuple[Binding, ...]
"""One binding per parameter."""
