"""Keep the table of builtins that have a meaning at compile time, and evaluate one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime, expression
from npuviz.targets.wavelet.csl.comptime.scope import PeRegistry, Scope
from npuviz.targets.wavelet.csl.comptime.values import Value
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime, similar
from npuviz.targets.wavelet.kernels import isa

Evaluator = Callable[[Comptime, tree.BuiltinCall, Scope], Value]


@dataclass(frozen=True, slots=True)
class Builtin:
    """One builtin.

    minimum, maximum  number of arguments
    effect            whether it changes something: in a runtime scope it is left to the lowering
    """

    evaluate: Evaluator
    minimum: int
    maximum: int
    effect: bool


BUILTINS: dict[str, Builtin] = {}
"""Name without `@` -> builtin."""

OPERATIONS: dict[str, int] = {
    name.removeprefix("D_").lower(): number for name, number in vars(isa).items() if name.startswith("D_")
}
"""DSD operation -> isa.D_..."""

RUNTIME_ONLY: frozenset[str] = frozenset(
    (
        *OPERATIONS,
        *("map", "queue_flush", "random16", "set_active_prng"),
        *("set_fifo_read_length", "set_fifo_write_length"),
        "set_dsr_base_addr",
        *("get_symbol_value", "get_tensor_ptr"),
    )
)
"""Builtins that have a meaning on the PE only."""


def builtin(
    name: str, minimum: int, maximum: int | None = None, *, effect: bool = False
) -> Callable[[Any], Any]:
    """Make a decorator that enters a function in the table."""

    def enter(function: Any) -> Any:
        BUILTINS[name] = Builtin(function, minimum, minimum if maximum is None else maximum, effect)
        return function

    return enter


@expression(tree.BuiltinCall)
def _builtin_call(comptime: Comptime, node: tree.BuiltinCall, scope: Scope) -> Value:
    """Evaluate `@name(..)`. Raises NotComptime for what happens at run time."""
    entry = BUILTINS.get(node.name)
    if entry is None:
        raise unknown(node, scope)
    count = len(node.arguments)
    if not entry.minimum <= count <= entry.maximum:
        raise CslError(node.at, f"@{node.name} takes {_range(entry)} arguments, found {count}")
    if entry.effect:
        if scope.runtime:
            raise NotComptime(node.at, "this happens at run time")
        comptime.memo.effects += 1
    return entry.evaluate(comptime, node, scope)


def _range(entry: Builtin) -> str:
    if entry.minimum == entry.maximum:
        return str(entry.minimum)
    return f"at least {entry.minimum}" if entry.maximum > 100 else f"{entry.minimum} to {entry.maximum}"


def unknown(node: tree.BuiltinCall, scope: Scope) -> CslError:
    """Make the error for a builtin that cannot be evaluated at compile time."""
    if node.name in RUNTIME_ONLY:
        if scope.runtime:
            return NotComptime(node.at, "this happens at run time")
        return CslError(node.at, f"@{node.name} runs on the PE", "call it in a function or task")
    hint = similar(node.name, [*BUILTINS, *RUNTIME_ONLY]).replace("mean ", "mean @")
    return CslError(node.at, f"@{node.name} is not a builtin that npuviz supports", hint)


def registry(node: tree.BuiltinCall, scope: Scope) -> PeRegistry:
    """Return the PE's registry for a builtin of a comptime block. Raises CslError in the layout."""
    pe = scope.instance.pe
    if pe is None:
        raise CslError(
            node.at,
            f"@{node.name} belongs into the code of a PE",
            "write it in a file given to @set_tile_code",
        )
    return pe
