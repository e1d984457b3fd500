"""Lower names, members, elements and pointers to the places of their values."""

from __future__ import annotations

from dataclasses import replace

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.expressions import member
from npuviz.targets.wavelet.csl.comptime.scope import Cell, Entry, FunctionValue, Global, ModuleValue
from npuviz.targets.wavelet.csl.comptime.values import ArrayValue, PointerValue, Scalar, StructValue, Value
from npuviz.targets.wavelet.csl.lower.dispatch import expression, lower, lower_held
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import (
    Bits,
    Held,
    Known,
    Local,
    Operand,
    Parts,
    Place,
    field_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa


@expression(tree.Name)
def _name(f: FunctionLowering, node: tree.Name, want: t.Type | None, into: int) -> Operand:
    return entry_operand(f, f.lookup(node.text, node.at), node)


def entry_operand(f: FunctionLowering, entry: object, node: tree.Expression) -> Operand:
    """Return the operand for what a name stands for."""
    if isinstance(entry, Local):
        return entry.operand
    if isinstance(entry, Global):
        if not entry.is_var and not is_aggregate(f.comptime.global_type(entry)):
            value = f.comptime.global_value(entry)
            if value is not None:
                return Known(value)
        return f.global_place(entry, node)
    if isinstance(entry, Cell) and entry.value is not None:
        return Known(entry.value)
    if isinstance(entry, Value):
        return Known(entry)
    raise CslError(node.at, "this name has no value here")


@expression(tree.Member)
def _member(f: FunctionLowering, node: tree.Member, want: t.Type | None, into: int) -> Operand:
    base = base_of(f, node.base)
    if isinstance(base, Known):
        return _known_member(f, base.value, node)
    return member_of(f, base, node.name, node.at)


def base_of(f: FunctionLowering, node: tree.Expression) -> Operand:
    """Lower the base of a member or element access; an aggregate stays where it is."""
    if isinstance(node, tree.Name):
        entry = f.lookup(node.text, node.at)
        if isinstance(entry, Global) and not entry.is_var:
            kind = f.comptime.global_type(entry)
            if isinstance(kind, t.ArrayType) and not t.is_comptime_only(kind):
                return f.global_place(entry, node)
        return entry_operand(f, entry, node)
    if isinstance(node, tree.Member):
        inner = base_of(f, node.base)
        if isinstance(inner, Known):
            return _known_member(f, inner.value, node)
        return member_of(f, inner, node.name, node.at)
    return lower(f, node)


def _known_member(f: FunctionLowering, value: Value, node: tree.Member) -> Operand:
    if isinstance(value, ModuleValue):
        entry: Entry | None = value.instance.member(node.name)
        if entry is None:
            name = value.instance.name or "the program"
            raise CslError(node.at, f"module {name} has no member {node.name}")
        if isinstance(entry, Global):
            is_array = isinstance(f.comptime.global_type(entry), t.ArrayType)
            if entry.is_var or (is_array and not t.is_comptime_only(f.comptime.global_type(entry))):
                return f.global_place(entry, node)
        return entry_operand(f, entry, node)
    if isinstance(value, PointerValue) and isinstance(value.target, Global) and value.target.is_var:
        return member_of(f, dereferenced(f, Known(value), node.at), node.name, node.at)
    return Known(member(f.comptime, value, node.name, node.at, f.scope))


def member_of(f: FunctionLowering, base: Operand, name: str, at: tree.Span) -> Operand:
    """Return a field of a struct."""
    if isinstance(base, Parts):
        part = base.fields.get(name)
        if part is None:
            raise CslError(at, f"{base.kind} has no field {name}")
        return part
    kind = base.type
    if isinstance(base, Place | Bits) and isinstance(kind, t.StructType):
        inner = kind.field_type(name)
        if inner is None:
            raise CslError(at, f"{kind} has no field {name}")
        return field_of(base, kind, name, inner)
    if isinstance(kind, t.PointerType) and isinstance(kind.pointee, t.StructType) and not kind.many:
        return member_of(f, dereferenced(f, base, at), name, at)
    raise CslError(at, f"a value of type {kind} has no field {name}")


# ---- pointers ----


@expression(tree.Dereference)
def _dereference(f: FunctionLowering, node: tree.Dereference, want: t.Type | None, into: int) -> Operand:
    return dereferenced(f, base_of(f, node.base), node.at)


def dereferenced(f: FunctionLowering, pointer: Operand, at: tree.Span) -> Place:
    """Return the place that a pointer points to."""
    kind = pointer.type
    if not isinstance(kind, t.PointerType):
        raise CslError(at, f".* needs a pointer, found {kind}")
    if kind.many:
        raise CslError(at, f"{kind} cannot be dereferenced", "index it, as in p[0]")
    if isinstance(pointer, Known) and isinstance(pointer.value, PointerValue):
        return Place(kind.pointee, -1, f.pe.pointer_address(pointer.value), is_mutable=not kind.const)
    return Place(kind.pointee, f.hold(pointer, at).register, is_mutable=not kind.const)


@expression(tree.AddressOf)
def _address(f: FunctionLowering, node: tree.AddressOf, want: t.Type | None, into: int) -> Operand:
    operand = base_of(f, node.operand) if isinstance(node.operand, tree.Name | tree.Member) else None
    if operand is None:
        operand = lower(f, node.operand)
    if isinstance(operand, Known) and isinstance(operand.value, FunctionValue):
        return operand
    if isinstance(operand, Bits):
        raise CslError(node.at, "a field of a packed type has no address", "read it into a variable")
    if not isinstance(operand, Place):
        raise CslError(node.at, "this has no address", "only variables and constants in memory have one")
    kind = t.pointer(operand.kind, False, not operand.is_mutable)
    return Held(kind, f.address(operand, into))


# ---- elements ----


@expression(tree.Index)
def _index(f: FunctionLowering, node: tree.Index, want: t.Type | None, into: int) -> Operand:
    base = base_of(f, node.base)
    kind = base.type
    if isinstance(base, Parts) or (isinstance(base, Known) and isinstance(base.value, StructValue)):
        return _tuple_element(f, base, node)
    if isinstance(kind, t.PointerType):
        return _pointed_element(f, base, kind, node)
    if not isinstance(kind, t.ArrayType):
        raise CslError(node.at, f"a value of type {kind} cannot be indexed")
    if isinstance(base, Known):
        base = _constant_place(f, base.value, node)
        if not isinstance(base, Place):
            return base
    if not isinstance(base, Place):
        raise CslError(node.at, f"a value of type {kind} cannot be indexed here")
    return element_place(f, base, kind.dimensions, kind.element, node)


def _tuple_element(f: FunctionLowering, base: Operand, node: tree.Index) -> Operand:
    if len(node.indices) != 1:
        raise CslError(node.at, "a tuple takes one index")
    index = f.require_known(node.indices[0], "the index of a tuple")
    name = str(index.integer) if isinstance(index, Scalar) else "?"
    if isinstance(base, Known):
        return Known(member(f.comptime, base.value, name, node.at, f.scope))
    return member_of(f, base, name, node.at)


def _constant_place(f: FunctionLowering, value: Value, node: tree.Index) -> Operand:
    """Return an element of a known array; if the index is not known, its place among the constants."""
    if not isinstance(value, ArrayValue):
        raise CslError(node.at, f"a value of type {value.type} cannot be indexed")
    known = [f.known(index) for index in node.indices]
    if all(isinstance(index, Scalar) for index in known):
        flat = 0
        for index, length in zip(known, value.kind.dimensions, strict=False):
            number = index.integer if isinstance(index, Scalar) else 0
            _check_index(number, length, node.at)
            flat = flat * length + number
        return Known(value.element(flat))
    if t.is_comptime_only(value.kind):
        raise CslError(node.at, f"an array of type {value.kind} needs a compile-time index")
    return f.constant(value.kind, f.pe.bytes_of(value, node.at), node.at)


def _pointed_element(f: FunctionLowering, base: Operand, kind: t.PointerType, node: tree.Index) -> Operand:
    is_mutable = not kind.const
    pointee = kind.pointee
    if isinstance(base, Known) and isinstance(base.value, PointerValue):
        place = Place(pointee, -1, f.pe.pointer_address(base.value), is_mutable=is_mutable)
    else:
        place = Place(pointee, f.hold(base, node.at).register, is_mutable=is_mutable)
    if not kind.many and isinstance(pointee, t.ArrayType):
        return element_place(f, place, pointee.dimensions, pointee.element, node)
    if not kind.many:
        raise CslError(node.at, f"{kind} cannot be indexed", "use .* or a pointer of type [*]T")
    return element_place(f, place, (0,), pointee, node)


def _check_index(index: int, length: int, at: tree.Span) -> None:
    if index < 0 or (length and index >= length):
        raise CslError(at, f"index {index} is outside 0..{length - 1}")


def element_place(
    f: FunctionLowering, base: Place, dimensions: tuple[int, ...], element: t.Type, node: tree.Index
) -> Place:
    """Return the place of an element; `dimensions` of an unbounded pointer is (0,)."""
    if len(node.indices) != len(dimensions):
        raise CslError(node.at, f"expected {len(dimensions)} indices, found {len(node.indices)}")
    offset, register = _flat_index(f, dimensions, node)
    offset *= element.size
    if register < 0:
        return base.at(offset, element)
    return replace(f.simple(base).at(offset, element), index=register, scale=element.size)


def _flat_index(f: FunctionLowering, dimensions: tuple[int, ...], node: tree.Index) -> tuple[int, int]:
    """Return (known part in elements, register of the rest or -1) of a row-major index."""
    constant, register = 0, -1
    weight = 1
    weights: list[int] = []
    for length in reversed(dimensions):
        weights.append(weight)
        weight *= length
    for index, length, step in zip(node.indices, dimensions, reversed(weights), strict=True):
        operand = lower(f, index)
        if not isinstance(operand.type, t.IntegerType):
            raise CslError(index.at, f"an index must be an integer, found {operand.type}")
        if isinstance(operand, Known) and isinstance(operand.value, Scalar):
            if length:
                _check_index(operand.value.integer, length, index.at)
            constant += operand.value.integer * step
            continue
        part = f.hold(operand, index.at).register
        if step != 1:
            scaled = f.take()
            f.emitter.emit(isa.OP_MUL, scaled, part, -1, step, 0, isa.T_I32)
            part = scaled
        if register >= 0:
            total = f.take()
            f.emitter.emit(isa.OP_ADD, total, register, part, 0, 0, isa.T_I32)
            part = total
        register = part
    return constant, register


# ---- aggregates ----


def read_now(f: FunctionLowering, operand: Operand, at: tree.Span) -> Operand:
    """Read a part of an aggregate before the aggregate is written, perhaps to the same place."""
    if not isinstance(operand, Place) or operand.is_stable:
        return operand
    if not is_aggregate(operand.kind):
        return f.hold(operand, at)
    place = f.frame_place(operand.kind)
    f.copy(place, operand)
    return replace(place, is_stable=True)


@expression(tree.StructLiteral)
def _struct(f: FunctionLowering, node: tree.StructLiteral, want: t.Type | None, into: int) -> Operand:
    kind = want
    if node.type is not None:
        value = f.require_known(node.type, "a type", t.TYPE)
        kind = getattr(value, "denotes", None)
        if not isinstance(kind, t.StructType):
            raise CslError(node.type.at, f"expected a struct type, found {kind}")
    fields: dict[str, Operand] = {}
    for part in node.fields:
        if part.name in fields:
            raise CslError(part.at, f"field {part.name} occurs twice")
        hint = kind.field_type(part.name) if isinstance(kind, t.StructType) else None
        fields[part.name] = read_now(f, lower(f, part.value, hint), part.value.at)
    parts = Parts(t.anonymous_struct(tuple(fields), tuple(part.type for part in fields.values())), fields)
    return f.coerce(parts, kind, node.at) if node.type is not None and kind is not None else parts


@expression(tree.TupleLiteral)
def _tuple(f: FunctionLowering, node: tree.TupleLiteral, want: t.Type | None, into: int) -> Operand:
    parts = [read_now(f, lower(f, element), element.at) for element in node.elements]
    kind = t.tuple_type(tuple(part.type for part in parts))
    return Parts(kind, dict(zip(kind.names, parts, strict=True)))


@expression(tree.ArrayLiteral)
def _array(f: FunctionLowering, node: tree.ArrayLiteral, want: t.Type | None, into: int) -> Operand:
    value = f.require_known(node.type, "a type", t.TYPE)
    kind = getattr(value, "denotes", None)
    if not isinstance(kind, t.ArrayType):
        raise CslError(node.type.at, "expected an array type")
    if len(node.elements) != kind.count:
        raise CslError(node.at, f"{kind} has {kind.count} elements, found {len(node.elements)}")
    place = f.frame_place(kind)
    for number, element in enumerate(node.elements):
        mark = f.registers.next
        target = place.at(number * kind.element.size, kind.element)
        if is_aggregate(kind.element):
            f.store(target, f.coerce(lower(f, element, kind.element), kind.element, element.at), element.at)
        else:
            f.store(target, lower_held(f, element, kind.element), element.at)
        f.registers.release(mark)
    return place
