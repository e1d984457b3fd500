"""Share results of compile-time calls between PEs: what depends on plain values only is computed once.

A result may be used again for the same function in an instance of the same file with equal parameters, if
arguments and result are plain values and the execution neither touched a `var` nor registered anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, ModuleInstance, key_of
from npuviz.targets.wavelet.csl.comptime.values import (
    ArrayValue,
    Scalar,
    StringValue,
    StructValue,
    TypeValue,
    Value,
    VoidValue,
)
from npuviz.targets.wavelet.csl.syntax.tree import Function

EFFECTS_BEFORE_GIVING_UP = 64
"""Calls of a function with effects after which results of that function are no longer kept."""
_ATOMS = (Scalar, StringValue, TypeValue, VoidValue)


def is_plain(value: Value) -> bool:
    """Return whether a value has no identity: no pointers, functions, modules, FIFOs."""
    if isinstance(value, _ATOMS):
        return True
    if isinstance(value, ArrayValue):
        return value.data.dtype != object or all(is_plain(item) for item in value.data)
    return isinstance(value, StructValue) and all(is_plain(part) for part in value.fields.values())


def _instance_key(instance: ModuleInstance) -> Hashable:
    if instance.key is None:
        parts = tuple((name, key_of(value)) for name, value in sorted(instance.params.items()))
        instance.key = (instance.file.path, parts)
    return instance.key


class CallMemo:
    """Results by function, instance and arguments.

    effects  counts reads and writes of global variables, registrations and prints
    """

    def __init__(self) -> None:
        self.effects = 0
        self._results: dict[Hashable, Value] = {}
        self._had_effects: Counter[Function] = Counter()

    def key(
        self, function: FunctionValue, arguments: list[Value], *, give_up: bool = True
    ) -> Hashable | None:
        """Return the key of a call, None if its result cannot be kept.

        give_up  whether None is returned, too, if many calls of the function had effects
        """
        if give_up and self._had_effects[function.node] >= EFFECTS_BEFORE_GIVING_UP:
            return None
        for argument in arguments:
            if not is_plain(argument):
                return None
        return (
            function.node,
            _instance_key(function.instance),
            tuple([key_of(value) for value in arguments]),
        )

    def find(self, key: Hashable) -> Value | None:
        """Return a kept result, None without one."""
        return self._results.get(key)

    def keep(self, function: FunctionValue, key: Hashable, result: Value, effects_before: int) -> None:
        """Keep a result if the call had no effects and the result is plain."""
        if self.effects != effects_before:
            self._had_effects[function.node] += 1
        elif is_plain(result):
            self._results[key] = result
