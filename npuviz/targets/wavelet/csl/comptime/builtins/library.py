"""Evaluate builtins of npuviz's own libraries: the system functions of a PE and its math unit."""

from __future__ import annotations

import math
from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import floats
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin, registry
from npuviz.targets.wavelet.csl.comptime.builtins.values import string_of
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import Scope
from npuviz.targets.wavelet.csl.comptime.values import VOID, Scalar, Value
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Span
from npuviz.targets.wavelet.kernels import isa

_UNARY: dict[str, Callable[[float], float]] = {
    "M_SQRT": math.sqrt,
    "M_EXP": math.exp,
    "M_LOG": math.log,
    "M_SIN": math.sin,
    "M_COS": math.cos,
    "M_TANH": math.tanh,
    "M_RSQRT": lambda x: 1.0 / math.sqrt(x),
    "M_FLOOR": math.floor,
    "M_CEIL": math.ceil,
    "M_SIGMOID": lambda x: 1.0 / (1.0 + math.exp(-x)),
    "M_INVERSE": lambda x: 1.0 / x,
}


def constant_named(comptime: Comptime, node: BuiltinCall, scope: Scope, prefix: str) -> str:
    """Return the name in the first argument of `@system` / `@math`. Raises CslError outside the library."""
    if not scope.instance.is_library:
        raise CslError(node.at, f"@{node.name} is reserved for npuviz's own libraries")
    name = string_of(comptime, node.arguments[0], scope)
    if not name.startswith(prefix) or not hasattr(isa, name):
        raise CslError(node.arguments[0].at, f"there is no {name}")
    return name


@builtin("system", 1, 4, effect=True)
def _system(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    name = constant_named(comptime, node, scope, "S_")
    pe = registry(node, scope)
    numbers = [comptime.evaluate(argument, scope) for argument in node.arguments[1:]]
    values = [number.integer for number in numbers if isinstance(number, Scalar)]
    if name == "S_PRIORITY_TASK" and len(values) == 2 and isinstance(numbers[0], Scalar):
        pe.priorities.append((t.ID_KINDS.get(numbers[0].kind, isa.ID_LOCAL), values[0], values[1]))
    elif name == "S_PRIORITY_MAIN" and len(values) == 1:
        pe.priorities.append((isa.ID_NONE, 0, values[0]))
    elif name == "S_CONTROL_MASK" and values == [0]:
        pass
    elif name == "S_CONTROL_MASK" and values:
        raise CslError(node.at, f"mask {values[0]:#x} of control_transform is not simulated", "leave it at 0")
    else:
        raise CslError(node.at, "this library function runs on the PE", "call it in a function or task")
    return VOID


@builtin("math", 2, 3)
def _math(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    name = constant_named(comptime, node, scope, "M_")
    values = [comptime.evaluate(argument, scope) for argument in node.arguments[1:]]
    if not all(isinstance(value, Scalar) for value in values):
        raise CslError(node.at, f"{name} needs numbers, found {values[0].type}")
    numbers = [value for value in values if isinstance(value, Scalar)]
    kind = numbers[0].kind
    if isinstance(kind, t.IntegerType):
        return Scalar(kind, _count_bits(name, kind, numbers[0].integer, node.at))
    if not isinstance(kind, t.FloatType):
        raise CslError(node.at, f"{name} needs a number, found {kind}")
    try:
        result = _float_function(name, [float(number.number) for number in numbers])
    except (ValueError, OverflowError, ZeroDivisionError, IndexError):
        raise NotComptime(node.at, "this result has no number; it is computed at run time") from None
    return Scalar(kind, floats.round_to(kind, result))


def _float_function(name: str, numbers: list[float]) -> float:
    if name == "M_POW":
        return math.pow(numbers[0], numbers[1])
    if name == "M_LDEXP":
        return math.ldexp(numbers[0], int(numbers[1]))
    if name not in _UNARY:
        raise ValueError(name)
    return float(_UNARY[name](numbers[0]))


def _count_bits(name: str, kind: t.IntegerType, number: int, at: Span) -> int:
    if kind.is_unbounded:
        raise CslError(at, "a comptime_int has no width", "convert it with @as(u16, ..)")
    number &= (1 << kind.bits) - 1
    if name == "M_CLZ":
        return kind.bits - number.bit_length()
    if name == "M_CTZ":
        return (number & -number).bit_length() - 1 if number else kind.bits
    if name == "M_POPCOUNT":
        return number.bit_count()
    raise CslError(at, f"{name} is not defined for {kind}")


@builtin("type_fact", 2)
def _type_fact(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    """Return a fact about a type as a number, for the library `<types>`."""
    if not scope.instance.is_library:
        raise CslError(node.at, "@type_fact is reserved for npuviz's own libraries", "import <types>")
    name = string_of(comptime, node.arguments[0], scope)
    kind = comptime.type_expression(node.arguments[1], scope)
    is_integer = isinstance(kind, t.IntegerType) and not kind.is_unbounded
    facts = {
        "unsigned": int(is_integer and not getattr(kind, "signed", True)),
        "signed": int(is_integer and getattr(kind, "signed", False)),
        "float": 8 * kind.size if isinstance(kind, t.FloatType) else 0,
        "dsd": int(kind in t.DSD_KINDS),
        "dsr": int(kind in t.DSR_FILES),
        "bytes": kind.size,
        "bits": 8 * kind.size if t.bit_width(kind) < 0 else t.bit_width(kind),
        "align": kind.alignment,
    }
    return Scalar(t.COMPTIME_INT, facts[name])
