"""Apply operators to values known at compile time: numbers of one type, exact or wrapped to the width."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import floats
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import FALSE, TRUE, Scalar, StringValue, TypeValue, Value
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Span

MAX_COMPTIME_BITS = 1 << 16
"""Most bits of a comptime_int; wider ones are refused."""

_COMPARE: dict[str, Callable[[int | float, int | float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def common_type(a: t.Type, b: t.Type) -> t.Type | None:
    """Return the type in which an operator works on operands of these types; None if they do not fit.

    Sized integers widen to a type that holds both: same sign, or unsigned into a wider signed one.
    """
    if a is b:
        return a
    if isinstance(a, t.IntegerType) and isinstance(b, t.IntegerType):
        if a.is_unbounded or b.is_unbounded:
            return b if a.is_unbounded else a
        if a.signed == b.signed:
            return a if a.bits > b.bits else b
        signed, unsigned = (a, b) if a.signed else (b, a)
        return signed if signed.bits > unsigned.bits else None
    if isinstance(a, t.FloatType) and isinstance(b, t.FloatType):
        if a.size == 0 or b.size == 0:
            return b if a.size == 0 else a
        if t.F32 in (a, b):
            return t.F32
        return None
    if isinstance(a, t.FloatType) and b is t.COMPTIME_INT:
        return a
    if isinstance(b, t.FloatType) and a is t.COMPTIME_INT:
        return b
    return None


def binary(symbol: str, a: Value, b: Value, at: Span) -> Value:
    """Evaluate `a symbol b` (not `and`, `or`). Raises CslError."""
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        if a.kind is b.kind and symbol in _COMPARE and isinstance(a.kind, t.IntegerType):
            return TRUE if _COMPARE[symbol](a.number, b.number) else FALSE
        if symbol in ("<<", ">>"):
            return _shift(symbol, a, b, at)
        kind = a.kind if a.kind is b.kind else _unify(symbol, a, b, at)
        compare = _COMPARE.get(symbol)
        if compare is not None:
            _check_order(symbol, kind, at)
            return TRUE if compare(_as_kind(a, kind), _as_kind(b, kind)) else FALSE
        if isinstance(kind, t.IntegerType):
            return _integers(symbol, kind, a.integer, b.integer, at)
        if isinstance(kind, t.FloatType):
            return _floats(symbol, kind, float(a.number), float(b.number), at)
        raise CslError(at, f"operator {symbol} is not defined for {kind}")
    if symbol in ("==", "!=") and type(a) is type(b):
        same = _same(a, b)
        if same is not None:
            return TRUE if same == (symbol == "==") else FALSE
    raise CslError(at, f"operator {symbol} is not defined for {a.type} and {b.type}")


def _same(a: Value, b: Value) -> bool | None:
    if isinstance(a, TypeValue) and isinstance(b, TypeValue):
        return a.denotes is b.denotes
    if isinstance(a, StringValue) and isinstance(b, StringValue):
        return a.text == b.text
    try:
        return a == b
    except ValueError:
        return None


def _as_kind(value: Scalar, kind: t.Type) -> int | float:
    return floats.round_to(kind, float(value.number)) if isinstance(kind, t.FloatType) else value.number


def _check_order(symbol: str, kind: t.Type, at: Span) -> None:
    if symbol not in ("==", "!=") and not t.is_number(kind):
        raise CslError(at, f"values of {kind} have no order, {symbol} needs numbers")


def _unify(symbol: str, a: Scalar, b: Scalar, at: Span) -> t.Type:
    kind = a.kind
    if b.kind is t.COMPTIME_INT and isinstance(kind, t.IntegerType) and kind.low <= b.number <= kind.high:
        return kind  # the most frequent case, one of the next
    for sized, literal in ((a.kind, b), (b.kind, a)):
        if (
            literal.kind is t.COMPTIME_INT
            and isinstance(sized, t.IntegerType)
            and (sized.low <= literal.number <= sized.high or sized.is_unbounded)
        ):
            return sized
    kind = common_type(a.kind, b.kind)
    if kind is None and isinstance(a.kind, t.IntegerType) and isinstance(b.kind, t.IntegerType):
        # comptime-known sized integers convert by value
        for candidate, other in ((a.kind, b), (b.kind, a)):
            if candidate.low <= other.integer <= candidate.high:
                return candidate
    if kind is None:
        raise CslError(
            at, f"operands of {symbol} have types {a.kind} and {b.kind}", "convert one with @as(type, value)"
        )
    for value in (a, b):
        if isinstance(kind, t.IntegerType) and kind.bits and not kind.low <= value.integer <= kind.high:
            raise CslError(at, f"{value.integer} does not fit in {kind}, the type of the other operand")
    return kind


def _integers(symbol: str, kind: t.IntegerType, a: int, b: int, at: Span) -> Scalar:
    if symbol in ("/", "%"):
        if b == 0:
            raise CslError(at, "division by zero")
        quotient = abs(a) // abs(b)
        quotient = quotient if (a < 0) == (b < 0) else -quotient
        result = quotient if symbol == "/" else a - quotient * b
    elif symbol in _INTEGERS:
        result = _INTEGERS[symbol](a, b)
    else:
        raise CslError(at, f"operator {symbol} is not defined for {kind}")
    return Scalar(kind, kind.wrap(_bounded(result, kind, at)))


def _bounded(value: int, kind: t.IntegerType, at: Span) -> int:
    if kind.is_unbounded and value.bit_length() > MAX_COMPTIME_BITS:
        raise CslError(at, f"a comptime_int has more than {MAX_COMPTIME_BITS} bits")
    return value


def _floats(symbol: str, kind: t.FloatType, a: float, b: float, at: Span) -> Scalar:
    a, b = floats.round_to(kind, a), floats.round_to(kind, b)
    if symbol in _FLOATS:
        result = _FLOATS[symbol](a, b)
    elif symbol == "/":
        result = _divide(a, b)
    else:
        raise CslError(at, f"operator {symbol} is not defined for {kind}")
    return Scalar(kind, floats.round_to(kind, result))


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _shift(symbol: str, a: Scalar, b: Scalar, at: Span) -> Scalar:
    kind = a.kind
    if not isinstance(kind, t.IntegerType) or not isinstance(b.kind, t.IntegerType):
        raise CslError(at, f"operator {symbol} needs integers, found {kind} and {b.kind}")
    amount = b.integer
    if amount < 0:
        raise CslError(at, f"shift by {amount}: the amount must not be negative")
    if symbol == ">>":
        return Scalar(kind, a.integer >> min(amount, MAX_COMPTIME_BITS))
    if amount > MAX_COMPTIME_BITS:
        raise CslError(at, f"shift by {amount}: at most {MAX_COMPTIME_BITS}")
    return Scalar(kind, kind.wrap(_bounded(a.integer << amount, kind, at)))


def unary(symbol: str, value: Value, at: Span) -> Value:
    """Evaluate `-value`, `~value`, `!value`. Raises CslError."""
    if isinstance(value, Scalar):
        kind = value.kind
        if symbol == "!" and kind is t.BOOL:
            return FALSE if value.number else TRUE
        if isinstance(kind, t.IntegerType):
            if symbol == "-":
                return Scalar(kind, kind.wrap(-value.integer))
            if symbol == "~":
                inverted = ~value.integer
                return Scalar(kind, kind.wrap(inverted) if kind.signed else inverted & kind.high)
        if isinstance(kind, t.FloatType) and symbol == "-":
            return Scalar(kind, -float(value.number))
    raise CslError(at, f"operator {symbol} is not defined for {value.type}")
