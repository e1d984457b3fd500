"""Evaluate builtins on values and types: conversions, tensors, ranges, assertions, queries, strings."""

from __future__ import annotations

import numpy as np

from npuviz.targets.wavelet.csl.comptime import coercion, memory
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, Scope
from npuviz.targets.wavelet.csl.comptime.values import (
    FALSE,
    TRUE,
    VOID,
    ArrayValue,
    PointerValue,
    RangeValue,
    Scalar,
    StringValue,
    StructValue,
    TypeValue,
    Value,
    anonymous,
    boolean_of,
    element_dtype,
    filled_array,
    integer_of,
    make_array,
    too_many_parts,
    tuple_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, similar
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Span

MAX_STRING = 1 << 20
"""Most bytes of a comptime string."""


def string_of(comptime: Comptime, node: tree.Expression, scope: Scope) -> str:
    """Return a comptime string as text. Raises CslError."""
    value = comptime.evaluate(node, scope)
    if isinstance(value, StringValue):
        return value.text.decode(errors="replace")
    raise CslError(node.at, f"expected a string, found {value.type}")


# ---- conversions ----


@builtin("as", 2)
def _as(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    target = comptime.type_expression(node.arguments[0], scope)
    return coercion.convert(comptime.evaluate(node.arguments[1], scope), target, node.at, comptime.signature)


@builtin("bitcast", 2)
def _bitcast(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    target = comptime.type_expression(node.arguments[0], scope)
    return coercion.bitcast(comptime.evaluate(node.arguments[1], scope), target, node.at)


@builtin("ptrcast", 2)
def _ptrcast(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    target = comptime.type_expression(node.arguments[0], scope)
    value = comptime.evaluate(node.arguments[1], scope)
    if not isinstance(target, t.PointerType) or not isinstance(value, PointerValue):
        raise CslError(node.at, f"@ptrcast converts pointers, found {value.type} to {target}")
    return value.cast(target)


@builtin("get_int", 1)
def _get_int(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = comptime.evaluate(node.arguments[0], scope)
    if isinstance(value, Scalar):
        if isinstance(value.kind, t.IntegerType):
            return value
        if isinstance(value.kind, t.EnumType):
            return Scalar(value.kind.backing, value.number)
        if value.kind in t.ID_KINDS or value.kind in t.DSR_FILES or value.kind in (t.XDSR, t.SR):
            return Scalar(t.U16, value.number)
    raise CslError(node.at, f"@get_int needs an id, color, queue, register or enum, found {value.type}")


# ---- tensors, ranges ----


def _array_type(comptime: Comptime, node: BuiltinCall, scope: Scope) -> t.ArrayType:
    kind = comptime.type_expression(node.arguments[0], scope)
    if not isinstance(kind, t.ArrayType):
        raise CslError(node.arguments[0].at, f"@{node.name} needs an array type, found {kind}")
    return kind


@builtin("zeros", 1)
def _zeros(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = _array_type(comptime, node, scope)
    dtype = element_dtype(kind.element)
    if dtype is not None and t.is_number(kind.element):
        return ArrayValue(kind, np.zeros(kind.count, dtype))
    if t.is_number(kind.element):
        return filled_array(kind, Scalar(kind.element, 0))
    raise CslError(node.at, f"@zeros needs an array of numbers, found {kind}", "use @constants")


@builtin("constants", 2)
def _constants(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = _array_type(comptime, node, scope)
    return filled_array(kind, comptime.evaluate(node.arguments[1], scope, kind.element))


@builtin("range", 2, 4)
def _range(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = comptime.type_expression(node.arguments[0], scope)
    if not isinstance(kind, t.IntegerType):
        raise CslError(node.arguments[0].at, f"@range needs an integer type, found {kind}")
    numbers = [comptime.evaluate(argument, scope, kind) for argument in node.arguments[1:]]
    values = [integer_of(number, node.at) for number in numbers]
    if len(values) == 2:
        raise CslError(node.at, "@range takes a type and stop, or a type, start, stop and step")
    start, stop, step = values if len(values) == 3 else (0, values[0], 1)
    if step == 0:
        raise CslError(node.at, "the step of a @range must not be 0")
    return RangeValue(kind, start, stop, step)


def _range_part(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = comptime.evaluate(node.arguments[0], scope)
    if not isinstance(value, RangeValue):
        raise CslError(node.at, f"@{node.name} needs a range, found {value.type}")
    part = {"range_start": value.start, "range_stop": value.stop, "range_step": value.step}[node.name]
    return Scalar(value.element, part)


for _name in ("range_start", "range_stop", "range_step"):
    builtin(_name, 1)(_range_part)


# ---- assertions ----


@builtin("comptime_assert", 1, 2)
def _comptime_assert(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    condition = comptime.evaluate(node.arguments[0], scope.child(runtime=False))
    if not boolean_of(condition, node.arguments[0].at):
        text = string_of(comptime, node.arguments[1], scope) if len(node.arguments) > 1 else ""
        raise CslError(node.at, f"assertion failed: {text}" if text else "assertion failed")
    return VOID


@builtin("assert", 1, effect=True)
def _assert(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return _comptime_assert(comptime, node, scope)


@builtin("comptime_print", 0, 1000)
def _comptime_print(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    line = " ".join(text_of(comptime.evaluate(argument, scope)) for argument in node.arguments)
    comptime.memo.effects += 1
    comptime.session.prints.append((node.at, line))
    return VOID


def text_of(value: Value) -> str:
    """Return a value as the text that `@comptime_print` shows."""
    if isinstance(value, Scalar):
        if isinstance(value.kind, t.EnumType):
            return next((name for name, n in value.kind.members.items() if n == value.number), "?")
        if value.kind is t.BOOL:
            return "true" if value.number else "false"
        return str(value.number)
    if isinstance(value, StringValue):
        return value.text.decode(errors="replace")
    if isinstance(value, TypeValue):
        return str(value.denotes)
    if isinstance(value, ArrayValue):
        return "{" + ", ".join(text_of(value.element(i)) for i in range(min(value.kind.count, 64))) + "}"
    if isinstance(value, StructValue):
        parts = (f".{name} = {text_of(part)}" for name, part in value.fields.items())
        return ".{" + ", ".join(parts) + "}"
    if isinstance(value, FunctionValue):
        return value.name
    return str(value.type)


# ---- queries ----


def truth(condition: bool) -> Scalar:
    """Return a bool as a value."""
    return TRUE if condition else FALSE


@builtin("is_arch", 1)
def _is_arch(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    name = string_of(comptime, node.arguments[0], scope)
    if name not in ("wse1", "wse2", "wse3"):
        raise CslError(node.at, f'there is no architecture "{name}"', 'use "wse2" or "wse3"')
    return truth(name == comptime.session.arch)


@builtin("type_of", 1)
def _type_of(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return comptime.session.type_value(memory.static_type(comptime, node.arguments[0], scope))


@builtin("is_same_type", 2)
def _is_same_type(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    first, second = (comptime.type_expression(argument, scope) for argument in node.arguments)
    return truth(first is second)


@builtin("is_comptime", 0)
def _is_comptime(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return truth(not scope.runtime)


@builtin("fp16", 0)
def _fp16(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return comptime.session.type_value(comptime.session.fp16)


@builtin("dimensions", 1)
def _dimensions(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    dimensions = _array_type(comptime, node, scope).dimensions
    return make_array(t.array((len(dimensions),), t.U32), [Scalar(t.U32, n) for n in dimensions])


@builtin("rank", 1)
def _rank(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return Scalar(t.U16, len(_array_type(comptime, node, scope).dimensions))


@builtin("element_count", 1)
def _element_count(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return Scalar(t.U32, _array_type(comptime, node, scope).count)


@builtin("element_type", 1)
def _element_type(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return comptime.session.type_value(_array_type(comptime, node, scope).element)


# ---- structs ----


def _struct_of(comptime: Comptime, node: tree.Expression, scope: Scope) -> StructValue:
    value = comptime.evaluate(node, scope)
    if isinstance(value, StructValue):
        return value
    raise CslError(node.at, f"expected a struct, found {value.type}")


@builtin("field", 2)
def _field(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = _struct_of(comptime, node.arguments[0], scope)
    name = string_of(comptime, node.arguments[1], scope)
    found = value.fields.get(name)
    if found is None:
        raise CslError(node.at, f"there is no field .{name}", similar(name, value.fields))
    return found


@builtin("has_field", 2)
def _has_field(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = memory.static_type(comptime, node.arguments[0], scope)
    if kind is t.TYPE:
        kind = comptime.type_expression(node.arguments[0], scope)
    name = string_of(comptime, node.arguments[1], scope)
    return truth(isinstance(kind, t.StructType) and name in kind.names)


@builtin("concat_structs", 2)
def _concat_structs(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    first, second = (_struct_of(comptime, argument, scope) for argument in node.arguments)
    parts = first.kind.parts + second.kind.parts
    comptime.spend(node.at, parts)
    if parts > t.MAX_STRUCT_PARTS:
        raise too_many_parts(node.at)
    if first.kind.is_tuple and second.kind.is_tuple:
        return tuple_of([*first.fields.values(), *second.fields.values()])
    if first.kind.is_tuple != second.kind.is_tuple and first.fields and second.fields:
        raise CslError(node.at, "@concat_structs joins two structs with names or two without")
    both = sorted(set(first.fields) & set(second.fields))
    if both:
        raise CslError(node.at, f"both structs have a field .{both[0]}")
    return anonymous({**first.fields, **second.fields})


# ---- strings ----


@builtin("strcat", 0, 1000)
def _strcat(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    parts = [comptime.evaluate(argument, scope, t.COMPTIME_STRING) for argument in node.arguments]
    text = b"".join(part.text for part in parts if isinstance(part, StringValue))
    if len(text) > MAX_STRING:
        raise CslError(node.at, f"a string of {len(text)} bytes", f"at most {MAX_STRING} are possible")
    return StringValue(text)


def _bytes(comptime: Comptime, node: BuiltinCall, scope: Scope) -> bytes:
    value = comptime.evaluate(node.arguments[0], scope, t.COMPTIME_STRING)
    assert isinstance(value, StringValue)
    return value.text


@builtin("strlen", 1)
def _strlen(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    return Scalar(t.U16, len(_bytes(comptime, node, scope)))


@builtin("get_array", 1)
def _get_array(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    data = np.frombuffer(_bytes(comptime, node, scope), np.uint8)
    return ArrayValue(t.array((len(data),), t.U8), data)


@builtin("get_string_from_byte", 1)
def _get_string_from_byte(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    number = integer_of(comptime.evaluate(node.arguments[0], scope), node.at)
    if not 0 <= number <= 255:
        raise CslError(node.at, f"{number} is not a byte")
    return StringValue(bytes([number]))


def check_range(number: int, low: int, high: int, what: str, at: Span) -> int:
    """Return `number` if it is low..high. Raises CslError that names `what`."""
    if not low <= number <= high:
        raise CslError(at, f"{what} {number} is out of range", f"it must be {low} to {high}")
    return number
