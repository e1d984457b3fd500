"""Convert values known at compile time: implicit conversions, `@as` and `@bitcast`."""

from __future__ import annotations

import math
from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import floats
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue
from npuviz.targets.wavelet.csl.comptime.values import (
    FALSE,
    TRUE,
    ArrayValue,
    PointerValue,
    Scalar,
    StringValue,
    StructValue,
    Value,
    make_array,
)
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.syntax.tree import Span

Signatures = Callable[[FunctionValue], t.FunctionType | None]
"""Type of a function; None if it has parameters without a fixed type."""

_ID_MAKERS: dict[t.Type, str] = {
    t.COLOR: "@get_color(n)",
    t.LOCAL_TASK_ID: "@get_local_task_id(n)",
    t.DATA_TASK_ID: "@get_data_task_id(color or input queue)",
    t.CONTROL_TASK_ID: "@get_control_task_id(n)",
    t.INPUT_QUEUE: "@get_input_queue(n)",
    t.OUTPUT_QUEUE: "@get_output_queue(n)",
    t.UT_ID: "@get_ut_id(n)",
}


def converts(source: t.Type, target: t.Type) -> bool:
    """Return whether a run-time value of `source` converts to `target` without `@as`."""
    if source is target or target is t.ANYTYPE:
        return True
    if isinstance(source, t.IntegerType) and isinstance(target, t.IntegerType) and not source.is_unbounded:
        if source.signed == target.signed:
            return source.bits <= target.bits
        return target.signed and source.bits < target.bits
    if isinstance(source, t.FloatType) and isinstance(target, t.FloatType):
        return target is t.F32 and source.size == 2
    if isinstance(source, t.PointerType):
        return isinstance(target, t.PointerType) and pointer_converts(source, target)
    if isinstance(source, t.FunctionType) and isinstance(target, t.PointerType):
        return target.pointee is source
    return False


def pointer_converts(source: t.PointerType, target: t.PointerType) -> bool:
    """Return whether a pointer type converts: `*[N, ..]T` to `[*]T`, `*T` to `*[1]T`, any to const or to
    `*anyopaque`."""
    if source.const and not target.const:
        return False
    if target.pointee is t.ANYOPAQUE:
        return True
    if source.many == target.many and source.pointee is target.pointee:
        return True
    if target.many and not source.many and isinstance(source.pointee, t.ArrayType):
        return source.pointee.element is target.pointee
    if not target.many and not source.many and isinstance(target.pointee, t.ArrayType):
        return target.pointee.dimensions == (1,) and target.pointee.element is source.pointee
    return False


def coerce(value: Value, target: t.Type, at: Span, signature: Signatures) -> Value:
    """Convert `value` to `target` implicitly. Raises CslError if there is no such conversion."""
    source = value.type
    if source is target or target is t.ANYTYPE:
        return value
    if isinstance(value, Scalar):
        found = _scalar(value, target, at)
        if found is not None:
            return found
    elif isinstance(value, StructValue):
        if target is t.COMPTIME_STRUCT:
            return value
        if isinstance(target, t.StructType):
            return _struct(value, target, at, signature)
        if isinstance(target, t.ArrayType) and value.kind.is_tuple:
            return _tuple_to_array(value, target, at, signature)
    elif isinstance(value, ArrayValue):
        if isinstance(target, t.ArrayType) and target.dimensions == value.kind.dimensions:
            elements = [coerce(value.element(i), target.element, at, signature) for i in range(target.count)]
            return make_array(target, elements)
    elif isinstance(value, PointerValue):
        if isinstance(target, t.PointerType) and pointer_converts(value.kind, target):
            return value.cast(target)
    elif isinstance(value, FunctionValue):
        if _is_function_target(value, target, signature):
            return value
    elif isinstance(value, StringValue) and target is t.COMPTIME_STRING:
        return value
    raise mismatch(target, source, at, _hint(value, target))


def mismatch(target: t.Type, source: t.Type, at: Span, hint: str = "") -> CslError:
    """Make the error for a value of the wrong type."""
    return CslError(at, f"expected {target}, found {source}", hint)


def _hint(value: Value, target: t.Type) -> str:
    if target in _ID_MAKERS and isinstance(value.type, t.IntegerType):
        return f"write {_ID_MAKERS[target]}"
    if t.is_number(value.type) and (t.is_number(target) or target is t.BOOL):
        return f"write @as({target}, ..) to convert"
    if isinstance(value, PointerValue) and value.kind.const and isinstance(target, t.PointerType):
        return "it points to a const"
    return ""


def _scalar(value: Scalar, target: t.Type, at: Span) -> Value | None:
    source = value.kind
    if isinstance(target, t.IntegerType) and isinstance(source, t.IntegerType):
        number = value.integer
        if target.is_unbounded or target.low <= number <= target.high:
            return Scalar(target, number)
        raise CslError(
            at, f"{number} does not fit in {target}", f"{target} holds {target.low} to {target.high}"
        )
    if isinstance(target, t.FloatType):
        if source is t.COMPTIME_INT:
            return Scalar(target, floats.round_to(target, _float_of(value.integer, at)))
        if isinstance(source, t.FloatType) and (source.size == 0 or target.size == 0 or target is t.F32):
            return Scalar(target, floats.round_to(target, float(value.number)))
    return None


def _float_of(number: int, at: Span) -> float:
    try:
        return float(number)
    except OverflowError:
        raise CslError(at, "this integer is too large for a float") from None


