"""Find places and pointers at compile time: what `&A[2]` points to, loads, stores of single elements."""

from __future__ import annotations

from dataclasses import replace

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import (
    Cell,
    FunctionValue,
    Global,
    ModuleValue,
    RuntimeLocal,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.values import (
    ArrayValue,
    PointerValue,
    StructValue,
    Value,
    to_element,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span


def place(comptime: Comptime, node: Expression, scope: Scope) -> PointerValue:
    """Return a pointer to what `node` names. Raises NotComptime, or CslError if it names no place."""
    if isinstance(node, tree.Name):
        return _of_entry(comptime, comptime.lookup(node.text, scope, node.at), node.at)
    if isinstance(node, tree.Dereference):
        return _dereferenced(comptime, node, scope)
    if isinstance(node, tree.Index):
        return indexed(comptime, _base(comptime, node.base, scope), node, scope)
    if isinstance(node, tree.Member):
        return _member(comptime, node, scope)
    raise CslError(node.at, "this has no address", "only variables, elements and fields have one")


def _of_entry(comptime: Comptime, entry: object, at: Span) -> PointerValue:
    if isinstance(entry, Global):
        return PointerValue(t.pointer(comptime.global_type(entry), const=not entry.is_var), entry)
    if isinstance(entry, Cell):
        return PointerValue(t.pointer(entry.kind, const=not entry.mutable), entry)
    if isinstance(entry, RuntimeLocal):
        raise NotComptime(at, f"the address of {entry.name} is only known at run time")
    if isinstance(entry, FunctionValue):
        raise CslError(at, f"{entry.node.name} is a function: it has no elements or fields")
    if isinstance(entry, Value):
        cell = Cell("constant", entry.type, entry, mutable=False)
        return PointerValue(t.pointer(entry.type, const=True), cell)
    raise CslError(at, "this has no address")


def _dereferenced(comptime: Comptime, node: tree.Dereference, scope: Scope) -> PointerValue:
    value = comptime.evaluate(node.base, scope)
    if not isinstance(value, PointerValue):
        raise CslError(node.at, f".* needs a pointer, found {value.type}")
    if value.kind.many:
        raise CslError(node.at, f"{value.kind} cannot be dereferenced", "index it: p[0]")
    return value


def _base(comptime: Comptime, node: Expression, scope: Scope) -> PointerValue:
    """Return the place that an index or member applies to; for a pointer variable, the place that it points
    to."""
    try:
        found = place(comptime, node, scope)
    except NotComptime:
        raise
    except CslError:
        value = comptime.evaluate(node, scope)
        if isinstance(value, PointerValue):
            return value
        raise
    if isinstance(found.kind.pointee, t.PointerType):
        value = comptime.evaluate(node, scope)
        if isinstance(value, PointerValue):
            return value
    return found


def _member(comptime: Comptime, node: tree.Member, scope: Scope) -> PointerValue:
    base = comptime.try_evaluate(node.base, scope)
    if isinstance(base, ModuleValue):
        return _of_entry(comptime, comptime.module(base.instance, node.name, node.at), node.at)
    pointer = _base(comptime, node.base, scope)
    kind = pointer.kind.pointee
    if not isinstance(kind, t.StructType):
        raise CslError(node.at, f"{kind} has no field .{node.name}")
    inner = kind.field_type(node.name)
    if inner is None:
        raise CslError(node.at, f"{kind} has no field .{node.name}", f"it has {', '.join(kind.names)}")
    return PointerValue(
        t.pointer(inner, const=pointer.kind.const),
        pointer.target,
        (*pointer.path, node.name),
        pointer.offset + kind.field_offset(node.name),
    )


def static_type(comptime: Comptime, node: Expression, scope: Scope) -> t.Type:
    """Return the type of an expression, even if its value is only known at run time."""
    if isinstance(node, tree.Name):
        entry = comptime.lookup(node.text, scope, node.at)
        if isinstance(entry, RuntimeLocal):
            return entry.type
    try:
        return place(comptime, node, scope).kind.pointee
    except CslError:
        pass
    try:
        return comptime.evaluate(node, scope).type
    except NotComptime:
        if comptime.runtime_type is None:
            raise
        return comptime.runtime_type(node, scope)


def indexed(comptime: Comptime, pointer: PointerValue, node: tree.Index, scope: Scope) -> PointerValue:
    """Return a pointer to the element that the indices choose."""
    numbers = [comptime.constant_integer(index, scope) for index in node.indices]
    pointee = pointer.kind.pointee
    if not pointer.kind.many and isinstance(pointee, t.ArrayType):
        return element_pointer(pointer, flat_index(pointee, numbers, node.at))
    if not pointer.kind.many:
        raise CslError(node.at, f"{pointee} cannot be indexed")
    if len(numbers) != 1:
        raise CslError(node.at, f"{pointer.kind} takes one index, found {len(numbers)}")
    return element_pointer(pointer, numbers[0])


def flat_index(kind: t.ArrayType, numbers: list[int], at: Span) -> int:
    """Return the row-major position of indices. Raises CslError for a wrong number of indices or one out of
    range."""
    if len(numbers) != len(kind.dimensions):
        raise CslError(at, f"{kind} takes {len(kind.dimensions)} indices, found {len(numbers)}")
    flat = 0
    for number, dimension in zip(numbers, kind.dimensions, strict=True):
        if not 0 <= number < dimension:
            raise CslError(at, f"index {number} is outside of 0 to {dimension - 1} of {kind}")
        flat = flat * dimension + number
    return flat


def element_pointer(pointer: PointerValue, index: int) -> PointerValue:
    """Return a pointer to element `index` of the array (or many-pointer) that `pointer` points to."""
    element = pointer.kind.element
    path = pointer.path
    inner = _type_at(pointer)
    if isinstance(inner, t.ArrayType):
        path = (*path, index)
    elif path and isinstance(path[-1], int):
        path = (*path[:-1], path[-1] + index)
    kind = t.pointer(element, const=pointer.kind.const)
    return PointerValue(kind, pointer.target, path, pointer.offset + index * element.size)


def is_bits(pointer: PointerValue) -> bool:
    """Return whether the path leads to bits of a packed type, which have no address."""
    holder = _type_at(replace(pointer, path=pointer.path[:-1])) if pointer.path else None
    return isinstance(holder, t.StructType) and bool(holder.bits)


def _type_at(pointer: PointerValue) -> t.Type | None:
    """Return the type of what is stored where the path leads."""
    if pointer.target is None:
        return None
    kind: t.Type | None = pointer.target.storage_type
    for step in pointer.path:
        if isinstance(kind, t.ArrayType) and isinstance(step, int):
            kind = kind.element
        elif isinstance(kind, t.StructType) and isinstance(step, str):
            kind = kind.field_type(step)
        else:
            return None
    return kind


def load(comptime: Comptime, pointer: PointerValue, scope: Scope, at: Span) -> Value:
    """Return the value that a pointer points to."""
    target = pointer.target
    if isinstance(target, Global):
        value: Value | None = comptime.read_global(target, scope, at)
    elif isinstance(target, Cell):
        value = target.value
        if value is None:
            raise CslError(at, f"{target.name} has no value yet")
    else:
        raise NotComptime(at, "what this points to is only known at run time")
    for step in pointer.path:
        if isinstance(value, ArrayValue) and isinstance(step, int):
            if not 0 <= step < value.kind.count:
                raise CslError(at, f"element {step} is outside of {value.kind}")
            value = value.element(step)
        elif isinstance(value, StructValue) and isinstance(step, str):
            if step not in value.fields:
                raise CslError(at, f"{value.kind} holds .{', .'.join(value.fields)} now, not .{step}")
            value = value.fields[step]
        else:
            raise NotComptime(at, "memory of another type is not read at compile time")
    if value.type is not pointer.kind.pointee and not (
        isinstance(value, ArrayValue) and value.kind.element is pointer.kind.pointee
    ):
        raise NotComptime(at, "memory of another type is not read at compile time")
    return value


def store(comptime: Comptime, pointer: PointerValue, value: Value, at: Span) -> None:
    """Store `value`, converted, at the place that `pointer` points to."""
    if pointer.kind.const:
        raise CslError(at, "this is constant", "declare it var")
    target = pointer.target
    value = comptime.coerce(value, pointer.kind.pointee, at)
    if pointer.path and target is not None:
        # The surrounding array or struct is copied.
        comptime.spend(at, (target.storage_type or t.VOID).size >> 14)
    if isinstance(target, Global):
        comptime.memo.effects += 1
        target.value = _replaced(comptime.global_value(target), target.storage_type, pointer.path, value, at)
    elif isinstance(target, Cell):
        target.value = _replaced(target.value, target.kind, pointer.path, value, at)
    else:
        raise NotComptime(at, "this memory only exists at run time")


def _replaced(old: Value | None, kind: t.Type, path: tuple[int | str, ...], value: Value, at: Span) -> Value:
    """Return `old` with the part at `path` replaced."""
    if not path:
        return value
    step = path[0]
    if old is None:
        raise CslError(at, "its elements have no value yet", "start from @zeros")
    if isinstance(old, ArrayValue) and isinstance(step, int):
        if not 0 <= step < old.kind.count:
            raise CslError(at, f"element {step} is outside of {old.kind}")
        if len(path) == 1:
            data = old.data.copy()
            data[step] = to_element(value)
            return ArrayValue(old.kind, data)
        return old.replaced(step, _replaced(old.element(step), old.kind.element, path[1:], value, at))
    if isinstance(old, StructValue) and isinstance(step, str):
        fields = {} if old.kind.is_union else dict(old.fields)
        inner = old.kind.field_type(step) or t.VOID
        fields[step] = _replaced(old.fields.get(step), inner, path[1:], value, at)
        return StructValue(old.kind, fields)
    raise CslError(at, f"{kind} has no element {step}")
