"""Share lowered functions between PE programs.

While a function is lowered, everything its code depends on beyond its own text is noted as a `Read` with its
key. On another PE the same reads are made again; if all keys agree, the code is the same and is used again.
Because lowering is deterministic, equal keys so far lead to the same next read: the reads of all versions of
a function form a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import (
    Cell,
    Entry,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.values import Value
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.specialisation import Specialisation, is_portable, is_portable_value
from npuviz.targets.wavelet.csl.syntax import tree

VALUE = 0
GLOBAL = 1
CALL = 2
TASK = 3
CONSTANT = 4


@dataclass(frozen=True, slots=True)
class Read:
    """Something that code depends on: the value of an expression, the place of a global, a callee.

    names     the local names that the expression mentions, with what they stood for
    expected  expected type of a value, type of a constant
    special   specialisation of a callee
    data      bytes of a constant
    """

    kind: int
    node: tree.Expression
    names: tuple[tuple[str, Entry], ...]
    expected: t.Type | None = None
    special: Specialisation = ()
    data: bytes = b""

    @staticmethod
    def of(
        kind: int,
        node: tree.Expression,
        scope: Scope,
        *,
        expected: t.Type | None = None,
        special: Specialisation = (),
    ) -> Read | None:
        """Make the read of what `node` means in a scope; None if it cannot be made on another PE."""
        names = _local_names(node, scope)
        if names is None or not all(map(is_portable, special)):
            return None
        return Read(kind, node, names, expected, special)


def needs_read(node: tree.Expression, scope: Scope) -> bool:
    """Return False if an expression depends only on local names, which depend on earlier reads."""
    member = scope.instance.declarations
    return any(name in member and scope.find(name) is None for name in free_names.all_names(node))


def _local_names(node: tree.Expression, scope: Scope) -> tuple[tuple[str, Entry], ...] | None:
    names: list[tuple[str, Entry]] = []
    for name in free_names.all_names(node):
        entry = scope.find(name)
        if entry is None:
            continue
        if isinstance(entry, Cell):
            entry = Cell(entry.name, entry.kind, entry.value, entry.mutable)
            if entry.value is not None and not is_portable_value(entry.value):
                return None
        elif isinstance(entry, Value) and not is_portable_value(entry):
            return None
        names.append((name, entry))
    return tuple(names)


@dataclass(slots=True)
class _Node:
    read: Read | None = None
    next: dict[Hashable, _Node] = field(default_factory=dict[Hashable, "_Node"])
    function: int = -1


@dataclass(slots=True)
class FunctionMemo:
    """Lowered versions of functions by text, specialisation and reads."""

    roots: dict[Hashable, _Node] = field(default_factory=dict[Hashable, _Node])

    def find(self, key: Hashable, key_of: Callable[[Read], Hashable]) -> int:
        """Return the function index of a version that fits, -1 if there is none; `key_of` makes its reads
        again."""
        node = self.roots.get(key)
        while node is not None and node.function < 0:
            if node.read is None:
                return -1
            node = node.next.get(key_of(node.read))
        return -1 if node is None else node.function

    def add(self, key: Hashable, reads: Sequence[tuple[Read, Hashable]], function: int) -> None:
        """Remember a version with the reads its lowering made, in order."""
        node = self.roots.setdefault(key, _Node())
        for read, value in reads:
            if node.function >= 0:
                return
            if node.read is None:
                node.read = read
            node = node.next.setdefault(value, _Node())
        if node.read is None:
            node.function = function