def _struct(value: StructValue, target: t.StructType, at: Span, signature: Signatures) -> Value:
    if not value.kind.is_anonymous:
        raise mismatch(target, value.kind, at)
    fields: dict[str, Value] = {}
    for name in value.fields:
        if name not in target.names:
            raise CslError(
                at, f"{target} has no field .{name}", f"it has {', '.join(target.names) or 'none'}"
            )
    if target.is_union and len(value.fields) != 1:
        raise CslError(at, f"{target} takes one field, found {len(value.fields)}")
    for name, kind in zip(target.names, target.types, strict=True):
        given = value.fields.get(name)
        if given is None and target.is_union:
            continue
        if given is None:
            default = target.defaults.get(name)
            if not isinstance(default, Value):
                raise CslError(at, f"field .{name} of {target} is missing")
            given = default
        fields[name] = coerce(given, kind, at, signature)
    return StructValue(target, fields)


def _tuple_to_array(value: StructValue, target: t.ArrayType, at: Span, signature: Signatures) -> Value:
    if len(value.fields) != target.count:
        raise CslError(at, f"{target} needs {target.count} elements, found {len(value.fields)}")
    return make_array(target, [coerce(item, target.element, at, signature) for item in value.fields.values()])


def _is_function_target(value: FunctionValue, target: t.Type, signature: Signatures) -> bool:
    wanted = target.pointee if isinstance(target, t.PointerType) and not target.many else target
    if not isinstance(wanted, t.FunctionType) or wanted.kind != value.node.kind:
        return False
    found = signature(value)
    return found is None or found is wanted


# ---- explicit conversions ----


def convert(value: Value, target: t.Type, at: Span, signature: Signatures) -> Value:
    """Evaluate `@as(target, value)`."""
    if isinstance(value, Scalar):
        found = _convert_scalar(value, target, at)
        if found is not None:
            return found
    return coerce(value, target, at, signature)


def _convert_scalar(value: Scalar, target: t.Type, at: Span) -> Value | None:
    source, number = value.kind, value.number
    numeric = t.is_number(source) or source is t.BOOL or isinstance(source, t.EnumType)
    if not numeric:
        return None
    if target is t.BOOL:
        return FALSE if number == 0 else TRUE
    if isinstance(target, t.IntegerType):
        if isinstance(source, t.FloatType):
            if math.isnan(number) or math.isinf(number):
                raise CslError(at, f"{number} has no integer value")
            number = int(number)
        elif source is t.COMPTIME_INT and not target.is_unbounded and not target.low <= number <= target.high:
            raise CslError(
                at, f"{number} does not fit in {target}", f"{target} holds {target.low} to {target.high}"
            )
        return Scalar(target, target.wrap(int(number)))
    if isinstance(target, t.FloatType):
        return Scalar(
            target, floats.round_to(target, _float_of(number, at) if isinstance(number, int) else number)
        )
    if isinstance(target, t.EnumType) and isinstance(source, t.IntegerType):
        if number not in target.members.values():
            raise CslError(at, f"{number} is no value of {target}")
        return Scalar(target, number)
    return None


def bits_of(value: Value, at: Span) -> tuple[int, int]:
    """Return (bits, width) of a sized value. Raises CslError for other values."""
    if isinstance(value, Scalar):
        kind = value.kind
        if isinstance(kind, t.IntegerType) and not kind.is_unbounded:
            return value.integer & ((1 << kind.bits) - 1), kind.bits
        if isinstance(kind, t.FloatType) and kind.size:
            return floats.to_bits(kind, float(value.number)), kind.size * 8
        if isinstance(kind, t.EnumType):
            return value.integer & ((1 << kind.backing.bits) - 1), kind.backing.bits
        if kind in t.ID_KINDS or kind is t.DIRECTION:
            return value.integer, 16
    raise CslError(at, f"{value.type} has no bits known at compile time")


def bitcast(value: Value, target: t.Type, at: Span) -> Value:
    """Evaluate `@bitcast(target, value)`."""
    if isinstance(value, Scalar) and value.kind is t.COMPTIME_INT and isinstance(target, t.IntegerType):
        fits = not target.is_unbounded and -((1 << target.bits) // 2) <= value.integer < 1 << target.bits
        if fits:
            return Scalar(target, target.wrap(value.integer))
    bits, width = bits_of(value, at)
    wanted = target.bits if isinstance(target, t.IntegerType) else target.size * 8
    if width != wanted:
        raise CslError(at, f"@bitcast from {value.type} ({width} bits) to {target} ({wanted} bits)")
    if isinstance(target, t.IntegerType):
        return Scalar(target, target.wrap(bits))
    if isinstance(target, t.FloatType):
        return Scalar(target, floats.from_bits(target, bits))
    if isinstance(target, t.EnumType):
        return Scalar(target, target.backing.wrap(bits))
    if isinstance(target, t.PointerType):
        return PointerValue(target, None, (), bits)
    raise NotComptime(at, f"@bitcast to {target} is not possible at compile time")


def widens(have: t.IntegerType, kind: t.IntegerType) -> bool:
    """Return whether every number of one sized type is one of the other."""
    return have.low >= kind.low and have.high <= kind.high and not kind.is_unbounded and not have.is_unbounded


def is_matrix(have: t.Type, kind: t.Type) -> bool:
    """Return whether this is `*[n, m]T` to `[*]T`, which converts only while the pointer is known."""
    if not (isinstance(have, t.PointerType) and isinstance(kind, t.PointerType) and kind.many):
        return False
    pointee = have.pointee
    return (
        not have.many
        and isinstance(pointee, t.ArrayType)
        and len(pointee.dimensions) > 1
        and kind.pointee is pointee.element
    )
