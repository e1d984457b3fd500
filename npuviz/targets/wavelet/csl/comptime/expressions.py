"""Evaluate expressions other than types, with one function per node class."""

from __future__ import annotations

from typing import Any

from npuviz.targets.wavelet.csl.comptime import memory, operators, statements, tensor
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import EXPRESSIONS, Comptime, expression
from npuviz.targets.wavelet.csl.comptime.scope import (
    PREDEFINED_VALUES,
    FunctionValue,
    Global,
    ModuleValue,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.values import (
    FALSE,
    TRUE,
    VOID,
    ArrayValue,
    PointerValue,
    Scalar,
    StringValue,
    StructValue,
    TypeValue,
    Value,
    boolean_of,
    integer_of,
    make_array,
    too_many_parts,
    tuple_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime, similar
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span

# ---- literals, names ----


@expression(tree.IntegerLiteral)
def _integer(comptime: Comptime, node: tree.IntegerLiteral, scope: Scope) -> Value:
    value = _small.get(node.value)
    return Scalar(t.COMPTIME_INT, node.value) if value is None else value


_small = {number: Scalar(t.COMPTIME_INT, number) for number in range(256)}


@expression(tree.FloatLiteral)
def _float(comptime: Comptime, node: tree.FloatLiteral, scope: Scope) -> Value:
    return Scalar(t.COMPTIME_FLOAT, node.value)


@expression(tree.BooleanLiteral)
def _boolean(comptime: Comptime, node: tree.BooleanLiteral, scope: Scope) -> Value:
    return TRUE if node.value else FALSE


@expression(tree.StringLiteral)
def _string(comptime: Comptime, node: tree.StringLiteral, scope: Scope) -> Value:
    return StringValue(node.value)


@expression(tree.VoidLiteral)
def _void(comptime: Comptime, node: tree.VoidLiteral, scope: Scope) -> Value:
    return VOID


@expression(tree.Name)
def _name(comptime: Comptime, node: tree.Name, scope: Scope) -> Value:
    # the most frequent node of all: the first steps of `lookup` and `read` are repeated here for speed
    text = node.text
    block: Scope | None = scope
    while block is not None:
        entry = block.names.get(text)
        if entry is not None:
            break
        block = block.parent
    else:
        instance = scope.instance
        entry = instance.members.get(text)
        if entry is None:
            entry = None if text in instance.declarations else PREDEFINED_VALUES.get(text)
            entry = entry or comptime.lookup(text, scope, node.at)
    if (
        isinstance(entry, Global)
        and entry.state == 4
        and entry.node.kind != "var"
        and entry.value is not None
    ):
        return entry.value
    return entry if isinstance(entry, Value) else comptime.read(entry, scope, node.at)


# ---- access ----


def member(comptime: Comptime, value: Value, name: str, at: Span, scope: Scope | None) -> Value:
    """Evaluate `value.name`."""
    if isinstance(value, ModuleValue):
        entry = comptime.module(value.instance, name, at)
        return comptime.read(entry, scope or value.instance.scope, at)
    if isinstance(value, StructValue):
        found = value.fields.get(name)
        if found is None:
            raise CslError(at, f"there is no field .{name}", similar(name, value.fields))
        return found
    if isinstance(value, TypeValue) and isinstance(value.denotes, t.EnumType):
        number = value.denotes.members.get(name)
        if number is None:
            raise CslError(at, f"{value.denotes} has no member {name}", similar(name, value.denotes.members))
        return Scalar(value.denotes, number)
    if isinstance(value, PointerValue) and isinstance(value.kind.pointee, t.StructType):
        inner = memory.load(comptime, value, scope or Scope(_anywhere(value)), at)
        return member(comptime, inner, name, at, scope)
    raise CslError(at, f"{value.type} has no member {name}")


def _anywhere(value: PointerValue) -> Any:
    return getattr(value.target, "instance", None)


@expression(tree.Member)
def _member(comptime: Comptime, node: tree.Member, scope: Scope) -> Value:
    return member(comptime, comptime.evaluate(node.base, scope), node.name, node.at, scope)


def index(
    comptime: Comptime, base: Value, indices: tuple[Value, ...], at: Span, scope: Scope | None = None
) -> Value:
    """Evaluate `base[indices]` of an array, a tuple or a pointer."""
    numbers = [integer_of(number, at) for number in indices]
    if isinstance(base, ArrayValue):
        return base.element(memory.flat_index(base.kind, numbers, at))
    if isinstance(base, StructValue) and base.kind.is_tuple and len(numbers) == 1:
        if not 0 <= numbers[0] < len(base.fields):
            raise CslError(at, f"element {numbers[0]} of a tuple with {len(base.fields)} elements")
        return base.fields[str(numbers[0])]
    if isinstance(base, PointerValue):
        pointee = base.kind.pointee
        if not base.kind.many and isinstance(pointee, t.ArrayType):
            element = memory.element_pointer(base, memory.flat_index(pointee, numbers, at))
        elif base.kind.many and len(numbers) == 1:
            element = memory.element_pointer(base, numbers[0])
        else:
            raise CslError(at, f"{base.kind} cannot be indexed like this")
        return memory.load(comptime, element, scope or Scope(_anywhere(base)), at)
    raise CslError(at, f"{base.type} cannot be indexed")


@expression(tree.Index)
def _index(comptime: Comptime, node: tree.Index, scope: Scope) -> Value:
    base = comptime.evaluate(node.base, scope)
    return index(comptime, base, tuple(comptime.evaluate(i, scope) for i in node.indices), node.at, scope)


@expression(tree.Dereference)
def _dereference(comptime: Comptime, node: tree.Dereference, scope: Scope) -> Value:
    return memory.load(comptime, memory.place(comptime, node, scope), scope, node.at)


@expression(tree.AddressOf)
def _address_of(comptime: Comptime, node: tree.AddressOf, scope: Scope) -> Value:
    function = _function_named(comptime, node.operand, scope)
    if function is not None:
        return function
    found = memory.place(comptime, node.operand, scope)
    if memory.is_bits(found):
        raise CslError(node.at, "a field of a packed type has no address", "read it into a variable")
    return found


def _function_named(comptime: Comptime, node: tree.Expression, scope: Scope) -> FunctionValue | None:
    """Return the function that a name or a member of a module stands for: its address is the function
    value."""
    entry: object = None
    if isinstance(node, tree.Name):
        entry = comptime.lookup(node.text, scope, node.at)
    elif isinstance(node, tree.Member) and isinstance(node.base, tree.Name):
        module = comptime.lookup(node.base.text, scope, node.base.at)
        if isinstance(module, Global) and not module.is_var:
            module = comptime.global_value(module)
        entry = module.instance.member(node.name) if isinstance(module, ModuleValue) else None
    return entry if isinstance(entry, FunctionValue) else None


@expression(tree.TensorAccess)
def _tensor_access(comptime: Comptime, node: tree.TensorAccess, scope: Scope) -> Value:
    return tensor.value(comptime, node, scope)


# ---- calls ----


@expression(tree.Call)
def _call(comptime: Comptime, node: tree.Call, scope: Scope) -> Value:
    callee = comptime.evaluate(node.callee, scope)
    if scope.runtime:
        if not (isinstance(callee, FunctionValue) and _gives_a_type(callee)):
            raise NotComptime(
                node.at, "a call is executed at run time unless `comptime` is written before it"
            )
        scope = scope.child(runtime=False)
    if isinstance(callee, PointerValue) and isinstance(callee.kind.pointee, t.FunctionType):
        callee = memory.load(comptime, callee, scope, node.at)
    if not isinstance(callee, FunctionValue):
        raise CslError(node.at, f"a value of type {callee.type} cannot be called")
    arguments = [EXPRESSIONS[item.__class__](comptime, item, scope) for item in node.arguments]
    return comptime.call(callee, arguments, node.at, scope.depth)


def _gives_a_type(function: FunctionValue) -> bool:
    """Return whether a function's result exists at compile time only, so that all its calls happen then."""
    result = function.node.result
    kind = t.named_type(result.text) if isinstance(result, tree.Name) else None
    return kind is not None and t.is_comptime_only(kind)


@expression(tree.ComptimeExpression)
def _comptime(comptime: Comptime, node: tree.ComptimeExpression, scope: Scope) -> Value:
    return comptime.evaluate(node.operand, scope.child(runtime=False) if scope.runtime else scope)


# ---- operators ----


@expression(tree.Unary)
def _unary(comptime: Comptime, node: tree.Unary, scope: Scope) -> Value:
    comptime.work += 1
    return operators.unary(node.operator, comptime.evaluate(node.operand, scope), node.at)


@expression(tree.Binary)
def _binary(comptime: Comptime, node: tree.Binary, scope: Scope) -> Value:
    # frequent: what `evaluate` does without an expected type
    comptime.work += 1
    symbol, first, second = node.operator, node.left, node.right
    left = EXPRESSIONS[first.__class__](comptime, first, scope)
    if symbol in ("and", "or"):
        if boolean_of(left, first.at) == (symbol == "or"):
            return left
        right = EXPRESSIONS[second.__class__](comptime, second, scope)
        boolean_of(right, second.at)
        return right
    return operators.binary(symbol, left, EXPRESSIONS[second.__class__](comptime, second, scope), node.at)


# ---- control flow ----


@expression(tree.IfExpression)
def _if(comptime: Comptime, node: tree.IfExpression, scope: Scope) -> Value:
    if boolean_of(comptime.evaluate(node.condition, scope), node.condition.at):
        return EXPRESSIONS[node.then.__class__](comptime, node.then, scope)
    return VOID if node.otherwise is None else comptime.evaluate(node.otherwise, scope)


@expression(tree.SwitchExpression)
def _switch(comptime: Comptime, node: tree.SwitchExpression, scope: Scope) -> Value:
    prong = statements.chosen_prong(comptime, node.subject, node.prongs, scope)
    if prong is None:
        raise CslError(node.at, "no prong of the switch applies", "add else =>")
    assert isinstance(prong.body, Expression)
    return comptime.evaluate(prong.body, scope)


@expression(tree.BlockExpression)
def _block(comptime: Comptime, node: tree.BlockExpression, scope: Scope) -> Value:
    if scope.runtime:
        raise NotComptime(node.at, "a block is executed at run time")
    jump = comptime.execute_block(node.block, scope.child())
    if jump is None:
        return VOID
    if jump.kind == "break" and jump.label == node.block.label:
        return jump.value
    raise CslError(node.at, f"{jump.kind} leaves a block that is a value")


# ---- aggregates ----


@expression(tree.ArrayLiteral)
def _array(comptime: Comptime, node: tree.ArrayLiteral, scope: Scope) -> Value:
    kind = comptime.type_expression(node.type, scope)
    assert isinstance(kind, t.ArrayType)
    comptime.work += len(node.elements)
    if len(node.elements) != kind.count:
        raise CslError(node.at, f"{kind} has {kind.count} elements, found {len(node.elements)}")
    element = kind.element
    return make_array(kind, [comptime.evaluate(item, scope, element) for item in node.elements])


@expression(tree.StructLiteral)
def _struct(comptime: Comptime, node: tree.StructLiteral, scope: Scope) -> Value:
    fields = {
        field.name: EXPRESSIONS[field.value.__class__](comptime, field.value, scope) for field in node.fields
    }
    comptime.work += len(fields)
    kind = t.anonymous_struct(tuple(fields), tuple([value.type for value in fields.values()]))
    if kind.parts > t.MAX_STRUCT_PARTS:
        raise too_many_parts(node.at)
    value = StructValue(kind, fields)
    if node.type is None:
        return value
    target = comptime.type_expression(node.type, scope)
    if not isinstance(target, t.StructType):
        raise CslError(node.at, f"{target} is not a struct type")
    return comptime.coerce(value, target, node.at)


@expression(tree.TupleLiteral)
def _tuple(comptime: Comptime, node: tree.TupleLiteral, scope: Scope) -> Value:
    value = tuple_of([EXPRESSIONS[item.__class__](comptime, item, scope) for item in node.elements])
    comptime.work += len(node.elements)
    if value.kind.parts > t.MAX_STRUCT_PARTS:
        raise too_many_parts(node.at)
    return value
