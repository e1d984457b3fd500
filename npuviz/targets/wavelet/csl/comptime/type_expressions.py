"""Evaluate types as expressions: `[n]T`, `*T`, `fn(T) R`, `struct {..}`, `enum(u16) {..}`."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime, expression
from npuviz.targets.wavelet.csl.comptime.scope import Scope
from npuviz.targets.wavelet.csl.comptime.values import TypeValue, Value, too_many_parts
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError

MAX_ARRAY_ELEMENTS = 1 << 22
"""Most elements of an array, also at compile time; a PE holds 24,576 words."""


@expression(tree.ArrayType)
def _array(comptime: Comptime, node: tree.ArrayType, scope: Scope) -> Value:
    dimensions: list[int] = []
    count = 1
    for length in node.dimensions:
        dimension = comptime.constant_integer(length, scope)
        if dimension < 0:
            raise CslError(length.at, f"a dimension must not be negative, found {dimension}")
        dimensions.append(dimension)
        count *= dimension
    if count > MAX_ARRAY_ELEMENTS:
        raise CslError(node.at, f"an array of {count} elements", f"at most {MAX_ARRAY_ELEMENTS} are possible")
    element = comptime.type_expression(node.element, scope)
    if element is t.VOID:
        raise CslError(node.element.at, "an array of void")
    return TypeValue(t.array(tuple(dimensions), element))


@expression(tree.PointerType)
def _pointer(comptime: Comptime, node: tree.PointerType, scope: Scope) -> Value:
    return TypeValue(t.pointer(comptime.type_expression(node.pointee, scope), node.many, node.const))


@expression(tree.FunctionType)
def _function(comptime: Comptime, node: tree.FunctionType, scope: Scope) -> Value:
    parameters = tuple(comptime.type_expression(parameter, scope) for parameter in node.parameters)
    return TypeValue(t.function(node.kind, parameters, comptime.type_expression(node.result, scope)))


@expression(tree.StructType)
def _struct(comptime: Comptime, node: tree.StructType, scope: Scope) -> Value:
    types: list[t.Type] = []
    defaults: dict[str, object] = {}
    for field in node.fields:
        kind = comptime.type_expression(field.type, scope)
        types.append(kind)
        if node.layout_kind == "packed" and t.bit_width(kind) < 0:
            hint = "it takes integers, floats, bool, enums, pointers and packed types"
            raise CslError(field.at, f"a packed type has no field of type {kind}", hint)
        if field.default is not None:
            defaults[field.name] = comptime.evaluate(field.default, scope, kind)
    names = [field.name for field in node.fields]
    if len(set(names)) != len(names):
        raise CslError(node.at, "two fields of a struct have the same name")
    label = comptime.session.labels.get(node, "")
    kind = t.named_struct(comptime.session.named, node, tuple(types), label, defaults)
    if kind.parts > t.MAX_STRUCT_PARTS:
        raise too_many_parts(node.at)
    _check_bits(kind, node.at)
    return TypeValue(kind)


def _check_bits(kind: t.StructType, at: tree.Span) -> None:
    """Raise CslError for a packed type whose fields cannot be placed."""
    widths = {width for _, width in kind.bits}
    if kind.is_union and len(widths) > 1:
        found = ", ".join(str(width) for _, width in kind.bits)
        raise CslError(at, f"the fields of a packed union have one width, found {found} bits")
    if any(first % 16 + width > 64 for first, width in kind.bits):
        raise CslError(at, "a packed field that crosses more than 64 bits is not supported")


@expression(tree.EnumType)
def _enum(comptime: Comptime, node: tree.EnumType, scope: Scope) -> Value:
    backing = t.U16 if node.backing is None else comptime.type_expression(node.backing, scope)
    if not isinstance(backing, t.IntegerType):
        raise CslError(node.at, f"an enum is made of integers, found {backing}")
    members: dict[str, int] = {}
    taken = {
        comptime.constant_integer(member.value, scope) for member in node.members if member.value is not None
    }
    following = 0
    for member in node.members:
        if member.name in members:
            raise CslError(member.at, f"{member.name} occurs twice in the enum")
        if member.value is not None:
            number = comptime.constant_integer(member.value, scope)
        else:
            while following in taken:
                following += 1
            number = following
            following += 1
        if backing.bits and not backing.low <= number <= backing.high:
            raise CslError(member.at, f"{number} does not fit in {backing}")
        members[member.name] = number
    return TypeValue(
        t.enumeration(comptime.session.named, node, backing, members, comptime.session.labels.get(node, ""))
    )
